"""Repulsion and attraction of small data, as whole arrays in NumPy: see `base.SetSums`."""

from __future__ import annotations

import numpy as np

from vicinal.core.types import Array
from vicinal.targets import Affinities

__all__ = ["DenseSets", "attraction"]


def _weights(Z: Array, W: Array, kernel: str, kappa: float) -> tuple[Array, Array]:
    """log w of all pairs, and the derivative of -log w by the squared distance."""
    d2 = np.sum((Z[:, None] - W[None]) ** 2, axis=2)
    log_w = -d2 if kernel == "gaussian" else -np.log1p(d2)
    slope = np.ones_like(d2) if kernel == "gaussian" else np.exp(log_w)
    if kappa > 0:
        smooth = log_w
        log_w = np.logaddexp(smooth, np.log(kappa))
        slope = slope * np.exp(smooth - log_w)
    return log_w, slope


def attraction(
    Z: Array, target: Affinities, kernel: str, kappa: float, query_rows: Array, references: Array
) -> tuple[float, Array]:
    """The sum of ``-p_ij log w_ij`` over the queries and references, and its gradient by Z."""
    Z = Z.astype(np.float64, copy=False)
    P = target.matrix.toarray()[np.ix_(query_rows, references)]
    log_w, slope = _weights(Z[query_rows], Z[references], kernel, kappa)
    W = P * slope
    dZ = np.zeros_like(Z)
    dZ[query_rows] += 2 * (W.sum(axis=1)[:, None] * Z[query_rows] - W @ Z[references])
    dZ[references] += 2 * (W.sum(axis=0)[:, None] * Z[references] - W.T @ Z[query_rows])
    return float(-np.sum(P * log_w)), dZ


class DenseSets:
    """Sums over all sets of k references, by a chain over the references."""

    name = "dense"

    def __init__(
        self, Z: Array, k: int, kernel: str, kappa: float, query_rows: Array, references: Array
    ) -> None:
        self.Z, self.k = Z.astype(np.float64, copy=False), k
        self.query_rows, self.references = query_rows, references
        log_w, self.slope = _weights(self.Z[query_rows], self.Z[references], kernel, kappa)
        own = query_rows[:, None] == references
        self.log_w = np.where(own, -np.inf, log_w)
        self.facts = {"chain_rows": float(len(query_rows))}

    def sums(self) -> Array:
        """The log of the total weight of all sets of k, for each query."""
        n, m = self.log_w.shape
        k = self.k
        before, after = (np.full((m + 1, k + 1, n), -np.inf) for _ in range(2))
        before[0, 0] = after[m, 0] = 0.0
        for j in range(m):
            before[j + 1] = before[j]
            before[j + 1, 1:] = np.logaddexp(before[j, 1:], before[j, :-1] + self.log_w[:, j])
        for j in range(m - 1, -1, -1):
            after[j] = after[j + 1]
            after[j, 1:] = np.logaddexp(after[j + 1, 1:], after[j + 1, :-1] + self.log_w[:, j])
        total = before[m, k]
        rest = np.logaddexp.reduce(before[:m, :k] + after[1:, k - 1 :: -1][:, :k], axis=1).T
        self.q = np.exp(rest + self.log_w - total[:, None])
        return total

    def pull(self, factors: Array) -> Array:
        """The gradient by Z of the sum of ``factors`` times the sums."""
        W = factors[:, None] * -self.q * self.slope
        i, j, dZ = self.query_rows, self.references, np.zeros_like(self.Z)
        dZ[i] += 2 * (W.sum(axis=1)[:, None] * self.Z[i] - W @ self.Z[j])
        dZ[j] += 2 * (W.sum(axis=0)[:, None] * self.Z[j] - W.T @ self.Z[i])
        return dZ
