"""Class polynomials from class summaries, and slopes of class members from slopes of the votes.

Lanes (queries) are the last axis of all arrays.  A lane's summary of a class is ``T``, ``E`` and
``theta`` of :mod:`vicinal.kernels.knca`.  The votes need ``F`` (C, k + 1, W), the elementary
symmetric polynomials F_c[m] = e_m of the weights of class c, relative to ``2**-nearest``, in the
arithmetic selected by ``log`` (:mod:`vicinal.kernels._arithmetic`).  Everything here is O(C k²) per
query, in float64.
"""

from __future__ import annotations

import numpy as np

from vicinal.kernels._arithmetic import NOTHING, add, one, times
from vicinal.kernels._jit import exp2, helper, kernel, minimum

#: exponent below which plain weights count as 0; above it, none becomes denormal
LOWEST = -1000.0
_HIGHEST = 1000.0  # above it sums overflow, which marks the lane for logarithms
#: largest weight of won or lost sets at which no sum has overflowed; after an overflow the weight
#: may be NaN (infinity times a class without members): tests are written so that NaN fails them
MOST = 2.0**1000
_SPARE_BITS = 70  # lost terms must be lighter than kept ones by this many bits


def least_weight(n, k):
    """The least weight of sets of k of n references for which plain numbers suffice.

    Sets with a member too light for plain numbers weigh less than binom(n, k) times that limit in
    all, which is negligible compared with it.
    """
    lost = LOWEST + k * np.log2(max(2.0, np.e * n / k))
    return 2.0 ** min(max(lost + _SPARE_BITS, -880.0), 1000.0)


def slopes_room(k, lanes):
    """Scratch for one thread: polynomials after each member of T, weights, and adjoints."""
    return np.zeros((k + 4, k + 1, lanes))


@helper
def _power(x):
    """2**x over the whole range of plain numbers; exp2 itself stops at 2**-700."""
    half = exp2(0.5 * minimum(x, _HIGHEST))
    return half * half if x > LOWEST else 0.0


@helper
def _member_weights(T, nearest, far, out, log):
    """Weight of each member of T, 0 for absent ones."""
    for s in range(T.shape[0]):
        t, w = T[s], out[s]
        for i in range(len(nearest)):
            if log is None:
                w[i] = _power(nearest[i] - t[i]) if t[i] < 0.5 * far else 0.0
            else:
                w[i] = nearest[i] - t[i] if t[i] < 0.5 * far else NOTHING


@helper
def _rest(E, theta, nearest, out, log):
    """Polynomial of the members that are not in T."""
    n = len(nearest)
    for i in range(n):
        out[0, i] = one(log)
    for u in range(E.shape[0]):
        e, x = E[u], out[u + 1]
        for i in range(n):
            shift = (u + 1) * (nearest[i] - theta[i])
            if log is None:
                x[i] = e[i] * _power(shift)
            else:
                x[i] = np.log2(e[i]) + shift if e[i] > 0 else NOTHING


@helper
def _join(before, w, out, log):
    """Multiply a polynomial by 1 + w x."""
    for i in range(before.shape[1]):
        out[0, i] = one(log)
    for m in range(out.shape[0] - 1, 0, -1):  # highest degrees first: ``out`` may be ``before``
        x, y, z = before[m], before[m - 1], out[m]
        for i in range(len(w)):
            z[i] = add(x[i], times(w[i], y[i], log), log)


@kernel
def class_polynomials(T, E, theta, nearest, far, F, room, log):
    """F of every class: the rest R first, then the members of T, the farthest first.

    Parameters
    ----------
    T, E : (C, k, W) and theta : (C, W), of `knca_collect`
    nearest : (W,) smallest energy of all classes; 0 where there is no reference
    far : energy of absent members
    F : (C, k + 1, W), out
    room : of `slopes_room`
    """
    k = T.shape[1]
    for c in range(T.shape[0]):
        weights = room[k + 1]
        _member_weights(T[c], nearest, far, weights, log)
        _rest(E[c], theta[c], nearest, F[c], log)
        for s in range(k - 1, -1, -1):
            _join(F[c], weights[s], F[c], log)


@helper
def _plain(x, log):
    if log is None:
        return x
    return exp2(x) if x > -700.0 else 0.0


@kernel
def class_slopes(T, E, theta, nearest, far, P, factor, values, slopes, room, log):
    """Add to the slopes of the members of each class, from the slopes of the votes.

    Parameters
    ----------
    T, E, theta, nearest, far : as in `class_polynomials`
    P : (C, k + 1, W) derivative of the loss by log F_c[m]; not negative in the log domain
    factor : multiplies the results
    values : (C, k, W) derivative by the log-weight of each member of T; in-out
    slopes : (C, k, W) coefficients b_v: that of any other member, whose weight relative to theta
        is w, is ``w sum_v b_v (-w)**v``; in-out
    room : of `slopes_room`
    """
    k, n = T.shape[1], T.shape[2]
    weights, A, total = room[k + 1], room[k + 2], room[k + 3, 0]
    for c in range(T.shape[0]):
        _member_weights(T[c], nearest, far, weights, log)
        _rest(E[c], theta[c], nearest, room[k], log)
        for s in range(k - 1, -1, -1):
            _join(room[s + 1], weights[s], room[s], log)
        # derivatives by the coefficients, from those by their logarithms
        for m in range(1, k + 1):
            f, p, a = room[0, m], P[c, m], A[m]
            for i in range(n):
                if log is None:
                    a[i] = p[i] / f[i] if f[i] > 1e-300 else 0.0
                else:
                    there = p[i] > 0 and f[i] > 0.5 * NOTHING
                    a[i] = np.log2(p[i]) - f[i] if there else NOTHING
        for s in range(k):
            # derivative by a member's log-weight in total; A becomes that without it
            w, x, a = weights[s], room[s + 1, 0], A[1]
            for i in range(n):
                total[i] = times(a[i], x[i], log)
            for m in range(2, k + 1):
                x, a = room[s + 1, m - 1], A[m]
                for i in range(n):
                    total[i] = add(total[i], times(a[i], x[i], log), log)
            for i in range(n):
                total[i] = times(total[i], w[i], log)
            for m in range(1, k):
                a, b = A[m], A[m + 1]
                for i in range(n):
                    a[i] = add(a[i], times(w[i], b[i], log), log)
            for i in range(n):
                # a probability: with huge energies, rounding of logarithms may give more than 1
                x = total[i] if log is None else _plain(minimum(total[i], 0.0), log)
                values[c, s, i] += factor * x
        # A is now the derivative by the polynomial of the rest, relative to nearest
        for u in range(1, k + 1):
            a = A[u]
            for i in range(n):
                there = T[c, k - 1, i] < 0.5 * far
                shift = u * (nearest[i] - theta[c, i])
                if log is None:
                    x = a[i] * _power(shift)
                else:
                    # at most binom(k, u) < 2**k; again because of rounding
                    x = _plain(minimum(times(a[i], shift, log), float(k)), log)
                a[i] = factor * x if there else 0.0
        for v in range(k):
            b = slopes[c, v]
            a = A[v + 1]
            for i in range(n):
                b[i] += a[i]
            for u in range(v + 2, k + 1):
                a, e = A[u], E[c, u - 2 - v]
                for i in range(n):
                    b[i] += a[i] * e[i]
