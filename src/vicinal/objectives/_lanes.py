"""All pairs for objectives of k neighbours: queries in tiles of lanes, against all references."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vicinal._threads import block_edges, rectangle, run
from vicinal._types import Array
from vicinal.densities import Gaussian
from vicinal.kernels import knca as kernels
from vicinal.objectives._points import centre_of
from vicinal.objectives._tiles import coordinate_scale, side

__all__ = ["AllPairs", "State", "Tiling", "far_energy"]

_LANES = {4: 128, 8: 64}  # to a tile: two arrays of a tile's lanes and some rows stay in cache
_BATCH = 32  # tiles that are kept between the two passes
_BATCH_BYTES = 2**26  # of what is kept, as long as tiles have 16 lanes


class Tiling(NamedTuple):
    """How queries are dealt out: lanes to a tile, and tiles to a batch.

    It follows from the sizes of the problem alone, and so do the bits of the results.
    """

    lanes: int
    tiles: int

    @classmethod
    def of(cls, n_classes: int, k: int, itemsize: int) -> Tiling:
        """As many lanes as go well with the caches, fewer where there are many classes."""
        lanes, tiles = _LANES[itemsize], _BATCH
        each = n_classes * (3 * k + 1) * itemsize
        while lanes * tiles * each > _BATCH_BYTES and tiles > 4:
            tiles //= 2
        while lanes * tiles * each > _BATCH_BYTES and lanes > 16:
            lanes //= 2
        return cls(lanes, tiles)


def far_energy(dtype: np.dtype) -> float:
    """Energy of an absent member, as the kernels have it."""
    return float(dtype.type(kernels.FAR[dtype.itemsize // 8]))


class State(NamedTuple):
    """What is kept of a batch of tiles between the two passes.

    ``T``, ``values`` and ``powers`` are (tiles, C, k, W), ``theta`` is (tiles, C, W).
    """

    T: Array
    theta: Array
    values: Array
    powers: Array

    @classmethod
    def room(cls, n_tiles: int, n_classes: int, k: int, lanes: int, dtype: np.dtype) -> State:
        """Room for some tiles."""
        shape = n_tiles, n_classes, k, lanes
        T, values, powers = (np.empty(shape, dtype) for _ in range(3))
        return cls(T, np.empty((n_tiles, n_classes, lanes), dtype), values, powers)

    def first(self, n_tiles: int) -> State:
        """That of the first tiles."""
        return State(*(x[:n_tiles] for x in self))


class AllPairs:
    """What queries know of all references, and the pull of all pairs.

    Parameters
    ----------
    Z : array of shape (n, d)
        All points.
    codes : int array of shape (n,)
        Their classes, of ``n_classes``.
    query_rows, reference_rows : int arrays
    k : int
        Size of the neighbourhoods.

    Attributes
    ----------
    rows : int array
        The queries in the order of the lanes.
    own : int array of shape (n_tiles, W)
        The class of each lane's query, among the ``n_classes`` that have references.
    share : float
        Of the pairs that are computed: all.
    G : array of shape (d, n)
        Sum of all pulls, in the coordinates of the kernels.
    """

    share = 1.0

    def __init__(
        self, Z: Array, codes: Array, query_rows: Array, reference_rows: Array, k: int
    ) -> None:
        self.k, self.dtype = k, Z.dtype
        self.G = np.zeros((Z.shape[1], len(Z)))
        centre, scale = centre_of(Z[reference_rows]), coordinate_scale(Gaussian())
        ones = np.ones(len(reference_rows))
        R, order = side(Z[reference_rows], codes[reference_rows], ones, centre, scale)
        self.pulled_rows = reference_rows[order]
        self.Z, self.d = R.Z, R.d
        present, starts = np.unique(R.codes, return_index=True)
        self.edges = np.append(starts, R.n).astype(np.intp)
        # a query whose class has no reference is of class n_classes, which has no member
        known = np.isin(codes[query_rows], present)
        self.n_classes = len(present) + int(not known.all())
        if self.n_classes > len(present):
            self.edges = np.append(self.edges, R.n)
        self.tiling = Tiling.of(self.n_classes, k, Z.itemsize)
        self._deal(Z, codes, query_rows, present, known, centre, scale)

    def _deal(
        self,
        Z: Array,
        codes: Array,
        query_rows: Array,
        present: Array,
        known: Array,
        centre: Array,
        scale: float,
    ) -> None:
        """Cut the queries into tiles, the last one filled up with copies."""
        lanes = self.tiling.lanes
        order = np.argsort(codes[query_rows], kind="stable")
        self.rows = query_rows[order]
        self.n_tiles = n_tiles = -(-len(order) // lanes)
        filled = np.append(order, np.full(n_tiles * lanes - len(order), order[-1]))
        rows = query_rows[filled].reshape(n_tiles, lanes)
        self.queries = np.zeros((n_tiles, self.Z.shape[0], lanes), Z.dtype)
        np.subtract(Z[rows].transpose(0, 2, 1), centre[:, None], out=self.queries[:, : self.d])
        self.queries *= Z.dtype.type(scale)
        position = np.full(len(Z), -1)
        position[self.pulled_rows] = np.arange(len(self.pulled_rows))
        self.self_pos = position[rows]
        own = np.minimum(np.searchsorted(present, codes[rows]), len(present) - 1)
        self.own = np.where(known[filled].reshape(rows.shape), own, self.n_classes - 1)

    def room(self) -> kernels.Room:
        """Scratch for one thread."""
        return kernels.room(self.k, self.tiling.lanes, self.dtype)

    def collect(self, tile: int, T: Array, E: Array, theta: Array, room: kernels.Room) -> None:
        """What the lanes of a tile know of each class, see `knca_collect`."""
        kernels.knca_collect(
            self.queries[tile], self.Z, self.edges, self.self_pos[tile], T, E, theta, room
        )

    def pull(self, tiles: range, state: State, factor: Array, rooms: list[kernels.Room]) -> None:
        """Add the pull of all references on the lanes of some tiles, and back, to ``G``.

        ``factor`` (tiles, W) is what each lane's derivatives are multiplied by.
        """
        largest = factor.max(initial=0.0)  # late in learning all are tiny
        if largest == 0.0:
            return
        share = (factor / largest).astype(self.dtype)[:, None, None]
        state.values[...] *= share
        state.powers[...] *= share
        n = self.Z.shape[1]
        Gq = np.zeros((len(tiles), self.d, self.tiling.lanes), self.dtype)
        Gr = np.zeros((self.d, n), self.dtype)
        edges = block_edges(n, 1024, 4)

        def task(pair: tuple[int, int], thread: int) -> None:
            t, block = pair
            kernels.knca_pull(
                self.queries[tiles[t]], self.Z, self.edges, self.self_pos[tiles[t]],
                state.T[t], state.theta[t], state.powers[t], state.values[t], Gq[t], Gr,
                edges[block], edges[block + 1], rooms[thread],
            )  # fmt: skip

        for pairs in rectangle(len(tiles), len(edges) - 1):
            run(task, pairs, len(rooms))
        rows = self.rows[tiles.start * self.tiling.lanes :][: factor.size]
        self.G[:, rows] += largest * Gq.transpose(1, 0, 2).reshape(self.d, -1)[:, : len(rows)]
        self.G[:, self.pulled_rows] += largest * Gr
