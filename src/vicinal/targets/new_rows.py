"""Affinities of new rows to the rows of a finished picture, each for itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from vicinal.core.types import Array
from vicinal.targets.build import check_counts, check_table, weight_lists
from vicinal.targets.calibration import Lists, calibrate, choose_sets, is_small
from vicinal.targets.distances import graph_lists, make_source

__all__ = ["NewAffinities", "new_affinities"]


@dataclass(frozen=True)
class NewAffinities:
    """Marginals of neighbourhoods of new rows among known ones, in compressed sparse rows.

    Parameters
    ----------
    indptr, indices, marginals, k, entropy
        As those of `Affinities`; ``indices`` are positions of known rows, the nearest first.
    distances : float64 array
        Distance of each of them; of given weights, minus their logarithm.
    twins : int64 array of shape (n_new,)
        Position of the first known row that is equal to the new one (of given distances: that is
        at distance 0); -1: there is none.
    n_known : int
        Number of known rows.
    """

    indptr: Array
    indices: Array
    marginals: Array
    k: int
    entropy: Array
    distances: Array
    twins: Array
    n_known: int

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def matrix(self) -> Any:
        """The marginals as a sparse array of shape (n_new, n_known)."""
        shape = (len(self), self.n_known)
        return sp.csr_array((self.marginals, self.indices, self.indptr), shape=shape)


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
    compiled = not is_small(n)
    if metric == "precomputed_affinities":
        lists = weight_lists(X_new, own=False)
        check_counts(lists, k)
        distances, twins = lists.values.copy(), np.full(X_new.shape[0], -1, np.int64)
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
        twins = _at_zero(lists) if given else _equal_rows(X_new, X)
        calibrate(lists, perplexity, compiled)
    entropy = choose_sets(lists, k, compiled)
    indptr, indices, marginals = lists
    return NewAffinities(indptr, indices, marginals, k, entropy, distances, twins, n)


def _at_zero(lists: Lists) -> Array:
    """The first member of each list if its distance is 0, else -1."""
    first, counts = lists.indptr[:-1], np.diff(lists.indptr)
    twins = np.full(len(first), -1, np.int64)
    some = np.flatnonzero(counts > 0)
    some = some[lists.values[first[some]] == 0]
    twins[some] = lists.indices[first[some]]
    return twins


def _equal_rows(X_new: Any, X: Any) -> Array:
    """The position of the first row of X that is equal to each new row, or -1.

    By the rows themselves: a distance may be rounded, or be 0 of rows that differ.
    """
    known: dict[bytes, int] = {}
    for i, row in enumerate(_contents(X)):
        known.setdefault(row, i)
    return np.array([known.get(row, -1) for row in _contents(X_new)], dtype=np.int64)


def _contents(X: Any) -> Any:
    """The numbers of each row as bytes; equal rows have equal ones."""
    if not sp.issparse(X):
        for row in X:
            yield (row.astype(np.float64) + 0.0).tobytes()  # -0.0 + 0.0 is 0.0
        return
    X = sp.csr_array(X, dtype=np.float64, copy=True)
    X.sum_duplicates()
    X.eliminate_zeros()
    for i in range(X.shape[0]):
        part = slice(X.indptr[i], X.indptr[i + 1])
        yield X.indices[part].astype(np.int64).tobytes() + X.data[part].tobytes()
