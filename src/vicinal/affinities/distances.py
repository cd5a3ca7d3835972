"""Where the distances of rows come from: a table and a metric, or given distances."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.metrics import euclidean_distances, pairwise_distances

from vicinal._search import finder, resolved
from vicinal._threads import block_edges, n_threads, run, single_threaded_blas
from vicinal.affinities.calibration import Lists
from vicinal.core.types import Array
from vicinal.engines import choose

_QUERIES = 4096  # of a search at a time
_PAIRS = 2**20  # distances of a block: 8 MB
# New rows are compared with so few rows by differences.  `_search` takes inner products there, and
# which of equally distant rows it finds may depend on the other queries of a block.
_DIRECT_UP_TO = 2000


class Source(Protocol):
    """Distances of queries, which may be the rows themselves, to all rows."""

    n: int
    approximate: bool

    def table(self, queries: Any) -> Array:
        """Squared distances of some queries to all rows."""

    def lists(self, queries: Any, length: int, own: bool) -> Lists:
        """The nearest rows of each query, with squared distances; ``own``: but not itself."""


def make_source(X: Any, metric: Any, params: dict[str, Any], search: str) -> Source:
    """The distances that ``metric`` says; X has been checked."""
    if metric == "precomputed":
        return GivenDistances(X)
    if metric in ("euclidean", "l2") and not params:
        return EuclideanRows(X, search)
    return MetricRows(X, metric, params)


def _in_blocks(
    queries: Any, length: int, own: bool, source: Any, threads: int, alone: bool = False
) -> Lists:
    """The nearest of each query from blocks of the table of all distances; ``alone``: of one."""
    n = queries.shape[0]
    indptr = np.arange(n + 1, dtype=np.int64) * length
    indices, values = np.empty((n, length), np.int32), np.empty((n, length))
    size = 1 if alone else max(1, _PAIRS // source.n)

    def task(first: int, thread: int) -> None:
        rows = slice(first, min(first + size, n))
        d2 = source.table(queries[rows])
        if own:
            d2[np.arange(len(d2)), np.arange(first, first + len(d2))] = np.inf
        indices[rows], values[rows] = nearest(d2, length)

    with single_threaded_blas():
        run(task, range(0, n, size), threads)
    return Lists(indptr, indices.ravel(), values.ravel())


def nearest(d2: Array, length: int) -> tuple[Array, Array]:
    """The nearest of each row of a table, sorted by distance and then by position."""
    if 4 * length >= d2.shape[1]:
        near = np.argsort(d2, axis=1, kind="stable")[:, :length]
        return near, np.take_along_axis(d2, near, axis=1)
    limit = np.partition(d2, length - 1, axis=1)[:, length - 1 : length]
    near = np.empty((len(d2), length), np.int64)
    for row, (found, most) in enumerate(zip(d2, limit, strict=True)):
        some = np.flatnonzero(found <= most)
        near[row] = some[np.argsort(found[some], kind="stable")[:length]]
    return near, np.take_along_axis(d2, near, axis=1)


class EuclideanRows:
    """Rows under the Euclidean distance."""

    def __init__(self, X: Any, search: str = "auto") -> None:
        self.X, self.n = X, X.shape[0]
        self.search = resolved(search, X)
        self.approximate = self.search == "faiss" and not choose.is_small(self.n)

    @cached_property
    def norms(self) -> Array:
        """Squared norms of the rows."""
        return _norms(self.X)

    def table(self, queries: Any) -> Array:
        """Squared distances of some queries to all rows, exactly 0 between equal rows."""
        if self.n <= _DIRECT_UP_TO and not sp.issparse(self.X):
            return cdist(queries, self.X, "sqeuclidean")
        d2 = euclidean_distances(queries, self.X, squared=True).astype(np.float64)
        return _rounded(d2, _norms(queries)[:, None] + self.norms)

    def lists(self, queries: Any, length: int, own: bool) -> Lists:
        """The nearest rows of each query; distances by differences."""
        if choose.is_small(self.n) or (not own and self.n <= _DIRECT_UP_TO):
            return _in_blocks(queries, length, own, self, n_threads())
        find = finder(self.search, self.X)
        n = queries.shape[0]
        counts = np.zeros(n, np.int64)
        indices, values = np.empty((n, length), np.int32), np.empty((n, length))
        for first in range(0, n, _QUERIES):
            rows = slice(first, min(first + _QUERIES, n))
            near, d2 = find(queries[rows], min(length + own, self.n))
            wanted = near >= 0
            if own:
                wanted &= near != np.arange(first, rows.stop)[:, None]
            wanted &= np.cumsum(wanted, axis=1) <= length  # a twin may have taken its own place
            counts[rows] = wanted.sum(axis=1)
            at = np.arange(length) < counts[rows][:, None]
            indices[rows][at], values[rows][at] = near[wanted], d2[wanted]
        indptr = np.concatenate([[0], np.cumsum(counts)])
        if indptr[-1] < indices.size:
            there = np.arange(length) < counts[:, None]
            indices, values = indices[there], values[there]
        found = Lists(indptr, indices.ravel(), values.ravel())
        self._exactly(queries, found)
        return found

    def _exactly(self, queries: Any, lists: Lists) -> None:
        """Distances from differences: 0 between equal rows, so that a twin is a twin."""
        indptr, indices, values = lists
        n = queries.shape[0]
        if sp.issparse(self.X):
            i = np.repeat(np.arange(n), np.diff(indptr))
            values[:] = _rounded(values, _norms(queries)[i] + self.norms[indices])
            return
        from vicinal.kernels.affinities import exact_distances

        edges = block_edges(n, 256)
        rows = np.arange(n)

        def task(b: int, thread: int) -> None:
            exact_distances(queries, self.X, rows, indptr, indices, values, edges[b], edges[b + 1])

        run(task, range(len(edges) - 1), n_threads())


def _norms(X: Any) -> Array:
    """Squared norms of the rows."""
    if sp.issparse(X):
        return np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel()
    return np.einsum("ij,ij->i", X, X, dtype=np.float64)


def _rounded(d2: Array, norms: Array) -> Array:
    """Distances from inner products: what may be a rounding error alone is 0.

    ``norms`` are the sums of the squared norms of both rows.
    """
    # scikit-learn computes inner products of float32 in float64
    d2[d2 <= 16 * float(np.finfo(np.float64).eps) * norms] = 0.0
    return d2


class MetricRows:
    """Rows under any other metric of scikit-learn, by name or as a function of two rows."""

    approximate = False

    def __init__(self, X: Any, metric: Any, params: dict[str, Any]) -> None:
        self.X, self.metric, self.n = X, metric, X.shape[0]
        self.params = dict(params)
        # which scikit-learn computes of all rows, and we hand it blocks
        if metric == "seuclidean" and "V" not in params:
            self.params["V"] = np.var(X, axis=0, ddof=1)
        if metric == "mahalanobis" and "V" not in params and "VI" not in params:
            self.params["VI"] = np.linalg.inv(np.cov(X.T)).T

    def table(self, queries: Any) -> Array:
        """Squared distances of some queries to all rows."""
        d = pairwise_distances(queries, self.X, metric=self.metric, **self.params)
        d = np.asarray(d, dtype=np.float64)
        if not np.isfinite(d).all() or (d < -1e-12).any():
            raise ValueError(
                f"The distances of metric={self.metric!r} must be finite and not negative. "
                f"Got {d.min()}..{d.max()} instead."
            )
        return np.square(d)

    def lists(self, queries: Any, length: int, own: bool) -> Lists:
        """The nearest rows of each query."""
        # a function of the user's may not bear several threads, and would not gain by them
        threads = 1 if callable(self.metric) else n_threads()
        # products of matrices round a row differently in other company
        return _in_blocks(queries, length, own, self, threads, alone=not own)


class GivenDistances:
    """A dense table of distances, queries × rows."""

    approximate = False

    def __init__(self, D: Array) -> None:
        self.n = D.shape[1]

    def table(self, queries: Any) -> Array:
        """Squares of some rows of the table."""
        return np.square(queries, dtype=np.float64)

    def lists(self, queries: Any, length: int, own: bool) -> Lists:
        """The nearest rows of each query."""
        return _in_blocks(queries, length, own, self, n_threads())


def graph_lists(graph: Any, own: bool) -> Lists:
    """All entries of a sparse matrix, the smallest of each row first; ``own``: no diagonal."""
    entries = sp.coo_array(graph)
    i, j, values = entries.row, entries.col, entries.data.astype(np.float64)
    if own:
        others = i != j
        i, j, values = i[others], j[others], values[others]
    order = np.lexsort((j, values, i))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(i, minlength=graph.shape[0]))])
    return Lists(indptr.astype(np.int64), j[order].astype(np.int32), values[order])
