"""Classification in the embedded space: the posterior rule, or k-NN votes."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from vicinal._threads import single_threaded_blas
from vicinal._validation import check_number, check_option, check_rows, check_seed
from vicinal.core.types import Array
from vicinal.estimators._memory import converted_bytes
from vicinal.estimators._neighbours import NeighbourSearchMixin
from vicinal.estimators._prediction_cost import PredictionCost, prediction_cost
from vicinal.models.votes import NeighbourModel

__all__ = ["NeighbourClassifierMixin"]


class NeighbourClassifierMixin(NeighbourSearchMixin, ClassifierMixin):
    """Classification from the stored projections of the training rows."""

    rule: str
    n_neighbors: Any
    #: allowed values of ``rule``: the posterior of the method, if it has one, or votes
    _rule_names: ClassVar[tuple[str, ...]] = ("posterior", "knn", "draw")
    #: allowed values of ``n_neighbors`` besides numbers
    _voters: ClassVar[tuple[Any, ...]] = ("auto",)
    classes_: Array
    _map: Any
    _model: NeighbourModel

    def _check_rows(self, X: Any) -> Any:
        check_is_fitted(self, "n_components_")
        return check_rows(self, X, reset=False)

    @property
    def n_neighbors_(self) -> int:
        """Number of voters of ``rule="knn"``."""
        check_is_fitted(self, "n_components_")
        self._model.set_voters(self.n_neighbors)
        settled = self._model.settled_n_neighbors
        if settled is None:  # no search here: `hasattr` and Tab completion come this way
            why = "it is chosen by the first prediction under rule='knn'"
            if self.n_neighbors == "local":
                why = "each row has its own; see local_n_neighbors"
            raise AttributeError(
                f"n_neighbors_ of {type(self).__name__} is not set for "
                f"n_neighbors={self.n_neighbors!r}: {why}."
            )
        return settled

    def _set_voters(self) -> None:
        """Apply ``n_neighbors``, which like ``rule`` may be changed after a fit."""
        check_number(self, "n_neighbors", 1, integer=True, or_else=self._voters)
        self._model.set_voters(self.n_neighbors)

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

    def _embedded(self, X: Any) -> Array:
        """Checked rows, embedded; applies the parameters of prediction."""
        X = self._check_rows(X)
        check_option(self, "rule", self._rule_names)
        self._set_voters()
        with single_threaded_blas():
            return self._map.embed(X)

    def predict(self, X: Any) -> Array:
        """The class of highest probability under the ``rule``, or one drawn with them for "draw".

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        P = self.predict_proba(X)
        best = P.argmax(axis=1) if self.rule != "draw" else _drawn(P, check_seed(self))
        return self.classes_[best]

    def estimate_predict_cost(self, X: Any) -> PredictionCost:
        """Estimate the memory and time of a prediction of X without starting it.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Only its shape and dtype count.

        Returns
        -------
        cost : PredictionCost
            ``memory_bytes`` beyond the input, at the peak of ``predict`` and ``predict_proba``
            under the ``rule``, and approximate ``seconds``.

        Notes
        -----
        Memory is usually within a quarter.  Time is rough, and a bound for the posterior, which
        leaves out training rows that are far away.  The search tree of votes, which the first
        prediction makes, and the choice of ``n_neighbors="auto"`` after a fit are not included; for
        ``n_neighbors="local"`` 50 voters are counted.
        """
        check_is_fitted(self, "n_components_")
        check_option(self, "rule", self._rule_names)
        self._set_voters()
        X = X if hasattr(X, "shape") else np.asarray(X)
        return prediction_cost(self._model, self.rule, X.shape, converted_bytes(X))


def _drawn(P: Array, rng: np.random.RandomState) -> Array:
    """A class for each row, drawn with the row's probabilities."""
    below = np.cumsum(P, axis=1)
    # The last sum may be 1 - 1e-16; a class of probability zero is never drawn.
    at = rng.uniform(size=len(P)) * below[:, -1]
    return np.argmax(below > at[:, None], axis=1)
