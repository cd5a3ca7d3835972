"""Sums over sets of k fixed points, seen from any place, by compiled loops."""

from __future__ import annotations

import math

import numpy as np

from vicinal._threads import n_threads, run
from vicinal.core.types import Array
from vicinal.engines.cpu.grid import DOUBT
from vicinal.engines.cpu.potential_field import PotentialField, finest_box
from vicinal.engines.dense.potential import RANGE
from vicinal.kernels.newton import newton
from vicinal.kernels.potential import potential_scratch, set_potential

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


class GridPotential:
    """As `DensePotential` for the Cauchy kernel in one or two dimensions, interpolated.

    Places outside of the grid, and those where the identities would amplify the error of the
    interpolation too much, are computed from all points; and so are all places if the points spread
    too far for a grid: ``field`` is None then.
    """

    def __init__(self, Z: Array, k: int) -> None:
        box = finest_box(Z)
        self.field = None if box is None else PotentialField(Z, k, box)
        self.exact = CompiledPotential(Z, k, "cauchy", 0.0)

    def __call__(self, places: Array) -> tuple[Array, Array]:
        """The values (m,) and the gradients (m, d) at some places."""
        if self.field is None:
            return self.exact(places)
        k, (m, d) = self.exact.k, places.shape
        values, gradients = np.empty(m), np.empty((m, d))
        inside = np.flatnonzero(self.field.covers(places))
        sums, slopes = self.field(places[inside])
        found, doubt = np.empty((2, len(inside)))
        coefficients = np.empty((k, len(inside)))
        errors = self.field.kernels.error, self.field.rounding
        newton(sums, *errors, 0, len(inside), found, coefficients, doubt, np.empty(k + 1))
        # the derivative of log e_k by S_m is c_m / m
        pulled = np.zeros((len(inside), d))
        for power in range(k):
            pulled += (coefficients[power] / (power + 1.0))[:, None] * slopes[power]
        good = doubt <= DOUBT
        values[inside[good]], gradients[inside[good]] = found[good], pulled[good]
        rest = np.ones(m, dtype=bool)
        rest[inside[good]] = False
        if rest.any():
            values[rest], gradients[rest] = self.exact(places[rest])
        return values, gradients
