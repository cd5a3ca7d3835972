"""NCA in tiles: row statistics first, then each pair's weight and its pull on both points.

Layout.  Points are laid out as in :mod:`vicinal.kernels._blocks`.  A kernel value is ``2**-e`` with
an energy e: d² for the Gaussian (``power`` None), whose points are scaled by ``sqrt(log2 e)``;
``power log2(1 + d²)`` for Student's kernel; d for Laplace's (``power`` 0), whose points are scaled
by ``log2 e``.  Two log-sum-exps are kept per query, over the other classes (index 0) and over its
own (index 1), each shifted by its own exact minimum.

Symmetric use (``mirror``): queries and references are the same points, and every unordered pair is
computed once for both its rows.  One exponential serves both directions as long as the shifts in a
tile are within ``_SPREAD``; a wider tile needs one for each.

A block writes only to the rows ``i0:i1`` and ``j0:j1``: the schedule in :mod:`vicinal._threads`
never runs two blocks that share rows at the same time and fixes their order, so the bits do not
depend on the number of threads.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vicinal.kernels._blocks import (
    ROWS,
    WIDTH,
    distances,
    pull_four,
    steepness,
    to_energies,
)
from vicinal.kernels._jit import exp2, helper, kernel, log2, maximum, minimum

# Powers of two, for float32 and float64: shifts in a tile may differ by _SPREAD, and the common
# shift is at most _ROOM above the smallest of them.  A term is then below 2**_ROOM; the floor of
# exp2 is less than 2**(_SPREAD - _ROOM - 80) of any sum; and its product with a row's factor of
# 2**-_ROOM or more is not a denormal number, which would be slow.
_SPREAD = (60, 600)
_ROOM = (20, 200)


class Running(NamedTuple):
    """Minima m and sums s, or factors w, of queries and references: (2, n) arrays.

    [0] is for the other classes, [1] for the own class.
    """

    mq: NDArray
    sq: NDArray
    mr: NDArray
    sr: NDArray


# Each kernel is one long function: LLVM simplifies a called function on its own, then optimises it
# in every caller, at each level of calls.


@kernel
def nca_stats_block(points, running, table, count, i0, j0, mirror, power, work):
    """Add tiles to the minima and shifted sums of their queries (if mirror, also references).

    Parameters
    ----------
    points : Points
    running : Running, minima and sums; in-out
    table, count : tiles, of `all_tiles` or `some_tiles`
    i0, j0 : first query and reference of the block, the corner of ``points.D``
    mirror : whether the references are the queries
    power : None for the Gaussian, (d + 1) / 2 for Student's kernel, 0 for Laplace's
    work : of ``Scratch``

    Returns
    -------
    pairs : number of pairs computed, counting each direction
    """
    Zq, Zr, D, self_pos = points.Zq, points.Zr, points.D, points.self_pos
    zero, inf = Zq.dtype.type(0), Zq.dtype.type(np.inf)
    spread, most = _SPREAD[Zq.itemsize // 8], Zq.dtype.type(_ROOM[Zq.itemsize // 8])
    column_min, column_sum, column_shift = work[ROWS], work[ROWS + 1], work[ROWS + 2]
    pairs = 0
    for t in range(count):
        a, b, c, e, kind = table[t, 0], table[t, 1], table[t, 2], table[t, 3], table[t, 4]
        # a tile on the diagonal holds both directions of its pairs: no mirroring there
        both = mirror and table[t, 5] == 0
        mq, sq, n = running.mq[kind], running.sq[kind], e - c
        mr, sr, mass = running.mr[kind, c:e], running.sr[kind, c:e], points.vr[c:e]
        pairs += (b - a) * n * (2 if both else 1)
        for j in range(n):
            column_min[j] = mr[j]
            column_sum[j] = zero
            column_shift[j] = zero
        low, high = inf, -inf
        for i in range(a, b):
            row = work[i - a]
            distances(Zq, Zr, D, i, i0, j0, c, e, row)
            if power is not None:
                to_energies(row, n, power)
            if c <= self_pos[i] < e:
                row[self_pos[i] - c] = inf
            m = mq[i]
            for j in range(n):
                column_min[j] = minimum(column_min[j], row[j])
                m = minimum(m, row[j])
            if m < mq[i]:
                sq[i] *= exp2(m - mq[i])
                mq[i] = m
            low, high = minimum(low, m), maximum(high, m)
        wide = False
        if both:
            for j in range(n):
                low, high = minimum(low, column_min[j]), maximum(high, column_min[j])
            wide = high - low > spread
            high = minimum(high, low + most)
        shared = both and not wide
        for turn in range(2 if wide else 1):  # wide tile: first the rows' sums, then the columns'
            if turn == 1:
                for j in range(n):
                    column_shift[j] = column_min[j]
            for i in range(a, b):
                if mq[i] == inf:
                    continue
                row = work[i - a]
                shift = high if shared else (zero if turn else mq[i])
                mass_i = points.vq[i] if shared or turn else zero
                total = zero
                for j in range(n):
                    power_j = exp2(shift + column_shift[j] - row[j])
                    total += mass[j] * power_j
                    column_sum[j] += mass_i * power_j
                if turn == 0:
                    sq[i] += total * exp2(mq[i] - shift)
        if both:
            for j in range(n):
                m = column_min[j]
                scale = exp2(m - (m if wide else high))
                sr[j] = sr[j] * exp2(m - mr[j]) + column_sum[j] * scale
                mr[j] = m
    return pairs


@helper
def _weights(row, column_shift, mass, column_weight, n, shift, weight_i, mass_i, power):
    """Turn squared distances into the weights of the pairs, in place.

    In place, in one array: two overlapping arrays would fail LLVM's alias check and prevent
    vectorisation.  For Student's kernel -kappa'(d²) is kappa times power / (1 + d²).
    """
    one = row.dtype.type(1)
    if power is None:
        for j in range(n):
            e = exp2(shift + column_shift[j] - row[j])
            row[j] = e * (weight_i * mass[j] + mass_i * column_weight[j])
    elif power > 0:
        for j in range(n):
            t = one + row[j]
            e = exp2(shift + column_shift[j] - power * log2(t)) * (power / t)
            row[j] = e * (weight_i * mass[j] + mass_i * column_weight[j])
    else:
        for j in range(n):
            t = np.sqrt(row[j])
            e = exp2(shift + column_shift[j] - t) * steepness(row[j], t)
            row[j] = e * (weight_i * mass[j] + mass_i * column_weight[j])


@kernel
def nca_grad_block(points, running, Gq, Gr, table, count, i0, j0, mirror, power, work):
    """Add the pull of the pairs of some tiles to the gradients Gq and Gr, both (d, n).

    Where ``points.D`` holds the squared distances, the weights replace them, and the caller gets
    the gradient by two matrix products; all tiles of the block must then be given.

    The weight of a pair is ``wq_i v_j k(mq_i) [+ wr_j v_i k(mr_j) if mirror]``, with m the minima
    and w the row factors of each kind (0 other, 1 own class; in ``running`` in place of the sums),
    and ``k(m) = 2**(m - e)`` times the steepness: ``power / (1 + d²)`` for Student's kernel, and
    ``1 / 2d`` for Laplace's.
    """
    Zq, Zr, D, self_pos = points.Zq, points.Zr, points.D, points.self_pos
    zero, inf = Zq.dtype.type(0), Zq.dtype.type(np.inf)
    spread, most = _SPREAD[Zq.itemsize // 8], Zq.dtype.type(_ROOM[Zq.itemsize // 8])
    nothing, column_weight = work[ROWS], work[ROWS + 1]
    column_shift, back = work[ROWS + 2], work[ROWS + 3]
    products = D.shape[0] > 0
    for j in range(work.shape[1]):
        nothing[j] = zero
    for t in range(count):
        a, b, c, e, kind = table[t, 0], table[t, 1], table[t, 2], table[t, 3], table[t, 4]
        mq, wq, n = running.mq[kind], running.sq[kind], e - c
        mr, wr, mass = running.mr[kind, c:e], running.sr[kind, c:e], points.vr[c:e]
        wide, high = False, -inf
        if mirror:
            low = inf
            for i in range(a, b):
                low, high = minimum(low, mq[i]), maximum(high, mq[i])
            for j in range(n):
                low, high = minimum(low, mr[j]), maximum(high, mr[j])
            wide = high - low > spread
            high = minimum(high, low + most)
            # the columns' factors and shifts: under the common shift, or each under its own
            for j in range(n):
                column_weight[j] = wr[j] * exp2((mr[j] if not wide else high) - high)
                column_shift[j] = mr[j] if wide else zero
        shared = mirror and not wide
        # a square holds both directions of its pairs: its column gradient is discarded
        target, g_first = (work[ROWS + 4 :], 0) if table[t, 5] == 1 else (Gr, c)
        for first in range(a, b, 4):
            for i in range(first, first + 4):
                if i >= b and products:
                    break  # row b - 1 of D already holds its weights, and nothing is summed here
                row = work[i - first]
                q = minimum(i, b - 1)  # past the last query the weights are zero: any point will do
                distances(Zq, Zr, D, q, i0, j0, c, e, row)
                if c <= self_pos[q] < e:
                    row[self_pos[q] - c] = inf
                if wide:
                    for j in range(n):
                        back[j] = row[j]
                for turn in range(2 if wide else 1):  # wide tile: columns' weights, rows'
                    columns = wide and turn == 0
                    shift = zero if columns else (high if shared else mq[q])
                    weight = zero if columns or i >= b else wq[q] * exp2(mq[q] - shift)
                    mass_i = points.vq[q] if (shared or columns) and i < b else zero
                    _weights(
                        back if columns else row, column_shift if columns else nothing, mass,
                        column_weight, n, shift, weight, mass_i, power,
                    )  # fmt: skip
                if wide:
                    for j in range(n):
                        row[j] += back[j]
                if products and i < b:
                    x = D[i - i0, c - j0 : e - j0]
                    for j in range(n):
                        x[j] = row[j]
            if not products:
                pull_four(work, Zq, Zr, Gq, target, g_first, first, b, c, e)


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
            e = minimum(c + WIDTH, Zr.shape[1])
            distances(Zq, Zr, scratch.work[:0], i, 0, 0, c, e, row)
            if power is not None:
                to_energies(row, e - c, power)
            if c <= self_pos[i] < e:
                row[self_pos[i] - c] = shift[i]  # adds nothing
            energy[i] += _energy(row, vr[c:e], e - c, shift[i])
