"""What estimators share that hold their training rows: parameters of prediction, ``kneighbors``."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from vicinal._threads import single_threaded_blas
from vicinal._validation import check_number, check_option, check_rows
from vicinal.core.types import Array, is_auto
from vicinal.fit.cost import PredictionCost, prediction_cost
from vicinal.models.soft import MatchModel
from vicinal.models.stored import StoredRows

__all__ = ["NeighbourSearchMixin", "RowNumbers", "can_predict", "drop_weightless_rows"]


class RowNumbers(NamedTuple):
    """The numbers of the training rows that a model holds.

    Parameters
    ----------
    numbers : array of shape (n,) or None
        Number of each row among those the user gave; None if the model holds all of them.
    total : int
        How many rows the user gave.
    """

    numbers: Array | None
    total: int


def drop_weightless_rows(
    X: Any, y: Any, weight: Array | None
) -> tuple[RowNumbers, Any, Any, Array | None]:
    """The rows of positive weight, with what they are to reach, and their numbers."""
    if weight is None or weight.all():
        return RowNumbers(None, X.shape[0]), X, y, weight
    numbers = np.flatnonzero(weight)
    return RowNumbers(numbers, X.shape[0]), X[numbers], y[numbers], weight[numbers]


def can_predict(estimator: Any) -> bool:
    """True, or an error that says why there is nothing to predict; unknown before a fit."""
    model = getattr(estimator, "_model", None)
    if not isinstance(model, MatchModel):
        return True
    raise AttributeError(
        f"{type(estimator).__name__} predicts nothing after a fit to matches, which have no "
        "classes. Use transform, kneighbors or score."
    )


class NeighbourSearchMixin:
    """Predictions from training rows, ``kneighbors`` and ``kneighbors_graph``."""

    rule: str
    n_neighbors: Any
    #: allowed values of ``rule``
    _rule_names: ClassVar[tuple[str, ...]]
    #: allowed values of ``n_neighbors`` besides numbers
    _voters: ClassVar[tuple[Any, ...]] = ("auto",)
    _map: Any
    _model: StoredRows
    _rows: RowNumbers

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

    def _embedded(self, X: Any) -> Array:
        """Checked rows, embedded; applies the parameters of prediction."""
        X = self._check_rows(X)
        check_option(self, "rule", self._rule_names)
        self._set_voters()
        with single_threaded_blas():
            return self._map.embed(X)

    def _finish_model(self, deadline: float | None) -> None:
        if self.rule == "knn" and self._model.asked != "local":
            self._model.choose_voters(deadline)

    @property
    def _chooses_votes(self) -> bool:
        return self.rule == "knn" and is_auto(self.n_neighbors)

    def kneighbors(
        self, X: Any = None, n_neighbors: int | None = None, return_distance: bool = True
    ) -> tuple[Array, Array] | Array:
        """The nearest training rows of each row, in the learnt metric, nearest first.

        Memory is bounded: no array of all distances is made.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features), default=None
            Rows.  None: the training rows, of which none is its own neighbour.
        n_neighbors : int, default=None
            Number of neighbours k; None: as many as vote, ``n_neighbors_``.
        return_distance : bool, default=True
            Whether to return the distances too.

        Returns
        -------
        distances : ndarray of shape (n_queries, k)
            The learnt distances, as ``pair_distance`` has them; only if ``return_distance``.
        rows : int64 ndarray of shape (n_queries, k)
            Numbers of the rows in the X of ``fit``.  Rows of weight zero are not among them.  After
            ``partial_fit``: numbers in the stream, from 0, of rows that are remembered.
        """
        check_is_fitted(self, "n_components_")
        distances, near = self._nearest(X, n_neighbors, "kneighbors")
        return (distances, near) if return_distance else near

    def kneighbors_graph(
        self, X: Any = None, n_neighbors: int | None = None, mode: str = "connectivity"
    ) -> sp.csr_matrix:
        """The nearest training rows of each row as a sparse matrix.

        Parameters
        ----------
        X, n_neighbors
            As in :meth:`kneighbors`.
        mode : {"connectivity", "distance"}, default="connectivity"
            Entries of one, or the learnt distances.

        Returns
        -------
        graph : CSR matrix of shape (n_queries, n_samples)
            One column for each row of the X of ``fit``.
        """
        check_is_fitted(self, "n_components_")
        if mode not in ("connectivity", "distance"):
            raise ValueError(
                "The 'mode' parameter of kneighbors_graph must be 'connectivity' or 'distance'. "
                f"Got {mode!r} instead."
            )
        distances, near = self._nearest(X, n_neighbors, "kneighbors_graph")
        entries = distances if mode == "distance" else np.ones_like(distances)
        ends = np.arange(0, near.size + 1, near.shape[1])
        return sp.csr_matrix(
            (entries.ravel(), near.ravel(), ends), shape=(len(near), self._rows.total)
        )

    def _nearest(self, X: Any, n_neighbors: int | None, caller: str) -> tuple[Array, Array]:
        Z = None if X is None else self._map.embed(self._check_rows(X))
        most = len(self._model.Z) - (Z is None)
        k: Any = n_neighbors
        if k is None:
            if self.n_neighbors == "local":
                raise ValueError(
                    f"The 'n_neighbors' parameter of {caller} must be an int in [1, {most}] where "
                    "that of the estimator is 'local'. Got None instead."
                )
            self._set_voters()
            k = min(self._model.n_neighbors, most)
        if not isinstance(k, Integral) or isinstance(k, bool) or not 1 <= int(k) <= most:
            raise ValueError(
                f"The 'n_neighbors' parameter of {caller} must be an int in [1, {most}]. "
                f"Got {n_neighbors!r} instead."
            )
        with single_threaded_blas():
            distances, near = self._model.nearest(Z, int(k))
        numbers = self._rows.numbers
        return distances, near if numbers is None else numbers[near]

    @available_if(can_predict)
    def estimate_predict_cost(self, X: Any) -> PredictionCost:
        """Estimate the memory and time of a prediction of X without starting it.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Only its shape and dtype count.

        Returns
        -------
        cost : PredictionCost
            ``memory_bytes`` beyond the input, at the peak of a prediction under the ``rule``, and
            approximate ``seconds``.

        Notes
        -----
        Memory is usually within a factor of two.  Time is rough, and a bound for the posterior,
        which leaves out training rows that are far away.  The search tree of votes, which the first
        prediction makes, and the choice of ``n_neighbors="auto"`` after a fit are not included; for
        ``n_neighbors="local"`` 50 voters are counted.
        """
        check_is_fitted(self, "n_components_")
        check_option(self, "rule", self._rule_names)
        self._set_voters()
        X = X if hasattr(X, "shape") else np.asarray(X)
        return prediction_cost(self._model, self.rule, X)
