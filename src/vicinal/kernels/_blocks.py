"""Common code of all kernels over pairs in tiles: distances, the cut into tiles, and the pull.

Points are transposed (``(d, n)``, one row per dimension, d even) and sorted by class, so that a
query's own class is one range of the references and no mask is needed.  A tile has up to ROWS
queries of one class, and references that are all of that class (kind 1) or all of others (0).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vicinal.kernels._jit import helper, kernel, log2, maximum, minimum, multiply_add

ROWS = 32  # queries per tile (a multiple of 4: gradients are summed four queries at a time)
# References per tile.  Short loops are mostly overhead; in the second pass four rows of weights
# and one row each of points and gradient should also stay in the first-level cache.
WIDTH = 768
GRAD_WIDTH = 384
CHUNK = 64  # most references that share a bounding box
_TABLE = 1024  # about how many tiles are listed at a time
_HALF_LOG2_E = 0.7213475204444817  # the scale of coordinates for Laplace's kernel, halved
#: which tiles of a block: all, those within reach, or those beyond
ALL, NEAR, FAR = 0, 1, 2


class Reach(NamedTuple):
    """The reach of each point: pairs beyond the reach of both their points are left out.

    ``edges`` cuts the references into chunks, none of which spans two blocks; ``boxes``
    (2, d, n_chunks) holds their lowest and highest coordinates; ``rows`` (2, n_queries) and
    ``chunks`` (2, n_chunks) are the reaches as squared distances, over the other classes [0] and
    over the own class [1].
    """

    edges: NDArray
    boxes: NDArray
    rows: NDArray
    chunks: NDArray


class Points(NamedTuple):
    """Queries and references of the tiles: points, masses, distances if known, positions.

    ``Zq`` and ``Zr`` are (d, n), d even; ``D`` (queries, references) are the squared distances of
    the block, or a (0, 0) array to compute them from the points; ``vq`` and ``vr`` (n,) are the
    masses as references, at most 1; ``self_pos`` (n_queries,) is the position of each query among
    the references, or -1.
    """

    Zq: NDArray
    Zr: NDArray
    D: NDArray
    vq: NDArray
    vr: NDArray
    self_pos: NDArray


class Scratch(NamedTuple):
    """Scratch for one thread: rows of a tile, some vectors, and the list of tiles."""

    work: NDArray
    table: NDArray


def workspace(d, dtype, columns):
    """Scratch for one thread and blocks of up to ``columns`` references.

    ``work`` has the rows of a tile, four vectors, and a gradient that is discarded.
    """
    table = np.empty((columns + 4 + _TABLE, 6), np.int64)
    return Scratch(np.zeros((ROWS + 4 + d, WIDTH), dtype), table)


@helper
def distances(Zq, Zr, D, i, i0, j0, c, e, out):
    """Squared distances from query i to references c:e, four dimensions per sweep.

    In many dimensions a matrix product has already put them in D, whose corner is (i0, j0).
    """
    n = e - c
    if D.shape[0] > 0:
        x = D[i - i0, c - j0 : e - j0]
        for j in range(n):
            out[j] = maximum(x[j], x.dtype.type(0))  # rounding may give less
        return
    a, b = Zq[0, i], Zq[1, i]
    x, y = Zr[0, c:e], Zr[1, c:e]
    for j in range(n):
        s, t = a - x[j], b - y[j]
        out[j] = s * s + t * t
    k = 2
    while k + 4 <= Zq.shape[0]:
        a, b, u, v = Zq[k, i], Zq[k + 1, i], Zq[k + 2, i], Zq[k + 3, i]
        x, y, z, w = Zr[k, c:e], Zr[k + 1, c:e], Zr[k + 2, c:e], Zr[k + 3, c:e]
        for j in range(n):
            s, t, p, q = a - x[j], b - y[j], u - z[j], v - w[j]
            out[j] += (s * s + t * t) + (p * p + q * q)
        k += 4
    if k < Zq.shape[0]:
        a, b = Zq[k, i], Zq[k + 1, i]
        x, y = Zr[k, c:e], Zr[k + 1, c:e]
        for j in range(n):
            s, t = a - x[j], b - y[j]
            out[j] += s * s + t * t


@kernel
def merge_duplicates(D, norms_q, norms_r, share):
    """Set the squared distances D that are below a share of both squared norms to zero."""
    zero = D.dtype.type(0)
    for i in range(D.shape[0]):
        row, norm = D[i], norms_q[i]
        for j in range(D.shape[1]):
            row[j] = row[j] if row[j] > share * (norm + norms_r[j]) else zero


# ``power`` says which kernel: None is the Gaussian, (d + 1) / 2 Student's, 0 Laplace's.  None is a
# type of its own, so the code for the Gaussian is compiled without the branches of the others.


@helper
def to_energies(row, n, power):
    """Turn squared distances into energies, in place: ``power log2(1 + d²)``, or d for Laplace."""
    if power > 0:
        for j in range(n):
            row[j] = power * log2(row.dtype.type(1) + row[j])
    else:
        for j in range(n):
            row[j] = np.sqrt(row[j])


@helper
def steepness(squared, distance):
    """-kappa'(d²) / kappa of Laplace's kernel, ``1 / 2d`` in the unit of the data; 0 at d = 0."""
    zero, half = type(squared)(0), type(squared)(_HALF_LOG2_E)
    return half / distance if squared > zero else zero


@helper
def steepen(W, D, n, power):
    """Multiply weights by -kappa'(d²) / kappa at the squared distances D."""
    if power > 0:
        for j in range(n):
            W[j] *= power / (W.dtype.type(1) + D[j])
    else:
        for j in range(n):
            W[j] *= steepness(D[j], np.sqrt(D[j]))


@helper
def group_end(own, a, i1):
    """End of the tile that starts at query a: up to ROWS queries of one class."""
    b = a + 1
    # compare both ends: an empty range starts where the next class starts
    while b < i1 and b < a + ROWS and own[0, b] == own[0, a] and own[1, b] == own[1, a]:
        b += 1
    return b


@helper
def _segment(own, a, segment, j0, j1):
    """References before (0), in (1) and after (2) the own class of query a, within j0:j1."""
    first = own[segment - 1, a] if segment > 0 else j0
    last = own[segment, a] if segment < 2 else j1
    return maximum(first, j0), minimum(last, j1)


@helper
def _add_tiles(table, count, a, b, c, e, kind, width):
    while c < e:
        table[count, 0], table[count, 1] = a, b
        table[count, 2], table[count, 3] = c, minimum(c + width, e)
        table[count, 4], table[count, 5] = kind, 0
        count += 1
        c += width
    return count


@helper
def group_box(Zq, a, b, low, high):
    """Lowest and highest coordinates of the queries a:b."""
    for k in range(Zq.shape[0]):
        x = Zq[k]
        least = most = x[a]
        for i in range(a, b):
            least, most = minimum(least, x[i]), maximum(most, x[i])
        low[k], high[k] = least, most


@helper
def _is_far(low, high, boxes, chunk, reach, d):
    """Whether no two points of the two boxes lie within the reach."""
    zero = low.dtype.type(0)
    gap = zero
    for k in range(d):
        t = maximum(maximum(boxes[0, k, chunk] - high[k], low[k] - boxes[1, k, chunk]), zero)
        gap += t * t
    return gap > reach


# Tiles are listed by kernels of their own: inside the kernels that sum and pull, for both
# precisions and widths, this code would be compiled four times.


@kernel
def all_tiles(own, a, i1, j0, j1, width, triangle, table):
    """Cut the block of the queries a:i1 and the references j0:j1 into tiles up to ``width`` wide.

    Parameters
    ----------
    own : (2, n_queries) range of each query's class among the references
    triangle : whether the references are the queries and only the upper triangle is needed: the
        tile on the diagonal is then a separate square
    table : out, one row per tile: its first and last query, first and last reference, kind, and
        whether it is a square

    Returns
    -------
    count : number of rows filled
    a : the first query that did not fit
    """
    count, room = np.int64(0), len(table) - (j1 - j0) - 4
    while a < i1 and count <= room:
        b = group_end(own, a, i1)
        for segment in range(3):
            c, stop = _segment(own, a, segment, maximum(j0, a) if triangle else j0, j1)
            if c < stop and triangle and c < b:
                count = _add_tiles(table, count, a, b, c, b, segment % 2, width)
                table[count - 1, 5] = 1
                c = b
            count = _add_tiles(table, count, a, b, c, stop, segment % 2, width)
        a = b
    return count, a


@kernel
def some_tiles(Zq, own, a, i1, j0, j1, width, triangle, reach, far, box, table):
    """As `all_tiles`, but without the chunks beyond all reach; with ``far`` only those.

    ``reach`` is a Reach; ``box`` is scratch of two rows.
    """
    count, room = np.int64(0), len(table) - (j1 - j0) - 4
    low, high = box[0], box[1]
    first_chunk = 0
    while reach.edges[first_chunk + 1] <= j0:
        first_chunk += 1
    while a < i1 and count <= room:
        b = group_end(own, a, i1)
        first, chunk = maximum(j0, a) if triangle else j0, first_chunk
        group_box(Zq, a, b, low, high)
        for segment in range(3):
            c, stop = _segment(own, a, segment, first, j1)
            kind = segment % 2
            if c < stop and triangle and c < b:
                if not far:
                    count = _add_tiles(table, count, a, b, c, b, kind, width)
                    table[count - 1, 5] = 1
                c = b
            farthest = low.dtype.type(0)
            for i in range(a, b):
                farthest = maximum(farthest, reach.rows[kind, i])
            begin = c  # start of a run of chunks to include
            while c < stop:
                while reach.edges[chunk + 1] <= c:
                    chunk += 1
                e = minimum(reach.edges[chunk + 1], stop)
                limit = maximum(farthest, reach.chunks[kind, chunk])
                if _is_far(low, high, reach.boxes, chunk, limit, Zq.shape[0]) != far:
                    count = _add_tiles(table, count, a, b, begin, c, kind, width)
                    begin = e
                c = e
            count = _add_tiles(table, count, a, b, begin, stop, kind, width)
        a = b
    return count, a


@helper
def pull_four(work, Zq, Zr, Gq, G_columns, g_first, a, b, c, e):
    """Gradient of queries a:a+4: G_i += w (z_i - z_j), G_j -= w (z_i - z_j)."""
    n = e - c
    w0, w1, w2, w3 = work[0], work[1], work[2], work[3]
    # past the last query the weights are zero, so any point will do
    i1, i2, i3 = minimum(a + 1, b - 1), minimum(a + 2, b - 1), minimum(a + 3, b - 1)
    for k in range(Gq.shape[0]):
        z0, z1, z2, z3 = Zq[k, a], Zq[k, i1], Zq[k, i2], Zq[k, i3]
        g0 = g1 = g2 = g3 = Zq.dtype.type(0)
        x, g = Zr[k, c:e], G_columns[k, g_first : g_first + n]
        for j in range(n):
            t0, t1, t2, t3 = z0 - x[j], z1 - x[j], z2 - x[j], z3 - x[j]
            # not "+=": the product would be shared with the next line and never fused
            g0 = multiply_add(w0[j], t0, g0)
            g1 = multiply_add(w1[j], t1, g1)
            g2 = multiply_add(w2[j], t2, g2)
            g3 = multiply_add(w3[j], t3, g3)
            g[j] -= (w0[j] * t0 + w1[j] * t1) + (w2[j] * t2 + w3[j] * t3)
        Gq[k, a] += g0
        Gq[k, i1] += g1
        Gq[k, i2] += g2
        Gq[k, i3] += g3
