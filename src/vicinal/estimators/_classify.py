"""Classification in the embedded space: the posterior rule, or k-NN votes."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if

from vicinal._threads import single_threaded_blas
from vicinal._validation import check_seed
from vicinal.core.types import Array
from vicinal.estimators._neighbours import NeighbourSearchMixin, can_predict
from vicinal.models.votes import NeighbourModel

__all__ = ["NeighbourClassifierMixin"]


class NeighbourClassifierMixin(NeighbourSearchMixin, ClassifierMixin):
    """Classification from the stored projections of the training rows."""

    #: allowed values of ``rule``: the posterior of the method, if it has one, or votes
    _rule_names: ClassVar[tuple[str, ...]] = ("posterior", "knn", "draw")
    classes_: Array
    _model: NeighbourModel

    @available_if(can_predict)
    def predict_proba(self, X: Any) -> Array:
        """Class probabilities under the ``rule``: posterior of the model, or shares of the votes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        P : ndarray of shape (n_samples, n_classes)
            Columns in the order of ``classes_``; rows sum to one.
        """
        Z = self._embedded(X)
        with single_threaded_blas():
            return self._model.probabilities(Z, self.rule)

    @available_if(can_predict)
    def predict_log_proba(self, X: Any) -> Array:
        """Natural logarithms of the class probabilities under the ``rule``.

        The posterior of NCA is computed in logarithms, so that classes far away are still told
        apart where their probability is zero in float64.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        log_P : ndarray of shape (n_samples, n_classes)
            Columns in the order of ``classes_``; minus infinity for a class without votes.
        """
        Z = self._embedded(X)
        with single_threaded_blas():
            return self._model.log_probabilities(Z, self.rule)

    @available_if(can_predict)
    def predict(self, X: Any) -> Array:
        """The class of highest probability under the ``rule``, or one drawn with them for "draw".

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        best = self._predicted(X)
        return self.classes_[best]

    def _predicted(self, X: Any) -> Array:
        """The positions of the predicted classes in ``classes_``."""
        P = self.predict_proba(X)
        return P.argmax(axis=1) if self.rule != "draw" else _drawn(P, check_seed(self))


def _drawn(P: Array, rng: np.random.RandomState) -> Array:
    """A class for each row, drawn with the row's probabilities."""
    below = np.cumsum(P, axis=1)
    # The last sum may be 1 - 1e-16; a class of probability zero is never drawn.
    at = rng.uniform(size=len(P)) * below[:, -1]
    return np.argmax(below > at[:, None], axis=1)
