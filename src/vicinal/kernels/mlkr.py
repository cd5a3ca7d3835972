"""Means of the charges of references, weighted by the kernel, and the weights of pairs: MLKR.

Layout of points as in :mod:`vicinal.kernels._blocks`; the rows are not sorted by class.
"""

from __future__ import annotations

import numpy as np

from vicinal.kernels._blocks import WIDTH, distances, pull_four, steepen, to_energies
from vicinal.kernels._jit import exp2, helper, kernel, minimum

__all__ = [
    "GRAD_WIDTH",
    "WIDTH",
    "add_charges",
    "charged_grad_block",
    "charged_sums_block",
    "charged_weights",
    "scratch",
]

GRAD_WIDTH = 384  # references at a time: four rows of weights stay in the first-level cache


def scratch(dtype):
    """Scratch for one thread: four rows of weights, then D and E of a row."""
    return np.empty((6, WIDTH), dtype)


@helper
def add_charges(E, V, n, Y, y0, minima, sums, totals, i, W):
    """Add n references to the shift, the sum and the totals of the charges of query i.

    The charges of the references are ``Y[:, y0:y0 + n]``.
    """
    zero, inf = E.dtype.type(0), E.dtype.type(np.inf)
    low = minima[i]
    for j in range(n):
        low = minimum(low, E[j])
    if low == inf:
        return
    if low < minima[i]:
        factor = exp2(low - minima[i])
        sums[i] *= factor
        for k in range(Y.shape[0]):
            totals[k, i] *= factor
        minima[i] = low
    total = zero
    for j in range(n):
        w = V[j] * exp2(low - E[j])
        W[j] = w
        total += w
    sums[i] += total
    for k in range(Y.shape[0]):
        y, total = Y[k, y0 : y0 + n], zero
        for j in range(n):
            total += W[j] * y[j]
        totals[k, i] += total


@helper
def charged_weights(E, V, n, Y, y0, low, offset, slopes, i, W):
    """W = v 2**(low - E) (offset + sum_k slopes[k, i] Y[k])."""
    for j in range(n):
        W[j] = offset
    for k in range(Y.shape[0]):
        y, slope = Y[k, y0 : y0 + n], slopes[k, i]
        for j in range(n):
            W[j] += slope * y[j]
    for j in range(n):
        W[j] *= V[j] * exp2(low - E[j])


@kernel
def charged_sums_block(points, Y, minima, sums, totals, i0, i1, j0, j1, power, work):
    """Add the references j0:j1, of charges Y (q, n), to the sums of the queries i0:i1.

    ``minima`` and ``sums`` are (n_queries,), ``totals`` is (q, n_queries); the other parameters are
    those of :func:`vicinal.kernels.matches.match_sums_block`.
    """
    E = work[5]
    for i in range(i0, i1):
        for c in range(j0, j1, WIDTH):
            e = min(c + WIDTH, j1)
            distances(points.Zq, points.Zr, points.D, i, i0, j0, c, e, E)
            if power is not None:
                to_energies(E, e - c, power)
            if c <= points.self_pos[i] < e:
                E[points.self_pos[i] - c] = np.inf
            add_charges(E, points.vr[c:e], e - c, Y, c, minima, sums, totals, i, work[0])


@kernel
def charged_grad_block(points, Y, shift, offset, slopes, Gq, Gr, i0, i1, j0, j1, power, work):
    """Add the pull of the pairs of queries i0:i1 and references j0:j1 to Gq and Gr, both (d, n).

    The weight of a pair is ``v_j 2**(shift_i - e_ij) (offset_i + sum_k slopes[k, i] Y[k, j])``, for
    kernels other than the Gaussian times their steepness.  Where ``points.D`` holds the squared
    distances, the weights replace them, and the caller gets the gradient by two matrix products.
    """
    products = points.D.shape[0] > 0
    D, E = work[4], work[5]
    zero = D.dtype.type(0)
    for first in range(i0, i1, 4):
        for c in range(j0, j1, GRAD_WIDTH):
            e = min(c + GRAD_WIDTH, j1)
            n, V = e - c, points.vr[c:e]
            for i in range(first, first + 4):
                W = work[i - first]
                if i >= i1:
                    for j in range(n):
                        W[j] = zero
                    continue
                distances(points.Zq, points.Zr, points.D, i, i0, j0, c, e, D)
                for j in range(n):
                    E[j] = D[j]
                if power is not None:
                    to_energies(E, n, power)
                if c <= points.self_pos[i] < e:
                    E[points.self_pos[i] - c] = np.inf
                charged_weights(E, V, n, Y, c, shift[i], offset[i], slopes, i, W)
                if power is not None:
                    steepen(W, D, n, power)
                if products:
                    x = points.D[i - i0, c - j0 : e - j0]
                    for j in range(n):
                        x[j] = W[j]
            if not products:
                pull_four(work, points.Zq, points.Zr, Gq, Gr, c, first, i1, c, e)
