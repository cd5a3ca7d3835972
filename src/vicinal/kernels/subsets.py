"""From the members of a class to its polynomial, and from the votes of a class to its members.

All arrays have lanes (queries) last.  What a lane knows of a class is ``T``, ``E`` and ``theta`` of
:mod:`vicinal.kernels.knca`; what comes out for the votes is ``F`` (C, k + 1, W), the elementary
symmetric polynomials F_c[m] = e_m of the weights of class c, relative to ``2**-nearest``, in the
arithmetic that ``log`` chooses (:mod:`vicinal.kernels._arithmetic`).  Everything here is O(C k²)
a query, in float64.
"""

from __future__ import annotations

import numpy as np

from vicinal.kernels._arithmetic import LEAST, NOTHING, add, one, times
from vicinal.kernels._jit import exp2, helper, kernel, minimum

__all__ = ["class_polynomials", "class_slopes", "slopes_room"]

_LARGEST = 1000.0  # exponent: beyond, plain numbers overflow and a lane is flagged by its weights


def slopes_room(k, lanes):
    """Room for one thread: polynomials after each member of T, weights, and adjoints."""
    return np.zeros((k + 4, k + 1, lanes))


@helper
def _member_weights(T, nearest, far, out, log):
    """Weight of each member of T, 0 for absent ones; powers that vanish end at 2**-700."""
    for s in range(T.shape[0]):
        t, w = T[s], out[s]
        for i in range(len(nearest)):
            if log is None:
                w[i] = exp2(nearest[i] - t[i]) if t[i] < 0.5 * far else 0.0
            else:
                w[i] = nearest[i] - t[i] if t[i] < 0.5 * far else NOTHING


@helper
def _rest(E, theta, nearest, far, out, log):
    """Polynomial of the members that are not in T."""
    n = len(nearest)
    for i in range(n):
        out[0, i] = one(log)
    for u in range(E.shape[0]):
        e, x = E[u], out[u + 1]
        for i in range(n):
            # without a scale there are no such members
            shift = minimum((u + 1) * (nearest[i] - theta[i]), _LARGEST)
            if log is None:
                x[i] = e[i] * exp2(shift)
            else:
                x[i] = np.log2(e[i]) + (u + 1) * (nearest[i] - theta[i]) if e[i] > 0 else NOTHING


@helper
def _join(before, w, out, log):
    """Multiply a polynomial by 1 + w x."""
    for i in range(before.shape[1]):
        out[0, i] = one(log)
    for m in range(out.shape[0] - 1, 0, -1):  # highest degrees first: out may be before
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
    F : (C, k + 1, W), result
    room : of `slopes_room`
    """
    k = T.shape[1]
    for c in range(T.shape[0]):
        weights = room[k + 1]
        _member_weights(T[c], nearest, far, weights, log)
        _rest(E[c], theta[c], nearest, far, F[c], log)
        for s in range(k - 1, -1, -1):
            _join(F[c], weights[s], F[c], log)


@helper
def _plain(x, log):
    if log is None:
        return x
    return exp2(x) if x > -700.0 else 0.0


@helper
def _seed(F, P, A, log):
    """Derivatives by the coefficients, from those by their logarithms."""
    for m in range(1, F.shape[0]):
        f, p, a = F[m], P[m], A[m]
        for i in range(F.shape[1]):
            if log is None:
                a[i] = p[i] / f[i] if f[i] >= LEAST else 0.0
            else:
                there = p[i] > 0 and f[i] > 0.5 * NOTHING
                a[i] = np.log2(p[i]) - f[i] if there else NOTHING


@helper
def _back(before, w, A, total, log):
    """Derivative by a member's log-weight in total; A becomes that of the polynomial without it."""
    k, n = A.shape[0] - 1, A.shape[1]
    x, a = before[0], A[1]
    for i in range(n):
        total[i] = times(a[i], x[i], log)
    for m in range(2, k + 1):
        x, a = before[m - 1], A[m]
        for i in range(n):
            total[i] = add(total[i], times(a[i], x[i], log), log)
    for i in range(n):
        total[i] = times(total[i], w[i], log)
    for m in range(1, k):
        a, b = A[m], A[m + 1]
        for i in range(n):
            a[i] = add(a[i], times(w[i], b[i], log), log)


@kernel
def class_slopes(T, E, theta, nearest, far, P, factor, values, slopes, room, log):
    """Add what the votes say of a class to what is said of its members.

    Parameters
    ----------
    T, E, theta, nearest, far : as in `class_polynomials`
    P : (C, k + 1, W) derivative of the loss by log F_c[m]; not negative in the log domain
    factor : what to multiply the results by
    values : (C, k, W) derivative by the log-weight of each member of T; in-out
    slopes : (C, k, W) coefficients b_v: that of any other member, whose weight relative to theta
        is w, is ``w sum_v b_v (-w)**v``; in-out
    room : of `slopes_room`
    """
    k, n = T.shape[1], T.shape[2]
    weights, A, total = room[k + 1], room[k + 2], room[k + 3, 0]
    for c in range(T.shape[0]):
        _member_weights(T[c], nearest, far, weights, log)
        _rest(E[c], theta[c], nearest, far, room[k], log)
        for s in range(k - 1, -1, -1):
            _join(room[s + 1], weights[s], room[s], log)
        _seed(room[0], P[c], A, log)
        for s in range(k):
            _back(room[s + 1], weights[s], A, total, log)
            for i in range(n):
                # a probability: rounding may leave the logarithms of huge energies above
                x = total[i] if log is None else _plain(minimum(total[i], 0.0), log)
                values[c, s, i] += factor * x
        # A is now the derivative by the polynomial of the rest, relative to nearest
        for u in range(1, k + 1):
            a = A[u]
            for i in range(n):
                there = T[c, k - 1, i] < 0.5 * far
                shift = u * (nearest[i] - theta[c, i])
                if log is None:
                    x = a[i] * exp2(minimum(shift, _LARGEST))
                else:
                    # at most the number of ways to choose u of k, so much for rounding again
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
