"""Attraction of kSNE: each row gathers the forces of its own list, in float64.

Lists are those of a symmetric matrix, so that a pair is in the lists of both its rows and no row
writes to another.
"""

from __future__ import annotations

import numpy as np

from vicinal.kernels._jit import exp2, inlined, kernel, log2
from vicinal.kernels.ksne import LOG2_E

#: entries of a list at a time
LENGTH = 512


@inlined
def _gather(Z, i, indices, t, n, difference, d2):
    """Differences of row i to n rows of its list, one row of ``difference`` for each dimension."""
    d = Z.shape[1]
    if d == 2:
        x, y = Z[i, 0], Z[i, 1]
        first, second = difference[0], difference[1]
        for s in range(n):
            j = np.uint32(indices[t + s])  # unsigned: no test for places from the end
            a, b = x - Z[j, 0], y - Z[j, 1]
            first[s] = a
            second[s] = b
            d2[s] = a * a + b * b
        return
    for s in range(n):
        d2[s] = 0.0
    for f in range(d):
        x, row = Z[i, f], difference[f]
        for s in range(n):
            a = x - Z[np.uint32(indices[t + s]), f]
            row[s] = a
            d2[s] += a * a


@inlined
def _energy_and_slope(d2, p, n, kappa, gaussian):
    """The sum of ``-p log2 w``; d2 becomes ``p`` times the derivative of -log w by d²."""
    total = 0.0
    if gaussian and kappa == 0.0:
        for s in range(n):
            total += p[s] * d2[s]
            d2[s] = p[s]
        return total * LOG2_E
    if kappa == 0.0:
        for s in range(n):
            t = 1.0 + d2[s]
            total += p[s] * log2(t)
            d2[s] = p[s] / t
        return total
    for s in range(n):
        smooth = exp2(-LOG2_E * d2[s]) if gaussian else 1.0 / (1.0 + d2[s])
        share = smooth / (smooth + kappa)
        total -= p[s] * np.log2(smooth + kappa)
        d2[s] = p[s] * (share if gaussian else share * smooth)
    return total


@kernel
def ksne_attraction(Z, indptr, indices, P, kappa, gaussian, gradient, i0, i1, dZ, difference, d2):
    """The sum of ``-P_ij log2 w_ij`` over rows i0:i1; dZ gets the gradient of ``-P log w``."""
    d, total = Z.shape[1], 0.0
    for i in range(i0, i1):
        if gradient:
            for f in range(d):
                dZ[i, f] = 0.0
        for t in range(indptr[i], indptr[i + 1], LENGTH):
            n = min(LENGTH, indptr[i + 1] - t)
            _gather(Z, i, indices, t, n, difference, d2)
            total += _energy_and_slope(d2, P[t : t + n], n, kappa, gaussian)
            if gradient:
                for f in range(d):
                    row, part = difference[f], 0.0
                    for s in range(n):
                        part += d2[s] * row[s]
                    dZ[i, f] += 2.0 * part
    return total
