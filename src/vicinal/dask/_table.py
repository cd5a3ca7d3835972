"""Rows on the workers of a cluster, in blocks: as a table, and centred and scaled."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import gen_batches
from sklearn.utils.validation import check_array

from vicinal._features import (
    Features,
    checksum,
    make_rows,
    of_each_row,
    shares,
    table_checksum,
)
from vicinal.core import points
from vicinal.core.types import Array
from vicinal.dask._cluster import Cluster
from vicinal.dask._points import BlockPoints, Blocks
from vicinal.models.stored import Elsewhere
from vicinal.starts import spectral

_PAGE_BYTES = 2**22  # of the rows that are fetched at once; about two such pages are held
_ENTRIES = 2**20  # that are made dense at a time
_COLUMNS = 8  # columns that are gathered at a time


class BlockTable:
    """A table whose blocks of rows are on workers.

    Parameters
    ----------
    blocks : Blocks
    n_features : int
    dtype : dtype
    gather_up_to : float, default=inf
        Most bytes of embedded rows that a model brings to the client.
    """

    ndim = 2

    def __init__(
        self, blocks: Blocks, n_features: int, dtype: Any, gather_up_to: float = np.inf
    ) -> None:
        self.blocks, self.dtype, self.gather_up_to = blocks, np.dtype(dtype), gather_up_to
        self.shape = (len(blocks), n_features)
        #: the lengths of all blocks, the empty ones too
        self.given = blocks.lengths

    @classmethod
    def of(cls, X: Any, cluster: Cluster, gather_up_to: float = np.inf) -> BlockTable:
        """The blocks of a dask array, computed and held on the workers."""
        from dask.delayed import delayed

        checked = delayed(checked_block, pure=False)
        parts = [checked(block, cluster.owner) for block in X.to_delayed()[:, 0]]
        futures = cluster.compute(parts)
        about = cluster.each(_about, futures)
        kept = [(future, n, dtype) for future, (n, dtype) in zip(futures, about, strict=True) if n]
        dtypes = {dtype for _, _, dtype in kept}
        if len(dtypes) > 1:
            raise ValueError(
                f"The blocks of X must have one dtype. Got {', '.join(sorted(map(str, dtypes)))}."
            )
        blocks = Blocks(cluster, [future for future, *_ in kept], [n for _, n, _ in kept])
        dtype = dtypes.pop() if dtypes else X.dtype
        table = cls(blocks, X.shape[1], dtype, gather_up_to)
        table.given = [n for n, _ in about]
        return table

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> BlockTable:
        """Some of the rows, in their order, where they are."""
        rows = np.arange(len(self))[rows]
        if not (np.diff(rows) > 0).all():
            raise ValueError("Rows on a cluster keep their order.")
        blocks = self.blocks
        local = blocks.cut(rows)
        futures = [
            blocks.cluster.submit(_take, block, part)
            for block, part in zip(blocks.futures, local, strict=True)
            if len(part)
        ]
        lengths = [len(part) for part in local if len(part)]
        some = Blocks(blocks.cluster, futures, lengths)
        return BlockTable(some, self.shape[1], self.dtype, self.gather_up_to)

    def gather(self, rows: Array) -> Any:
        """Some of the rows, in any order, on the host: dense or CSR."""
        order = np.argsort(rows, kind="stable")
        local = self.blocks.cut(rows[order])
        chosen = [
            (b, part) for b, part in zip(self.blocks.futures, local, strict=True) if len(part)
        ]
        parts = self.blocks.cluster.each(_take, *zip(*chosen, strict=True)) if chosen else []
        if any(map(sp.issparse, parts)):
            return sp.vstack(parts, format="csr")[np.argsort(order)]
        X, first = np.empty((len(rows), self.shape[1]), self.dtype), 0
        for part in parts:
            X[order[first : first + len(part)]] = part
            first += len(part)
        return X


def checked_block(X: Any, owner: str) -> Any:
    """A block of rows, as `_validation.check_rows` has them."""
    return check_array(
        X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_min_samples=0,
        estimator=owner, input_name="X", order="C",
    )  # fmt: skip


def _about(X: Any) -> tuple[int, np.dtype]:
    return X.shape[0], X.dtype


def _take(X: Any, rows: Array) -> Any:
    return X[rows]


class BlockParts:
    """The rows as `_features.Parts`: each block with the shares of its rows."""

    def __init__(self, table: BlockTable, weight: Array) -> None:
        self.table, self.weight, self.dtype = table, weight, table.dtype
        equal = len(weight) > 0 and bool((weight == weight[0]).all())
        blocks = table.blocks
        # a number stands for equal shares: less to send
        self.of_blocks = [weight[0] if equal else part for part in blocks.split(weight)]

    def each(self, function: Callable[..., Any], *arrays: Array) -> list[Any]:
        blocks = self.table.blocks
        return blocks.cluster.gather([
            blocks.cluster.submit(_with_shares, function, block, part, *arrays)
            for block, part in zip(blocks.futures, self.of_blocks, strict=True)
        ])  # fmt: skip

    def suspects(self, numbers: Array) -> Array:
        return numbers

    def columns(self, numbers: Array) -> Iterator[Any]:
        blocks = self.table.blocks
        for first in range(0, len(numbers), _COLUMNS):
            some = [numbers[first : first + _COLUMNS]] * len(blocks.futures)
            parts = blocks.cluster.each(_columns, blocks.futures, some)
            sparse = any(map(sp.issparse, parts))
            table = sp.vstack(parts, format="csc") if sparse else np.concatenate(parts)
            yield from (table[:, j : j + 1] for j in range(len(some[0])))


def _with_shares(function: Callable[..., Any], X: Any, weight: Any, *arrays: Array) -> Any:
    return function(X, weight if np.ndim(weight) else np.full(X.shape[0], weight), *arrays)


def _columns(X: Any, numbers: Array) -> Any:
    return X[:, numbers]


class BlockRows:
    """Rows of a table on workers, centred and scaled (`core.types.Rows`).

    Parameters
    ----------
    table : BlockTable
    scaling : Features
        No rows, with the shift and scale of all.
    """

    def __init__(self, table: BlockTable, scaling: Features) -> None:
        self.table, self.features, self.shape = table, scaling, table.shape
        self.cluster = table.blocks.cluster
        self.shift, self.scale, self.limits = scaling.shift, scaling.scale, scaling.limits
        self.scaling, self.total_variance = scaling.scaling, scaling.total_variance
        self._fetched: dict[bytes, tuple[Future, slice]] = {}
        self._coming: deque[tuple[bytes, Array]] = deque()
        self._lock = Lock()  # the runs of a search are threads

    def __len__(self) -> int:
        return len(self.table)

    def take(self, rows: Array | None) -> Any:
        """Some of the rows, on the host; None: all of them, where they are."""
        if rows is None:
            return self
        rows = np.arange(len(self))[rows]
        with self._lock:
            fetched = self._fetched.pop(rows.tobytes(), None)
            if fetched is not None:
                self._fetch()
        if fetched is None:
            return Features.scaled_as(self.features, self.table.gather(rows))
        # a copy: BLAS may add in another order where an array begins elsewhere
        return Features.scaled_as(self.features, fetched[0].result()[fetched[1]].copy())

    def expect(self, batches: list[Array]) -> None:
        """Fetch the rows of the next batches while the present one is computed.

        Many at a time, since tasks and messages cost more than the rows of a batch.
        """
        ahead = {rows.tobytes(): rows for rows in (np.arange(len(self))[b] for b in batches)}
        with self._lock:
            for key in self._fetched.keys() - ahead:  # a run has ended: nobody asks for these
                del self._fetched[key]
            self._coming = deque((key, ahead[key]) for key in ahead if key not in self._fetched)
            self._fetch()

    def _fetch(self) -> None:
        """Fetch a page of batches if less than that is on its way; at first, one batch alone."""
        if not self._coming:
            return
        row_bytes = max(1, self.shape[1] * self.table.dtype.itemsize)
        size = max(1, _PAGE_BYTES // (row_bytes * len(self._coming[0][1])))
        for number in ([] if self._fetched else [1]) + [size]:
            if len(self._fetched) <= size and self._coming:
                page = [self._coming.popleft() for _ in range(min(number, len(self._coming)))]
                rows = np.concatenate([rows for _, rows in page])
                future = self.cluster.fetcher.submit(self.table.gather, rows)
                ends = np.cumsum([0, *(len(rows) for _, rows in page)])
                for (key, _), first, last in zip(page, ends[:-1], ends[1:], strict=True):
                    self._fetched[key] = future, slice(int(first), int(last))

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """The blocks, one by one on the host: dense, float64, centred and scaled."""
        for rows, future in zip(self.table.blocks.slices, self.table.blocks.futures, strict=True):
            X = self.cluster.gather([future])[0]
            yield rows, Features.scaled_as(self.features, X).dense(slice(None), np.float64)

    def matmul(self, B: Array, dtype: Any = np.float64) -> BlockPoints:
        """``X_scaled @ B``, where the rows lie."""
        return self._points(B.shape[1], dtype, Features.matmul, B, dtype)

    def columns_times(self, a: Array, dtype: Any = np.float64) -> BlockPoints:
        """``X_scaled * a``, where the rows lie."""
        return self._points(self.shape[1], dtype, Features.columns_times, a, dtype)

    @cached_property
    def _reach(self) -> Array:
        """The largest absolute value of each column."""
        found = [self.cluster.submit(_scaled, _largest, self.features, block, None)
                 for block in self.table.blocks.futures]  # fmt: skip
        return np.max(self.cluster.gather(found), axis=0)

    def rmatmul(self, V: Any) -> Array:
        """``X_scaled.T @ V``, summed over the blocks in their order."""
        return self._sum(Features.rmatmul, V)

    def column_dots(self, V: Any) -> Array:
        """``sum_i X_scaled_i * V_i``, summed over the blocks in their order."""
        return self._sum(Features.column_dots, V)

    def forward(self, mapping: Any, theta: Array, dtype: Any) -> tuple[BlockPoints, Any]:
        """The points under any map, block by block, and the pull-back of their gradient."""
        within = np.inf
        if mapping.rank is None:
            d = mapping.forward(theta, self.features.take(np.arange(0)), dtype)[0].shape[1]
        else:
            d = int(mapping.rank)
            if mapping.components is not None:
                largest = np.abs(mapping.components(theta)) @ self._reach
                within = 2.0 * float(np.max(largest, initial=0.0))
        Z = self._points(d, dtype, _forward, mapping, theta, dtype, within=within)
        return Z, lambda dZ: self._sum(_pull, dZ, mapping, theta, dtype)

    def _points(
        self, d: int, dtype: Any, function: Any, *args: Any, within: float = np.inf
    ) -> BlockPoints:
        blocks = self.table.blocks
        futures = [self.cluster.submit(_scaled, function, self.features, b, None, *args)
                   for b in blocks.futures]  # fmt: skip
        return BlockPoints(blocks.holding(futures), d, dtype, within)

    def _sum(self, function: Any, V: Any, *args: Any) -> Any:
        blocks = self.table.blocks
        parts = V.blocks.futures if isinstance(V, BlockPoints) else blocks.split(V)
        pairs = zip(blocks.futures, parts, strict=True)
        done = [self.cluster.submit(_scaled, function, self.features, b, v, *args)
                for b, v in pairs]  # fmt: skip
        return _added(self.cluster.gather(done))


def _added(parts: list[Array]) -> Array:
    total = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total


def _scaled(function: Any, features: Features, X: Any, V: Any, *args: Any) -> Any:
    """A function of the scaled rows of a block, and of what belongs to them."""
    rows = Features.scaled_as(features, X)
    return function(rows, *args) if V is None else function(rows, V, *args)


def _largest(rows: Features) -> Array:
    """The largest absolute value of each column."""
    n, D = rows.shape
    parts = (rows.dense(some, np.float64) for some in gen_batches(n, max(1, _ENTRIES // D)))
    return np.max([np.abs(part).max(axis=0) for part in parts], axis=0)


def _forward(rows: Features, mapping: Any, theta: Array, dtype: Any) -> Array:
    return mapping.forward(theta, rows, dtype)[0]


def _pull(rows: Features, dZ: Array, mapping: Any, theta: Array, dtype: Any) -> Array:
    return mapping.forward(theta, rows, dtype)[1](dZ)


@make_rows.register
def _make_rows(
    X: BlockTable, scaling: str | None, sample_weight: Array | None = None,
    limit_outliers: bool = True,
) -> BlockRows:  # fmt: skip
    parts = BlockParts(X, shares(len(X), sample_weight))
    nothing = X.blocks.cluster.gather([X.blocks.cluster.submit(_take, X.blocks.futures[0], [])])[0]
    return BlockRows(X, Features.scaled_by(parts, scaling, limit_outliers, nothing))


@of_each_row.register
def _of_each_row(X: BlockTable, function: Callable[[Any], Array]) -> Any:
    blocks = X.blocks
    one = function(np.zeros((1, X.shape[1]), X.dtype))
    if len(X) * one.nbytes > X.gather_up_to:
        return Elsewhere((len(X), one.shape[1]), one.dtype)
    return np.concatenate(blocks.cluster.each(function_of, blocks.repeat(function), blocks.futures))


def function_of(function: Callable[[Any], Array], X: Any) -> Array:
    return function(X)


@table_checksum.register
def _table_checksum(X: BlockTable) -> int:
    found = X.blocks.cluster.each(table_checksum, X.blocks.futures)
    return checksum(np.array([*X.blocks.lengths, *found]), 0)


@points.to_host.register
def _to_host(X: BlockTable) -> Any:
    return X.gather(np.arange(len(X)))


@points.forward.register
def _of_rows(X: BlockRows, mapping: Any, theta: Array, dtype: Any) -> Any:
    return X.forward(mapping, theta, dtype)


@points.expect.register
def _expect(X: BlockRows, batches: list[Array]) -> None:
    X.expect(batches)


@spectral.scatter.register
def _scatter(
    X: BlockRows, codes: Array, n_classes: int, sample_weight: Array | None = None
) -> spectral.Scatter:
    blocks = X.table.blocks
    blocks_codes = blocks.split(np.asarray(codes).astype(np.int32))
    weights = blocks.repeat(None) if sample_weight is None else blocks.split(sample_weight)
    parts = [
        X.cluster.submit(_scaled, spectral.scatter, X.features, block, c, n_classes, w)
        for block, c, w in zip(blocks.futures, blocks_codes, weights, strict=True)
    ]
    return _merged(X.cluster.gather(parts))


def _merged(parts: list[spectral.Scatter]) -> spectral.Scatter:
    """The scatter of all rows from those of disjoint blocks, in their order.

    Differences from the first mean of each class are added, so that a column which is constant
    within a class adds exactly nothing.
    """
    counts = np.stack([part.counts for part in parts])
    first = counts.argmax(axis=0)  # a block that has rows of the class
    base = np.stack([parts[b].means[c] for c, b in enumerate(first)])
    weight = counts.sum(axis=0)
    shares = counts / np.where(weight > 0, weight, 1.0)
    offsets = [np.where(n[:, None] > 0, part.means - base, 0.0)
               for part, n in zip(parts, counts, strict=True)]  # fmt: skip
    mean = sum(share[:, None] * offset for share, offset in zip(shares, offsets, strict=True))
    total = max(float(weight.sum()), np.finfo(float).tiny)
    within = np.zeros_like(parts[0].within)
    for part, n, offset in zip(parts, counts, offsets, strict=True):
        apart = np.sqrt(n)[:, None] * (offset - mean)
        within += part.within * (n.sum() / total) + apart.T @ apart / total
    return spectral.scatter_around(within, base + mean, weight)
