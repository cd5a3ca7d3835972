"""Which pairs of rows may be impostors: a search in blocks, and lists kept from call to call.

The search compares squared distances, from inner products in float32, with the larger of the two
rows' bounds.  It may take a pair too many, never one too few: the rounding of the products is
taken off the distances.  For chi-squared it looks at the square roots of the histograms, since

    1/2 |√u - √v|² <= χ²(u, v) <= |√u - √v|²

(each term of χ² is that of the left times (√u + √v)² / (u + v), which is between 1 and 2).

Lists can outlive the points they were made at.  The square root of either distance is a metric.
Let a list hold all pairs with √D < max(√R_p, √R_q) + 2 s, where R is a row's reach.  While no row
has moved by more than s, and none by more than s less the growth of its √R, a pair that is not
listed has, by the triangle inequality, still √D >= max(√R_p, √R_q): it does not count.  So lists
are kept until that fails, and whether they are kept changes no bit of the loss.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from vicinal._threads import n_threads, run, single_threaded_blas
from vicinal._types import Array
from vicinal.kernels import lmnn as kernels
from vicinal.objectives._points import centre_of, extent

__all__ = ["Candidates", "Rows", "visit"]

_PRODUCTS = 2**20  # inner products at a time and thread: 4 MB
_MOST_ROWS = 128  # to a block
_KEPT = 2**24  # pairs that are kept at most: 64 MB
# A pair in a list costs some five times what it costs the search: lists of this share of all pairs
# take a tenth of the time of a search, and rows may then move as far as lists so long allow.
_SHARE = 0.02
_SAMPLE = 48  # rows that tell how far that is
_FAR = 1e18  # of a distance whose square float32 has room for, where no point is beyond 1
_LOST = 1e-36  # of a square, at most, for want of small numbers in float32


class Rows(NamedTuple):
    """The rows that need a list, and those that may stand in one, with the class of each."""

    needing: Array
    listed: Array
    codes: Array

    @property
    def both_ways(self) -> bool:
        """Whether those that need a list are those that stand in one."""
        return self.needing is self.listed

    def same_as(self, other: Rows) -> bool:
        return all(a is b or np.array_equal(a, b) for a, b in zip(self, other, strict=True))


class Lists(NamedTuple):
    """What may count of some rows, in compressed rows: ``indptr`` has an entry for each."""

    rows: Array
    indptr: Array
    indices: Array

    def visit(self, visitor: Visitor) -> None:
        """Show the visitor all lists, some rows at a time."""
        edges = range(0, len(self.rows), _MOST_ROWS)

        def task(i: int, thread: int) -> None:
            rows = self.rows[i : i + _MOST_ROWS]
            visitor(rows, self.indptr[i : i + len(rows) + 1], self.indices)

        run(task, edges, n_threads())


#: is shown some rows and their lists, by several threads
Visitor = Callable[[Array, Array, Array], None]


class _Search:
    """Finds the pairs of some points that may be nearer than their bounds.

    ``root`` are the rows' √R, 0 for those that have no impostors.
    """

    def __init__(self, Z: Array, rows: Rows, root: Array, chi2: bool) -> None:
        self.Z, self.rows, self.root, self.chi2 = Z, rows, root.astype(np.float64), chi2
        points = np.sqrt(0.5 * Z) if chi2 else Z - centre_of(Z)
        # float32 has no room for squares of 1e20; nor has float64 for those of 1e-200
        self.scale = 1.0 / max(extent(points), float(np.finfo(Z.dtype).tiny), 1e-150)
        points *= Z.dtype.type(self.scale)
        self.points = points.astype(np.float32, copy=False)
        # of the products' rounding, and of the points' own
        error = (Z.shape[1] + 8) * np.finfo(np.float32).eps
        square = np.einsum("ij,ij->i", self.points, self.points, dtype=np.float64)
        self.norm = (square * (1.0 - error)).astype(np.float32)
        self.slack = 0.0
        size = int(np.clip(_PRODUCTS // len(rows.listed), 16, _MOST_ROWS))
        self.starts = range(0, len(rows.needing), size)
        self.threads = min(n_threads(), len(self.starts))
        most = self.starts.step, len(rows.listed)
        self.rooms = [
            (np.empty(most, np.float32), np.empty(most[0] * most[1], np.int32))
            for _ in range(self.threads)
        ]

    def _listed(self, values: Array) -> Array:
        return values if len(self.rows.listed) == len(self.Z) else values[self.rows.listed]

    @cached_property
    def columns(self) -> Array:
        return self._listed(self.points)

    def allow(self, most: int, movement: bool) -> float:
        """Choose s, how far rows may move, so that lists hold few pairs; their share of all."""
        needing, listed, codes = self.rows
        sample = needing[:: 1 + len(needing) // _SAMPLE]
        D = np.matmul(self.points[sample], self.columns.T)
        D = self.norm[sample][:, None] + self._listed(self.norm) - 2.0 * D
        root = np.minimum(self.scale * self.root, _FAR).astype(np.float32)
        D = np.sqrt(np.maximum(D, 0.0)) - np.maximum(root[sample][:, None], self._listed(root))
        other = codes[sample][:, None] != self._listed(codes)
        share = min(_SHARE, 0.8 * most / (len(needing) * len(listed)))
        if movement and other.any():
            self.slack = 0.5 * max(0.0, float(np.quantile(D[other], share))) / self.scale
        return float(np.mean(other & (D <= 2.0 * self.slack * self.scale)))

    def _bounds(self) -> tuple[Array, Array]:
        # a root squared, and a distance summed in another order, differ in the last digits
        root_bound = np.where(self.root > 0, (self.root + 2.0 * self.slack) * (1.0 + 1e-5), 0.0)
        bound = np.minimum(root_bound * self.scale, _FAR) ** 2 + self.Z.shape[1] * _LOST
        return root_bound, np.where(self.root > 0, bound, -np.inf).astype(np.float32)

    def __call__(self, found: Callable[[int, Array, Array, Array], None], later: bool) -> None:
        """Tell of the lists of each block of rows; with ``later`` each pair once."""
        needing, listed, codes = self.rows
        root_bound, bound = self._bounds()
        norms, bounds = self._listed(self.norm), self._listed(bound)

        def task(b: int, thread: int) -> None:
            start = self.starts[b]
            block = needing[start : start + self.starts.step]
            first = start if later else 0
            G, indices = self.rooms[thread]
            G = G.ravel()[: len(block) * (len(listed) - first)].reshape(len(block), -1)
            np.matmul(self.points[block], self.columns[first:].T, out=G)
            indptr = np.empty(len(block) + 1, np.int64)
            n = kernels.near_pairs(
                G, block, listed[first:], codes, self.norm[block], bound[block], norms[first:],
                bounds[first:], later, indptr, indices,
            )  # fmt: skip
            if self.chi2:  # the bound from below is off by up to a factor of two
                n = kernels.within(self.Z, block, indptr, indices, root_bound, True)
            found(b, block, indptr, indices[:n])

        with single_threaded_blas():
            run(task, range(len(self.starts)), self.threads)

    def lists(self, most: int) -> Lists | None:
        """The lists of all rows, or None where they would hold more pairs than ``most``."""
        both_ways = self.rows.both_ways
        parts: list[Any] = [None] * len(self.starts)
        sizes = [0] * len(self.starts)

        def found(b: int, block: Array, indptr: Array, indices: Array) -> None:
            sizes[b] = len(indices) * (1 + both_ways)
            if sum(sizes) <= most:
                parts[b] = (indptr, indices.copy(), block)

        self(found, later=both_ways)
        if sum(sizes) > most:
            return None
        needing = self.rows.needing
        position = np.empty(len(self.Z), np.int32)
        position[needing] = np.arange(len(needing), dtype=np.int32)
        indptr = np.zeros(len(needing) + 1, np.int64)
        if not both_ways:
            indptr[1:] = np.cumsum(np.concatenate([np.diff(part[0]) for part in parts]))
            return Lists(needing, indptr, np.concatenate([part[1] for part in parts]))
        for part in parts:
            kernels.count_both(*part, position, indptr[1:])
        np.cumsum(indptr, out=indptr)
        indices, at = np.empty(indptr[-1], np.int32), indptr[:-1].copy()
        for part in parts:
            kernels.fill_both(*part, position, at, indices)
        return Lists(needing, indptr, indices)


class Candidates:
    """Lists of the pairs that may count, kept from one evaluation to the next.

    Handed to :func:`vicinal.objectives.lmnn` again and again it saves most of the searching; what
    is returned does not depend on it.  Not for several threads at once.

    Parameters
    ----------
    most : int, default=2**24
        Pairs that are kept at most, 4 bytes each.  Where there are more, every evaluation
        searches, block by block, and keeps nothing.

    Attributes
    ----------
    n_searches, n_evaluations : int
        How often all pairs were looked at, and how often the lists were asked for.
    """

    def __init__(self, most: int = _KEPT) -> None:
        self.most = most
        self.n_searches = self.n_evaluations = 0
        self._lists: Lists | None = None
        self._made: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {"most": self.most}  # lists are soon made again

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def lists(self, Z: Array, rows: Rows, root: Array, chi2: bool) -> Lists | None:
        """The lists, if they hold every pair that counts at these points."""
        self.n_evaluations += 1
        if self._lists is not None:
            made = self._made
            alike = made.chi2 == chi2 and made.Z.shape == Z.shape and made.Z.dtype == Z.dtype
            if alike and made.rows.same_as(rows):
                far = kernels.moved(Z, made.Z, root, made.root.astype(Z.dtype), chi2)
                if far <= 0.999 * made.slack:
                    return self._lists
        self.n_searches += 1
        self._lists = self._made = None
        return None

    def keep(self, lists: Lists, search: _Search) -> None:
        """Remember lists that were made with some slack."""
        self._lists = lists
        self._made = _Made(search.Z.copy(), search.rows, search.root, search.chi2, search.slack)


class _Made(NamedTuple):
    """Where lists were made, and what they allow for."""

    Z: Array
    rows: Rows
    root: Array
    chi2: bool
    slack: float


def visit(
    Z: Array,
    rows: Rows,
    furthest: Array,
    chi2: bool,
    candidates: Candidates | None,
    visitor: Visitor,
) -> int:
    """Show the visitor all pairs that may count, some rows at a time; return how many.

    Each row is shown once, with its list in order, by one of several threads.
    """
    if not len(rows.needing) or not len(rows.listed):
        return 0
    root = np.sqrt(np.maximum(furthest, 0.0))
    lists = None if candidates is None else candidates.lists(Z, rows, root, chi2)
    if lists is None:
        search = _Search(Z, rows, root, chi2)
        most = _KEPT if candidates is None else candidates.most
        share = search.allow(most, candidates is not None)
        if share * len(rows.needing) * len(rows.listed) <= most:
            lists = search.lists(most)
        if lists is None:
            return _in_passing(search, visitor)
        if candidates is not None and search.slack > 0:
            candidates.keep(lists, search)
    lists.visit(visitor)
    return len(lists.indices)


def _in_passing(search: _Search, visitor: Visitor) -> int:
    """Show lists as they are found, and keep none of them."""
    search.slack = 0.0
    sizes = [0] * len(search.starts)

    def found(b: int, block: Array, indptr: Array, indices: Array) -> None:
        sizes[b] = len(indices)
        visitor(block, indptr, indices)

    search(found, later=False)
    return sum(sizes)
