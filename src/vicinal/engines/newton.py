r"""Elementary symmetric polynomials from power sums: sets of k by sums over single references.

With :math:`S_m = \sum_j w_j^m`, Newton's identities are
:math:`u\, e_u = \sum_{m=1}^u (-1)^{m-1} e_{u-m} S_m`, and the chance that j is in a set of k is the
polynomial :math:`q_j = \sum_{m=1}^k (-1)^{m-1} w_j^m e_{k-m} / e_k`.
"""

from __future__ import annotations

import math

import numpy as np

from vicinal.core.types import Array

#: a row goes to the chain where the identities might lose more than this of a marginal
CANCELLATION = 1e-12
# powers of smaller sums leave the range of floats
_LEAST = -250.0 * math.log(10.0)


def near_of(k: int, n_references: int) -> int:
    """How many of the nearest references the chain keeps apart; a set of one has no identities."""
    return min(4 * k if k > 1 else 1, n_references)


def polynomials(S: Array, unit: Array) -> tuple[Array, Array]:
    r"""Polynomials e_0..e_k and h_0..h_k of weights in these units.

    ``S`` is (n, k), the polynomials are (k + 1, n).  The complete polynomials h are the identities
    with plus signs: what the terms of e_u add up to.
    """
    n, k = S.shape
    with np.errstate(all="ignore"):
        scaled = (S / unit[:, None] ** np.arange(1, k + 1)).T
        signed = scaled * (-1.0) ** np.arange(k)[:, None]
        e, h = np.ones((2, k + 1, n))
        for u in range(1, k + 1):
            e[u] = np.einsum("mi,mi->i", e[u - 1 :: -1][:u], signed[:u]) / u
            h[u] = np.einsum("mi,mi->i", h[u - 1 :: -1][:u], scaled[:u]) / u
    return e, h


def newton(S: Array, rounding: Array | float = 2.0**-52) -> tuple[Array, Array, Array]:
    """log e_k, the coefficients of the marginals (n, k), zero in rows that are not safe; the safe.

    ``rounding`` is the relative error of the power sums.  A marginal has at most k h_k / e_k times
    that error: its terms are at most ``h_(k-m) S_m / e_k``, whose sum over m is k h_k / e_k.
    """
    n, k = S.shape
    unit = S[:, 0] / k  # e_k is then between 1 and e^k, unless few weights dominate
    e, h = polynomials(S, unit)
    c = np.empty((n, k))
    with np.errstate(all="ignore"):
        log_unit = np.log(unit)
        log_total = np.log(e[k]) + k * log_unit
        safe = (e[k] > 0) & (rounding * k * h[k] <= CANCELLATION * e[k])
        safe &= (k == 1) | (k * log_unit > _LEAST)
        for m in range(1, k + 1):
            c[:, m - 1] = (-1.0) ** (m - 1) * e[k - m] / e[k] / unit**m
    c[~safe] = 0.0
    return log_total, c, safe
