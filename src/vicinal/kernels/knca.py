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

from vicinal.kernels._blocks import group_box
from vicinal.kernels._chunks import FAR, energies, in_reach, nearest_chunk
from vicinal.kernels._jit import exp2, helper, kernel, log2, maximum, minimum

__all__ = ["knca_collect"]

_PART = 256  # references, about, whose chain is their own


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
            nearest = nearest_chunk(room.box, chunks, c)
            # more than k members: not all are in T
            more = chunks.edges[last] - chunks.edges[first] > k
            for turn in range(first - 1, last):  # the nearest first: fewer come and go in T
                q = nearest if turn < first else turn
                if turn == nearest:
                    continue
                if turn >= first and not in_reach(
                    Zq, chunks.boxes, q, T[c, k - 1], chunks.reach, factor
                ):
                    continue
                j0, j1 = chunks.edges[q], chunks.edges[q + 1]
                count += j1 - j0
                energies(Zq, Zr, self_pos, j0, j1, far, rows)
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
