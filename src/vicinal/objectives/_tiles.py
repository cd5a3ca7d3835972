"""All pairs in tiles: the engine of the exact objective, on all threads, in one fixed order.

An *engine* is built from queries, references and a kernel, and gives what an objective of
neighbours needs: ``log2_sums()`` of the kernel over either kind of class, and ``gradient(...)``.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np

from vicinal._threads import (
    block_edges,
    n_threads,
    rectangle,
    round_robin,
    run,
    single_threaded_blas,
)
from vicinal._types import Array
from vicinal.densities import Compact, Gaussian, Kernel, Student
from vicinal.kernels import compact, nca
from vicinal.kernels._blocks import ALL, Reach, workspace

__all__ = ["Side", "Tiles", "coordinate_scale", "side"]

# embedded points times this give squared distances in powers of two: exp(-d²) = 2**-(scaled d²)
_LOG2_SCALE = math.sqrt(math.log2(math.e))

#: dimensions from which matrix products find distances and gradients faster than the kernels do
BLAS_FROM = 48


class Side(NamedTuple):
    """Points sorted by class as the kernels want them: ``Z`` is (d made even, n)."""

    Z: Array
    mass: Array
    codes: Array
    d: int

    @property
    def n(self) -> int:
        return self.Z.shape[1]


def coordinate_scale(kernel: Kernel) -> float:
    """What embedded points are multiplied by before they go to the compiled loops."""
    return _LOG2_SCALE if isinstance(kernel, Gaussian) else 1.0


def side(Z: Array, codes: Array, mass: Array, centre: Array, scale: float) -> tuple[Side, Array]:
    """Sort the rows of Z by class; return them in kernel layout, and their order."""
    order = np.argsort(codes, kind="stable")
    d = Z.shape[1]
    points = np.zeros((d + d % 2, len(Z)), Z.dtype)
    np.subtract(Z.T[:, order], centre[:, None], out=points[:d])
    points[:d] *= Z.dtype.type(scale)
    return Side(points, mass[order].astype(Z.dtype), codes[order], d), order


class _Products:
    """Distances of whole blocks, and their gradients, by BLAS; idle below ``BLAS_FROM``.

    ``|a|² + |b|² - 2 a.b`` loses digits that differences keep, about ``eps |z|²``: in float32 that
    is fine to travel with, and the arrival is in float64.  Idle too when points are so far out
    that the loss is one of ``30 sqrt(eps)`` or more (0.01 in float32, 4e-7 in float64).
    """

    def __init__(
        self, queries: Side, references: Side, rows: list[int], columns: list[int], threads: int
    ) -> None:
        self.Zq, self.Zr = queries.Z, references.Z
        self.active = queries.Z.shape[0] >= BLAS_FROM
        if self.active:
            self.norms_q = np.einsum("ki,ki->i", self.Zq, self.Zq)
            self.norms_r = np.einsum("ki,ki->i", self.Zr, self.Zr)
            farthest = max(self.norms_q.max(), self.norms_r.max())
            self.active = farthest < 30 / np.sqrt(np.finfo(queries.Z.dtype).eps)
        size = max(np.diff(rows)) * max(np.diff(columns)) if self.active else 0
        self.buffers = [np.empty(size, queries.Z.dtype) for _ in range(threads)]

    def blas(self) -> Any:
        """One BLAS thread for each of ours, while products are in use."""
        return single_threaded_blas() if self.active else nullcontext()

    def distances(self, thread: int, i: slice, j: slice) -> Array:
        """Squared distances of a block, or (0, 0) to let the kernel find them."""
        if not self.active:
            return self.buffers[thread].reshape(0, 0)
        shape = (i.stop - i.start, j.stop - j.start)
        D = self.buffers[thread][: shape[0] * shape[1]].reshape(shape)
        np.matmul(self.Zq[:, i].T, self.Zr[:, j], out=D)
        D *= D.dtype.type(-2)
        D += self.norms_q[i, None]
        D += self.norms_r[j]
        return D

    def pull(self, W: Array, Gq: Array, Gr: Array, i: slice, j: slice, columns: bool) -> None:
        """Add ``sum_j w_ij (z_i - z_j)`` to Gq and, if ``columns``, the opposite to Gr."""
        if not self.active:
            return
        d = len(Gq)
        Gq[:, i] += self.Zq[:d, i] * W.sum(axis=1) - self.Zr[:d, j] @ W.T
        if columns:
            Gr[:, j] += self.Zr[:d, j] * W.sum(axis=0) - self.Zq[:d, i] @ W


def _own_ranges(queries: Side, references: Side) -> Array:
    left = np.searchsorted(references.codes, queries.codes, side="left")
    right = np.searchsorted(references.codes, queries.codes, side="right")
    return np.stack([left, right])


class Tiles:
    """Sums over all pairs, and their gradient.

    Parameters
    ----------
    queries, references : Side
        ``queries is references`` computes each pair once.
    self_pos : int array
        Position of each query among the references, or -1.
    kernel : Kernel
    """

    def __init__(self, queries: Side, references: Side, self_pos: Array, kernel: Kernel) -> None:
        self.queries, self.references, self.self_pos = queries, references, self_pos
        self.compact = isinstance(kernel, Compact)
        dtype = queries.Z.dtype
        self.power = dtype.type((queries.d + 1) / 2 if isinstance(kernel, Student) else 0)
        self.mirror = queries is references
        self.rows = block_edges(queries.n)
        self.columns = self.rows if self.mirror else block_edges(references.n)
        self.threads = min(n_threads(), len(self.rows) - 1)
        widest = max(np.diff(self.columns))
        self.scratch = [workspace(queries.Z.shape[0], dtype, widest) for _ in range(self.threads)]
        self.products = _Products(queries, references, self.rows, self.columns, self.threads)
        nothing = np.zeros((2, 0), dtype)
        self.reach = Reach(nothing.reshape(2, 0, 0), nothing, nothing)

    def log2_sums(self, own: Array | None = None) -> tuple[Array, Array]:
        """log2 of ``sum_j mass_j 2**(m_i - e_ij)``, other classes [0] and own class [1].

        With the energy ``e_ij = -log2 kappa(d_ij)``.  The minima m_i of the energies come beside
        it, not in it: where they are large, their sum would lose the digits of the logarithm.
        (The compact kernel needs no shift: its m_i are 0.)  Without a reference of the kind, or
        none in range, -inf and inf.  ``own`` overrides the range of references that counts as the
        query's own class.
        """
        queries, references, mirror = self.queries, self.references, self.mirror
        dtype, n = queries.Z.dtype, queries.n
        own = _own_ranges(queries, references) if own is None else own
        minima, sums = np.full((2, n), np.inf, dtype), np.zeros((2, n), dtype)
        unused = np.empty((2, references.n), dtype) if not mirror else minima

        def task(pair: tuple[int, range], thread: int) -> None:
            i = slice(self.rows[pair[0]], self.rows[pair[0] + 1])
            for column in pair[1]:
                j = slice(self.columns[column], self.columns[column + 1])
                points = (
                    queries.Z, references.Z, self.products.distances(thread, i, j),
                    queries.mass, references.mass, own, self.self_pos,
                )  # fmt: skip
                block = (i.start, i.stop, j.start, j.stop, mirror)
                tiles = (self.reach, 0, ALL, self.scratch[thread])
                if self.compact:
                    compact.compact_stats_block(
                        *points, sums, sums if mirror else unused, *block, *tiles
                    )
                else:
                    nca.nca_stats_block(
                        *points, minima, sums, minima if mirror else unused,
                        sums if mirror else unused, *block, self.power, *tiles,
                    )  # fmt: skip

        blocks = len(self.rows) - 1
        with self.products.blas():
            if mirror:
                for pairs in round_robin(blocks):
                    run(task, [(p, range(q, q + 1)) for p, q in pairs], self.threads)
            else:  # the references are only read: no rounds are needed
                everything = range(len(self.columns) - 1)
                run(task, [(block, everything) for block in range(blocks)], self.threads)
        if self.compact:
            minima[sums > 0] = 0.0
        with np.errstate(divide="ignore"):
            return np.log2(sums, dtype=np.float64), minima

    def gradient(self, shift: Array, factor: Array, d: int) -> tuple[Array, Array]:
        """Sum of ``-factor_i mass_j 2**shift_i kappa'(d²_ij) (z_i - z_j)``, both sides.

        kappa' is the derivative by d².  Both sides in kernel layout (d, n); one array for both
        when ``queries is references``.  The compact kernel has no shift: it must be 0.
        """
        queries, references, mirror = self.queries, self.references, self.mirror
        dtype = queries.Z.dtype
        own = _own_ranges(queries, references)
        factor = factor.astype(dtype)
        Gq = np.zeros((d, queries.n), dtype)
        Gr = Gq if mirror else np.zeros((d, references.n), dtype)
        shift_ref = shift if mirror else np.zeros((2, references.n), dtype)
        w_ref = factor if mirror else np.zeros((2, references.n), dtype)

        def task(pair: tuple[int, int], thread: int) -> None:
            i = slice(self.rows[pair[0]], self.rows[pair[0] + 1])
            j = slice(self.columns[pair[1]], self.columns[pair[1] + 1])
            D = self.products.distances(thread, i, j)
            points = (
                queries.Z, references.Z, D, queries.mass, references.mass, own, self.self_pos
            )  # fmt: skip
            block = (Gq, Gr, i.start, i.stop, j.start, j.stop, mirror)
            tiles = (self.reach, 0, ALL, self.scratch[thread])
            if self.compact:
                compact.compact_grad_block(*points, factor, w_ref, *block, *tiles)
            else:
                nca.nca_grad_block(
                    *points, shift, factor, shift_ref, w_ref, *block, self.power, *tiles
                )
            # a block on the diagonal holds both directions of its pairs
            self.products.pull(D, Gq, Gr, i, j, columns=not (mirror and i == j))

        blocks = len(self.rows) - 1
        rounds = round_robin(blocks) if mirror else rectangle(blocks, len(self.columns) - 1)
        with self.products.blas():
            for pairs in rounds:
                run(task, pairs, self.threads)
        return Gq, Gr

    def energy(self, shift: Array) -> Array:
        """Sum over the references of ``mass_j 2**(shift_i - e_ij) (e_ij - shift_i)``, a query.

        References out of range of the compact kernel, whose shift is 0, add nothing.
        """
        queries, references = self.queries, self.references
        out = np.zeros(queries.n, queries.Z.dtype)

        def task(i: int, thread: int) -> None:
            points = (queries.Z, references.Z, references.mass, self.self_pos)
            block = (self.rows[i], self.rows[i + 1])
            if self.compact:
                compact.compact_energy_block(*points, out, *block, self.scratch[thread])
            else:
                nca.nca_energy_block(*points, shift, out, *block, self.power, self.scratch[thread])

        run(task, range(len(self.rows) - 1), self.threads)
        return out
