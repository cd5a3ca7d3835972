"""The repulsion of new points by a finished picture, from the potentials on its grid."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from vicinal import _threads
from vicinal.core.types import Array
from vicinal.engines.cpu.grid_points import Box, Points, most_nodes
from vicinal.engines.cpu.grid_transforms import (
    convolve_each,
    is_small,
    make_axes,
    make_kernels,
)
from vicinal.kernels.grid import ORDER, gather_fields

_POINTS = 2048  # points that a thread gathers at a time


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
        self.fields = points.empty_fields(k)
        grid = points.spread(np.ones((1, len(points.rows))))[0]
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
        scratch = np.empty((_threads.n_threads(), 4, ORDER))

        def task(piece: tuple[int, int], thread: int) -> None:
            gather_fields(place, self.fields, *piece, self.flat, sums, slopes, scratch[thread])

        edges = _threads.block_edges(len(Y), _POINTS)
        _threads.run(task, list(pairwise(edges)), len(scratch))
        if is_small(self.box.axes):
            sums += self.n
        slopes /= self.box.axes[0].spacing
        return sums, np.ascontiguousarray(slopes[:, : Y.shape[1]].transpose(0, 2, 1))
