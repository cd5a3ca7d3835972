"""Range search for few queries: the compact kernel over those references that may be in range.

The references are put in order along a k-d tree once, and the order is used for many evaluations
while the points move.  Only the order goes stale, not the sums: the bounding boxes of its chunks
are computed from the points as they are.  A stale order has larger boxes, and skips less.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from vicinal._threads import n_threads, run
from vicinal.core.points import centre_of
from vicinal.core.types import Array
from vicinal.densities import Kernel
from vicinal.engines.base import ClassSums, Data
from vicinal.engines.cpu.class_sums import CompiledSums
from vicinal.engines.cpu.near import order_within_classes
from vicinal.kernels import ranges
from vicinal.kernels._blocks import CHUNK
from vicinal.kernels.order import chunk_boxes

_LANES = 4  # most partial gradients
_LANE = 64  # least number of queries that are worth one


class RangeIndex(NamedTuple):
    """Rows in an order that keeps near ones together, cut into chunks of one class each.

    ``order`` are rows of Z; ``edges`` are the first positions of the chunks, and the end.
    """

    order: Array
    edges: Array

    def engine(self, data: Data, kernel: Kernel) -> ClassSums:
        """The engine that sums over the references in range."""
        if kernel.reaches_everywhere:
            raise ValueError(f"A range search needs a kernel of finite range. Got {kernel!r}.")
        search = RangeSearch(data, kernel, self)
        return CompiledSums(search, "range", data.Z, (data.query_rows, self.order), kernel)


def make_index(Z: Array, codes: Array, rows: Array) -> RangeIndex:
    """An index over some rows of Z, as near each other as they are now."""
    order = rows[np.argsort(codes[rows], kind="stable")]
    points, sorted_codes = np.ascontiguousarray(Z[order].T), codes[order]
    order = order[order_within_classes(points, sorted_codes, [0, len(order)])]
    starts = np.flatnonzero(np.diff(sorted_codes, prepend=sorted_codes[0] - 1))
    pieces = [np.arange(first, last, CHUNK) for first, last in pairwise([*starts, len(order)])]
    return RangeIndex(order, np.concatenate([*pieces, [len(order)]]))


class RangeSearch:
    """Sums of the compact kernel over the references in range, and their gradient.

    Parameters
    ----------
    data : Data
        Its references must be among the rows of the index.
    kernel : Kernel
    index : RangeIndex

    Attributes
    ----------
    share : float
        After ``sums``: the share of all pairs whose distance was computed.
    """

    share = 1.0

    def __init__(self, data: Data, kernel: Kernel, index: RangeIndex) -> None:
        Z, order = data.Z, index.order
        self.d, dtype = Z.shape[1], Z.dtype
        centre = centre_of(Z[data.reference_rows])
        scale = dtype.type(kernel.coordinate_scale)
        self.Zq, self.Zr = (
            self._layout(Z[rows], centre, scale) for rows in (data.query_rows, order)
        )
        mass = np.zeros(len(Z), dtype)  # rows of the index that are no references have none
        mass[data.reference_rows] = data.mass[data.reference_rows]
        self.mass, self.edges, self.n_references = (
            mass[order],
            index.edges,
            len(data.reference_rows),
        )
        place = np.full(len(Z), -1)
        place[order] = np.arange(len(order))
        self.places = place[data.query_rows]
        codes, wanted = data.codes[order], data.codes[data.query_rows]
        self.own = np.stack([np.searchsorted(codes, wanted, side) for side in ("left", "right")])
        self.boxes = np.empty((2, self.d, len(self.edges) - 1), dtype)
        chunk_boxes(self.Zr[: self.d], self.edges, self.boxes)
        self.reach = dtype.type(1.0 + 8.0 * (self.d + 2) * float(np.finfo(dtype).eps))
        n = len(data.query_rows)
        lanes = max(1, min(_LANES, n // _LANE))  # by the size alone, not by the threads
        self.lanes = [n * lane // lanes for lane in range(lanes + 1)]

    def _layout(self, Z: Array, centre: Array, scale: Array) -> Array:
        points = np.zeros((self.d + self.d % 2, len(Z)), Z.dtype)
        np.subtract(Z.T, centre[:, None], out=points[: self.d])
        points *= scale
        return points

    def _arguments(self, lane: int) -> tuple:
        dtype = self.Zq.dtype
        return (
            self.Zq, self.Zr, self.mass, self.edges, self.boxes, self.own, self.places, self.reach,
            self.lanes[lane], self.lanes[lane + 1], np.empty(len(self.edges) - 1, dtype),
            np.empty(CHUNK, dtype),
        )  # fmt: skip

    def sums(self) -> tuple[Array, Array]:
        """log2 of ``sum_j mass_j kappa_ij``, other classes [0] and own class [1]; shifts of 0.

        A sum without any reference in range gives -inf and inf, as in `Tiles.sums`.
        """
        n, lanes = self.Zq.shape[1], len(self.lanes) - 1
        sums, pairs = np.zeros((2, n), self.Zq.dtype), [0] * lanes

        def task(lane: int, thread: int) -> None:
            pairs[lane] = ranges.range_sums(*self._arguments(lane), sums)

        run(task, range(lanes), min(n_threads(), lanes))
        self.share = sum(pairs) / (n * self.n_references)
        with np.errstate(divide="ignore"):
            shift = np.where(sums > 0, 0.0, np.inf).astype(self.Zq.dtype)
            return np.log2(sums, dtype=np.float64), shift

    def pull(self, shift: Array, factor: Array, d: int) -> tuple[Array, Array]:
        """Sum of ``-factor_i mass_j kappa'(d²_ij) (z_i - z_j)``, as `Tiles.pull`."""
        dtype, lanes = self.Zq.dtype, len(self.lanes) - 1
        factor = factor.astype(dtype)
        Gq = np.zeros((d, self.Zq.shape[1]), dtype)
        Gr = np.zeros((lanes, d, self.Zr.shape[1]), dtype)

        def task(lane: int, thread: int) -> None:
            ranges.range_pull(*self._arguments(lane), factor, Gq, Gr[lane])

        run(task, range(lanes), min(n_threads(), lanes))
        for lane in range(1, lanes):  # in a fixed order
            Gr[0] += Gr[lane]
        return Gq, Gr[0]
