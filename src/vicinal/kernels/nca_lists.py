"""NCA over candidate lists: each query visits the rows of its own list and no others.

Layout.  One packed row for each point, ``(n, width)``: its d coordinates (scaled as for the
tiles), its mass as a reference (0: not one) and the code of its class.  The rows of a list lie
anywhere in memory, so all that a pair needs should come with one line of the cache.

A list is first gathered into scratch, members of the other classes (index 0) apart from those of
the own class (index 1); then all arithmetic runs over contiguous arrays.  ``near`` is what the
kernel's family takes a row's shift from: the smallest squared distance (Gaussian), 1 plus that
(Student), 1 minus that (Compact).
"""

from __future__ import annotations

import numpy as np

from vicinal.kernels._jit import exp2, helper, kernel, maximum, minimum

__all__ = ["COMPACT", "GAUSSIAN", "STUDENT", "nca_lists_grad", "nca_lists_sums", "scratch"]

# as in vicinal.densities
GAUSSIAN, STUDENT, COMPACT = 0, 1, 2


def scratch(length, dtype):
    """Room for one thread: distances, masses and weights of either kind, and their rows."""
    return np.empty((6, length), dtype), np.empty((2, length), np.int32)


@helper
def _gather(P, d, indices, first, last, i, work, found):
    """Squared distances, masses and rows of one list; how many of either kind, -1 if beyond P.

    Rows that are no references, and i itself, are passed over.
    """
    n_other = n_own = 0
    whole = d - d % 4
    own = P[i, d + 1]
    for t in range(first, last):
        j = indices[t]
        if j < 0 or j >= P.shape[0]:
            return -1, -1
        mass = P[j, d]
        if mass == 0 or j == i:
            continue
        d2 = P.dtype.type(0)
        for k in range(0, whole, 4):
            a, b = P[i, k] - P[j, k], P[i, k + 1] - P[j, k + 1]
            c, e = P[i, k + 2] - P[j, k + 2], P[i, k + 3] - P[j, k + 3]
            d2 += (a * a + b * b) + (c * c + e * e)
        for k in range(whole, d):
            a = P[i, k] - P[j, k]
            d2 += a * a
        if P[j, d + 1] == own:
            work[1, n_own], work[3, n_own], found[1, n_own] = d2, mass, j
            n_own += 1
        else:
            work[0, n_other], work[2, n_other], found[0, n_other] = d2, mass, j
            n_other += 1
    return n_other, n_own


@helper
def _near(D, n, family):
    """What the sum of these distances is taken relative to."""
    low = D.dtype.type(np.inf)
    for t in range(n):
        low = minimum(low, D[t])
    if family == GAUSSIAN:
        return low
    one = D.dtype.type(1)
    return one + low if family == STUDENT else maximum(one - low, D.dtype.type(0))


@helper
def _raise(R, W, n, d):
    """W *= R**((d + 1) / 2), by squaring; R is used up."""
    if d % 2 == 0:
        for t in range(n):
            W[t] *= np.sqrt(R[t])
    power = (d + 1) // 2
    while power > 0:
        if power % 2:
            for t in range(n):
                W[t] *= R[t]
        power //= 2
        if power > 0:
            for t in range(n):
                R[t] *= R[t]


@helper
def _terms(D, M, W, n, d, family, near):
    """W = mass * kappa / kappa at the nearest; D becomes the ratio that kappa is a power of."""
    if family == GAUSSIAN:
        for t in range(n):
            W[t] = M[t] * exp2(near - D[t])
        return
    one, zero = D.dtype.type(1), D.dtype.type(0)
    if family == STUDENT:
        for t in range(n):
            D[t] = near / (one + D[t])
            W[t] = M[t]
        _raise(D, W, n, d)
        return
    inverse = one / near if near > 0 else zero
    for t in range(n):
        q = maximum(one - D[t], zero) * inverse
        W[t] = M[t] * q * q


@helper
def _slopes(D, M, W, n, d, family, near, factor):
    """W = -factor * mass * kappa' / kappa at the nearest, kappa' the derivative by d²."""
    if family == GAUSSIAN:  # e^-d² is its own derivative
        for t in range(n):
            W[t] = factor * M[t] * exp2(near - D[t])
        return
    one, zero = D.dtype.type(1), D.dtype.type(0)
    if family == STUDENT:  # (d + 1) / 2 kappa / (1 + d²)
        scale = factor * D.dtype.type(0.5 * (d + 1)) / near
        for t in range(n):
            D[t] = near / (one + D[t])
            W[t] = scale * M[t] * D[t]
        _raise(D, W, n, d)
        return
    scale = D.dtype.type(2) * factor / (near * near)  # 2 (1 - d²): [Oneata2011] eq. (4.17)
    for t in range(n):
        W[t] = scale * M[t] * maximum(one - D[t], zero)


@kernel
def nca_lists_sums(P, d, indices, first, last, rows, near, sums, q0, q1, family, work, found):
    """Nearest point and sum of kappa relative to it, of queries q0:q1; False if out of bounds.

    Parameters
    ----------
    P : (n, width) packed points, see the top of this file; d their dimensions
    indices : the lists, one after the other; that of query q is ``first[q]:last[q]``
    rows : (n_queries,) row of each query in P
    near, sums : (2, n_queries) results, [0] other classes, [1] own class
    work, found : of :func:`scratch`, for the longest list
    """
    for q in range(q0, q1):
        n_other, n_own = _gather(P, d, indices, first[q], last[q], rows[q], work, found)
        if n_own < 0:
            return False
        for kind in range(2):
            n = n_own if kind else n_other
            D, W = work[kind], work[4 + kind]
            near[kind, q] = sums[kind, q] = 0
            if n == 0:
                continue
            near[kind, q] = _near(D, n, family)
            _terms(D, work[2 + kind], W, n, d, family, near[kind, q])
            total = P.dtype.type(0)
            for t in range(n):
                total += W[t]
            sums[kind, q] = total
    return True


@kernel
def nca_lists_grad(
    P, d, indices, first, last, rows, near, factor, Gq, Gr, q0, q1, family, work, found
):
    """Pull of the pairs of queries q0:q1: Gq is set, (n_queries, d), and Gr added to, (n, d)."""
    for q in range(q0, q1):
        i = rows[q]
        n_other, n_own = _gather(P, d, indices, first[q], last[q], i, work, found)
        for k in range(d):
            Gq[q, k] = 0
        for kind in range(2):
            n = n_own if kind else n_other
            if n == 0 or factor[kind, q] == 0:
                continue
            W, J = work[4 + kind], found[kind]
            _slopes(work[kind], work[2 + kind], W, n, d, family, near[kind, q], factor[kind, q])
            for t in range(n):
                w, j = W[t], J[t]
                for k in range(d):
                    pull = w * (P[i, k] - P[j, k])
                    Gq[q, k] += pull
                    Gr[j, k] -= pull
    return
