"""Affinities of few rows, by whole arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import pairwise_distances

from vicinal.core.types import Array
from vicinal.targets import Affinities

__all__ = ["affinities"]


def affinities(
    X: Any, k: int, perplexity: float, metric: Any = "euclidean", metric_params: Any = None
) -> Affinities:
    """Marginals of neighbourhoods of k among all rows."""
    n = X.shape[0]
    D = pairwise_distances(X, metric=metric, **(metric_params or {})) ** 2
    np.fill_diagonal(D, np.inf)
    D -= D.min(axis=1, keepdims=True)
    target, log_w = np.log(min(perplexity, n - 1 - 1e-3)), np.empty((n, n))
    for i in range(n):
        log_w[i] = _bisected(D[i], target)
    P, log_total = _marginals(log_w, k)
    entropy = log_total - np.sum(P * np.where(P > 0, log_w, 0.0), axis=1)
    keep = P > 0
    indptr = np.r_[0, np.cumsum(keep.sum(axis=1))].astype(np.int64)
    return Affinities(indptr, np.nonzero(keep)[1].astype(np.int32), P[keep], k, entropy)


def _bisected(d2: Array, target: float) -> Array:
    low, high, beta = 0.0, np.inf, 1.0 / max(float(np.mean(d2[np.isfinite(d2)])), 1e-300)
    for _ in range(200):
        log_w = -beta * d2
        log_p = log_w - np.logaddexp.reduce(log_w)
        p = np.exp(log_p)
        entropy = -np.sum(p * np.where(p > 0, log_p, 0.0))
        if abs(entropy - target) < 1e-6:
            break
        low, high = (beta, high) if entropy > target else (low, beta)
        beta = 2 * beta if np.isinf(high) else 0.5 * (low + high)
    return log_w


def _marginals(log_w: Array, k: int) -> tuple[Array, Array]:
    n, m = log_w.shape
    before, after = (np.full((m + 1, k + 1, n), -np.inf) for _ in range(2))
    before[0, 0] = after[m, 0] = 0.0
    for j in range(m):
        before[j + 1] = before[j]
        before[j + 1, 1:] = np.logaddexp(before[j, 1:], before[j, :-1] + log_w[:, j])
    for j in range(m - 1, -1, -1):
        after[j] = after[j + 1]
        after[j, 1:] = np.logaddexp(after[j + 1, 1:], after[j + 1, :-1] + log_w[:, j])
    total = before[m, k]
    rest = np.logaddexp.reduce(before[:m, :k] + after[1:, k - 1 :: -1][:, :k], axis=1).T
    return np.exp(rest + log_w - total[:, None]), total
