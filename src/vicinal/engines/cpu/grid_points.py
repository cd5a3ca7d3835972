"""Where the grid of a picture lies, which points are on it, and how charges get there."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from vicinal import _threads
from vicinal.core.types import Array
from vicinal.engines.cpu.grid_transforms import Axis, grid_shape, make_axes, room
from vicinal.kernels.grid import ORDER, spread

_POINTS = 512  # points that a thread gathers at a time
# nanoseconds for a point and a charge, or a point and a field, with AVX-512
_SPREAD, SUMS, FORCES = 45.0, 45.0, 100.0
_STRIPS = 32  # of the rows of the grid, whose points are spread together
_CHECK_FROM = 2**16  # nodes from which it is asked whether a few points make the grid that large
_FAR_COST = 5  # a pair with a point outside of the grid, in pairs of the exact engine


class Box(NamedTuple):
    """Where the grid lies: its lowest corner and its axes, and the points within it."""

    low: Array
    axes: tuple[Axis, Axis]
    rows: Array | None = None  # None: all

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return self.axes[0].nodes * self.axes[1].nodes

    def cost(self, n: int, k: int) -> float:
        """Its cost for n points: see `box_cost`."""
        return box_cost(self.n_nodes, 0 if self.rows is None else n - len(self.rows), n, k)


def most_nodes(n: int) -> int:
    """The largest grid for n points."""
    return max(2**20, 4 * n)


def box_cost(n_nodes: int, n_far: int, n: int, k: int) -> float:
    """The cost of the transforms and of the points left out, in pairs of the exact engine.

    Measured with AVX-512, in nanoseconds of the processor: a node and a pair for k = 1, 2, 5, 10.
    """
    per_node = (20.0 + 23.0 * k) / (1.8 + 0.1 * k)
    return per_node * n_nodes + _FAR_COST * n_far * n


def choose_box(Z: Array, k: int, finer: int = 0) -> Box:
    """The grid of least cost: around all points (d, n), or without those furthest out.

    Pairs with a point outside are computed one by one.  ``finer`` is added to the fineness.  Sums
    of single weights have no identities that would amplify their errors: for k = 1 a grid of half
    as many nodes is as good as the sums of others (benchmarks/results/ksne_engines.md).
    """
    n, finer = Z.shape[1], finer - (k == 1)
    low = Z.min(axis=1)
    best = Box(low, make_axes(Z.max(axis=1) - low, finer))
    if best.n_nodes <= _CHECK_FROM + 8 * n:
        return best
    cost, left_out, best_left_out = box_cost(best.n_nodes, 0, n, k), 1, 0
    many = n - 1 if best.n_nodes > most_nodes(n) else min(n - 1, int(cost / (_FAR_COST * n)) + 1)
    order, lows, extents = _outermost(Z, many)
    while left_out <= many and (best.n_nodes > most_nodes(n) or _FAR_COST * left_out * n < cost):
        last = many - left_out
        box = Box(lows[:, last], make_axes(extents[:, last], finer))
        found = box_cost(box.n_nodes, left_out, n, k)
        if found < cost or best.n_nodes > most_nodes(n):
            best, cost, best_left_out = box, found, left_out
        left_out *= 2
    if not best_left_out:
        return best
    inside = np.ones(n, bool)
    inside[order[many - best_left_out :]] = False
    return best._replace(rows=np.flatnonzero(inside))


def _outermost(Z: Array, many: int) -> tuple[Array, Array, Array]:
    """The points furthest from the median, the furthest last.

    And the lowest corners and the extents of the others with the first 0, 1, ... of them.
    """
    n = Z.shape[1]
    reach = np.max(np.abs(Z - np.median(Z, axis=1)[:, None]), axis=0)
    order = np.argpartition(reach, n - many - 1) if many < n - 1 else np.argsort(reach)
    inner, outer = order[: n - many], np.sort(order[n - many :])
    outer = outer[np.argsort(reach[outer], kind="stable")]
    ends = []
    for end in (np.minimum, np.maximum):
        first = end.reduce(Z[:, inner], axis=1)[:, None]
        ends.append(end.accumulate(np.hstack([first, Z[:, outer]]), axis=1))
    return outer, ends[0], ends[1] - ends[0]


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

    def scratch(self, nanoseconds: float) -> Array:
        """Work space of each thread, for work that takes one thread this long for each point."""
        threads = _threads.n_threads_for(nanoseconds * len(self.rows))
        return np.empty((threads, 4, ORDER))

    def empty_fields(self, count: int, dtype: Any) -> Array:
        """Space for fields; a line has one column of them, and the others are zero."""
        shape = count, *grid_shape(self.axes, dtype)
        return np.zeros(shape, dtype) if self.flat else np.empty(shape, dtype)

    def spread(self, charges: Array, dtype: Any) -> Array:
        """Charges (n_charges, n), in the order of ``rows``, at the nodes."""
        grid = room("grid", (len(charges), *grid_shape(self.axes, dtype)), dtype)
        grid[:] = 0.0
        scratch = self.scratch(_SPREAD * len(charges) / 2)
        many = len(scratch)

        def task(first: int, thread: int) -> None:
            spread(self.place, charges, self.strips, first, 2 * many, self.flat, grid,
                   scratch[thread])  # fmt: skip

        for begin in range(2):  # strips of one colour touch different rows of the grid
            _threads.run(task, range(begin, begin + 2 * many, 2), many)
        return grid

    def pieces(self) -> list[tuple[int, int]]:
        """Ranges of points for the threads."""
        edges = _threads.block_edges(len(self.rows), _POINTS)
        return list(pairwise(edges))
