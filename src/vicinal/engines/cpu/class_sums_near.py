"""Sums over each class for many new points: the nearest blocks of references suffice.

References are sorted along a k-d tree within their class, new points along one of their own, and
both are cut into blocks.  A block of points visits the blocks of references, nearest first.  Each
of those to come adds at most its mass times the kernel at the gap between the two bounding boxes;
when all of them together add less than ``TOLERANCE`` of every point's sum so far, over all classes,
they are left out.  So class probabilities change by less than the tolerance.

What is visited depends on the points alone, and a block of points belongs to one thread: the bits
do not depend on the number of threads.

Very many pairs are summed in float32.  That changes the energy of a pair, the logarithm of its
kernel, by at most what `_energy_error` says; points for which this is too much, such as those far
from all references, are computed again in float64.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from vicinal._threads import n_threads, run
from vicinal.core.points import centre_of, has_single_range
from vicinal.core.types import Array
from vicinal.densities import Kernel
from vicinal.engines.base import Data
from vicinal.engines.cpu.class_sums import sums_by_class
from vicinal.engines.cpu.near import order_within_classes
from vicinal.engines.cpu.tiles import ORDER_UP_TO, power_of
from vicinal.kernels import compact, nca
from vicinal.kernels._blocks import WIDTH, Points, all_tiles, workspace
from vicinal.kernels.order import chunk_boxes

#: share of the sum over all classes that may be left out
TOLERANCE = 2.0**-30
_ROWS, _COLUMNS = 256, 512  # points and references in a block: small boxes, short calls
_AT_A_TIME = 4  # blocks of references between two looks at what is left
_POINTS_FROM = 1000  # sorting the references takes as long as some hundred points
#: pairs from which float32 is used: two seconds of one thread in float64
SINGLE_FROM = 2**28
#: Largest error of an energy in float32, in powers of two.  Probabilities are then within
#: ``2 ln 2`` times that, relatively: 7e-4.  2e-7 was the largest difference measured.
_LARGEST_ERROR = 2.0**-11
_COUNTS = 40.0  # energies above the least by more than this are negligible


class _Sorted(NamedTuple):
    """Points in kernel layout (d, n), sorted, in blocks with bounding boxes."""

    Z: Array
    order: Array
    edges: Array
    boxes: Array


class Sums(NamedTuple):
    """log2 of the shifted sums over each class, their shifts (n, n_classes); share of the pairs."""

    log2: Array
    shift: Array
    share: float


def leading_sums_by_class(
    Z: Array, data: Data, kernel: Kernel, n_classes: int
) -> tuple[Array, Array]:
    """As `class_sums.sums_by_class`, with the digits that class probabilities need."""
    rows = data.reference_rows
    if not worth_sorting(len(Z), data.codes[rows], Z.shape[1]):
        return sums_by_class(Z, data, kernel, n_classes)
    exponential = kernel.reaches_everywhere and not kernel.power(Z.shape[1])  # but for Student's
    many = len(Z) * len(rows) >= SINGLE_FROM and exponential and Z.dtype == np.float64
    if not (many and has_single_range(data.Z[rows], data.mass[rows], Z)):
        return near_sums_by_class(Z, data, kernel, n_classes)[:2]
    single = data._replace(Z=data.Z.astype(np.float32))
    log2, shift, _ = near_sums_by_class(Z.astype(np.float32), single, kernel, n_classes)
    error = _energy_error(Z, centre_of(data.Z[rows]), shift.min(axis=1), kernel)
    again = np.flatnonzero(~(error <= _LARGEST_ERROR))
    if len(again):
        log2[again], shift[again], _ = near_sums_by_class(Z[again], data, kernel, n_classes)
    return log2, shift


def _energy_error(Z: Array, centre: Array, least: Array, kernel: Kernel) -> Array:
    """Largest error of the energies that count, for each point, if coordinates are float32.

    With u = 2**-24: the coordinates of both points are rounded, which moves the distance s by up to
    u (|q| + |r|), where |r| <= |q| + s; differences, squares and their sum add (d + 4) u / 2 times
    s.  The energy is s for Laplace's kernel and s² for the Gaussian, with 2 s times that error.
    """
    length = np.linalg.norm((Z - centre) * kernel.coordinate_scale, axis=1)
    energy = least + _COUNTS
    distance = np.sqrt(energy) if kernel.smooth else energy
    moved = 2.0 * length + (0.5 * Z.shape[1] + 3.0) * distance
    return 2.0**-24 * moved * (2.0 * distance if kernel.smooth else 1.0)


def worth_sorting(n: int, codes: Array, d: int) -> bool:
    """Whether new points are many enough, and the classes of the references large enough."""
    classes = int(np.count_nonzero(np.bincount(codes)))
    return n >= _POINTS_FROM and d <= ORDER_UP_TO and len(codes) >= 4 * _COLUMNS * classes


def near_sums_by_class(Z: Array, data: Data, kernel: Kernel, n_classes: int) -> Sums:
    """log2 of the kernel sums of points over each class, but for what is negligible."""
    rows = data.reference_rows
    centre, scale = centre_of(data.Z[rows]), kernel.coordinate_scale
    by_class = np.argsort(data.codes[rows], kind="stable")
    rows = rows[by_class]
    R = _sort(data.Z[rows], data.codes[rows], centre, scale, _COLUMNS)
    Q = _sort(Z, np.zeros(len(Z), dtype=int), centre, scale, _ROWS)
    mass = data.mass[rows][R.order].astype(Z.dtype)
    visit = _Visit(Q, R, mass, data.codes[rows], kernel, n_classes, Z.shape[1])
    run(visit, range(len(Q.edges) - 1), len(visit.scratch))
    log2, shift = np.empty((len(Z), n_classes)), np.empty((len(Z), n_classes))
    with np.errstate(divide="ignore"):
        log2[Q.order] = np.log2(visit.sums[:, 1], dtype=np.float64).T
    shift[Q.order] = visit.minima[:, 1].T
    return Sums(log2, shift, sum(visit.pairs) / (len(Z) * len(rows)))


def _sort(Z: Array, codes: Array, centre: Array, scale: float, size: int) -> _Sorted:
    """Sort rows along a k-d tree within their class; ``codes`` are sorted already."""
    d = Z.shape[1]
    points = np.zeros((d + d % 2, len(Z)), Z.dtype)
    np.subtract(Z.T, centre[:, None], out=points[:d])
    points[:d] *= Z.dtype.type(scale)
    starts = np.flatnonzero(np.diff(codes, prepend=codes[0] - 1, append=codes[-1] + 1))
    pieces = [
        np.linspace(first, last, 1 + -(-(last - first) // size)).astype(np.int64)[:-1]
        for first, last in pairwise(starts)
    ]
    edges = np.concatenate([*pieces, starts[-1:]])
    order = order_within_classes(points[:d], codes, edges.tolist())
    points = np.take(points, order, axis=1)
    boxes = np.empty((2, len(points), len(edges) - 1), Z.dtype)
    chunk_boxes(points, edges, boxes)
    return _Sorted(points, order, edges, boxes)


class _Visit:
    """Sums over the blocks of references, for one block of points at a time."""

    def __init__(
        self,
        Q: _Sorted,
        R: _Sorted,
        mass: Array,
        codes: Array,
        kernel: Kernel,
        n_classes: int,
        d: int,
    ) -> None:
        self.Q, self.R, self.kernel, self.d = Q, R, kernel, d
        n, dtype = Q.Z.shape[1], Q.Z.dtype
        self.power = power_of(kernel, d, dtype)
        # [1] of each class is used: all references of a block are of the "own" class
        self.minima = np.full((n_classes, 2, n), np.inf, dtype)
        self.sums = np.zeros((n_classes, 2, n), dtype)
        self.unused = np.zeros((2, R.Z.shape[1]), dtype)
        self.own = np.stack([np.zeros(n, np.int64), np.full(n, R.Z.shape[1])])
        nowhere = np.zeros((0, 0), dtype)
        self.points = Points(Q.Z, R.Z, nowhere, np.ones(n, dtype), mass, np.full(n, -1))
        self.classes = codes[R.edges[:-1]]
        self.log2_mass = np.log2(np.add.reduceat(mass, R.edges[:-1], dtype=np.float64))
        threads = min(n_threads(), len(Q.edges) - 1)
        self.scratch = [workspace(Q.Z.shape[0], dtype, _COLUMNS) for _ in range(threads)]
        self.pairs = [0] * threads

    def __call__(self, p: int, thread: int) -> None:
        """Visit the references from one block of points."""
        i0, i1 = int(self.Q.edges[p]), int(self.Q.edges[p + 1])
        most = self._most(p)
        order = np.argsort(-most, kind="stable")
        # what the blocks from each one on add at most, all together
        left = np.logaddexp2.accumulate(most[order][::-1])[::-1]
        for first in range(0, len(order), _AT_A_TIME):
            if left[first] == -np.inf or left[first] <= self._least_total(i0, i1):
                return
            for q in order[first : first + _AT_A_TIME]:
                self._add(i0, i1, int(q), thread)

    def _most(self, p: int) -> Array:
        """log2 of the most that each block of references can add to the sums of block p."""
        (q_low, q_high), (r_low, r_high) = self.Q.boxes[:, :, p, None], self.R.boxes
        gap = np.maximum(np.maximum(r_low - q_high, q_low - r_high), 0.0).astype(np.float64)
        # distances are rounded, and are compared with distances from the kernels
        slack = 1.0 - 8.0 * (self.d + 2) * float(np.finfo(self.R.Z.dtype).eps)
        squared = np.einsum("kq,kq->q", gap, gap) * slack / self.kernel.coordinate_scale**2
        energy = self.kernel.energy(squared, self.d)[0]
        return self.log2_mass - energy * np.log2(np.e)

    def _least_total(self, i0: int, i1: int) -> float:
        """log2 of the tolerance times the least sum over all classes of the points i0:i1."""
        minima = self.minima[:, 1, i0:i1].astype(np.float64)
        shift = minima.min(axis=0)
        if np.isinf(shift).any():
            return -np.inf
        total = np.sum(self.sums[:, 1, i0:i1] * np.exp2(shift - minima), axis=0)
        return float(np.min(np.log2(total) - shift)) + np.log2(TOLERANCE)

    def _add(self, i0: int, i1: int, q: int, thread: int) -> None:
        """Add a block of references to the sums of its class."""
        work, table = self.scratch[thread]
        c, (j0, j1) = self.classes[q], self.R.edges[q : q + 2]
        first = i0
        while first < i1:
            count, first = all_tiles(self.own, first, i1, j0, j1, WIDTH, False, table)
            block = (table, count, i0, j0, False)
            if self.kernel.reaches_everywhere:
                running = nca.Running(self.minima[c], self.sums[c], self.unused, self.unused)
                pairs = nca.nca_stats_block(self.points, running, *block, self.power, work)
            else:
                pairs = compact.compact_stats_block(
                    self.points, self.sums[c], self.unused, *block, work
                )
                # the compact kernel needs no shift
                self.minima[c, 1, i0:i1][self.sums[c, 1, i0:i1] > 0] = 0.0
            self.pairs[thread] += pairs
