"""Estimators with another library's keywords that fit one of vicinal's and keep its map."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from vicinal._validation import refuse_elsewhere, warn
from vicinal.core.types import Array
from vicinal.estimators._metric import LearntMetricMixin
from vicinal.estimators._pairs import (
    PairClassifierMixin,
    TupleLearnerMixin,
    check_strategy,
    looked_up,
)

Init = str | ArrayLike
#: what is copied from the fitted estimator, if it has it
_COPIED = ("components_", "n_features_in_", "feature_names_in_", "n_iter_", "classes_",
           "threshold_", "bounds_", "_map")  # fmt: skip


class Adapter(TupleLearnerMixin, LearntMetricMixin, BaseEstimator):
    """An estimator of vicinal under another library's keywords; not public.

    ``fit`` warns of keywords without effect, and fits an estimator of vicinal,
    which it keeps as ``estimator_``.  Subclasses are dataclasses: their fields are the keywords.
    """

    #: keyword -> its default, and why another value has no effect
    _no_effect: ClassVar[dict[str, tuple[Any, str]]] = {}
    estimator_: BaseEstimator

    def _settings(self) -> dict[str, Any]:
        """The keywords that have an effect; warns of all others."""
        # not get_params: the constructor of a subclass may have fewer keywords
        settings, name = dict(vars(self)), type(self).__name__
        for keyword, (default, why) in self._no_effect.items():
            value = settings.pop(keyword, default)
            if not (isinstance(value, type(default)) and value == default):
                warn(f"The {keyword!r} parameter of {name} has no effect: {why}.")
        return settings

    def _keep(self, fitted: BaseEstimator) -> Self:
        """Copy what a fitted estimator has learnt."""
        for name in _COPIED:
            self.__dict__.pop(name, None)
            for source in (getattr(fitted, "learner_", None), fitted):  # that of FromLabels
                if hasattr(source, name):
                    setattr(self, name, getattr(source, name))
        if not isinstance(self, PairClassifierMixin):
            self.__dict__.pop("threshold_", None)  # of pairs that were drawn
        self.estimator_ = fitted
        return self

    def _rows(self, X: Any) -> Any:
        """The rows, looked up in the ``preprocessor`` if these are indices."""
        refuse_elsewhere(self, X, "X")
        if self.preprocessor is None or np.ndim(X) != 1 or hasattr(X, "toarray"):
            return X
        return looked_up(type(self).__name__, np.asarray(X), self.preprocessor)

    def transform(self, X: Any) -> Array:
        """Embed rows: ``X @ components_.T``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features) or (n_samples,)
            Rows, or their indices into the ``preprocessor``.

        Returns
        -------
        Z : ndarray of shape (n_samples, n_components)
        """
        check_is_fitted(self, "components_")
        return super().transform(self._rows(X))


def without_class(y: ArrayLike) -> Array:
    """Which labels stand for no class: negative numbers, as in metric-learn.

    If there are fewer than two classes besides, as in -1 and 1 alone, all labels are classes.
    """
    labels = np.asarray(y)
    if labels.dtype.kind not in "if":
        return np.zeros(labels.shape, dtype=bool)
    negative = labels < 0
    return negative & (len(np.unique(labels[~negative])) > 1)


class RowAdapter(Adapter):
    """An estimator that learns from rows and labels, numbers or chunklets."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        tags.input_tags.three_d_array = False
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


class PairAdapter(PairClassifierMixin, Adapter):
    """An estimator that learns from labelled pairs, and classifies pairs."""

    def _fit_pairs(
        self,
        model: BaseEstimator,
        pairs: ArrayLike,
        y: ArrayLike,
        calibration_params: dict[str, Any] | None,
    ) -> Self:
        """Fit to pairs, and choose the threshold."""
        if calibration_params is not None:  # before the time of a fit is spent
            check_strategy(f"{type(self).__name__}.calibrate_threshold", **calibration_params)
        self._keep(model.set_params(preprocessor=self.preprocessor).fit(pairs, y))
        if calibration_params is not None:
            self.calibrate_threshold(pairs, y, **calibration_params)
        return self


class QuadrupletAdapter(Adapter):
    """An estimator that learns from quadruplets, and tells which of two pairs is nearer."""

    def decision_function(self, quadruplets: ArrayLike) -> Array:
        """How much nearer the first two rows of each quadruplet are than the last two."""
        check_is_fitted(self, "components_")
        quadruplets = self._tuples(quadruplets, 4)
        return self.pair_distance(quadruplets[:, 2:]) - self.pair_distance(quadruplets[:, :2])

    def predict(self, quadruplets: ArrayLike) -> Array:
        """+1 if the first two rows of a quadruplet are nearer than the last two, else -1."""
        return np.where(self.decision_function(quadruplets) > 0.0, 1, -1)

    def score(self, quadruplets: ArrayLike) -> float:
        """The share of quadruplets whose first two rows are nearer than the last two."""
        return float(np.mean(self.predict(quadruplets) > 0))
