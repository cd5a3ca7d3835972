"""NCA in tiles with the kernel ``(1 - d²)²`` for d < 1 and 0 beyond: plain sums.

The layout, the schedule and the arguments are those of :mod:`vicinal.kernels.nca` as far as this
kernel needs them: its values are in [0, 1], so nothing is shifted and no minima are kept.
"""

from __future__ import annotations

from vicinal.kernels._blocks import (
    ROWS,
    WIDTH,
    distances,
    pull_four,
)
from vicinal.kernels._jit import helper, kernel, log2, maximum


@helper
def _sums(row, mass, column_sum, n, mass_i):
    """Add the kernels of one tile row to the columns' sums, and return the row's."""
    total, one, zero = row.dtype.type(0), row.dtype.type(1), row.dtype.type(0)
    for j in range(n):
        t = maximum(one - row[j], zero)
        total += mass[j] * (t * t)
        column_sum[j] += mass_i * (t * t)
    return total


@kernel
def compact_stats_block(points, sq, sr, table, count, i0, j0, mirror, work):
    """Add the kernels of some tiles to the sums of their queries (if mirror, also references).

    ``sq`` and ``sr`` are (2, n), [0] other classes, [1] own class.  Returns the number of pairs
    computed, counting each direction.
    """
    Zq, self_pos = points.Zq, points.self_pos
    zero, one = Zq.dtype.type(0), Zq.dtype.type(1)
    row, column_sum = work[0], work[ROWS]
    pairs = 0
    for t in range(count):
        a, b, c, e, kind = table[t, 0], table[t, 1], table[t, 2], table[t, 3], table[t, 4]
        # a tile on the diagonal holds both directions of its pairs: no mirroring there
        both = mirror and table[t, 5] == 0
        n = e - c
        pairs += (b - a) * n * (2 if both else 1)
        for j in range(n):
            column_sum[j] = zero
        for i in range(a, b):
            distances(Zq, points.Zr, points.D, i, i0, j0, c, e, row)
            if c <= self_pos[i] < e:
                row[self_pos[i] - c] = one
            sq[kind, i] += _sums(row, points.vr[c:e], column_sum, n, points.vq[i])
        if both:
            sums = sr[kind, c:e]
            for j in range(n):
                sums[j] += column_sum[j]
    return pairs


@helper
def _weights(row, mass, column_weight, n, weight_i, mass_i):
    """Turn squared distances into the weights of the pairs, in place: -kappa'(d²) = 2 (1 - d²)."""
    one, zero = row.dtype.type(1), row.dtype.type(0)
    for j in range(n):
        t = maximum(one - row[j], zero)
        row[j] = (t + t) * (weight_i * mass[j] + mass_i * column_weight[j])


@kernel
def compact_grad_block(points, wq, wr, Gq, Gr, table, count, i0, j0, mirror, work):
    """Add the pull of the pairs of some tiles to the gradients Gq and Gr, both (d, n).

    The weight of a pair is ``2 (1 - d²) (wq_i v_j [+ wr_j v_i if mirror])`` within d = 1.  Where
    ``points.D`` holds the squared distances, the weights replace them.
    """
    Zq, Zr, D, self_pos = points.Zq, points.Zr, points.D, points.self_pos
    zero, one = Zq.dtype.type(0), Zq.dtype.type(1)
    for t in range(count):
        a, b, c, e, kind = table[t, 0], table[t, 1], table[t, 2], table[t, 3], table[t, 4]
        n = e - c
        # a square holds both directions of its pairs: its column gradient is discarded
        target, g_first = (work[ROWS + 4 :], 0) if table[t, 5] == 1 else (Gr, c)
        for first in range(a, b, 4):
            for i in range(first, first + 4):
                row = work[i - first]
                if i >= b:
                    for j in range(n):
                        row[j] = zero
                    continue
                distances(Zq, Zr, D, i, i0, j0, c, e, row)
                if c <= self_pos[i] < e:
                    row[self_pos[i] - c] = one
                mass_i = points.vq[i] if mirror else zero
                _weights(row, points.vr[c:e], wr[kind, c:e], n, wq[kind, i], mass_i)
                if D.shape[0] > 0:
                    x = D[i - i0, c - j0 : e - j0]
                    for j in range(n):
                        x[j] = row[j]
            if D.shape[0] == 0:
                pull_four(work, Zq, Zr, Gq, target, g_first, first, b, c, e)


@helper
def _energy(row, mass, n):
    total, one, zero = row.dtype.type(0), row.dtype.type(1), row.dtype.type(0)
    least = row.dtype.type(1e-35)  # less than the square of a rounding error
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
