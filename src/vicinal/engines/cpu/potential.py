"""Sums over sets of k fixed points, seen from any place, by compiled loops."""

from __future__ import annotations

import math

import numpy as np

from vicinal._threads import n_threads, run
from vicinal.core.types import Array
from vicinal.engines.dense_potential import RANGE
from vicinal.kernels.potential import potential_scratch, set_potential

__all__ = ["CompiledPotential"]

_PLACES = 16  # of a task


class CompiledPotential:
    """As `DensePotential`, for any number of points."""

    def __init__(self, Z: Array, k: int, kernel: str, kappa: float) -> None:
        self.Z, self.k, self.kernel, self.kappa = Z, k, kernel, kappa

    def __call__(self, places: Array) -> tuple[Array, Array]:
        """The values (m,) and the gradients (m, d) at some places."""
        (n, d), k, m = self.Z.shape, self.k, len(places)
        values, gradients = np.empty(m), np.empty((m, d))
        scratch = [potential_scratch(n, d, k) for _ in range(n_threads())]
        fixed = self.Z, places, k, self.kernel == "gaussian", self.kappa
        most = math.exp(RANGE / max(k, 10))

        def task(first: int, thread: int) -> None:
            last = min(first + _PLACES, m)
            set_potential(*fixed, most, values, gradients, first, last, *scratch[thread])

        run(task, range(0, m, _PLACES), n_threads())
        return values, gradients
