"""kNCA over all pairs: what a query needs of each class, and the pull of every pair.

Layout.  Queries are lanes: a tile is ``(d, W)``, one row per dimension, and every loop over lanes
is a vector loop.  References come as :mod:`vicinal.kernels._blocks` has them, ``(d, n)`` and sorted
by class (class c is ``edges[c]:edges[c + 1]``), and are visited one after the other.

Of each class a lane keeps (docs/theory/knca.md derives all of it)

- ``T`` (k, W): the k smallest energies ``e = d²`` (the points being scaled by ``sqrt(log2 e)``,
  weights are ``2**-e``), in order; ``FAR`` stands for absent ones;
- ``E`` (k, W): the elementary symmetric polynomials e_1 .. e_k of the weights of all its other
  members, relative to ``2**-theta``: ``theta`` is at most the k-th smallest energy, so that no
  weight exceeds 1, and lower where they are many, so that their sum stays about k.

In that form nothing overflows; and what underflows is nothing beside the k members in T.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vicinal.kernels._blocks import distances, pull_four
from vicinal.kernels._jit import exp2, helper, kernel, log2, maximum, minimum

__all__ = ["FAR", "Room", "knca_collect", "knca_pull", "room"]

#: energy of an absent member, for float32 and float64: beyond that of any pair, and finite
FAR = (1e30, 1e300)
_BYTES = 2**14  # of the energies of a tile: half of a first-level cache


class Room(NamedTuple):
    """Scratch for one thread: energies of some references (rows) and the chain of one class."""

    rows: NDArray
    chain: NDArray
    vectors: NDArray


def room(k, lanes, dtype):
    """Room for one thread and tiles of so many lanes."""
    n_rows = max(8, _BYTES // (lanes * np.dtype(dtype).itemsize) // 4 * 4)
    return Room(
        np.zeros((n_rows, lanes), dtype),
        np.zeros((k + 1, lanes), dtype),
        np.zeros((4, lanes), dtype),
    )


@helper
def _energies(Zq, Zr, self_pos, j0, j1, far, rows):
    """Energies of references j0:j1 to all lanes; a query is no reference of itself."""
    for j in range(j0, j1):
        distances(Zr, Zq, rows[:0], j, 0, 0, 0, Zq.shape[1], rows[j - j0])
    for i in range(Zq.shape[1]):
        if j0 <= self_pos[i] < j1:
            rows[self_pos[i] - j0, i] = far


@helper
def _select(row, T):
    """Put a row of energies in its place among the smallest; what is pushed out is left in it."""
    k, n = T.shape
    last, gap = T[k - 1], row.dtype.type(0)
    for i in range(n):
        gap = minimum(gap, row[i] - last[i])
    if gap == 0:
        return
    for m in range(k):
        t = T[m]
        for i in range(n):
            low = minimum(t[i], row[i])
            row[i] = maximum(t[i], row[i])
            t[i] = low


@helper
def _rescale(last, theta, chain, factor, power, shift, far):
    """Bring the chain to the scale of the smallest energies so far; the scale to use in shift."""
    k, n = chain.shape[0] - 1, chain.shape[1]
    zero, one, half = far * 0, far * 0 + 1, far / 2
    first = chain[1]
    for i in range(n):
        scale = minimum(last[i], theta[i])
        ratio = exp2(scale - theta[i])
        ratio = ratio if theta[i] < half else zero  # nothing in the chain yet
        # many weights near 1 would overflow in the high powers
        excess = log2(maximum(ratio * first[i] / k, one))
        theta[i] = scale - excess
        factor[i] = ratio * exp2(-excess)
        power[i] = factor[i]
        shift[i] = theta[i] if theta[i] < half else zero
    for u in range(1, k + 1):
        x = chain[u]
        for i in range(n):
            x[i] *= power[i]
            power[i] *= factor[i]


@helper
def _four(a, b, c, d):
    """Elementary polynomials of four weights, in their place."""
    for i in range(len(a)):
        s, p, t, q = a[i] + b[i], a[i] * b[i], c[i] + d[i], c[i] * d[i]
        a[i] = s + t
        b[i] = p + q + s * t
        c[i] = p * t + q * s
        d[i] = p * q


@helper
def _advance(chain, a, b, c, d):
    """Multiply the chain by a polynomial of degree four: highest degrees first, in place."""
    for u in range(chain.shape[0] - 1, 0, -1):
        if u == 1:
            _add_product(chain[u], a, chain[u - 1])
        else:
            _add_products(chain[u], a, chain[u - 1], b, chain[u - 2])
        if u == 3:
            _add_product(chain[u], c, chain[u - 3])
        elif u > 3:
            _add_products(chain[u], c, chain[u - 3], d, chain[u - 4])


@helper
def _add_product(y, a, x):
    for i in range(len(y)):
        y[i] += a[i] * x[i]


@helper
def _add_products(y, a, x, b, z):
    # two products at a time: with more arrays LLVM gives up to check that none overlap
    for i in range(len(y)):
        y[i] += a[i] * x[i] + b[i] * z[i]


@kernel
def knca_collect(Zq, Zr, edges, self_pos, T, E, theta, room):
    """T, E and theta of a tile of queries, over all references.

    Parameters
    ----------
    Zq : (d, W) tile of queries; Zr : (d, n) references; d even
    edges : (C + 1,) the classes among the references
    self_pos : (W,) position of each query among the references, or -1
    T, E : (C, k, W) and theta : (C, W), results
    """
    rows, chain = room.rows, room.chain
    shift, factor, power = room.vectors[0], room.vectors[1], room.vectors[2]
    k, n = T.shape[1], T.shape[2]
    zero = Zq.dtype.type(0)
    far = Zq.dtype.type(FAR[Zq.itemsize // 8])
    for c in range(T.shape[0]):
        T[c, :, :] = far
        theta[c, :] = far
        chain[0, :] = 1
        chain[1:, :] = 0
        for j0 in range(edges[c], edges[c + 1], rows.shape[0]):
            j1 = min(j0 + rows.shape[0], edges[c + 1])
            _energies(Zq, Zr, self_pos, j0, j1, far, rows)
            for r in range(j1 - j0):
                _select(rows[r], T[c])
            if edges[c + 1] - edges[c] <= k:
                continue  # all members are in T
            _rescale(T[c, k - 1], theta[c], chain, factor, power, shift, far)
            for r in range(0, j1 - j0, 4):
                for s in range(r, r + 4):
                    row = rows[s]
                    if s < j1 - j0:
                        for i in range(n):
                            row[i] = exp2(minimum(shift[i] - row[i], zero))
                    else:
                        row[:] = 0
                _four(rows[r], rows[r + 1], rows[r + 2], rows[r + 3])
                _advance(chain, rows[r], rows[r + 1], rows[r + 2], rows[r + 3])
        for u in range(k):
            for i in range(n):
                E[c, u, i] = chain[u + 1, i] if T[c, k - 1, i] < far / 2 else zero


@helper
def _weights(row, theta, last, w):
    """Weights of a row of energies; the return value is negative if any lane has it in T."""
    zero = row.dtype.type(0)
    gap = zero
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
def _horner(w, slopes, out):
    """``w (b_0 - b_1 w + b_2 w² - ...)`` of every lane, the coefficients b being the slopes."""
    k = slopes.shape[0]
    if k == 1:
        _product(out, w, slopes[0])
        return
    v = k - 2 - k % 2
    if k % 2:
        _quadratic(out, w, slopes[k - 1], slopes[k - 2], slopes[v])
    else:
        _linear(out, w, slopes[k - 1], slopes[v])
    while v > 2:
        v -= 2
        _two_more(out, w, slopes[v + 1], slopes[v])
    if v == 2:
        _last_two(out, w, slopes[1], slopes[0])
    else:
        for i in range(len(out)):
            out[i] *= w[i]


@helper
def _look_up(row, T, values, out):
    """Give the members of T the values that are kept for them."""
    k, n = T.shape
    last = T[k - 1]
    for i in range(n):
        if row[i] < last[i]:
            m = 0
            while m < k - 1 and T[m, i] < row[i]:
                m += 1
            # the energies may have been rounded differently the first time: the nearer of two
            if m > 0 and row[i] - T[m - 1, i] < T[m, i] - row[i]:
                m -= 1
            out[i] = values[m, i]


@helper
def _weigh(row, T, theta, slopes, values, w, out):
    """From a row of energies to the derivatives of the loss by them."""
    gap = _weights(row, theta, T[T.shape[0] - 1], w)
    _horner(w, slopes, out)
    if gap < 0:
        _look_up(row, T, values, out)


@kernel
def knca_pull(Zq, Zr, edges, self_pos, T, theta, slopes, values, Gq, Gr, j0, j1, room):
    """Add the pull of references j0:j1 on a tile of queries to Gq (d, W), and back to Gr (d, n).

    Parameters
    ----------
    Zq, Zr, edges, self_pos, T, theta : as in `knca_collect`
    slopes : (C, k, W) coefficients b_v of the polynomial in the weight w, relative to theta, whose
        w-fold is the derivative of the loss by the energy of a member that is not in T
    values : (C, k, W) that derivative for the members in T
    """
    rows, spare = room.rows, room.vectors[0]
    far = Zq.dtype.type(FAR[Zq.itemsize // 8])
    c = np.searchsorted(edges, j0, side="right") - 1
    weights = room.rows[rows.shape[0] - 4 :]
    step = rows.shape[0] - 4
    while j0 < j1:
        while edges[c + 1] <= j0:
            c += 1
        j = min(j0 + step, edges[c + 1], j1)
        _energies(Zq, Zr, self_pos, j0, j, far, rows)
        for first in range(j0, j, 4):
            for s in range(4):
                if first + s < j:
                    _weigh(
                        rows[first + s - j0], T[c], theta[c], slopes[c], values[c], spare,
                        weights[s],
                    )  # fmt: skip
                else:
                    weights[s, :] = 0
            pull_four(weights, Zr, Zq, Gr, Gq, 0, first, j, 0, Zq.shape[1])
        j0 = j
