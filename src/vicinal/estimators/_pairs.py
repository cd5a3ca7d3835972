"""Learners from tuples of rows: pairs that are similar or not, and quadruplets."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import precision_recall_curve, roc_auc_score, roc_curve
from sklearn.utils import Tags
from sklearn.utils.validation import check_array, check_is_fitted

from vicinal._features import SCALINGS, check_varies, make_rows
from vicinal._validation import (
    check_number,
    check_option,
    check_pair_labels,
    distinct_rows,
    refuse_elsewhere,
    warn,
)
from vicinal.core.types import Array, MatrixLike, Weights
from vicinal.estimators._metric import LearntMetricMixin
from vicinal.maps.fitted import FittedLinear

#: rows by their index: a table, or a function of a vector of indices
Preprocessor: TypeAlias = MatrixLike | Callable[[Array], ArrayLike] | None
_STRATEGIES = ("accuracy", "f_beta", "max_tpr", "max_tnr")
_NAMES = {2: "pairs", 3: "triplets", 4: "quadruplets"}


def check_tuples(
    owner: str,
    tuples: ArrayLike,
    size: int,
    preprocessor: Preprocessor = None,
    n_features: int | None = None,
) -> Array:
    """Tuples of rows as numbers.

    Parameters
    ----------
    owner : str
        Name of the estimator, for messages.
    tuples : array-like of shape (n, size, n_features) or (n, size)
        Rows, or with a preprocessor their indices.
    size : int
        Number of rows in a tuple: 2 for pairs, 4 for quadruplets.
    preprocessor : array-like, sparse matrix, callable or None
        What the indices refer to: an array of rows, or a function from a vector of indices to an
        array of rows.
    n_features : int or None
        Required number of features; None: any.

    Returns
    -------
    tuples : float64 or float32 array of shape (n, size, n_features)
    """
    name = _NAMES[size]
    refuse_elsewhere(owner, tuples, name)
    found = check_array(
        tuples, ensure_2d=False, allow_nd=True, dtype=None, ensure_all_finite=False,
        ensure_min_samples=0, ensure_min_features=0, input_name=name,
    )  # fmt: skip
    indexed = found.ndim == 2 and preprocessor is not None
    if not (found.ndim == 3 or indexed) or found.shape[1] != size:
        features = "n_features" if n_features is None else n_features
        what = f"(n_{name}, {size}, {features})"
        rows = f" Rows with class labels are learnt by FromLabels({owner}()).fit(X, y)."
        hint = rows if found.ndim == 2 else ""
        if preprocessor is not None:
            what = f"{what}, or (n_{name}, {size}) for indices"
        elif hint:
            hint = f" Indices of rows need a 'preprocessor'.{rows}"
        raise ValueError(
            f"The {name} of {owner} must have shape {what}. Got {found.shape} instead.{hint}"
        )
    if len(found) == 0:
        raise ValueError(f"{owner} needs at least one of the {name}. Got none instead.")
    if indexed:
        found = looked_up(owner, found.ravel(), preprocessor).reshape(len(found), size, -1)
    found = check_array(found, allow_nd=True, dtype=[np.float64, np.float32], input_name=name)
    if found.shape[2] == 0 or n_features not in (None, found.shape[2]):
        expected = "at least one feature" if n_features is None else f"{n_features} features"
        raise ValueError(
            f"The rows in the {name} of {owner} must have {expected}. Got {found.shape[2]} instead."
        )
    return found


def looked_up(owner: str, indices: Array, preprocessor: Preprocessor) -> Array:
    """The rows of a preprocessor with these indices, dense."""
    if callable(preprocessor):
        rows: Any = preprocessor(indices)
    else:
        refuse_elsewhere(owner, preprocessor, "preprocessor")
        rows = check_array(preprocessor, accept_sparse="csr", dtype=None, ensure_all_finite=False)
        n = rows.shape[0]
        if indices.dtype.kind not in "iu":
            raise ValueError(
                f"Indices into the 'preprocessor' of {owner} must be ints. "
                f"Got {indices.dtype} instead."
            )
        outside = (indices < 0) | (indices >= n)
        if outside.any():
            raise ValueError(
                f"Indices into the 'preprocessor' of {owner}, which has {n} rows, must be in "
                f"[0, {n - 1}]. Got {indices[outside][0]} instead."
            )
        rows = rows[indices]
    rows = rows.toarray() if sp.issparse(rows) else np.asarray(rows)
    if rows.ndim != 2 or len(rows) != len(indices):
        raise ValueError(
            f"The 'preprocessor' of {owner} must turn {len(indices)} indices into an array of "
            f"shape ({len(indices)}, n_features). Got {rows.shape} instead."
        )
    return rows


class TupleLearnerMixin:
    """Distances of pairs, or of indices into ``preprocessor``; before `LearntMetricMixin`."""

    #: array-like, sparse matrix, callable or None
    preprocessor: Preprocessor
    n_features_in_: int

    def _tuples(self, tuples: ArrayLike, size: int = 2, *, reset: bool = False) -> Array:
        """Checked tuples of rows; ``reset`` (in a fit) sets the number of features from them."""
        n_features = None if reset else self.n_features_in_
        tuples = check_tuples(type(self).__name__, tuples, size, self.preprocessor, n_features)
        if reset:
            self.n_features_in_ = tuples.shape[2]
            self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
        return tuples

    def pair_distance(self, pairs: ArrayLike) -> Array:
        """Learnt distance of each pair.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features) or (n_pairs, 2)
            Pairs of rows, or of indices into the ``preprocessor``.

        Returns
        -------
        distances : ndarray of shape (n_pairs,)
        """
        if hasattr(self, "n_features_in_"):  # else the learnt metric says that there is none
            pairs = self._tuples(pairs)
        return super().pair_distance(pairs)  # type: ignore[misc]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        return tags


class PairClassifierMixin(TupleLearnerMixin, ClassifierMixin):
    """Tells similar pairs (+1) from dissimilar pairs (-1) by ``threshold_``.

    It stands before `LearntMetricMixin` among the bases.  A fit calls
    `_check_labelled_pairs`, learns, and calls `_calibrate_on_training_pairs`.
    """

    #: rows in a tuple, for what makes tuples
    tuple_size: ClassVar[int] = 2
    classes_: Array
    threshold_: float

    def _check_labelled_pairs(self, pairs: ArrayLike, y: ArrayLike) -> tuple[Array, Array]:
        """Checked pairs (n, 2, n_features) and labels; sets what prediction refers to."""
        pairs = self._tuples(pairs, reset=True)
        y = check_pair_labels(type(self).__name__, y, len(pairs), both=True)
        self.classes_ = np.array([-1, 1])
        return pairs, y

    def _calibrate_on_training_pairs(self, pairs: Array, y: Array) -> None:
        """Set the threshold of highest accuracy on the training pairs."""
        self.threshold_ = _best_threshold(self.decision_function(pairs), y, "accuracy")

    def decision_function(self, pairs: ArrayLike) -> Array:
        """Minus the learnt distance of each pair: the higher, the more similar.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features) or (n_pairs, 2)
            Pairs of rows, or of indices into the ``preprocessor``.

        Returns
        -------
        scores : ndarray of shape (n_pairs,)
        """
        check_is_fitted(self)
        return -self.pair_distance(pairs)

    def predict(self, pairs: ArrayLike) -> Array:
        """+1 for pairs whose learnt distance is at most ``threshold_``, -1 for others.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features) or (n_pairs, 2)
            Pairs of rows, or of indices into the ``preprocessor``.

        Returns
        -------
        y : int ndarray of shape (n_pairs,)
        """
        check_is_fitted(self)
        if not hasattr(self, "threshold_"):
            raise NotFittedError(
                f"This {type(self).__name__} has no threshold yet: a fit sets one if it is given "
                "similar and dissimilar pairs. Call calibrate_threshold or set_threshold first."
            )
        return np.where(self.pair_distance(pairs) <= self.threshold_, 1, -1)

    def score(self, pairs: ArrayLike, y: ArrayLike, sample_weight: Weights = None) -> float:
        """Area under the ROC curve, which does not depend on the threshold.

        It is the chance that a similar pair is nearer than a dissimilar pair, both drawn at random
        (ties count a half).  This is not the accuracy, which scikit-learn's classifiers return
        here: as in metric-learn, pairs are scored by how well their distances rank them.  For the
        accuracy of ``predict`` use ``scoring="accuracy"`` in scikit-learn's tools.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features) or (n_pairs, 2)
            Pairs of rows, or of indices into the ``preprocessor``.
        y : array-like of shape (n_pairs,)
            +1 for similar and -1 for dissimilar pairs; both must occur.
        sample_weight : array-like of shape (n_pairs,), default=None
            Weights of the pairs.

        Returns
        -------
        auc : float
        """
        scores = self.decision_function(pairs)
        y = check_pair_labels(f"{type(self).__name__}.score", y, len(scores), both=True)
        return float(roc_auc_score(y, scores, sample_weight=sample_weight))

    def set_threshold(self, threshold: float) -> Self:
        """Set ``threshold_``, the largest distance of pairs that count as similar.

        Parameters
        ----------
        threshold : float

        Returns
        -------
        self : object
        """
        check_is_fitted(self)
        if not _is_number(threshold) or np.isnan(threshold):
            raise ValueError(
                f"The 'threshold' parameter of {type(self).__name__}.set_threshold must be a "
                f"number. Got {threshold!r} instead."
            )
        self.threshold_ = float(threshold)
        return self

    def calibrate_threshold(
        self,
        pairs_valid: ArrayLike,
        y_valid: ArrayLike,
        strategy: str = "accuracy",
        min_rate: float | None = None,
        beta: float = 1.0,
    ) -> Self:
        """Choose ``threshold_`` on validation pairs.

        The candidates are the distances of these pairs, and a value below all of them.  A fit
        chooses the threshold of highest accuracy on its training pairs; pairs that were not
        learnt from are better for that.

        Parameters
        ----------
        pairs_valid : array-like of shape (n_pairs, 2, n_features) or (n_pairs, 2)
            Pairs of rows, or of indices into the ``preprocessor``.
        y_valid : array-like of shape (n_pairs,)
            +1 for similar and -1 for dissimilar pairs; both must occur.
        strategy : {"accuracy", "f_beta", "max_tpr", "max_tnr"}, default="accuracy"
            What the threshold makes as large as possible.  "accuracy": the share of pairs that
            are right.  "f_beta": the F score of the similar pairs.  "max_tpr": the share of
            similar pairs that are found, where at least ``min_rate`` of the dissimilar pairs are
            right.  "max_tnr": the share of dissimilar pairs that are right, where at least
            ``min_rate`` of the similar pairs are found.
        min_rate : float in [0, 1], default=None
            Required by "max_tpr" and "max_tnr".
        beta : float, default=1.0
            Weight of recall relative to precision, for "f_beta".

        Returns
        -------
        self : object
        """
        check_is_fitted(self)
        name = f"{type(self).__name__}.calibrate_threshold"
        check_strategy(name, strategy, min_rate, beta)
        scores = self.decision_function(pairs_valid)
        y = check_pair_labels(name, y_valid, len(scores), both=True)
        self.threshold_ = _best_threshold(scores, y, strategy, min_rate, beta)
        return self


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def check_strategy(
    name: str, strategy: str = "accuracy", min_rate: Any = None, beta: float = 1.0
) -> None:
    """Refuse what `calibrate_threshold` cannot use."""
    if strategy not in _STRATEGIES:
        raise ValueError(
            f"The 'strategy' parameter of {name} must be one of "
            f"{', '.join(map(repr, _STRATEGIES))}. Got {strategy!r} instead."
        )
    rated = strategy in ("max_tpr", "max_tnr")
    if rated and not (_is_number(min_rate) and 0 <= min_rate <= 1):
        raise ValueError(
            f"The 'min_rate' parameter of {name} must be a float in [0, 1] for "
            f"strategy={strategy!r}. Got {min_rate!r} instead."
        )
    if not (_is_number(beta) and 0 <= beta < np.inf):
        raise ValueError(
            f"The 'beta' parameter of {name} must be a float in [0, inf). Got {beta!r} instead."
        )


def _best_threshold(
    scores: Array, y: Array, strategy: str, min_rate: float | None = None, beta: float = 1.0
) -> float:
    """The largest distance to accept, for scores that are minus the distances."""
    if strategy == "f_beta":
        precision, recall, cuts = precision_recall_curve(y, scores, pos_label=1)
        weighted = beta**2 * precision + recall  # zero where no similar pair is accepted
        f = (1 + beta**2) * precision * recall / np.where(weighted > 0, weighted, 1.0)
        return float(-cuts[np.argmax(f[:-1])])  # the last entry accepts no pair
    wrong, hits, cuts = roc_curve(y, scores, pos_label=1, drop_intermediate=False)
    similar, dissimilar = np.sum(y == 1), np.sum(y == -1)
    # counted again, so that equal rates are equal and 2 of 10 is 0.2
    found, right = np.rint(hits * similar), np.rint((1 - wrong) * dissimilar)
    if strategy == "accuracy":
        best = int(np.argmax(found + right))
    elif strategy == "max_tpr":  # of equal rates, the one with the higher other rate
        best = int(np.lexsort((right, np.where(right / dissimilar >= min_rate, found, -1)))[-1])
    else:
        best = int(np.lexsort((found, np.where(found / similar >= min_rate, right, -1)))[-1])
    if np.isinf(cuts[best]):  # accepts no pair; a number that can be kept as JSON
        return float(np.nextafter(-scores.max(), -np.inf))
    return float(-cuts[best])


class ScaledTuples(NamedTuple):
    """The different rows that occur in tuples, scaled, and how they were scaled."""

    points: Array
    shift: Array
    scale: Array

    def differences(self, tuples: Array, a: int = 0, b: int = 1) -> Array:
        """Scaled differences of the members a and b of each tuple, float64."""
        return (tuples[:, a].astype(np.float64) - tuples[:, b]) * self.scale


class MatrixLearner(LearntMetricMixin, BaseEstimator):
    """Scales columns, and stores a factor of M; not public.

    Subclasses have the parameters ``scaling``, ``max_iter`` and ``tol``.
    """

    scaling: str | None
    max_iter: int
    tol: float
    n_iter_: int

    def _check_shared(self) -> None:
        check_option(self, "scaling", SCALINGS)
        check_number(self, "max_iter", 1, integer=True)
        check_number(self, "tol", 0.0, open_ends=True)

    def _scaled(self, tuples: Array) -> ScaledTuples:
        """The scaling of the columns, by the rows in the tuples, each counted once."""
        rows = distinct_rows(tuples.reshape(-1, tuples.shape[-1]))
        features = make_rows(rows, self.scaling, limit_outliers=False)
        check_varies(features)
        points = (rows - features.shift) * features.scale
        return ScaledTuples(points, features.shift, features.scale)

    def _store(self, L: Array, scaled: ScaledTuples, dtype: np.dtype[Any]) -> None:
        """Set the learnt metric from a factor of M in scaled columns."""
        self._map = FittedLinear.of_scaled(L, scaled.shift, scaled.scale, dtype)
        self.components_ = self._map.components

    def _warn_unconverged(self, advice: str = "") -> None:
        """Warn that ``tol`` was not reached, and say what may help."""
        how = "increase 'max_iter' or 'tol'"
        if self.n_iter_ < self.max_iter:  # rounding hides all further progress
            how = "increase 'tol', which is below what rounding allows here"
        warn(
            f"{type(self).__name__} did not converge in {self.n_iter_} iterations: {how}{advice}.",
            ConvergenceWarning,
        )
