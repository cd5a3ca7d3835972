"""Compiled engines for soft matches (`base.MatchSums`): all pairs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vicinal.core.types import Array
from vicinal.densities import Kernel
from vicinal.engines.base import Data, RowSums, columns_of, exact_sum
from vicinal.engines.cpu.class_sums import CompiledSums
from vicinal.engines.cpu.pair_blocks import PairBlocks
from vicinal.kernels import match_sparse, matches
from vicinal.kernels.match_sparse import Sparse
from vicinal.kernels.matches import Matching
from vicinal.targets import LabelDistributions, Matches, NearNumbers


class SoftSums(CompiledSums):
    """`CompiledSums` of an engine that computes energies relative to the nearest references.

    Far out, the energy of a pair is so large that adding the energy of its match would lose the
    digits of the match.  After its ``sums`` the engine has ``near``, the energies of the nearest
    references of each query, and its shifts are less these.
    """

    def sums(self) -> RowSums:
        """The sums of each query."""
        log2, self.shift = self.engine.sums()
        shift, lost = exact_sum(self.engine.near.astype(np.float64), self.shift)
        self.lost = np.where(np.isinf(shift), 0.0, lost)
        self.own = RowSums(log2 - self.lost, shift, self.query_rows)
        return self.own

    def pull(self, sums: RowSums, slopes: Array) -> Array:
        """Derivative of ``sum(slopes * ln(sums))`` by the points, (n, d)."""
        columns = columns_of(sums.rows, self.query_rows)
        sums, slopes = sums.take(columns), slopes[:, columns]
        there = np.isfinite(self.own.shift) & np.isfinite(sums.log2)
        log2 = np.full(there.shape, -np.inf)
        behind = self.own.shift[there] - sums.shift[there]
        log2[there] = (sums.log2[there] + self.lost[there]) + behind
        slopes = np.where(there, slopes, 0.0)  # a query without a reference is left out
        return super().pull(RowSums(log2, self.shift, self.query_rows), slopes)


class _Blocks:
    """Sums over all pairs, matches by numbers or distributions, as `SoftSums` wants them."""

    share = 1.0

    def __init__(self, data: Data, target: Any, kernel: Kernel) -> None:
        self.blocks = PairBlocks(data, kernel, matches.scratch)
        self.match = matching(target, data)

    def sums(self) -> tuple[Array, Array]:
        """log2 of the sums relative to their shifts, and the shifts, of rest [0], matches [1]."""
        Q = self.blocks.queries
        self.near, sums = np.full(Q.n, np.inf, Q.Z.dtype), np.zeros((2, Q.n), Q.Z.dtype)
        self.blocks.sum_up(
            lambda points, block, work: matches.match_sums_block(
                points, self.match, self.near, sums, *block, self.blocks.power, work
            )
        )
        shift = np.zeros_like(sums)
        self._sum_far(shift, sums)
        shift[sums == 0] = np.inf
        with np.errstate(divide="ignore"):
            return np.log2(sums, dtype=np.float64), shift

    def _sum_far(self, minima: Array, sums: Array) -> None:
        """Sum the rows again whose matches are all far away."""
        far = sums[1] < matches.FAR[sums.itemsize // 8]
        minima[:, far], sums[:, far] = np.inf, 0.0
        self.blocks.sum_up(
            lambda points, block, work: matches.match_far_block(
                points, self.match, self.near, minima, sums, far, *block, self.blocks.power, work
            ),
            far,
        )

    def pull(self, shift: Array, factor: Array, d: int) -> tuple[Array, Array]:
        """Sum of ``-factor_i mass_ij 2**shift_i kappa'(d²_ij) (z_i - z_j)``, for both points."""
        factor = factor.astype(shift.dtype)
        return self.blocks.pull(
            lambda points, Gq, Gr, block, work: matches.match_grad_block(
                points, self.match, self.near, shift, factor, Gq, Gr, *block, self.blocks.power,
                work,
            ),
            d,
        )  # fmt: skip


class _SparseBlocks:
    """Sums over all pairs, matches by a sparse matrix, as `CompiledSums` wants them."""

    share = 1.0

    def __init__(self, data: Data, target: Matches, kernel: Kernel) -> None:
        self.blocks = PairBlocks(data, kernel, match_sparse.scratch)
        self.match = sparse_matching(target, data)

    def sums(self) -> tuple[Array, Array]:
        """log2 of the sums relative to their shifts, and the shifts, of rest [0], matches [1]."""
        Q = self.blocks.queries
        minima, sums = np.full((2, Q.n), np.inf, Q.Z.dtype), np.zeros((2, Q.n), Q.Z.dtype)
        self.blocks.sum_up(
            lambda points, block, work: match_sparse.sparse_sums_block(
                points, self.match, minima, sums, *block, self.blocks.power, work
            )
        )
        minima[sums == 0] = np.inf
        with np.errstate(divide="ignore"):
            return np.log2(sums, dtype=np.float64), minima

    def pull(self, shift: Array, factor: Array, d: int) -> tuple[Array, Array]:
        """Sum of ``-factor_i mass_ij 2**shift_i kappa'(d²_ij) (z_i - z_j)``, for both points."""
        factor = factor.astype(shift.dtype)
        return self.blocks.pull(
            lambda points, Gq, Gr, block, work: match_sparse.sparse_grad_block(
                points, self.match, shift, factor, Gq, Gr, *block, self.blocks.power, work
            ),
            d,
        )


def block_match_sums(data: Data, target: Any, kernel: Kernel) -> CompiledSums:
    """Sums over all pairs, in blocks."""
    rows = (data.query_rows, data.reference_rows)
    if isinstance(target, Matches):
        return CompiledSums(_SparseBlocks(data, target, kernel), "blocks", data.Z, rows, kernel)
    return SoftSums(_Blocks(data, target, kernel), "blocks", data.Z, rows, kernel)


def features(target: LabelDistributions | NearNumbers, dtype: Any) -> tuple[int, Array, float]:
    """The kind of matches, and the numbers they come from, in the layout of kernels: (q, n)."""
    T, limit = target.values, 0.0
    if isinstance(target, LabelDistributions):
        kind = matches.DISTRIBUTIONS
        T = np.pad(T, ((0, 0), (0, -T.shape[1] % 4)))
    elif isinstance(target, NearNumbers):
        kind = matches.HARD if target.hard else matches.SOFT
        # centred, for the digits of float32; by an integer, for integers to stay exact
        T = T - np.rint(np.median(T, axis=0))
        limit = target.width**2
        if not target.hard:
            T *= math.sqrt(0.5 * math.log2(math.e)) / target.width
    else:
        raise TypeError(f"No matches are known for {target!r}.")
    return kind, np.ascontiguousarray(T.T, dtype=dtype), limit


def matching(target: LabelDistributions | NearNumbers, data: Data) -> Matching:
    """How well queries match references, in the layout of the kernels."""
    dtype = data.Z.dtype
    kind, T, limit = features(target, dtype)
    Tr = np.ascontiguousarray(T[:, data.reference_rows])
    Tq = np.ascontiguousarray(T[:, data.query_rows])
    return Matching(kind, Tq, Tr, dtype.type(limit))


def sparse_matching(target: Matches, data: Data) -> Sparse:
    """The matches of the queries among the references, in the layout of the kernels."""
    dtype, rows = data.Z.dtype, data.reference_rows
    block = target.between(data.query_rows, rows)
    block.sort_indices()
    rest = data.mass[rows] if target.weight is None else data.mass[rows] * target.weight[rows]
    return Sparse(
        block.indptr.astype(np.int64),
        block.indices.astype(np.int32),
        block.data.astype(dtype),
        rest.astype(dtype),
    )
