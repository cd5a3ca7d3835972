"""Compiled engine for hinges (`base.Margins`): impostors by search, or from kept lists."""

from __future__ import annotations

import numpy as np

from vicinal._threads import block_edges, n_threads, run
from vicinal.core.types import Array
from vicinal.engines.base import Hinges, Triples
from vicinal.engines.cpu.impostors import Candidates, SearchRows, visit
from vicinal.kernels import lmnn as kernels


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
            kernels.push(
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
            kernels.pull(t.Z, everyone, pulls, first, sources, i0, i1, t.chi2, self.slope)

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
            kernels.targets(t.Z, t.neighbors, t.margin, t.chi2, i0, i1, D, reach, furthest)

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
