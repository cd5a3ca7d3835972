"""The methods of a comparison: how each is built, fitted to a fold and scored."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import mode
from sklearn.base import clone
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from threadpoolctl import threadpool_limits

from vicinal._validation import warn
from vicinal.core.types import Array
from vicinal.estimators._metric import HistogramMixin
from vicinal.learner.build import make_learner
from vicinal.learner.errors import TableNote
from vicinal.learner.methods import find_method
from vicinal.metrics import Chi2Index
from vicinal.model_selection._baselines import BASELINES, MOST_ROWS, make_baseline, some_rows
from vicinal.model_selection._comparison import MethodScores, Predictions, corrected_error

_SMALL = 5_000  # rows to which boosted trees are fitted by one thread: more would only wait


class Fold(NamedTuple):
    """A split: rows to learn from and others, with their targets, and the numbers of the others."""

    X: Any
    y: Array
    X_test: Any
    y_test: Array
    rows: Array  # numbers of the held-out rows

    @classmethod
    def of(cls, X: Any, y: Array, train: Array, test: Array) -> Fold:
        """A fold of a table."""
        return cls(
            _safe_indexing(X, train), y[train], _safe_indexing(X, test), y[test], np.asarray(test)
        )


class Held(NamedTuple):
    """What a method said of the held-out rows of one fold: codes of classes, or numbers."""

    rows: Array
    truth: Array
    predicted: Array
    voted: Array | None  # the same, by nearest neighbours in the learnt space
    p_truth: Array | None  # probability of the true class
    p_predicted: Array | None
    even: Array | None  # what is predicted if all classes weigh alike


@dataclass
class Rival:
    """A method in the comparison, and what it has reached so far.

    ``classes`` are all classes, None for numbers.  A model that is ``fitted`` is scored as it is.
    """

    name: str
    model: Any
    classes: Array | None
    n_neighbors: int
    usual: bool = False  # one of those that others are compared with
    fitted: bool = False
    label: str = ""  # what notes call it, if not by its name
    chi2: bool = False  # whether its space holds histograms
    most_rows: int | None = None
    seed: int = 0
    held: list[Held] = field(default_factory=list)
    seconds: float = 0.0
    told: Counter[str] = field(default_factory=Counter)
    n_components: int | None = None
    budget: float | None = None
    failed: str | None = None

    def compete(self, fold: Fold) -> None:
        """Fit the method to the training rows of a fold, and score the others."""
        began = time.perf_counter()
        quick = self.name == "boosting" and len(fold.y) <= _SMALL
        with (
            warnings.catch_warnings(record=True) as caught,
            threadpool_limits(1, user_api="openmp") if quick else nullcontext(),
        ):
            warnings.simplefilter("always")
            try:
                self.held.append(self._compete(fold))
            except ValueError as error:
                if not self.usual:
                    raise ValueError(f"Method {self.name!r}: {error}") from error
                self.failed = str(error)
        self.seconds += time.perf_counter() - began
        if not self.usual:
            self.told.update(
                str(warning.message)
                for warning in caught
                if issubclass(warning.category, UserWarning) and warning.category is not TableNote
            )

    def _compete(self, fold: Fold) -> Held:
        model = self.model if self.fitted else self._fit(fold)
        space = (model.transform(fold.X), model.transform(fold.X_test)) if _embeds(model) else None
        voted = None if space is None else self._vote(space, fold.y)
        if self.name != "euclidean" and space is not None:
            self.n_components = int(space[0].shape[1])
        if not hasattr(model, "predict"):
            assert voted is not None
            shares, predicted, voted = None, voted, None
        else:
            predicted = self._codes(model.predict(fold.X_test))
            shares = self._shares(model, fold.X_test)
        truth = self._codes(fold.y_test)
        if shares is None:
            return Held(fold.rows, truth, predicted, voted, None, None, None)
        floor, at = 1.0 / (len(fold.y) + 1.0), np.arange(len(truth))
        even = None
        if _has_priors(model):
            counts = np.bincount(self._codes(fold.y), minlength=shares.shape[1])
            even = np.argmax(shares / np.maximum(counts, 1), axis=1)
        return Held(
            fold.rows, truth, predicted, voted, np.maximum(shares[at, truth], floor),
            shares[at, predicted], even,
        )  # fmt: skip

    def _fit(self, fold: Fold) -> Any:
        model, X, y = clone(self.model), fold.X, fold.y
        if self.budget is not None:
            model.set_params(**{str(self.time_parameter): self.budget})
        if self.most_rows is not None and len(y) > self.most_rows:
            rows = some_rows(y, self.most_rows, self.seed)
            X, y = _safe_indexing(X, rows), y[rows]
        return model.fit(X, y)

    def _vote(self, space: tuple[Any, Any], y: Array) -> Array:
        k = min(self.n_neighbors, len(y))
        if self.chi2:
            near = Chi2Index(np.asarray(space[0])).kneighbors(np.asarray(space[1]), k)[1]
            return mode(self._codes(y)[near], axis=1).mode
        voters = KNeighborsRegressor if self.classes is None else KNeighborsClassifier
        return self._codes(voters(k).fit(space[0], y).predict(space[1]))

    def _codes(self, values: Any) -> Array:
        """Positions of classes; numbers as they are."""
        values = np.asarray(values)
        if self.classes is None:
            return values.astype(np.float64).ravel()
        return np.searchsorted(self.classes, values)

    def _shares(self, model: Any, X: Any) -> Array | None:
        """Probabilities of all classes, also of those that the fold did not have."""
        if self.classes is None or not hasattr(model, "predict_proba"):
            return None
        found = np.asarray(model.predict_proba(X), np.float64)
        shares = np.zeros((len(found), len(self.classes)))
        shares[:, self._codes(model.classes_)] = found
        return shares

    def result(self, best: Rival | None, test_share: float) -> MethodScores:
        """The scores with their means and errors, and the difference to the best rival."""
        truth = np.concatenate([held.truth for held in self.held])
        weights = None if self.classes is None else _weights(truth, len(self.classes))
        values = {name: self._values(name, weights) for name in self._measures()}
        measures = {
            name: (_mean(folds), corrected_error(folds, test_share, _EXTREMES.get(name, ())))
            for name, folds in values.items()
        }
        first = next(iter(values))
        votes = [(held.truth, held.voted) for held in self.held if held.voted is not None]
        voted = [_right(truth, vote, self.classes) for truth, vote in votes] or None
        gain = None
        if best is not None and not self.usual:
            other = best._values(first, None)
            gain = [own - others for own, others in zip(values[first], other, strict=True)]
        limits = _EXTREMES.get(first, ())
        wide = (-1.0, 1.0) if limits else ()
        return MethodScores(
            name=self.name,
            rival=self.usual,
            scores=np.array([fold.mean() for fold in values[first]]),
            mean=measures[first][0],
            error=measures[first][1],
            measures=measures,
            knn_scores=None if voted is None else np.array([fold.mean() for fold in voted]),
            knn_mean=None if voted is None else _mean(voted),
            knn_error=None if voted is None else corrected_error(voted, test_share, limits),
            difference=None if gain is None else _mean(gain),
            difference_error=None if gain is None else corrected_error(gain, test_share, wide),
            n_components=self.n_components,
            seconds=self.seconds,
            recalls=self._recalls(truth),
            even=self._even(weights),
            predictions=self._predictions(),
            warnings=list(self.told),
        )

    def _measures(self) -> list[str]:
        if self.classes is None:
            return ["R²", "mean absolute error"]
        surely = all(held.p_truth is not None for held in self.held)
        return ["accuracy", "balanced accuracy", *(["log loss"] if surely else [])]

    def _values(self, measure: str, weights: Array | None) -> list[Array]:
        """For each fold the values of its rows, whose mean is the measure."""
        if measure == "mean absolute error":
            return [np.abs(held.predicted - held.truth) for held in self.held]
        if measure == "log loss":
            return [-np.log(held.p_truth) for held in self.held if held.p_truth is not None]
        right = [_right(held.truth, held.predicted, self.classes) for held in self.held]
        if measure == "balanced accuracy":
            assert weights is not None
            return [each * weights[held.truth] for each, held in zip(right, self.held, strict=True)]
        return right

    def _recalls(self, truth: Array) -> dict[str, float] | None:
        if self.classes is None:
            return None
        right = np.concatenate([held.truth == held.predicted for held in self.held])
        found = np.bincount(truth, right, len(self.classes))
        counts = np.bincount(truth, minlength=len(self.classes))
        return {
            str(name): float(found[c] / counts[c])
            for c, name in enumerate(self.classes)
            if counts[c]
        }

    def _even(self, weights: Array | None) -> tuple[float, float] | None:
        """Accuracy and balanced accuracy if all classes weighed alike."""
        if weights is None or any(held.even is None for held in self.held):
            return None
        right = [(held.truth == held.even).astype(np.float64) for held in self.held]
        fair = [each * weights[held.truth] for each, held in zip(right, self.held, strict=True)]
        return _mean(right), _mean(fair)

    def _predictions(self) -> Predictions:
        """What was predicted for each row; for one that was held out twice, the last time."""
        rows = np.concatenate([held.rows for held in self.held])
        predicted = np.concatenate([held.predicted for held in self.held])
        last = len(rows) - 1 - np.unique(rows[::-1], return_index=True)[1]
        sure = [held.p_predicted for held in self.held if held.p_predicted is not None]
        confidence = np.concatenate(sure)[last] if len(sure) == len(self.held) else None
        if self.classes is None:
            return Predictions(rows[last], values=predicted[last])
        return Predictions(rows[last], codes=predicted[last], confidence=confidence)

    @property
    def called(self) -> str:
        """What people call it."""
        return self.label or self.name

    @property
    def score(self) -> float:
        """The mean of the first measure."""
        return _mean(self._values(self._measures()[0], None))

    @property
    def time_parameter(self) -> str | None:
        """The name of the parameter that limits the time of a fit, if the method has one."""
        names = {} if self.fitted else self.model.get_params()
        return next((name for name in names if name.rpartition("__")[2] == "time_budget"), None)

    def repeat_warnings(self) -> None:
        """Say once what the fits of the folds have warned of."""
        if self.told:
            more = self.told.total() - 1
            also = f" (and {more} more warnings in the folds)" if more else ""
            warn(f"{self.name}: {next(iter(self.told))}{also}")


#: the lowest and the highest value that a row can have
_EXTREMES = {"accuracy": (0.0, 1.0), "balanced accuracy": (0.0, 1.0)}


def _mean(folds: list[Array]) -> float:
    return float(np.mean([fold.mean() for fold in folds]))


def _right(truth: Array, predicted: Array, classes: Array | None) -> Array:
    """1 or 0 for classes; 1 - squared error / variance for numbers, whose mean is R²."""
    if classes is not None:
        return (truth == predicted).astype(np.float64)
    return 1.0 - (predicted - truth) ** 2 / (np.var(truth) or 1.0)


def _weights(truth: Array, n_classes: int) -> Array:
    """The weight of a row of each class, so that all classes that were held out weigh alike."""
    counts = np.bincount(truth, minlength=n_classes)
    return len(truth) / (np.count_nonzero(counts) * np.maximum(counts, 1.0))


def _embeds(model: Any) -> bool:
    """Whether the model has a space of its own; a forest only uses the columns."""
    return hasattr(model, "transform")


def _has_priors(model: Any) -> bool:
    """Whether the classes could weigh alike, and do not."""
    names = model.get_params()
    own = next((name for name in names if name.rpartition("__")[2] == "priors"), None)
    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    return own is not None and names[own] is None and hasattr(last, "classes_")


def _has_histograms(model: Any) -> bool:
    return isinstance(model.steps[-1][1], HistogramMixin)


def make_rival(
    method: Any, X: Any, y: Array, kind: str, n_neighbors: int, *, n_components: Any,
    random_state: int, columns: dict[str, Any],
) -> Rival:  # fmt: skip
    """A method by its name, or an estimator with a name."""
    classes = np.unique(y) if kind == "classes" else None
    if isinstance(method, str) and method in BASELINES:
        baseline = BASELINES[method]
        _check_kind(method, kind if baseline.target == "both" else baseline.target, kind)
        n_classes = 0 if classes is None else len(classes)
        most = MOST_ROWS if baseline.limited else None
        model = make_baseline(method, X, n_classes, n_components, random_state, columns)
        return Rival(
            method, model, classes, n_neighbors, usual=True, most_rows=most, seed=random_state
        )
    if isinstance(method, str):
        info = find_method(method)
        _check_kind(method, info.target, kind)
        rank = n_components if "n_components" in info.parameters() else None
        model = make_learner(X, y, method, n_components=rank, random_state=random_state, **columns)
        return Rival(method, model, classes, n_neighbors, chi2=info.target == "histograms")
    if not (isinstance(method, tuple) and len(method) == 2 and isinstance(method[0], str)):
        raise TypeError(
            "The 'methods' parameter of compare_methods must hold names and pairs of a name and an "
            f"estimator. Got {method!r} instead."
        )
    name, model = method
    if not hasattr(model, "transform") and not hasattr(model, "predict"):
        raise TypeError(
            f"The estimator of {name!r} must have 'predict' or 'transform'. Got {model!r}."
        )
    if not isinstance(model, Pipeline):
        model = make_learner(X, y, model, **columns)
    return Rival(name, model, classes, n_neighbors, chi2=_has_histograms(model))


def _check_kind(name: str, wants: str, kind: str) -> None:
    learns = {"numbers": "numbers", "none": kind}.get(wants, "classes")
    if learns != kind:
        other = "'mlkr' or 'nca-regressor'" if kind == "numbers" else "'nca'"
        raise ValueError(
            f"Method {name!r} learns from {learns}, but y holds {kind}. Use {other}, or the "
            "'target' parameter of compare_methods if y holds something else."
        )
