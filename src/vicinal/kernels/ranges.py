"""Sums of the compact kernel for single queries, over the chunks of references in range.

References are in kernel layout, (d, n) with d even, sorted by class; chunks of near references
never span two classes.  Unlike a tile, whose queries share one box, every query here has its own
range: for few queries that are far apart.
"""

from __future__ import annotations

from vicinal.kernels._blocks import distances
from vicinal.kernels._jit import helper, kernel, maximum


@helper
def _gaps(Zq, i, boxes, gaps):
    """Squared distances of query i to the boxes of all chunks."""
    zero = Zq.dtype.type(0)
    for c in range(len(gaps)):
        gaps[c] = zero
    for k in range(boxes.shape[1]):
        x, low, high = Zq[k, i], boxes[0, k], boxes[1, k]
        for c in range(len(gaps)):
            t = maximum(maximum(low[c] - x, x - high[c]), zero)
            gaps[c] += t * t


@helper
def _near_chunk(Zq, Zr, i, c, e, place, row):
    """Squared distances of query i to the references c:e; the query itself is out of range."""
    distances(Zq, Zr, Zq[:0], i, 0, 0, c, e, row)
    if c <= place < e:
        row[place - c] = row.dtype.type(1)


@kernel
def range_sums(Zq, Zr, mass, edges, boxes, own, places, reach, first, last, gaps, row, sums):
    """Add the kernels in range to the sums of the queries first:last.

    Parameters
    ----------
    Zq, Zr : (d, n) queries and references
    mass : (n_references,)
    edges : (n_chunks + 1,) first reference of each chunk, and the end
    boxes : (2, d, n_chunks) lowest and highest coordinates of the chunks
    own : (2, n_queries) range of each query's class among the references
    places : (n_queries,) position of each query among the references, or -1
    reach : squared distance from which on a chunk is left out
    gaps, row : scratch, of n_chunks and of the longest chunk
    sums : (2, n_queries) in and out, other classes [0] and own class [1]

    Returns
    -------
    pairs : number of pairs whose distance was computed
    """
    one, zero = Zq.dtype.type(1), Zq.dtype.type(0)
    pairs = 0
    for i in range(first, last):
        _gaps(Zq, i, boxes, gaps)
        for chunk in range(len(gaps)):
            if gaps[chunk] > reach:
                continue
            c, e = edges[chunk], edges[chunk + 1]
            _near_chunk(Zq, Zr, i, c, e, places[i], row)
            v, total = mass[c:e], zero
            for j in range(e - c):
                t = maximum(one - row[j], zero)
                total += v[j] * (t * t)
            kind = 1 if own[0, i] <= c < own[1, i] else 0
            sums[kind, i] += total
            pairs += e - c
    return pairs


@kernel
def range_pull(
    Zq, Zr, mass, edges, boxes, own, places, reach, first, last, gaps, row, factor, Gq, Gr
):
    """Add the pull of the pairs in range to Gq, (d, n_queries), and Gr, (d, n_references).

    The weight of a pair is ``2 (1 - d²) factor_i mass_j``; ``factor`` is (2, n_queries).  The other
    arguments are those of `range_sums`.
    """
    one, zero = Zq.dtype.type(1), Zq.dtype.type(0)
    for i in range(first, last):
        _gaps(Zq, i, boxes, gaps)
        for chunk in range(len(gaps)):
            if gaps[chunk] > reach:
                continue
            c, e = edges[chunk], edges[chunk + 1]
            _near_chunk(Zq, Zr, i, c, e, places[i], row)
            kind = 1 if own[0, i] <= c < own[1, i] else 0
            v, w = mass[c:e], factor[kind, i]
            n = e - c
            found = zero
            for j in range(n):
                t = maximum(one - row[j], zero)
                row[j] = (t + t) * (w * v[j])
                found = maximum(found, t)
            if found <= zero:  # the box was near, its points are not
                continue
            for k in range(Gq.shape[0]):
                x, z, g = Zr[k, c:e], Zq[k, i], Gr[k, c:e]
                total = zero
                for j in range(n):
                    t = row[j] * (z - x[j])
                    total += t
                    g[j] -= t
                Gq[k, i] += total
