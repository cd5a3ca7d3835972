"""NCA in tiles: row statistics first, then each pair's weight and its pull on both points.

Layout.  Points come as :mod:`vicinal.kernels._blocks` has it.  A kernel of the points is
``2**-e`` with an energy e.  The Gaussian's (``power`` None) is d², the points being scaled by
``sqrt(log2 e)``; Student's is ``power log2(1 + d²)``.  Two log-sum-exps are kept per query, over
the other classes (index 0) and over its own (index 1), each shifted by its own exact minimum.

Symmetric use (``mirror``): queries and references are the same points, and every unordered pair is
computed once and serves both its rows.  One exponential does for both directions as long as the
shifts in a tile lie within ``_SPREAD``; a wider tile takes one for each.

A block writes to the rows ``i0:i1`` and ``j0:j1`` alone: the schedule in
:mod:`vicinal._threads` never runs two blocks that share rows at once and fixes their order, so
the bits do not depend on the number of threads.
"""

from __future__ import annotations

import numpy as np

from vicinal.kernels._blocks import (
    GRAD_WIDTH,
    ROWS,
    WIDTH,
    distances,
    group_end,
    group_tiles,
    pull_four,
    student_energies,
)
from vicinal.kernels._jit import exp2, helper, kernel, log2, maximum, minimum

__all__ = ["nca_energy_block", "nca_grad_block", "nca_stats_block"]

# Powers of two, for float32 and float64: shifts in a tile may spread by _SPREAD, and the common
# shift is at most _ROOM above the smallest of them.  A term is then below 2**_ROOM, what exp2 puts
# in place of a vanishing one is less than 2**(_SPREAD - _ROOM - 80) of any sum, and its product
# with a row's factor of 2**-_ROOM or more is no denormal number, which would be slow.
_SPREAD = (60, 600)
_ROOM = (20, 200)


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
def _stats_tile(
    Zq, Zr, D, i0, j0, vq, vr, self_pos, mq, sq, mr, sr, a, b, c, e, mirror, power, work
):
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
        distances(Zq, Zr, D, i, i0, j0, c, e, row)
        if power is not None:
            student_energies(row, n, power)
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
def nca_stats_block(
    Zq, Zr, D, vq, vr, own, self_pos, mq, sq, mr, sr, i0, i1, j0, j1, mirror,
    power, reach, mode, scratch,
):  # fmt: skip
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
    power : None for the Gaussian, (d + 1) / 2 for Student's kernel; compiled once for each, so that
        the one does not slow down the other
    reach, mode : which tiles, see `group_tiles`

    Returns
    -------
    pairs : how many were computed, in either direction
    """
    a, pairs = i0, 0
    while a < i1:
        b = group_end(own, a, i1)
        first = max(j0, a) if mirror else j0
        n = group_tiles(Zq, own, a, b, first, j1, WIDTH, mirror and i0 == j0, reach, mode, scratch)
        for t in range(n):
            c, e, kind, square = scratch.table[t]
            # a tile on the diagonal holds both directions of its pairs: no mirroring there
            _stats_tile(
                Zq, Zr, D, i0, j0, vq, vr, self_pos, mq[kind], sq[kind], mr[kind], sr[kind],
                a, b, c, e, mirror and square == 0, power, scratch.work,
            )  # fmt: skip
            pairs += (b - a) * (e - c) * (2 if mirror and square == 0 else 1)
        a = b
    return pairs


@helper
def _weights(row, column_shift, mass, column_weight, n, shift, weight_i, mass_i):
    """Turn squared distances into the weights of the pairs, in place.

    In place, and one array: two that overlap would fail LLVM's alias check and run unvectorised.
    """
    for j in range(n):
        e = exp2(shift + column_shift[j] - row[j])
        row[j] = e * (weight_i * mass[j] + mass_i * column_weight[j])


@helper
def _student_weights(row, column_shift, mass, column_weight, n, shift, weight_i, mass_i, power):
    """The same for Student's kernel: -kappa'(d²) is kappa times power / (1 + d²)."""
    one = row.dtype.type(1)
    for j in range(n):
        t = one + row[j]
        e = exp2(shift + column_shift[j] - power * log2(t)) * (power / t)
        row[j] = e * (weight_i * mass[j] + mass_i * column_weight[j])


@helper
def _column_weights(m_col, w_col, shift, wide, out, column_shift, n):
    """The columns' factors and shifts: under the common shift, or each under its own if wide."""
    for j in range(n):
        out[j] = w_col[j] * exp2((m_col[j] if not wide else shift) - shift)
        column_shift[j] = m_col[j] if wide else m_col.dtype.type(0)


@helper
def _grad_tile(
    Zq, Zr, D, i0, j0, vq, vr, self_pos, mq, wq, mr, wr, Gq, Gr, a, b, c, e, mirror, square,
    power, work,
):  # fmt: skip
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
            distances(Zq, Zr, D, q, i0, j0, c, e, row)
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
                pairs, shifts = back if columns else row, column_shift if columns else nothing
                if power is not None:
                    _student_weights(
                        pairs, shifts, vr[c:e], column_weight, n, shift, weight, mass, power
                    )
                else:
                    _weights(pairs, shifts, vr[c:e], column_weight, n, shift, weight, mass)
            if wide:
                for j in range(n):
                    row[j] += back[j]
            if D.shape[0] > 0 and i < b:
                x = D[i - i0, c - j0 : e - j0]
                for j in range(n):
                    x[j] = row[j]
        if D.shape[0] == 0:
            pull_four(work, Zq, Zr, Gq, target, g_first, first, b, c, e)


@kernel
def nca_grad_block(
    Zq, Zr, D, vq, vr, own, self_pos, mq, wq, mr, wr, Gq, Gr, i0, i1, j0, j1, mirror,
    power, reach, mode, scratch,
):  # fmt: skip
    """Add the pull of pairs (i0:i1, j0:j1) to the gradients Gq and Gr, both (d, n).

    Where D holds the squared distances, it leaves the weights there instead, of all pairs of the
    block (``mode`` is ALL), and the gradient is two matrix products away.

    The weight of a pair is ``wq_i v_j k(mq_i) [+ wr_j v_i k(mr_j) if mirror]``, with m the minima
    and w the row factors of either kind (0 other, 1 own class), and ``k(m) = 2**(m - e)``, for
    Student's kernel times ``power / (1 + d²)``.
    """
    a = i0
    triangle = mirror and i0 == j0 and D.shape[0] == 0
    while a < i1:
        b = group_end(own, a, i1)
        first = max(j0, a) if triangle else j0
        n = group_tiles(Zq, own, a, b, first, j1, GRAD_WIDTH, triangle, reach, mode, scratch)
        for t in range(n):
            c, e, kind, square = scratch.table[t]
            _grad_tile(
                Zq, Zr, D, i0, j0, vq, vr, self_pos, mq[kind], wq[kind], mr[kind], wr[kind],
                Gq, Gr, a, b, c, e, mirror, square == 1, power, scratch.work,
            )  # fmt: skip
        a = b


@helper
def _energy(row, mass, n, shift):
    total = row.dtype.type(0)
    for j in range(n):
        e = exp2(shift - row[j])
        total += mass[j] * e * (row[j] - shift)
    return total


@kernel
def nca_energy_block(Zq, Zr, vr, self_pos, shift, energy, i0, i1, power, scratch):
    """Sum over references of ``mass_j 2**(shift_i - e_ij) (e_ij - shift_i)``, queries i0:i1."""
    row = scratch.work[0]
    for i in range(i0, i1):
        for c in range(0, Zr.shape[1], WIDTH):
            e = min(c + WIDTH, Zr.shape[1])
            distances(Zq, Zr, scratch.work[:0], i, 0, 0, c, e, row)
            if power is not None:
                student_energies(row, e - c, power)
            if c <= self_pos[i] < e:
                row[self_pos[i] - c] = shift[i]  # adds nothing
            energy[i] += _energy(row, vr[c:e], e - c, shift[i])
