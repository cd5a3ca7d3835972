"""The methods of a comparison: how each is built, fitted to a fold and scored."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import accuracy_score, r2_score
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing

from vicinal._validation import warn
from vicinal.core.types import Array
from vicinal.learner.build import make_learner, make_preparation
from vicinal.learner.methods import find_method
from vicinal.model_selection._comparison import MethodScores, corrected_error

_BASELINES = ("euclidean", "pca", "lda")
_KEPT_VARIANCE = 0.95  # of the scaled columns, by PCA without a rank
_SPARSE_RANK = 32  # of PCA without a rank, if the table is sparse


@dataclass
class Rival:
    """A method in the comparison, and what it has reached so far."""

    name: str
    model: Any  # an unfitted Pipeline
    kind: str
    n_neighbors: int
    scores: list[float] = field(default_factory=list)
    own: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    told: Counter[str] = field(default_factory=Counter)
    n_components: int = 0
    budget: float | None = None

    def compete(self, X: Any, y: Array, train: Array, test: Array) -> None:
        """Fit the method to the training rows of a fold, and score the others."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                self._compete(_safe_indexing(X, train), y[train], _safe_indexing(X, test), y[test])
            except ValueError as error:
                raise ValueError(f"Method {self.name!r}: {error}") from error
        self.told.update(str(w.message) for w in caught if issubclass(w.category, UserWarning))

    def _compete(self, X: Any, y: Array, X_test: Any, y_test: Array) -> None:
        voters = KNeighborsClassifier if self.kind == "classes" else KNeighborsRegressor
        score = accuracy_score if self.kind == "classes" else r2_score
        model = clone(self.model)
        if self.budget is not None:
            model.set_params(**{str(self.time_parameter): self.budget})
        began = time.perf_counter()
        model.fit(X, y)
        self.seconds.append(time.perf_counter() - began)
        Z, new = model.transform(X), model.transform(X_test)
        vote = voters(min(self.n_neighbors, len(y))).fit(Z, y)
        self.scores.append(float(score(y_test, vote.predict(new))))
        self.n_components = int(Z.shape[1])
        if hasattr(model, "predict"):
            self.own.append(float(score(y_test, model.predict(X_test))))

    def result(self, plain: Rival | None, test_share: float) -> MethodScores:
        """The scores with their means and errors, and the difference to the plain distance."""
        scores = np.array(self.scores)
        own = np.array(self.own) if self.own else None
        gain = None if plain is None or plain is self else scores - np.array(plain.scores)
        mean, error = float(scores.mean()), corrected_error(scores, test_share)
        own_mean, own_error = _mean_and_error(own, test_share)
        difference, difference_error = _mean_and_error(gain, test_share)
        return MethodScores(
            self.name, scores, mean, error, own, own_mean, own_error, difference, difference_error,
            self.n_components, float(np.mean(self.seconds)), list(self.told),
        )  # fmt: skip

    @property
    def time_parameter(self) -> str | None:
        """The name of the parameter that limits the time of a fit, if the method has one."""
        names = self.model.get_params()
        return next((name for name in names if name.rpartition("__")[2] == "time_budget"), None)

    def repeat_warnings(self) -> None:
        """Say once what the fits of the folds have warned of."""
        if self.told:
            more = self.told.total() - 1
            also = f" (and {more} more warnings in the folds)" if more else ""
            warn(f"{self.name}: {next(iter(self.told))}{also}")


def _mean_and_error(scores: Array | None, test_share: float) -> tuple[float | None, float | None]:
    if scores is None:
        return None, None
    return float(scores.mean()), corrected_error(scores, test_share)


def make_rival(
    method: Any, X: Any, y: Array, kind: str, n_neighbors: int, *, n_components: Any,
    random_state: int, columns: dict[str, Any],
) -> Rival:  # fmt: skip
    """A method by its name, or an estimator with a name."""
    options = {"random_state": random_state, **columns}
    if isinstance(method, str) and method not in _BASELINES:
        info = find_method(method)
        _check_kind(method, info.target, kind)
        rank = n_components if "n_components" in info.parameters() else None
        model = make_learner(X, y, method, n_components=rank, **options)
        return Rival(method, model, kind, n_neighbors)
    if isinstance(method, str):
        if method == "lda":
            _check_kind(method, "classes", kind)
        prepare = ("prepare", make_preparation(X, **options))
        learn = _baseline(method, X, y, n_components, random_state)
        return Rival(method, Pipeline([prepare, *learn]), kind, n_neighbors)
    if not (isinstance(method, tuple) and len(method) == 2 and isinstance(method[0], str)):
        raise TypeError(
            "The 'methods' parameter of compare_methods must hold names and pairs of a name and an "
            f"estimator. Got {method!r} instead."
        )
    name, model = method
    if not hasattr(model, "transform"):
        raise TypeError(f"The estimator of {name!r} must have 'transform'. Got {model!r}.")
    if not isinstance(model, Pipeline):
        model = make_learner(X, y, model, **columns)
    return Rival(name, model, kind, n_neighbors)


def _baseline(name: str, X: Any, y: Array, n_components: Any, random_state: int) -> list[Any]:
    if name == "euclidean":
        return []
    if name == "pca":
        # the rank of a sparse table cannot be found by its variance
        most = min(_SPARSE_RANK, X.shape[1] - 1) if sp.issparse(X) else _KEPT_VARIANCE
        rank = most if n_components is None else n_components
        return [("learn", PCA(rank, random_state=random_state))]
    most = len(np.unique(y)) - 1
    rank = None if n_components is None else min(n_components, most)
    return [("learn", LinearDiscriminantAnalysis(n_components=rank))]


def _check_kind(name: str, wants: str, kind: str) -> None:
    learns = {"numbers": "numbers", "none": kind}.get(wants, "classes")
    if learns != kind:
        other = "'mlkr' or 'nca-regressor'" if kind == "numbers" else "'nca'"
        raise ValueError(
            f"Method {name!r} learns from {learns}, but y holds {kind}. Use {other}, or the "
            "'target' parameter of compare_methods if y holds something else."
        )
