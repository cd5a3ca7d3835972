"""Sums over sets of k fixed points, seen from any place: by compiled loops, or from a grid."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from vicinal._threads import block_edges, n_threads, run
from vicinal.core.types import Array
from vicinal.engines.cpu.grid import DOUBT
from vicinal.engines.cpu.grid_points import Box, Points, most_nodes
from vicinal.engines.cpu.grid_transforms import (
    convolve_each,
    is_small,
    make_axes,
    make_kernels,
)
from vicinal.engines.dense.potential import RANGE
from vicinal.kernels.grid import ORDER, gather_fields
from vicinal.kernels.newton import newton
from vicinal.kernels.potential import potential_scratch, set_potential

_PLACES = 16  # of a task
_POINTS = 2048  # points that a thread gathers at a time


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


def finest_box(Z: Array) -> Box | None:
    """The finest grid around all points (n, d), None if each is too large."""
    low = Z.min(axis=0).astype(np.float64)
    for finer in (2, 1, 0):
        box = Box(low, make_axes(Z.max(axis=0) - low, finer))
        if box.n_nodes <= most_nodes(len(Z)):
            return box
    return None


class PotentialField:
    """The power sums of new points over a finished picture, by the potentials on its grid.

    Parameters
    ----------
    Z : array of shape (n, 1) or (n, 2)
        The picture.
    k : int
        Number of powers.
    box : Box
        A grid around all points of the picture, see `finest_box`.

    The transforms are in float64 and the grid is finer than that of a fit, if it does not become
    too large: they are computed once, and a search for the least loss needs a smooth function.
    """

    def __init__(self, Z: Array, k: int, box: Box) -> None:
        self.k, self.n = k, len(Z)
        self.box, self.low = box, box.low
        points = Points(np.ascontiguousarray(Z.T, dtype=np.float64), box)
        self.flat = points.flat
        self.kernels = make_kernels(k, box.axes, "float64")
        self.fields = points.empty_fields(k, np.float64)
        grid = points.spread(np.ones((1, len(points.rows))), np.float64)[0]
        self.rounding = convolve_each(grid, self.kernels, box.axes, self.fields)

    def covers(self, Y: Array) -> Array:
        """Which of the points (n_new, d) lie within the grid."""
        last = [axis.nodes - ORDER for axis in self.box.axes[: Y.shape[1]]]
        place = (Y - self.low) / self.box.axes[0].spacing
        return np.all((place >= 0) & (place <= last), axis=1)

    def __call__(self, Y: Array) -> tuple[Array, Array]:
        """S_1, ..., S_k of points that `covers`, and their gradients: (k, n_new), (k, n_new, d)."""
        place = np.zeros((2, len(Y)))
        place[: Y.shape[1]] = ((Y - self.low) / self.box.axes[0].spacing).T
        sums, slopes = np.empty((self.k, len(Y))), np.empty((self.k, 2, len(Y)))
        scratch = np.empty((n_threads(), 4, ORDER))

        def task(piece: tuple[int, int], thread: int) -> None:
            gather_fields(place, self.fields, *piece, self.flat, sums, slopes, scratch[thread])

        edges = block_edges(len(Y), _POINTS)
        run(task, list(pairwise(edges)), len(scratch))
        if is_small(self.box.axes):
            sums += self.n
        slopes /= self.box.axes[0].spacing
        return sums, np.ascontiguousarray(slopes[:, : Y.shape[1]].transpose(0, 2, 1))
