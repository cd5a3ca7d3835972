"""Affinities of the rows of lists: weights of a given perplexity, and marginals of sets of k.

Each list is sorted, nearest first.  The arithmetic is that of `vicinal.affinities.calibration`,
where it is explained; docs/theory/ksne.md, sections 2 and 3.
"""

from __future__ import annotations

import numpy as np

from vicinal.kernels._jit import exp2, helper, inlined, kernel, maximum, minimum

_LOG2_E = 1.4426950408889634
# Weights of less than 2**-70 of the largest change no bit of the entropy.
_REACH = 70.0
_WIDEST, _CLOSEST, _SMALLEST = 1e-8, 50.0, 1e-280
_STEPS, _TOL = 200, 1e-12


@helper
def _within(gaps, count, limit):
    """How many of the first ``count`` gaps, which are sorted, are at most ``limit``."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if gaps[middle] <= limit:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def _moments(gaps, beta):
    """Sums of the weights ``exp(-beta gap)``, and of these times the gap and its square."""
    count = _within(gaps, len(gaps), _REACH / (beta * _LOG2_E))
    rate = -beta * _LOG2_E
    total, first, second = 0.0, 0.0, 0.0
    for t in range(count):
        g = gaps[t]
        w = exp2(rate * g)
        total += w
        first += w * g
        second += w * g * g
    return total, first, second


@helper
def _rate(gaps, log_perplexity):
    """The rate beta at which the weights ``exp(-beta gap)`` have the perplexity.

    Newton steps in log beta; a step out of the bracket becomes a bisection.  Where no rate is high
    enough, the result is one at which all but the nearest have no weight.
    """
    ties = _within(gaps, len(gaps), 0.0)
    low, high = np.log(_WIDEST), np.log(_CLOSEST / maximum(gaps[ties], _SMALLEST))
    at = min(int(np.exp(log_perplexity)), len(gaps) - 1)
    t = -np.log(maximum(gaps[at], _SMALLEST))
    for _ in range(_STEPS):
        if not low < t < high:
            t = 0.5 * (low + high)
        beta = np.exp(t)
        total, first, second = _moments(gaps, beta)
        mean = first / total
        excess = np.log(total) + beta * mean - log_perplexity
        if abs(excess) <= _TOL or high - low <= _TOL:
            break
        if excess > 0.0:
            low = t
        else:
            high = t
        t += excess / maximum(beta * beta * (second / total - mean * mean), 1e-290)
    return np.exp(t)


@kernel
def to_energies(values, indptr, log_perplexity, i0, i1):
    """Turn the squared distances of rows i0:i1 into energies, minus the logs of weights, in place.

    The weights have the perplexity, and the nearest has weight 1.
    """
    for i in range(i0, i1):
        row = values[indptr[i] : indptr[i + 1]]
        if len(row) == 0:
            continue
        nearest, span = row[0], row[-1] - row[0]
        if span <= 0.0 or log_perplexity >= np.log(1.0 * len(row)) - _TOL:
            row[:] = 0.0
            continue
        for t in range(len(row)):
            row[t] = (row[t] - nearest) / span
        beta = _rate(row, log_perplexity)
        for t in range(len(row)):
            row[t] *= beta


def polynomials(length, k):
    """Scratch of one thread: the polynomials before each member, adjoints, ratios of weights."""
    return np.empty((length + 1, k + 1)), np.empty(k + 2), np.empty(k + 1), np.empty(length)


@helper
def _ratios(row, j, k, near, unit, out):
    """Weight of member j over that of member u, for all u <= min(j, k); numbers from 1."""
    if j > k:
        w = near[j - 1]
        for u in range(1, k + 1):
            out[u] = w * unit[u]
        return k
    for u in range(1, j + 1):
        out[u] = exp2((row[u - 1] - row[j - 1]) * _LOG2_E) * unit[0]
    return j


@kernel
def to_marginals(values, indptr, k, entropy, i0, i1, before, adjoint, unit, near, ratio):
    """Turn the energies of rows i0:i1 into marginals, in place, and give the entropy of the sets.

    ``before[j, u]`` is the polynomial of degree u of the first j members, over the product of the
    u largest weights and over ``scale ** u``.
    """
    for i in range(i0, i1):
        row = values[indptr[i] : indptr[i + 1]]
        m = len(row)
        last = row[k - 1]
        rest = 0.0
        for t in range(m):
            w = exp2(minimum(last - row[t], 0.0) * _LOG2_E)
            near[t] = w
            rest += w if t >= k else 0.0
        scale = maximum(1.0, rest / k)
        unit[0] = 1.0 / scale
        for u in range(1, k + 1):
            unit[u] = exp2((row[u - 1] - last) * _LOG2_E) * unit[0]
        before[0, :] = 0.0
        before[0, 0] = 1.0
        for j in range(1, m + 1):
            top = _ratios(row, j, k, near, unit, ratio)
            before[j, 0] = 1.0
            for u in range(1, top + 1):
                before[j, u] = before[j - 1, u] + ratio[u] * before[j - 1, u - 1]
            for u in range(top + 1, k + 1):
                before[j, u] = 0.0
        # the entropy is that of the sets: -sum p log w + log e_k(w)
        heat = np.log(before[m, k]) + k * np.log(scale)
        adjoint[:] = 0.0
        adjoint[k] = 1.0 / before[m, k]
        for j in range(m, 0, -1):
            top = _ratios(row, j, k, near, unit, ratio)
            p = 0.0
            for u in range(1, top + 1):
                p += ratio[u] * adjoint[u] * before[j - 1, u - 1]
            for u in range(1, top):
                adjoint[u] += ratio[u + 1] * adjoint[u + 1]
            p = minimum(p, 1.0)
            heat += (p - 1.0 if j <= k else p) * row[j - 1]
            near[j - 1] = p
        entropy[i] = maximum(heat, 0.0)
        for t in range(m):
            row[t] = near[t]


@kernel
def exact_distances(X, Y, rows, indptr, indices, values, i0, i1):
    """Squared distances of lists by differences, and the lists sorted by them, then by index.

    Differences of equal rows are exactly zero, which inner products do not guarantee.
    """
    for i in range(i0, i1):
        start, stop = indptr[i], indptr[i + 1]
        for t in range(start, stop):
            j = indices[t]
            total = 0.0
            for c in range(X.shape[1]):
                difference = np.float64(X[rows[i], c]) - np.float64(Y[j, c])
                total += difference * difference
            s = t
            while s > start and (
                values[s - 1] > total or (values[s - 1] == total and indices[s - 1] > j)
            ):
                values[s] = values[s - 1]
                indices[s] = indices[s - 1]
                s -= 1
            values[s] = total
            indices[s] = j
