"""What a report is about: an estimator, the rows it learnt from, and rows it did not see."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted

from vicinal.core.types import Array
from vicinal.estimators._pairs import TupleLearnerMixin
from vicinal.estimators.from_labels import FromLabels
from vicinal.estimators.ksne import KSNE
from vicinal.fit.report import HAS_CALLBACKS
from vicinal.reporting.recording import Recorder

_MOST_HELD_OUT = 10_000


@dataclass(frozen=True)
class Part:
    """Rows of a table with their labels and names: those that were learnt from, or others."""

    X: Any
    y: Array | None
    names: list[str]
    rows: Array  # their numbers among all rows that were given

    def __len__(self) -> int:
        return len(self.names)

    def take(self, rows: Array) -> Part:
        """Some of the rows."""
        y = None if self.y is None else self.y[rows]
        return Part(_safe_indexing(self.X, rows), y, [self.names[i] for i in rows], self.rows[rows])


@dataclass(frozen=True)
class Fitted:
    """A fitted estimator, and what its fit told on the way."""

    model: Any
    seconds: float | None = None
    recorder: Recorder | None = None
    messages: list[str] = field(default_factory=list)

    @property
    def learner(self) -> Any:
        """The last step, which learnt the metric."""
        return learner_of(self.model)

    def prepared(self, X: Any) -> Any:
        """Rows as the learner sees them."""
        if isinstance(self.model, Pipeline) and len(self.model.steps) > 1:
            X = self.model[:-1].transform(X)
        return X


def parts_of(X: Any, y: Any, X_test: Any, y_test: Any) -> tuple[Part, Part | None]:
    """The rows as given, and those for testing if there are any."""
    whole = _part(X, y, "")
    if X_test is None:
        if y_test is not None:
            raise ValueError("The 'X_test' parameter of report is missing: there is a 'y_test'.")
        return whole, None
    if (y is None) != (y_test is None):
        missing = "y" if y is None else "y_test"
        raise ValueError(f"The {missing!r} parameter of report is missing: both tables need one.")
    return whole, _part(X_test, y_test, "_test", len(whole))


def _part(X: Any, y: Any, suffix: str, first: int = 0) -> Part:
    """A table with its labels; its rows are numbered from ``first``."""
    if not hasattr(X, "shape"):
        X = np.asarray(X)
    if len(X.shape) != 2:
        raise ValueError(
            f"The 'X{suffix}' parameter of report must have two dimensions. Got "
            f"{len(X.shape)} instead."
        )
    X = X.tocsr() if sp.issparse(X) else X
    n = int(X.shape[0])
    if n < 2 and not suffix:
        raise ValueError(f"The 'X' parameter of report must have at least 2 rows. Got {n} instead.")
    labels = None if y is None else _labels(y, n, f"y{suffix}")
    return Part(X, labels, _names(X, n, suffix), np.arange(first, first + n))


def _labels(y: Any, n: int, name: str) -> Array:
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.shape != (n,):
        raise ValueError(
            f"The {name!r} parameter of report must have one label for each of the {n} rows. Got "
            f"shape {labels.shape} instead."
        )
    missing = np.array([value is None or value != value for value in labels.tolist()])
    if missing.any():
        raise ValueError(
            f"The {name!r} parameter of report has no label in row {int(np.argmax(missing))}. "
            "Leave such rows out."
        )
    return labels


def _names(X: Any, n: int, suffix: str) -> list[str]:
    """The index of a data frame if it has one of its own, else row numbers."""
    index = getattr(X, "index", None)
    if index is not None and hasattr(X, "iloc"):
        labels = index.tolist()
        if labels != list(range(n)):
            return [str(label) for label in labels]
    prefix = "test row" if suffix else "row"
    return [f"{prefix} {i}" for i in range(n)]


def embedded(learner: Any, prepared: Any) -> Array:
    """Rows in the learnt space; the names of their columns are known to be the same."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        return np.asarray(learner.transform(prepared))


def learner_of(model: Any) -> Any:
    """The estimator that learns: the last step of a pipeline, or the model itself."""
    return model.steps[-1][1] if isinstance(model, Pipeline) else model


def learns_labels(learner: Any) -> bool:
    """Whether a learner uses labels; KSNE ignores them."""
    return not isinstance(learner, KSNE)


def name_of(learner: Any) -> str:
    """What people call the method."""
    return type(learner.learner if isinstance(learner, FromLabels) else learner).__name__


def is_fitted(model: Any) -> bool:
    """Whether the estimator has been fitted."""
    try:
        check_is_fitted(model)
    except NotFittedError:
        return False
    return True


def check_estimator(model: Any) -> None:
    """Refuse what has no map, and learners of pairs that are not fitted yet."""
    learner = learner_of(model)
    name = type(learner).__name__
    if isinstance(learner, type) or not hasattr(learner, "transform"):
        raise TypeError(
            "The 'estimator' parameter of report must be an estimator of vicinal, or a Pipeline "
            f"that ends in one. Got {model!r} instead."
        )
    if learner.__sklearn_tags__().input_tags.pairwise:
        raise ValueError(
            f"report shows rows, and {name} was given distances: metric={learner.metric!r}."
        )
    if isinstance(learner, TupleLearnerMixin) and not is_fitted(model):
        raise ValueError(
            f"{name} learns from pairs or quadruplets, and report has rows. Fit it first, or use "
            f"FromLabels({name}()) to learn from class labels."
        )


def kind_of_target(model: Any, y: Array | None) -> str:
    """What the rows are coloured by: "classes", "numbers" or "none"."""
    if y is None:
        return "none"
    if is_regressor(learner_of(model)):
        return "numbers"
    labels = hasattr(learner_of(model), "classes_") or not _is_continuous(y)
    return "classes" if labels else "numbers"


def _is_continuous(y: Array) -> bool:
    if y.dtype.kind in "OUSb":
        return False
    if not np.all(np.isfinite(y.astype(np.float64))):
        raise ValueError("The labels 'y' of report must be finite. Got a missing or infinite one.")
    return type_of_target(y).startswith("continuous")


def split(whole: Part, kind: str, share: float, rng: np.random.RandomState) -> tuple[Part, Part]:
    """Training rows and held-out rows, at least two of each class being kept for training."""
    n = len(whole)
    most = min(share, _MOST_HELD_OUT / n)
    if whole.y is None or kind == "none":
        chosen = np.empty(0, np.intp)
    elif kind == "numbers":
        chosen = rng.permutation(n)[: int(most * n)]
    else:
        codes = np.unique(whole.y, return_inverse=True)[1]
        groups = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
        picked = [rng.permutation(g)[: max(0, min(int(most * len(g)), len(g) - 2))] for g in groups]
        chosen = np.concatenate(picked)
    held_out = np.zeros(n, bool)
    held_out[chosen] = True
    return whole.take(np.flatnonzero(~held_out)), whole.take(np.flatnonzero(held_out))


def fit(estimator: Any, train: Part, time_budget: float | None) -> Fitted:
    """Fit a clone, with a recorder of the way where callbacks can be set."""
    model = clone(estimator)
    learner = learner_of(model)
    if time_budget is not None and learner.get_params().get("time_budget", 0) is None:
        learner.set_params(time_budget=time_budget)
    recorder, own = None, getattr(learner, "_skl_callbacks", ())
    if HAS_CALLBACKS and hasattr(learner, "set_callbacks"):
        recorder = Recorder()
        learner.set_callbacks(*own, recorder)
    began = time.monotonic()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(train.X) if train.y is None else model.fit(train.X, train.y)
    seconds = time.monotonic() - began
    if recorder is not None:
        learner.set_callbacks(*own)
    messages = list(dict.fromkeys(str(w.message) for w in caught if _is_ours(w)))
    for w in caught:
        warnings.warn_explicit(w.message, w.category, w.filename, w.lineno)
    return Fitted(model, seconds, recorder, messages)


def _is_ours(caught: warnings.WarningMessage) -> bool:
    return not issubclass(caught.category, DeprecationWarning | FutureWarning)
