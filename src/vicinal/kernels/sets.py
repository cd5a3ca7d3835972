"""The total weight of all sets of k rows of a list: elementary symmetric polynomials."""

from __future__ import annotations

import numpy as np

from vicinal.kernels._arithmetic import NOTHING, add, times
from vicinal.kernels._jit import exp2, kernel
from vicinal.kernels.knca_lists import FAR, insert


def scratch(length, k):
    """Scratch for one thread: energies beyond the k nearest, the k nearest, polynomials of both."""
    return np.empty(length), np.empty(k), np.empty(k + 1), np.empty(k + 1)


@kernel
def log2_elementary(
    points, indices, first, last, rows, allowed, k, out, q0, q1, far, near, of_near, of_far
):
    """log2 of e_k(2**-d²) of each list; -inf for lists of fewer than k.

    The polynomial of the k nearest is computed in logarithms.  The others have weights of at most 1
    relative to the last of these, and are divided by their number, so that no sum overflows; terms
    that underflow are negligible beside the product of the k nearest.
    """
    d = points.shape[1]
    for q in range(q0, q1):
        i = rows[q]
        n_far = 0
        near[:] = FAR
        for t in range(first[q], last[q]):
            j = indices[t]
            if j == i or not allowed[j]:
                continue
            energy = 0.0
            for c in range(d):
                difference = np.float64(points[j, c]) - np.float64(points[i, c])
                energy += difference * difference
            energy = insert(near, energy)
            if energy < FAR:
                far[n_far] = energy
                n_far += 1
        if near[k - 1] == FAR:
            out[q] = -np.inf
            continue
        of_near[:] = NOTHING
        of_near[0] = 0.0
        for s in range(k):
            for u in range(s + 1, 0, -1):
                of_near[u] = add(of_near[u], times(of_near[u - 1], -near[s], 1), 1)
        of_far[:] = 0.0
        of_far[0] = 1.0
        share = 1.0 / max(n_far, 1)
        for s in range(n_far):
            weight = share * exp2(near[k - 1] - far[s])
            for u in range(k, 0, -1):
                of_far[u] += weight * of_far[u - 1]
        total = NOTHING
        unit = np.log2(1.0 * max(n_far, 1)) - near[k - 1]
        for u in range(min(k, n_far) + 1):
            if of_far[u] > 0.0:
                total = add(total, of_near[k - u] + np.log2(of_far[u]) + u * unit, 1)
        out[q] = total
