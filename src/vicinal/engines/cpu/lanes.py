"""All pairs for votes of k neighbours: queries in tiles of lanes, against all references."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from vicinal._threads import run
from vicinal.core.points import centre_of
from vicinal.core.types import Array
from vicinal.densities import Gaussian
from vicinal.engines.cpu.near import order_within_classes
from vicinal.engines.cpu.tiles import coordinate_scale, kernel_points
from vicinal.kernels import _chunks as kernels
from vicinal.kernels.knca import knca_collect
from vicinal.kernels.knca_pull import knca_pull
from vicinal.kernels.order import chunk_boxes

_LANES = {4: 256, 8: 128}  # per tile: some of its rows, and one class summary, stay in cache
_FEWEST_LANES = 32
_TILES = 4  # fewest tiles, to keep threads busy, unless they would get too few lanes
_SPARE_BITS = 6
_ORDER_FROM = 512  # fewest queries for which sorting near references together pays off
_BLOCKS = 32  # blocks of references, each handled by one thread at a time in the pull
_FEWEST_BLOCKS = 8
_PULL_BYTES = 2**26  # limit for the queries' gradients, one per block, down to 8 blocks
_BATCH = 32  # tiles kept between the two passes
_BATCH_BYTES = 2**26  # limit for the state of a batch, down to 16 lanes per tile
_VOTE_BYTES = 64  # memory of a vote count for each lane, class and number of votes
_THREAD_BYTES = 2**24  # limit for that in one thread, down to 16 lanes per tile


class Tiling(NamedTuple):
    """How queries are divided: lanes per tile, and tiles per batch.

    It depends only on the size of the problem, and so do the bits of the results.
    """

    lanes: int
    tiles: int

    @classmethod
    def of(cls, lanes: int, n_queries: int, n_classes: int, k: int, itemsize: int) -> Tiling:
        """At most ``lanes`` lanes; fewer for few queries or many classes."""
        tiles = _BATCH
        while lanes * _TILES > n_queries and lanes > _FEWEST_LANES:
            lanes //= 2
        while lanes * n_classes * (k + 1) * _VOTE_BYTES > _THREAD_BYTES and lanes > 16:
            lanes //= 2
        each = n_classes * (3 * k + 1) * itemsize
        while lanes * tiles * each > _BATCH_BYTES and tiles > 4:
            tiles //= 2
        while lanes * tiles * each > _BATCH_BYTES and lanes > 16:
            lanes //= 2
        return cls(lanes, tiles)


def tiling_of(n_queries: int, n_classes: int, k: int, itemsize: int) -> Tiling:
    """How queries that are compared with all references are divided."""
    return Tiling.of(_LANES[itemsize], n_queries, n_classes, k, itemsize)


def _n_blocks(tiles: int, lanes: int, d: int, itemsize: int) -> int:
    """Number of blocks of references, each with a gradient of the queries: fewer in many d."""
    each = tiles * d * lanes * itemsize
    return min(_BLOCKS, max(_FEWEST_BLOCKS, _PULL_BYTES // each))


def far_energy(dtype: np.dtype) -> float:
    """The kernels' energy of an absent member."""
    return float(dtype.type(kernels.FAR[dtype.itemsize // 8]))


class BatchState(NamedTuple):
    """Arrays of a batch of tiles, kept between the two passes.

    ``T``, ``values`` and ``powers`` are (tiles, C, k, W), ``theta`` is (tiles, C, W).
    """

    T: Array
    theta: Array
    values: Array
    powers: Array

    @classmethod
    def room(cls, n_tiles: int, n_classes: int, k: int, lanes: int, dtype: np.dtype) -> BatchState:
        """Allocate the state of some tiles."""
        shape = n_tiles, n_classes, k, lanes
        T, values, powers = (np.empty(shape, dtype) for _ in range(3))
        return cls(T, np.empty((n_tiles, n_classes, lanes), dtype), values, powers)

    def first(self, n_tiles: int) -> BatchState:
        """The state of the first tiles."""
        return BatchState(*(x[:n_tiles] for x in self))


class AllPairs:
    """Class summaries of queries over all references, and the pull of all pairs.

    Parameters
    ----------
    Z : array of shape (n, d)
        All points.
    codes : int array of shape (n,)
        Their classes, of ``n_classes``.
    query_rows, reference_rows : int arrays
    k : int
        Number of neighbours that vote.

    Attributes
    ----------
    rows : int array
        The queries in the order of the lanes.
    own : int array of shape (n_tiles, W)
        The class of each lane's query, among the ``n_classes`` that have references.
    G : array of shape (d, n)
        Sum of all pulls, in the coordinates of the kernels.
    """

    def __init__(
        self, Z: Array, codes: Array, query_rows: Array, reference_rows: Array, k: int
    ) -> None:
        self.k, self.dtype, self.d = k, Z.dtype, Z.shape[1]
        self.n_references = len(reference_rows)
        self.G = np.zeros((Z.shape[1], len(Z)))
        centre, scale = centre_of(Z[reference_rows]), coordinate_scale(Gaussian())
        ones = np.ones(len(reference_rows))
        ordered = len(query_rows) >= _ORDER_FROM
        R, order = kernel_points(
            Z[reference_rows], codes[reference_rows], ones, centre, scale, ordered
        )
        self.pulled_rows, self.Z = reference_rows[order], R.Z
        present = np.unique(R.codes)
        known = np.isin(codes[query_rows], present)
        # queries whose class has no reference go to one extra class without members
        self.n_classes = len(present) + int(not known.all())
        self.tiling = tiling_of(len(query_rows), self.n_classes, k, Z.itemsize)
        self.chunks = self._chunks(R.codes, present)
        rows = self._deal(Z, query_rows, centre, scale)
        own = np.minimum(np.searchsorted(present, codes[rows]), len(present) - 1)
        self.own = np.where(present[own] == codes[rows], own, self.n_classes - 1)
        position = np.full(len(Z), -1)
        position[self.pulled_rows] = np.arange(len(self.pulled_rows))
        self.self_pos = position[rows]
        self.counts = np.zeros(self.n_tiles, np.int64)

    def _chunks(self, codes: Array, present: Array) -> kernels.Chunks:
        """Cut each class of references into chunks."""
        n, step = len(codes), kernels.height(self.tiling.lanes, self.dtype)
        starts = np.append(np.searchsorted(codes, present), n)
        cuts = [np.arange(first, last, step) for first, last in pairwise(starts)]
        edges = np.append(np.concatenate(cuts), n)
        classes = np.searchsorted(edges, starts)
        classes = np.append(classes, np.full(self.n_classes - len(present), classes[-1]))
        boxes = np.empty((2, self.Z.shape[0], len(edges) - 1), self.dtype)
        chunk_boxes(self.Z, edges, boxes)
        # the sum of all members left out is below the last bit of the k-th nearest member
        reach = _SPARE_BITS + np.finfo(self.dtype).nmant + np.log2(n * self.k)
        return kernels.Chunks(edges, classes, boxes, self.dtype.type(reach))

    def _deal(self, Z: Array, query_rows: Array, centre: Array, scale: float) -> Array:
        """Cut the queries into tiles of near queries; pad the last tile with copies."""
        lanes = self.tiling.lanes
        points = (Z[query_rows] - centre).T.astype(self.dtype, order="C")
        points *= self.dtype.type(scale)
        order = order_within_classes(points, np.zeros(len(query_rows), int), [0, len(query_rows)])
        self.rows = query_rows[order]
        self.n_tiles = -(-len(order) // lanes)
        copies = np.full(self.n_tiles * lanes - len(order), order[-1])
        filled = np.append(order, copies).reshape(self.n_tiles, lanes)
        self.queries = np.zeros((self.n_tiles, self.Z.shape[0], lanes), self.dtype)
        self.queries[:, : self.d] = points[:, filled].transpose(1, 0, 2)
        return query_rows[filled]

    @property
    def share(self) -> float:
        """The share of all (query, reference) pairs that were computed."""
        return float(self.counts.sum() / (self.n_tiles * len(self.pulled_rows)))

    def room(self) -> kernels.Room:
        """Scratch for one thread."""
        return kernels.room(self.k, self.tiling.lanes, self.Z.shape[0], self.dtype)

    def collect(self, tile: int, T: Array, E: Array, theta: Array, room: kernels.Room) -> None:
        """Class summaries of the lanes of a tile, see `knca_collect`."""
        far = far_energy(self.dtype)
        T.fill(far)
        theta.fill(far)
        self.counts[tile] = knca_collect(
            self.queries[tile], self.Z, self.chunks, self.self_pos[tile], T, E, theta, room
        )

    def _blocks(self) -> int:
        """Number of blocks of references: fewer in many dimensions."""
        tiles = min(self.tiling.tiles, self.n_tiles)
        most = _n_blocks(tiles, self.tiling.lanes, self.d, self.dtype.itemsize)
        return min(most, len(self.chunks.edges) - 1)

    def pull(
        self, tiles: range, state: BatchState, factor: Array, rooms: list[kernels.Room]
    ) -> None:
        """Add to ``G`` the pull between all references and the lanes of some tiles.

        ``factor`` (tiles, W) multiplies each lane's derivatives.
        """
        largest = factor.max(initial=0.0)  # late in training all are tiny
        if largest == 0.0:
            return
        share = (factor / largest).astype(self.dtype)[:, None, None]
        state.values[...] *= share
        state.powers[...] *= share
        Gq = np.zeros((self._blocks(), len(tiles), self.d, self.tiling.lanes), self.dtype)
        n_chunks = len(self.chunks.edges) - 1
        edges = [n_chunks * block // len(Gq) for block in range(len(Gq) + 1)]
        Gr = np.zeros((self.d, self.Z.shape[1]), self.dtype)
        batch = slice(tiles.start, tiles.stop)

        def task(block: int, thread: int) -> None:
            knca_pull(
                self.queries[batch], self.Z, self.chunks, self.self_pos[batch],
                state.T, state.theta, state.powers, state.values, Gq[block], Gr,
                edges[block], edges[block + 1], rooms[thread],
            )  # fmt: skip

        run(task, range(len(Gq)), len(rooms))
        Gq = Gq.sum(axis=0)
        rows = self.rows[tiles.start * self.tiling.lanes :][: factor.size]
        self.G[:, rows] += largest * Gq.transpose(1, 0, 2).reshape(self.d, -1)[:, : len(rows)]
        self.G[:, self.pulled_rows] += largest * Gr
