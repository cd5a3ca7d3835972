"""The distance of two points, squared Euclidean or chi-squared, and its derivative.

The flag ``chi2`` selects one; it is the same for all pairs of a call, so that the branch costs
nothing.  The square root of either is a metric (for chi-squared: [Topsoe2000], triangular
discrimination), on which the lists of :mod:`vicinal.engines.cpu.impostors` rely.
"""

from __future__ import annotations

import numpy as np

from vicinal.kernels._jit import inlined


@inlined
def distance(u, v, chi2):
    """``sum (u - v)²``, or ``1/2 sum (u - v)² / (u + v)`` with 0 / 0 = 0."""
    zero, half = u.dtype.type(0), u.dtype.type(0.5)
    total = zero
    d = np.uint32(len(u))
    if not chi2:
        for f in range(d):
            r = u[f] - v[f]
            total += r * r
        return total
    tiny = u.dtype.type(1e-35 if u.itemsize == 4 else 1e-300)  # for 0 / 0; negligible elsewhere
    for f in range(d):
        r = u[f] - v[f]
        total += r * r / (u[f] + v[f] + tiny)
    return half * total


@inlined
def add_slope(u, v, weight, chi2, out):
    """Add to ``out`` the weight times the derivative of the distance by u.

    The derivative is ``2 (u - v)``, or ``t - t² / 2`` with ``t = (u - v) / (u + v)``:
    [OlsenPetersen] eq. (14) in terms of ``dZ``.
    """
    half = u.dtype.type(0.5)
    d = np.uint32(len(u))
    if not chi2:
        twice = weight + weight
        for f in range(d):
            out[f] += twice * (u[f] - v[f])
        return
    tiny = u.dtype.type(1e-35 if u.itemsize == 4 else 1e-300)
    for f in range(d):
        t = (u[f] - v[f]) / (u[f] + v[f] + tiny)
        out[f] += weight * (t - half * t * t)
