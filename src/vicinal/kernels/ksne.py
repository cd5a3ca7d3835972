"""kSNE over all pairs: power sums of the weights of each query, and the forces of their sets.

Points are transposed, ``(d, n)`` with d even, in float64.  With the Cauchy kernel a weight is
``1 / (1 + d²) + kappa``; with the Gaussian it is ``exp(-d²) + kappa`` relative to a unit of the
row, without which it would leave the range of floats.
"""

from __future__ import annotations

import numpy as np

from vicinal.kernels._arithmetic import add
from vicinal.kernels._blocks import distances
from vicinal.kernels._jit import exp2, inlined, kernel, minimum

#: references at a time: a few vectors of them stay in the first-level cache
WIDTH = 512
LOG2_E = 1.4426950408889634
# log2 of the least Gaussian weight relative to the nearest: powers of smaller ones are denormal
# numbers, which are slow, and nothing beside 1
_FLOOR = -100.0


@inlined
def add_powers(w, power, n, S):
    """Add the sums of w, w², ... to S; two powers a sweep, for memory is slower than arithmetic."""
    k = len(S)
    first = second = 0.0
    if k == 1:
        for j in range(n):
            first += w[j]
        S[0] += first
        return
    for j in range(n):
        x = w[j]
        square = x * x
        first += x
        second += square
        power[j] = square
    S[0] += first
    S[1] += second
    for m in range(2, k - 1, 2):
        first = second = 0.0
        for j in range(n):
            x = power[j] * w[j]
            y = x * w[j]
            first += x
            second += y
            power[j] = y
        S[m] += first
        S[m + 1] += second
    if k % 2:
        first = 0.0
        for j in range(n):
            first += power[j] * w[j]
        S[k - 1] += first


@inlined
def relative_weights(d2, n, unit, kappa, gaussian, v, slope):
    """Weights relative to the unit of the row, and their derivative by -d².

    The unit is a factor, or with the Gaussian kernel the squared distance of weight 1.
    """
    if gaussian:
        constant = kappa * exp2(LOG2_E * unit) if kappa > 0.0 else 0.0
        for j in range(n):
            x = LOG2_E * (unit - d2[j])
            s = exp2(x) if x > _FLOOR else 0.0
            v[j] = s + constant
            slope[j] = s
    else:
        for j in range(n):
            s = 1.0 / (1.0 + d2[j])
            v[j] = (s + kappa) * unit
            slope[j] = (s * unit) * s


@inlined
def gaussian_unit(d2, kappa):
    """The squared distance of weight 1, relative to the weight at ``d2``."""
    if kappa == 0.0:
        return d2
    return -add(-LOG2_E * d2, np.log2(kappa), 1) / LOG2_E


@kernel
def ksne_power_sums(Zq, Zr, self_pos, kappa, gaussian, S, unit, i0, i1, work):
    """Sums over the references of w, w², ..., w^k for queries i0:i1; S is (n, k).

    Gaussian weights are relative to that of the nearest reference; ``unit`` is as in `ksne_pull`.
    """
    n = Zr.shape[1]
    w, power, d2 = work[0], work[1], work[2]
    for i in range(i0, i1):
        if gaussian:
            nearest = np.inf
            for c in range(0, n, WIDTH):
                e = min(c + WIDTH, n)
                distances(Zq, Zr, work[:0], i, 0, 0, c, e, d2)
                if c <= self_pos[i] < e:
                    d2[self_pos[i] - c] = np.inf
                for j in range(e - c):
                    nearest = minimum(nearest, d2[j])
            unit[i] = gaussian_unit(nearest, kappa)
        S[i, :] = 0.0
        for c in range(0, n, WIDTH):
            e = min(c + WIDTH, n)
            distances(Zq, Zr, work[:0], i, 0, 0, c, e, d2)
            if gaussian:
                relative_weights(d2, e - c, unit[i], kappa, gaussian, w, power)
            else:
                for j in range(e - c):
                    w[j] = 1.0 / (1.0 + d2[j]) + kappa
            if c <= self_pos[i] < e:
                w[self_pos[i] - c] = 0.0
            add_powers(w, power, e - c, S[i])


@inlined
def _horner(v, polynomial, slope, n, coefficients, factor):
    """slope becomes ``factor * slope * (c_1 + c_2 v + ... + c_k v^(k-1))``; two powers a sweep."""
    k = len(coefficients)
    if k == 1:
        for j in range(n):
            slope[j] *= factor * coefficients[0]
        return
    top = coefficients[k - 1] if k % 2 else 0.0
    for j in range(n):
        polynomial[j] = top
    for m in range(k - 1 - k % 2, 2, -2):
        a, b = coefficients[m], coefficients[m - 1]
        for j in range(n):
            polynomial[j] = (polynomial[j] * v[j] + a) * v[j] + b
    a, b = coefficients[1], coefficients[0]
    for j in range(n):
        slope[j] *= factor * ((polynomial[j] * v[j] + a) * v[j] + b)


@inlined
def _push(Zq, Zr, i, c, e, force, G, H):
    """Add ``force_j (z_i - z_j)`` to column i of G, and take it from the columns c:e of H."""
    for f in range(0, G.shape[0], 2):
        a, b, first, second = Zq[f, i], Zq[f + 1, i], 0.0, 0.0
        x, y, u, v = Zr[f, c:e], Zr[f + 1, c:e], H[f, c:e], H[f + 1, c:e]
        for j in range(e - c):
            s, t = force[j] * (a - x[j]), force[j] * (b - y[j])
            first += s
            second += t
            u[j] -= s
            v[j] -= t
        G[f, i] += first
        G[f + 1, i] += second


@kernel
def ksne_pull(
    Zq, Zr, self_pos, rows, coefficients, unit, factors, near, near_force, kappa, gaussian, G, H,
    t0, t1, work,
):  # fmt: skip
    """Add the gradient of ``factors_i log e_k(w_i)`` of some queries to G (d, n) and H (d, m).

    Queries are ``rows[t0:t1]``; row t has the marginals ``c_1 v + ... + c_k v^k`` in its weights v
    relative to its unit, except for the references ``near[t]`` (-1: none), whose force is known.
    """
    n = Zr.shape[1]
    v, polynomial, force, d2 = work[0], work[1], work[2], work[3]
    for t in range(t0, t1):
        i = rows[t]
        factor = -2.0 * factors[i]
        for c in range(0, n, WIDTH):
            e = min(c + WIDTH, n)
            distances(Zq, Zr, work[:0], i, 0, 0, c, e, d2)
            relative_weights(d2, e - c, unit[t], kappa, gaussian, v, force)
            _horner(v, polynomial, force, e - c, coefficients[t], factor)
            for s in range(near.shape[1]):
                if c <= near[t, s] < e:
                    force[near[t, s] - c] = factor * near_force[t, s]
            if c <= self_pos[i] < e:
                force[self_pos[i] - c] = 0.0
            _push(Zq, Zr, i, c, e, force, G, H)
