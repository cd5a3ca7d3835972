"""Whole arrays of pairs in plain NumPy: the engine for small data, which compiles nothing.

Everything is float64.  BLAS runs on one thread, so that the bits do not depend on the cores.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from scipy.spatial.distance import cdist

from vicinal._threads import single_threaded_blas
from vicinal.core.types import Array
from vicinal.densities import Kernel
from vicinal.engines.base import Data, RowSums, columns_of

_LOG2_E = math.log2(math.e)
# Distances from inner products have an error of a few eps |z|², but are several times faster than
# differences.  They are used up to this |z|², where the error of weights is 1e-13.  In many
# dimensions the gain is so large that, as in the compiled loops, an error of 4e-7 is accepted.
_PRODUCTS_TO = 100.0
MANY_DIMENSIONS, _MANY_PRODUCTS_TO = 48, 30.0 / math.sqrt(np.finfo(np.float64).eps)
_DUPLICATES = 16.0 * np.finfo(np.float64).eps  # share of the squared norms; see `squared_distances`
_BLOCK = 2**18  # pairs in a block of queries: 2 MB


class SortedPoints:
    """Queries and references in float64, both sorted by class, and where each class begins.

    Attributes
    ----------
    queries, references : int arrays
        Rows of Z, in the order of ``Zq`` and ``Zr``.
    own : list of (slice, slice)
        For each class with queries: its queries, its references.
    """

    def __init__(self, data: Data) -> None:
        self.n, self.d = data.Z.shape
        self.references = _by_class(data.reference_rows, data.codes)
        self.same = data.query_rows is data.reference_rows or np.array_equal(
            data.query_rows, data.reference_rows
        )
        self.queries = self.references if self.same else _by_class(data.query_rows, data.codes)
        Zr = data.Z[self.references].astype(np.float64)
        # a robust centre; np.median takes several times as long
        centre = np.partition(Zr, len(Zr) // 2, axis=0)[len(Zr) // 2]
        self.Zr = Zr - centre
        self.Zq = self.Zr if self.same else data.Z[self.queries] - centre
        self.codes_q, self.codes_r = data.codes[self.queries], data.codes[self.references]
        edges = np.arange(int(data.codes.max(initial=0)) + 2)
        first_q = np.searchsorted(self.codes_q, edges)
        first_r = np.searchsorted(self.codes_r, edges)
        self.own = [
            (slice(*q), slice(*r))
            for q, r in zip(pairwise(first_q), pairwise(first_r), strict=True)
            if q[1] > q[0]
        ]

    def self_pairs(self) -> tuple[Array, Array]:
        """Positions of the pairs of a query with itself."""
        if self.same:
            both = np.arange(len(self.queries))
            return both, both
        place = np.full(self.n, -1)
        place[self.references] = np.arange(len(self.references))
        place = place[self.queries]
        at = np.flatnonzero(place >= 0)
        return at, place[at]

    def energies(self, kernel: Kernel) -> tuple[Array, Array | None]:
        """-ln kappa of all pairs, and its derivative by the squared distance; None for ones."""
        return kernel.energy(self.squared_distances(kernel.smooth), self.d)

    def squared_distances(self, smooth: bool = True) -> Array:
        """All pairs, (n_queries, n_references).

        A kernel with a kink needs roots of distances near zero, which the error of products would
        spoil, and its weights there are so large that the products of `pull_pairs` would cancel:
        pairs closer than rounding errors count as duplicates.
        """
        norms_r = np.einsum("ij,ij->i", self.Zr, self.Zr)
        norms_q = norms_r if self.same else np.einsum("ij,ij->i", self.Zq, self.Zq)
        most = _PRODUCTS_TO if self.d < MANY_DIMENSIONS else _MANY_PRODUCTS_TO
        if not smooth and self.d < MANY_DIMENSIONS:
            most = 0.0
        if max(norms_r.max(initial=0.0), norms_q.max(initial=0.0)) > most:
            D = cdist(self.Zq, self.Zr, "sqeuclidean")
        else:
            with single_threaded_blas():
                D = self.Zq @ self.Zr.T
            D *= -2.0
            D += norms_q[:, None]
            D += norms_r
        if not smooth:
            D[D <= _DUPLICATES * (norms_q[:, None] + norms_r)] = 0.0
        return D


def _by_class(rows: Array, codes: Array) -> Array:
    return rows[np.argsort(codes[rows], kind="stable")]


def pull_pairs(points: SortedPoints, W: Array) -> Array:
    """Derivative by the points of ``sum_ij w_ij d²_ij`` for given w, (n, d)."""
    dZ = np.zeros((points.n, points.d))
    with single_threaded_blas():
        if points.same:
            W = W + W.T
            dZ[points.queries] = 2.0 * (W.sum(axis=1)[:, None] * points.Zq - W @ points.Zq)
            return dZ
        dZ[points.queries] = 2.0 * (W.sum(axis=1)[:, None] * points.Zq - W @ points.Zr)
        dZ[points.references] += 2.0 * (W.sum(axis=0)[:, None] * points.Zr - W.T @ points.Zq)
    return dZ


class DenseSums:
    """Sums of a kernel over the other classes and the own one; see `base.ClassSums`.

    Rows are sorted by class, so that the pairs within a class form a block.
    """

    name, share = "dense", 1.0

    def __init__(self, data: Data, kernel: Kernel) -> None:
        self.points = SortedPoints(data)
        self.query_rows = self.points.queries
        mass = data.mass[self.points.references]
        self.mass = None if (mass == 1.0).all() else mass
        energy, self.steepness = self.points.energies(kernel)
        energy[self.points.self_pairs()] = np.inf
        self.near = [energy[block].copy() for block in self.points.own]
        for block in self.points.own:
            energy[block] = np.inf
        self.far = energy
        self._sums: RowSums | None = None

    def sums(self) -> RowSums:
        """The sums of each query, each shifted by its own least energy."""
        if self._sums is None:  # replaces the energies by the terms of the sums
            self._sums = self._make_sums()
        return self._sums

    def _make_sums(self) -> RowSums:
        n = len(self.points.queries)
        total, shift = np.zeros((2, n)), np.full((2, n), np.inf)
        total[0], shift[0] = _sum(self.far, self.mass)
        for (rows, columns), energy in zip(self.points.own, self.near, strict=True):
            mass = None if self.mass is None else self.mass[columns]
            total[1, rows], shift[1, rows] = _sum(energy, mass)
        with np.errstate(divide="ignore"):
            return RowSums(np.log2(total), shift * _LOG2_E, self.query_rows)

    def pull(self, sums: RowSums, slopes: Array) -> Array:
        """Derivative of ``sum(slopes * ln(sums))`` by the points, (n, d)."""
        columns = columns_of(sums.rows, self.query_rows)
        sums, slopes = sums.take(columns), slopes[:, columns]
        # the arrays hold v_j kappa(d_ij) 2**shift, with the shift of the engine's own references
        shift = self.sums().shift
        here = np.isfinite(shift) & np.isfinite(sums.log2)
        behind = np.where(here, np.where(here, sums.shift, 0.0) - np.where(here, shift, 0.0), 0.0)
        # d ln S / d d² is minus the share of the pair, times the steepness of its energy
        factor = np.where(here, -slopes * np.exp2(behind - np.where(here, sums.log2, 0.0)), 0.0)
        W = self.far * factor[0][:, None]
        for block, near in zip(self.points.own, self.near, strict=True):
            W[block] = near * factor[1, block[0]][:, None]
        if self.steepness is not None:
            W *= self.steepness
        return pull_pairs(self.points, W)


def _sum(energy: Array, mass: Array | None) -> tuple[Array, Array]:
    """Sum and shift of each row; overwrites the energies with the terms of the sums."""
    shift = energy.min(axis=1, initial=np.inf)
    np.subtract(np.where(np.isinf(shift), 0.0, shift)[:, None], energy, out=energy)
    np.exp(energy, out=energy)
    if mass is not None:
        energy *= mass
    return energy.sum(axis=1), shift


def _blocks(n: int, columns: int) -> Iterator[slice]:
    size = max(1, _BLOCK // max(1, columns))
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def class_sums(
    Z: Array, data: Data, kernel: Kernel, n_classes: int, places: Array | None = None
) -> tuple[Array, Array]:
    """log2 of the sums of new points over each class, and their shifts, both (n, n_classes).

    As in `RowSums`.  No row's bits depend on the other rows.

    Parameters
    ----------
    Z : array of shape (n, d)
        The new points.
    data : Data
        Only its references are used.
    places : int array of shape (n,), default=None
        For a point that is a row of ``data.Z``: that row, which it never picks; else -1.
    """
    rows = _by_class(data.reference_rows, data.codes)
    Zr, mass = data.Z[rows].astype(np.float64), data.mass[rows]
    codes = data.codes[rows]
    log2, shift = np.full((len(Z), n_classes), -np.inf), np.full((len(Z), n_classes), np.inf)
    starts = np.searchsorted(codes, np.arange(n_classes + 1))
    for part in _blocks(len(Z), len(rows)):
        energy, _ = kernel.energy(cdist(Z[part].astype(np.float64), Zr, "sqeuclidean"), Z.shape[1])
        if places is not None:
            energy[places[part][:, None] == rows] = np.inf
        for c, (first, last) in enumerate(pairwise(starts)):
            if last > first:
                terms = energy[:, first:last]
                total, shift[part, c] = _sum(terms, mass[first:last])
                with np.errstate(divide="ignore"):
                    log2[part, c] = np.log2(total)
    return log2, shift * _LOG2_E


def entropies(Z: Array, places: Array, Z_reference: Array, mass: Array, kernel: Kernel) -> Array:
    """exp of the entropy of each point's choice among the references, 0 if there are none.

    ``places`` are the positions of the points among the references, -1 for other points; masses
    are in (0, 1].
    """
    Z, Z_reference = Z.astype(np.float64), Z_reference.astype(np.float64)
    out = np.zeros(len(Z))
    columns = np.arange(len(Z_reference))
    for part in _blocks(len(Z), len(Z_reference)):
        energy, _ = kernel.energy(cdist(Z[part], Z_reference, "sqeuclidean"), Z.shape[1])
        energy[places[part][:, None] == columns] = np.inf
        shift = energy.min(axis=1)
        alone = np.isinf(shift)
        energy -= np.where(alone, 0.0, shift)[:, None]
        p = mass * np.exp(-energy)
        total = np.where(alone, 1.0, p.sum(axis=1))
        # H = ln S + mean of (e - ln v), all relative to the least energy
        surprise = np.where(p > 0, energy - np.log(mass), 0.0)
        H = np.log(total) + np.sum(p * surprise, axis=1) / total
        out[part] = np.where(alone, 0.0, np.exp(H))
    return out
