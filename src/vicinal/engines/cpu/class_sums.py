"""Compiled engines for class sums (`base.ClassSums`): all pairs in tiles, or candidate lists."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from vicinal.core.points import centre_of
from vicinal.core.types import Array, Pairs
from vicinal.densities import Kernel
from vicinal.engines.base import Data, RowSums, columns_of
from vicinal.engines.cpu.lists import Lists
from vicinal.engines.cpu.tiles import KernelPoints, Tiles, kernel_points, worth_ordering


class PreparedData(NamedTuple):
    """Queries and references in kernel layout, and the rows of Z they come from.

    ``places`` is the position of each query among the references, or -1.
    """

    queries: KernelPoints
    references: KernelPoints
    places: Array
    query_rows: Array
    reference_rows: Array


def prepare(data: Data, kernel: Kernel, may_order: bool = True) -> PreparedData:
    """Sort queries and references by class; the same object for both if the rows are the same."""
    Z, codes, mass, query_rows, reference_rows = data
    centre, scale = centre_of(Z[reference_rows]), kernel.coordinate_scale
    ordered = may_order and worth_ordering(
        Z[query_rows],
        codes[query_rows],
        Z[reference_rows],
        codes[reference_rows],
        mass[reference_rows],
        kernel,
    )
    R, order = kernel_points(
        Z[reference_rows], codes[reference_rows], mass[reference_rows], centre, scale, ordered
    )
    reference_rows = reference_rows[order]
    position = np.full(len(Z), -1)
    position[reference_rows] = np.arange(len(reference_rows))
    everything = len(query_rows) == len(reference_rows) == len(Z)
    if everything or np.array_equal(np.sort(query_rows), np.sort(reference_rows)):
        Q, query_rows = R, reference_rows
    else:
        Q, order = kernel_points(
            Z[query_rows], codes[query_rows], mass[query_rows], centre, scale, ordered
        )
        query_rows = query_rows[order]
    return PreparedData(Q, R, position[query_rows], query_rows, reference_rows)


class CompiledSums:
    """Wraps a compiled engine, in the coordinates of Z; see `base.ClassSums`.

    Parameters
    ----------
    engine : Tiles, Lists or Trees
        Has ``sums()``, ``pull(shift, factor, d)`` and ``share``.
    name : str
    Z : array of shape (n, d)
    rows : (array, array)
        The rows of Z that are the queries and the references of the engine.
    kernel : Kernel
    log2_rates : array of shape (2, n_queries) or float, default=0.0
        log2 of the sampling rates, by which the sums are divided.
    """

    def __init__(
        self,
        engine: Any,
        name: str,
        Z: Array,
        rows: tuple[Array, Array],
        kernel: Kernel,
        log2_rates: Array | float = 0.0,
    ) -> None:
        self.engine, self.name, self.Z, self.kernel = engine, name, Z, kernel
        self.query_rows, self.pulled_rows = rows
        self.log2_rates = log2_rates
        self.whole = np.ndim(log2_rates) == 0
        self.sampled = self.own_log2 = np.empty((2, 0))

    @property
    def share(self) -> float:
        """The share of all pairs that the last call of `sums` computed one by one."""
        return self.engine.share

    def sums(self) -> RowSums:
        """The sums of each query."""
        # `pull` needs the sums over samples again, with all their digits
        self.sampled, shift = self.engine.sums()
        self.own_log2 = self.sampled - self.log2_rates
        return RowSums(self.own_log2, shift.astype(np.float64), self.query_rows)

    def look(self) -> None:
        """What `pull` needs besides the sums, where another process has computed these."""
        self.engine.look()

    def pull(self, sums: RowSums, slopes: Array) -> Array:
        """Derivative of ``sum(slopes * ln(sums))`` by the points, (n, d)."""
        columns = columns_of(sums.rows, self.query_rows)
        sums, slopes = sums.take(columns), slopes[:, columns]
        Z = self.Z
        dZ = np.zeros_like(Z)
        log2 = sums.log2
        if not self.whole:
            log2 = np.where(log2 == self.own_log2, self.sampled, log2 + self.log2_rates)
        shift, factor = pull_factors(log2, sums.shift, slopes, Z.dtype)
        largest = np.abs(factor).max(initial=0.0) or 1.0  # late in training all slopes are tiny
        Gq, Gr = self.engine.pull(shift, factor / largest, Z.shape[1])
        largest = Z.dtype.type(2.0 / self.kernel.coordinate_scale * largest)
        dZ[self.query_rows] = Gq.T * largest
        if Gr is not Gq:
            dZ[self.pulled_rows] += Gr.T * largest
        return dZ


def pull_factors(log2: Array, shift: Array, slopes: Array, dtype: np.dtype) -> tuple[Array, Array]:
    """Shifts and factors of the pairs of each query, from the derivatives by ln of its sums.

    d ln S / d d² = sum of kappa' / S; the engines return minus that.
    """
    empty = np.isneginf(log2)
    shift = np.where(empty, 0.0, shift).astype(dtype)
    return shift, -slopes * np.exp2(-np.where(empty, 0.0, log2))


class ListSums(CompiledSums):
    """The pairs in candidate lists; if the lists are samples, sums are divided by the rates."""

    def __init__(self, data: Data, kernel: Kernel, pairs: Pairs) -> None:
        Z = data.Z
        mass = np.zeros(len(Z))
        mass[data.reference_rows] = data.mass[data.reference_rows]
        centre = centre_of(Z[data.reference_rows])
        scale = kernel.coordinate_scale
        engine = Lists(Z, data.codes, mass, data.query_rows, pairs, kernel, centre, scale)
        rates = 0.0 if pairs.log2_rates is None else pairs.log2_rates[:, engine.rows]
        super().__init__(engine, "lists", Z, (engine.rows, np.arange(len(Z))), kernel, rates)


def sums_by_class(
    Z: Array, data: Data, kernel: Kernel, n_classes: int, places: Array | None = None
) -> tuple[Array, Array]:
    """log2 of the kernel sums of points over each class, and their shifts: (n, n_classes)."""
    rows = data.reference_rows
    centre, scale = centre_of(data.Z[rows]), kernel.coordinate_scale
    nothing = np.zeros(len(Z), dtype=int)
    ordered = places is None and worth_ordering(
        Z, nothing, data.Z[rows], 0 * rows, data.mass[rows], kernel
    )
    R, inner = kernel_points(
        data.Z[rows], data.codes[rows], data.mass[rows], centre, scale, ordered
    )
    rows = rows[inner]
    Q, order = kernel_points(Z, nothing, np.ones(len(Z)), centre, scale, ordered)
    log2, shift = np.full((len(Z), n_classes), -np.inf), np.full((len(Z), n_classes), np.inf)
    for c in np.unique(R.codes):
        first, last = np.searchsorted(R.codes, [c, c + 1])
        points = np.ascontiguousarray(R.Z[:, first:last])
        members = KernelPoints(points, R.mass[first:last], R.codes[first:last], R.d, ordered)
        itself = np.full(len(Z), -1)
        if places is not None:
            position = np.full(len(data.Z) + 1, -1)  # the last entry: points that are not rows
            position[rows[first:last]] = np.arange(last - first)
            itself = position[places[order]]
        everything = np.stack([nothing, np.full(len(Z), last - first)])
        sums = Tiles(Q, members, itself, kernel).sums(everything)
        log2[order, c], shift[order, c] = sums[0][1], sums[1][1]
    return log2, shift


def entropies(Z: Array, places: Array, Z_reference: Array, mass: Array, kernel: Kernel) -> Array:
    """exp of the entropy of each point's choice among the references, 0 if there are none."""
    centre, scale = centre_of(Z_reference), kernel.coordinate_scale
    # one class: the rows keep their order
    R, _ = kernel_points(Z_reference, np.zeros(len(mass), dtype=int), mass, centre, scale)
    Q = R
    if Z is not Z_reference:
        Q, _ = kernel_points(Z, np.zeros(len(Z), dtype=int), np.ones(len(Z)), centre, scale)
    engine = Tiles(Q, R, places, kernel)
    log_s, minima = (part[1] for part in engine.sums())
    alone = np.isneginf(log_s)
    shift = np.where(alone, 0.0, minima)
    log_s = np.where(alone, 0.0, log_s)
    # H = log S + mean of e, both from the shifted sum s: log2 s + (sum of 2**(m - e)(e - m)) / s
    entropy = log_s + engine.energy(shift) / np.exp2(log_s)
    if (mass < 1.0).any():  # - mean of log v: masses are at most 1, so all terms are >= 0
        surprise = R._replace(mass=-R.mass * np.log2(R.mass))
        Q = surprise if Q is R else Q
        entropy += np.exp2(Tiles(Q, surprise, places, kernel).sums()[0][1] - log_s)
    return np.where(alone, 0.0, np.exp2(entropy))
