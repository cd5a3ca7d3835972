"""What a fit will cost, said before anything is allocated."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vicinal import _features
from vicinal._threads import n_threads
from vicinal.core.types import PairCost

__all__ = ["Cost", "Size", "batch_cost", "exact_cost", "lists_cost"]

_PRODUCT = 0.15  # nanoseconds per entry of X and dimension, and thread


class Size(NamedTuple):
    """What the cost of a fit depends on."""

    n: int
    n_features: int
    n_components: int
    itemsize: int
    dense: bool
    pair: PairCost = PairCost()


class Cost(NamedTuple):
    """Memory beyond the input and time of one evaluation of the objective."""

    memory_bytes: int
    seconds_per_evaluation: float

    def __str__(self) -> str:
        return (
            f"about {self.memory_bytes / 2**20:.1f} MiB beyond the input and "
            f"{self.seconds_per_evaluation:.2g} s for each evaluation"
        )


def exact_cost(size: Size, threads: int | None = None) -> Cost:
    """Cost of all pairs: O(n d) memory, O(n² d + n d D) time."""
    return batch_cost(size, size.n, size.n, threads)


def batch_cost(size: Size, rows: int, queries: int, threads: int | None = None) -> Cost:
    """Cost of some rows embedded, and some of these scored against them all."""
    pairs: float = rows * queries
    if queries == rows and size.pair.both_ways:
        pairs /= 2
    each = size.pair.per_pair(size.n_components, size.itemsize)
    return _cost(size, rows, pairs * each, threads)


def lists_cost(size: Size, queries: int, length: int, threads: int | None = None) -> Cost:
    """Cost of some rows scored against lists of so many others; the search for them is extra."""
    listed = size.pair.per_listed(size.n_components)
    memory, seconds = _cost(size, size.n, queries * length * listed, threads)
    # the lists of all rows, and the points that a search is made among
    memory += 4 * size.n * (length + 1) + 8 * size.n * size.n_components
    return Cost(memory, seconds)


def _cost(size: Size, rows: int, nanoseconds: float, threads: int | None) -> Cost:
    threads = n_threads() if threads is None else threads
    n, n_features, d = size.n, size.n_features, size.n_components
    # embedded points, their sorted copy and two gradients; statistics of each row
    memory = 4 * n * d * size.itemsize + 24 * n * 8
    if size.pair.more is not None:
        memory += int(size.pair.more(n, n_features, d, size.itemsize))
    if size.dense and n * n_features * 8 <= _features.copy_limit():
        memory += n * n_features * 8
    if rows < n:
        memory += rows * n_features * 8
    memory += threads * 1024 * n_features * 8
    nanoseconds += 2 * _PRODUCT * rows * n_features * d
    return Cost(int(memory), float(np.round(nanoseconds * 1e-9 / threads, 6)))
