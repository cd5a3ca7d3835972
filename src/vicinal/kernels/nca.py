"""NCA in tiles: row statistics first, then each pair's weight and its pull on both points.

Layout.  Points come transposed (``(d, n)``, one row per dimension), scaled by ``sqrt(log2 e)`` so
that ``exp(-d²)`` is a power of two, and sorted by class, so that a query's own class is one range
of the references and no mask is needed.  Two log-sum-exps are kept per query, over the other
classes (index 0) and over its own (index 1), each shifted by its own exact minimum.

Symmetric use (``mirror``): queries and references are the same points, and every unordered pair is
computed once and serves both its rows.  One exponential does for both directions as long as the
shifts in a tile lie within ``_SPREAD``; a wider tile takes one for each.

A block writes to the rows ``i0:i1`` and ``j0:j1`` alone: the schedule in
:mod:`vicinal._threads` never runs two blocks that share rows at once and fixes their order, so
the bits do not depend on the number of threads.
"""

from __future__ import annotations

import numpy as np

from vicinal.kernels._jit import exp2, helper, kernel, maximum, minimum, multiply_add

__all__ = ["ROWS", "WIDTH", "nca_energy_block", "nca_grad_block", "nca_stats_block", "workspace"]

ROWS = 32  # queries to a tile (a multiple of 4: gradients are summed four queries at a time)
# References to a tile.  Short loops are mostly overhead; in the second pass four rows of weights
# and a row each of points and gradient should stay in the first-level cache as well.
WIDTH = 768
GRAD_WIDTH = 384
# Powers of two, for float32 and float64: shifts in a tile may spread by _SPREAD, and the common
# shift is at most _ROOM above the smallest of them.  A term is then below 2**_ROOM, what exp2 puts
# in place of a vanishing one is less than 2**(_SPREAD - _ROOM - 80) of any sum, and its product
# with a row's factor of 2**-_ROOM or more is no denormal number, which would be slow.
_SPREAD = (60, 600)
_ROOM = (20, 200)


def workspace(d, dtype):
    """Scratch for one thread: the rows of a tile, four vectors, and a gradient to throw away."""
    return np.zeros((ROWS + 4 + d, WIDTH), dtype)


@helper
def _distances(Zq, Zr, D, i, i0, j0, c, e, out):
    """Squared distances from query i to references c:e, four dimensions to a sweep.

    For many dimensions a matrix product has left them in D, whose corner is (i0, j0).
    """
    n = e - c
    if D.shape[0] > 0:
        x = D[i - i0, c - j0 : e - j0]
        for j in range(n):
            out[j] = maximum(x[j], x.dtype.type(0))  # rounding may leave it below
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


@helper
def _minima(row, column_min, n, row_min):
    for j in range(n):
        column_min[j] = minimum(column_min[j], row[j])
        row_min = minimum(row_min, row[j])
    return row_min


@helper
def _range(values, n, low, high):
    for j in range(n):
        low, high = minimum(low, values[j]), maximum(high, values[j])
    return low, high


@helper
def _sums(row, column_shift, mass, column_sum, n, shift, mass_i, total):
    """Add the shifted powers of one tile row to the row's and to the columns' sums."""
    for j in range(n):
        e = exp2(shift + column_shift[j] - row[j])
        total += mass[j] * e
        column_sum[j] += mass_i * e
    return total


@helper
def _fold_columns(m_col, s_col, column_min, column_sum, n, shift, wide):
    for j in range(n):
        m = column_min[j]
        scale = exp2(m - (m if wide else shift))
        s_col[j] = s_col[j] * exp2(m - m_col[j]) + column_sum[j] * scale
        m_col[j] = m


@helper
def _stats_tile(Zq, Zr, D, i0, j0, vq, vr, self_pos, mq, sq, mr, sr, a, b, c, e, mirror, work):
    """Fold the tile (a:b, c:e) into the minima m and sums s of one kind."""
    n = e - c
    zero, inf = Zq.dtype.type(0), Zq.dtype.type(np.inf)
    column_min, column_sum, column_shift = work[ROWS], work[ROWS + 1], work[ROWS + 2]
    for j in range(n):
        column_min[j] = mr[c + j]
        column_sum[j] = zero
        column_shift[j] = zero
    low, high = inf, -inf
    for i in range(a, b):
        row = work[i - a]
        _distances(Zq, Zr, D, i, i0, j0, c, e, row)
        if c <= self_pos[i] < e:
            row[self_pos[i] - c] = inf
        m = _minima(row, column_min, n, mq[i])
        if m < mq[i]:
            sq[i] *= exp2(m - mq[i])
            mq[i] = m
        low, high = minimum(low, m), maximum(high, m)
    wide = False
    if mirror:
        low, high = _range(column_min, n, low, high)
        wide = high - low > _SPREAD[Zq.itemsize // 8]
        high = minimum(high, low + Zq.dtype.type(_ROOM[Zq.itemsize // 8]))
    shared = mirror and not wide
    for turn in range(2 if wide else 1):  # a wide tile: first the rows' sums, then the columns'
        if turn == 1:
            for j in range(n):
                column_shift[j] = column_min[j]
        for i in range(a, b):
            if mq[i] == inf:
                continue
            shift = high if shared else (zero if turn else mq[i])
            mass = vq[i] if shared or turn else zero
            total = _sums(work[i - a], column_shift, vr[c:e], column_sum, n, shift, mass, zero)
            if turn == 0:
                sq[i] += total * exp2(mq[i] - shift)
    if mirror:
        _fold_columns(mr[c:e], sr[c:e], column_min, column_sum, n, high, wide)


@kernel
def nca_stats_block(Zq, Zr, D, vq, vr, own, self_pos, mq, sq, mr, sr, i0, i1, j0, j1, mirror, work):
    """Minima and shifted sums of queries i0:i1 over references j0:j1 (and back, if mirror).

    Parameters
    ----------
    Zq, Zr : (d, n) arrays, d even; points as described at the top of this file
    D : (i1 - i0, j1 - j0) squared distances, or (0, 0) to compute them from the points
    vq, vr : (n,) masses as references, at most 1
    own : (2, n_queries) range of each query's class among the references
    self_pos : (n_queries,) position of each query among the references, or -1
    mq, sq, mr, sr : (2, n) running minima and sums, [0] other classes, [1] own class; in-out
    mirror : the references are the queries; when i0 == j0, their upper triangle
    """
    a = i0
    while a < i1:
        b = _group_end(own, a, i1)
        for segment in range(3):
            c, stop = _segment(own, a, segment, max(j0, a) if mirror else j0, j1)
            kind = segment % 2
            while c < stop:
                # a tile on the diagonal holds both directions of its pairs: no mirroring there
                square = mirror and c < b
                e = b if square else min(c + WIDTH, stop)
                _stats_tile(
                    Zq, Zr, D, i0, j0, vq, vr, self_pos, mq[kind], sq[kind], mr[kind], sr[kind],
                    a, b, c, e, mirror and not square, work,
                )  # fmt: skip
                c = e
        a = b


@helper
def _group_end(own, a, i1):
    """Queries of one class share their column ranges: up to ROWS of them make a tile."""
    b = a + 1
    # both ends: the range of a class without references begins where the next class does
    while b < i1 and b < a + ROWS and own[0, b] == own[0, a] and own[1, b] == own[1, a]:
        b += 1
    return b


@helper
def _segment(own, a, segment, j0, j1):
    """References before (0), in (1) and after (2) the own class of query a, within j0:j1."""
    first = own[segment - 1, a] if segment > 0 else j0
    last = own[segment, a] if segment < 2 else j1
    return max(first, j0), min(last, j1)


@helper
def _weights(row, column_shift, mass, column_weight, n, shift, weight_i, mass_i):
    """Turn squared distances into the weights of the pairs, in place.

    In place, and one array: two that overlap would fail LLVM's alias check and run unvectorised.
    """
    for j in range(n):
        e = exp2(shift + column_shift[j] - row[j])
        row[j] = e * (weight_i * mass[j] + mass_i * column_weight[j])


@helper
def _pull_four(work, Zq, Zr, Gq, G_columns, g_first, a, b, c, e):
    """Gradient of queries a:a+4: G_i += w (z_i - z_j), G_j -= w (z_i - z_j)."""
    n = e - c
    w0, w1, w2, w3 = work[0], work[1], work[2], work[3]
    # past the last query the weights are zero; any point will do
    i1, i2, i3 = min(a + 1, b - 1), min(a + 2, b - 1), min(a + 3, b - 1)
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


@helper
def _column_weights(m_col, w_col, shift, wide, out, column_shift, n):
    """The columns' factors and shifts: under the common shift, or each under its own if wide."""
    for j in range(n):
        out[j] = w_col[j] * exp2((m_col[j] if not wide else shift) - shift)
        column_shift[j] = m_col[j] if wide else m_col.dtype.type(0)


@helper
def _grad_tile(
    Zq, Zr, D, i0, j0, vq, vr, self_pos, mq, wq, mr, wr, Gq, Gr, a, b, c, e, mirror, square, work
):
    """Add the pull of the tile's pairs to both gradients, or leave the weights in D."""
    n = e - c
    zero, inf = Zq.dtype.type(0), Zq.dtype.type(np.inf)
    nothing, column_weight = work[ROWS], work[ROWS + 1]
    column_shift, back = work[ROWS + 2], work[ROWS + 3]
    wide, high = False, -inf
    for j in range(n):
        nothing[j] = zero
    if mirror:
        low, high = _range(mq[a:b], b - a, inf, -inf)
        low, high = _range(mr[c:e], n, low, high)
        wide = high - low > _SPREAD[Zq.itemsize // 8]
        high = minimum(high, low + Zq.dtype.type(_ROOM[Zq.itemsize // 8]))
        _column_weights(mr[c:e], wr[c:e], high, wide, column_weight, column_shift, n)
    shared = mirror and not wide
    # a square holds both directions of its pairs: its column side goes to waste
    target, g_first = (work[ROWS + 4 :], 0) if square else (Gr, c)
    for first in range(a, b, 4):
        for i in range(first, first + 4):
            if i >= b and D.shape[0] > 0:
                break  # row b - 1 of D holds its weights by now, and nothing is summed here
            row = work[i - first]
            q = min(i, b - 1)  # past the last query: any point will do, its weights are zero
            _distances(Zq, Zr, D, q, i0, j0, c, e, row)
            if c <= self_pos[q] < e:
                row[self_pos[q] - c] = inf
            if wide:
                for j in range(n):
                    back[j] = row[j]
            for turn in range(2 if wide else 1):  # a wide tile: the columns' weights, the rows'
                columns = wide and turn == 0
                shift = zero if columns else (high if shared else mq[q])
                weight = zero if columns or i >= b else wq[q] * exp2(mq[q] - shift)
                mass = vq[q] if (shared or columns) and i < b else zero
                _weights(
                    back if columns else row, column_shift if columns else nothing,
                    vr[c:e], column_weight, n, shift, weight, mass,
                )  # fmt: skip
            if wide:
                for j in range(n):
                    row[j] += back[j]
            if D.shape[0] > 0 and i < b:
                x = D[i - i0, c - j0 : e - j0]
                for j in range(n):
                    x[j] = row[j]
        if D.shape[0] == 0:
            _pull_four(work, Zq, Zr, Gq, target, g_first, first, b, c, e)


@kernel
def nca_grad_block(
    Zq, Zr, D, vq, vr, own, self_pos, mq, wq, mr, wr, Gq, Gr, i0, i1, j0, j1, mirror, work
):
    """Add the pull of pairs (i0:i1, j0:j1) to the gradients Gq and Gr, both (d, n).

    Where D holds the squared distances, it leaves the weights there instead, of all pairs of the
    block, and the gradient is two matrix products away.

    The weight of a pair is ``wq_i v_j 2**(mq_i - d²) [+ wr_j v_i 2**(mr_j - d²) if mirror]``,
    with m the minima and w the row factors of either kind (0 other, 1 own class).
    """
    a = i0
    while a < i1:
        b = _group_end(own, a, i1)
        for segment in range(3):
            triangle = mirror and i0 == j0 and D.shape[0] == 0
            c, stop = _segment(own, a, segment, max(j0, a) if triangle else j0, j1)
            kind = segment % 2
            while c < stop:
                square = triangle and c < b
                e = b if square else min(c + GRAD_WIDTH, stop)
                _grad_tile(
                    Zq, Zr, D, i0, j0, vq, vr, self_pos, mq[kind], wq[kind], mr[kind], wr[kind],
                    Gq, Gr, a, b, c, e, mirror, square, work,
                )  # fmt: skip
                c = e
        a = b


@helper
def _energy(row, mass, n, shift):
    total = row.dtype.type(0)
    for j in range(n):
        e = exp2(shift - row[j])
        total += mass[j] * e * (row[j] - shift)
    return total


@kernel
def nca_energy_block(Zq, Zr, vr, self_pos, shift, energy, i0, i1, work):
    """Sum over references of ``mass_j 2**(shift_i - d²) (d² - shift_i)`` for queries i0:i1."""
    row = work[0]
    for i in range(i0, i1):
        for c in range(0, Zr.shape[1], WIDTH):
            e = min(c + WIDTH, Zr.shape[1])
            _distances(Zq, Zr, work[:0], i, 0, 0, c, e, row)
            if c <= self_pos[i] < e:
                row[self_pos[i] - c] = shift[i]  # adds nothing
            energy[i] += _energy(row, vr[c:e], e - c, shift[i])
