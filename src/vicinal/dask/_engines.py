"""Engines for points on the workers of a cluster: a backend (`engines.base.Backend`).

Where all rows pick among themselves, each pair of blocks is one task, which computes each of its
pairs once for both rows.  Elsewhere, a few queries are sent to all blocks of references.  Either
way the sums of a row are merged in the order of the blocks, and so are the parts of the gradient:
the bits depend on the blocks, and on nothing else.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from itertools import pairwise
from typing import Any, cast

import numpy as np

from vicinal.core import points
from vicinal.core.types import Array
from vicinal.dask._points import BlockPoints
from vicinal.densities import Kernel
from vicinal.engines import choose
from vicinal.engines.base import Data, Means, RowSums, columns_of, merge, merge_means
from vicinal.engines.cpu import backend as cpu

#: most rows for which all pairs are computed: 5e11 pairs, an hour and more for each evaluation
ALL_PAIRS_UP_TO = 1_000_000

Labels = tuple[Array, Array, Array]  # of a block: codes, masses, positions of its references


def class_sums(data: Data, kernel: Kernel, pairs: Any = None) -> PairsOfBlocks | FewQueries:
    """See `base.Backend`."""
    _check(pairs, "class_sums")
    if np.array_equal(np.sort(data.query_rows), np.sort(data.reference_rows)):
        return PairsOfBlocks(data, kernel)
    return FewQueries(data, kernel)


def charged_sums(data: Data, charges: Array, kernel: Kernel, pairs: Any = None) -> FewQueries:
    """See `base.Backend`; a pair serves one of its rows, as on one machine."""
    _check(pairs, "charged_sums")
    return FewQueries(data, kernel, charges)


def votes(data: Data, k: int, unanimous: bool, pairs: Any = None) -> Any:
    """See `base.Backend`.  Votes cannot be merged: they are counted on the host."""
    _check(pairs, "votes")
    here = data._replace(Z=points.to_host(data.Z))
    return choose.backend(here.Z, len(here.Z)).votes(here, k, unanimous)


def match_sums(data: Data, target: Any, kernel: Kernel, pairs: Any = None) -> Any:
    """See `base.Backend`.  On the host, since any row may match any other."""
    _check(pairs, "match_sums")
    here = data._replace(Z=points.to_host(data.Z))
    return choose.backend(here.Z, len(here.Z)).match_sums(here, target, kernel)


def make_index(*_: Any) -> None:
    """No index: a few queries visit all references."""


def _check(pairs: Any, what: str) -> None:
    if pairs is not None:
        raise NotImplementedError(f"{what} of rows on a cluster has no lists of pairs.")


def _check_all_pairs(n: int) -> None:
    if n > ALL_PAIRS_UP_TO:
        raise ValueError(
            f"All pairs are computed for at most {ALL_PAIRS_UP_TO:,} rows on a cluster. Got "
            f"{n:,} instead. Use sampling=vicinal.samplers.MiniBatches(3000, clusters='random') or "
            "sampling=vicinal.samplers.StochasticQueries(), or leave 'sampling' and 'solver' at "
            "'auto'."
        )


class PairsOfBlocks:
    """Sums over all pairs of rows, for queries that are the references (`base.ClassSums`)."""

    name = "pairs of blocks"
    share = 1.0

    def __init__(self, data: Data, kernel: Kernel) -> None:
        _check_all_pairs(len(data.reference_rows))
        self.Z = cast(BlockPoints, data.Z)
        self.kernel = kernel
        self.rows = np.sort(data.reference_rows)
        blocks = self.Z.blocks
        self.submit, self.gather = blocks.cluster.submit, blocks.cluster.gather
        self.labels = blocks.send("pairs", (data.codes, data.mass), self.rows)
        self.local = blocks.cut(self.rows)
        count = len(blocks.futures)
        self.some = [p for p in range(count) if len(self.local[p])]
        # the largest tasks first: the last ones to end should be short
        self.pairs = [(p, q) for p in self.some for q in self.some if p < q]
        self.pairs += [(p, p) for p in self.some]

    def _both(self, function: Callable[..., Any], p: int, q: int, *args: Any) -> Any:
        Z, labels = self.Z.blocks.futures, self.labels
        other = (None, None) if p == q else (Z[q], labels[q])
        return self.submit(function, self.kernel, Z[p], labels[p], *other, *args)

    def _by_block(self, done: dict[tuple[int, int], Any], function: Any) -> list[Any]:
        """The results that each block has from its pairs, joined in the order of the blocks."""
        futures = []
        for p in self.some:
            parts = [done[min(p, q), max(p, q)] for q in self.some]
            futures.append(self.submit(function, parts, [int(q < p) for q in self.some]))
        return futures

    def sums(self) -> RowSums:
        """The sums of each query."""
        done = {pair: self._both(_sums_of_pair, *pair) for pair in self.pairs}
        parts = self.gather(self._by_block(done, _merged))
        self.share = sum(float(part[2]) for part in parts) / len(self.rows) ** 2
        log2, shift = (np.concatenate([part[i] for part in parts], axis=1) for i in (0, 1))
        return RowSums(log2, shift, self.rows)

    def pull(self, sums: RowSums, slopes: Array) -> BlockPoints:
        """Derivative of ``sum(slopes * ln(sums))`` by the points."""
        columns = columns_of(sums.rows, self.rows)
        sums, slopes = sums.take(columns), slopes[:, columns]
        ends = np.cumsum([0] + [len(self.local[p]) for p in self.some])
        put = self.Z.blocks.cluster.put
        given = {
            p: put((sums.log2[:, a:b], sums.shift[:, a:b], slopes[:, a:b]))
            for p, a, b in zip(self.some, ends[:-1], ends[1:], strict=True)
        }
        done = {
            (p, q): self._both(_pull_of_pair, p, q, given[p], None if p == q else given[q])
            for p, q in self.pairs
        }
        found = dict(zip(self.some, self._by_block(done, _added), strict=True))
        futures = [
            found[p] if p in found else self.submit(np.zeros_like, Z)
            for p, Z in enumerate(self.Z.blocks.futures)
        ]
        return BlockPoints(self.Z.blocks.holding(futures), self.Z.shape[1], self.Z.dtype)


def _engine(kernel: Kernel, Zp: Array, lp: Labels, Zq: Any, lq: Any) -> Any:
    """The engine of the pairs within a block, or between two, and the rows of either."""
    if Zq is None:
        codes, mass, rows = lp
        return cpu.class_sums(Data(Zp, codes, mass, rows, rows), kernel), rows, None
    from vicinal.engines.cpu.two_sided import TwoSidedSums

    rows, others = lp[2], len(Zp) + lq[2]
    codes, mass = (np.concatenate([lp[i], lq[i]]) for i in (0, 1))
    return (
        TwoSidedSums(Data(np.concatenate([Zp, Zq]), codes, mass, rows, others), kernel),
        rows,
        others,
    )


def _sums_of_pair(kernel: Kernel, *blocks: Any) -> list[tuple[Array, Array, float]]:
    """The sums of the rows of a block over another, and of the other over the first."""
    engine, rows, others = _engine(kernel, *blocks)
    sums = engine.sums()
    sides = [(sums, rows)] if others is None else list(zip(sums, (rows, others), strict=True))
    pairs = engine.share * len(rows) * len(sides[-1][1])
    found = [part.take(columns_of(part.rows, wanted)) for part, wanted in sides]
    return [(part.log2, part.shift, pairs) for part in found]


def _merged(parts: list[Any], sides: list[int]) -> tuple[Array, Array, float]:
    parts = [part[side] for part, side in zip(parts, sides, strict=True)]
    columns = np.arange(parts[0][0].shape[1])
    total = functools.reduce(merge, [RowSums(log2, shift, columns) for log2, shift, _ in parts])
    return total.log2, total.shift, sum(pairs for *_, pairs in parts)


def _pull_of_pair(
    kernel: Kernel, Zp: Array, lp: Labels, Zq: Any, lq: Any, given: Any, others_given: Any
) -> list[Array]:
    """The gradients by the rows of a block and of another, from the pairs between them."""
    engine, rows, others = _engine(kernel, Zp, lp, Zq, lq)
    engine.look()
    if others is None:
        return [engine.pull(RowSums(given[0], given[1], rows), given[2])]
    both = [RowSums(part[0], part[1], own) for part, own in ((given, rows), (others_given, others))]
    dZ = engine.pull(tuple(both), (given[2], others_given[2]))
    return [dZ[: len(Zp)], dZ[len(Zp) :]]


def _added(parts: list[Any], sides: list[int]) -> Array:
    parts = [part[side] for part, side in zip(parts, sides, strict=True)]
    return functools.reduce(np.add, parts[1:], parts[0].astype(np.float64)).astype(parts[0].dtype)


class FewQueries:
    """Sums of queries over references in blocks (`base.ClassSums`, `base.ChargedSums`).

    The queries are sent to the blocks of the references; each block pulls through its own rows.
    """

    name = "queries to blocks"
    share = 1.0

    def __init__(self, data: Data, kernel: Kernel, charges: Array | None = None) -> None:
        self.Z = cast(BlockPoints, data.Z)
        self.kernel, self.charged = kernel, charges is not None
        blocks = self.Z.blocks
        self.submit, self.gather = blocks.cluster.submit, blocks.cluster.gather
        self.queries = np.sort(data.query_rows)
        if self.charged and len(self.queries) == len(self.Z):
            _check_all_pairs(len(self.Z))
        references = np.sort(data.reference_rows)
        name = "charges" if self.charged else "queries"
        self.labels = blocks.send(name, (data.codes, data.mass, charges), references)
        self.some = [b for b, rows in enumerate(blocks.cut(references)) if len(rows)]
        self.local = blocks.cut(self.queries)
        ends = np.cumsum([0] + [len(rows) for rows in self.local])
        #: of each block: its queries among all queries
        self.places = [np.arange(a, b) for a, b in pairwise(ends)]
        parts = [
            self.submit(np.take, Z, rows, 0)
            for Z, rows in zip(blocks.futures, self.local, strict=True)
            if len(rows)
        ]
        self.sent = parts, data.codes[self.queries], data.mass[self.queries]

    def _each(self, function: Callable[..., Any], *args: Any) -> dict[int, Any]:
        """A task for each block with references."""
        return {
            b: self.submit(
                function, self.kernel, self.charged, self.Z.blocks.futures[b], self.labels[b],
                *self.sent, self.local[b], self.places[b], *args,
            )
            for b in self.some
        }  # fmt: skip

    def sums(self) -> Any:
        """The sums of each query."""
        parts = self.gather(list(self._each(_sums_of_queries).values()))
        kind: Any
        kind, join = (Means, merge_means) if self.charged else (RowSums, merge)
        made: list[Any] = [kind(*part[0], self.queries) for part in parts]
        total = functools.reduce(join, made)
        visited = sum(share * n for _, share, n in parts)
        self.share = visited / sum(n for *_, n in parts)
        return total

    def pull(self, sums: Any, slopes: Array) -> BlockPoints:
        """Derivative of the sums, times their slopes, by the points."""
        columns = columns_of(sums.rows, self.queries)
        slopes = slopes[columns] if self.charged else slopes[:, columns]
        given = self.Z.blocks.cluster.put((*sums.take(columns)[:-1], slopes))
        done = self._each(_pull_of_queries, given)
        own = {b: self.submit(_part, future, 0) for b, future in done.items()}
        seen = self.submit(_sum, [self.submit(_part, future, 1) for future in done.values()])
        futures = [
            self.submit(_with_queries, own.get(b), Z, seen, self.local[b], self.places[b])
            for b, Z in enumerate(self.Z.blocks.futures)
        ]
        return BlockPoints(self.Z.blocks.holding(futures), self.Z.shape[1], self.Z.dtype)


def _of_queries(
    kernel: Kernel,
    charged: bool,
    Z: Array,
    labels: Any,
    parts: list[Array],
    query_codes: Array,
    query_mass: Array,
    local: Array,
    places: Array,
) -> tuple[Any, Array]:
    """The engine of all queries over the references of a block, and the queries as its rows.

    Queries of the block are rows of it, which are no references of themselves.
    """
    codes, mass, charges, references = labels
    Zq = np.concatenate(parts)
    rows = len(Z) + np.arange(len(Zq))
    rows[places] = local
    data = Data(
        np.concatenate([Z, Zq]), np.concatenate([codes, query_codes]),
        np.concatenate([mass, query_mass]), rows, references,
    )  # fmt: skip
    if not charged:
        return cpu.class_sums(data, kernel), rows
    charges = np.concatenate([charges, np.zeros((len(Zq), charges.shape[1]))])
    return cpu.charged_sums(data, charges, kernel), rows


def _sums_of_queries(*block: Any) -> tuple[Any, float, int]:
    engine, rows = _of_queries(*block)
    sums = engine.sums()
    found = sums.take(columns_of(sums.rows, rows))
    return tuple(found[:-1]), engine.share, len(block[3][-1])


def _pull_of_queries(*args: Any) -> tuple[Array, Array]:
    """The gradient by the rows of a block, and by the queries, from the pairs between them."""
    *block, (*sums, slopes) = args
    engine, rows = _of_queries(*block)
    n, charged = len(block[2]), block[1]
    if charged:
        dZ = engine.pull(Means(sums[0], sums[1], sums[2], rows), slopes)
    else:
        engine.look()
        dZ = engine.pull(RowSums(sums[0], sums[1], rows), slopes)
    return dZ[:n], dZ[n:]


def _part(parts: Any, i: int) -> Any:
    return parts[i]


def _sum(parts: list[Array]) -> Array:
    return functools.reduce(np.add, parts[1:], parts[0].astype(np.float64))


def _with_queries(own: Any, Z: Array, seen: Array, local: Array, places: Array) -> Array:
    """The gradient by the rows of a block: as references, and as queries of other blocks."""
    dZ = np.zeros(Z.shape) if own is None else own.astype(np.float64)
    dZ[local] += seen[places]
    return dZ.astype(Z.dtype)


def _backend(Z: BlockPoints, n: int) -> Any:
    from vicinal.dask import _engines

    return _engines


choose.backend.register(BlockPoints, _backend)
