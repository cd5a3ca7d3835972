"""Rows sorted by class, with classes padded to whole blocks: what kernels see of an evaluation."""

from __future__ import annotations

import math
from copy import copy
from typing import Any

import numpy as np
import torch

from vicinal.core.types import Array
from vicinal.engines.base import Data
from vicinal.engines.cuda import PROGRAMS
from vicinal.engines.cuda.arrays import DeviceArray, index, sent

TILE = 64
_WIDE_FROM = 2000  # rows of a class from which blocks of two tiles pay


class Side:
    """Some rows of Z in the order of the kernels; what does not depend on Z.

    Attributes
    ----------
    N : int
        Their number, with padding.
    rows : int array
        The rows of Z, sorted by class.
    source : tensor of shape (N,)
        The row of Z at each place, 0 for padding; ``real`` says which are none.
    place : tensor
        The place of each of ``rows``.
    tile_code : tensor of shape (N / 64,)
        The class of each tile.
    """

    def __init__(self, rows: Array, data: Data, pad: int) -> None:
        where: Any = data.Z
        order = np.argsort(data.codes[rows], kind="stable")
        self.rows = rows[order]
        codes = data.codes[self.rows]
        counts = np.bincount(codes)
        padded = -(-counts // pad) * pad
        self.N = int(padded.sum())
        start = np.cumsum(padded) - padded
        rank = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        place = np.repeat(start, counts) + rank
        device = where.tensor.device
        source, real = np.zeros(self.N, np.int64), np.zeros(self.N, bool)
        source[place], real[place] = self.rows, True
        self.host_place, self.place = place, index(place, device)
        self.source, self.real = index(source, device), torch.from_numpy(real).to(device)
        tile_code = np.repeat(np.arange(len(padded)), padded // TILE)
        self.tile_class = tile_code  # on the host
        self.tile_code = sent(tile_code, where, np.int32)
        mass = np.zeros(self.N)
        mass[place] = data.mass[self.rows]
        self.mass = sent(mass, where, np.float64)
        self.weighed = bool((data.mass[self.rows] != 1.0).any())
        #: log2 of the ratio of the largest mass to the smallest
        self.spread_of_mass = -math.log2(max(data.mass[self.rows].min(initial=1.0), 1e-300))

    perm: torch.Tensor | None = None

    def along(self, perm: torch.Tensor) -> Side:
        """The same rows in another order, which keeps them sorted by class."""
        side = copy(self)
        side.perm = perm
        side.source = torch.zeros_like(self.source)
        side.source[self.place] = self.source[self.place][perm]
        if self.weighed:
            side.mass = torch.zeros_like(self.mass)
            side.mass[self.place] = self.mass[self.place][perm]
        return side

    def spread(self, Z: torch.Tensor, centre: torch.Tensor, scale: float, pad: float) -> Any:
        """Coordinates (d, N) of scaled, centred points."""
        P = ((Z[self.source] - centre) * scale).T
        return torch.where(self.real, P, pad).contiguous()

    def per_place(self, values: torch.Tensor, fill: float) -> torch.Tensor:
        """Values (..., rows), in the order of ``rows``, at their places."""
        if self.perm is not None:
            values = values[..., self.perm]
        out = values.new_full((*values.shape[:-1], self.N), fill)
        out[..., self.place] = values
        return out

    def of_rows(self, values: torch.Tensor) -> torch.Tensor:
        """The reverse: values (..., N) in the order of ``rows``."""
        found = values[..., self.place]
        if self.perm is None:
            return found
        out = torch.empty_like(found)
        out[..., self.perm] = found
        return out


class Layout:
    """The queries and the references of an evaluation.

    Attributes
    ----------
    queries, references : Side
        The same object if the rows are the same.
    self_query : tensor
        The place of each query among the references, -1 for none.
    self_reference : tensor
        The place of each reference among the queries.
    """

    def __init__(self, data: Data) -> None:
        q, r = np.asarray(data.query_rows), np.asarray(data.reference_rows)
        pad = block_size(data.codes[r])
        self.block = pad
        where: DeviceArray = data.Z
        given = (data.codes, data.mass, r)  # the same for all batches of queries
        self.references = where.remembered("references", given, lambda: Side(r, data, pad))
        self.same = len(q) == len(r) and np.array_equal(np.sort(q), np.sort(r))
        self.queries = self.references if self.same else Side(q, data, pad)
        self.self_query = self._own_places(self.queries, self.references, data)
        self.self_reference = (
            self.self_query if self.same else self._own_places(self.references, self.queries, data)
        )

    @staticmethod
    def _own_places(of: Side, among: Side, data: Data) -> torch.Tensor:
        position = np.full(len(data.codes), -1)
        position[among.rows] = among.host_place
        found = np.full(of.N, -1)
        found[of.host_place] = position[of.rows]
        where: DeviceArray = data.Z
        return sent(found, where, np.int32)

    def along(self, perm: torch.Tensor) -> Layout:
        """The same rows, queries and references at once, in another order within their classes."""
        layout = copy(self)
        layout.queries = layout.references = self.references.along(perm)
        return layout


def block_size(codes: Array) -> int:
    """Rows of a block: more of them where classes are large."""
    return 2 * TILE if len(codes) >= _WIDE_FROM * len(np.unique(codes)) else TILE


def padded_rows(codes: Array) -> int:
    """How many rows there are with padding."""
    counts, pad = np.bincount(codes), block_size(codes)
    return int((-(-counts // pad) * pad).sum())


def layout_of(data: Data) -> Layout:
    """The layout of an evaluation, made once for the same labels, weights and rows."""
    Z: Any = data.Z
    given = (data.codes, data.mass, data.query_rows, data.reference_rows)
    return Z.remembered("layout", given, lambda: Layout(data))


def ranges(where: DeviceArray, tiles: int, splits: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The first and the last tile of each split, which are sent once."""

    def made() -> tuple[torch.Tensor, torch.Tensor]:
        ends = np.minimum(np.arange(splits + 1) * -(-tiles // splits), tiles)
        return sent(ends[:-1], where, np.int32), sent(ends[1:], where, np.int32)

    return where.remembered(f"ranges {tiles} {splits}", (), made)


def class_splits(
    side: Side, blocks: int, n_classes: int
) -> tuple[list[int], Array, Array, list[int]]:
    """The classes with rows, the tiles of all splits, and where those of each class begin."""
    first: list[int] = []
    last: list[int] = []
    ends, found = [0], np.unique(side.tile_class).tolist()
    for c in found:
        tiles = np.flatnonzero(side.tile_class == c)
        parts = max(1, min(len(tiles) // 4, round(PROGRAMS / (blocks * n_classes))))
        for part in np.array_split(tiles, parts):
            first.append(int(part[0]))
            last.append(int(part[-1]) + 1)
        ends.append(len(first))
    return found, np.array(first), np.array(last), ends
