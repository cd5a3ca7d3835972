"""Soft matches over all pairs: sums over what matches a query and over what does not.

A reference j counts with the mass ``m_ij v_j`` among the matches of query i (index 1) and with
``(1 - m_ij) v_j`` among the rest (index 0).  Both sums are taken relative to the nearest reference,
so that one exponential serves both.  If the sum over the matches is then close to the least value
of ``exp2``, because they are all far away, `match_far_block` sums that row again in logarithms.

Layout of points as in :mod:`vicinal.kernels._blocks`; the rows are not sorted by class.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vicinal.kernels._blocks import WIDTH, distances, pull_four, steepen, to_energies
from vicinal.kernels._jit import exp2, helper, kernel, minimum
from vicinal.kernels.match_rows import (
    add_terms,
    from_degrees,
    from_energies,
    pair_weights,
    relative,
)

#: what the matches come from: label distributions, near numbers
DISTRIBUTIONS, SOFT, HARD = 0, 1, 2
GRAD_WIDTH = 384  # references at a time: four rows of weights stay in the first-level cache
#: sums over matches below this, in float32 and float64, are computed again in logarithms
FAR = (2.0**-36, 2.0**-300)


class Matching(NamedTuple):
    """What tells how well query i matches reference j.

    Parameters
    ----------
    kind : int
        DISTRIBUTIONS: ``m = sum_c Tq[c, i] Tr[c, j]``.  SOFT: ``log2 m = -|Tq[:, i] - Tr[:, j]|²``.
        HARD: whether that squared distance is within ``limit``.
    Tq, Tr : (q, n_queries) and (q, n_references)
        DISTRIBUTIONS: q is a multiple of four.
    limit : number
    """

    kind: int
    Tq: NDArray
    Tr: NDArray
    limit: float


def scratch(dtype):
    """Scratch for one thread: four rows of weights, then D, E, U, M and R of a row."""
    return np.empty((9, WIDTH), dtype)


@helper
def _degrees(match, i, c, e, M):
    """M = m, the matches of query i and references c:e, by label distributions."""
    Tq, Tr, zero = match.Tq, match.Tr, M.dtype.type(0)
    for j in range(e - c):
        M[j] = zero
    for k in range(0, Tq.shape[0], 4):
        a, b, u, v = Tq[k, i], Tq[k + 1, i], Tq[k + 2, i], Tq[k + 3, i]
        if a + b + u + v > 0:  # most classes have no share in a row
            x, y, z, w = Tr[k, c:e], Tr[k + 1, c:e], Tr[k + 2, c:e], Tr[k + 3, c:e]
            for j in range(e - c):
                M[j] += (a * x[j] + b * y[j]) + (u * z[j] + v * w[j])


@helper
def _apart(match, i, c, e, U):
    """U = squared distances of the numbers of query i and references c:e."""
    t, x = match.Tq[0, i], match.Tr[0, c:e]
    for j in range(e - c):
        U[j] = (t - x[j]) * (t - x[j])
    for k in range(1, match.Tq.shape[0]):
        t, x = match.Tq[k, i], match.Tr[k, c:e]
        for j in range(e - c):
            U[j] += (t - x[j]) * (t - x[j])


@helper
def _masses(match, V, i, c, e, M):
    """M = m v, the masses of references c:e as matches of query i."""
    one, zero, n = M.dtype.type(1), M.dtype.type(0), e - c
    if match.kind == DISTRIBUTIONS:
        _degrees(match, i, c, e, M)
        for j in range(n):
            M[j] = minimum(M[j], one) * V[j]
        return
    _apart(match, i, c, e, M)
    if match.kind == HARD:
        for j in range(n):
            M[j] = V[j] if M[j] <= match.limit else zero
    else:
        for j in range(n):
            M[j] = exp2(-M[j]) * V[j]


@helper
def _logarithms(match, V, i, c, e, U, M, R):
    """Energies U of the matches, and the masses M and R, of query i and references c:e."""
    if match.kind == DISTRIBUTIONS:
        _degrees(match, i, c, e, M)
        from_degrees(M, V, U, R, e - c)
    else:
        _apart(match, i, c, e, U)
        from_energies(U, V, M, R, e - c, match.kind == HARD, match.limit)


@helper
def _energies(points, i, i0, j0, c, e, power, D, E):
    """Energies of query i and references c:e; D has d², but not for the Gaussian."""
    distances(points.Zq, points.Zr, points.D, i, i0, j0, c, e, E)
    if power is not None:
        for j in range(e - c):
            D[j] = E[j]
        to_energies(E, e - c, power)
    if c <= points.self_pos[i] < e:
        E[points.self_pos[i] - c] = np.inf


@kernel
def match_sums_block(points, match, minima, sums, i0, i1, j0, j1, power, work):
    """Add the references j0:j1 to the minima (n,) and shifted sums (2, n) of the queries i0:i1.

    Parameters
    ----------
    points : Points, whose ``D`` has its corner at (i0, j0)
    match : Matching
    power : None for the Gaussian, (d + 1) / 2 for Student's kernel, 0 for Laplace's
    work : of :func:`scratch`
    """
    E, M = work[5], work[7]
    zero, inf = E.dtype.type(0), E.dtype.type(np.inf)
    for i in range(i0, i1):
        for c in range(j0, j1, WIDTH):
            e = min(c + WIDTH, j1)
            n, V = e - c, points.vr[c:e]
            _energies(points, i, i0, j0, c, e, power, work[4], E)
            low = minima[i]
            for j in range(n):
                low = minimum(low, E[j])
            if low == inf:
                continue
            if low < minima[i]:
                sums[0, i] *= exp2(low - minima[i])
                sums[1, i] *= exp2(low - minima[i])
                minima[i] = low
            _masses(match, V, i, c, e, M)
            if c <= points.self_pos[i] < e:
                M[points.self_pos[i] - c] = V[points.self_pos[i] - c]  # not among the rest
            rest = matches = zero
            for j in range(n):
                x = exp2(low - E[j])
                rest += (V[j] - M[j]) * x
                matches += M[j] * x
            sums[0, i] += rest
            sums[1, i] += matches


@kernel
def match_far_block(points, match, near, minima, sums, is_far, i0, i1, j0, j1, power, work):
    """The same for the queries with ``is_far``, in logarithms.

    ``near`` (n,) are the minima of `match_sums_block`.  ``minima``, less these, and ``sums`` are
    (2, n), for the rest and the matches.
    """
    E, U, M, R = work[5], work[6], work[7], work[8]
    for i in range(i0, i1):
        if not is_far[i] or near[i] == np.inf:
            continue
        for c in range(j0, j1, WIDTH):
            e = min(c + WIDTH, j1)
            V = points.vr[c:e]
            _energies(points, i, i0, j0, c, e, power, work[4], E)
            relative(E, near[i], e - c)
            _logarithms(match, V, i, c, e, U, M, R)
            add_terms(E, U, M, R, V, e - c, minima, sums, i)


@kernel
def match_grad_block(points, match, near, shift, factor, Gq, Gr, i0, i1, j0, j1, power, work):
    """Add the pull of the pairs of queries i0:i1 and references j0:j1 to Gq and Gr, both (d, n).

    Where ``points.D`` holds the squared distances, the weights replace them, and the caller gets
    the gradient by two matrix products.  ``near`` (n,) are the energies of the nearest references,
    ``shift``, less these, and ``factor`` are (2, n); a row whose two shifts differ is computed in
    logarithms.
    """
    products = points.D.shape[0] > 0
    D, E, U, M, R = work[4], work[5], work[6], work[7], work[8]
    zero = D.dtype.type(0)
    for first in range(i0, i1, 4):
        for c in range(j0, j1, GRAD_WIDTH):
            e = min(c + GRAD_WIDTH, j1)
            n, V = e - c, points.vr[c:e]
            for i in range(first, first + 4):
                W = work[i - first]
                if i >= i1 or (factor[0, i] == 0 and factor[1, i] == 0):
                    for j in range(n):
                        W[j] = zero
                else:
                    _energies(points, i, i0, j0, c, e, power, D, E)
                    relative(E, near[i], n)
                    low, a, b = shift[0, i], factor[0, i], factor[1, i]
                    if low == shift[1, i]:
                        _masses(match, V, i, c, e, M)
                        for j in range(n):
                            W[j] = exp2(low - E[j]) * (a * (V[j] - M[j]) + b * M[j])
                    else:
                        _logarithms(match, V, i, c, e, U, M, R)
                        pair_weights(E, U, M, R, V, n, low, shift[1, i], a, b, W)
                    if power is not None:
                        steepen(W, D, n, power)
                if products and i < i1:
                    x = points.D[i - i0, c - j0 : e - j0]
                    for j in range(n):
                        x[j] = W[j]
            if not products:
                pull_four(work, points.Zq, points.Zr, Gq, Gr, c, first, i1, c, e)
