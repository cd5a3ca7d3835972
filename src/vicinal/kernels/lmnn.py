"""Large margins: pull target neighbours, push impostors, row by row.

A pair of rows p and q of different classes may count twice: q as an impostor of p, and p as an
impostor of q.  Each row handles both cases, so that only it writes its own gradient: the order of
its sums is that of its list for any number of threads, and no array of all pairs is needed.

``reach[p, j]`` is the margin plus the distance of p to its j-th target neighbour, -1 if there is
none; ``furthest[p]`` is the largest of them: only nearer rows are impostors of p.
"""

from __future__ import annotations

import numpy as np

from vicinal.kernels._jit import kernel, maximum, minimum
from vicinal.kernels.distances import add_slope, distance

_CHUNK = 32  # columns tested together: hits are rare


@kernel
def targets(Z, neighbours, margin, chi2, i0, i1, D, reach, furthest):
    """Distances to the target neighbours of rows i0:i1, and the bounds for their impostors."""
    for p in range(i0, i1):
        furthest[p] = -1
        for j in range(neighbours.shape[1]):
            q = neighbours[p, j]
            D[p, j], reach[p, j] = 0, -1
            if q >= 0:
                D[p, j] = distance(Z[p], Z[q], chi2)
                reach[p, j] = D[p, j] + margin
            furthest[p] = maximum(furthest[p], reach[p, j])


@kernel
def push(Z, reach, furthest, weight, rows, indptr, indices, mu, chi2, gradient, hinge, active, dZ):
    """Hinges of some rows against their lists, which hold rows of other classes.

    Adds to ``hinge[p]``; counts in ``active[p, j]`` the impostors nearer than target j plus the
    margin, each with its weight; adds the push of the impostors to the gradient.
    """
    k, zero = np.uint32(reach.shape[1]), Z.dtype.type(0)
    for a in range(len(rows)):
        p = rows[a]
        u, own, counts, slope = Z[p], reach[p], active[p], dZ[p] if gradient else Z[p]
        total = hinge[p]  # not from zero: the bits must not depend on where a list was cut
        for t in range(indptr[a], indptr[a + 1]):
            q = np.uint32(indices[t])
            bound = furthest[p] if weight[q] > zero else zero
            if weight[p] > zero:
                bound = maximum(bound, furthest[q])
            v = Z[q]
            D = distance(u, v, chi2)
            if D >= bound:
                continue
            n = 0.0
            if weight[q] > zero:
                for j in range(k):  # no branch: it would be mispredicted half the time
                    h = own[j] - D
                    w = weight[q] if h > zero else zero
                    total += h * w if h > zero else zero
                    counts[j] += w
                    n += w
            if gradient and weight[p] > zero:
                for j in range(k):
                    n += weight[p] if reach[q, j] > D else zero
            if gradient and n > 0:
                add_slope(u, v, Z.dtype.type(-mu * n), chi2, slope)
        hinge[p] = total


@kernel
def pull(Z, neighbours, weight, first, sources, i0, i1, chi2, dZ):
    """Add the pull of target neighbours to the gradient, each pair times its weight.

    ``sources[first[q]:first[q + 1]]`` are the positions of q in the flattened ``neighbours``.
    """
    k = neighbours.shape[1]
    for p in range(i0, i1):
        for j in range(k):
            if weight[p, j] > 0:
                add_slope(Z[p], Z[neighbours[p, j]], weight[p, j], chi2, dZ[p])
        for t in range(first[p], first[p + 1]):
            i, j = sources[t] // k, sources[t] % k
            if weight[i, j] > 0:
                add_slope(Z[p], Z[i], weight[i, j], chi2, dZ[p])


@kernel
def near_pairs(G, rows, columns, codes, row_norm, row_bound, norm, bound, later, indptr, indices):
    """Pairs of different classes whose squared distance is below the larger of their bounds.

    ``G`` holds the inner products of the rows with the columns, and is overwritten.  ``later``
    keeps only pairs whose column is the later row.  Returns the number of pairs.
    """
    zero, two = G.dtype.type(0), G.dtype.type(2)
    n_columns, width = np.uint32(len(columns)), np.uint32(_CHUNK)
    at = 0
    indptr[0] = 0
    for a in range(len(rows)):
        p, code, own = rows[a], codes[rows[a]], row_norm[a]
        least = row_bound[a] - own
        g = G[a]
        for c in range(n_columns):  # |p - q|² < bound as |q|² - 2 <p, q> - (bound - |p|²) < 0
            g[c] = norm[c] - two * g[c] - maximum(least, bound[c] - own)
        sign = g.view(np.int32)
        for start in range(np.uint32(0), n_columns, width):
            stop = minimum(start + width, n_columns)
            some = np.int32(0)
            for c in range(start, stop):
                some |= sign[c]
            if some >= 0:
                continue
            for c in range(start, stop):
                q = columns[c]
                if g[c] < zero and codes[q] != code and (q > p or not later):
                    indices[at] = q
                    at += 1
        indptr[a + 1] = at
    return at


@kernel
def count(indptr, indices, rows, position, both_ways, searched, counts):
    """Count each listed pair at its row; with ``both_ways`` also at the other, unless searched."""
    for a in range(len(rows)):
        counts[position[rows[a]]] += indptr[a + 1] - indptr[a]
        if both_ways:
            for t in range(indptr[a], indptr[a + 1]):
                if not searched[indices[t]]:
                    counts[position[indices[t]]] += 1


@kernel
def fill(indptr, indices, rows, position, both_ways, searched, at, out):
    """Enter each pair where `count` has counted it; ``at`` is the next free entry of each row.

    If called in order of the rows, tile by tile, the lists come out sorted: the pairs of a row with
    earlier rows were entered when those were processed.
    """
    for a in range(len(rows)):
        p = rows[a]
        here = position[p]
        for t in range(indptr[a], indptr[a + 1]):
            q = indices[t]
            out[at[here]] = q
            at[here] += 1
            if both_ways and not searched[q]:
                there = position[q]
                out[at[there]] = p
                at[there] += 1


@kernel
def within(Z, rows, indptr, indices, root_bound, chi2):
    """Keep the listed pairs whose distance is below the square of the larger of their bounds.

    In place; returns the number of pairs kept.
    """
    at, start = 0, 0
    for a in range(len(rows)):
        p = rows[a]
        for t in range(start, indptr[a + 1]):
            q = indices[t]
            bound = maximum(root_bound[p], root_bound[q])
            if distance(Z[p], Z[q], chi2) < bound * bound:
                indices[at] = q
                at += 1
        start = indptr[a + 1]
        indptr[a + 1] = at
    return at


@kernel
def moved(Z, before, root, root_before, chi2):
    """The largest movement of any row, plus the growth of its reach if positive.

    Infinite if a row has a reach now but had none before: it has no list.
    """
    most = 0.0
    for p in range(len(Z)):
        if root[p] > 0 and root_before[p] <= 0:
            return np.inf
        move = np.sqrt(distance(Z[p], before[p], chi2))
        most = maximum(most, maximum(move, move + (root[p] - root_before[p])))
    return most
