"""Bregman projections of ITML, one pair after the other."""

from __future__ import annotations

from vicinal.kernels._jit import kernel


@kernel
def itml_sweep(X, s, gamma, share, M, lam, inverse_xi, v):
    """Project M once onto the constraint of each pair, in order [Davis2007, algorithm 1].

    Parameters
    ----------
    X : (n, D) float64, differences of the pairs; none is zero
    s : (n,) float64, +1 for similar and -1 for dissimilar pairs
    gamma : weight of the slack, may be inf
    share : gamma / (gamma + 1), or 1
    M : (D, D) float64, row-major; only the lower triangle is used; changed
    lam, inverse_xi : (n,) float64, multipliers and one over the bounds with slack; changed
    v : (D,) float64, work space

    Returns
    -------
    change : sum of the absolute changes of the multipliers
    """
    n, D = X.shape
    change = 0.0
    for c in range(n):
        x = X[c]
        for i in range(D):
            v[i] = 0.0
        for i in range(D):
            row, xi = M[i], x[i]
            total = 0.0
            for j in range(i):
                total += row[j] * x[j]
                v[j] += row[j] * xi
            v[i] += total + row[i] * xi
        p = 0.0
        for i in range(D):
            p += x[i] * v[i]
        alpha = min(lam[c], s[c] * share * (1.0 / p - inverse_xi[c]))
        if alpha == 0.0:
            continue
        lam[c] -= alpha
        inverse_xi[c] += s[c] * alpha / gamma
        change += abs(alpha)
        beta = s[c] * alpha / (1.0 - s[c] * alpha * p)
        for i in range(D):
            row, factor = M[i], beta * v[i]
            for j in range(i + 1):
                row[j] += factor * v[j]
    return change
