"""Affinities of new rows to the rows of a finished picture, each for itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from vicinal.affinities.build import check_counts, check_table, weight_lists
from vicinal.affinities.calibration import calibrate, choose_sets
from vicinal.affinities.distances import graph_lists, make_source
from vicinal.core.types import Array
from vicinal.engines import choose


@dataclass(frozen=True)
class NewAffinities:
    """Marginals of neighbourhoods of new rows among known ones, in compressed sparse rows.

    Parameters
    ----------
    indptr, indices, marginals, k, entropy
        As those of `Affinities`; ``indices`` are positions of known rows, the nearest first.
    distances : float64 array
        Distance of each of them; of given weights, minus their logarithm.
    n_known : int
        Number of known rows.
    """

    indptr: Array
    indices: Array
    marginals: Array
    k: int
    entropy: Array
    distances: Array
    n_known: int

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def matrix(self) -> Any:
        """The marginals as a sparse array of shape (n_new, n_known)."""
        shape = (len(self), self.n_known)
        return sp.csr_array((self.marginals, self.indices, self.indptr), shape=shape)

    def at_zero(self) -> Array:
        """The first known row at distance 0 of each new row, -1 if there is none."""
        first = np.full(len(self), -1, np.int64)
        some = np.flatnonzero(np.diff(self.indptr) > 0)
        some = some[self.distances[self.indptr[some]] == 0]
        first[some] = self.indices[self.indptr[some]]
        return first


def new_affinities(
    X_new: Any,
    X: Any,
    perplexity: float,
    k: int,
    *,
    length: int | None = None,
    metric: Any = "euclidean",
    metric_params: dict[str, Any] | None = None,
    search: str = "exact",
) -> NewAffinities:
    """The chance that each known row is in a neighbourhood of k of each new row.

    As `affinities`, but a new row chooses among the known ones only, so that it gets the same
    affinities whatever other rows are new.

    Parameters
    ----------
    X_new : array or sparse matrix of shape (n_new, n_features) or (n_new, n)
        New rows; their distances to the known rows; or their weights for them: as ``metric`` says.
    X : array or sparse matrix of shape (n, n_features), or int
        The known rows; the number n of them if distances or weights are given.
    perplexity, k : float, int
        Those of `affinities`, as the known rows allow them.
    length : int, default=None
        Number of the nearest known rows that a list holds, more than k; None: all.
    metric, metric_params
        As those of `affinities`.
    search : {"exact", "tree", "brute"}, default="exact"
        Search for the nearest known rows.

    Returns
    -------
    NewAffinities
    """
    given = metric in ("precomputed", "precomputed_affinities")
    n = int(X) if given else X.shape[0]
    X_new = check_table(X_new, metric, n if given else X.shape[1])
    k, length = min(k, n), min(n, n if length is None else max(length, k + 1))
    compiled = not choose.is_small(n)
    if metric == "precomputed_affinities":
        lists = weight_lists(X_new, own=False)
        check_counts(lists, k)
        distances = lists.values.copy()
    else:
        if metric == "precomputed" and sp.issparse(X_new):
            lists = graph_lists(X_new, own=False)
            np.square(lists.values, out=lists.values)
        else:
            rows = X_new if given else X
            source = make_source(rows, metric, metric_params or {}, search)
            lists = source.lists(X_new, length, own=False)
        check_counts(lists, k)
        distances = np.sqrt(lists.values)
        calibrate(lists, perplexity, compiled)
    entropy = choose_sets(lists, k, compiled)
    indptr, indices, marginals = lists
    return NewAffinities(indptr, indices, marginals, k, entropy, distances, n)
