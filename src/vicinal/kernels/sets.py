"""The weight of all sets of k rows, of lists: elementary symmetric polynomials of any scale."""

from __future__ import annotations

import numpy as np

from vicinal.kernels._jit import exp2, helper, kernel

__all__ = ["log2_elementary", "scratch"]


def scratch(length, k):
    """Room for one thread: energies beyond the k nearest; those; polynomials of either."""
    return np.empty(length), np.empty(k), np.empty(k + 1), np.empty(k + 1)


@helper
def _log2_add(a, b):
    """log2(2**a + 2**b), of which either may be -inf."""
    high, low = max(a, b), min(a, b)
    return high if low == -np.inf else high + np.log2(1.0 + np.exp2(low - high))


@kernel
def log2_elementary(
    points, indices, first, last, rows, allowed, k, out, q0, q1, far, near, of_near, of_far
):
    """log2 of e_k(2**-d²) of each list; -inf for lists of fewer than k.

    The k nearest are multiplied out by logarithms.  The others have weights of at most 1 beside
    the last of these, and are divided by their number, so that no sum of theirs overflows; what
    underflows is nothing beside the product of the k nearest.
    """
    d = points.shape[1]
    for q in range(q0, q1):
        i = rows[q]
        n_near, n_far = 0, 0
        for t in range(first[q], last[q]):
            j = indices[t]
            if j == i or not allowed[j]:
                continue
            energy = 0.0
            for c in range(d):
                difference = np.float64(points[j, c]) - np.float64(points[i, c])
                energy += difference * difference
            if n_near == k and energy >= near[k - 1]:
                far[n_far] = energy
                n_far += 1
                continue
            if n_near == k:
                far[n_far] = near[k - 1]
                n_far += 1
            else:
                n_near += 1
            place = n_near - 1
            while place > 0 and near[place - 1] > energy:
                near[place] = near[place - 1]
                place -= 1
            near[place] = energy
        if n_near < k:
            out[q] = -np.inf
            continue
        of_near[:] = -np.inf
        of_near[0] = 0.0
        for s in range(k):
            for u in range(s + 1, 0, -1):
                of_near[u] = _log2_add(of_near[u], of_near[u - 1] - near[s])
        of_far[:] = 0.0
        of_far[0] = 1.0
        share = 1.0 / max(n_far, 1)
        for s in range(n_far):
            weight = share * exp2(near[k - 1] - far[s])
            for u in range(k, 0, -1):
                of_far[u] += weight * of_far[u - 1]
        total = -np.inf
        unit = np.log2(1.0 * max(n_far, 1)) - near[k - 1]
        for u in range(min(k, n_far) + 1):
            if of_far[u] > 0.0:
                total = _log2_add(total, of_near[k - u] + np.log2(of_far[u]) + u * unit)
        out[q] = total
