"""kNCA over all pairs: the class summaries of each query.

Layout.  Queries are lanes: a tile is ``(d, W)``, one row per dimension, and every loop over lanes
is a vector loop.  References have the layout of :mod:`vicinal.kernels._blocks`, ``(d, n)`` and
sorted by class, in chunks with a bounding box each: chunk q is ``edges[q]:edges[q + 1]``, and the
chunks of class c are ``classes[c]:classes[c + 1]``.

A lane's summary of a class is (docs/theory/knca.md derives all of it)

- ``T`` (k, W): the k smallest energies ``e = d²`` (the points being scaled by ``sqrt(log2 e)``,
  weights are ``2**-e``), in order; ``FAR`` stands for absent ones;
- ``E`` (k, W): the elementary symmetric polynomials e_1 .. e_k of the weights of all its other
  members, relative to ``2**-theta``: ``theta`` is at most the k-th smallest energy, so that no
  weight exceeds 1, and lower if there are many, so that their sum stays about k.

In that form nothing overflows, and terms that underflow are negligible beside the k members in T.
A chunk whose box is ``reach`` beyond the k-th smallest energy of every lane changes no bit, and is
left out.
"""

from __future__ import annotations

import numpy as np

from vicinal.kernels._blocks import group_box
from vicinal.kernels._chunks import FAR, energies, in_reach
from vicinal.kernels._jit import exp2, helper, kernel, log2, maximum, minimum

_PART = 256  # about how many references go into a part before it joins the chain


@helper
def _rescale(last, theta, chain, part, factor, power, shift, far):
    """Rescale the chain to the smallest energies so far; ``shift`` gets the new scale."""
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
def _reset(polynomials):
    """Set every lane's polynomial to 1."""
    for u in range(polynomials.shape[0]):
        x, coefficient = polynomials[u], 1 if u == 0 else 0
        for i in range(len(x)):
            x[i] = coefficient


@helper
def _join(chain, part):
    """Multiply the chain by the polynomial of a part, and reset the part to 1."""
    for u in range(chain.shape[0] - 1, 0, -1):  # highest degrees first, in place
        y = chain[u]
        for v in range(1, u + 1):
            a, x = part[v], chain[u - v]
            for i in range(len(y)):
                y[i] += a[i] * x[i]
    _reset(part)


@kernel
def knca_collect(Zq, Zr, chunks, self_pos, T, E, theta, room):
    """T, E and theta of a tile of queries, over all references.

    Parameters
    ----------
    Zq : (d, W) tile of queries; Zr : (d, n) references; d even
    chunks : Chunks
    self_pos : (W,) position of each query among the references, or -1
    T, E : (C, k, W) and theta : (C, W), out; T and theta come full of ``FAR``

    Returns
    -------
    count : number of references visited
    """
    # One long function, as in vicinal.kernels.nca: called functions are compiled again.
    rows, chain, part = room.rows, room.chain, room.part
    shift, factor, power = room.vectors[0], room.vectors[1], room.vectors[2]
    k, n = T.shape[1], T.shape[2]
    zero, inf = Zq.dtype.type(0), Zq.dtype.type(np.inf)
    far = Zq.dtype.type(FAR[Zq.itemsize // 8])
    low, high = room.box[0], room.box[1]
    group_box(Zq, 0, n, low, high)
    count = 0
    _reset(part)
    for c in range(T.shape[0]):
        _reset(chain)
        last = T[c, k - 1]
        in_part = 0
        begin, end = chunks.classes[c], chunks.classes[c + 1]
        nearest, least = begin, inf  # the chunk nearest to the queries
        for q in range(begin, end):
            gap = zero
            for f in range(Zq.shape[0]):
                x = maximum(chunks.boxes[0, f, q] - high[f], low[f] - chunks.boxes[1, f, q])
                x = maximum(x, zero)
                gap += x * x
            if gap < least:
                nearest, least = q, gap
        # more than k members: not all are in T
        more = chunks.edges[end] - chunks.edges[begin] > k
        for turn in range(begin - 1 if begin < end else end, end + 1):
            if in_part >= _PART or (turn == end and in_part > 0):
                _join(chain, part)
                in_part = 0
            if turn == end:
                break
            q = nearest if turn < begin else turn  # the nearest first: T changes less often
            if turn == nearest:
                continue
            if turn >= begin and not in_reach(Zq, chunks.boxes, q, last, chunks.reach, factor):
                continue
            j0, j1 = chunks.edges[q], chunks.edges[q + 1]
            count += j1 - j0
            energies(Zq, Zr, self_pos, j0, j1, far, rows)
            for r in range(j1 - j0):
                # insert each energy among the smallest; the row keeps the energies pushed out
                row, gap = rows[r], zero
                for i in range(n):
                    gap = minimum(gap, row[i] - last[i])
                if gap == 0:
                    continue
                for m in range(k):
                    t = T[c, m]
                    for i in range(n):
                        smaller = minimum(t[i], row[i])
                        row[i] = maximum(t[i], row[i])
                        t[i] = smaller
            if not more:
                continue
            # rescale unless the k-th smallest energy is unchanged and E[1] is small
            scale, first, rest = theta[c], chain[1], part[1]
            gap = most = zero
            for i in range(n):
                gap = minimum(gap, last[i] - scale[i])
                most = maximum(most, first[i] + rest[i])
            if turn < begin or gap < 0 or most > 4 * k:
                _rescale(last, theta[c], chain, part, factor, power, shift, far)
            for r in range(0, j1 - j0, 4):
                for s in range(r, r + 4):
                    row = rows[s]
                    if s < j1 - j0:
                        for i in range(n):
                            row[i] = exp2(minimum(shift[i] - row[i], zero))
                    else:
                        for i in range(n):
                            row[i] = zero
                # elementary symmetric polynomials of four weights, in place
                a, b, x, y = rows[r], rows[r + 1], rows[r + 2], rows[r + 3]
                for i in range(n):
                    s1, p1, s2, p2 = a[i] + b[i], a[i] * b[i], x[i] + y[i], x[i] * y[i]
                    a[i] = s1 + s2
                    b[i] = p1 + p2 + s1 * s2
                    x[i] = p1 * s2 + p2 * s1
                    y[i] = p1 * p2
                # multiply the part by them: highest degrees first, in place; two products at a
                # time: with more arrays LLVM gives up checking that none overlap
                for u in range(k, 0, -1):
                    out = part[u]
                    for s in range(0, minimum(u, 4), 2):
                        a, x = rows[r + s], part[u - 1 - s]
                        if u - s > 1:
                            b, y = rows[r + s + 1], part[u - 2 - s]
                            for i in range(n):
                                out[i] += a[i] * x[i] + b[i] * y[i]
                        else:
                            for i in range(n):
                                out[i] += a[i] * x[i]
            in_part += j1 - j0
        for i in range(n):  # if no chain was needed; rounding may put the k-th beyond T
            theta[c, i] = minimum(theta[c, i], last[i])
        for u in range(k):
            for i in range(n):
                E[c, u, i] = chain[u + 1, i] if last[i] < far / 2 else zero
    return count
