"""Soft matches of one query, in logarithms: for rows whose matches are far away, and for lists.

Energies are log2 of the reciprocal: E of the kernel, less that of the query's nearest row
(`relative`), U of the match, inf where there is none.  Far out, the energy itself is so large that
E + U would lose the digits of U.  V are the masses of the references, M those of the matches,
``m v``, and R those of the rest, ``(1 - m) v``.  The two sums of a query are shifted by their own
least energy, of E for the rest (index 0) and of E + U for the matches (index 1); one exponential
serves both as long as the shifts are within ``_ROOM``.
"""

from __future__ import annotations

import numpy as np

from vicinal.kernels._jit import exp2, helper, log2, maximum, minimum

# For float32 and float64: shifts that differ by so many powers of two share an exponential.
_ROOM = (20.0, 200.0)
# The logarithm of matches: `log2` is for numbers above sqrt(1/2), and the least match is 1e-30.
_UNIT, _LOG_UNIT, _LEAST = 2.0**100, 100.0, 1e-30


@helper
def from_degrees(M, V, U, R, n):
    """Turn degrees m in M into masses ``m v``, energies U, and masses R of the rest."""
    one, zero, inf = M.dtype.type(1), M.dtype.type(0), M.dtype.type(np.inf)
    unit, log_unit, least = M.dtype.type(_UNIT), M.dtype.type(_LOG_UNIT), M.dtype.type(_LEAST)
    for j in range(n):
        m = minimum(M[j], one)
        there = m >= least
        U[j] = log_unit - log2(maximum(m, least) * unit) if there else inf
        R[j] = (one - m) * V[j]
        M[j] = m * V[j] if there else zero


@helper
def from_energies(U, V, M, R, n, hard, limit):
    """The same from squared distances of numbers in U; if hard, matches are 0 or 1."""
    one, zero, inf = M.dtype.type(1), M.dtype.type(0), M.dtype.type(np.inf)
    if hard:
        for j in range(n):
            there = U[j] <= limit
            M[j] = V[j] if there else zero
            R[j] = zero if there else V[j]
            U[j] = zero if there else inf
    else:
        for j in range(n):
            m = exp2(-U[j])
            M[j] = m * V[j]
            R[j] = (one - m) * V[j]


@helper
def relative(E, near, n):
    """Subtract the energy of the nearest row from E.

    In a loop of its own: beside another sum it may be reassociated.
    """
    for j in range(n):
        E[j] -= near


@helper
def add_terms(E, U, M, R, V, n, minima, sums, i):
    """Add n references to the shifts and sums of query i; U becomes E + U."""
    zero, inf = E.dtype.type(0), E.dtype.type(np.inf)
    old0, old1 = minima[0, i], minima[1, i]
    low0, low1 = old0, old1
    # stored, so that both passes round E + U alike: beside its use it may be reassociated
    for j in range(n):
        U[j] += E[j]
    for j in range(n):
        low0 = minimum(low0, E[j] if R[j] > 0 else inf)
        low1 = minimum(low1, U[j])
    if low0 < old0:
        sums[0, i] *= exp2(low0 - old0)
        minima[0, i] = low0
    if low1 < old1:
        sums[1, i] *= exp2(low1 - old1)
        minima[1, i] = low1
    total0 = total1 = zero
    apart = _apart(low0, low1)
    if abs(apart) <= E.dtype.type(_ROOM[E.itemsize // 8]):
        shift = maximum(low0, low1)
        for j in range(n):
            x = exp2(shift - E[j])
            total0 += R[j] * x
            total1 += M[j] * x
        sums[0, i] += total0 * exp2(low0 - shift)
        sums[1, i] += total1 * exp2(low1 - shift)
        return
    if low0 < inf:
        for j in range(n):
            # a match may be nearer than the nearest of the rest: its power could overflow
            total0 += R[j] * exp2(minimum(low0 - E[j], zero))
        sums[0, i] += total0
    if low1 < inf:
        for j in range(n):
            total1 += V[j] * exp2(low1 - U[j])
        sums[1, i] += total1


@helper
def _apart(low0, low1):
    """The difference of two shifts; far apart if one of them is infinite, never NaN."""
    big = type(low0)(1e30)
    return minimum(low1, big) - minimum(low0, big) if low0 < big and low1 < big else big


@helper
def pair_weights(E, U, M, R, V, n, low0, low1, factor0, factor1, W):
    """W = factor0 R 2**(low0 - E) + factor1 M 2**(low1 - E), without overflow; U becomes E + U."""
    zero = E.dtype.type(0)
    if abs(low1 - low0) <= E.dtype.type(_ROOM[E.itemsize // 8]):
        shift = maximum(low0, low1)
        a, b = factor0 * exp2(low0 - shift), factor1 * exp2(low1 - shift)
        for j in range(n):
            W[j] = exp2(shift - E[j]) * (a * R[j] + b * M[j])
        return
    for j in range(n):
        U[j] += E[j]
    for j in range(n):
        W[j] = factor0 * R[j] * exp2(minimum(low0 - E[j], zero))
        W[j] += factor1 * V[j] * exp2(low1 - U[j])
