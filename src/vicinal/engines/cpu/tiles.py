"""All pairs in tiles: the engine of the exact objective, on all threads, in one fixed order.

An *engine* is built from queries, references and a kernel, and provides ``sums()`` of the kernel
over the own class and over the others, and their gradient ``pull(...)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np

from vicinal._threads import (
    block_edges,
    n_threads,
    rectangle,
    round_robin,
    run,
    single_threaded_blas,
)
from vicinal.core.types import Array
from vicinal.densities import Kernel
from vicinal.engines.cpu.near import (
    NearBlocks,
    order_within_classes,
    rounds,
    share_out_of_reach,
    unused_reach,
)
from vicinal.kernels import compact, nca
from vicinal.kernels._blocks import (
    ALL,
    FAR,
    GRAD_WIDTH,
    WIDTH,
    Points,
    all_tiles,
    merge_duplicates,
    some_tiles,
    workspace,
)

#: dimensions from which matrix products are faster than the kernels
BLAS_FROM = 48

#: pairs closer than this many times the rounding error are duplicates for a kernel with a kink
DUPLICATES = 16.0
#: rows from which sorting along a k-d tree costs less than it saves
ORDER_FROM = 4000
#: dimensions up to which bounding boxes are useful
ORDER_UP_TO = 32
# Least share of pairs out of reach of single points (boxes find fewer); 0.4 was break-even.
WORTH = 0.5
#: Test hook: False also computes skipped tiles; the result must be identical.
LEAVE_OUT = True


class KernelPoints(NamedTuple):
    """Points in kernel layout, sorted by class: ``Z`` is (d rounded up to even, n)."""

    Z: Array
    mass: Array
    codes: Array
    d: int
    ordered: bool = False

    @property
    def n(self) -> int:
        return self.Z.shape[1]


def coordinate_scale(kernel: Kernel) -> float:
    """The factor of embedded points in the compiled loops."""
    return kernel.coordinate_scale


def worth_ordering(Zq: Array, yq: Array, Zr: Array, yr: Array, mass: Array, kernel: Kernel) -> bool:
    """Whether `kernel_points` should put near points together, so that far tiles can be left out.

    Early in training all pairs count; checking a few rows avoids sorting all of them in vain.
    ``mass`` is that of the references.
    """
    if min(len(Zq), len(Zr)) < ORDER_FROM or Zr.shape[1] > ORDER_UP_TO:
        return False
    return share_out_of_reach(Zq, yq, Zr, yr, mass, kernel) > WORTH


def power_of(kernel: Kernel, d: int, dtype: np.dtype) -> Any:
    """What tells the compiled loops which kernel it is: a number of the given dtype, or None."""
    power = kernel.power(d)
    return None if power is None else dtype.type(power)


def kernel_points(
    Z: Array, codes: Array, mass: Array, centre: Array, scale: float, ordered: bool = False
) -> tuple[KernelPoints, Array]:
    """Sort the rows of Z by class; return them in kernel layout, and the sorting order.

    Within a class rows keep their order, or follow a k-d tree if ``ordered``.
    """
    order = np.argsort(codes, kind="stable")
    d = Z.shape[1]
    points = np.zeros((d + d % 2, len(Z)), Z.dtype)
    np.subtract(Z.T[:, order], centre[:, None], out=points[:d])
    points[:d] *= Z.dtype.type(scale)
    if ordered:
        inner = order_within_classes(points[:d], codes[order], block_edges(len(Z)))
        points, order = np.take(points, inner, axis=1), order[inner]  # rows stay contiguous
    return KernelPoints(points, mass[order].astype(Z.dtype), codes[order], d, ordered), order


class Products:
    """Distances of whole blocks, and their gradients, by BLAS; inactive below ``BLAS_FROM``.

    ``|a|² + |b|² - 2 a.b`` has an error of about ``eps |z|²`` that differences do not have: fine
    for the float32 stage, as the final stage is float64.  Also inactive when points are so far out
    that the error would be ``30 sqrt(eps)`` or more (0.01 in float32, 4e-7 in float64).  The roots
    that a kernel with a kink needs (not ``smooth``) would turn this error into a large one at
    distances near zero, and so would a product with the weights of such pairs: pairs closer than
    ``DUPLICATES`` times the error count as duplicates.
    """

    def __init__(
        self,
        queries: KernelPoints,
        references: KernelPoints,
        rows: list[int],
        columns: list[int],
        threads: int,
        smooth: bool = True,
    ) -> None:
        self.Zq, self.Zr, self.smooth = queries.Z, references.Z, smooth
        self.active = queries.Z.shape[0] >= BLAS_FROM
        if self.active:
            self.norms_q = np.einsum("ki,ki->i", self.Zq, self.Zq)
            self.norms_r = np.einsum("ki,ki->i", self.Zr, self.Zr)
            farthest = max(self.norms_q.max(), self.norms_r.max())
            self.active = farthest < 30 / np.sqrt(np.finfo(queries.Z.dtype).eps)
        size = max(np.diff(rows)) * max(np.diff(columns)) if self.active else 0
        self.buffers = [np.empty(size, queries.Z.dtype) for _ in range(threads)]

    def blas(self) -> Any:
        """One BLAS thread for each of our threads, while products are used."""
        return single_threaded_blas() if self.active else nullcontext()

    def distances(self, thread: int, i: slice, j: slice) -> Array:
        """Squared distances of a block, or a (0, 0) array to let the kernel compute them."""
        if not self.active:
            return self.buffers[thread].reshape(0, 0)
        shape = (i.stop - i.start, j.stop - j.start)
        D = self.buffers[thread][: shape[0] * shape[1]].reshape(shape)
        np.matmul(self.Zq[:, i].T, self.Zr[:, j], out=D)
        D *= D.dtype.type(-2)
        D += self.norms_q[i, None]
        D += self.norms_r[j]
        if not self.smooth:
            share = D.dtype.type(DUPLICATES * np.finfo(D.dtype).eps)
            merge_duplicates(D, self.norms_q[i], self.norms_r[j], share)
        return D

    def pull(self, W: Array, Gq: Array, Gr: Array, i: slice, j: slice, columns: bool) -> None:
        """Add ``sum_j w_ij (z_i - z_j)`` to Gq and, if ``columns``, the opposite to Gr."""
        if not self.active:
            return
        d = len(Gq)
        Gq[:, i] += self.Zq[:d, i] * W.sum(axis=1) - self.Zr[:d, j] @ W.T
        if columns:
            Gr[:, j] += self.Zr[:d, j] * W.sum(axis=0) - self.Zq[:d, i] @ W


def _own_ranges(queries: KernelPoints, references: KernelPoints) -> Array:
    left = np.searchsorted(references.codes, queries.codes, side="left")
    right = np.searchsorted(references.codes, queries.codes, side="right")
    return np.stack([left, right])


class Tiles:
    """Sums over all pairs, and their gradient.

    If both are ordered, tiles too far apart to change the last bit of any sum are left out;
    ``share`` is the share of the pairs that the last call of `sums` computed.

    Parameters
    ----------
    queries, references : KernelPoints
        If they are the same object, each pair is computed once.
    self_pos : int array
        Position of each query among the references, or -1.
    kernel : Kernel
    two_sided : bool, default=False
        Whether the references have sums over the queries too, by `both_sums` and `both_pulls`: each
        pair is then computed once for both.  They must be other rows than the queries.
    """

    share = 1.0

    def __init__(
        self,
        queries: KernelPoints,
        references: KernelPoints,
        self_pos: Array,
        kernel: Kernel,
        two_sided: bool = False,
    ) -> None:
        self.queries, self.references, self.self_pos = queries, references, self_pos
        self.compact = not kernel.reaches_everywhere
        dtype = queries.Z.dtype
        self.power = power_of(kernel, queries.d, dtype)
        self.same = queries is references
        self.mirror = self.same or two_sided  # whether a pair serves both of its rows
        self.rows = block_edges(queries.n)
        self.columns = self.rows if self.same else block_edges(references.n)
        self.threads = min(n_threads(), len(self.rows) - 1)
        widest = max(np.diff(self.columns))
        self.scratch = [workspace(queries.Z.shape[0], dtype, widest) for _ in range(self.threads)]
        self.products = Products(
            queries, references, self.rows, self.columns, self.threads, kernel.smooth
        )
        self.near_blocks: NearBlocks | None = None
        self.reach = unused_reach(dtype)

    def _slices(self, p: int, q: int) -> tuple[slice, slice]:
        return (
            slice(self.rows[p], self.rows[p + 1]),
            slice(self.columns[q], self.columns[q + 1]),
        )

    def _points(self, D: Array) -> Points:
        Q, R = self.queries, self.references
        return Points(Q.Z, R.Z, D, Q.mass, R.mass, self.self_pos)

    def _tiles(
        self, own: Array, i: slice, j: slice, mode: int, width: int, triangle: bool, thread: int
    ) -> Iterator[tuple[Array, int]]:
        """Tables with the tiles of a block, and their number; usually one table is enough."""
        work, table = self.scratch[thread]
        first = i.start
        while first < i.stop:
            block = (own, first, i.stop, j.start, j.stop, width, triangle)
            if mode == ALL:
                count, first = all_tiles(*block, table)
            else:
                count, first = some_tiles(
                    self.queries.Z, *block, self.reach, mode == FAR, work, table
                )
            yield table, count

    def _find_near_blocks(self, own: Array) -> NearBlocks | None:
        """Find what may be left out; None if all pairs count anyway."""
        Q, R = self.queries, self.references
        if not (Q.ordered and R.ordered) or self.products.active:
            return None
        near_blocks = NearBlocks(Q.Z, R.Z, R.codes, self.rows, self.columns, own, self.power)
        two_sided, of_columns = self.mirror and not self.same, None
        if self.compact:
            near_blocks.find_near(np.ones((2, Q.n)), np.ones((2, R.n)) if two_sided else None)
            return near_blocks
        if not near_blocks.useful:
            return None
        if two_sided:
            back = NearBlocks(
                R.Z, Q.Z, Q.codes, self.columns, self.rows, _own_ranges(R, Q), self.power
            )
            of_columns = back.reach_of_rows(Q.mass, np.full(R.n, -1), self.scratch)
        reach = near_blocks.reach_of_rows(R.mass, self.self_pos, self.scratch)
        near_blocks.find_near(reach, of_columns)
        return near_blocks

    def look(self, own: Array | None = None) -> None:
        """Find what sums and pulls leave out; `sums` does it, too."""
        own = _own_ranges(self.queries, self.references) if own is None else own
        self.near_blocks = self._find_near_blocks(own)
        if self.near_blocks is not None:
            self.reach = self.near_blocks.reach

    def _sweep(
        self, task: Callable[[Any, int], None], columns_too: bool, near: bool = True
    ) -> None:
        """Run ``task([(p, q, mode), ...], thread)`` over the near or the other pairs of blocks.

        ``columns_too`` says that tasks also write to the columns, so that rounds are needed.
        """
        blocks, columns = len(self.rows) - 1, len(self.columns) - 1
        plans: Iterable[list]
        if self.near_blocks is None:
            if not columns_too:
                plans = [[[(p, q, ALL) for q in range(columns)] for p in range(blocks)]]
            else:
                every = round_robin(blocks) if self.same else rectangle(blocks, columns)
                plans = ([[(p, q, ALL)] for p, q in pairs] for pairs in every)
        else:
            p, q, mode = self.near_blocks.pairs(near)
            if not columns_too:
                triples = np.stack([p, q, mode], axis=1)
                ends = np.cumsum(np.bincount(p, minlength=blocks))[:-1]
                plans = [[part.tolist() for part in np.split(triples, ends) if len(part)]]
            else:
                every_round = rounds(p, q, mode, blocks, columns, self.same)
                plans = ([[triple] for triple in triples] for triples in every_round)
        for tasks in plans:
            run(task, tasks, self.threads)

    def sums(self, own: Array | None = None) -> tuple[Array, Array]:
        """log2 of ``sum_j mass_j 2**(m_i - e_ij)``, other classes [0] and own class [1].

        Here ``e_ij = -log2 kappa(d_ij)`` is the energy.  The minima m_i of the energies are
        returned separately: where they are large, adding them would lose the digits of the
        logarithm.  (The compact kernel needs no shift: its m_i are 0.)  A sum without any reference
        (in range) gives -inf and inf.  ``own`` overrides the range of references that counts as
        the query's own class.
        """
        return self._sums(own)[0]

    def both_sums(self) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """The sums of the queries over the references, and of the references over the queries."""
        return self._sums(None)

    def _sums(self, own: Array | None) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        queries, references, mirror = self.queries, self.references, self.mirror
        dtype, n = queries.Z.dtype, queries.n
        own = _own_ranges(queries, references) if own is None else own
        minima, sums = np.full((2, n), np.inf, dtype), np.zeros((2, n), dtype)
        two_sided, of_columns = mirror and not self.same, (minima, sums)
        if two_sided:
            shape = (2, references.n)
            of_columns = np.full(shape, np.inf, dtype), np.zeros(shape, dtype)
        elif not mirror:
            unused = np.empty((2, references.n), dtype)
            of_columns = unused, unused
        computed = [0] * self.threads

        running = nca.Running(minima, sums, *of_columns)

        def task(triples: list[tuple[int, int, int]], thread: int) -> None:
            for p, q, mode in triples:
                i, j = self._slices(p, q)
                points = self._points(self.products.distances(thread, i, j))
                triangle = self.same and i.start == j.start
                for tiles in self._tiles(own, i, j, mode, WIDTH, triangle, thread):
                    block = (*tiles, i.start, j.start, mirror)
                    work = self.scratch[thread].work
                    if self.compact:
                        computed[thread] += compact.compact_stats_block(
                            points, running.sq, running.sr, *block, work
                        )
                    else:
                        computed[thread] += nca.nca_stats_block(
                            points, running, *block, self.power, work
                        )

        self.look(own)
        with self.products.blas():
            self._sweep(task, mirror)
            self.share = sum(computed) / max(1, (1 + two_sided) * n * references.n)
            if self.near_blocks is not None and not LEAVE_OUT:
                self._sweep(task, mirror, near=False)
        of_rows = self._logarithms(minima, sums)
        return of_rows, self._logarithms(*of_columns) if two_sided else of_rows

    def _logarithms(self, minima: Array, sums: Array) -> tuple[Array, Array]:
        if self.compact:
            minima[sums > 0] = 0.0
        with np.errstate(divide="ignore"):
            return np.log2(sums, dtype=np.float64), minima

    def pull(self, shift: Array, factor: Array, d: int) -> tuple[Array, Array]:
        """Sum of ``-factor_i mass_j 2**shift_i kappa'(d²_ij) (z_i - z_j)``, for both points.

        kappa' is the derivative by d².  Queries and references in kernel layout (d, n); one array
        for both when ``queries is references``.  The compact kernel has no shift: it must be 0.
        Tiles left out of the sums are left out here too.
        """
        if self.same:
            return self.both_pulls((shift, shift), (factor, factor), d)
        nothing = np.zeros((2, self.references.n), self.queries.Z.dtype)
        return self.both_pulls((shift, nothing), (factor, nothing), d)

    def both_pulls(
        self, shifts: tuple[Array, Array], factors: tuple[Array, Array], d: int
    ) -> tuple[Array, Array]:
        """As `pull`, with shifts and factors of the queries and of the references.

        To the pull of a pair as a query and its reference, that of the other direction is added.
        """
        queries, references, mirror = self.queries, self.references, self.mirror
        dtype = queries.Z.dtype
        own = _own_ranges(queries, references)
        factor, w_ref = (part.astype(dtype) for part in factors)
        Gq = np.zeros((d, queries.n), dtype)
        Gr = Gq if self.same else np.zeros((d, references.n), dtype)
        running = nca.Running(shifts[0], factor, shifts[1], w_ref)

        def task(triples: list[tuple[int, int, int]], thread: int) -> None:
            ((p, q, mode),) = triples
            i, j = self._slices(p, q)
            D = self.products.distances(thread, i, j)
            points = self._points(D)
            triangle = self.same and i.start == j.start and not self.products.active
            for tiles in self._tiles(own, i, j, mode, GRAD_WIDTH, triangle, thread):
                block = (Gq, Gr, *tiles, i.start, j.start, mirror)
                work = self.scratch[thread].work
                if self.compact:
                    compact.compact_grad_block(points, factor, w_ref, *block, work)
                else:
                    nca.nca_grad_block(points, running, *block, self.power, work)
            # a block on the diagonal holds both directions of its pairs
            self.products.pull(D, Gq, Gr, i, j, columns=not (self.same and i == j))

        with self.products.blas():
            self._sweep(task, True)
            if self.near_blocks is not None and not LEAVE_OUT:
                self._sweep(task, True, near=False)
        return Gq, Gr

    def energy(self, shift: Array) -> Array:
        """Sum over the references of ``mass_j 2**(shift_i - e_ij) (e_ij - shift_i)``, per query.

        References out of range of the compact kernel, whose shift is 0, add nothing.
        """
        queries, references = self.queries, self.references
        out = np.zeros(queries.n, queries.Z.dtype)

        def task(i: int, thread: int) -> None:
            points = (queries.Z, references.Z, references.mass, self.self_pos)
            block = (self.rows[i], self.rows[i + 1])
            if self.compact:
                compact.compact_energy_block(*points, out, *block, self.scratch[thread])
            else:
                nca.nca_energy_block(*points, shift, out, *block, self.power, self.scratch[thread])

        run(task, range(len(self.rows) - 1), self.threads)
        return out
