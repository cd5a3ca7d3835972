"""Compiled engine for hinges (`base.Margins`), chi-squared distances, columns on the simplex."""

from __future__ import annotations

from typing import Any

import numpy as np

from vicinal._threads import block_edges, n_threads, run
from vicinal.core.types import Array
from vicinal.engines.base import Hinges, Triples
from vicinal.engines.cpu.impostors import Candidates, SearchRows, visit
from vicinal.kernels import chi2, lmnn, simplex

_ROWS = 64  # queries per task
_TILE = 2**18  # bytes of references in a tile: half of a second-level cache


class ListedMargins:
    """Hinges of all impostors found by a search; see `base.Margins`."""

    name, share = "lists", 0.0

    def __init__(self, triples: Triples, candidates: Candidates | None = None) -> None:
        triples = triples._replace(Z=np.ascontiguousarray(triples.Z))
        self.triples, self.candidates = triples, candidates
        self.active = np.zeros(triples.neighbors.shape)
        self.slope = triples.Z[:0]

    def sums(self, gradient: bool) -> Hinges:
        """The sums over all queries."""
        t = self.triples
        D, reach, furthest = self._reach()
        rows = self._rows(gradient)
        hinge = np.zeros(len(t.Z))
        self.active[...] = 0
        self.slope = np.zeros_like(t.Z) if gradient else t.Z[:0]

        def push(block: Array, indptr: Array, indices: Array) -> None:
            lmnn.push(
                t.Z, reach, furthest, t.weight, block, indptr, indices, t.mu, t.chi2,
                gradient, hinge, self.active, self.slope,
            )  # fmt: skip

        # a value without gradient is usually of other rows: its lists would replace the kept ones
        n_pairs = visit(t.Z, rows, furthest, t.chi2, self.candidates, push, keep=gradient)
        self.share = n_pairs / max(1, len(rows.needing) * len(rows.listed))
        n_impostors = round(self.active.sum())
        return Hinges(float(D.sum(dtype=np.float64)), float(hinge.sum()), n_impostors)

    def pull(self, weight: float) -> Array:
        """Gradient of the weight times ``distances + mu * hinges``, (n, d)."""
        t, (first, sources) = self.triples, self.triples.targets.inverse
        pulls = np.where(t.neighbors >= 0, 1.0 + t.mu * self.active, 0.0).astype(t.Z.dtype)
        edges, everyone = block_edges(len(t.Z)), t.targets.neighbors

        def task(b: int, thread: int) -> None:
            i0, i1 = edges[b], edges[b + 1]
            lmnn.pull(t.Z, everyone, pulls, first, sources, i0, i1, t.chi2, self.slope)

        run(task, range(len(edges) - 1), n_threads())
        return np.multiply(self.slope, weight, casting="same_kind")

    def _reach(self) -> tuple[Array, Array, Array]:
        """Distances to target neighbours, the same plus the margin, and the largest of each row."""
        t = self.triples
        shape, dtype = t.neighbors.shape, t.Z.dtype
        D, reach, furthest = (
            np.empty(shape, dtype),
            np.empty(shape, dtype),
            np.empty(shape[0], dtype),
        )
        edges = block_edges(len(t.Z))

        def task(b: int, thread: int) -> None:
            i0, i1 = edges[b], edges[b + 1]
            lmnn.targets(t.Z, t.neighbors, t.margin, t.chi2, i0, i1, D, reach, furthest)

        run(task, range(len(edges) - 1), n_threads())
        return D, reach, furthest

    def _rows(self, gradient: bool) -> SearchRows:
        """Rows that need lists; for a gradient, impostors need lists of their victims too."""
        t, codes = self.triples, self.triples.targets.codes
        queries, references = np.flatnonzero(t.is_query), np.flatnonzero(t.is_reference)
        among = bool(t.is_reference[queries].all())
        few = 2 * len(queries) <= len(references)
        if not gradient and (few or not among):
            return SearchRows(queries, references, codes)
        if few and among:
            return SearchRows(queries, references, codes, mutual=True)
        everyone = np.flatnonzero(t.is_query | t.is_reference)
        return SearchRows(everyone, everyone, codes)  # each pair is computed once for both rows


def chi2_rows(X: Array, Y: Array, same: bool) -> Array:
    """Chi-squared distances between all rows of X and Y."""
    out = np.empty((len(X), len(Y)), X.dtype)

    def task(first: int, thread: int) -> None:
        last = min(first + _ROWS, len(X))
        chi2.chi2_rows(X, first, last, Y, same, _tiny(Y), _tile(Y), out)

    run(task, range(0, len(X), _ROWS), n_threads())
    return out


def nearest_histograms(X: Array, Y: Array, k: int, same: bool) -> tuple[Array, Array]:
    """Distances and positions of the k nearest rows of Y, nearest first."""
    near = np.zeros((len(X), k), np.int64)
    distances = np.full((len(X), k), np.inf, X.dtype)

    def task(first: int, thread: int) -> None:
        last = min(first + _ROWS, len(X))
        chi2.chi2_nearest(X, first, last, Y, same, _tiny(Y), _tile(Y), near, distances)

    run(task, range(0, len(X), _ROWS), n_threads())
    return distances, near


def _tiny(Y: Array) -> Any:
    return np.finfo(Y.dtype).tiny


def _tile(Y: Array) -> int:
    return max(4, _TILE // max(1, Y.shape[1] * Y.itemsize) // 4 * 4)


def simplex_columns(L: Array, slack: float) -> Array:
    """Project the columns of a finite matrix, (r, D), on all threads."""
    out = np.empty_like(L)
    # whole cache lines of columns, about 2**17 entries per task
    size = max(8, 2**17 // max(1, len(L)) // 8 * 8)

    def task(first: int, thread: int) -> None:
        simplex.simplex_columns(L, first, min(first + size, L.shape[1]), slack, out)

    run(task, range(0, L.shape[1], size), n_threads())
    return out
