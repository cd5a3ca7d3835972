"""Candidate impostors: a search in blocks, and lists kept from one evaluation to the next.

The search compares squared distances, from float32 inner products, with the larger of the two rows'
bounds.  It may return too many pairs but never misses one: the rounding error of the products is
subtracted from the distances.  For chi-squared it uses the square roots of the histograms, since

    1/2 |√u - √v|² <= χ²(u, v) <= |√u - √v|²

(each term of χ² is that on the left times (√u + √v)² / (u + v), which is between 1 and 2).

Lists stay valid while the points move little.  The square root of either distance is a metric.  Let
a list hold all pairs with √D < max(√R_p, √R_q) + 2 s, where R is a row's reach: the distance below
which it has impostors.  As long as no row has moved by more than s, nor by more than s minus the
growth of its √R, an unlisted pair still has √D >= max(√R_p, √R_q), by the triangle inequality, and
does not count.  Lists are kept until that fails; keeping them changes no bit of the loss.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from vicinal._threads import n_threads, run, single_threaded_blas
from vicinal.core.points import centre_of, extent
from vicinal.core.types import Array

_ROWS, _COLUMNS = 64, 2048  # size of a tile of inner products: 512 KB, fits a second-level cache
KEPT = 2**24  # most pairs kept: 64 MB
# Most pairs in lists that serve one evaluation, without slack.  They halve the search, which for
# inner products saves a tenth of the time at best; for chi-squared, which has no limit, a third.
ONCE = 2**21
# A listed pair costs about five times as much as a pair in the search: lists of this share of all
# pairs take a tenth of the time of a search.  The slack s is chosen to give lists of that size.
KEPT_SHARE = 0.02
_SAMPLE = 16  # rows from which the slack is estimated
_FAR = 1e18  # cap on scaled distances: float32 can hold its square
_LOST = 1e-36  # most that a square can lose to underflow in float32


class SearchRows(NamedTuple):
    """The rows that need a list, the rows that may be listed, and the class of every row.

    ``mutual``: the rows that may be listed, the others among them, also need the rows that list
    them.
    """

    needing: Array
    listed: Array
    codes: Array
    mutual: bool = False

    @property
    def both_ways(self) -> bool:
        """Whether the rows that need a list are the rows that may be listed."""
        return self.needing is self.listed

    def same_as(self, other: SearchRows) -> bool:
        """Whether both are for the same rows and classes."""
        arrays = zip(self[:3], other[:3], strict=True)
        return self.mutual == other.mutual and all(
            a is b or np.array_equal(a, b) for a, b in arrays
        )


class ImpostorLists(NamedTuple):
    """Candidate impostors of some rows in CSR form; ``indptr`` has one entry per row plus one.

    ``n_pairs`` is the number of candidates of the rows that need a list.
    """

    rows: Array
    indptr: Array
    indices: Array
    n_pairs: int

    def visit(self, visitor: Visitor) -> None:
        """Call the visitor with all lists, a few rows at a time."""

        def task(i: int, thread: int) -> None:
            rows = self.rows[i : i + _ROWS]
            visitor(rows, self.indptr[i : i + len(rows) + 1], self.indices)

        run(task, range(0, len(self.rows), _ROWS), n_threads())


#: called from several threads with some rows and their lists (indptr, indices)
Visitor = Callable[[Array, Array, Array], None]


class _Search:
    """Finds the pairs of points that may be nearer than their bounds.

    ``root`` holds √R of each row, 0 for rows that have no impostors.
    """

    def __init__(self, Z: Array, rows: SearchRows, root: Array, chi2: bool) -> None:
        self.Z, self.rows, self.root, self.chi2 = Z, rows, root.astype(np.float64), chi2
        points = np.sqrt(0.5 * Z) if chi2 else Z - centre_of(Z)
        # float32 cannot hold the square of 1e20, nor float64 that of 1e-200
        self.scale = 1.0 / max(extent(points), float(np.finfo(Z.dtype).tiny), 1e-150)
        points *= Z.dtype.type(self.scale)
        self.points = points.astype(np.float32, copy=False)
        # rounding errors of the products and of the points
        error = (Z.shape[1] + 8) * np.finfo(np.float32).eps
        square = np.einsum("ij,ij->i", self.points, self.points, dtype=np.float64)
        self.norm = (square * (1.0 - error)).astype(np.float32)
        self.slack = 0.0
        self.starts = range(0, len(rows.needing), _ROWS)
        self.threads = min(n_threads(), len(self.starts))
        width = min(_COLUMNS, len(rows.listed))
        self.rooms = [
            (np.empty(_ROWS * width, np.float32), np.empty(_ROWS * width, np.int32))
            for _ in range(self.threads)
        ]

    def _listed(self, values: Array) -> Array:
        return values if len(self.rows.listed) == len(self.Z) else values[self.rows.listed]

    @cached_property
    def columns(self) -> Array:
        return self._listed(self.points)

    def allow(self, most: int, movement: float) -> float:
        """Choose the slack s so that lists hold few pairs; return their estimated share of all.

        If rows have just moved by more than s / 2, lists would not be used again: s is set to 0.
        """
        needing, listed, codes, _ = self.rows
        sample = needing[:: 1 + len(needing) // _SAMPLE]
        D = np.matmul(self.points[sample], self.columns.T)
        D = self.norm[sample][:, None] + self._listed(self.norm) - 2.0 * D
        root = np.minimum(self.scale * self.root, _FAR).astype(np.float32)
        D = np.sqrt(np.maximum(D, 0.0)) - np.maximum(root[sample][:, None], self._listed(root))
        other = codes[sample][:, None] != self._listed(codes)
        share = min(KEPT_SHARE, 0.8 * most / (len(needing) * len(listed)))
        if other.any():
            D = np.where(other, D, np.inf)
            place = int(share * np.count_nonzero(other))
            self.slack = (
                0.5 * max(0.0, float(np.partition(D, place, axis=None)[place])) / self.scale
            )
        if not 2.0 * movement <= self.slack:
            self.slack = 0.0
        return float(np.mean(other & (D <= 2.0 * self.slack * self.scale)))

    def _bounds(self) -> tuple[Array, Array]:
        # the last digits may differ: a squared root, and distances summed in another order
        root_bound = np.where(self.root > 0, (self.root + 2.0 * self.slack) * (1.0 + 1e-5), 0.0)
        bound = np.minimum(root_bound * self.scale, _FAR) ** 2 + self.Z.shape[1] * _LOST
        return root_bound, np.where(self.root > 0, bound, -np.inf).astype(np.float32)

    def __call__(self, found: Callable[[int, Array, Array, Array], None], later: bool) -> None:
        """Call ``found`` with the lists of each block of rows, tile by tile.

        ``later``: list each pair once, at its earlier row.
        """
        from vicinal.kernels import lmnn as kernels

        needing, listed, codes, _ = self.rows
        root_bound, bound = self._bounds()
        norms, bounds = self._listed(self.norm), self._listed(bound)

        def task(b: int, thread: int) -> None:
            block = needing[self.starts[b] : self.starts[b] + _ROWS]
            points, norm, row_bound = self.points[block], self.norm[block], bound[block]
            G, indices = self.rooms[thread]
            for first in range(self.starts[b] if later else 0, len(listed), _COLUMNS):
                tile = slice(first, min(first + _COLUMNS, len(listed)))
                shape = len(block), tile.stop - first
                products = G[: shape[0] * shape[1]].reshape(shape)
                np.matmul(points, self.columns[tile].T, out=products)
                indptr = np.empty(len(block) + 1, np.int64)
                n = kernels.near_pairs(
                    products, block, listed[tile], codes, norm, row_bound, norms[tile],
                    bounds[tile], later, indptr, indices,
                )  # fmt: skip
                if self.chi2:  # the lower bound is off by up to a factor of two
                    n = kernels.within(self.Z, block, indptr, indices, root_bound, True)
                if n:
                    found(b, block, indptr, indices[:n])

        with single_threaded_blas():
            run(task, range(len(self.starts)), self.threads)

    def lists(self, most: int) -> ImpostorLists | None:
        """The lists of all rows, or None if they would hold more than ``most`` pairs."""
        from vicinal.kernels import lmnn as kernels

        needing, listed, _, mutual = self.rows
        later = self.rows.both_ways
        both_ways = later or mutual
        parts: list[list[Any]] = [[] for _ in self.starts]
        sizes = [0] * len(self.starts)

        def found(b: int, block: Array, indptr: Array, indices: Array) -> None:
            sizes[b] += len(indices) * (1 + both_ways)
            if sum(sizes) <= most:
                parts[b].append((indptr, indices.copy(), block))

        self(found, later)
        if sum(sizes) > most:
            return None
        rows = listed if mutual else needing
        # a row that has searched has found the others itself, if they may be listed
        searched = np.zeros(len(self.Z), np.bool_)
        searched[needing] = not later
        position = np.empty(len(self.Z), np.int32)
        position[rows] = np.arange(len(rows), dtype=np.int32)
        indptr = np.zeros(len(rows) + 1, np.int64)
        tiles = [tile for part in parts for tile in part]
        for tile in tiles:
            kernels.count(*tile, position, both_ways, searched, indptr[1:])
        counts = indptr[1:].copy()
        np.cumsum(indptr, out=indptr)
        indices, at = np.empty(indptr[-1], np.int32), indptr[:-1].copy()
        for tile in tiles:
            kernels.fill(*tile, position, both_ways, searched, at, indices)
        n_pairs = int(counts[position[needing]].sum())
        if mutual:  # few of the listed rows have a list
            rows, counts = rows[counts > 0], counts[counts > 0]
            indptr = np.concatenate([[0], np.cumsum(counts)])
        return ImpostorLists(rows, indptr, indices, n_pairs)


class Candidates:
    """Lists of candidate impostors, kept from one evaluation to the next.

    Passing the same object to every call of :func:`vicinal.objectives.lmnn` saves most of the
    searching; results do not depend on it.  Not thread-safe.

    Parameters
    ----------
    most : int, default=2**24
        Most pairs kept, 4 bytes each.  If there are more, every evaluation searches block by
        block and keeps nothing.

    Attributes
    ----------
    n_searches, n_evaluations : int
        How often all pairs were searched, and how often the lists were requested.
    """

    def __init__(self, most: int = KEPT) -> None:
        self.most = most
        self.n_searches = self.n_evaluations = 0
        self._lists: ImpostorLists | None = None
        self._made: Any = None  # where the lists were made
        self._slack = 0.0
        self._last: Any = None  # where the last evaluation was
        self.movement = 0.0  # between the last two evaluations

    def __getstate__(self) -> dict[str, Any]:
        return {"most": self.most}  # lists are quickly rebuilt

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def peek(self, Z: Array, rows: SearchRows, root: Array, chi2: bool) -> ImpostorLists | None:
        """As `lists`, for an evaluation between two steps: nothing is noted or thrown away."""
        here = _Snapshot(Z, rows, root, chi2)
        valid = self._lists is not None and here.moved_from(self._made) <= 0.999 * self._slack
        return self._lists if valid else None

    def lists(self, Z: Array, rows: SearchRows, root: Array, chi2: bool) -> ImpostorLists | None:
        """The kept lists, if they still hold every pair that counts at these points; else None."""
        self.n_evaluations += 1
        last, self._last = self._last, _Snapshot(Z.copy(), rows, root, chi2)
        self.movement = 0.0 if last is None else self._last.moved_from(last)
        if self._lists is not None and self._last.moved_from(self._made) <= 0.999 * self._slack:
            return self._lists
        self.n_searches += 1
        self._lists = None
        return None

    def keep(self, lists: ImpostorLists, slack: float) -> None:
        """Keep lists made with some slack at the points of the last evaluation."""
        self._lists, self._made, self._slack = lists, self._last, slack


class _Snapshot(NamedTuple):
    """The rows at an evaluation: points, and roots of their reach."""

    Z: Array
    rows: SearchRows
    root: Array
    chi2: bool

    def moved_from(self, other: _Snapshot) -> float:
        """The largest movement of any row; inf if the two cannot be compared."""
        from vicinal.kernels import lmnn as kernels

        alike = self.Z.shape == other.Z.shape and self.Z.dtype == other.Z.dtype
        if not (alike and self.chi2 == other.chi2 and self.rows.same_as(other.rows)):
            return np.inf
        return float(kernels.moved(self.Z, other.Z, self.root, other.root, self.chi2))


def visit(
    Z: Array,
    rows: SearchRows,
    furthest: Array,
    chi2: bool,
    candidates: Candidates | None,
    visitor: Visitor,
    keep: bool = True,
) -> int:
    """Call the visitor with all pairs that may count, a few rows at a time; return their number.

    The pairs of one row come in order and from one thread, possibly in several calls.  Unless
    ``keep``, the candidates are used but stay as they are.
    """
    if not len(rows.needing) or not len(rows.listed):
        return 0
    root = np.sqrt(np.maximum(furthest, 0.0))
    lists = None
    if candidates is not None:
        lists = (candidates.lists if keep else candidates.peek)(Z, rows, root, chi2)
    if not keep:
        candidates = None
    if lists is None:
        search = _Search(Z, rows, root, chi2)
        most = KEPT if candidates is None else candidates.most
        share = search.allow(most, np.inf if candidates is None else candidates.movement)
        if search.slack == 0.0 and not chi2:
            most = min(most, ONCE)
        if share * len(rows.needing) * len(rows.listed) <= most:
            lists = search.lists(most)
        if lists is None:
            return _visit_without_lists(search, visitor)
        if candidates is not None and search.slack > 0:
            candidates.keep(lists, search.slack)
    lists.visit(visitor)
    return lists.n_pairs


def _visit_without_lists(search: _Search, visitor: Visitor) -> int:
    """Call the visitor with lists as they are found, and keep none."""
    rows = search.rows
    if rows.mutual:  # the other rows search for themselves
        others = SearchRows(np.setdiff1d(rows.listed, rows.needing), rows.needing, rows.codes)
        if len(others.needing):
            _visit_without_lists(_Search(search.Z, others, search.root, search.chi2), visitor)
    search.slack = 0.0
    sizes = [0] * len(search.starts)

    def found(b: int, block: Array, indptr: Array, indices: Array) -> None:
        sizes[b] += len(indices)
        visitor(block, indptr, indices)

    search(found, later=False)
    return sum(sizes)
