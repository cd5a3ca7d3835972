"""All sets of k references over all pairs, for kSNE: exact, in O(n) memory, on all threads.

One pass over the pairs gives the power sums of each query's weights, and Newton's identities the
polynomials; rows whose identities cancel go through `ksne_chain`.  A second pass gives the
gradient.  Everything is computed in float64.

A query's force also acts on its references.  The queries are cut into ``GROUPS`` parts, each of
which adds to an array of its own in the order of its queries, and these arrays are added in the
order of the parts: the same bits for any number of threads.
"""

from __future__ import annotations

import math

import numpy as np

from vicinal._threads import block_edges, n_threads, run
from vicinal.core.types import Array
from vicinal.engines.newton import near_of, newton
from vicinal.kernels import ksne as kernels
from vicinal.kernels.ksne_attraction import LENGTH, ksne_attraction
from vicinal.kernels.ksne_chain import ksne_chain
from vicinal.targets import Affinities

#: parts of the queries whose forces are added up separately
GROUPS = 8
# Rows per task: few enough for an interrupt to be noticed soon.
_ROWS = 64
# Rows of lists per task: enough for their work to outweigh the call, and few enough for some
# thousand rows to be shared out evenly.
_LISTED_ROWS = 256


class _Chain:
    """What the chain found for some queries, for the second pass."""

    def __init__(self, n_rows: int, k: int, n_near: int) -> None:
        self.log_total, self.unit = np.empty(n_rows), np.ones(n_rows)
        self.coefficients = np.empty((n_rows, k))
        self.near = np.full((n_rows, n_near), -1, np.int64)
        self.force = np.empty((n_rows, n_near))


class TileSets:
    """Sums over all sets of k references, exact: see `base.SetSums`."""

    name = "tiles"

    def __init__(
        self, Z: Array, k: int, kernel: str, kappa: float, query_rows: Array, references: Array
    ) -> None:
        self.shape, self.k, self.kappa = Z.shape, k, float(kappa)
        self.gaussian = kernel == "gaussian"
        self.query_rows, self.references = query_rows, references
        self.Zr = _transposed(Z, references)
        same = query_rows is references or np.array_equal(query_rows, references)
        self.Zq = self.Zr if same else _transposed(Z, query_rows)
        place = np.full(len(Z), -1)
        place[references] = np.arange(len(references))
        self.self_pos = place[query_rows]
        self.facts = {"chain_rows": 0.0, "share_of_pairs": 1.0}

    def sums(self) -> Array:
        """The log of the total weight of all sets of k, for each query."""
        n, k = self.Zq.shape[1], self.k
        S, self.unit = np.empty((n, k)), np.ones(n)
        work = [np.empty((3, kernels.WIDTH)) for _ in range(n_threads())]
        edges = block_edges(n, _ROWS, 1)

        def task(b: int, thread: int) -> None:
            kernels.ksne_power_sums(
                self.Zq, self.Zr, self.self_pos, self.kappa, self.gaussian, S, self.unit,
                edges[b], edges[b + 1], work[thread],
            )  # fmt: skip

        run(task, range(len(edges) - 1), len(work))
        log_total, self.coefficients, safe = newton(S)
        if self.gaussian:
            log_total -= k * self.unit
        self.plain, self.apart = np.flatnonzero(safe), np.flatnonzero(~safe)
        self.chain = self.find_chain(self.apart)
        log_total[self.apart] = self.chain.log_total
        self.facts["chain_rows"] = float(len(self.apart))
        return log_total

    def find_chain(self, rows: Array) -> _Chain:
        """log e_k of the queries at these places, by the chain, and their marginals."""
        n, m, k = len(rows), self.Zr.shape[1], self.k
        r = near_of(k, m)
        chain = _Chain(n, k, r)
        if not n:
            return chain
        scratch = [_scratch(m, k, r) for _ in range(n_threads())]

        def task(b: int, thread: int) -> None:
            ksne_chain(
                self.Zq, self.Zr, self.self_pos, rows, self.kappa, self.gaussian, chain.log_total,
                chain.coefficients, chain.unit, chain.near, chain.force, edges[b], edges[b + 1],
                *scratch[thread],
            )  # fmt: skip

        edges = block_edges(n, _ROWS, 1)
        run(task, range(len(edges) - 1), len(scratch))
        return chain

    def pull(self, factors: Array) -> Array:
        """The gradient by Z of the sum of ``factors`` times the sums."""
        n_plain = len(self.plain)
        none = np.empty((n_plain, 0), np.int64)
        parts: list[tuple[Array, ...]] = []
        if n_plain:
            parts.append(
                (self.plain, self.coefficients[self.plain], self.unit[self.plain], none, none * 1.0)
            )
        if len(self.apart):
            chain = self.chain
            parts.append((self.apart, chain.coefficients, chain.unit, chain.near, chain.force))
        return self.push(parts, factors)

    def push(self, parts: list[tuple[Array, ...]], factors: Array) -> Array:
        """The gradient of the queries in the parts."""
        d, n, m = self.Zr.shape[0], self.Zq.shape[1], self.Zr.shape[1]
        G, H = np.zeros((d, n)), np.zeros((GROUPS, d, m))
        work = [np.empty((4, kernels.WIDTH)) for _ in range(n_threads())]
        factors = np.ascontiguousarray(factors, dtype=np.float64)

        def task(g: int, thread: int) -> None:
            for rows, coefficients, unit, near, force in parts:
                first, last = len(rows) * g // GROUPS, len(rows) * (g + 1) // GROUPS
                kernels.ksne_pull(
                    self.Zq, self.Zr, self.self_pos, rows, coefficients, unit, factors, near,
                    force, self.kappa, self.gaussian, G, H[g], first, last, work[thread],
                )  # fmt: skip

        run(task, range(GROUPS), len(work))
        dZ = np.zeros(self.shape)
        d = self.shape[1]
        dZ[self.query_rows] = G[:d].T
        dZ[self.references] += H.sum(axis=0)[:d].T
        return dZ


def chain_rows(
    Z: Array, rows: Array, k: int, kernel: str, kappa: float, references: Array, factors: Array
) -> tuple[Array, Array]:
    """log e_k of some rows by the chain, and the gradient of the sum of ``factors`` times it.

    Exact to rounding whatever the weights are; ``factors`` belong to the ``rows``.
    """
    engine = TileSets(Z, k, kernel, kappa, rows, references)
    engine.plain, engine.apart = np.arange(0), np.arange(len(rows))
    engine.chain = engine.find_chain(engine.apart)
    return engine.chain.log_total, engine.pull(factors)


def _transposed(Z: Array, rows: Array) -> Array:
    """Points in kernel layout, with an even number of dimensions."""
    d = Z.shape[1]
    points = np.zeros((d + d % 2, len(rows)))
    points[:d] = Z.T[:, rows]
    return points


def _scratch(m: int, k: int, r: int) -> tuple[Array, ...]:
    """Scratch of the chain for one thread."""
    return (
        np.empty((2, kernels.WIDTH)), np.empty(m), np.empty(r), np.empty(r), np.empty(k),
        np.empty(k + 1), np.empty((r + 1, k + 1)),
    )  # fmt: skip


def attraction(
    Z: Array, target: Affinities, kernel: str, kappa: float, gradient: bool = True
) -> tuple[float, Array | None]:
    """The sum of ``-p_ij log w_ij`` over all rows, and its gradient by Z, in float64.

    Every block of rows has a sum of its own, and these are added in the order of the blocks.
    """
    P = target.symmetric
    n, d = Z.shape
    Z = np.ascontiguousarray(Z, dtype=np.float64)
    dZ = np.empty((n if gradient else 0, d))
    edges = block_edges(n, _LISTED_ROWS)
    sums = np.zeros(len(edges) - 1)
    scratch = [(np.empty((d, LENGTH)), np.empty(LENGTH)) for _ in range(n_threads())]

    def task(b: int, thread: int) -> None:
        sums[b] = ksne_attraction(
            Z, P.indptr, P.indices, P.data, float(kappa), kernel == "gaussian", gradient,
            edges[b], edges[b + 1], dZ, *scratch[thread],
        )  # fmt: skip

    run(task, range(len(sums)), len(scratch))
    # each pair is in the lists of both its rows
    value = 0.5 * math.log(2.0) * math.fsum(sums)
    return value, dZ if gradient else None
