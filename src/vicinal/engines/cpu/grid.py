r"""The repulsion of kt-SNE by potentials on a grid, for many points in one or two dimensions.

With the Cauchy kernel w the sums over all sets of k follow from the power sums
:math:`S_m(i) = \sum_{j \ne i} w_{ij}^m` (Newton's identities), and the marginals are
:math:`q_{ij} = \sum_m c_{im} w_{ij}^m`.  As :math:`\nabla_i w^m = -2 m w^{m+1} (z_i - z_j)`, the
gradient of :math:`\sum_i f_i \log e_k(w_i)` is

.. math:: \sum_m \tfrac{1}{m} \left[ f_i c_{im} \nabla S_m(i) + \nabla \Phi_m(i) \right],
   \qquad \Phi_m(i) = \sum_j f_j c_{jm} w_{ij}^m .

So k potentials of the charge 1, and one potential of k charges that are added up after their
transforms: 2 (k + 1) transforms in all.  The potentials are interpolated; rows whose identities
would amplify the error too much, and the few points that are too far out for the grid, are left to
the exact engine.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from vicinal import _threads
from vicinal.core.types import Array
from vicinal.engines.cpu.grid_transforms import (
    Axis,
    convolve_each,
    convolve_sum,
    is_small,
    make_axes,
    make_kernels,
    precision,
)
from vicinal.engines.cpu.sets import TileSets
from vicinal.kernels.grid import ORDER, gather_fields, gather_forces, gather_sums, spread
from vicinal.kernels.newton import newton

__all__ = ["GridSets", "PotentialField", "grid_bytes"]

#: rows whose estimated relative error of e_k is larger are left to the exact engine
DOUBT = 0.02
_POINTS = 2048  # points that a thread gathers at a time
_STRIPS = 32  # of the rows of the grid, whose points are spread together
_CHECK_FROM = 2**16  # nodes from which it is asked whether a few points make the grid that large
_NODE_COST = 4.0  # a node with its transforms costs as much as that many pairs


class _Box(NamedTuple):
    """Where the grid lies: its lowest corner and its axes, and the points within it."""

    low: Array
    axes: tuple[Axis, Axis]
    rows: Array | None = None  # None: all

    @property
    def n_nodes(self) -> int:
        return self.axes[0].nodes * self.axes[1].nodes


def most_nodes(n: int) -> int:
    """The largest grid for n points."""
    return max(2**20, 4 * n)


def _choose_box(Z: Array) -> _Box:
    """The grid of least cost: around all points (d, n), or without those furthest out.

    Pairs with a point outside are computed one by one.
    """
    n = Z.shape[1]
    low = Z.min(axis=1)
    best = _Box(low, make_axes(Z.max(axis=1) - low))
    if best.n_nodes <= _CHECK_FROM + 8 * n:
        return best
    reach = np.max(np.abs(Z - np.median(Z, axis=1)[:, None]), axis=0)
    order = np.argsort(reach, kind="stable")
    lows = np.minimum.accumulate(Z[:, order], axis=1)
    extents = np.maximum.accumulate(Z[:, order], axis=1) - lows
    cost, left_out = _NODE_COST * best.n_nodes, 1
    while left_out < n and (best.n_nodes > most_nodes(n) or left_out * n < cost):
        axes = make_axes(extents[:, n - 1 - left_out])
        box = _Box(lows[:, n - 1 - left_out], axes, order[: n - left_out])
        cost_here = _NODE_COST * box.n_nodes + left_out * n
        if cost_here < cost or best.n_nodes > most_nodes(n):
            best, cost = box, cost_here
        left_out *= 2
    return best if best.rows is None else best._replace(rows=np.sort(best.rows))


def grid_bytes(extent: Array, k: int) -> int:
    """Bytes that the grid of a picture takes; there are about 16 (k + 6) more for each point."""
    first, second = make_axes(np.asarray(extent, dtype=np.float64))
    nodes = first.nodes * max(second.nodes, ORDER)
    half = first.nodes * (second.half + 1)
    quarter = (first.half + 1) * (second.half + 1)
    # charges and fields; spectra before and after the kernels; transforms of two grids are kept
    return 8 * nodes * (2 * k + 2) + 16 * half * (k + 2) + 2 * 8 * quarter * k


class _Points:
    """Points on a grid, in the order of its rows."""

    def __init__(self, Z: Array, box: _Box) -> None:
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


class GridSets:
    """Sums over all sets of k, by potentials on a grid: see `base.SetSums`.

    All rows of Z are queries and references; Z has one or two columns.  The facts are
    "chain_rows", the rows left to the exact engine, "far_rows", the points outside of the grid,
    "grid_nodes", and "sum_error", the root of the mean squared estimate of the relative error of
    e_k over the other rows.
    """

    name = "grid"

    def __init__(self, Z: Array, k: int) -> None:
        self.Z, self.k = Z.astype(np.float64, copy=False), k
        self.transposed = np.ascontiguousarray(self.Z.T)
        self.facts: dict[str, float] = {}

    def sums(self) -> Array:
        """The log of the total weight of all sets of k, for each row."""
        n, k = len(self.Z), self.k
        box = _choose_box(self.transposed)
        self.points = points = _Points(self.transposed, box)
        self.far = np.delete(np.arange(n), points.rows) if len(points.rows) < n else None
        self.spacing = box.axes[0].spacing
        self.kernels = make_kernels(k, box.axes)
        self.fields = np.zeros((k + 1, *points.shape))
        grid = points.spread(np.ones((1, len(points.rows))))[0]
        convolve_each(grid, self.kernels, box.axes, self.fields[:k])
        log_total, doubt = self._newton(len(points.rows) - 1.0 if is_small(box.axes) else 0.0)
        self.exact = None
        rows = points.rows[doubt > DOUBT]
        if self.far is not None:
            rows = np.concatenate([rows, self.far])
        out = np.empty(n)
        out[points.rows] = log_total
        if len(rows):
            rows = np.sort(rows)
            self.coefficients[:, doubt > DOUBT] = 0.0
            self.exact = TileSets(self.Z, k, "cauchy", 0.0, rows, np.arange(n))
            self.exact_rows = rows
            out[rows] = self.exact.sums()
        kept = doubt[doubt <= DOUBT]
        self.facts = {
            "chain_rows": float(len(rows)),
            "far_rows": float(n - len(points.rows)),
            "grid_nodes": float(box.n_nodes),
            "sum_error": float(np.sqrt(np.mean(kept**2))) if len(kept) else 0.0,
        }
        return out

    def _newton(self, total: float) -> tuple[Array, Array]:
        """log e_k and its estimated error, in the order of the points; sets the coefficients."""
        points, k = self.points, self.k
        n = len(points.rows)
        sums, scratch = np.empty((k, n)), points.scratch()
        self.coefficients = np.empty((k, n))
        log_total, doubt = np.empty(n), np.empty(n)
        # rounding of the transforms, a few units in the last place of the largest sum
        digits = 4.0 * float(np.finfo(precision(points.axes)).eps)
        rounding = digits * self.fields[:k].max(axis=(1, 2))
        far = _far_sums(self.Z[points.rows], self.Z[self.far], k) if self.far is not None else None

        def task(piece: tuple[int, int], thread: int) -> None:
            first, last = piece
            gather_sums(
                points.place, self.fields[:k], self.kernels.own, first, last, points.flat, sums,
                scratch[thread],
            )  # fmt: skip
            if total:
                sums[:, first:last] += total
            if far is not None:
                sums[:, first:last] += far[:, first:last]
            newton(
                sums, self.kernels.error, rounding, first, last, log_total, self.coefficients,
                doubt, np.empty(k + 1),
            )  # fmt: skip

        _threads.run(task, points.pieces(), len(scratch))
        return log_total, doubt

    def pull(self, factors: Array) -> Array:
        """The gradient by Z of the sum of ``factors`` times the sums."""
        points, k = self.points, self.k
        charges = self.coefficients * factors[points.rows]
        weights = charges / np.arange(1, k + 1)[:, None]
        convolve_sum(points.spread(weights), self.kernels, points.axes, self.fields[k])
        forces, scratch = np.empty((2, len(points.rows))), points.scratch()

        def task(piece: tuple[int, int], thread: int) -> None:
            gather_forces(
                points.place, self.fields, weights, self.kernels.own, *piece, points.flat, forces,
                scratch[thread],
            )  # fmt: skip

        _threads.run(task, points.pieces(), len(scratch))
        dZ = np.zeros_like(self.Z)
        dZ[points.rows] = forces[: self.Z.shape[1]].T / self.spacing
        if self.far is not None:
            inner, outer = _far_pull(self.Z[points.rows], self.Z[self.far], charges)
            dZ[points.rows] += inner
            dZ[self.far] += outer
        if self.exact is not None:
            dZ += self.exact.pull(factors[self.exact_rows])
        return dZ


def _far_sums(inner: Array, outer: Array, k: int) -> Array:
    """Power sums of the weights of the inner points over the outer ones: (k, n)."""
    sums = np.zeros((k, len(inner)))
    for z in outer:
        w = 1.0 / (1.0 + np.sum((inner - z) ** 2, axis=1))
        power = np.ones_like(w)
        for m in range(k):
            power *= w
            sums[m] += power
    return sums


def _far_pull(inner: Array, outer: Array, charges: Array) -> tuple[Array, Array]:
    """The gradient of ``f_i log e_k(w_i)`` of inner points by their pairs with the outer ones."""
    at_inner, at_outer = np.zeros_like(inner), np.zeros_like(outer)
    for o, z in enumerate(outer):
        gap = inner - z
        w = 1.0 / (1.0 + np.sum(gap**2, axis=1))
        marginal = np.zeros_like(w)
        for charge in charges[::-1]:
            marginal = (marginal + charge) * w
        force = (-2.0 * marginal * w)[:, None] * gap
        at_inner += force
        at_outer[o] -= force.sum(axis=0)
    return at_inner, at_outer


class PotentialField:
    """The power sums of new points over a finished picture, by the potentials on its grid.

    Parameters
    ----------
    Z : array of shape (n, 1) or (n, 2)
        The picture.
    k : int
        Number of powers.

    A picture that spreads too far is left to the caller: `covers` is then False everywhere.
    """

    def __init__(self, Z: Array, k: int) -> None:
        self.k, self.n = k, len(Z)
        Z = np.ascontiguousarray(Z.T, dtype=np.float64)
        box = _choose_box(Z)
        self.box, self.low = box, box.low
        points = _Points(Z, box)
        self.flat, self.complete = points.flat, len(points.rows) == self.n
        self.kernels = make_kernels(k, box.axes)
        self.fields = np.zeros((k, *points.shape))
        convolve_each(
            points.spread(np.ones((1, len(points.rows))))[0], self.kernels, box.axes, self.fields
        )

    def covers(self, Y: Array) -> Array:
        """Which of the points (n_new, d) lie within the grid."""
        last = [axis.nodes - ORDER for axis in self.box.axes[: Y.shape[1]]]
        place = (Y - self.low) / self.box.axes[0].spacing
        return np.all((place >= 0) & (place <= last), axis=1) & self.complete

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
