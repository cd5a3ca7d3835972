"""Sums by trees: an engine with a bound on the relative error of its sums."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vicinal._threads import block_edges, n_threads, run
from vicinal.core.types import Array
from vicinal.densities import Kernel
from vicinal.engines import choose
from vicinal.engines.base import ClassSums, Data
from vicinal.engines.cpu.class_sums import CompiledSums, prepare
from vicinal.engines.cpu.tiles import ORDER_FROM, ORDER_UP_TO, WORTH, KernelPoints, power_of
from vicinal.kernels import tree, tree_sums, tree_walk

_LANES = 8
_LANE_BYTES = 1 << 28  # limit for all lanes' gradients together, down to two lanes
_LIST_BYTES = 1 << 28  # limit for lists kept for the gradient; other lists are made twice
_BLOCK = 16  # packets per task

#: number of pairs below which tiles take a few milliseconds at most: no tree is tried.  At 50
#: queries and up to 13,000 references it took as long or up to twice as long (nca_few_queries.md)
SMALL = 1_000_000
_FEW = 12  # packets, evenly spaced, from which the cost is estimated
# The cost model, measured at N = 20,000 in two and five dimensions: nanoseconds on one core (AVX2,
# float32) as a constant plus a part per dimension, for sums and gradient together, of: a query and
# a point or node of its list; a packet and a node it visits; a pair of the tiles.
_TERM, _NODE, _PAIR = (0.87, 0.27), (120.0, 2.0), (0.78, 0.095)
_TILE_SHARE = 1.6  # pairs computed by tiles for each pair that a packet needs
_FAR_PAIR = 1.4  # slow-down of tiles, per pair, where neighbours are few and far apart
_ONE_WAY = 1.7  # slow-down of tiles, per pair, where queries are not the references

#: nodes, and the ends of the two lists of each packet (see `tree_walk.walk`)
WalkLists = tuple[Array, Array]


class _Work(NamedTuple):
    """Scratch of one thread."""

    walk: tuple[Array, ...]
    nodes: Array
    buffer: tree_sums.Buffer


def _lanes(n: int, d: int, itemsize: int) -> int:
    """Number of partial gradients: depends on the size only, not on the threads."""
    return int(np.clip(_LANE_BYTES // (n * d * itemsize), 2, _LANES))


def check_bounded(tolerance: float, kernel: Kernel) -> None:
    """Raise for settings that trees do not support."""
    if not kernel.reaches_everywhere:
        raise ValueError(
            "The 'pairs' parameter of nca must not be Bounded with the kernel Compact(), whose "
            "pairs a range search finds exactly."
        )
    if not 0 <= tolerance < 1:
        raise ValueError(
            f"The 'tolerance' of Bounded must be a float in [0, 1). Got {tolerance!r} instead."
        )


class Bounded(NamedTuple):
    """All pairs, with far groups summed at once where that takes less time.

    ``tolerance`` is the largest relative error of the density of each class at a query; without
    ``each_class``, of its sum over its own class and of its sum over all others, which are all that
    the loss depends on.  If groups would not save time, every pair is summed, unless ``always``.
    """

    tolerance: float
    always: bool = False
    each_class: bool = True

    def engine(self, data: Data, kernel: Kernel) -> ClassSums:
        """Trees, or the engine for all pairs if trees would take longer."""
        check_bounded(self.tolerance, kernel)
        if not self.always and len(data.query_rows) * len(data.reference_rows) < SMALL:
            return choose.class_sums(data, kernel)
        Q, R, places, *rows = prepare(data, kernel, may_order=False)
        trees = Trees(Q, R, places, kernel, self, data.Z.shape[1])
        if self.always or trees.pays():
            return CompiledSums(trees, "tree", data.Z, (rows[0], rows[1]), kernel)
        return choose.class_sums(data, kernel)


class Trees:
    """Sums over all references within a relative tolerance, and their gradient.

    One tree for each class of the references ([Oneata2011] alg. 4.6).  The density of every class
    is within the tolerance; without ``each_class``, the sum over a query's own class and the sum
    over all other classes are.  Either way the odds of the own class are wrong by a factor of at
    most ``(1 + tolerance) / (1 - tolerance)``.  The gradient is that of the computed sums, in which
    a far node is its mass at its mean; the error of the gradient itself has no bound.

    Parameters
    ----------
    queries, references : KernelPoints
    self_pos : int array
        Position of each query among the references, or -1.
    kernel : Gaussian, Student or Laplace
    bounded : Bounded
        The largest relative error; 0 sums every pair, except groups of duplicates.
    d : int
        Dimensions of the embedded space (`KernelPoints` may have one more).

    Attributes
    ----------
    share : float
        After ``sums``: the share of all pairs summed one by one ([Oneata2011] table 5.8).

    Notes
    -----
    The gradient needs one copy of the references per lane (8 lanes or as many as fit into 256 MB,
    at least 2) and up to 256 MB for the lists of the walks.
    """

    def __init__(
        self,
        queries: KernelPoints,
        references: KernelPoints,
        self_pos: Array,
        kernel: Kernel,
        bounded: Bounded,
        d: int,
    ) -> None:
        self.queries, self.references, self.d = queries, references, d
        dtype, self.together = references.Z.dtype, not bounded.each_class
        self.power, self.tolerance = power_of(kernel, d, dtype), dtype.type(bounded.tolerance)
        classes, first = np.unique(references.codes, return_index=True)
        self.forest = tree.build(references.Z[:d], references.mass, [*first, references.n])
        groups, first = np.unique(queries.codes, return_index=True)
        self.packets = self.forest
        if queries is not references or tree_walk.WIDTH != tree.LEAF:
            self.packets = tree.build(
                queries.Z[:d], np.ones_like(queries.mass), [*first, queries.n], tree_walk.WIDTH
            )
        places = np.flatnonzero(self.forest.index >= 0)
        where = np.full(references.n + 1, -1)  # the last entry: queries that are not references
        where[self.forest.index[places]] = places
        self.where = where[self_pos]
        heads = self.packets.index[:: tree_walk.WIDTH]
        own = np.searchsorted(classes, groups)
        own[~np.isin(groups, classes)] = -1
        self.own = own[np.searchsorted(groups, queries.codes[heads])]
        self.share = 1.0
        self.seen = 0
        self.edges = block_edges(len(self.own), _BLOCK)
        self.lists: list[WalkLists | None] = [None] * (len(self.edges) - 1)

    def _walk(self, block: int, work: _Work) -> tuple[WalkLists, int]:
        first, last = self.edges[block], self.edges[block + 1]
        ends = np.empty((last - first, 2), np.int64)
        seen = tree_walk.walk(
            self.forest, self.packets, self.where, self.own, first, last, self.tolerance,
            self.power, self.together, work.walk, work.nodes, ends,
        )  # fmt: skip
        return (work.nodes[: ends[-1, 1]], ends), seen

    def _sample_packets(self, tolerance: Array) -> tuple[float, float, float]:
        """Means over a few packets: pairs and list entries per query, nodes visited per packet."""
        work, ends = self._scratch(1)[0], np.empty((1, 2), np.int64)
        sizes = self.forest.nodes[:, 1] - self.forest.nodes[:, 0]
        few = np.unique(np.linspace(0, len(self.own) - 1, _FEW, dtype=np.int64))
        pairs = means = seen = 0
        for p in few:
            seen += tree_walk.walk(
                self.forest, self.packets, self.where, self.own, p, p + 1, tolerance,
                self.power, self.together, work.walk, work.nodes, ends,
            )  # fmt: skip
            nodes = work.nodes[: ends[0, 1]]
            pairs += int(sizes[nodes[nodes >= 0]].sum())
            means += int(np.count_nonzero(nodes < 0))
        return pairs / len(few), (pairs + means) / len(few), seen / len(few)

    def pays(self) -> bool:
        """Whether sums and gradient take less time than tiles, estimated from a few packets.

        A walk with almost no tolerance finds the pairs that matter to the last bit; tiles compute
        all of those and more, since their boxes are larger.
        """
        _, terms, seen = self._sample_packets(self.tolerance)
        exact, dtype = 1.0, self.queries.Z.dtype
        may_order = min(self.queries.n, self.references.n) >= ORDER_FROM and self.d <= ORDER_UP_TO
        if may_order:
            pairs, _, _ = self._sample_packets(dtype.type(np.finfo(dtype).eps / 8))
            exact = min(1.0, _TILE_SHARE * pairs / self.references.n)
        pair = _PAIR[0] + _PAIR[1] * self.d
        pair *= 1.0 if exact > 1.0 - WORTH else _FAR_PAIR
        pair *= 1.0 if self.queries is self.references else _ONE_WAY
        term, node = (c[0] + c[1] * self.d for c in (_TERM, _NODE))
        per_packet = self.queries.n / len(self.own)
        by_tree = per_packet * terms * term + seen * node
        return by_tree < per_packet * exact * self.references.n * pair

    def sums(self) -> tuple[Array, Array]:
        """log2 of ``sum_j mass_j 2**(m_i - e_ij)``, other classes [0] and own class [1]; m_i.

        As :meth:`Tiles.sums`, but m_i is only close to the least energy.
        """
        n, dtype = self.queries.n, self.queries.Z.dtype
        sums, minima = np.zeros((2, n)), np.full((2, n), np.inf, dtype)
        blocks = len(self.edges) - 1
        threads = min(n_threads(), blocks)
        work = self._scratch(threads)
        pairs, seen, kept = [0] * threads, [0] * threads, [0] * threads

        def task(block: int, thread: int) -> None:
            (nodes, ends), more = self._walk(block, work[thread])
            pairs[thread] += tree_sums.sums(
                self.forest, self.packets, self.where, self.edges[block], self.edges[block + 1],
                self.power, nodes, ends, work[thread].buffer, sums, minima,
            )  # fmt: skip
            seen[thread] += more
            if kept[thread] + nodes.nbytes <= _LIST_BYTES // threads:
                kept[thread] += nodes.nbytes
                self.lists[block] = nodes.copy(), ends

        run(task, range(blocks), threads)
        self.share, self.seen = sum(pairs) / (n * self.references.n), sum(seen)
        with np.errstate(divide="ignore"):
            return np.log2(sums), minima

    def pull(self, shift: Array, factor: Array, d: int) -> tuple[Array, Array]:
        """Sum of ``-factor_i mass_j 2**shift_i kappa'(d²_ij) (z_i - z_j)``, as `Tiles.pull`."""
        dtype = self.queries.Z.dtype
        shift, factor = shift.astype(dtype), factor.astype(dtype)
        n_nodes, leaves, blocks = len(self.forest.nodes), len(self.forest.mass), len(self.lists)
        lanes = min(_lanes(self.references.n, d, dtype.itemsize), blocks)
        nodes = np.zeros((lanes, n_nodes, d), dtype)
        points = np.zeros((lanes, leaves, d, tree.LEAF), dtype)
        threads = min(n_threads(), lanes)
        work = self._scratch(threads)
        Gq = np.zeros((d, self.queries.n), dtype)

        def task(lane: int, thread: int) -> None:
            for block in range(blocks * lane // lanes, blocks * (lane + 1) // lanes):
                lists = self.lists[block] or self._walk(block, work[thread])[0]
                tree_sums.gradients(
                    self.forest, self.packets, self.where, self.edges[block],
                    self.edges[block + 1], self.power, *lists, work[thread].buffer,
                    shift, factor, Gq, nodes[lane], points[lane],
                )  # fmt: skip

        run(task, range(lanes), threads)
        for lane in range(1, lanes):  # in a fixed order
            nodes[0] += nodes[lane]
            points[0] += points[lane]
        Gr = Gq if self.queries is self.references else np.zeros((d, self.references.n), dtype)
        tree_sums.push_down(self.forest, nodes[0], points[0], Gr)
        return Gq, Gr

    def _scratch(self, threads: int) -> list[_Work]:
        dtype = self.queries.Z.dtype
        longest = int(np.diff(self.edges).max()) * len(self.forest.mass)
        return [
            _Work(
                tree_walk.walk_scratch(self.d, len(self.forest.roots), dtype),
                np.empty(longest, np.int32),
                tree_sums.buffer(self.d, dtype),
            )
            for _ in range(threads)
        ]
