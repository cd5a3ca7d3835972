"""Means of charges by Triton's kernels (`base.ChargedSums`), for kernel regression."""

from __future__ import annotations

import math

import numpy as np
import torch

from vicinal.core.types import Array
from vicinal.densities import Kernel
from vicinal.engines.base import Data, Means, columns_of
from vicinal.engines.cuda import charged_kernels
from vicinal.engines.cuda.arrays import DeviceArray, on_its_device, sent
from vicinal.engines.cuda.class_sums import (
    _FUSED,
    _MARGIN,
    _REACH,
    DIFFERENCES_UP_TO,
    Factors,
    TritonSums,
)
from vicinal.engines.cuda.layout import TILE, Side

#: most charges of a row: their factors stay in registers
CHARGES_UP_TO = 4
__all__ = ["CHARGES_UP_TO", "DIFFERENCES_UP_TO", "TritonMeans"]


class TritonMeans(TritonSums):
    """Means of the charges of the references; see `base.ChargedSums`."""

    may_skip = False

    def __init__(self, data: Data, charges: Array, kernel: Kernel) -> None:
        super().__init__(data._replace(codes=np.zeros_like(data.codes)), kernel)
        self.out = charges.shape[1]
        sides = (self.layout.queries, self.layout.references)
        self.Y = [
            side.per_place(sent(charges[side.rows].T, self.Z, self.Z.dtype), 0.0) for side in sides
        ]

    @on_its_device
    def sums(self) -> Means:
        """The sum of the weights, and the means of the charges, of each query."""
        layout, (rows, columns) = self.layout, (self.layout.queries, self.layout.references)
        first, last, splits = self._ranges(rows, columns)
        M = self.Q.new_empty(splits, rows.N)
        S, T = torch.empty_like(M), self.Q.new_empty(splits, self.out, rows.N)
        charged_kernels.sums[(rows.N // self.shape.rows, splits)](
            self.Q, self.R, layout.self_query, columns.mass.to(self.Q.dtype), self.Y[1], first,
            last, M, S, T, rows.N, columns.N, self.power, D=self.Z.shape[1], BM=self.shape.rows,
            BN=self.shape.columns, FAMILY=self.family, OUT=self.out, **_FUSED,
        )  # fmt: skip
        shift = M.amin(0).double()
        part = torch.exp2(shift - M.double())
        total = (S.double() * part).sum(0)
        empty = total <= 0
        means = (T.double() * part[:, None]).sum(0) / torch.where(empty, 1.0, total)
        found = torch.stack([
            torch.where(empty, -math.inf, total.log2()), torch.where(empty, math.inf, shift),
            *torch.where(empty, 0.0, means),
        ])  # fmt: skip
        log2, shift_there, *each = rows.of_rows(found).cpu().numpy()
        return Means(log2, shift_there, np.stack(each, axis=1), rows.rows)

    def pull(self, sums: Means, slopes: Array) -> DeviceArray:  # type: ignore[override]
        """Derivative of ``sum(slopes * means)`` by the points."""
        rows, dtype = self.layout.queries, self.Q.dtype
        some = columns_of(sums.rows, rows.rows)
        sums, slopes = sums.take(some), slopes[some]
        # d mean / d d² is minus the share of the pair times (charge - mean)
        asked = np.column_stack([np.sum(slopes * sums.means, axis=1), slopes]).T
        given = sent(np.stack([sums.log2, sums.shift]), self.Z, np.float64)
        log2, shift = rows.per_place(given, math.inf)
        factors = rows.per_place(sent(asked, self.Z, np.float64), 0.0)
        real = rows.real & torch.isfinite(shift)
        common = torch.where(real, shift, 1e30).amin() + _MARGIN
        raw = torch.where(real, factors * torch.exp2(-torch.where(real, log2, 0.0)), 0.0)
        m = torch.where(real, shift, 0.0)
        far = real & (m > common + _REACH)
        scaled = torch.where(far, 0.0, raw * torch.exp2(torch.where(far, 0.0, m - common)))
        far_tiles = far.view(-1, TILE).any(1).to(torch.int32)
        parts = Factors(scaled.to(dtype), m.to(dtype), raw.to(dtype), far_tiles, self.unused)
        return self._gradient(parts, common.to(dtype).reshape(1))

    def _launch_pull(
        self, rows: Side, columns: Side, own: Factors, other: Factors, shift: torch.Tensor,
        masses: tuple[torch.Tensor, torch.Tensor], weighed: bool,
    ) -> torch.Tensor:  # fmt: skip
        layout, d = self.layout, self.Z.shape[1]
        queries = rows is layout.queries
        first, last, splits = self._ranges(rows, columns)
        R, C = (self.Q, self.R) if queries else (self.R, self.Q)
        mine, others = self.Y if queries else self.Y[::-1]
        own_place = layout.self_query if queries else layout.self_reference
        G = R.new_empty(splits, d, rows.N)
        charged_kernels.pull[(rows.N // self.shape.pull_rows, splits)](
            R, C, own_place, *masses, own.scaled, other.scaled, own.shift, other.shift, own.raw,
            other.raw, own.far, other.far, shift, mine, others, first, last, G, rows.N, columns.N,
            self.power, D=d, BM=self.shape.pull_rows, BN=self.shape.pull_columns,
            FAMILY=self.family, OUT=self.out, **_FUSED,
        )  # fmt: skip
        return G.sum(0).T
