"""Neighbourhood components analysis, [Goldberger2005] and [Oneata2011] chapter 3.

The derivations are in ``docs/theory/nca.md``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from formulas._common import (
    Array,
    log_kernel,
    log_masses,
    pull_to_points,
    softmax_rows,
    squared_distances,
    weights,
)

__all__ = ["nca", "nca_gradient_printed"]


def nca(
    Z: ArrayLike,
    y: ArrayLike,
    objective: str = "accuracy",
    queries: ArrayLike | None = None,
    references: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    priors: ArrayLike | str | None = None,
    kernel: str = "gaussian",
) -> tuple[float, Array]:
    """Neighbourhood components analysis: mean loss over the queries, and its gradient.

    With reference masses m_ij (v_j, or p(c) v_j over the class's mass; 0 for j = i)::

        own_i = sum_{j: y_j = y_i} m_ij kappa(|z_i - z_j|),   other_i = the same over y_j != y_i
        p_i   = own_i / (own_i + other_i) = sigmoid(log own_i - log other_i)
        loss  = sum_i v_i l_i / sum_i v_i,                    l_i = -p_i or -log p_i

    Parameters
    ----------
    Z : array of shape (n, d)
        Embedded points.
    y : array of shape (n,)
        Labels.
    objective : {"accuracy", "log"}, default="accuracy"
        Loss of a query: ``-p_i`` or ``-log p_i``.
    queries, references : int arrays, default=None
        Positions in `Z`; None stands for all rows.  A row is never its own reference.
    sample_weight : array of shape (n,), default=None
        v: the mass of a row as a reference and its weight as a query.
    priors : None, "uniform" or array of shape (n_classes,), default=None
        None: the mass of reference j is v_j (empirical priors).  Otherwise p(c), in the order of
        ``np.unique(y)``, times the class's density with the query left out.
    kernel : {"gaussian", "student", "laplace", "compact"}, default="gaussian"
        kappa; the Gaussian's is exp(-u^2).

    Returns
    -------
    value : float
        A query with no mass of its own class in range has p_i = 0.  For "accuracy" it counts with
        value 0; for "log" it is left out of sum and divisor.  0.0 if no query counts.
    dZ : ndarray of shape (n, d)

    References
    ----------
    [Goldberger2005], [Oneata2011]
    """
    if objective not in ("accuracy", "log"):
        raise ValueError(f"objective must be 'accuracy' or 'log'. Got {objective!r} instead.")
    Z = np.asarray(Z, dtype=np.float64)
    n = Z.shape[0]
    q = np.arange(n) if queries is None else np.asarray(queries, dtype=np.intp)
    r = np.arange(n) if references is None else np.asarray(references, dtype=np.intp)
    classes, code = np.unique(np.asarray(y), return_inverse=True)
    v = weights(sample_weight, n)

    mass = (q[:, None] != r[None, :]) * v[r]  # p_ii = 0 in [Goldberger2005] eq. (1)
    log_kappa, fall = log_kernel(squared_distances(Z[q], Z[r]), kernel, Z.shape[1])
    T = log_masses(mass, code[r], len(classes), priors) + log_kappa
    same = code[q][:, None] == code[r][None, :]
    log_own, P_own = softmax_rows(np.where(same, T, -np.inf))  # eq. (2), numerator
    log_other, P_other = softmax_rows(np.where(same, -np.inf, T))

    counts = log_own > -np.inf
    log_odds = np.full(len(q), -np.inf)
    np.subtract(log_own, log_other, log_odds, where=counts)
    log_p = -np.logaddexp(0, -log_odds)  # log of eq. (2): log p_i, accurate as p_i -> 1
    log_not_p = -np.logaddexp(0, log_odds)  # log(1 - p_i), accurate as p_i -> 1

    if objective == "accuracy":
        weight, loss = v[q], -np.exp(log_p)  # [Goldberger2005] eq. (3), negated
        slope = np.exp(log_p + log_not_p)  # dp_i / dlog_odds = p_i (1 - p_i)
    else:
        weight, loss = np.where(counts, v[q], 0.0), -np.where(counts, log_p, 0.0)  # eq. (6), neg.
        slope = np.exp(log_not_p)  # dlog p_i / dlog_odds = 1 - p_i
    if not weight.sum() > 0:
        return 0.0, np.zeros_like(Z)
    weight = weight / weight.sum()

    # -W of docs/theory/nca.md: dloss / d|z_i - z_j|^2, the factors of eq. (5) and (7) without x
    G = (weight * slope)[:, None] * (P_own - P_other) * fall  # d log kappa = -fall d|z_i - z_j|^2
    G[~counts] = 0.0
    return float(weight @ loss), pull_to_points(G, Z, q, r)


def nca_gradient_printed(A: ArrayLike, X: ArrayLike, y: ArrayLike) -> tuple[Array, Array]:
    """Gradients of f and g with respect to A exactly as printed, at a cost of N^2 D^2.

    f and g are sums over the points, to be maximised: the loss of `nca` is minus their mean.  For
    checking ``dA = dZ.T @ X``; the printed form divides by p_i, so p_i must not vanish.

    Parameters
    ----------
    A : array of shape (d, D)
    X : array of shape (n, D)
    y : array of shape (n,)
        Every class needs two members.

    Returns
    -------
    df, dg : ndarrays of shape (d, D)
        [Goldberger2005] eq. (5) and eq. (7).
    """
    A, X, y = np.asarray(A, dtype=np.float64), np.asarray(X, dtype=np.float64), np.asarray(y)
    n, D = X.shape
    d2 = squared_distances(X @ A.T)
    np.fill_diagonal(d2, np.inf)
    _, p = softmax_rows(-d2)  # eq. (1)
    sum_f, sum_g = np.zeros((D, D)), np.zeros((D, D))
    for i in range(n):
        all_i, own_i = np.zeros((D, D)), np.zeros((D, D))
        p_i = 0.0
        for k in range(n):
            outer = p[i, k] * np.outer(X[i] - X[k], X[i] - X[k])  # p_ik x_ik x_ik'
            all_i += outer
            if y[k] == y[i]:
                own_i += outer
                p_i += p[i, k]  # eq. (2)
        sum_f += p_i * all_i - own_i  # eq. (5), the bracket
        sum_g += all_i - own_i / p_i  # eq. (7), the bracket
    return 2 * A @ sum_f, 2 * A @ sum_g
