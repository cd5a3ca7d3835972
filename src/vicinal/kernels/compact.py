"""NCA in tiles with the kernel ``(1 - d²)²`` up to d = 1 and nothing beyond: plain sums.

The layout, the schedule and the arguments are those of :mod:`vicinal.kernels.nca`, as far as this
kernel needs them: its values lie in [0, 1], so nothing is shifted and no minima are kept.
"""

from __future__ import annotations

from vicinal.kernels._blocks import (
    GRAD_WIDTH,
    ROWS,
    WIDTH,
    distances,
    group_end,
    group_tiles,
    pull_four,
)
from vicinal.kernels._jit import helper, kernel, log2, maximum

__all__ = ["compact_energy_block", "compact_grad_block", "compact_stats_block"]


@helper
def _sums(row, mass, column_sum, n, mass_i):
    """Add the kernels of one tile row to the columns' sums, and return the row's."""
    total, one, zero = row.dtype.type(0), row.dtype.type(1), row.dtype.type(0)
    for j in range(n):
        t = maximum(one - row[j], zero)
        total += mass[j] * (t * t)
        column_sum[j] += mass_i * (t * t)
    return total


@helper
def _stats_tile(Zq, Zr, D, i0, j0, vq, vr, self_pos, sq, sr, a, b, c, e, mirror, work):
    n = e - c
    zero, one = Zq.dtype.type(0), Zq.dtype.type(1)
    row, column_sum = work[0], work[ROWS]
    for j in range(n):
        column_sum[j] = zero
    for i in range(a, b):
        distances(Zq, Zr, D, i, i0, j0, c, e, row)
        if c <= self_pos[i] < e:
            row[self_pos[i] - c] = one
        sq[i] += _sums(row, vr[c:e], column_sum, n, vq[i])
    if mirror:
        for j in range(n):
            sr[c + j] += column_sum[j]


@kernel
def compact_stats_block(
    Zq, Zr, D, vq, vr, own, self_pos, sq, sr, i0, i1, j0, j1, mirror, reach, mode, scratch
):
    """Sums of the kernel over references j0:j1 for queries i0:i1 (and back, if mirror).

    ``sq`` and ``sr`` are (2, n), [0] other classes, [1] own class.  Returns how many pairs were
    computed, in either direction.
    """
    a, pairs = i0, 0
    while a < i1:
        b = group_end(own, a, i1)
        first = max(j0, a) if mirror else j0
        n = group_tiles(Zq, own, a, b, first, j1, WIDTH, mirror and i0 == j0, reach, mode, scratch)
        for t in range(n):
            c, e, kind, square = scratch.table[t]
            _stats_tile(
                Zq, Zr, D, i0, j0, vq, vr, self_pos, sq[kind], sr[kind],
                a, b, c, e, mirror and square == 0, scratch.work,
            )  # fmt: skip
            pairs += (b - a) * (e - c) * (2 if mirror and square == 0 else 1)
        a = b
    return pairs


@helper
def _weights(row, mass, column_weight, n, weight_i, mass_i):
    """Turn squared distances into the weights of the pairs, in place: -kappa'(d²) = 2 (1 - d²)."""
    one, zero = row.dtype.type(1), row.dtype.type(0)
    for j in range(n):
        t = maximum(one - row[j], zero)
        row[j] = (t + t) * (weight_i * mass[j] + mass_i * column_weight[j])


@helper
def _grad_tile(
    Zq, Zr, D, i0, j0, vq, vr, self_pos, wq, wr, Gq, Gr, a, b, c, e, mirror, square, work
):
    """Add the pull of the tile's pairs to both gradients, or leave the weights in D."""
    n, zero = e - c, Zq.dtype.type(0)
    # a square holds both directions of its pairs: its column side goes to waste
    target, g_first = (work[ROWS + 4 :], 0) if square else (Gr, c)
    for first in range(a, b, 4):
        for i in range(first, first + 4):
            row = work[i - first]
            if i >= b:
                for j in range(n):
                    row[j] = zero
                continue
            distances(Zq, Zr, D, i, i0, j0, c, e, row)
            if c <= self_pos[i] < e:
                row[self_pos[i] - c] = Zq.dtype.type(1)
            _weights(row, vr[c:e], wr[c:e], n, wq[i], vq[i] if mirror else zero)
            if D.shape[0] > 0:
                x = D[i - i0, c - j0 : e - j0]
                for j in range(n):
                    x[j] = row[j]
        if D.shape[0] == 0:
            pull_four(work, Zq, Zr, Gq, target, g_first, first, b, c, e)


@kernel
def compact_grad_block(
    Zq, Zr, D, vq, vr, own, self_pos, wq, wr, Gq, Gr, i0, i1, j0, j1, mirror,
    reach, mode, scratch,
):  # fmt: skip
    """Add the pull of pairs (i0:i1, j0:j1) to the gradients Gq and Gr, both (d, n).

    The weight of a pair is ``2 (1 - d²) (wq_i v_j [+ wr_j v_i if mirror])`` within d = 1.  Where D
    holds the squared distances, all of them give way to the weights (``mode`` is ALL).
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
                Zq, Zr, D, i0, j0, vq, vr, self_pos, wq[kind], wr[kind],
                Gq, Gr, a, b, c, e, mirror, square == 1, scratch.work,
            )  # fmt: skip
        a = b


@helper
def _energy(row, mass, n):
    total, one, zero = row.dtype.type(0), row.dtype.type(1), row.dtype.type(0)
    least = row.dtype.type(1e-35)  # below the square of a rounding error
    for j in range(n):
        t = maximum(one - row[j], zero)
        total += mass[j] * (t * t) * log2(one / maximum(t * t, least))
    return total


@kernel
def compact_energy_block(Zq, Zr, vr, self_pos, energy, i0, i1, scratch):
    """Sum over references of ``-mass_j kappa_ij log2 kappa_ij`` for queries i0:i1."""
    row = scratch.work[0]
    for i in range(i0, i1):
        for c in range(0, Zr.shape[1], WIDTH):
            e = min(c + WIDTH, Zr.shape[1])
            distances(Zq, Zr, scratch.work[:0], i, 0, 0, c, e, row)
            if c <= self_pos[i] < e:
                row[self_pos[i] - c] = row.dtype.type(1)
            energy[i] += _energy(row, vr[c:e], e - c)
