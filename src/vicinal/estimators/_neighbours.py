"""Nearest training rows in the learnt metric, with scikit-learn's names."""

from __future__ import annotations

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from vicinal._threads import single_threaded_blas
from vicinal.core.types import Array
from vicinal.models.votes import NeighbourModel

__all__ = ["NeighbourSearchMixin", "RowNumbers", "drop_weightless_rows"]


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


class NeighbourSearchMixin:
    """``kneighbors`` and ``kneighbors_graph``, for estimators that hold their training rows."""

    n_neighbors: Any
    _map: Any
    _model: NeighbourModel
    _check_rows: Any
    _set_voters: Any
    _rows: RowNumbers

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
