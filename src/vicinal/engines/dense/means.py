"""Kernel-weighted means of numbers at new points, block by block in NumPy."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist

from vicinal._threads import n_threads, run
from vicinal.core.types import Array
from vicinal.densities import Kernel

BLOCK = 2**18  # pairs in a block of queries: 2 MB


def kernel_means(
    Z: Array, Z_reference: Array, charges: Array, mass: Array | None, kernel: Kernel
) -> Array:
    """The weighted mean of the references' charges at each point, (n, q); see `Backend`.

    Every sum goes along one row of a block, so that no point's bits depend on the other points.
    """
    Zr = Z_reference.astype(np.float64, copy=False)
    columns = np.ascontiguousarray(charges.T)
    log_mass = 0.0 if mass is None else np.log(mass)
    out = np.empty((len(Z), len(columns)))
    size = max(1, BLOCK // len(Zr))

    def task(first: int, thread: int) -> None:
        rows = slice(first, min(first + size, len(Z)))
        squared = cdist(Z[rows].astype(np.float64, copy=False), Zr, "sqeuclidean")
        energy, _ = kernel.energy(squared, Z.shape[1])
        energy = energy - log_mass
        # shifted by the least energy: the largest weight is one, however far all references are
        weight = np.exp(energy.min(axis=1)[:, None] - energy)
        total = weight.sum(axis=1)
        for column, charge in enumerate(columns):
            out[rows, column] = (weight * charge).sum(axis=1) / total

    run(task, range(0, len(Z), size), n_threads())
    return out
