"""Votes of k neighbours over the pairs in candidate lists only."""

from __future__ import annotations

import numpy as np

from vicinal._threads import block_edges, n_threads, run
from vicinal.core.points import centre_of
from vicinal.core.types import Array, Pairs
from vicinal.densities import Gaussian
from vicinal.engines.cpu.lanes import BatchState, Tiling
from vicinal.engines.cpu.lists import LANE_BYTES, check_pairs
from vicinal.engines.cpu.tiles import coordinate_scale
from vicinal.kernels import knca_lists as kernels
from vicinal.kernels.nca_lists import pack
from vicinal.kernels.neighbours import visiting_order

# Lanes per tile; only the votes are counted in lanes here.  Not a power of two: queries are written
# one lane at a time, and would then compete for the same cache lines.
_LANES = 480
_SUMS = 16  # partial gradients of the references, one thread at a time each, added in order


def tiling_of_lists(n_queries: int, n_classes: int, k: int) -> Tiling:
    """How queries that have lists are divided."""
    return Tiling.of(_LANES, n_queries, n_classes, k, 8)


class ListedPairs:
    """Class summaries of queries over the rows in their lists, and the pull of those pairs.

    Parameters and attributes are those of :class:`vicinal.engines.cpu.lanes.AllPairs`, plus the
    lists.  Everything except the distances is float64.
    """

    def __init__(
        self,
        Z: Array,
        codes: Array,
        query_rows: Array,
        reference_rows: Array,
        k: int,
        pairs: Pairs,
    ) -> None:
        check_pairs(pairs, len(Z), "knca")
        self.k, self.dtype, self.n_references = k, np.dtype(np.float64), len(reference_rows)
        self.codes, self.indices = codes, np.ascontiguousarray(pairs.indices)
        self.rows = query_rows[visiting_order(Z[query_rows])]
        self.first, self.last = pairs.indptr[self.rows], pairs.indptr[self.rows + 1]
        rates = np.zeros((2, len(Z))) if pairs.log2_rates is None else pairs.log2_rates
        self.rates = np.ascontiguousarray(rates, dtype=np.float64)
        mass = np.zeros(len(Z))
        mass[reference_rows] = 1.0
        centre, scale = centre_of(Z[reference_rows]), coordinate_scale(Gaussian())
        self.points, self.d = pack(Z, codes, mass, centre, scale), Z.shape[1]
        self.share = float((self.last - self.first).sum() / (len(self.rows) * len(reference_rows)))
        n_codes = int(codes.max()) + 1
        self.n_classes, self.n_codes = self._most_classes(n_codes) + 1, n_codes
        self.tiling = tiling_of_lists(len(query_rows), self.n_classes, k)
        self.n_tiles = -(-len(self.rows) // self.tiling.lanes)
        # the own class is number 0 in every list
        self.own = np.zeros((self.n_tiles, self.tiling.lanes), np.intp)
        width = -(-self.d // 4) * 4
        sums = max(2, LANE_BYTES // max(1, len(Z) * width * self.points.itemsize))
        sums = min(_SUMS, sums, self.n_tiles)
        self.Gq = np.zeros((len(self.rows), width), Z.dtype)
        self.Gr = np.zeros((sums, len(Z), width), Z.dtype)

    def _most_classes(self, n_codes: int) -> int:
        """The largest number of other classes in a list; raises if a listed row does not exist."""
        edges = block_edges(len(self.rows), 4096, 1)
        most = np.zeros(len(edges) - 1, np.int64)

        def task(block: int, thread: int) -> None:
            part = slice(edges[block], edges[block + 1])
            lists = self.indices, self.first[part], self.last[part], self.rows[part]
            most[block] = kernels.most_classes(self.codes, *lists, np.empty(n_codes, np.int64))

        run(task, range(len(most)), n_threads())
        if (most < 0).any():
            raise ValueError(
                f"The 'pairs' parameter of knca must list rows in [0, {len(self.codes) - 1}]. "
                f"Got {self.indices.min()}..{self.indices.max()} instead."
            )
        return int(most.max())

    @property
    def G(self) -> Array:
        """Sum of all pulls (d, n), in the coordinates of the kernels."""
        total = self.Gr.sum(axis=0, dtype=np.float64)
        total[self.rows] += self.Gq
        return total[:, : self.d].T

    def room(self) -> kernels.ListRoom:
        """Scratch for one thread."""
        longest = int((self.last - self.first).max(initial=0))
        return kernels.list_room(longest, self.n_codes, self.n_classes, self.k, self.points.dtype)

    def _lists(self) -> tuple:
        return (
            self.points, self.d, self.codes, self.indices, self.first, self.last, self.rows,
            self.rates,
        )  # fmt: skip

    def _queries(self, tile: int) -> tuple[int, int]:
        first = tile * self.tiling.lanes
        return first, min(first + self.tiling.lanes, len(self.rows))

    def collect(self, tile: int, T: Array, E: Array, theta: Array, room: kernels.ListRoom) -> None:
        """Class summaries of the lanes of a tile."""
        kernels.knca_lists_collect(*self._lists(), T, E, theta, *self._queries(tile), room)

    def pull(
        self, tiles: range, state: BatchState, factor: Array, rooms: list[kernels.ListRoom]
    ) -> None:
        """Add the pull of the pairs of some tiles to the sums."""

        def task(s: int, thread: int) -> None:
            for t in range(s, len(tiles), len(self.Gr)):
                kernels.knca_lists_pull(
                    *self._lists(), state.T[t], state.powers[t], state.values[t],
                    factor[t], self.Gq, self.Gr[s], *self._queries(tiles[t]), rooms[thread],
                )  # fmt: skip

        run(task, range(len(self.Gr)), len(rooms))
