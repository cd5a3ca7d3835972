"""kNCA over all pairs, backwards: from what is known of each class to the pull of every pair.

Layout and names are those of :mod:`vicinal.kernels.knca`.
"""

from __future__ import annotations

import numpy as np

from vicinal.kernels._blocks import pull_four
from vicinal.kernels._chunks import FAR, energies, in_reach
from vicinal.kernels._jit import exp2, helper, kernel, minimum

__all__ = ["knca_pull"]


@helper
def _weights(row, theta, last, w):
    """Weights of a row of energies; the result is not positive if any lane has it in T."""
    zero = row.dtype.type(0)
    gap = row[0] - last[0]
    for i in range(len(row)):
        gap = minimum(gap, row[i] - last[i])
        w[i] = exp2(minimum(theta[i] - row[i], zero))
    return gap


# Polynomials two degrees at a time, each loop with so few arrays that LLVM still checks them for
# overlap, and vectorises.


@helper
def _quadratic(out, w, a, b, c):
    for i in range(len(out)):
        out[i] = c[i] - (b[i] - a[i] * w[i]) * w[i]


@helper
def _linear(out, w, b, c):
    for i in range(len(out)):
        out[i] = c[i] - b[i] * w[i]


@helper
def _two_more(out, w, b, c):
    for i in range(len(out)):
        out[i] = c[i] - (b[i] - out[i] * w[i]) * w[i]


@helper
def _last_two(out, w, b, c):
    for i in range(len(out)):
        out[i] = (c[i] - (b[i] - out[i] * w[i]) * w[i]) * w[i]


@helper
def _product(out, w, b):
    for i in range(len(out)):
        out[i] = w[i] * b[i]


@helper
def _horner(w, powers, out):
    """``w (b_0 - b_1 w + b_2 w² - ...)`` of every lane, the coefficients b being the powers."""
    k = powers.shape[0]
    if k == 1:
        _product(out, w, powers[0])
        return
    v = k - 2 - k % 2
    if k % 2:
        _quadratic(out, w, powers[k - 1], powers[k - 2], powers[v])
    else:
        _linear(out, w, powers[k - 1], powers[v])
    while v > 2:
        v -= 2
        _two_more(out, w, powers[v + 1], powers[v])
    if v == 2:
        _last_two(out, w, powers[1], powers[0])
    else:
        for i in range(len(out)):
            out[i] *= w[i]


@helper
def _look_up(row, T, values, out):
    """Give the members of T, and those as far as its last, the values that are kept for them."""
    k, n = T.shape
    last = T[k - 1]
    for i in range(n):
        if row[i] <= last[i]:
            m = 0
            while m < k - 1 and T[m, i] < row[i]:
                m += 1
            # the energies may have been rounded differently the first time: the nearer of two
            if m > 0 and row[i] - T[m - 1, i] < T[m, i] - row[i]:
                m -= 1
            out[i] = values[m, i]


@helper
def _weigh(row, T, theta, powers, values, w, out):
    """From a row of energies to the derivatives of the loss by them."""
    gap = _weights(row, theta, T[T.shape[0] - 1], w)
    _horner(w, powers, out)
    if gap <= 0:
        _look_up(row, T, values, out)


@helper
def _pull_tile(Zq, Zr, chunks, self_pos, T, theta, powers, values, Gq, Gr, first, last, room):
    rows, spare = room.rows, room.vectors[0]
    far = Zq.dtype.type(FAR[Zq.itemsize // 8])
    weights = rows[rows.shape[0] - 4 :]
    k, n = T.shape[1], T.shape[2]
    c = -1
    for q in range(first, last):
        if c < 0 or chunks.classes[c + 1] <= q:
            c = np.searchsorted(chunks.classes, q, side="right") - 1
        if not in_reach(Zq, chunks.boxes, q, T[c, k - 1], chunks.reach, spare):
            continue
        j0, j1 = chunks.edges[q], chunks.edges[q + 1]
        energies(Zq, Zr, self_pos, j0, j1, far, rows)
        for j in range(j0, j1, 4):
            for s in range(4):
                if j + s < j1:
                    _weigh(
                        rows[j + s - j0], T[c], theta[c], powers[c], values[c], spare, weights[s]
                    )
                else:
                    weights[s, :] = 0
            pull_four(weights, Zr, Zq, Gr, Gq, 0, j, j1, 0, n)


@kernel
def knca_pull(Zq, Zr, chunks, self_pos, T, theta, powers, values, Gq, Gr, first, last, room):
    """Add the pull of chunks first:last on tiles of queries to Gq, and back to Gr (d, n).

    Parameters
    ----------
    Zq : (tiles, d, W) and self_pos : (tiles, W), the queries
    Zr, chunks : as in `knca_collect`
    T : (tiles, C, k, W) and theta : (tiles, C, W), results of `knca_collect`
    powers : (tiles, C, k, W) coefficients b_v of the polynomial in the weight w, relative to theta,
        whose w-fold is the derivative of the loss by the energy of a member that is not in T
    values : (tiles, C, k, W) that derivative for the members in T
    Gq : (tiles, d, W)
    """
    for t in range(Zq.shape[0]):
        _pull_tile(
            Zq[t], Zr, chunks, self_pos[t], T[t], theta[t], powers[t], values[t], Gq[t], Gr,
            first, last, room,
        )  # fmt: skip
