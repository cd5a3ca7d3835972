"""Compiled engine for means of charges (`base.ChargedSums`), and such means at new points."""

from __future__ import annotations

import numpy as np

from vicinal.core.points import with_range
from vicinal.core.types import Array
from vicinal.densities import Kernel
from vicinal.engines.base import Data, Means, columns_of
from vicinal.engines.cpu.pair_blocks import PairBlocks
from vicinal.kernels import mlkr as kernels
from vicinal.targets.labels import plain_mass


class BlockChargedSums:
    """Means of charges over all pairs, in blocks; see `base.ChargedSums`."""

    name, share = "blocks", 1.0

    def __init__(self, data: Data, charges: Array, kernel: Kernel) -> None:
        self.data, self.kernel = data, kernel
        self.blocks = PairBlocks(data, kernel, kernels.scratch)
        dtype = data.Z.dtype
        self.Y = np.ascontiguousarray(charges[data.reference_rows].T, dtype=dtype)

    def sums(self) -> Means:
        """The sum of the weights, and the means of the charges, of each query."""
        n, dtype = self.blocks.queries.n, self.data.Z.dtype
        minima, sums = np.full(n, np.inf, dtype), np.zeros(n, dtype)
        totals = np.zeros((len(self.Y), n), dtype)
        self.blocks.sum_up(
            lambda points, block, work: kernels.charged_sums_block(
                points, self.Y, minima, sums, totals, *block, self.blocks.power, work
            )
        )
        return means_of(minima, sums, totals, self.data.query_rows)

    def pull(self, sums: Means, slopes: Array) -> Array:
        """Derivative of ``sum(slopes * means)`` by the points, (n, d)."""
        queries = columns_of(sums.rows, self.data.query_rows)
        sums, slopes = sums.take(queries), slopes[queries]
        Z = self.data.Z
        shift, offset, factors, largest = factors_of(sums, slopes, Z.dtype)
        Gq, Gr = self.blocks.pull(
            lambda points, Gq, Gr, block, work: kernels.charged_grad_block(
                points, self.Y, shift, offset, factors, Gq, Gr, *block, self.blocks.power, work
            ),
            Z.shape[1],
        )
        dZ = np.zeros_like(Z)
        largest = Z.dtype.type(2.0 / self.kernel.coordinate_scale * largest)
        dZ[self.data.query_rows] = Gq.T * largest
        dZ[self.data.reference_rows] += Gr.T * largest
        return dZ


def means_of(minima: Array, sums: Array, totals: Array, rows: Array) -> Means:
    with np.errstate(divide="ignore"):
        log2 = np.log2(sums, dtype=np.float64)
    means = totals.T.astype(np.float64) / np.where(sums > 0, sums, 1.0)[:, None]
    return Means(log2, minima.astype(np.float64), means, rows)


def factors_of(sums: Means, slopes: Array, dtype: np.dtype) -> tuple[Array, Array, Array, float]:
    """Shifts, and the factors of the charges with their constant, as kernels want them.

    d mean / d d² of a pair is minus its share of the sum times (charge - mean).
    """
    empty = np.isneginf(sums.log2)
    shift = np.where(empty, 0.0, sums.shift).astype(dtype)
    factors = -slopes * np.where(empty, 0.0, np.exp2(-np.where(empty, 0.0, sums.log2)))[:, None]
    largest = float(np.abs(factors).max(initial=0.0)) or 1.0  # late in training all are tiny
    factors /= largest
    offset = -np.sum(factors * sums.means, axis=1).astype(dtype)
    return shift, offset, np.ascontiguousarray(factors.T, dtype=dtype), largest


def kernel_means(
    Z: Array, Z_reference: Array, charges: Array, mass: Array | None, kernel: Kernel
) -> Array:
    """The weighted mean of the references' charges at each point, (n, q); see `Backend`."""
    everyone = np.ones(len(Z_reference)) if mass is None else mass
    mass = plain_mass(everyone, np.arange(len(everyone)))
    # a common constant changes nothing else, and without it float32 keeps more digits
    centre = charges.mean(axis=0)
    return charged_means(Z, Z_reference, charges - centre, mass, kernel).means + centre


def charged_means(
    Z: Array, Z_reference: Array, charges: Array, mass: Array, kernel: Kernel
) -> Means:
    """The weighted means of the references' charges at points, in their order.

    They can be merged with the means over other references (`engines.base.merge_means`).
    """
    n, everyone = len(Z), np.arange(len(Z) + len(Z_reference))
    references = n + np.flatnonzero(mass)  # those so light that no sum changes are left out
    if not len(references):
        nothing = np.full(n, np.inf)
        return Means(-nothing, nothing, np.zeros((n, charges.shape[1])), everyone[:n])
    Z_reference = with_range(Z_reference, mass[references - n], Z)
    points = np.concatenate([Z, Z_reference], dtype=Z_reference.dtype)
    everything = np.concatenate([np.zeros((n, charges.shape[1])), charges])
    masses = np.concatenate([np.ones(n), mass])
    classes = np.zeros(len(everyone), dtype=np.intp)
    data = Data(points, classes, masses, everyone[:n], references)
    return BlockChargedSums(data, everything, kernel).sums()
