"""Metric learning for kernel regression, [Weinberger2007].

The derivation is in ``docs/theory/mlkr.md``.
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

__all__ = ["mlkr"]


def mlkr(
    Z: ArrayLike,
    y: ArrayLike,
    queries: ArrayLike | None = None,
    references: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    kernel: str = "gaussian",
) -> tuple[float, Array]:
    """Mean squared error of the leave-one-out kernel regression, and its gradient.

    ::

        p_ij   = v_j kappa(|z_i - z_j|) / sum_{k != i} v_k kappa(|z_i - z_k|)
        yhat_i = sum_j p_ij y_j
        loss   = sum_i v_i |y_i - yhat_i|^2 / sum_i v_i

    Parameters
    ----------
    Z : array of shape (n, d)
    y : array of shape (n,) or (n, q)
    queries, references : int arrays, default=None
        Positions in `Z`; None stands for all rows.  A row is never its own reference.
    sample_weight : array of shape (n,), default=None
        v: the mass of a row as a reference and its weight as a query.
    kernel : {"gaussian", "student", "laplace"}, default="gaussian"

    Returns
    -------
    value : float
        A query without any reference is left out.
    dZ : ndarray of shape (n, d)
    """
    Z, Y = np.asarray(Z, dtype=np.float64), np.asarray(y, dtype=np.float64)
    Y = Y[:, None] if Y.ndim == 1 else Y
    n = Z.shape[0]
    q = np.arange(n) if queries is None else np.asarray(queries, dtype=np.intp)
    r = np.arange(n) if references is None else np.asarray(references, dtype=np.intp)
    v = weights(sample_weight, n)
    log_kappa, fall = log_kernel(squared_distances(Z[q], Z[r]), kernel, Z.shape[1])
    with np.errstate(divide="ignore"):
        log_sum, P = softmax_rows(np.log((q[:, None] != r[None, :]) * v[r]) + log_kappa)
    weight = np.where(log_sum > -np.inf, v[q], 0.0)
    if not weight.sum() > 0:
        return 0.0, np.zeros_like(Z)
    weight = weight / weight.sum()
    prediction = P @ Y[r]
    error = Y[q] - prediction
    # 2 (y_i - yhat_i) p_ij (y_j - yhat_i), summed over the outputs
    G = 2 * P * (error @ Y[r].T - np.sum(error * prediction, axis=1)[:, None])
    G *= weight[:, None] * fall
    return float(weight @ np.sum(error**2, axis=1)), pull_to_points(G, Z, q, r)
