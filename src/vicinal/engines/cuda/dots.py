"""Class sums in many dimensions, by products on tensor cores."""

from __future__ import annotations

from typing import Any

import torch

from vicinal.densities import Kernel
from vicinal.engines.base import Data
from vicinal.engines.cuda import dot_kernels
from vicinal.engines.cuda.class_sums import Factors, Shape, TritonSums
from vicinal.engines.cuda.layout import TILE, Side

#: most dimensions, and the largest squared norm in units of log2 of a weight: beyond, products
#: lose the digits of distances
DOTS_UP_TO = 128
_NORM = 256.0
_FUSED = {"enable_fp_fusion": True, "num_warps": 4, "num_stages": 2}


class DotSums(TritonSums):
    """As `TritonSums`, for float32 and Z whose squared norms are moderate: see ``reach``."""

    name = "triton products"

    def __init__(self, data: Data, kernel: Kernel) -> None:
        super().__init__(data, kernel)
        # Triton's interpreter does not know the product in three parts
        self.precision = "ieee" if self.Q.device.type == "cpu" else "bf16x3"
        self.of_rows = self._halves(self.Q, self.layout.queries)
        self.of_columns = (
            self.of_rows if self.layout.same else self._halves(self.R, self.layout.references)
        )

    @property
    def suits(self) -> bool:
        """Whether products have the digits of the distances between these points."""
        sides = (self.layout.queries, self.of_rows), (self.layout.references, self.of_columns)
        norms = [torch.where(side.real, part[2], 0.0).amax() for side, part in sides]
        return bool(torch.stack(norms).amax() * self._log2 <= _NORM)

    @property
    def _log2(self) -> float:
        return 1.0 if self.kernel.family == 0 else 1.5  # of coordinates that are not scaled by it

    def _shape(self, d: int, interpreted: bool) -> Shape:
        return Shape(self.layout.block, TILE, self.layout.block, TILE)

    def _halves(self, P: torch.Tensor, side: Side) -> tuple[torch.Tensor, ...]:
        """Points (N, DP) in two halves of float16, their squared norms, and themselves."""
        d = len(P)
        width = max(16, 1 << (d - 1).bit_length())
        Z = P.new_zeros(side.N, width)
        Z[:, :d] = torch.where(side.real, P, 0.0).T
        high = Z.half()
        norms = torch.where(side.real, Z.double().square().sum(1), 1e30).float()
        return high, (Z - high.float()).half(), norms, Z

    def _launch_sums(self) -> tuple[torch.Tensor, torch.Tensor, int]:
        layout, (rows, columns) = self.layout, (self.layout.queries, self.layout.references)
        first, last, splits = self._ranges(rows, columns)
        M = self.Q.new_empty(splits, 2, rows.N)
        S = torch.empty_like(M)
        log_mass = torch.where(columns.mass > 0, columns.mass.log2(), -1e30).float()
        dot_kernels.sums[(rows.N // self.shape.rows, splits)](
            *self.of_rows[:3], *self.of_columns[:3], layout.self_query, log_mass, rows.tile_code,
            columns.tile_code, first, last, M, S, rows.N, self.power,
            DP=self.of_rows[0].shape[1], BM=self.shape.rows, BN=TILE, FAMILY=self.family,
            WEIGHED=columns.weighed, ANYWHERE=not layout.same, **_FUSED,
        )  # fmt: skip
        return M, S, splits

    def _launch_pull(
        self, rows: Side, columns: Side, own: Factors, other: Factors, shift: torch.Tensor,
        masses: tuple[torch.Tensor, torch.Tensor], weighed: bool,
    ) -> torch.Tensor:  # fmt: skip
        layout = self.layout
        queries = rows is layout.queries
        first, last, splits = self._ranges(rows, columns)
        parts: Any = (self.of_rows, self.of_columns)
        mine, others = parts if queries else parts[::-1]
        own_place = layout.self_query if queries else layout.self_reference
        width = mine[0].shape[1]
        G = self.Q.new_empty(splits, rows.N, width)
        dot_kernels.pull[(rows.N // self.shape.pull_rows, splits)](
            *mine[:3], *others[:3], mine[3], others[3], own_place, *masses, own.scaled,
            other.scaled, own.shift, other.shift, own.raw, other.raw, own.far, other.far, shift,
            rows.tile_code, columns.tile_code, first, last, G, rows.N, columns.N, self.power,
            DP=width, BM=self.shape.pull_rows, BN=TILE, FAMILY=self.family,
            ANYWHERE=not layout.same, PRECISION=self.precision, **_FUSED,
        )  # fmt: skip
        return G.sum(0)[:, : self.Z.shape[1]]
