"""Pairs from candidate lists, for soft matches and for means of charges.

The gradient of the references is summed in lanes, as in :mod:`vicinal.engines.cpu.lists`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from vicinal._threads import n_threads, run
from vicinal.core.points import centre_of
from vicinal.core.types import Array, Pairs
from vicinal.densities import Kernel
from vicinal.engines.base import Data, Means, columns_of
from vicinal.engines.cpu.charged import factors_of, means_of
from vicinal.engines.cpu.lists import check_pairs, n_lanes
from vicinal.engines.cpu.matches import SoftSums, features
from vicinal.engines.cpu.tiles import power_of
from vicinal.kernels import match_lists as kernels
from vicinal.kernels.nca_lists import pack
from vicinal.kernels.neighbours import visiting_order
from vicinal.targets import Matches


class _Listed:
    """The lists of the queries, in the order in which they are visited, cut into lanes."""

    def __init__(self, data: Data, kernel: Kernel, pairs: Pairs, owner: str) -> None:
        Z = data.Z
        n, self.d = Z.shape
        check_pairs(pairs, n, owner)
        self.owner, self.n, self.dtype = owner, n, Z.dtype
        mass = np.zeros(n)
        mass[data.reference_rows] = data.mass[data.reference_rows]
        self.rows = data.query_rows[visiting_order(Z[data.query_rows])]
        first, last = pairs.indptr[self.rows], pairs.indptr[self.rows + 1]
        centre = centre_of(Z[data.reference_rows])
        points = pack(Z, data.codes, mass, centre, kernel.coordinate_scale)
        rates = _rates(pairs, self.rows).astype(Z.dtype)
        indices = np.ascontiguousarray(pairs.indices)
        self.lists = kernels.Lists(points, self.d, indices, first, last, self.rows, rates)
        self.power = power_of(kernel, self.d, Z.dtype)
        lanes = n_lanes(n, len(self.rows), self.d, Z.dtype.itemsize)
        self.lanes = [len(self.rows) * lane // lanes for lane in range(lanes + 1)]
        self.threads = min(n_threads(), lanes)
        self.longest = int((last - first).max(initial=0))
        self.share = float((last - first).sum() / (len(self.rows) * np.sum(mass > 0)))

    def sum_up(self, task: Callable[[int, int, int], bool]) -> None:
        """Call ``task(q0, q1, thread)`` for all lanes; it says whether all listed rows exist."""
        inside = [True] * (len(self.lanes) - 1)

        def lane(place: int, thread: int) -> None:
            inside[place] = task(self.lanes[place], self.lanes[place + 1], thread)

        run(lane, range(len(inside)), self.threads)
        if not all(inside):
            indices = self.lists.indices
            raise ValueError(
                f"The 'pairs' parameter of {self.owner} must list rows in [0, {self.n - 1}]. "
                f"Got {indices.min()}..{indices.max()} instead."
            )

    def pull(self, task: Callable[[Array, Array, int, int, int], None]) -> tuple[Array, Array]:
        """Gradients of the queries, (d, n_queries), and of all rows, (d, n).

        ``task(Gq, Gr, q0, q1, thread)`` adds those of a lane.
        """
        width = -(-self.d // 4) * 4
        Gq = np.zeros((len(self.rows), width), self.dtype)
        Gr = np.zeros((len(self.lanes) - 1, self.n, width), self.dtype)

        def lane(place: int, thread: int) -> None:
            task(Gq, Gr[place], self.lanes[place], self.lanes[place + 1], thread)

        run(lane, range(len(Gr)), self.threads)
        for part in Gr[1:]:
            Gr[0] += part
        return Gq[:, : self.d].T, Gr[0, :, : self.d].T


def _rates(pairs: Pairs, rows: Array) -> Array:
    """Factors of the masses of other classes, of the own, and of rows that are always there.

    The reciprocal rates of random lists, relative to the largest: a common factor of all masses of
    a query changes nothing.
    """
    if pairs.log2_rates is None:
        return np.ones((3, len(rows)))
    log2 = np.vstack([pairs.log2_rates[:, rows], np.zeros(len(rows))])
    return np.exp2(log2.min(axis=0) - log2)


class _MatchLists:
    """Sums over listed pairs and their gradient, as `SoftSums` wants them."""

    def __init__(self, data: Data, target: Any, kernel: Kernel, pairs: Pairs) -> None:
        self.listed = _Listed(data, kernel, pairs, "nca_matches")
        self.match, most = _matching(target, self.listed.rows, data.Z.dtype)
        longest = self.listed.longest + most
        n = len(data.Z) if most else 0
        self.scratch = [
            kernels.scratch(longest, n, data.Z.dtype) for _ in range(self.listed.threads)
        ]

    @property
    def share(self) -> float:
        """The share of all pairs that are listed."""
        return self.listed.share

    def sums(self) -> tuple[Array, Array]:
        """log2 of the sums relative to their shifts, and the shifts, of rest [0], matches [1]."""
        shape, listed = (2, len(self.listed.rows)), self.listed
        minima, sums = np.empty(shape, listed.dtype), np.empty(shape, listed.dtype)
        self.near = np.empty(shape[1], listed.dtype)
        listed.sum_up(
            lambda q0, q1, thread: kernels.match_lists_sums(
                listed.lists, self.match, self.near, minima, sums, q0, q1, listed.power,
                *self.scratch[thread],
            )
        )  # fmt: skip
        minima[sums == 0] = np.inf
        with np.errstate(divide="ignore"):
            return np.log2(sums, dtype=np.float64), minima

    def pull(self, shift: Array, factor: Array, d: int) -> tuple[Array, Array]:
        """Sum of ``-factor_i mass_ij 2**shift_i kappa'(d²_ij) (z_i - z_j)``, for both points."""
        factor, listed = factor.astype(shift.dtype), self.listed
        return listed.pull(
            lambda Gq, Gr, q0, q1, thread: kernels.match_lists_grad(
                listed.lists, self.match, self.near, shift, factor, Gq, Gr, q0, q1, listed.power,
                *self.scratch[thread],
            )
        )  # fmt: skip


class ListMatchSums(SoftSums):
    """Soft matches over the pairs in candidate lists, and over those that a matrix names."""

    def __init__(self, data: Data, target: Any, kernel: Kernel, pairs: Pairs) -> None:
        engine = _MatchLists(data, target, kernel, pairs)
        rows = (engine.listed.rows, np.arange(len(data.Z)))
        super().__init__(engine, "lists", data.Z, rows, kernel)


def _matching(target: Any, rows: Array, dtype: Any) -> tuple[kernels.Rows, int]:
    """How well rows match, in the layout of the kernels; how many rows a matrix adds at most."""
    begin, columns = np.zeros(1, np.int64), np.empty(0, np.int32)
    degrees = rest = np.empty(0, dtype)
    if not isinstance(target, Matches):
        kind, T, limit = features(target, dtype)
        T = np.ascontiguousarray(T.T)
        return kernels.Rows(kind, T, dtype.type(limit), begin, columns, degrees, rest), 0
    own = target.matrix[rows]
    begin, columns = own.indptr.astype(np.int64), own.indices.astype(np.int32)
    rest = np.ones(len(target)) if target.weight is None else target.weight
    nothing = np.empty((0, 0), dtype)
    match = kernels.Rows(
        kernels.SPARSE, nothing, dtype.type(0), begin, columns, own.data.astype(dtype),
        rest.astype(dtype),
    )  # fmt: skip
    return match, int(np.diff(begin).max(initial=0))


class ListChargedSums:
    """Means of charges over the pairs in candidate lists; see `base.ChargedSums`."""

    name = "lists"

    def __init__(self, data: Data, charges: Array, kernel: Kernel, pairs: Pairs) -> None:
        self.Z, self.kernel = data.Z, kernel
        self.listed = _Listed(data, kernel, pairs, "mlkr")
        self.Y = np.ascontiguousarray(charges, dtype=data.Z.dtype)
        self.scratch = [
            (
                kernels.scratch(self.listed.longest, 0, data.Z.dtype)[0],
                np.empty((self.Y.shape[1], self.listed.longest), data.Z.dtype),
            )
            for _ in range(self.listed.threads)
        ]

    @property
    def share(self) -> float:
        """The share of all pairs that are listed."""
        return self.listed.share

    def sums(self) -> Means:
        """The sum of the weights, and the means of the charges, of each query."""
        listed, n = self.listed, len(self.listed.rows)
        minima, sums = np.full(n, np.inf, listed.dtype), np.zeros(n, listed.dtype)
        totals = np.zeros((self.Y.shape[1], n), listed.dtype)
        listed.sum_up(
            lambda q0, q1, thread: kernels.charged_lists_sums(
                listed.lists, self.Y, minima, sums, totals, q0, q1, listed.power,
                *self.scratch[thread],
            )
        )  # fmt: skip
        return means_of(minima, sums, totals, listed.rows)

    def pull(self, sums: Means, slopes: Array) -> Array:
        """Derivative of ``sum(slopes * means)`` by the points, (n, d)."""
        listed = self.listed
        queries = columns_of(sums.rows, listed.rows)
        sums, slopes = sums.take(queries), slopes[queries]
        shift, offset, factors, largest = factors_of(sums, slopes, listed.dtype)
        Gq, Gr = listed.pull(
            lambda Gq, Gr, q0, q1, thread: kernels.charged_lists_grad(
                listed.lists, self.Y, shift, offset, factors, Gq, Gr, q0, q1, listed.power,
                *self.scratch[thread],
            )
        )  # fmt: skip
        scale = listed.dtype.type(2.0 / self.kernel.coordinate_scale * largest)
        dZ = Gr.T * scale
        dZ[listed.rows] += Gq.T * scale
        return dZ
