"""Sets of k references of single queries, where power sums of all weights would cancel.

Newton's identities subtract powers of the largest weights.  Here the nearest references are kept
apart, at least 4 k of them: their polynomial comes from a chain of sums and products of logarithms,
where nothing cancels and nothing leaves the range of floats.  The weights of the others are at most
that of the last of the nearest, and their identities lose a few bits at most, whatever the weights
are (docs/theory/ksne.md).  If there are no others, the chain is all there is.
"""

from __future__ import annotations

import numpy as np

from vicinal.kernels._arithmetic import NOTHING, add, times
from vicinal.kernels._blocks import distances
from vicinal.kernels._jit import exp2, inlined, kernel, log2, maximum
from vicinal.kernels.ksne import LOG2_E, WIDTH, add_powers, gaussian_unit, relative_weights


@inlined
def _nearest(d2, n, r, values, places):
    """The r smallest squared distances and where they are, nearest first; the earlier of equals."""
    for s in range(r):
        values[s] = np.inf
        places[s] = -1
    for j in range(n):
        x = d2[j]
        if x < values[r - 1]:
            s = r - 1
            while s > 0 and values[s - 1] > x:
                values[s] = values[s - 1]
                places[s] = places[s - 1]
                s -= 1
            values[s] = x
            places[s] = j


@inlined
def _log2_weight(d2, kappa, gaussian):
    if gaussian:
        energy = -LOG2_E * d2
        return add(energy, np.log2(kappa), 1) if kappa > 0.0 else energy
    if kappa > 0.0:
        return np.log2(1.0 / (1.0 + d2) + kappa)
    return -log2(1.0 + d2)


@inlined
def _share_of_slope(d2, kappa, gaussian):
    """The derivative of -log w by d²."""
    smooth = exp2(-LOG2_E * d2) if gaussian else 1.0 / (1.0 + d2)
    share = smooth / (smooth + kappa) if kappa > 0.0 else 1.0
    return share if gaussian else smooth * share


@inlined
def _elementary(S, unit, log2_unit, out):
    """log2 e_u for u = 0..k from the power sums of weights of at most 1, by Newton's identities.

    ``unit`` divides the weights, so that no polynomial overflows.  What is lost to cancellation is
    far below the polynomials of the nearest; no sign of it may remain.
    """
    k = len(S)
    out[0] = 1.0
    for m in range(k):
        scale = 1.0
        for _ in range(m + 1):
            scale *= unit
        S[m] *= scale
    for u in range(1, k + 1):
        total, sign = 0.0, 1.0
        for m in range(1, u + 1):
            total += sign * out[u - m] * S[m - 1]
            sign = -sign
        out[u] = maximum(total / u, 0.0)
    for u in range(k + 1):
        out[u] = np.log2(out[u]) + u * log2_unit if out[u] > 0.0 else NOTHING


@inlined
def _chain(weights, r, k, before, after):
    """Polynomials of the members from s on, times ``after[r]``, in ``after[s]``.

    The marginals of the members replace their weights.
    """
    for s in range(r - 1, -1, -1):
        after[s, 0] = after[s + 1, 0]
        for u in range(1, k + 1):
            after[s, u] = add(after[s + 1, u], times(after[s + 1, u - 1], weights[s], 1), 1)
    before[:] = NOTHING
    before[0] = 0.0
    total = after[0, k]
    for s in range(r):
        without = NOTHING
        for u in range(k):
            without = add(without, times(before[u], after[s + 1, k - 1 - u], 1), 1)
        weight = weights[s]
        weights[s] = exp2(without + weight - total)
        for u in range(min(s + 1, k), 0, -1):
            before[u] = add(before[u], times(before[u - 1], weight, 1), 1)


@kernel
def ksne_chain(
    Zq, Zr, self_pos, rows, kappa, gaussian, log_total, coefficients, unit, near, near_force,
    t0, t1, work, d2, weights, values, S, before, after,
):  # fmt: skip
    """log e_k of the queries ``rows[t0:t1]``, and what `ksne_pull` needs for their marginals.

    ``near`` (n_rows, at least r) gets the references of which the chain is made, ``near_force``
    their marginals times the derivative of -log w by d².
    """
    n, k = Zr.shape[1], coefficients.shape[1]
    for t in range(t0, t1):
        i = rows[t]
        for c in range(0, n, WIDTH):
            e = min(c + WIDTH, n)
            distances(Zq, Zr, work[:0], i, 0, 0, c, e, d2[c:e])
        available = n
        if self_pos[i] >= 0:
            d2[self_pos[i]] = np.inf
            available -= 1
        r = min(near.shape[1], available)
        near[t, :] = -1
        _nearest(d2, n, r, values, near[t])
        last, largest = values[r - 1], _log2_weight(values[0], kappa, gaussian)
        log2_last = _log2_weight(last, kappa, gaussian) - largest
        if gaussian:
            unit[t] = gaussian_unit(last, kappa)
        else:
            unit[t] = 1.0 / (1.0 / (1.0 + last) + kappa)
        S[:] = 0.0
        for c in range(0, n, WIDTH):
            e = min(c + WIDTH, n)
            relative_weights(d2[c:e], e - c, unit[t], kappa, gaussian, work[0], work[1])
            for s in range(r):
                if c <= near[t, s] < e:
                    work[0, near[t, s] - c] = 0.0
            if c <= self_pos[i] < e:
                work[0, self_pos[i] - c] = 0.0
            add_powers(work[0], work[1], e - c, S)
        scale = maximum(1.0, S[0] / k)
        _elementary(S, 1.0 / scale, log2_last + log2(scale), after[r])
        for s in range(r):
            weights[s] = _log2_weight(values[s], kappa, gaussian) - largest
            if gaussian and kappa == 0.0:
                weights[s] = LOG2_E * (values[0] - values[s])  # of equals exactly 0
        _chain(weights, r, k, before, after)
        total = after[0, k]
        log_total[t] = (total + k * largest) / LOG2_E
        for s in range(r):
            near_force[t, s] = weights[s] * _share_of_slope(values[s], kappa, gaussian)
        # q = sum over m of (-1)^(m-1) w^m e_(k-m) / e_k, w relative to the last of the nearest
        sign = 1.0
        for m in range(1, k + 1):
            coefficients[t, m - 1] = sign * exp2(after[0, k - m] + m * log2_last - total)
            sign = -sign
