"""Predictions of several learnt metrics: the weighted mean of what each of them says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from vicinal.core import checks
from vicinal.core.types import Array, QueryCost
from vicinal.densities import Gaussian, Kernel, Laplace
from vicinal.engines import choose
from vicinal.models.regression import RegressionModel, kernel_means_bytes
from vicinal.models.votes import NeighbourModel
from vicinal.objectives import nca_posterior
from vicinal.targets import Labels, Numbers

_GAUSSIAN = Gaussian()


@dataclass(frozen=True)
class Ballots:
    """What belongs to each of several maps whose points stand side by side.

    Parameters
    ----------
    widths : int array of shape (n_maps,)
        Dimensions of each map.
    weights : array of shape (n_maps,)
        Weight of each vote; they add up to one.  The points of a map are multiplied by its root.
    kernels : list of Kernel
        Gaussian or Laplace.
    """

    widths: Array
    weights: Array
    kernels: list

    def check_fields(self) -> None:
        """Refuse fields that do not fit together."""
        n = len(self.kernels)
        checks.indices(self.widths, "widths", n, 2**31)
        checks.double(self.weights, 1, "weights", (n,))
        checks.need(n >= 1 and (self.widths >= 1).all(), "maps need dimensions")
        checks.need((self.weights > 0).all(), "weights must be positive")
        known = all(isinstance(kernel, Gaussian | Laplace) for kernel in self.kernels)
        checks.need(known, "kernels must be Gaussian or Laplace")

    def __len__(self) -> int:
        return len(self.kernels)

    def each(self, *points: Array) -> Iterator[tuple[float, Kernel, list[Array]]]:
        """Weight and kernel of each map, and its points at the scale of its kernel."""
        ends = np.cumsum(self.widths)
        for end, width, weight, kernel in zip(
            ends, self.widths, self.weights, self.kernels, strict=True
        ):
            root = points[0].dtype.type(np.sqrt(weight))
            yield float(weight), kernel, [Z[:, end - width : end] / root for Z in points]

    def cost(self, model: Any, row_bytes: float) -> QueryCost:
        """What a prediction costs: that of all maps one after the other."""
        d, n = model.Z.shape[1], len(self)
        return model._cost_of_sums(2.0 * n + 0.15 * d, 12.0 * n + 1.2 * d, row_bytes)


class VoteModel(NeighbourModel):
    """Class probabilities: the weighted mean of the stochastic neighbours of each map.

    Parameters
    ----------
    Z : array of shape (n, d)
        The points of all maps side by side, each times the root of its weight.
    labels : Labels
    n_neighbors : int or "auto"
        k of the votes of the nearest rows in Z.
    ballots : Ballots
    """

    ballots: Ballots

    def __init__(self, Z: Array, labels: Labels, n_neighbors: Any, ballots: Ballots) -> None:
        super().__init__(Z, labels, n_neighbors)
        self.ballots = ballots

    def check_fields(self) -> None:
        """Refuse fields that do not fit together."""
        super().check_fields()
        checks.need(self.ballots.widths.sum() == self.Z.shape[1], "widths and Z do not agree")

    def cost(self, rule: str) -> QueryCost:
        """What a prediction costs; the time is a bound, because far rows are left out."""
        if rule == "knn":
            return super().cost(rule)
        return self.ballots.cost(self, (16.0 + 4 * self.Z.itemsize) * self.n_outputs)

    def _posterior(self, Z: Array) -> Array:
        """The weighted mean of the maps' posteriors."""
        total = np.zeros((len(Z), self.n_outputs))
        for weight, kernel, (queries, stored) in self.ballots.each(Z, self.Z):
            total += weight * nca_posterior(queries, stored, self.labels, kernel)
        return total


class VoteRegressionModel(RegressionModel):
    """Numbers: the weighted mean of the kernel regressions of each map.

    Parameters
    ----------
    Z, n_neighbors, ballots
        As in `VoteModel`.
    numbers : Numbers
    """

    ballots: Ballots

    def __init__(self, Z: Array, numbers: Numbers, n_neighbors: Any, ballots: Ballots) -> None:
        super().__init__(Z, numbers, n_neighbors, _GAUSSIAN)
        self.ballots = ballots

    def check_fields(self) -> None:
        """Refuse fields that do not fit together."""
        super().check_fields()
        checks.need(self.ballots.widths.sum() == self.Z.shape[1], "widths and Z do not agree")

    def cost(self, rule: str) -> QueryCost:
        """What a prediction costs."""
        if rule == "knn":
            return super().cost(rule)
        return self.ballots.cost(self, kernel_means_bytes(self.Z, self.n_outputs))

    def kernel_means(self, Z: Array) -> Array:
        """The weighted mean of the maps' kernel regressions."""
        values, weight = self.numbers.values, self.sample_weight
        backend = choose.backend(self.Z, len(self.Z))

        def answer(part: Array) -> Array:
            total = np.zeros((len(part), self.n_outputs))
            for share, kernel, (queries, stored) in self.ballots.each(part, self.Z):
                total += share * backend.kernel_means(queries, stored, values, weight, kernel)
            return total

        return self._in_chunks(Z, kernel_means_bytes(Z, self.n_outputs), answer)
