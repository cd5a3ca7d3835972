"""Soft matches from a sparse matrix over all pairs: few of them, one by one.

The rest of the references is summed as one group, relative to the nearest reference; the matches,
which are few, one by one, relative to the nearest of them.  Layout of points as in
:mod:`vicinal.kernels._blocks`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vicinal.kernels._blocks import WIDTH, distances, pull_four, steepen, to_energies
from vicinal.kernels._jit import exp2, helper, kernel, minimum

GRAD_WIDTH = 384  # references at a time: four rows of weights stay in the first-level cache

_LEAST_POWER = (-79.0, -699.0)  # of `exp2`, in float32 and float64


class Sparse(NamedTuple):
    """The matches of each query, in compressed rows, sorted by column.

    ``degrees`` m and ``columns`` of query i are those from ``first[i]`` to ``first[i + 1]``;
    ``rest`` (n_references,) is the mass of a reference for queries that it does not match at all.
    """

    first: NDArray
    columns: NDArray
    degrees: NDArray
    rest: NDArray


def scratch(dtype):
    """Scratch for one thread: four rows of weights, then D, E and R of a row."""
    return np.empty((7, WIDTH), dtype)


@helper
def _from(match, i, c):
    """The first match of query i that is not before reference c."""
    a, b = match.first[i], match.first[i + 1]
    while a < b:
        middle = (a + b) // 2
        if match.columns[middle] < c:
            a = middle + 1
        else:
            b = middle
    return a


@helper
def _power(x, least):
    """2**x, or 0 where `exp2` has its least value, which is large beside a match of 1e-30."""
    return exp2(x) if x > least else type(x)(0)


@helper
def _rest(match, V, i, c, e, R):
    """R = masses of the references c:e as what query i does not match."""
    rest = match.rest[c:e]
    for j in range(e - c):
        R[j] = rest[j]
    a = _from(match, i, c)
    while a < match.first[i + 1] and match.columns[a] < e:
        j = match.columns[a] - c
        R[j] = (R.dtype.type(1) - match.degrees[a]) * V[j]
        a += 1


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
def sparse_sums_block(points, match, minima, sums, i0, i1, j0, j1, power, work):
    """Add the references j0:j1 to the minima and shifted sums (2, n) of the queries i0:i1.

    [0] is for the rest, [1] for the matches; the parameters are those of
    :func:`vicinal.kernels.matches.match_sums_block`.
    """
    E, R = work[5], work[6]
    zero, inf = E.dtype.type(0), E.dtype.type(np.inf)
    least = E.dtype.type(_LEAST_POWER[E.itemsize // 8])
    for i in range(i0, i1):
        for c in range(j0, j1, WIDTH):
            e = min(c + WIDTH, j1)
            n, V = e - c, points.vr[c:e]
            _energies(points, i, i0, j0, c, e, power, work[4], E)
            low = minima[0, i]
            for j in range(n):
                low = minimum(low, E[j])
            if low == inf:
                continue
            if low < minima[0, i]:
                sums[0, i] *= exp2(low - minima[0, i])
                minima[0, i] = low
            _rest(match, V, i, c, e, R)
            if c <= points.self_pos[i] < e:
                R[points.self_pos[i] - c] = zero
            total = zero
            for j in range(n):
                total += R[j] * exp2(low - E[j])
            sums[0, i] += total
            a = _from(match, i, c)
            while a < match.first[i + 1] and match.columns[a] < e:
                j = match.columns[a] - c
                if E[j] < minima[1, i]:
                    sums[1, i] *= _power(E[j] - minima[1, i], least)
                    minima[1, i] = E[j]
                sums[1, i] += match.degrees[a] * V[j] * _power(minima[1, i] - E[j], least)
                a += 1


@kernel
def sparse_grad_block(points, match, shift, factor, Gq, Gr, i0, i1, j0, j1, power, work):
    """Add the pull of the pairs of queries i0:i1 and references j0:j1 to Gq and Gr, both (d, n).

    As :func:`vicinal.kernels.matches.match_grad_block`.
    """
    products = points.D.shape[0] > 0
    D, E, R = work[4], work[5], work[6]
    zero = D.dtype.type(0)
    least = D.dtype.type(_LEAST_POWER[D.itemsize // 8])
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
                    _rest(match, V, i, c, e, R)
                    low, weight = shift[0, i], factor[0, i]
                    for j in range(n):
                        W[j] = weight * R[j] * exp2(low - E[j])
                    a = _from(match, i, c)
                    while a < match.first[i + 1] and match.columns[a] < e:
                        j = match.columns[a] - c
                        power_j = _power(shift[1, i] - E[j], least)
                        W[j] += factor[1, i] * match.degrees[a] * V[j] * power_j
                        a += 1
                    if power is not None:
                        steepen(W, D, n, power)
                if products and i < i1:
                    x = points.D[i - i0, c - j0 : e - j0]
                    for j in range(n):
                        x[j] = W[j]
            if not products:
                pull_four(work, points.Zq, points.Zr, Gq, Gr, c, first, i1, c, e)
