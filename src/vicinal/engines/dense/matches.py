"""Soft matches and means of charges over whole arrays of pairs, in plain NumPy.

Everything is float64.  BLAS runs on one thread, so that the bits do not depend on the cores.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from vicinal._threads import n_threads, run, single_threaded_blas
from vicinal.core.types import Array
from vicinal.densities import Kernel
from vicinal.engines.base import Data, Means, RowSums, columns_of, exact_sum
from vicinal.engines.dense.class_sums import SortedPoints, pull_pairs
from vicinal.targets import LabelDistributions, Matches, NearNumbers
from vicinal.targets.matches import LEAST_MATCH

_LOG2_E = math.log2(math.e)
_FAR = 1e-100  # sums below this, relative to the nearest reference, lose digits
BLOCK = 2**18  # pairs in a block of queries: 2 MB


class DenseMatchSums:
    """Sums of a kernel over what does not match and over what does; see `base.MatchSums`."""

    name, share = "dense", 1.0

    def __init__(self, data: Data, target: Any, kernel: Kernel) -> None:
        self.points = points = SortedPoints(data)
        energy, self.steepness = points.energies(kernel)
        energy[points.self_pairs()] = np.inf
        match_energy, rest = _matches(target, points.queries, points.references)
        mass = data.mass[points.references]
        x, least = _terms(energy.copy(), mass)
        apart, near, shift = x * rest, x * np.exp(-match_energy), np.stack([least, least])
        # what is all far away: relative to the nearest of it, matches in logarithms
        far = np.flatnonzero(apart.sum(axis=1) < _FAR)
        alone = np.where(rest[far] > 0, energy[far], np.inf)
        apart[far], shift[0, far] = _terms(alone, mass * rest[far])
        shift, self.lost = _LOG2_E * shift, np.zeros_like(shift)
        # far out, the sum of both energies would lose the digits of the matches
        far = np.flatnonzero((near.sum(axis=1) < _FAR) & np.isfinite(least))
        near[far], k = _terms(energy[far] - least[far, None] + match_energy[far], mass)
        shift[1, far], self.lost[1, far] = exact_sum(_LOG2_E * least[far], _LOG2_E * k)
        self.terms = apart, near
        total = np.stack([terms.sum(axis=1) for terms in self.terms])
        shift[total == 0], self.lost[total == 0] = np.inf, 0.0
        with np.errstate(divide="ignore"):
            self._sums = RowSums(np.log2(total) - self.lost, shift, points.queries)

    def sums(self) -> RowSums:
        """The sums of each query, each shifted by its own least energy."""
        return self._sums

    def pull(self, sums: RowSums, slopes: Array) -> Array:
        """Derivative of ``sum(slopes * ln(sums))`` by the points, (n, d)."""
        columns = columns_of(sums.rows, self._sums.rows)
        sums, slopes = sums.take(columns), slopes[:, columns]
        W = np.zeros_like(self.terms[0])
        for terms, own, shift, log2, slope in zip(
            self.terms, self._sums.shift, sums.shift, sums.log2 + self.lost, slopes, strict=True
        ):
            # d ln S / d d² is minus the share of the pair, times the steepness of its energy
            W += terms * (-slope * _scale(own, shift, log2))[:, None]
        if self.steepness is not None:
            W *= self.steepness
        return pull_pairs(self.points, W)


class DenseChargedSums:
    """Means of the charges of the references; see `base.ChargedSums`."""

    name, share = "dense", 1.0

    def __init__(self, data: Data, charges: Array, kernel: Kernel) -> None:
        self.points = points = SortedPoints(data)
        self.charges = charges[points.references]
        energy, self.steepness = points.energies(kernel)
        energy[points.self_pairs()] = np.inf
        self.terms, shift = _terms(energy, data.mass[points.references])
        total = self.terms.sum(axis=1)
        with np.errstate(divide="ignore"):
            log2 = np.log2(total)
        with single_threaded_blas():
            means = self.terms @ self.charges / np.where(total > 0, total, 1.0)[:, None]
        self._sums = Means(log2, _LOG2_E * shift, means, points.queries)

    def sums(self) -> Means:
        """The sum of the weights, and the means of the charges, of each query."""
        return self._sums

    def pull(self, sums: Means, slopes: Array) -> Array:
        """Derivative of ``sum(slopes * means)`` by the points, (n, d)."""
        queries = columns_of(sums.rows, self._sums.rows)
        sums, slopes = sums.take(queries), slopes[queries]
        # d mean / d d² is minus the share of the pair times (charge - mean)
        with single_threaded_blas():
            W = np.sum(slopes * sums.means, axis=1)[:, None] - slopes @ self.charges.T
        W *= self.terms
        W *= _scale(self._sums.shift, sums.shift, sums.log2)[:, None]
        if self.steepness is not None:
            W *= self.steepness
        return pull_pairs(self.points, W)


def _terms(energy: Array, mass: Array) -> tuple[Array, Array]:
    """``mass * exp(shift - energy)`` and the shift, the least energy of each row."""
    shift = energy.min(axis=1, initial=np.inf)
    np.subtract(np.where(np.isinf(shift), 0.0, shift)[:, None], energy, out=energy)
    np.exp(energy, out=energy)
    energy *= mass
    return energy, shift


def _scale(own_shift: Array, shift: Array, log2: Array) -> Array:
    """The factor that turns terms with an engine's own shifts into shares of the whole sums."""
    here = np.isfinite(own_shift) & np.isfinite(log2)
    scale = np.zeros(len(here))
    scale[here] = np.exp2((shift[here] - own_shift[here]) - log2[here])
    return scale


def _matches(target: Any, queries: Array, references: Array) -> tuple[Array, Array]:
    """-ln m of queries and references (inf where m = 0), and the mass ``1 - m`` of the rest."""
    if isinstance(target, NearNumbers):
        energy = target.energies(queries, references)
        return energy, -np.expm1(-energy)
    if isinstance(target, LabelDistributions):
        with single_threaded_blas():
            m = np.minimum(target.values[queries] @ target.values[references].T, 1.0)
        m[m < LEAST_MATCH] = 0.0
    elif isinstance(target, Matches):
        m = target.between(queries, references).toarray()
    else:
        raise TypeError(f"No matches are known for {target!r}.")
    rest = 1.0 - m
    if isinstance(target, Matches) and target.weight is not None:
        rest = np.where(m > 0, rest, target.weight[references])
    with np.errstate(divide="ignore"):
        return -np.log(m), rest


def kernel_means(
    Z: Array, Z_reference: Array, charges: Array, mass: Array | None, kernel: Kernel
) -> Array:
    """The weighted mean of the references' charges at each point, (n, q); see `Backend`.

    Every sum goes along one row of a block, so that no point's bits depend on the other points.
    """
    Zr = Z_reference.astype(np.float64, copy=False)
    columns = np.ascontiguousarray(charges.T)
    log_mass = 0.0 if mass is None else np.log(mass)
    out = np.empty((len(Z), len(columns)))
    size = max(1, BLOCK // len(Zr))

    def task(first: int, thread: int) -> None:
        rows = slice(first, min(first + size, len(Z)))
        squared = cdist(Z[rows].astype(np.float64, copy=False), Zr, "sqeuclidean")
        energy, _ = kernel.energy(squared, Z.shape[1])
        energy = energy - log_mass
        # shifted by the least energy: the largest weight is one, however far all references are
        weight = np.exp(energy.min(axis=1)[:, None] - energy)
        total = weight.sum(axis=1)
        for column, charge in enumerate(columns):
            out[rows, column] = (weight * charge).sum(axis=1) / total

    run(task, range(0, len(Z), size), n_threads())
    return out
