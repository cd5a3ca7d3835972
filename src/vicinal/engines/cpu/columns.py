"""The compiled projection of columns onto the probability simplex."""

from __future__ import annotations

import numpy as np

from vicinal._threads import n_threads, run
from vicinal.core.types import Array
from vicinal.kernels import simplex as kernels


def simplex_columns(L: Array, slack: float) -> Array:
    """Project the columns of a finite matrix, (r, D), on all threads."""
    out = np.empty_like(L)
    # whole cache lines of columns, about 2**17 entries per task
    size = max(8, 2**17 // max(1, len(L)) // 8 * 8)

    def task(first: int, thread: int) -> None:
        kernels.simplex_columns(L, first, min(first + size, L.shape[1]), slack, out)

    run(task, range(0, L.shape[1], size), n_threads())
    return out
