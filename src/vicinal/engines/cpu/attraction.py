"""Attraction of kSNE over the lists of a sparse target: on all threads, in one fixed order."""

from __future__ import annotations

import math

import numpy as np

from vicinal._threads import block_edges, n_threads, run
from vicinal.core.types import Array
from vicinal.kernels.ksne_attraction import LENGTH, ksne_attraction
from vicinal.targets import Affinities

# Rows per task: enough for their work to outweigh the call, and few enough for some thousand rows
# to be shared out evenly.
_ROWS = 256


def attraction(
    Z: Array, target: Affinities, kernel: str, kappa: float, gradient: bool = True
) -> tuple[float, Array | None]:
    """The sum of ``-p_ij log w_ij`` over all rows, and its gradient by Z, in float64.

    Every block of rows has a sum of its own, and these are added in the order of the blocks.
    """
    P = target.symmetric
    n, d = Z.shape
    Z = np.ascontiguousarray(Z, dtype=np.float64)
    dZ = np.empty((n if gradient else 0, d))
    edges = block_edges(n, _ROWS)
    sums = np.zeros(len(edges) - 1)
    scratch = [(np.empty((d, LENGTH)), np.empty(LENGTH)) for _ in range(n_threads())]

    def task(b: int, thread: int) -> None:
        sums[b] = ksne_attraction(
            Z, P.indptr, P.indices, P.data, float(kappa), kernel == "gaussian", gradient,
            edges[b], edges[b + 1], dZ, *scratch[thread],
        )  # fmt: skip

    run(task, range(len(sums)), len(scratch))
    # each pair is in the lists of both its rows
    value = 0.5 * math.log(2.0) * math.fsum(sums)
    return value, dZ if gradient else None
