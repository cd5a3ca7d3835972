"""Chi-squared distances between rows: all pairs, or the nearest rows.

Four references at a time, so that short rows also fill the pipeline (20 bins of float32: 0.26 ns a
bin, one at a time 0.42).  Every pair takes the same path through the same code, whatever its
position: equal rows are at equal distances, to the bit.  The sum of four distances is inlined into
both kernels: a function that both call has a copy in each, which LLVM may optimise differently,
and which of the copies runs depends on the kernel that is loaded first.
"""

from __future__ import annotations

import numpy as np

from vicinal.kernels._jit import inlined, kernel, maximum, minimum, multiply_add


@inlined
def _to_four(u, Y, j, tiny):
    """``1/2 sum (u - v)² / (u + v)`` for v = rows j, ..., j + 3 of Y.

    Past the end, the last row is repeated.  ``tiny`` makes 0 / 0 zero and is negligible elsewhere.
    """
    end = len(Y) - 1
    a, b, c, e = Y[j], Y[minimum(j + 1, end)], Y[minimum(j + 2, end)], Y[minimum(j + 3, end)]
    half = u.dtype.type(0.5)
    to_a = to_b = to_c = to_e = u.dtype.type(0)
    for f in range(np.uint32(len(u))):
        x = u[f]
        # the quotient first: the square of a small r would underflow
        r = x - a[f]
        to_a = multiply_add(r, r / (x + a[f] + tiny), to_a)
        r = x - b[f]
        to_b = multiply_add(r, r / (x + b[f] + tiny), to_b)
        r = x - c[f]
        to_c = multiply_add(r, r / (x + c[f] + tiny), to_c)
        r = x - e[f]
        to_e = multiply_add(r, r / (x + e[f] + tiny), to_e)
    return half * to_a, half * to_b, half * to_c, half * to_e


@kernel
def chi2_rows(X, first, last, Y, same, tiny, tile, out):
    """Distances of rows first, ..., last - 1 of X to all rows of Y.

    Parameters
    ----------
    X, Y : (n, d), (m, d) arrays, non-negative
    same : whether Y is X: each pair is computed once and written twice
    tiny : the smallest normal number
    tile : number of rows of Y that fit into the cache
    out : (n, m) array; out; calls with other rows write other entries
    """
    m = len(Y)
    for start in range(0, m, tile):
        stop = minimum(start + tile, m)
        for i in range(first, last):
            if same and start <= i < stop:
                out[i, i] = X.dtype.type(0)
            for j in range(maximum(start, i + 1) if same else start, stop, 4):
                four = _to_four(X[i], Y, j, tiny)
                for lane in range(minimum(4, stop - j)):
                    out[i, j + lane] = four[lane]
                    if same:
                        out[j + lane, i] = four[lane]


@kernel
def chi2_nearest(X, first, last, Y, same, tiny, tile, near, distances):
    """The rows of Y nearest to rows first, ..., last - 1 of X, nearest first, ties by position.

    Parameters
    ----------
    X, Y, tiny, tile : as those of `chi2_rows`
    same : whether Y is X; then no row is its own neighbour
    near : (n, k) integer array; out
    distances : (n, k) array, full of infinity; in-out
    """
    k, m = near.shape[1], len(Y)
    for start in range(0, m, tile):
        stop = minimum(start + tile, m)
        for i in range(first, last):
            for j in range(start, stop, 4):
                four = _to_four(X[i], Y, j, tiny)
                for lane in range(minimum(4, stop - j)):
                    at, to = j + lane, four[lane]
                    if to < distances[i, k - 1] and not (same and at == i):
                        p = k - 1
                        while p > 0 and distances[i, p - 1] > to:
                            near[i, p], distances[i, p] = near[i, p - 1], distances[i, p - 1]
                            p -= 1
                        near[i, p], distances[i, p] = at, to
