"""Embedded points on the workers of a cluster, in the blocks of their rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from vicinal.core import points
from vicinal.core.types import Array
from vicinal.dask._cluster import Cluster

#: a coordinate up to which no check asks for the largest one: to compute that takes a round trip
_USUAL = 1e6


class Blocks:
    """Blocks of rows on workers, one future for each.

    Parameters
    ----------
    cluster : Cluster
    futures : list of Future
    lengths : list of int
        The numbers of rows, all positive.
    sent : dict, default=None
        The arrays of the host that were sent last, by name, and their futures.
    """

    def __init__(
        self, cluster: Cluster, futures: list[Any], lengths: list[int], sent: Any = None
    ) -> None:
        self.cluster, self.futures, self.lengths = cluster, futures, lengths
        self.edges = np.cumsum([0, *lengths])
        self.slices = [slice(int(a), int(b)) for a, b in pairwise(self.edges)]
        self._sent: dict[str, tuple[tuple[Any, ...], list[Any]]] = {} if sent is None else sent

    def __len__(self) -> int:
        return int(self.edges[-1])

    def holding(self, futures: list[Any]) -> Blocks:
        """The same blocks of rows with other contents."""
        return Blocks(self.cluster, futures, self.lengths, self._sent)

    def split(self, array: Array) -> list[Array]:
        """The part of an array of the host that belongs to each block."""
        return [array[rows] for rows in self.slices]

    def cut(self, rows: Array) -> list[Array]:
        """Ascending rows as positions in each block."""
        cuts = np.searchsorted(rows, self.edges)
        return [rows[a:b] - edge for (a, b), edge in zip(pairwise(cuts), self.edges, strict=False)]

    def repeat(self, value: Any) -> list[Any]:
        """The same value for each block."""
        return [value] * len(self.futures)

    def send(self, name: str, arrays: Sequence[Array | None], rows: Array) -> list[Any]:
        """Arrays of the host with an entry for each row, and ascending rows, on the workers.

        One future for each block, with the parts of the arrays and the positions of the rows.  What
        was sent last under this name is not sent again.
        """
        known = self._sent.get(name)
        given = (*arrays, rows)
        if known is not None and all(map(_same, known[0], given)):
            return known[1]
        parts = [self.repeat(None) if a is None else self.split(a) for a in arrays]
        futures = [
            self.cluster.submit(_unpacked, [_packed(array) for array in block])
            for block in zip(*parts, self.cut(rows), strict=True)
        ]
        self._sent[name] = given, futures
        return futures


class _Packed(NamedTuple):
    """An array in few bytes: the scheduler keeps what tasks are given."""

    values: Any  # a range, one value for all, or an array
    length: int
    dtype: np.dtype


def _packed(array: Array | None) -> _Packed | None:
    if array is None:
        return None
    values: Any = array
    n = len(array)
    if array.ndim == 1 and n:
        whole = array.dtype.kind == "i" and array.min() >= 0
        if whole and array[0] == 0 and array[-1] == n - 1 and (np.diff(array) == 1).all():
            values = range(n)
        elif (array == array[0]).all():
            values = array[0]
        elif whole:
            values = array.astype(np.min_scalar_type(int(array.max())))
    return _Packed(values, n, array.dtype)


def _unpacked(parts: list[_Packed | None]) -> tuple[Array | None, ...]:
    return tuple(
        None if part is None
        else np.full(part.length, part.values, part.dtype) if np.ndim(part.values) == 0
        else np.array(part.values, part.dtype)
        for part in parts
    )  # fmt: skip


def _same(a: Array | None, b: Array | None) -> bool:
    return a is b or (a is not None and b is not None and np.array_equal(a, b))


class BlockPoints:
    """Points of shape (n, d) on workers.

    Parameters
    ----------
    blocks : Blocks
    d : int
    dtype : dtype
    within : float, default=inf
        What no coordinate exceeds, as far as is known.
    """

    ndim = 2

    def __init__(self, blocks: Blocks, d: int, dtype: Any, within: float = np.inf) -> None:
        self.blocks, self.shape, self.dtype = blocks, (len(blocks), d), np.dtype(dtype)
        self._extent = within if within <= _USUAL else None

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def extent(self) -> float:
        """The largest absolute coordinate, or what it is within; NaN if one is NaN."""
        if self._extent is None:
            blocks = self.blocks
            found = blocks.cluster.each(points.extent, blocks.futures)
            self._extent = float(np.max(found, initial=0.0))
        return self._extent

    def mapped(self, function: Callable[..., Array], dtype: Any, *args: Any) -> BlockPoints:
        """A function of each block."""
        futures = [self.blocks.cluster.submit(function, block, *args)
                   for block in self.blocks.futures]  # fmt: skip
        return BlockPoints(self.blocks.holding(futures), self.shape[1], dtype)

    def astype(self, dtype: Any) -> BlockPoints:
        """The points in another precision."""
        return self if self.dtype == dtype else self.mapped(np.ndarray.astype, dtype, dtype)


@points.check_points.register
def _check_points(Z: BlockPoints, name: str = "Z") -> BlockPoints:
    if not Z.extent <= points.LARGEST:
        raise ValueError(f"{name} must lie within ±{points.LARGEST:g}. Got {Z.extent:g}.")
    return Z


@points.extent.register
def _extent(Z: BlockPoints) -> float:
    return Z.extent


@points.double.register
def _double(Z: BlockPoints) -> BlockPoints:
    return Z.astype(np.float64)


@points.cast.register
def _cast(Z: BlockPoints, values: Any) -> BlockPoints:
    if isinstance(values, BlockPoints):
        return values.astype(Z.dtype)
    futures = [Z.blocks.cluster.put(part) for part in Z.blocks.split(values.astype(Z.dtype))]
    return BlockPoints(Z.blocks.holding(futures), Z.shape[1], Z.dtype)


@points.zeros_like.register
def _zeros_like(Z: BlockPoints) -> BlockPoints:
    return Z.mapped(np.zeros_like, Z.dtype)


@points.to_host.register
def _to_host(Z: BlockPoints) -> Array:
    return np.concatenate(Z.blocks.cluster.gather(Z.blocks.futures))
