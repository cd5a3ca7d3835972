"""Chi-squared distances of rows: all pairs, or the nearest of each row.

Four references to a query, so that short rows fill the pipeline too (20 bins of float32: 0.26 ns a
bin, one after another 0.42).  Every pair goes the same way through the same code, wherever it
stands: equal rows are at equal distances, to the bit.
"""

from __future__ import annotations

import numpy as np

from vicinal.kernels._jit import helper, kernel

__all__ = ["chi2_nearest", "chi2_rows"]


@helper
def _to_four(u, Y, j, tiny):
    """``1/2 sum (u - v)² / (u + v)`` for v = rows j, ..., j + 3 of Y.

    The last row stands for those beyond it.  ``tiny`` makes 0 of 0 / 0, and is lost anywhere else.
    """
    end = len(Y) - 1
    a, b, c, e = Y[j], Y[min(j + 1, end)], Y[min(j + 2, end)], Y[min(j + 3, end)]
    half = u.dtype.type(0.5)
    to_a = to_b = to_c = to_e = u.dtype.type(0)
    for f in range(np.uint32(len(u))):
        x = u[f]
        r = x - a[f]
        to_a += r * r / (x + a[f] + tiny)
        r = x - b[f]
        to_b += r * r / (x + b[f] + tiny)
        r = x - c[f]
        to_c += r * r / (x + c[f] + tiny)
        r = x - e[f]
        to_e += r * r / (x + e[f] + tiny)
    return half * to_a, half * to_b, half * to_c, half * to_e


@kernel
def chi2_rows(X, first, last, Y, same, tiny, tile, out):
    """Distances of rows first, ..., last - 1 of X to all rows of Y.

    Parameters
    ----------
    X, Y : (n, d), (m, d) arrays, none negative
    same : whether Y is X: pairs of a row and a later one are computed, and written twice
    tiny : the smallest normal number
    tile : rows of Y that fit into the cache, for all queries to go by
    out : (n, m) array; out, of which no other call with other rows writes the same entries
    """
    m = len(Y)
    for start in range(0, m, tile):
        stop = min(start + tile, m)
        for i in range(first, last):
            if same and start <= i < stop:
                out[i, i] = X.dtype.type(0)
            for j in range(max(start, i + 1) if same else start, stop, 4):
                four = _to_four(X[i], Y, j, tiny)
                for lane in range(min(4, stop - j)):
                    out[i, j + lane] = four[lane]
                    if same:
                        out[j + lane, i] = four[lane]


@kernel
def chi2_nearest(X, first, last, Y, same, tiny, tile, near, distances):
    """The nearest rows of Y of rows first, ..., last - 1 of X, nearest first, ties by position.

    Parameters
    ----------
    X, Y, tiny, tile : as those of `chi2_rows`
    same : whether Y is X, and no row a neighbour of itself
    near : (n, k) integer array; out
    distances : (n, k) array, full of infinity; in-out
    """
    k, m = near.shape[1], len(Y)
    for start in range(0, m, tile):
        stop = min(start + tile, m)
        for i in range(first, last):
            for j in range(start, stop, 4):
                four = _to_four(X[i], Y, j, tiny)
                for lane in range(min(4, stop - j)):
                    at, to = j + lane, four[lane]
                    if to < distances[i, k - 1] and not (same and at == i):
                        p = k - 1
                        while p > 0 and distances[i, p - 1] > to:
                            near[i, p], distances[i, p] = near[i, p - 1], distances[i, p - 1]
                            p -= 1
                        near[i, p], distances[i, p] = at, to
