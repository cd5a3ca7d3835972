"""NCA over candidate lists: each query visits only the rows of its own list.

Layout.  One packed row for each point, ``(n, width)``: its d coordinates (scaled as for the
tiles), its mass as a reference (0: not a reference) and its class code; the width is a multiple of
four.  The rows of a list are scattered in memory, so that all data of a pair should be in one cache
line.

A list is first gathered into scratch: its distances, and its masses as members of the other
classes (index 0) and of the own class (index 1), one of which is 0.  Then all arithmetic runs over
contiguous arrays without a branch.  ``near`` defines a row's shift in each family of kernels: the
smallest squared distance (Gaussian), 1 plus that (Student), 1 minus that (Compact), its root
(Laplace).
"""

from __future__ import annotations

import numpy as np

from vicinal.kernels._blocks import steepness
from vicinal.kernels._jit import exp2, helper, kernel, maximum, minimum

# as in vicinal.densities
GAUSSIAN, STUDENT, COMPACT, LAPLACE = 0, 1, 2, 3


def scratch(length, dtype):
    """Scratch for one thread: distances, masses of both kinds, powers and weights of a list."""
    return np.empty((6, length), dtype)


def pack(Z, codes, mass, centre, scale):
    """Points in the packed layout of these kernels."""
    n, d = Z.shape
    # a multiple of four numbers: few rows then cross a cache line
    points = np.zeros((n, -(-(d + 2) // 4) * 4), Z.dtype)
    np.subtract(Z, centre, out=points[:, :d])
    points[:, :d] *= Z.dtype.type(scale)
    points[:, d] = mass
    points[:, d + 1] = codes
    return points


def energies(near, d, family):
    """-log2 kappa at the nearest point."""
    if family in (GAUSSIAN, LAPLACE):
        return near
    with np.errstate(divide="ignore"):
        log_near = np.log2(near, dtype=np.float64)
    return 0.5 * (d + 1) * log_near if family == STUDENT else -2.0 * log_near


def nearest(energy, d, family):
    """The inverse of :func:`energies`, in the dtype of ``energy``."""
    if family in (GAUSSIAN, LAPLACE):
        return energy
    exponent = 2.0 / (d + 1) if family == STUDENT else -0.5
    return np.exp2(exponent * energy.astype(np.float64)).astype(energy.dtype)


@helper
def within(J, n_rows):
    """Whether all rows of a list exist."""
    low, high = np.int32(0), np.int32(0)
    for t in range(len(J)):
        low, high = min(low, J[t]), max(high, J[t])
    return low >= 0 and high < n_rows


@helper
def gather(P, d, J, i, D, others, own):
    """Squared distances from row i to rows J, and the masses of these; 0 for row i itself."""
    n = len(J)
    zero, code = P.dtype.type(0), P[i, d + 1]
    whole = d - d % 4
    for t in range(n):
        j = np.uint32(J[t])  # unsigned: numba then omits the check for negative indices
        mass = P[j, d] if J[t] != i else zero
        same = P[j, d + 1] == code
        own[t] = mass if same else zero
        others[t] = zero if same else mass
        D[t] = zero
    for k in range(np.uint32(0), np.uint32(whole), np.uint32(4)):
        a, b, c, e = P[i, k], P[i, k + 1], P[i, k + 2], P[i, k + 3]
        for t in range(n):
            j = np.uint32(J[t])
            r, s, u, v = a - P[j, k], b - P[j, k + 1], c - P[j, k + 2], e - P[j, k + 3]
            D[t] += (r * r + s * s) + (u * u + v * v)
    for k in range(np.uint32(whole), np.uint32(d)):
        a = P[i, k]
        for t in range(n):
            r = a - P[np.uint32(J[t]), k]
            D[t] += r * r


@helper
def _near(D, M, n, family):
    """``near`` of the members with a mass; 0 if there are none."""
    inf = D.dtype.type(np.inf)
    low = inf
    for t in range(n):
        low = minimum(low, D[t] if M[t] > 0 else inf)
    one, zero = D.dtype.type(1), D.dtype.type(0)
    if low == inf:
        return zero
    if family == GAUSSIAN:
        return low
    if family == LAPLACE:
        return np.sqrt(low)
    return one + low if family == STUDENT else maximum(one - low, zero)


@helper
def _raise(R, W, n, d):
    """W *= R**((d + 1) / 2), by squaring; overwrites R."""
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
def _terms(D, M, R, W, n, d, family, near):
    """W = mass * kappa / kappa at the nearest.

    A row without mass may be nearer than the nearest row with mass; its ratio is capped at 1,
    since its power might be infinite.
    """
    one, zero = D.dtype.type(1), D.dtype.type(0)
    if family == GAUSSIAN:
        for t in range(n):
            W[t] = M[t] * exp2(minimum(near - D[t], zero))
    elif family == STUDENT:
        for t in range(n):
            R[t] = minimum(near / (one + D[t]), one)
            W[t] = M[t]
        _raise(R, W, n, d)
    elif family == LAPLACE:
        for t in range(n):
            W[t] = M[t] * exp2(minimum(near - np.sqrt(D[t]), zero))
    else:
        inverse = one / near if near > 0 else zero
        for t in range(n):
            q = minimum(maximum(one - D[t], zero) * inverse, one)
            W[t] = M[t] * q * q


@helper
def _add_slopes(D, M, R, V, W, n, d, family, near, factor):
    """W -= factor * mass * kappa' / kappa at the nearest, with kappa' the derivative by d²."""
    one, zero = D.dtype.type(1), D.dtype.type(0)
    if family == GAUSSIAN:  # e^-d² is its own derivative
        for t in range(n):
            W[t] += factor * M[t] * exp2(minimum(near - D[t], zero))
    elif family == STUDENT:  # (d + 1) / 2 kappa / (1 + d²)
        scale = factor * D.dtype.type(0.5 * (d + 1)) / near
        for t in range(n):
            R[t] = minimum(near / (one + D[t]), one)
            V[t] = scale * M[t] * R[t]
        _raise(R, V, n, d)
        for t in range(n):
            W[t] += V[t]
    elif family == LAPLACE:  # kappa / 2d
        for t in range(n):
            u = np.sqrt(D[t])
            W[t] += factor * M[t] * exp2(minimum(near - u, zero)) * steepness(D[t], u)
    else:  # 2 (1 - d²), as in [Oneata2011] eq. (4.19)
        scale = D.dtype.type(2) * factor / (near * near)
        for t in range(n):
            W[t] += scale * M[t] * maximum(one - D[t], zero)


@kernel
def nca_lists_sums(P, d, indices, first, last, rows, near, sums, q0, q1, family, work):
    """``near`` and the sums relative to it, of queries q0:q1; False if a row does not exist.

    Parameters
    ----------
    P : (n, width) packed points, see the top of this file; d their dimensions
    indices : the lists, one after the other; that of query q is ``first[q]:last[q]``
    rows : (n_queries,) row of each query in P
    near, sums : (2, n_queries), out, [0] other classes, [1] own class
    work : of :func:`scratch`, for the longest list
    """
    D, R, W = work[0], work[3], work[4]
    for q in range(q0, q1):
        J = indices[first[q] : last[q]]
        n = len(J)
        if not within(J, P.shape[0]):
            return False
        gather(P, d, J, rows[q], D, work[1], work[2])
        for kind in range(2):
            M = work[1 + kind]
            near[kind, q] = _near(D, M, n, family)
            _terms(D, M, R, W, n, d, family, near[kind, q])
            total = P.dtype.type(0)
            for t in range(n):
                total += W[t]
            sums[kind, q] = total
    return True


@helper
def pull(P, W, J, i, Gq, Gr):
    """Gq += w (z_i - z_j) and Gr_j -= w (z_i - z_j) over one list, four dimensions per sweep."""
    for k in range(np.uint32(0), np.uint32(Gq.shape[0]), np.uint32(4)):
        z0, z1, z2, z3 = P[i, k], P[i, k + 1], P[i, k + 2], P[i, k + 3]
        g0 = g1 = g2 = g3 = P.dtype.type(0)
        for t in range(len(J)):
            w, j = W[t], np.uint32(J[t])
            p0, p1 = w * (z0 - P[j, k]), w * (z1 - P[j, k + 1])
            p2, p3 = w * (z2 - P[j, k + 2]), w * (z3 - P[j, k + 3])
            r0, r1, r2, r3 = Gr[j, k], Gr[j, k + 1], Gr[j, k + 2], Gr[j, k + 3]
            Gr[j, k], Gr[j, k + 1], Gr[j, k + 2], Gr[j, k + 3] = r0 - p0, r1 - p1, r2 - p2, r3 - p3
            g0, g1, g2, g3 = g0 + p0, g1 + p1, g2 + p2, g3 + p3
        Gq[k] += g0
        Gq[k + 1] += g1
        Gq[k + 2] += g2
        Gq[k + 3] += g3


@kernel
def nca_lists_grad(P, d, indices, first, last, rows, near, factor, Gq, Gr, q0, q1, family, work):
    """Add the pull of the pairs of queries q0:q1 to Gq, (n_queries, d'), and to Gr, (n, d').

    d' is d rounded up to a multiple of four; entries beyond d have no meaning.
    """
    D, R, W = work[0], work[3], work[4]
    for q in range(q0, q1):
        if factor[0, q] == 0 and factor[1, q] == 0:
            continue
        J = indices[first[q] : last[q]]
        n = len(J)
        gather(P, d, J, rows[q], D, work[1], work[2])
        for t in range(n):
            W[t] = 0
        for kind in range(2):
            _add_slopes(
                D, work[1 + kind], R, work[5], W, n, d, family, near[kind, q], factor[kind, q]
            )
        pull(P, W, J, rows[q], Gq[q], Gr)
