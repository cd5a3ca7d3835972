"""Numbers predicted from the stored projections of the training rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from vicinal.core import checks
from vicinal.core.points import check_points
from vicinal.core.types import Array, QueryCost
from vicinal.densities import Gaussian, Kernel
from vicinal.engines import choose
from vicinal.models.stored import StoredRows
from vicinal.targets import Numbers

_GAUSSIAN = Gaussian()


def kernel_means_bytes(Z: Array, q: int) -> int:
    """Bytes of a query in kernel regression, besides its coordinates: copies, and sums."""
    return 3 * Z.itemsize * Z.shape[1] + 8 * (5 * q + 8)


class RegressionModel(StoredRows):
    r"""Kernel regression, or means of the nearest rows.

    .. math:: \hat y = \sum_j p_j y_j, \qquad p_j = \frac{v_j \kappa(\|z - z_j\|)}
              {\sum_k v_k \kappa(\|z - z_k\|)}

    under the rule "kernel", and under "knn" the mean of the k nearest, weighted by v.

    Parameters
    ----------
    Z : array of shape (n, d)
        Projections.
    numbers : Numbers
        The numbers of the rows, and their weights v.
    n_neighbors : int or "auto"
        k; "auto" chooses it by the squared error of each row predicted by the others.
    kernel : Kernel, default=Gaussian()
        Kernel :math:`\kappa`; it must reach everywhere.
    """

    numbers: Numbers
    kernel: Kernel

    def __init__(
        self, Z: Array, numbers: Numbers, n_neighbors: Any, kernel: Kernel = _GAUSSIAN
    ) -> None:
        super().__init__(Z, n_neighbors)
        self.numbers, self.kernel = numbers, kernel

    def check_fields(self) -> None:
        """Refuse fields that do not fit together."""
        super().check_fields()
        checks.need(len(self.numbers) == len(self.Z), "numbers and Z must have as many rows")

    @property
    def n_outputs(self) -> int:
        """Numbers of a row."""
        return self.numbers.values.shape[1]

    def cost(self, rule: str) -> QueryCost:
        """What a prediction costs."""
        if rule == "knn":
            return super().cost(rule)
        d, q = self.Z.shape[1], self.n_outputs
        row_bytes = kernel_means_bytes(self.Z, q)
        return self._cost_of_sums(1.0 + 0.2 * d + 0.3 * q, 12.0 + 1.5 * d + 2.0 * q, row_bytes)

    @property
    def sample_weight(self) -> Array | None:
        """The weights of the training rows."""
        return self.numbers.sample_weight

    @property
    def variance(self) -> float:
        """The variance of the training rows' numbers, summed over the outputs."""
        values, weight = self.numbers.values, self.sample_weight
        centred = values - np.average(values, axis=0, weights=weight)
        return float(np.average(np.sum(centred**2, axis=1), weights=weight))

    def predict(self, Z: Array, rule: str) -> Array:
        """The numbers of some queries, (m, q), under the rule "kernel" or "knn"."""
        return self.nearest_means(Z) if rule == "knn" else self.kernel_means(Z)

    def scores(self, Z: Array, target: Any, rule: str) -> Array:
        """1 - squared error / variance of each query; the mean is about R².

        Where the training rows' numbers do not vary, the squared error is not divided.
        """
        error = np.sum((self.predict(Z, rule) - target.values) ** 2, axis=1)
        return 1.0 - error / (self.variance or 1.0)

    def kernel_means(self, Z: Array) -> Array:
        """Means over all training rows, weighted by the kernel."""
        known = self.known, self.numbers.values, self.sample_weight, self.kernel
        backend = choose.backend(self.known, len(self.Z))
        return self._in_chunks(
            check_points(Z),
            kernel_means_bytes(Z, self.n_outputs),
            lambda part: backend.kernel_means(part, *known),
        )

    def nearest_means(self, Z: Array) -> Array:
        """Means over the k nearest training rows."""
        k = self.n_neighbors

        def answer(queries: Array) -> Array:
            return self._means(self._voters(queries, k))[:, -1]

        return self._in_chunks(Z, (32 + 16 * self.n_outputs) * k, answer)

    def _means(self, near: Array) -> Array:
        """Means of the 1, 2, ..., k nearest rows of each query, (m, k, q)."""
        weight = self.sample_weight
        return running_means(self.numbers.values[near], None if weight is None else weight[near])

    def _scores_without(self, rows: Array, near: Array) -> Array:
        """Minus the squared errors of the means of the 1, 2, ... nearest others."""
        own = self.numbers.values[rows][:, None]
        return -np.sum((self._means(near) - own) ** 2, axis=2)


def running_means(values: Array, weight: Array | None) -> Array:
    """Means of the first 1, 2, ..., k of some numbers (m, k, q), with weights (m, k)."""
    if weight is None:
        return np.cumsum(values, axis=1) / np.arange(1.0, values.shape[1] + 1)[:, None]
    total = np.cumsum(weight, axis=1)[:, :, None]
    return np.cumsum(weight[:, :, None] * values, axis=1) / total
