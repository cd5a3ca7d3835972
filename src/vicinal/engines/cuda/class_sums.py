"""Class sums by Triton's kernels (`base.ClassSums`), and the loss computed where the sums lie."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from vicinal.core.types import Array
from vicinal.densities import Kernel
from vicinal.engines.base import Data, RowSums, columns_of
from vicinal.engines.cuda import kernels
from vicinal.engines.cuda.arrays import DeviceArray, sent
from vicinal.engines.cuda.layout import TILE, Layout, Side, layout_of
from vicinal.engines.odds import OddsLoss, odds_loss

#: most dimensions of kernels by differences, whose coordinates stay in registers
DIRECT_UP_TO = 8
#: programs that fill a device: 48 for each of 132 multiprocessors.  Splits follow from it and the
#: number of rows alone, so that sums are added in the same order on every device
_PROGRAMS = 132 * 48
_REACH = 80.0  # shifts may be that far above the common one
_MARGIN = 40.0  # of the common shift above the least
#: set explicitly: a later Triton changes its default, and with it last digits
_FUSED = {"enable_fp_fusion": True, "num_warps": 1}


class Shape(NamedTuple):
    """Rows of a block, and columns at a time, of the sums and of the pull."""

    rows: int
    sums: int
    pull: int


class Factors(NamedTuple):
    """What the pull needs to know of one side: scaled and raw factors, shifts, rows out of reach."""

    scaled: torch.Tensor
    shift: torch.Tensor
    raw: torch.Tensor
    far: torch.Tensor


def n_splits(blocks: int, tiles: int) -> int:
    """How many parts of the columns are summed apart."""
    return max(1, min(tiles // 4, round(_PROGRAMS / blocks)))


class TritonSums:
    """Sums of a kernel over the other classes and the own one; see `base.ClassSums`.

    Parameters
    ----------
    data : Data
    kernel : Gaussian, Student or Laplace
    layout : Layout, default=None
        None: that of the data.
    """

    name = "triton"
    share = 1.0

    def __init__(self, data: Data, kernel: Kernel, layout: Layout | None = None) -> None:
        self.Z: Any = data.Z
        self.kernel, d = kernel, self.Z.shape[1]
        self.layout = layout_of(data) if layout is None else layout
        self.family, self.power = kernel.family, float(kernel.power(d) or 0.0)
        self.scale, tensor = kernel.coordinate_scale, self.Z.tensor
        centre = tensor[self.layout.references.source].mean(0)
        self.R = self.layout.references.spread(tensor, centre, self.scale, kernels.PAD)
        self.Q = self.R
        if not self.layout.same:
            self.Q = self.layout.queries.spread(tensor, centre, self.scale, kernels.PAD)
        interpreted = tensor.device.type == "cpu"
        self.shape = Shape(self.layout.block, 64, 64) if interpreted else self._shape(d)
        self.unused = tensor.new_zeros(1)
        self._found: tuple[torch.Tensor, torch.Tensor] | None = None

    def _shape(self, d: int) -> Shape:
        return Shape(self.layout.block, 16, 4)

    def _ranges(self, rows: Side, columns: Side) -> tuple[torch.Tensor, torch.Tensor, int]:
        """The first and the last tile of each split."""
        tiles = columns.N // TILE
        splits = n_splits(rows.N // self.layout.block, tiles)
        each = -(-tiles // splits)
        first = np.minimum(np.arange(splits) * each, tiles)
        last = np.minimum(first + each, tiles)
        return sent(first, self.Z, np.int32), sent(last, self.Z, np.int32), splits

    def on_device(self) -> tuple[torch.Tensor, torch.Tensor]:
        """log2 and shifts (2, N) of the queries, in float64, in the order of the layout."""
        if self._found is None:
            layout, z = self.layout, self.unused
            rows, columns = layout.queries, layout.references
            first, last, splits = self._ranges(rows, columns)
            M = self.Q.new_empty(splits, 2, rows.N)
            S = torch.empty_like(M)
            kernels.sums[(rows.N // self.shape.rows, splits)](
                self.Q, self.R, layout.self_query, columns.mass.to(self.Q.dtype), rows.tile_code,
                columns.tile_code, first, last, z, z, z, z, z, M, S, rows.N, columns.N, self.power,
                D=self.Z.shape[1], BM=self.shape.rows, BN=self.shape.sums, FAMILY=self.family,
                WEIGHED=columns.weighed, ANYWHERE=not layout.same, SKIPS=False, **_FUSED,
            )  # fmt: skip
            shift = torch.empty(2, rows.N, dtype=torch.float64, device=M.device)
            log2 = torch.empty_like(shift)
            kernels.joined[(rows.N // TILE, 2)](M, S, shift, log2, rows.N, splits, BM=TILE, **_FUSED)
            self._found = log2, shift
        return self._found

    def sums(self) -> RowSums:
        """The sums of each query, on the host."""
        rows = self.layout.queries
        log2, shift = torch.stack(self.on_device())[..., rows.place].cpu().numpy()
        return RowSums(log2, shift, rows.rows)

    def pull(self, sums: RowSums, slopes: Array) -> DeviceArray:
        """Derivative of ``sum(slopes * ln(sums))`` by the points."""
        rows = self.layout.queries
        columns = columns_of(sums.rows, rows.rows)
        given = [sent(part[:, columns], self.Z, np.float64) for part in (sums.log2, sums.shift)]
        log2, shift = rows.per_place(torch.stack(given), math.inf)
        slope = rows.per_place(sent(slopes[:, columns], self.Z, np.float64), 0.0)
        return self.pulled(log2, shift, slope)

    def pulled(
        self, log2: torch.Tensor, shift: torch.Tensor, slopes: torch.Tensor
    ) -> DeviceArray:
        """The same for sums and slopes (2, N) on the device."""
        layout, dtype = self.layout, self.Q.dtype
        real = layout.queries.real & torch.isfinite(shift)
        # from all rows, also those whose slope is 0: 2^(shift - e) must be finite for every pair
        common = torch.where(real, shift, 1e30).amin() + _MARGIN
        some = real & (slopes != 0)
        # a power of log2 may underflow in float32 and not in float64
        raw = torch.where(some, -slopes * torch.exp2(-torch.where(some, log2, 0.0)), 0.0)
        m = torch.where(some, shift, 0.0)
        far = some & (m > common + _REACH)
        scaled = torch.where(far, 0.0, raw * torch.exp2(torch.where(far, 0.0, m - common)))
        far_tiles = far.any(0).view(-1, TILE).any(1).to(torch.int32)
        of_queries = Factors(scaled.to(dtype), m.to(dtype), raw.to(dtype), far_tiles)
        shift_32 = common.to(dtype).reshape(1)
        dZ = torch.zeros_like(self.Z.tensor)
        if layout.same:
            dZ[layout.queries.source[layout.queries.place]] = self._one_side(
                layout.queries, layout.queries, of_queries, of_queries, shift_32
            )
            return DeviceArray(dZ)
        nothing = self.Q.new_zeros(2, layout.references.N)
        no_tile = torch.zeros(layout.references.N // TILE, dtype=torch.int32, device=dZ.device)
        of_references = Factors(nothing, nothing, nothing, no_tile)
        sides = ((layout.queries, layout.references, of_queries, of_references),
                 (layout.references, layout.queries, of_references, of_queries))  # fmt: skip
        for rows, columns, own, other in sides:
            part = self._one_side(rows, columns, own, other, shift_32)
            dZ[rows.source[rows.place]] += part
        return DeviceArray(dZ)

    def _one_side(
        self, rows: Side, columns: Side, own: Factors, other: Factors, shift: torch.Tensor
    ) -> torch.Tensor:
        """The gradient by the points of one side, in the order of its rows."""
        layout, z, d = self.layout, self.unused, self.Z.shape[1]
        queries = rows is layout.queries
        first, last, splits = self._ranges(rows, columns)
        R, C = (self.Q, self.R) if queries else (self.R, self.Q)
        own_place = layout.self_query if queries else layout.self_reference
        # a query has its factor, a reference its mass: those of the other kind are not asked for
        ones = layout.same or not queries
        row_mass = rows.mass if ones else torch.zeros_like(rows.mass)
        column_mass = columns.mass if (layout.same or queries) else torch.zeros_like(columns.mass)
        weighed = not layout.same or rows.weighed
        G = R.new_empty(splits, d, rows.N)
        kernels.pull[(rows.N // self.shape.rows, splits)](
            R, C, own_place, row_mass.to(R.dtype), column_mass.to(R.dtype), own.scaled,
            other.scaled, own.shift, other.shift, own.raw, other.raw, own.far, other.far, shift,
            rows.tile_code, columns.tile_code, first, last, z, z, z, z, z, z, G, rows.N,
            columns.N, self.power,
            D=d, BM=self.shape.rows, BN=self.shape.pull, FAMILY=self.family, WEIGHED=weighed,
            ANYWHERE=not layout.same, SKIPS=False, **_FUSED,
        )  # fmt: skip
        return G.sum(0).T[rows.place] * self._unit()

    def _unit(self) -> float:
        """What turns the sums of the kernels into the derivative by Z."""
        # scaled coordinates; d(energy)/d(squared distance) without what the kernels divide by
        if self.power:
            return 2.0 * self.power / self.scale
        return 1.0 if not self.kernel.smooth else 2.0 / self.scale


def _slopes(odds: torch.Tensor, kind: str) -> torch.Tensor:
    """As `odds.slopes`."""
    wrong = torch.sigmoid(odds * math.log(2.0))
    if kind == "accuracy":
        return wrong * torch.sigmoid(-odds * math.log(2.0))
    return torch.where(odds < math.inf, wrong, 0.0)


@odds_loss.register
def _odds_loss(
    engine: TritonSums,
    weight: Array,
    more: Callable[[Array], Array] | None,
    kind: str,
    gradient: bool,
) -> OddsLoss:
    """Without a stop of the host between the sums and the gradient."""
    rows, Z = engine.layout.queries, engine.Z

    def placed(values: Array) -> Any:
        return rows.per_place(sent(values, Z, np.float64), 0.0)

    w = Z.remembered("weights", (weight, rows.rows), lambda: placed(weight[rows.rows]))
    log2, shift = engine.on_device()
    own = log2[1]
    if more is not None:
        own = own + placed(more(rows.rows))
    odds = (log2[0] - own) + (shift[1] - shift[0])
    out = torch.isneginf(own) & rows.real
    odds = torch.where(torch.isneginf(own), math.inf, odds)
    counts = torch.where(rows.real, w, 0.0)
    if kind == "log":
        counts = counts * (odds < math.inf)
        loss = torch.logaddexp2(torch.zeros_like(odds), torch.where(counts > 0, odds, 0.0))
        loss = loss * math.log(2.0)
    else:
        loss = -torch.sigmoid(-odds * math.log(2.0))
    total = counts.sum()
    safe = torch.where(total > 0, total, 1.0)
    value = torch.where(total > 0, (counts * loss).sum() / safe, 0.0)
    dZ = None
    if gradient:
        slope = counts / safe * _slopes(odds, kind)
        dZ = engine.pulled(log2, shift, torch.stack([slope, -slope]))
    told = torch.stack([value, total, out.sum().double()]).cpu().numpy()
    left_out = rows.rows[:0]
    if told[2]:
        left_out = rows.rows[out[rows.place].cpu().numpy()]
    return OddsLoss(float(told[0]), float(told[1]), left_out, dZ)
