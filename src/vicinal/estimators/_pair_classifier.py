"""Classification of pairs, similar or dissimilar, by a threshold on their learnt distance."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.metrics import precision_recall_curve, roc_auc_score, roc_curve
from sklearn.utils.validation import check_is_fitted

from vicinal.core.types import Array
from vicinal.estimators._tuples import TupleLearnerMixin, check_pair_labels

__all__ = ["PairClassifierMixin", "check_strategy"]

_STRATEGIES = ("accuracy", "f_beta", "max_tpr", "max_tnr")


class PairClassifierMixin(TupleLearnerMixin, ClassifierMixin):
    """Tells similar pairs (+1) from dissimilar pairs (-1) by ``threshold_``.

    It stands before `MahalanobisMixin` or `LearntMetricMixin` among the bases.  A fit calls
    `_check_labelled_pairs`, learns, and calls `_calibrate_on_training_pairs`.
    """

    #: rows in a tuple, for what makes tuples
    tuple_size: ClassVar[int] = 2
    classes_: Array
    threshold_: float

    def _check_labelled_pairs(self, pairs: Any, y: Any) -> tuple[Array, Array]:
        """Checked pairs (n, 2, n_features) and labels; sets what prediction refers to."""
        pairs = self._tuples(pairs, reset=True)
        y = check_pair_labels(type(self).__name__, y, len(pairs), both=True)
        self.classes_ = np.array([-1, 1])
        return pairs, y

    def _calibrate_on_training_pairs(self, pairs: Array, y: Array) -> None:
        """Set the threshold of highest accuracy on the training pairs."""
        self.threshold_ = _best_threshold(self.decision_function(pairs), y, "accuracy")

    def decision_function(self, pairs: Any) -> Array:
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

    def predict(self, pairs: Any) -> Array:
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

    def score(self, pairs: Any, y: Any, sample_weight: Any = None) -> float:
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

    def set_threshold(self, threshold: float) -> Any:
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
        pairs_valid: Any,
        y_valid: Any,
        strategy: str = "accuracy",
        min_rate: float | None = None,
        beta: float = 1.0,
    ) -> Any:
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
            Weight of recall beside precision, for "f_beta".

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


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def check_strategy(
    name: str, strategy: Any = "accuracy", min_rate: Any = None, beta: Any = 1.0
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
