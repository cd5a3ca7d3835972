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
from vicinal.engines.cuda import PROGRAMS, kernels
from vicinal.engines.cuda.arrays import DeviceArray, memory_error, on_its_device, sent
from vicinal.engines.cuda.layout import TILE, Layout, Side, layout_of, ranges
from vicinal.engines.odds import OddsLoss, odds_loss

#: dimensions up to which differences are faster than products, and most of them: coordinates stay
#: in registers
DIRECT_UP_TO, DIFFERENCES_UP_TO = 8, 32
_REACH = 80.0  # shifts may be that far above the common one
_MARGIN = 40.0  # of the common shift above the least
#: rows from which tiles that are too far apart to matter may be left out
SKIP_FROM = 20_000
#: share of the tiles below which that saves more than looking for them takes
_WORTH = 0.85
_BITS = 48  # of a place along Morton's curve
#: set explicitly: a later Triton changes its default, and with it last digits
_FUSED = {"enable_fp_fusion": True, "num_warps": 1}


class Shape(NamedTuple):
    """Rows of a block and columns at a time: of the sums, and of the pull."""

    rows: int
    columns: int
    pull_rows: int
    pull_columns: int


class Factors(NamedTuple):
    """What the pull knows of one side: factors, scaled and raw, shifts, tiles out of reach."""

    scaled: torch.Tensor
    shift: torch.Tensor
    raw: torch.Tensor
    far: torch.Tensor
    level: torch.Tensor


def n_splits(blocks: int, tiles: int) -> int:
    """How many parts of the columns are summed apart."""
    return max(1, min(tiles // 4, round(PROGRAMS / blocks)))


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
    #: whether tiles may be left out
    may_skip = True

    def __init__(self, data: Data, kernel: Kernel, layout: Layout | None = None) -> None:
        self.Z: Any = data.Z
        self.kernel, d = kernel, self.Z.shape[1]
        self.layout = layout_of(data) if layout is None else layout
        self.family, self.power = kernel.family, float(kernel.power(d) or 0.0)
        self.scale, tensor = kernel.coordinate_scale, self.Z.tensor
        centre = tensor[self.layout.references.source].mean(0)
        self.skips = (
            self.may_skip
            and d <= DIRECT_UP_TO
            and self.layout.same
            and self.layout.references.N >= SKIP_FROM
        )
        if self.skips:
            self.layout = self.layout.along(self._curve(tensor))
        self.R = self.layout.references.spread(tensor, centre, self.scale, kernels.PAD)
        self.Q = self.R
        if not self.layout.same:
            self.Q = self.layout.queries.spread(tensor, centre, self.scale, kernels.PAD)
        self.shape = self._shape(d, tensor.device.type == "cpu")
        self.unused = tensor.new_zeros(1)
        #: coordinates at the ends of blocks of rows and of tiles, bounds of the least energies, and
        #: whether tiles are left out
        self.near: tuple[torch.Tensor, ...] = (self.unused,) * 4
        self.tolerance = (24.0 if tensor.dtype == torch.float32 else 53.0) + math.log2(len(self.Z))
        self.tolerance += self.layout.references.spread_of_mass
        self._share: torch.Tensor | None = None
        self._most_splits: int | None = None
        self._found: tuple[torch.Tensor, torch.Tensor] | None = None

    def _shape(self, d: int, interpreted: bool) -> Shape:
        """As measured on an H200; Triton's interpreter is faster with whole tiles."""
        block = self.layout.block
        if interpreted:
            return Shape(block, TILE, TILE, TILE)
        if d > DIRECT_UP_TO:
            return Shape(TILE // 2, 4, TILE // 2, 2 if d <= 16 else 1)
        return Shape(block, 16, block if d < 4 else TILE, 4)

    def in_one_part(self) -> None:
        """Sum over all columns at once, which takes the least memory."""
        self._most_splits, self._found = 1, None
        if self.Q.is_cuda:
            torch.cuda.empty_cache()

    @property
    def needed_bytes(self) -> int:
        """Bytes of an evaluation in one part, beyond the points: sums and factors in float64."""
        n = self.layout.queries.N + (0 if self.layout.same else self.layout.references.N)
        return n * (self.Q.element_size() * (3 * self.Z.shape[1] + 12) + 160)

    @on_its_device
    def _curve(self, tensor: torch.Tensor) -> torch.Tensor:
        """The order of the rows along Morton's curve, within their classes."""
        side = self.layout.references
        n, d = len(side.rows), tensor.shape[1]
        Z = tensor[side.source[side.place]]
        low, high = torch.aminmax(Z, dim=0)
        bits = min(16, _BITS // d)
        cells = (Z - low) * ((2**bits - 1) / (high - low).clamp_min(1e-30))
        codes = side.tile_code[side.place // TILE]
        key = torch.empty(n, dtype=torch.int64, device=Z.device)
        kernels.keys[(-(-n // 256),)](
            cells.T.to(torch.int32).contiguous(), codes, key, n, D=d, BITS=bits, BLOCK=256
        )
        return torch.argsort(key, stable=True)

    def _look(self) -> None:
        """Find what may be left out, and whether that is worth while."""
        side, d, BM = self.layout.references, self.Z.shape[1], self.shape.rows
        tiles = self.R.view(d, -1, TILE)
        real = side.real.view(-1, TILE)
        low = torch.where(real, tiles, 3e18).amin(2)
        high = torch.where(real, tiles, -3e18).amax(2)
        boxes = torch.stack([low, high]).permute(2, 0, 1).contiguous()  # tile, end, coordinate
        blocks = boxes.view(-1, BM // TILE, 2, d)
        of_rows = torch.stack([blocks[:, :, 0].amin(1), blocks[:, :, 1].amax(1)], 1).contiguous()
        seed = self.R.new_empty(2, side.N)
        count = torch.empty(side.N // BM, dtype=torch.int32, device=seed.device)
        kernels.seeds[(side.N // BM,)](
            self.R, side.tile_code, side.tile_code, of_rows, boxes, seed, count, side.N,
            self.power, self.tolerance, D=d, BM=BM, BN=self.shape.columns, FAMILY=self.family,
            WIDE=128, **_FUSED,
        )  # fmt: skip
        share = count.sum() / (len(count) * (side.N // TILE))
        worth = share < _WORTH
        self._share = torch.where(worth, share, 1.0).double()
        self.near = of_rows, boxes, seed, worth.to(torch.int32).reshape(1)

    def _ranges(self, rows: Side, columns: Side) -> tuple[torch.Tensor, torch.Tensor, int]:
        """The first and the last tile of each split."""
        tiles = columns.N // TILE
        splits = self._most_splits or n_splits(rows.N // self.layout.block, tiles)
        return *ranges(self.Z, tiles, splits), splits

    def _launch_sums(self) -> tuple[torch.Tensor, torch.Tensor, int]:
        """Shifts and sums (splits, 2, N), and the number of splits."""
        layout, (rows, columns) = self.layout, (self.layout.queries, self.layout.references)
        if self.skips:
            self._look()
        of_rows, boxes, seed, skip = self.near
        first, last, splits = self._ranges(rows, columns)
        M = self.Q.new_empty(splits, 2, rows.N)
        S = torch.empty_like(M)
        kernels.sums[(rows.N // self.shape.rows, splits)](
            self.Q, self.R, layout.self_query, columns.mass.to(self.Q.dtype), rows.tile_code,
            columns.tile_code, first, last, seed, of_rows, boxes, skip, M, S, rows.N,
            columns.N, self.power, self.tolerance, D=self.Z.shape[1], BM=self.shape.rows,
            BN=self.shape.columns, FAMILY=self.family, WEIGHED=columns.weighed,
            ANYWHERE=not layout.same, SKIPS=self.skips, **_FUSED,
        )  # fmt: skip
        return M, S, splits

    @on_its_device
    def on_device(self) -> tuple[torch.Tensor, torch.Tensor]:
        """log2 and shifts (2, N) of the queries, in float64, in the order of the layout."""
        if self._found is None:
            rows = self.layout.queries
            M, S, splits = self._launch_sums()
            shift = torch.empty(2, rows.N, dtype=torch.float64, device=M.device)
            log2 = torch.empty_like(shift)
            kernels.joined[(rows.N // TILE, 2)](
                M, S, shift, log2, rows.N, splits, BM=TILE, **_FUSED
            )
            self._found = log2, shift
        return self._found

    @property
    def share_on_device(self) -> torch.Tensor:
        """The share of the tiles that the last sums visited."""
        one = torch.ones((), dtype=torch.float64, device=self.Q.device)
        return one if self._share is None else self._share

    def sums(self) -> RowSums:
        """The sums of each query, on the host."""
        rows = self.layout.queries
        log2, shift = rows.of_rows(torch.stack(self.on_device())).cpu().numpy()
        return RowSums(log2, shift, rows.rows)

    def pull(self, sums: RowSums, slopes: Array) -> DeviceArray:
        """Derivative of ``sum(slopes * ln(sums))`` by the points."""
        rows = self.layout.queries
        columns = columns_of(sums.rows, rows.rows)
        given = [sent(part[:, columns], self.Z, np.float64) for part in (sums.log2, sums.shift)]
        log2, shift = rows.per_place(torch.stack(given), math.inf)
        slope = rows.per_place(sent(slopes[:, columns], self.Z, np.float64), 0.0)
        return self.pulled(log2, shift, slope)

    def pulled(self, log2: torch.Tensor, shift: torch.Tensor, slopes: torch.Tensor) -> DeviceArray:
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
        level = self.unused
        if self.skips:  # how far a pair may be apart to count, for the rows of each tile
            level = torch.where(some, shift - log2, -1e30).view(2, -1, TILE).amax(2).to(dtype)
        far_tiles = far.any(0).view(-1, TILE).any(1).to(torch.int32)
        of_queries = Factors(scaled.to(dtype), m.to(dtype), raw.to(dtype), far_tiles, level)
        return self._gradient(of_queries, common.to(dtype).reshape(1))

    @on_its_device
    def _gradient(self, of_queries: Factors, shift: torch.Tensor) -> DeviceArray:
        """The gradient by the points, as queries and as references."""
        layout = self.layout
        dZ = torch.zeros_like(self.Z.tensor)
        if layout.same:
            dZ[layout.queries.source[layout.queries.place]] = self._one_side(
                layout.queries, layout.queries, of_queries, of_queries, shift
            )
            return DeviceArray(dZ)
        nothing = self.Q.new_zeros(len(of_queries.scaled), layout.references.N)
        no_tile = torch.zeros(layout.references.N // TILE, dtype=torch.int32, device=dZ.device)
        of_references = Factors(nothing, nothing, nothing, no_tile, self.unused)
        sides = ((layout.queries, layout.references, of_queries, of_references),
                 (layout.references, layout.queries, of_references, of_queries))  # fmt: skip
        for rows, columns, own, other in sides:
            part = self._one_side(rows, columns, own, other, shift)
            dZ[rows.source[rows.place]] += part
        return DeviceArray(dZ)

    def _one_side(
        self, rows: Side, columns: Side, own: Factors, other: Factors, shift: torch.Tensor
    ) -> torch.Tensor:
        """The gradient by the points of one side, in the order of its rows."""
        queries = rows is self.layout.queries
        # a query has its factor, a reference its mass: those of the other kind are not asked for
        both = self.layout.same
        masses = (
            (rows.mass if both or not queries else torch.zeros_like(rows.mass)).to(self.Q.dtype),
            (columns.mass if both or queries else torch.zeros_like(columns.mass)).to(self.Q.dtype),
        )
        if both and not rows.weighed:
            masses = (torch.ones_like(masses[0]),) * 2
        G = self._launch_pull(rows, columns, own, other, shift, masses, not both or rows.weighed)
        return G[rows.place] * self._unit()

    def _launch_pull(
        self, rows: Side, columns: Side, own: Factors, other: Factors, shift: torch.Tensor,
        masses: tuple[torch.Tensor, torch.Tensor], weighed: bool,
    ) -> torch.Tensor:  # fmt: skip
        """The sums of the pull (N, d), in the units of the kernels."""
        layout, d = self.layout, self.Z.shape[1]
        of_rows, boxes, _, skip = self.near
        of_rows = boxes if self.shape.pull_rows == TILE else of_rows
        queries = rows is layout.queries
        first, last, splits = self._ranges(rows, columns)
        R, C = (self.Q, self.R) if queries else (self.R, self.Q)
        own_place = layout.self_query if queries else layout.self_reference
        G = R.new_empty(splits, d, rows.N)
        kernels.pull[(rows.N // self.shape.pull_rows, splits)](
            R, C, own_place, *masses, own.scaled, other.scaled, own.shift, other.shift, own.raw,
            other.raw, own.far, other.far, shift, rows.tile_code, columns.tile_code, first, last,
            of_rows, boxes, own.level, other.level, skip, G, rows.N, columns.N, self.power,
            self.tolerance, D=d, BM=self.shape.pull_rows, BN=self.shape.pull_columns,
            FAMILY=self.family, WEIGHED=weighed, ANYWHERE=not layout.same, SKIPS=self.skips,
            **_FUSED,
        )  # fmt: skip
        return G.sum(0).T

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
    try:
        return _of_kernels(engine, weight, more, kind, gradient)
    except torch.OutOfMemoryError:
        engine.in_one_part()  # the sums take less memory, and more time
    try:
        return _of_kernels(engine, weight, more, kind, gradient)
    except torch.OutOfMemoryError as error:
        raise memory_error(engine.Z, engine.needed_bytes) from error


def _of_kernels(
    engine: TritonSums,
    weight: Array,
    more: Callable[[Array], Array] | None,
    kind: str,
    gradient: bool,
) -> OddsLoss:
    """Without a stop of the host between the sums and the gradient."""
    rows, Z = engine.layout.queries, engine.Z

    def uploaded(values: Array) -> torch.Tensor:
        return sent(values, Z, np.float64)

    given = Z.remembered("weights", (weight, rows.rows), lambda: uploaded(weight[rows.rows]))
    w = rows.per_place(given, 0.0)
    log2, shift = engine.on_device()
    own = log2[1]
    if more is not None:
        own = own + rows.per_place(uploaded(more(rows.rows)), 0.0)
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
    told = torch.stack([value, total, out.sum().double(), engine.share_on_device]).cpu().numpy()
    engine.share = float(told[3])
    left_out = rows.rows[:0]
    if told[2]:
        left_out = rows.rows[rows.of_rows(out).cpu().numpy()]
    return OddsLoss(float(told[0]), float(told[1]), left_out, dZ)
