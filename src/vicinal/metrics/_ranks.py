"""What the measures of an embedding need: checks, distances in blocks, nearest rows, ranks.

Nothing of size n² is made: a block holds about ``_PAIRS`` distances, whatever n is.  The cut into
blocks depends on n alone and BLAS runs on one thread, so the bits do not depend on the threads.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.metrics import pairwise_distances
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import check_array, check_random_state

from vicinal._threads import n_threads, run, single_threaded_blas
from vicinal.core.types import Array

_PAIRS = 2**19  # distances in a block: 4 MB
# Columns up to which coordinates are subtracted.  Inner products take less time for more columns,
# but equal rows then have distances that differ by rounding errors.
_SUBTRACT_TO = 8

#: distances of some rows, given by their numbers, to all rows
Distances = Callable[[Array], Array]


def check_pair(name: str, X: Any, Z: Any, metric: Any, least: int) -> tuple[Any, Array]:
    """The data and the embedding, checked; the data have at least ``least`` rows."""
    precomputed = isinstance(metric, str) and metric == "precomputed"
    X = check_array(
        X, accept_sparse=False if precomputed else "csr", dtype=[np.float64, np.float32],
        ensure_min_samples=least, input_name="X",
    )  # fmt: skip
    Z = check_array(Z, dtype=[np.float64, np.float32], input_name="Z")
    n = X.shape[0]
    if precomputed and X.shape != (n, n):
        raise ValueError(
            f"X must be square for metric='precomputed' of {name}. Got shape {X.shape} instead."
        )
    if len(Z) != n:
        raise ValueError(f"Z must have as many rows as X, {n}. Got {len(Z)} instead.")
    return X, Z


def check_count(owner: str, name: str, value: Any, default: int | None, high: int) -> int:
    """A checked whole number in [1, high]; None stands for the default, if there is one."""
    if value is None and default is not None:
        return default
    if not isinstance(value, Integral) or isinstance(value, bool) or not 1 <= int(value) <= high:
        none = "" if default is None else " or None"
        raise ValueError(
            f"The {name!r} parameter of {owner} must be an int in [1, {high}]{none}. "
            f"Got {value!r} instead."
        )
    return int(value)


def draw_rows(owner: str, n: int, sample_size: Any, random_state: Any) -> Array:
    """The rows over which the mean is taken, in ascending order."""
    size = check_count(owner, "sample_size", sample_size, n, n)
    if size == n:
        return np.arange(n)
    return np.sort(check_random_state(random_state).permutation(n)[:size])


def distances(X: Any, metric: Any) -> Distances:
    """The function that computes distances from some rows of ``X`` to all of them.

    A row is at distance minus infinity from itself, so that it always comes first.
    """
    if isinstance(metric, str) and metric == "precomputed":
        return _itself_first(lambda rows: np.array(X[rows], dtype=np.float64))
    euclidean = isinstance(metric, str) and metric in ("euclidean", "l2", "sqeuclidean")
    if euclidean and not sp.issparse(X):
        if X.shape[1] <= _SUBTRACT_TO:
            X = np.asarray(X, dtype=np.float64)
            return _itself_first(lambda rows: cdist(X[rows], X, "sqeuclidean"))
        X = X - X.mean(axis=0)  # inner products lose digits far from the origin
        return _itself_first(lambda rows: euclidean_distances(X[rows], X, squared=True))
    return _itself_first(lambda rows: pairwise_distances(X[rows], X, metric=metric))


def _itself_first(compute: Distances) -> Distances:
    def found(rows: Array) -> Array:
        D = compute(rows)
        D[np.arange(len(rows)), rows] = -np.inf
        return D

    return found


def sum_over_blocks(count: Callable[[Array], Any], rows: Array, n: int) -> Any:
    """The sum of ``count(rows of a block)`` over blocks of the rows, on all threads.

    The counts are integers, so the sum does not depend on the order in which threads finish.
    """
    size, threads = max(1, _PAIRS // n), n_threads()
    totals: list[Any] = [0] * threads

    def task(first: int, thread: int) -> None:
        totals[thread] = totals[thread] + count(rows[first : first + size])

    with single_threaded_blas():
        run(task, range(0, len(rows), size), threads)
    return sum(totals)


def nearest(D: Array, k: int) -> Array:
    """Numbers of the k nearest other rows, nearest first; of equally near ones the first."""
    if 4 * k >= D.shape[1]:
        return np.argsort(D, axis=1, kind="stable")[:, 1 : k + 1]
    bound = np.partition(D, k, axis=1)[:, k : k + 1]  # the row itself is the 0-th
    within = D <= bound
    counts = np.count_nonzero(within, axis=1)
    plain = counts == k + 1
    near = np.empty((len(D), k), np.int64)
    found = np.nonzero(within[plain])[1].reshape(-1, k + 1)
    order = np.argsort(np.take_along_axis(D[plain], found, axis=1), axis=1, kind="stable")
    near[plain] = np.take_along_axis(found, order, axis=1)[:, 1:]
    for row in np.flatnonzero(~plain):  # several rows are as far as the k-th
        tied = np.flatnonzero(within[row])
        near[row] = tied[np.argsort(D[row, tied], kind="stable")[1 : k + 1]]
    return near


def ranks(order: Array, n: int) -> Array:
    """Rank of every row in the order of each query, from 1; n for those that are not listed."""
    found = np.full((len(order), n), n, np.int32)
    numbers = np.arange(1, order.shape[1] + 1, dtype=np.int32)
    np.put_along_axis(found, order, np.broadcast_to(numbers, order.shape), axis=1)
    return found
