"""kNCA over all pairs: what a query needs of each class, and the pull of every pair.

Layout.  Queries are lanes: a tile is ``(d, W)``, one row per dimension, and every loop over lanes
is a vector loop.  References come as :mod:`vicinal.kernels._blocks` has them, ``(d, n)`` and sorted
by class, in chunks with a bounding box each: chunk q is ``edges[q]:edges[q + 1]``, and those of
class c are ``classes[c]:classes[c + 1]``.

Of each class a lane keeps (docs/theory/knca.md derives all of it)

- ``T`` (k, W): the k smallest energies ``e = d²`` (the points being scaled by ``sqrt(log2 e)``,
  weights are ``2**-e``), in order; ``FAR`` stands for absent ones;
- ``E`` (k, W): the elementary symmetric polynomials e_1 .. e_k of the weights of all its other
  members, relative to ``2**-theta``: ``theta`` is at most the k-th smallest energy, so that no
  weight exceeds 1, and lower where they are many, so that their sum stays about k.

In that form nothing overflows; and what underflows is nothing beside the k members in T.  A chunk
whose box is ``reach`` beyond the k-th smallest energy of every lane changes no bit, and is left
out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vicinal.kernels._blocks import distances, group_box, pull_four
from vicinal.kernels._jit import exp2, helper, kernel, log2, maximum, minimum

__all__ = ["FAR", "Chunks", "Room", "height", "knca_collect", "knca_pull", "room"]

#: energy of an absent member, for float32 and float64: beyond that of any pair, and finite
FAR = (1e30, 1e300)
_EPS = tuple(float(np.finfo(dtype).eps) for dtype in (np.float32, np.float64))
_PART = 256  # references, about, whose chain is their own
_BYTES = 2**14  # of the energies of a tile: half of a first-level cache


class Chunks(NamedTuple):
    """References in chunks, see above; ``boxes`` is (2, d, n_chunks), ``reach`` an energy."""

    edges: NDArray
    classes: NDArray
    boxes: NDArray
    reach: float


class Room(NamedTuple):
    """Scratch for one thread: energies of some references (rows), and the chain of one class.

    ``part`` is that of the last few hundred by themselves: float32 would lose digits to the sum of
    many references one by one.
    """

    rows: NDArray
    chain: NDArray
    part: NDArray
    vectors: NDArray
    box: NDArray


def height(lanes, dtype):
    """How many references a chunk may have."""
    return max(8, _BYTES // (lanes * np.dtype(dtype).itemsize) // 4 * 4)


def room(k, lanes, d, dtype):
    """Room for one thread and tiles of so many lanes, in d (even) dimensions."""
    return Room(
        np.zeros((height(lanes, dtype) + 4, lanes), dtype),
        np.zeros((k + 1, lanes), dtype),
        np.zeros((k + 1, lanes), dtype),
        np.zeros((3, lanes), dtype),
        np.zeros((2, d), dtype),
    )


@helper
def _gap(box, boxes, q):
    """Smallest energy between the box of the queries and that of chunk q."""
    low, high = box[0], box[1]
    zero = box.dtype.type(0)
    gap = zero
    for k in range(box.shape[1]):
        t = maximum(maximum(boxes[0, k, q] - high[k], low[k] - boxes[1, k, q]), zero)
        gap += t * t
    return gap


@helper
def _nearest(box, chunks, c):
    """The chunk of class c that is nearest to the queries."""
    best, least = chunks.classes[c], box.dtype.type(np.inf)
    for q in range(chunks.classes[c], chunks.classes[c + 1]):
        gap = _gap(box, chunks.boxes, q)
        if gap < least:
            best, least = q, gap
    return best


@helper
def _in_reach(Zq, boxes, q, last, reach, spare):
    """Whether any lane is no farther than ``last + reach`` from the box of chunk q.

    Both distances are rounded, by more than ``reach`` where they are large: without ``slack`` the
    chunk of a member of T itself might be left out.
    """
    zero = last.dtype.type(0)
    slack = last.dtype.type(1 + (Zq.shape[0] + 2) * _EPS[Zq.itemsize // 8])
    for i in range(len(last)):
        spare[i] = -last[i] * slack
    for k in range(Zq.shape[0]):
        low, high, z = boxes[0, k, q], boxes[1, k, q], Zq[k]
        for i in range(len(last)):
            t = maximum(maximum(low - z[i], z[i] - high), zero)
            spare[i] += t * t
    least = spare[0]
    for i in range(len(last)):
        least = minimum(least, spare[i])
    return least <= reach


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
def _in_scale(last, theta, first, more):
    """Whether the chain still is in scale: the k-th smallest energy has not fallen, E[1] is low."""
    gap = most = last.dtype.type(0)
    for i in range(len(last)):
        gap = minimum(gap, last[i] - theta[i])
        most = maximum(most, first[i] + more[i])
    return gap, most


@helper
def _rescale(last, theta, chain, part, factor, power, shift, far):
    """Bring the chain to the scale of the smallest energies so far; the scale to use in shift."""
    k, n = chain.shape[0] - 1, chain.shape[1]
    zero, one, half = far * 0, far * 0 + 1, far / 2
    first, more = chain[1], part[1]
    for i in range(n):
        scale = minimum(last[i], theta[i])
        ratio = exp2(scale - theta[i])
        ratio = ratio if theta[i] < half else zero  # nothing in the chain yet
        # many weights near 1 would overflow in the high powers
        excess = log2(maximum(ratio * (first[i] + more[i]) / k, one))
        theta[i] = scale - excess
        factor[i] = ratio * exp2(-excess)
        power[i] = factor[i]
        shift[i] = theta[i] if theta[i] < half else zero
    for u in range(1, k + 1):
        x, y = chain[u], part[u]
        for i in range(n):
            x[i] *= power[i]
            y[i] *= power[i]
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


@helper
def _add_chunk(rows, n, chain, shift):
    """Add n rows of energies, four at a time, to the chain."""
    zero = shift.dtype.type(0)
    for r in range(0, n, 4):
        for s in range(r, r + 4):
            row = rows[s]
            if s < n:
                for i in range(len(shift)):
                    row[i] = exp2(minimum(shift[i] - row[i], zero))
            else:
                row[:] = 0
        _four(rows[r], rows[r + 1], rows[r + 2], rows[r + 3])
        _advance(chain, rows[r], rows[r + 1], rows[r + 2], rows[r + 3])


@helper
def _join(chain, part):
    """Multiply the chain by the polynomial of a part, which becomes 1."""
    for u in range(chain.shape[0] - 1, 0, -1):  # highest degrees first, in place
        for v in range(1, u + 1):
            _add_product(chain[u], part[v], chain[u - v])
    part[0, :] = 1
    part[1:, :] = 0


@kernel
def knca_collect(Zq, Zr, chunks, self_pos, T, E, theta, room):
    """T, E and theta of a tile of queries, over all references.

    Parameters
    ----------
    Zq : (d, W) tile of queries; Zr : (d, n) references; d even
    chunks : Chunks
    self_pos : (W,) position of each query among the references, or -1
    T, E : (C, k, W) and theta : (C, W), results

    Returns
    -------
    count : references that were looked at
    """
    rows, chain, part = room.rows, room.chain, room.part
    shift, factor, power = room.vectors[0], room.vectors[1], room.vectors[2]
    k, n = T.shape[1], T.shape[2]
    zero = Zq.dtype.type(0)
    far = Zq.dtype.type(FAR[Zq.itemsize // 8])
    group_box(Zq, 0, n, room.box[0], room.box[1])
    count = 0
    part[0, :] = 1
    part[1:, :] = 0
    for c in range(T.shape[0]):
        T[c, :, :] = far
        theta[c, :] = far
        chain[0, :] = 1
        chain[1:, :] = 0
        in_part = 0
        first, last = chunks.classes[c], chunks.classes[c + 1]
        if first < last:
            nearest = _nearest(room.box, chunks, c)
            # more than k members: not all are in T
            more = chunks.edges[last] - chunks.edges[first] > k
            for turn in range(first - 1, last):  # the nearest first: fewer come and go in T
                q = nearest if turn < first else turn
                if turn == nearest:
                    continue
                if turn >= first and not _in_reach(
                    Zq, chunks.boxes, q, T[c, k - 1], chunks.reach, factor
                ):
                    continue
                j0, j1 = chunks.edges[q], chunks.edges[q + 1]
                count += j1 - j0
                _energies(Zq, Zr, self_pos, j0, j1, far, rows)
                for r in range(j1 - j0):
                    _select(rows[r], T[c])
                if more:
                    gap, most = _in_scale(T[c, k - 1], theta[c], chain[1], part[1])
                    if turn < first or gap < 0 or most > 4 * k:
                        _rescale(T[c, k - 1], theta[c], chain, part, factor, power, shift, far)
                    _add_chunk(rows, j1 - j0, part, shift)
                    in_part += j1 - j0
                    if in_part >= _PART:
                        _join(chain, part)
                        in_part = 0
            if in_part > 0:
                _join(chain, part)
        for i in range(n):  # where no chain was needed: rounding may put the k-th beyond T
            theta[c, i] = minimum(theta[c, i], T[c, k - 1, i])
        for u in range(k):
            for i in range(n):
                E[c, u, i] = chain[u + 1, i] if T[c, k - 1, i] < far / 2 else zero
    return count


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
        if not _in_reach(Zq, chunks.boxes, q, T[c, k - 1], chunks.reach, spare):
            continue
        j0, j1 = chunks.edges[q], chunks.edges[q + 1]
        _energies(Zq, Zr, self_pos, j0, j1, far, rows)
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
