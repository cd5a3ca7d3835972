"""Sums by trees: the engine whose class densities are within a relative error."""

from __future__ import annotations

import numpy as np

from vicinal._threads import block_edges, n_threads, run
from vicinal._types import Array
from vicinal.densities import Compact, Gaussian, Kernel
from vicinal.kernels import tree, tree_sums
from vicinal.objectives._tiles import Side

__all__ = ["Trees"]

_LANES = 8
_LANE_BYTES = 1 << 28  # of all lanes' gradients together, where two of them fit


def _lanes(n: int, d: int, itemsize: int) -> int:
    """How many partial gradients are kept: a function of the size alone, not of the threads."""
    return int(np.clip(_LANE_BYTES // (n * d * itemsize), 2, _LANES))


class Trees:
    """Sums over all references within a relative tolerance, and their gradient.

    One tree for each class of the references ([Oneata2011] alg. 4.6): the density of every class
    is within the tolerance, and so are sums of them.  The gradient is that of the sums as they
    are computed, far nodes by their mass at their mean; its own error has no bound.

    Parameters
    ----------
    queries, references : Side
    self_pos : int array
        Position of each query among the references, or -1.
    kernel : Gaussian or Student
    tolerance : float
        The largest relative error; 0 sums every pair that is not beyond the floating-point range.
    d : int
        Dimensions of the embedded space (a Side may have one more).

    Attributes
    ----------
    share : float
        After ``log2_sums``: the share of all pairs that were summed one by one ([Oneata2011]
        table 5.8).

    Notes
    -----
    Memory for the gradient: as many copies of the references as there are lanes, 8 or what fits
    into 256 MB, at least 2.
    """

    def __init__(
        self,
        queries: Side,
        references: Side,
        self_pos: Array,
        kernel: Kernel,
        tolerance: float,
        d: int,
    ) -> None:
        if isinstance(kernel, Compact):
            raise ValueError(
                "The 'pairs' parameter of nca must not be Bounded with the kernel Compact(), whose "
                "pairs a range search finds exactly."
            )
        if not 0 <= tolerance < 1:
            raise ValueError(
                f"The 'tolerance' of Bounded must be a float in [0, 1). Got {tolerance!r} instead."
            )
        self.queries, self.references, self.d = queries, references, d
        self.kernel, self.tolerance = kernel, references.Z.dtype.type(tolerance)
        classes, first = np.unique(references.codes, return_index=True)
        self.forest = tree.build(references.Z[:d], references.mass, [*first, references.n])
        groups, first = np.unique(queries.codes, return_index=True)
        self.packets = tree.build(
            queries.Z[:d], np.ones_like(queries.mass), [*first, queries.n], tree_sums.WIDTH
        )
        places = np.flatnonzero(self.forest.index >= 0)
        where = np.full(references.n + 1, -1)  # the last one for queries that are no reference
        where[self.forest.index[places]] = places
        self.where = where[self_pos]
        heads = self.packets.index[:: tree_sums.WIDTH]
        own = np.searchsorted(classes, groups)
        own[~np.isin(groups, classes)] = -1
        self.own = own[np.searchsorted(groups, queries.codes[heads])]
        self.share = 1.0

    def _law(self) -> tuple[Array, int, int]:
        return self.tolerance, self.kernel.family, self.d + 1

    def _energy(self, m: Array) -> Array:
        """-log2 of the kernel at a (scaled) squared distance."""
        return m if isinstance(self.kernel, Gaussian) else 0.5 * (self.d + 1) * np.log2(1.0 + m)

    def _distance(self, energy: Array) -> Array:
        if isinstance(self.kernel, Gaussian):
            return energy
        return np.expm1(energy.astype(np.float64) * (2.0 * np.log(2.0) / (self.d + 1)))

    def log2_sums(self) -> tuple[Array, Array]:
        """log2 of ``sum_j mass_j 2**(m_i - e_ij)``, other classes [0] and own class [1]; m_i.

        As :meth:`Tiles.log2_sums`, but m_i need not be the least energy; it is close to it.
        """
        n, dtype = self.queries.n, self.queries.Z.dtype
        sums, minima = np.zeros((2, n)), np.full((2, n), np.inf, dtype)
        edges = block_edges(len(self.own), 16)
        threads = min(n_threads(), len(edges) - 1)
        scratch = self._scratch(threads)

        none = np.zeros((len(self.forest.nodes), 0), dtype)
        no_points = np.zeros((len(self.forest.mass), 0, tree.LEAF), dtype)

        def task(block: int, thread: int) -> None:
            tree_sums.walk_block(
                self.forest, self.packets, self.where, self.own, edges[block], edges[block + 1],
                *self._law(), scratch[thread], False,
                sums, minima, none, none, none, no_points,
            )  # fmt: skip

        run(task, range(len(edges) - 1), threads)
        self.share = sum(int(s.counts[0]) for s in scratch) / (n * self.references.n)
        with np.errstate(divide="ignore"):
            return np.log2(sums), self._energy(minima)

    def gradient(self, shift: Array, factor: Array, d: int) -> tuple[Array, Array]:
        """Sum of ``-factor_i mass_j 2**shift_i kappa'(d²_ij) (z_i - z_j)``, as Tiles.gradient."""
        dtype = self.queries.Z.dtype
        shift, factor = self._distance(shift).astype(dtype), factor.astype(dtype)
        n_nodes, leaves = len(self.forest.nodes), len(self.forest.mass)
        lanes = min(_lanes(self.references.n, d, dtype.itemsize), len(self.own))
        edges = [len(self.own) * lane // lanes for lane in range(lanes + 1)]
        nodes = np.zeros((lanes, n_nodes, d), dtype)
        points = np.zeros((lanes, leaves, d, tree.LEAF), dtype)
        threads = min(n_threads(), lanes)
        scratch = self._scratch(threads)
        Gq, unused = np.zeros((d, self.queries.n), dtype), np.zeros((2, 1))

        def task(lane: int, thread: int) -> None:
            tree_sums.walk_block(
                self.forest, self.packets, self.where, self.own, edges[lane], edges[lane + 1],
                *self._law(), scratch[thread], True,
                unused, shift, factor, Gq, nodes[lane], points[lane],
            )  # fmt: skip

        run(task, range(lanes), threads)
        for lane in range(1, lanes):  # in a fixed order
            nodes[0] += nodes[lane]
            points[0] += points[lane]
        Gr = Gq if self.queries is self.references else np.zeros((d, self.references.n), dtype)
        tree_sums.push_down(self.forest, nodes[0], points[0], Gr)
        return Gq, Gr

    def _scratch(self, threads: int) -> list[tree_sums.Scratch]:
        return [tree_sums.scratch(self.d, tree.LEAF, self.queries.Z.dtype) for _ in range(threads)]
