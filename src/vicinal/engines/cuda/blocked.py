"""All pairs in blocks of rows, by plain torch: where there is no kernel, or no Triton."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from vicinal.core.types import Array
from vicinal.densities import Kernel
from vicinal.engines.base import Data, Means, RowSums, columns_of
from vicinal.engines.cuda.arrays import DeviceArray, exact_products, index, sent
from vicinal.targets import LabelDistributions, Matches, NearNumbers
from vicinal.targets.matches import LEAST_MATCH

_PAIRS = 2**25  # of a block
_LOG2_E = math.log2(math.e)

#: degrees (m, r) to which the rows of a block match all references
Degrees = Callable[[slice], torch.Tensor]


def energies(squared: torch.Tensor, kernel: Kernel, d: int) -> tuple[torch.Tensor, Any]:
    """-ln kappa of squared distances, and its derivative by them; None stands for ones."""
    power = kernel.power(d)
    if power is None:
        return squared, None
    if power == 0.0:  # Laplace
        u = squared.sqrt()
        return u, torch.where(u > 0, 0.5 / u, 0.0)
    return power * torch.log1p(squared), power / (1.0 + squared)


class Pairs:
    """The queries and references of an evaluation, centred, in blocks of queries."""

    def __init__(self, data: Data, kernel: Kernel) -> None:
        self.Z: Any = data.Z
        self.kernel, self.rows = kernel, np.asarray(data.query_rows)
        device = self.Z.tensor.device
        self.q, self.r = index(data.query_rows, device), index(data.reference_rows, device)
        centre = self.Z.tensor[self.r].median(0).values
        self.Zq, self.Zr = self.Z.tensor[self.q] - centre, self.Z.tensor[self.r] - centre
        self.mass = sent(data.mass[data.reference_rows], self.Z, self.Z.dtype)

    def blocks(self) -> Iterator[slice]:
        step = max(1, _PAIRS // max(1, len(self.r)))
        for first in range(0, len(self.q), step):
            yield slice(first, min(first + step, len(self.q)))

    def energies(self, rows: slice) -> tuple[torch.Tensor, Any]:
        """Energies of a block (inf for a row and itself), and their steepness."""
        squared = self.Zq.new_zeros(rows.stop - rows.start, len(self.r))
        # by differences: products would lose the digits of near pairs
        for a, b in zip(self.Zq[rows].T, self.Zr.T, strict=True):
            squared.add_((a[:, None] - b).square_())
        energy, steepness = energies(squared, self.kernel, self.Z.shape[1])
        return energy.masked_fill(self.q[rows, None] == self.r, math.inf), steepness

    def pulled(self, weights: Callable[[slice], torch.Tensor]) -> DeviceArray:
        """Derivative by the points of ``sum w_ij d²_ij``, for the w of each block."""
        dQ, dR = torch.zeros_like(self.Zq), torch.zeros_like(self.Zr)
        with exact_products():
            for rows in self.blocks():
                W = weights(rows)
                dQ[rows] = 2.0 * (W.sum(1)[:, None] * self.Zq[rows] - W @ self.Zr)
                dR += 2.0 * (W.sum(0)[:, None] * self.Zr - W.T @ self.Zq[rows])
        dZ = torch.zeros_like(self.Z.tensor)
        dZ[self.q] = dQ
        dZ[self.r] += dR
        return DeviceArray(dZ)


class BlockedSums:
    """Sums over references that do not match [0], and that do [1]; see `base.ClassSums`.

    Parameters
    ----------
    data, kernel
        As for all engines.
    matches : callable
        ``m, rest = matches(pairs, rows)``: to which degree references match a block of queries,
        and their weight in the other sum.
    """

    name, share = "blocked torch", 1.0

    def __init__(self, data: Data, kernel: Kernel, matches: Any) -> None:
        self.pairs, self.matches = Pairs(data, kernel), matches

    def _terms(self, rows: slice) -> tuple[torch.Tensor, torch.Tensor, Any]:
        """Weights and energies (2, m, r) of a block, and the steepness."""
        energy, steepness = self.pairs.energies(rows)
        m, rest = self.matches(rows)
        weight = torch.stack([rest, m]) * self.pairs.mass
        return weight, torch.where(weight > 0, energy, math.inf), steepness

    def sums(self) -> RowSums:
        """The sums of each query, each relative to its own least energy."""
        found = []
        for rows in self.pairs.blocks():
            weight, energy, _ = self._terms(rows)
            shift = energy.amin(2)
            near = torch.where(shift.isinf(), 0.0, shift)
            total = (weight * torch.exp(near[..., None] - energy)).sum(2).double()
            found.append(torch.stack([total.log2(), shift.double() * _LOG2_E]))
        log2, shift = torch.cat(found, 2).cpu().numpy()
        return RowSums(log2, shift, self.pairs.rows)

    def pull(self, sums: RowSums, slopes: Array) -> DeviceArray:
        """Derivative of ``sum(slopes * ln(sums))`` by the points."""
        columns = columns_of(sums.rows, self.pairs.rows)
        sums, Z = sums.take(columns), self.pairs.Z
        here = np.isfinite(sums.log2)
        log2 = np.where(here, sums.log2, 0.0)
        shift = sent(np.where(here, sums.shift / _LOG2_E, 0.0), Z, Z.dtype)
        factor = sent(np.where(here, -slopes[:, columns] * np.exp2(-log2), 0.0), Z, Z.dtype)

        def weights(rows: slice) -> torch.Tensor:
            weight, energy, steepness = self._terms(rows)
            terms = weight * torch.exp(shift[:, rows, None] - energy) * factor[:, rows, None]
            W = terms.sum(0)
            return W if steepness is None else W * steepness

        return self.pairs.pulled(weights)


def class_matches(data: Data, like: DeviceArray) -> Degrees:
    """Whether rows are of the same class."""
    codes = [sent(data.codes[rows], like) for rows in (data.query_rows, data.reference_rows)]

    def matches(rows: slice) -> Any:
        own = codes[0][rows, None] == codes[1]
        return own.to(like.tensor.dtype), (~own).to(like.tensor.dtype)

    return matches


def soft_matches(data: Data, target: Any, like: DeviceArray) -> Degrees:
    """The degrees that a soft target has; what does not match at all counts with its mass."""
    queries, references, dtype = data.query_rows, data.reference_rows, like.tensor.dtype
    if isinstance(target, Matches):

        def of_matrix(rows: slice) -> Any:
            m = target.between(queries[rows], references).toarray()
            rest = 1.0 - m
            if target.weight is not None:
                rest = np.where(m > 0, rest, target.weight[references])
            return sent(m, like, like.dtype), sent(rest, like, like.dtype)

        return of_matrix
    if not isinstance(target, LabelDistributions | NearNumbers):
        raise TypeError(f"No matches are known for {target!r}.")
    T = sent(target.values, like, np.float64)
    Tq, Tr = T[index(queries, T.device)], T[index(references, T.device)]

    def of_values(rows: slice) -> Any:
        if isinstance(target, LabelDistributions):
            with exact_products():
                m = (Tq[rows] @ Tr.T).clamp(max=1.0)
            m = torch.where(m < LEAST_MATCH, 0.0, m)
            return m.to(dtype), (1.0 - m).to(dtype)
        apart = torch.zeros(rows.stop - rows.start, len(Tr), dtype=T.dtype, device=T.device)
        for a, b in zip(Tq[rows].T, Tr.T, strict=True):
            apart.add_((a[:, None] - b).square_())
        if target.hard:
            m = (apart <= target.width**2).to(dtype)
            return m, 1.0 - m
        energy = apart / (2.0 * target.width**2)
        return torch.exp(-energy).to(dtype), -torch.expm1(-energy).to(dtype)

    return of_values


class BlockedMeans:
    """Means of the charges of the references; see `base.ChargedSums`."""

    name, share = "blocked torch", 1.0

    def __init__(self, data: Data, charges: Array, kernel: Kernel) -> None:
        self.pairs = Pairs(data, kernel)
        self.charges = sent(charges[data.reference_rows], self.pairs.Z, np.float64)

    def _shares(self, rows: slice) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, Any]:
        """Shares (m, r) of the references of a block, in float64, sums, shifts, steepness."""
        energy, steepness = self.pairs.energies(rows)
        shift = energy.amin(1)
        near = torch.where(shift.isinf(), 0.0, shift)
        terms = (self.pairs.mass * torch.exp(near[:, None] - energy)).double()
        total = terms.sum(1)
        terms /= torch.where(total > 0, total, 1.0)[:, None]
        return terms, total, shift, steepness

    def sums(self) -> Means:
        """The sum of the weights, and the means of the charges, of each query."""
        found, means = [], []
        for rows in self.pairs.blocks():
            terms, total, shift, _ = self._shares(rows)
            found.append(torch.stack([total.log2(), shift.double() * _LOG2_E]))
            means.append(terms @ self.charges)
        log2, shift = torch.cat(found, 1).cpu().numpy()
        return Means(log2, shift, torch.cat(means).cpu().numpy(), self.pairs.rows)

    def pull(self, sums: Means, slopes: Array) -> DeviceArray:
        """Derivative of ``sum(slopes * means)`` by the points; over the engine's own references."""
        columns = columns_of(sums.rows, self.pairs.rows)
        means, Z = sums.means[columns], self.pairs.Z
        slope = sent(slopes[columns], Z, np.float64)
        offset = sent(np.sum(slopes[columns] * means, axis=1), Z, np.float64)

        def weights(rows: slice) -> torch.Tensor:
            terms, _, _, steepness = self._shares(rows)
            # d mean / d d² is minus the share of the pair times (charge - mean)
            W = terms * (offset[rows, None] - slope[rows] @ self.charges.T)
            W = W.to(Z.tensor.dtype)
            return W if steepness is None else W * steepness

        return self.pairs.pulled(weights)


def sums_by_class(
    Z: DeviceArray, data: Data, kernel: Kernel, n_classes: int, places: Array | None = None
) -> tuple[Array, Array]:
    """See `base.Backend`."""
    n = len(data.Z)
    both = DeviceArray(torch.cat([data.Z.tensor, Z.tensor.to(data.Z.tensor.dtype)]))
    log2 = np.full((len(Z), n_classes), -np.inf)
    shift = np.full((len(Z), n_classes), np.inf)
    rows = (
        n + np.arange(len(Z))
        if places is None
        else np.where(places < 0, n + np.arange(len(Z)), places)
    )
    codes = data.codes[data.reference_rows]
    for c in np.unique(codes):
        mine = data.reference_rows[codes == c]
        padded = np.concatenate([data.mass, np.ones(len(Z))])
        part = Data(both, np.zeros(n + len(Z), int), padded, rows, mine)
        found = BlockedSums(part, kernel, class_matches(part, both)).sums()
        log2[:, c], shift[:, c] = found.log2[1], found.shift[1]
    return log2, shift
