"""NCA with soft matches, [Goldberger2005] section 5: any m_ij in place of equal labels.

The derivation is in ``docs/theory/matches.md``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from formulas._common import (
    Array,
    log_kernel,
    pull_to_points,
    softmax_rows,
    squared_distances,
    weights,
)

__all__ = ["matches_of_distributions", "matches_of_numbers", "nca_matches"]


def nca_matches(
    Z: ArrayLike,
    M: ArrayLike,
    objective: str = "accuracy",
    queries: ArrayLike | None = None,
    references: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    kernel: str = "gaussian",
) -> tuple[float, Array]:
    """Mean loss of stochastic neighbours that match, and its gradient.

    ::

        p_ij = v_j kappa(|z_i - z_j|) / sum_{k != i} v_k kappa(|z_i - z_k|)
        p_i  = sum_j m_ij p_ij
        loss = sum_i v_i l_i / sum_i v_i,      l_i = -p_i or -log p_i

    Parameters
    ----------
    Z : array of shape (n, d)
        Embedded points.
    M : array of shape (n, n)
        Matches m_ij in [0, 1]; the diagonal is ignored.
    objective : {"accuracy", "log"}, default="accuracy"
        Loss of a query: ``-p_i`` or ``-log p_i``.
    queries, references : int arrays, default=None
        Positions in `Z`; None stands for all rows.  A row is never its own reference.
    sample_weight : array of shape (n,), default=None
        v: the mass of a row as a reference and its weight as a query.
    kernel : {"gaussian", "student", "laplace"}, default="gaussian"

    Returns
    -------
    value : float
        A query without a match has p_i = 0: "accuracy" counts it, "log" leaves it out.
    dZ : ndarray of shape (n, d)
    """
    Z, M = np.asarray(Z, dtype=np.float64), np.asarray(M, dtype=np.float64)
    n = Z.shape[0]
    q = np.arange(n) if queries is None else np.asarray(queries, dtype=np.intp)
    r = np.arange(n) if references is None else np.asarray(references, dtype=np.intp)
    v = weights(sample_weight, n)
    log_kappa, fall = log_kernel(squared_distances(Z[q], Z[r]), kernel, Z.shape[1])
    with np.errstate(divide="ignore"):
        T = np.log((q[:, None] != r[None, :]) * v[r]) + log_kappa
        log_m, log_rest = np.log(M[np.ix_(q, r)]), np.log1p(-M[np.ix_(q, r)])
    # relative to the nearest: beside a huge distance the digits of log m would be lost
    largest = T.max(axis=1, initial=-np.inf, keepdims=True)
    T -= np.where(np.isfinite(largest), largest, 0.0)
    # right: p_i up to a factor; wrong: 1 - p_i up to the same factor
    log_right, P_right = softmax_rows(T + log_m)
    log_wrong, P_wrong = softmax_rows(T + log_rest)
    counts = log_right > -np.inf
    log_odds = np.full(len(q), -np.inf)
    np.subtract(log_right, log_wrong, log_odds, where=counts)
    log_p, log_not_p = -np.logaddexp(0, -log_odds), -np.logaddexp(0, log_odds)
    if objective == "accuracy":
        weight, loss, slope = v[q], -np.exp(log_p), np.exp(log_p + log_not_p)
    else:
        weight, loss = np.where(counts, v[q], 0.0), -np.where(counts, log_p, 0.0)
        slope = np.exp(log_not_p)
    if not weight.sum() > 0 or not len(r):
        return 0.0, np.zeros_like(Z)
    weight = weight / weight.sum()
    G = (weight * slope)[:, None] * (P_right - P_wrong) * fall
    G[~counts] = 0.0
    return float(weight @ loss), pull_to_points(G, Z, q, r)


def matches_of_distributions(T: ArrayLike) -> Array:
    """m_ij = sum_c t_ic t_jc: the chance that labels drawn for both rows are equal."""
    T = np.asarray(T, dtype=np.float64)
    return np.minimum(T @ T.T, 1.0)


def matches_of_numbers(y: ArrayLike, width: float, hard: bool = False) -> Array:
    """m_ij = exp(-|y_i - y_j|^2 / 2 s^2), or 1 where |y_i - y_j| <= s ([Goldberger2005] sec. 5)."""
    y = np.asarray(y, dtype=np.float64)
    d2 = squared_distances(y[:, None] if y.ndim == 1 else y)
    return (d2 <= width**2).astype(float) if hard else np.exp(-d2 / (2 * width**2))
