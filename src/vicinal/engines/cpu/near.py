"""Which pairs of blocks, and of chunks within them, can change the last bit of a sum.

Late in training a few neighbours carry all the mass.  Rows are sorted along a k-d tree, so that
blocks and chunks fill small boxes, and pairs of boxes too far apart are left out.  How far is too
far: for each row, the largest term over one nearby chunk of its own class, and over one of the
other classes, is a lower bound of the sum.  Points so far away that the kernel times the whole mass
is below half a unit in the last place of that bound change no bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from vicinal._threads import n_threads, run
from vicinal.core.types import Array
from vicinal.densities import Kernel
from vicinal.kernels import order as kernels
from vicinal.kernels._blocks import ALL, CHUNK, FAR, NEAR, Reach, Scratch

#: what is left out is below 2**-bits of a sum: half a unit in the last place is at least 2**-25
#: (2**-54) of it, and one bit is left for rounding errors of small distances
_BITS = {4: 26.0, 8: 55.0}
_LOG2_E = math.log2(math.e)


def share_out_of_reach(
    Zq: Array, yq: Array, Zr: Array, yr: Array, mass: Array, kernel: Kernel
) -> float:
    """Share of the pairs that could be left out, estimated from a few single queries.

    ``Zq`` and ``Zr`` are (n, d).
    """
    bits, shares = _BITS[Zr.itemsize] + np.log2(mass.sum()), []
    log2_mass = np.log2(mass)
    few = 8 if len(Zr) <= 50_000 else 4
    for i in range(0, len(Zq), max(1, len(Zq) // few)):
        difference = Zr - Zq[i]
        d2 = np.einsum("ij,ij->i", difference, difference)
        if not kernel.reaches_everywhere:
            shares.append(np.mean(d2 >= 1))
            continue
        energy = kernel.energy(d2, Zr.shape[1])[0] * _LOG2_E
        terms = np.where(d2 > 0, energy - log2_mass, np.inf)  # not itself, nor a duplicate
        far = 0.0
        for kind in (yr == yq[i], yr != yq[i]):
            far += np.count_nonzero(energy[kind] > terms[kind].min(initial=np.inf) + bits)
        shares.append(far / len(Zr))
    return float(np.mean(shares))


def order_within_classes(points: Array, codes: Array, edges: list[int]) -> Array:
    """Positions in the sorted ``points`` (d, n), with each larger class along a k-d tree."""
    n = len(codes)
    order, key = np.arange(n), np.empty(n, points.dtype)
    cuts = np.asarray(edges)
    ranges = _large_classes(codes)

    def task(stretch: tuple[int, int], thread: int) -> None:
        kernels.kd_order(points, cuts, *stretch, order, key)

    # the largest first, so that the threads finish together
    run(task, sorted(ranges, key=lambda r: r[0] - r[1]), min(n_threads(), max(1, len(ranges))))
    return order


def _large_classes(codes: Array) -> list[tuple[int, int]]:
    starts = np.flatnonzero(np.diff(codes, prepend=codes[0] - 1, append=codes[-1] + 1))
    large = np.diff(starts) >= CHUNK
    return list(zip(starts[:-1][large].tolist(), starts[1:][large].tolist(), strict=True))


def _chunk_edges(blocks: list[int], codes: Array) -> Array:
    """Edges every CHUNK rows, restarting at each block and at each larger class."""
    cuts = np.unique([*blocks, *(edge for stretch in _large_classes(codes) for edge in stretch)])
    pieces = [np.arange(first, last, CHUNK) for first, last in pairwise(cuts)]
    return np.concatenate([*pieces, cuts[-1:]])


def unused_reach(dtype: np.dtype) -> Reach:
    """A placeholder for tiles that do not use the reach."""
    nothing = np.zeros((2, 0), dtype)
    return Reach(np.zeros(0, np.int64), nothing.reshape(2, 0, 0), nothing, nothing)


class NearBlocks:
    """Bounding boxes of blocks and chunks, and which of them are near each other.

    Parameters
    ----------
    Zq, Zr : arrays of shape (d, n)
        The points of rows and columns; if both are the same array, each pair is computed once.
    codes : array
        Classes of the columns, sorted.
    rows, columns : lists of int
        Edges of the blocks.
    own : int array of shape (2, n)
        Range of columns of each row's own class.
    power : number or None
        None for the Gaussian, (d + 1) / 2 for Student's kernel, 0 for Laplace's.
    """

    def __init__(
        self,
        Zq: Array,
        Zr: Array,
        codes: Array,
        rows: list[int],
        columns: list[int],
        own: Array,
        power: Any,
    ) -> None:
        self.mirror = Zq is Zr
        self.Zq, self.Zr, self.own, self.power = Zq, Zr, own, power
        self.rows, self.columns = np.array(rows), np.array(columns)
        self.bits = _BITS[Zq.itemsize]
        self.slack = 1.0 + 8.0 * (len(Zq) + 2) * float(np.finfo(Zq.dtype).eps)
        self.edges = _chunk_edges(columns, codes)
        self.boxes = _boxes(Zr, self.edges)
        self.column_boxes = _boxes(Zr, self.columns)
        self.row_boxes = self.column_boxes if self.mirror else _boxes(Zq, self.rows)
        self.reach = unused_reach(Zq.dtype)
        self.status = np.full((len(rows) - 1, len(columns) - 1), 2, np.int8)

    @property
    def useful(self) -> bool:
        """Whether some points are farther apart than the largest possible reach."""
        low = np.minimum(self.row_boxes[0].min(axis=1), self.column_boxes[0].min(axis=1))
        high = np.maximum(self.row_boxes[1].max(axis=1), self.column_boxes[1].max(axis=1))
        widest = float(np.sum(np.square(high - low, dtype=np.float64)))
        return widest > float(self._squared_distance(np.array(self.bits)))

    def _squared_distance(self, energy: Array) -> Array:
        if self.power is None:
            return energy
        with np.errstate(over="ignore"):
            if self.power == 0:
                return np.square(energy)
            return np.exp2(energy / float(self.power)) - 1.0

    def reach_of_rows(self, mass: Array, self_pos: Array, scratch: Sequence[Scratch]) -> Array:
        """The reach of each row (2, n) by large terms nearby; ``mass`` is that of the columns."""
        chunks = np.searchsorted(self.edges, self.columns)
        energies = np.full((2, self.Zq.shape[1]), np.inf, self.Zq.dtype)
        log2_mass = np.log2(mass)

        def task(p: int, thread: int) -> None:
            kernels.least_energies(
                self.Zq, self.Zr, log2_mass, self.own, self_pos, self.power, self.rows[p],
                self.rows[p + 1], self.columns, chunks, self.edges, self.column_boxes, self.boxes,
                scratch[thread].work, energies,
            )  # fmt: skip

        run(task, range(len(self.rows) - 1), len(scratch))
        beyond = np.log2(mass.sum(dtype=np.float64)) + self.bits
        return self._squared_distance(energies.astype(np.float64) + beyond)

    def find_near(self, reach: Array, of_columns: Array | None = None) -> None:
        """Find near blocks, given each row's reach (2, n) as squared distances.

        ``of_columns`` is that of each column, if the columns are other points and have sums too.
        """
        dtype = self.boxes.dtype
        with np.errstate(over="ignore"):
            reach = (reach * self.slack).astype(dtype)
            if of_columns is not None:
                of_columns = (of_columns * self.slack).astype(dtype)
        row_least, row_most = _spread(reach, self.rows)
        if self.mirror:
            chunks, column_most = _spread(reach, self.edges)[1], row_most
        elif of_columns is not None:
            chunks = _spread(of_columns, self.edges)[1]
            column_most = _spread(of_columns, self.columns)[1]
        else:  # no sums of the columns are needed
            chunks = np.zeros((2, len(self.edges) - 1), dtype)
            column_most = np.zeros((2, len(self.columns) - 1), dtype)
        self.reach = Reach(self.edges, self.boxes, reach, chunks)

        def task(p: int, thread: int) -> None:
            kernels.near_blocks(
                self.rows, self.columns, self.own, self.row_boxes, self.column_boxes, row_least,
                row_most, column_most, p, p + 1, self.mirror, self.status,
            )  # fmt: skip

        run(task, range(len(self.rows) - 1), n_threads())

    def pairs(self, near: bool) -> tuple[Array, Array, Array]:
        """Pairs of row and column blocks, and which of their tiles: the near ones, or the rest."""
        wanted = self.status > 0 if near else self.status < 2
        p, q = np.nonzero(np.triu(wanted) if self.mirror else wanted)
        whole = self.status[p, q] == (2 if near else 0)
        return p, q, np.where(whole, ALL, NEAR if near else FAR)


def _boxes(Z: Array, edges: Array) -> Array:
    boxes = np.empty((2, len(Z), len(edges) - 1), Z.dtype)
    kernels.chunk_boxes(Z, edges, boxes)
    return boxes


def _spread(reach: Array, edges: Array) -> tuple[Array, Array]:
    least = np.empty((2, len(edges) - 1), reach.dtype)
    most = np.empty_like(least)
    kernels.spread_reach(reach, edges, least, most)
    return least, most


def rounds(
    p: Array, q: Array, mode: Array, n_rows: int, n_columns: int, mirror: bool
) -> Iterator[list[tuple[int, int, int]]]:
    """Schedule the pairs (p, q) in rounds that use no block of rows or columns twice.

    In the order of the circle method, which for all pairs leaves no thread idle; where pairs are
    missing, pairs of later rounds move up.
    """
    if mirror:
        n = n_rows + n_rows % 2
        turn = np.where(q == n - 1, 2 * p, p + q) % max(n - 1, 1)
        turn = np.where(p == q, -1, turn)
    else:
        turn = (q - p) % max(n_rows, n_columns)
    ranked = np.lexsort((p, turn))
    p, q, mode = p[ranked], q[ranked], mode[ranked]
    level = np.empty(len(p), np.int64)
    last = np.zeros(n_rows, np.int64), np.zeros(n_columns, np.int64)
    kernels.levels(p, q, mirror, *last, level)
    ranked = np.argsort(level, kind="stable")
    triples = np.stack([p, q, mode], axis=1)[ranked].tolist()
    first = 0
    for end in np.cumsum(np.bincount(level)).tolist():
        yield [tuple(triple) for triple in triples[first:end]]
        first = end
