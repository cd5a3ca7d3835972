"""Votes of k neighbours by Triton's kernels (`base.Votes`), and the classes that win them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

from vicinal.core.types import Array
from vicinal.densities import Gaussian
from vicinal.engines.base import Data
from vicinal.engines.cuda import (
    VOTE_ROOM,
    count_kernels,
    kernels,
    vote_bytes,
    vote_kernels,
    vote_rows,
)
from vicinal.engines.cuda.arrays import DeviceArray, memory_error, on_its_device, sent
from vicinal.engines.cuda.class_sums import n_splits
from vicinal.engines.cuda.layout import TILE, Layout, Side, class_splits, layout_of, ranges
from vicinal.kernels.subsets import MOST, least_weight
from vicinal.kernels.votes import Places, vote_steps, win_steps

#: most dimensions, whose coordinates stay in registers
DIMENSIONS_UP_TO = 32
_FUSED = {"enable_fp_fusion": True, "num_warps": 1, "num_stages": 1}
_SCALE = Gaussian.coordinate_scale


class Summaries(NamedTuple):
    """What is known of each class and query: see `vote_kernels`."""

    near: torch.Tensor
    rest: torch.Tensor
    theta: torch.Tensor


class Slopes(NamedTuple):
    """Slopes of the nearest members as values, and of the others as coefficients (C, k, N)."""

    values: torch.Tensor
    powers: torch.Tensor


class Sets:
    """Queries and references in the order of the kernels, and summaries of the classes.

    ``family`` is that of the kernel, of power 1, and ``scale`` that of the coordinates.
    """

    def __init__(
        self, Z: DeviceArray, layout: Layout, k: int, family: int = 0, scale: float = _SCALE
    ) -> None:
        self.layout, self.k, self.where, self.family, self.scale = layout, k, Z, family, scale
        tensor, pad = Z.tensor, kernels.PAD
        centre = tensor[layout.references.source].mean(0)
        self.R = layout.references.spread(tensor, centre, scale, pad)
        self.Q = self.R if layout.same else layout.queries.spread(tensor, centre, scale, pad)
        self.interpreted = tensor.device.type == "cpu"
        self.classes = np.unique(layout.references.tile_class)
        if len(self.classes) * k * layout.queries.N >= 2**31:  # places are numbered in 32 bits
            raise memory_error(Z, vote_bytes(len(Z), len(self.classes), k, Z.itemsize))

    def blocks(self, d: int) -> tuple[int, int]:
        """Rows of a block and columns at a time: fewer where more stays in registers."""
        if self.interpreted:
            return TILE, TILE
        wide = self.Q.element_size() == 4 and d <= 8 and self.k <= 7
        return (64 if wide else 32), (8 if d <= 8 else 4)

    def summaries(self) -> Summaries:
        """Of all classes that have references, in their order."""
        rows, columns, k = self.layout.queries, self.layout.references, self.k
        d, n_classes = len(self.Q), len(self.classes)
        BM, BN = self.blocks(d)
        first, last, ends = self._splits(BM)
        T = self.Q.new_empty(len(first), k, rows.N)
        S = torch.empty_like(T)
        vote_kernels.collect[(rows.N // BM, len(first))](
            self.Q, self.R, self.layout.self_query, first, last, T, S, rows.N, columns.N, D=d,
            BM=BM, BN=BN, K=k, FAMILY=self.family, ANYWHERE=not self.layout.same, **_FUSED,
        )  # fmt: skip
        near = self.Q.new_empty(n_classes, k, rows.N)
        rest = torch.empty(near.shape, dtype=torch.float64, device=near.device)
        theta = self.Q.new_empty(n_classes, rows.N)
        lanes = self.lanes(rows.N)
        vote_kernels.merged[(rows.N // lanes, n_classes)](
            T, S, ends, near, rest, theta, rows.N, K=k, BM=lanes,
            **_FUSED,
        )  # fmt: skip
        return Summaries(near, rest, theta)

    def _splits(self, BM: int) -> tuple[torch.Tensor, ...]:
        """The tiles of all splits, each of one class, and where those of each class begin."""
        rows, columns = self.layout.queries, self.layout.references

        def made() -> tuple[torch.Tensor, ...]:
            _, *found = class_splits(columns, rows.N // BM, len(self.classes))
            return tuple(sent(part, self.where, np.int32) for part in found)

        return self.where.remembered(f"splits {BM}", (rows, columns), made)

    def lanes(self, n: int) -> int:
        """Queries of a program that works on each of them alone; a divisor of n."""
        return n & -n if self.interpreted else 32

    def parts(self) -> Iterator[tuple[int, int, int, torch.Tensor]]:
        """Begin, lanes, lanes of a program and room for the votes of some queries at a time."""
        N, n_rows = self.layout.queries.N, vote_rows(len(self.classes), self.k)
        lanes = min(N, max(TILE, VOTE_ROOM // n_rows // TILE * TILE))
        room = torch.empty(n_rows, lanes, dtype=torch.float64, device=self.Q.device)
        for begin in range(0, N, lanes):
            n = min(lanes, N - begin)
            yield begin, n, self.lanes(n), room

    @property
    def limits(self) -> torch.Tensor:
        """The range in which plain numbers suffice; arguments of kernels would be float32."""
        n, k = len(self.layout.references.rows), self.k

        def made() -> torch.Tensor:
            return sent([least_weight(n, k), MOST], self.where, np.float64)

        return self.where.remembered(f"limits {n} {k}", (), made)

    def pull(
        self, found: Summaries, slopes: Slopes, factor: torch.Tensor, weight: float
    ) -> DeviceArray:
        """The weight times the gradient of the sums that the slopes belong to, (n, d)."""
        layout, dZ = self.layout, torch.zeros_like(self.where.tensor)
        sides = [(layout.queries, layout.queries, True, True)]
        if not layout.same:
            sides = [(layout.queries, layout.references, True, False),
                     (layout.references, layout.queries, False, True)]  # fmt: skip
        known = (found.near, found.theta, slopes.powers, slopes.values, factor)
        for rows, columns, own, other in sides:
            G = self._one_side(rows, columns, own, other, known) * (2.0 / self.scale * weight)
            dZ[rows.source[rows.place]] += G.T[rows.place]
        return DeviceArray(dZ)

    def _one_side(
        self, rows: Side, columns: Side, own: bool, other: bool, known: tuple[torch.Tensor, ...]
    ) -> torch.Tensor:
        """The sums of the pull (d, N), whose rows, columns or both are queries."""
        layout, d = self.layout, len(self.Q)
        BM, BN = self._blocks_of_pull(d)
        tiles = columns.N // TILE
        splits = n_splits(rows.N // BM, tiles)
        unknown = (self.Q.new_zeros(1),) * len(known)
        tile_class = layout.references.tile_class
        code = self.where.remembered(
            "places of classes", (tile_class,),
            lambda: sent(np.searchsorted(self.classes, tile_class), self.where, np.int32),
        )  # fmt: skip
        R, C = (self.Q, self.R) if own else (self.R, self.Q)
        G = self.Q.new_empty(splits, d, rows.N)
        vote_kernels.pull[(rows.N // BM, splits)](
            R, C, layout.self_query if own else layout.self_reference,
            *(known if own else unknown), *(known if other else unknown), code, code,
            *ranges(self.where, tiles, splits), G, rows.N, columns.N, D=d, BM=BM, BN=BN, K=self.k,
            FAMILY=self.family, OWN=own, OTHER=other, ANYWHERE=not layout.same, **_FUSED,
        )  # fmt: skip
        return G.sum(0)

    def _blocks_of_pull(self, d: int) -> tuple[int, int]:
        """As `blocks`; the sums of the pull take d registers for each pair."""
        BM, BN = self.blocks(d)
        if self.interpreted:
            return BM, BN
        fit = max(1, (32 if self.Q.element_size() == 4 else 16) * 32 // (d * BM))
        return BM, min(4, 1 << (fit.bit_length() - 1))


class TritonVotes:
    """Votes of k neighbours among all references; see `base.Votes`."""

    name, share, log_domain = "triton", 1.0, 0

    def __init__(self, data: Data, k: int, unanimous: bool) -> None:
        self.Z: Any = data.Z
        self.k, self.unanimous = k, unanimous
        self.layout = layout_of(data)
        self.sets = Sets(self.Z, self.layout, k)
        rows, classes = self.layout.queries, self.sets.classes
        self.query_rows = rows.rows
        own = np.full(rows.N, -2)  # of padding
        codes = data.codes[rows.rows]
        at = np.minimum(np.searchsorted(classes, codes), len(classes) - 1)
        own[rows.host_place] = np.where(classes[at] == codes, at, -1)
        self.own = sent(own, self.Z, np.int32)
        self._found: tuple[Summaries, Slopes, torch.Tensor] | None = None

    def sums(self, slope: Callable[[Array], Array] | None = None) -> Array:
        """log2 of lost : won sets of each query, inf where none can be won."""
        rows = self.layout.queries
        try:
            return self._sums(slope)
        except torch.OutOfMemoryError as error:
            n_classes, itemsize = len(self.sets.classes), self.Q.element_size()
            needed = vote_bytes(rows.N, n_classes, self.k, itemsize)
            raise memory_error(self.Z, needed) from error

    @property
    def Q(self) -> torch.Tensor:
        """The queries, as the kernels have them."""
        return self.sets.Q

    @on_its_device
    def _sums(self, slope: Callable[[Array], Array] | None) -> Array:
        rows, found = self.layout.queries, self.sets.summaries()
        size = found.near.shape if slope else (1,)
        slopes = Slopes(self.Q.new_empty(size), self.Q.new_empty(size))
        odds = torch.empty(rows.N, dtype=torch.float64, device=self.Q.device)
        logged = torch.empty(rows.N, dtype=torch.int32, device=self.Q.device)
        self._count(found, slopes, odds, logged, slope is not None)
        told = torch.cat([rows.of_rows(odds), logged.sum().double().reshape(1)]).cpu().numpy()
        self.log_domain = int(told[-1])
        if slope is not None:
            given = sent(slope(told[:-1]), self.Z, self.Z.dtype)
            self._found = found, slopes, rows.per_place(given, 0.0)
        return told[:-1]

    def _count(
        self, found: Summaries, slopes: Slopes, odds: torch.Tensor, logged: torch.Tensor,
        gradient: bool,
    ) -> None:  # fmt: skip
        rows, k, n_classes = self.layout.queries, self.k, len(self.sets.classes)
        table, (others, mine, win, lose) = vote_steps(n_classes, k, self.unanimous)
        steps = self.Z.remembered("steps", (table,), lambda: sent(table, self.Z, np.int32))
        at, limits = Places(n_classes, k), self.sets.limits
        for begin, n, BM, room in self.sets.parts():
            count_kernels.count[(n // BM,)](
                *found, self.own, steps, room, *slopes, odds, logged, limits, begin, len(table),
                others, mine, win, lose, at.P_win[0], at.P_lose[0], at.n_rows, n, rows.N, k,
                n_classes, BM=BM, SLOPES=gradient, **_FUSED,
            )  # fmt: skip

    def pull(self, weight: float) -> DeviceArray:
        """Gradient of the weight times the sum of all losses, (n, d)."""
        if self._found is None:
            raise RuntimeError("The slopes of the losses must be given to sums first.")
        with torch.cuda.device_of(self.Q):
            return self.sets.pull(*self._found, weight)


def win_shares(
    Z: DeviceArray, Z_reference: DeviceArray, codes: Array, n_classes: int, k: int, unanimous: bool
) -> Array:
    """See `base.Backend`."""
    n, m = len(Z_reference), len(Z)
    both = DeviceArray(torch.cat([Z_reference.tensor, Z.tensor.to(Z_reference.tensor.dtype)]))
    rows = np.arange(n + m)
    codes = np.concatenate([codes, np.full(m, codes[0])])
    data = Data(both, codes, np.ones(n + m), rows[n:], rows[:n])
    with torch.cuda.device_of(both.tensor):
        layout = Layout(data)
        sets = Sets(both, layout, k)
        found, C, N = sets.summaries(), len(sets.classes), layout.queries.N
        table, others, wins = win_steps(C, k, unanimous)
        steps, at = sent(table, both, np.int32), Places(C, k)
        W = torch.empty(C, N, dtype=torch.float64, device=sets.Q.device)
        limits = sets.limits
        for begin, lanes, BM, room in sets.parts():
            count_kernels.shares[(lanes // BM,)](
                *found, steps, room, W, limits, begin, len(table), others, at.single[0], wins,
                at.n_rows, lanes, N, k, C, BM=BM, **_FUSED,
            )  # fmt: skip
        won = layout.queries.of_rows(W).T.cpu().numpy()
    probabilities = np.zeros((m, n_classes))
    probabilities[(layout.queries.rows - n)[:, None], sets.classes] = won
    return probabilities
