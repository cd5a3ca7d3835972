"""Where the grid of a picture lies, which points are on it, and how charges get there."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from vicinal import _threads
from vicinal.core.types import Array
from vicinal.engines.cpu.grid_transforms import Axis, make_axes
from vicinal.kernels.grid import ORDER, spread

_POINTS = 2048  # points that a thread gathers at a time
_STRIPS = 32  # of the rows of the grid, whose points are spread together
_CHECK_FROM = 2**16  # nodes from which it is asked whether a few points make the grid that large
_FAR_COST = 12  # a pair with a point outside of the grid, in pairs of the exact engine


class Box(NamedTuple):
    """Where the grid lies: its lowest corner and its axes, and the points within it."""

    low: Array
    axes: tuple[Axis, Axis]
    rows: Array | None = None  # None: all

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return self.axes[0].nodes * self.axes[1].nodes


def most_nodes(n: int) -> int:
    """The largest grid for n points."""
    return max(2**20, 4 * n)


def box_cost(box: Box, n: int, k: int) -> float:
    """The cost of the transforms and of the points left out, in pairs of the exact engine.

    The constants are those of benchmarks/results/ksne_engines.md.
    """
    per_node = (40.0 + 60.0 * k) / (3.0 + 0.2 * k)
    n_far = 0 if box.rows is None else n - len(box.rows)
    return per_node * box.n_nodes + _FAR_COST * n_far * n


def choose_box(Z: Array, k: int, finer: int = 0) -> Box:
    """The grid of least cost: around all points (d, n), or without those furthest out.

    Pairs with a point outside are computed one by one.  ``finer`` is added to the fineness.
    """
    n = Z.shape[1]
    low = Z.min(axis=1)
    best = Box(low, make_axes(Z.max(axis=1) - low, finer))
    if best.n_nodes <= _CHECK_FROM + 8 * n:
        return best
    reach = np.max(np.abs(Z - np.median(Z, axis=1)[:, None]), axis=0)
    order = np.argsort(reach, kind="stable")
    lows = np.minimum.accumulate(Z[:, order], axis=1)
    extents = np.maximum.accumulate(Z[:, order], axis=1) - lows
    cost, left_out = box_cost(best, n, k), 1
    while left_out < n and (best.n_nodes > most_nodes(n) or _FAR_COST * left_out * n < cost):
        last = n - 1 - left_out
        box = Box(lows[:, last], make_axes(extents[:, last], finer), order[: n - left_out])
        if box_cost(box, n, k) < cost or best.n_nodes > most_nodes(n):
            best, cost = box, box_cost(box, n, k)
        left_out *= 2
    return best if best.rows is None else best._replace(rows=np.sort(best.rows))


class Points:
    """Points on a grid, in the order of its rows."""

    def __init__(self, Z: Array, box: Box) -> None:
        self.axes, self.flat = box.axes, len(Z) == 1
        inner = Z if box.rows is None else Z[:, box.rows]
        place = (inner - box.low[:, None]) / box.axes[0].spacing
        cells = place[0].astype(np.int64)
        if box.axes[0].nodes < 2**16:
            cells = cells.astype(np.uint16)  # for a radix sort
        order = np.argsort(cells, kind="stable")
        self.rows = order if box.rows is None else box.rows[order]
        self.place = np.zeros((2, len(order)))
        np.take(place, order, axis=1, out=self.place[: len(Z)])
        height = max(ORDER, -(-box.axes[0].nodes // _STRIPS))  # strips touch only their neighbours
        edges = np.arange(0, box.axes[0].nodes + height, height)
        self.strips = np.searchsorted(cells[order], edges)
        self.shape = box.axes[0].nodes, max(ORDER, box.axes[1].nodes)

    def scratch(self) -> Array:
        """Work space of each thread."""
        return np.empty((_threads.n_threads(), 4, ORDER))

    def empty_fields(self, count: int) -> Array:
        """Space for fields; a line has one column of them, and the others are zero."""
        return (np.zeros if self.flat else np.empty)((count, *self.shape))

    def spread(self, charges: Array) -> Array:
        """Charges (n_charges, n), in the order of ``rows``, at the nodes."""
        grid = np.zeros((len(charges), *self.shape))
        scratch = self.scratch()

        def task(strip: int, thread: int) -> None:
            first, last = self.strips[strip], self.strips[strip + 1]
            spread(self.place, charges, first, last, self.flat, grid, scratch[thread])

        for begin in range(2):  # strips of one colour touch different rows of the grid
            strips = range(begin, len(self.strips) - 1, 2)
            _threads.run(task, strips, len(scratch))
        return grid

    def pieces(self) -> list[tuple[int, int]]:
        """Ranges of points for the threads."""
        edges = _threads.block_edges(len(self.rows), _POINTS)
        return list(pairwise(edges))
