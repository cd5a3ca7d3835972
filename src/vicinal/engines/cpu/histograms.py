"""Compiled chi-squared distances: all pairs, and the nearest rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from vicinal._threads import n_threads, run
from vicinal.core.types import Array
from vicinal.kernels import chi2 as kernels

_ROWS = 64  # queries per task
_TILE = 2**18  # bytes of references in a tile: half of a second-level cache


def chi2_rows(X: Array, Y: Array, same: bool) -> Array:
    """Chi-squared distances between all rows of X and Y."""
    out = np.empty((len(X), len(Y)), X.dtype)

    def task(first: int, thread: int) -> None:
        last = min(first + _ROWS, len(X))
        kernels.chi2_rows(X, first, last, Y, same, _tiny(Y), _tile(Y), out)

    run(task, range(0, len(X), _ROWS), n_threads())
    return out


def nearest_histograms(X: Array, Y: Array, k: int, same: bool) -> tuple[Array, Array]:
    """Distances and positions of the k nearest rows of Y, nearest first."""
    near = np.zeros((len(X), k), np.int64)
    distances = np.full((len(X), k), np.inf, X.dtype)

    def task(first: int, thread: int) -> None:
        last = min(first + _ROWS, len(X))
        kernels.chi2_nearest(X, first, last, Y, same, _tiny(Y), _tile(Y), near, distances)

    run(task, range(0, len(X), _ROWS), n_threads())
    return distances, near


def _tiny(Y: Array) -> Any:
    return np.finfo(Y.dtype).tiny


def _tile(Y: Array) -> int:
    return max(4, _TILE // max(1, Y.shape[1] * Y.itemsize) // 4 * 4)
