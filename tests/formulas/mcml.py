"""Maximally collapsing metric learning, [Globerson2005].

The derivations are in ``docs/theory/mcml.md``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from formulas._common import (
    Array,
    pull_to_points,
    softmax_rows,
    squared_distances,
    weights,
)

__all__ = ["mcml", "mcml_gradient_printed"]


def mcml(
    Z: ArrayLike,
    y: ArrayLike,
    queries: ArrayLike | None = None,
    references: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> tuple[float, Array]:
    """Mean divergence of the queries' choices from the ideal ones, and its gradient.

    With reference masses v_j, and 0 for j = i::

        p_ij  = v_j exp(-|z_i - z_j|^2) / sum_k v_k exp(-|z_i - z_k|^2)
        p0_ij = v_j / sum_{k: y_k = y_i} v_k   if y_j = y_i, else 0
        loss  = sum_i v_i KL(p0_i || p_i) / sum_i v_i

    Parameters
    ----------
    Z : array of shape (n, d)
        Embedded points.
    y : array of shape (n,)
        Labels.
    queries, references : int arrays, default=None
        Positions in `Z`; None stands for all rows.  A row is never its own reference.
    sample_weight : array of shape (n,), default=None
        v: the mass of a row as a reference and its weight as a query.

    Returns
    -------
    value : float
        A query without a reference of its class is left out of sum and divisor.  0.0 if no query
        counts.
    dZ : ndarray of shape (n, d)

    References
    ----------
    [Globerson2005]
    """
    Z, y = np.asarray(Z, dtype=np.float64), np.asarray(y)
    n = Z.shape[0]
    q = np.arange(n) if queries is None else np.asarray(queries, dtype=np.intp)
    r = np.arange(n) if references is None else np.asarray(references, dtype=np.intp)
    v = weights(sample_weight, n)

    same = (y[q][:, None] == y[r][None, :]) & (q[:, None] != r[None, :])
    q = q[(same * v[r]).sum(axis=1) * v[q] > 0]  # those with a reference of their class
    if not len(q):
        return 0.0, np.zeros_like(Z)
    mass = (q[:, None] != r[None, :]) * v[r]
    d2 = squared_distances(Z[q], Z[r])
    with np.errstate(divide="ignore"):
        T = np.log(mass) - d2
    log_total, P = softmax_rows(T)  # the choice of each query
    own = mass * (y[q][:, None] == y[r][None, :])
    P0 = own / own.sum(axis=1, keepdims=True)  # the ideal choice
    log_ratio = np.log(P0, where=P0 > 0, out=np.zeros_like(P0))
    np.subtract(log_ratio, T - log_total[:, None], out=log_ratio, where=P0 > 0)

    weight = v[q] / v[q].sum()
    G = weight[:, None] * (P0 - P)  # dloss / d|z_i - z_j|^2
    return float(weight @ (P0 * log_ratio).sum(axis=1)), pull_to_points(G, Z, q, r)


def mcml_gradient_printed(M: ArrayLike, X: ArrayLike, y: ArrayLike) -> Array:
    """Gradient with respect to ``M = A'A`` of the sum over the points, as printed.

    ``sum_ij (p0_ij - p_ij) (x_j - x_i)(x_j - x_i)'``, at a cost of N^2 D^2.

    Parameters
    ----------
    M : array of shape (D, D)
        Symmetric, positive semi-definite.
    X : array of shape (n, D)
    y : array of shape (n,)
        Every class needs two members.

    Returns
    -------
    dM : ndarray of shape (D, D)
    """
    M, X, y = np.asarray(M, dtype=np.float64), np.asarray(X, dtype=np.float64), np.asarray(y)
    differences = X[:, None, :] - X[None, :, :]
    d2 = np.einsum("ijk,kl,ijl->ij", differences, M, differences)
    np.fill_diagonal(d2, np.inf)
    _, P = softmax_rows(-d2)
    P0 = (y[:, None] == y[None, :]) & ~np.eye(len(y), dtype=bool)
    P0 = P0 / P0.sum(axis=1, keepdims=True)
    return np.einsum("ij,ijk,ijl->kl", P0 - P, differences, differences)
