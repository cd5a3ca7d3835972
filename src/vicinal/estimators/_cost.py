"""What a fit will cost, said before anything is allocated."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vicinal import _features
from vicinal._threads import n_threads

__all__ = ["Cost", "Size", "batch_cost", "exact_cost", "lists_cost"]

# Nanoseconds per pair and thread, fixed and per dimension, both passes; and per entry of X and
# dimension. Rough, for an AVX2 machine; benchmarks/nca_speed.py measures the real thing.
_PAIR = {4: (1.4, 0.25), 8: (2.6, 0.4)}
_PRODUCT = 0.15
_LISTED = (10.0, 3.0)  # a pair of a list, whose rows lie anywhere in memory


class Size(NamedTuple):
    """What the cost of a fit depends on."""

    n: int
    n_features: int
    n_components: int
    itemsize: int
    dense: bool


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
    """Cost of all-pairs NCA: O(n d) memory, O(n² d + n d D) time."""
    # every pair serves both its rows
    return _cost(size, size.n, size.n * size.n / 2, threads)


def batch_cost(size: Size, rows: int, queries: int, threads: int | None = None) -> Cost:
    """Cost of some rows embedded, and some of these scored against them all."""
    pairs = rows * rows / 2 if queries == rows else rows * queries
    return _cost(size, rows, pairs, threads)


def lists_cost(size: Size, queries: int, length: int, threads: int | None = None) -> Cost:
    """Cost of some rows scored against lists of so many others; the search for them is extra."""
    fixed, per_dimension = _PAIR[size.itemsize]
    dearer = (_LISTED[0] + _LISTED[1] * size.n_components) / (
        fixed + per_dimension * size.n_components
    )
    memory, seconds = _cost(size, size.n, queries * length * dearer, threads)
    # the lists of all rows, and the points that a search is made among
    memory += 4 * size.n * (length + 1) + 8 * size.n * size.n_components
    return Cost(memory, seconds)


def _cost(size: Size, rows: int, pairs: float, threads: int | None) -> Cost:
    threads = n_threads() if threads is None else threads
    n, n_features, d = size.n, size.n_features, size.n_components
    # embedded points, their sorted copy and two gradients; statistics of each row
    memory = 4 * n * d * size.itemsize + 24 * n * 8
    if size.dense and n * n_features * 8 <= _features.copy_limit():
        memory += n * n_features * 8
    if rows < n:
        memory += rows * n_features * 8
    memory += threads * 1024 * n_features * 8
    fixed, per_dimension = _PAIR[size.itemsize]
    seconds = pairs * (fixed + per_dimension * d) + 2 * _PRODUCT * rows * n_features * d
    return Cost(int(memory), float(np.round(seconds * 1e-9 / threads, 6)))
