"""Triton kernels for many dimensions: distances and pulls by products on tensor cores.

Distances are products of numbers in two halves of 11 bits, three products each; the weights times
the points are products in bfloat16, in three parts.  Plain tf32 would have errors of 1e-3.
"""

from __future__ import annotations

import triton
import triton.language as tl

from vicinal.engines.cuda.kernels import _LAPLACE, _STUDENT, NONE, TILE, _energy_of


@triton.jit
def _minus_squares(a, al, ni, CH, CL, CN, j, k, DP: tl.constexpr):
    """Minus the squared distances (rows, columns)."""
    bh = tl.load(CH + j[None, :] * DP + k[:, None])
    bl = tl.load(CL + j[None, :] * DP + k[:, None])
    v = -ni[:, None] - tl.load(CN + j)[None, :]
    v = tl.dot(al, bh, v)
    v = tl.dot(a, bl, v)
    v = tl.dot(a, bh, v)
    return tl.minimum(v, 0.0)


@triton.jit
def sums(
    RH, RL, RN, CH, CL, CN, SELF, LOG_MASS, RCODE, CCODE, FIRST, LAST, M, S, nr, power,
    DP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, FAMILY: tl.constexpr,
    WEIGHED: tl.constexpr, ANYWHERE: tl.constexpr,
):  # fmt: skip
    """As `kernels.sums`, with a running least energy."""
    first = tl.program_id(0) * BM
    i = first + tl.arange(0, BM)
    k = tl.arange(0, DP)
    code = tl.load(RCODE + first // TILE)
    self = tl.load(SELF + i)
    a = tl.load(RH + i[:, None] * DP + k[None, :]) * 2
    al = tl.load(RL + i[:, None] * DP + k[None, :]) * 2
    ni = tl.load(RN + i)
    m0 = tl.full((BM,), -1e30, tl.float32)
    m1 = tl.full((BM,), -1e30, tl.float32)
    s0 = tl.zeros((BM,), tl.float32)
    s1 = tl.zeros((BM,), tl.float32)
    split = tl.program_id(1)
    for t in range(tl.load(FIRST + split), tl.load(LAST + split)):
        own = tl.load(CCODE + t) == code
        j = t * TILE + tl.arange(0, BN)
        v = -_energy_of(-_minus_squares(a, al, ni, CH, CL, CN, j, k, DP), power, FAMILY)
        inside = (t * TILE < first + BM) & (t * TILE + TILE > first)
        if ANYWHERE:
            inside = t >= 0
        if inside:
            v = tl.where(self[:, None] == j[None, :], -NONE, v)
        if WEIGHED:
            v += tl.load(LOG_MASS + j)[None, :]
        m = tl.where(own, m1, m0)
        s = tl.where(own, s1, s0)
        new = tl.maximum(m, tl.max(v, 1))
        s = s * tl.exp2(m - new) + tl.sum(tl.exp2(v - new[:, None]), 1)
        m1 = tl.where(own, new, m1)
        s1 = tl.where(own, s, s1)
        m0 = tl.where(own, m0, new)
        s0 = tl.where(own, s0, s)
    o = split * 2 * nr + i
    tl.store(M + o, tl.where(m0 < -1e29, NONE, -m0))
    tl.store(M + o + nr, tl.where(m1 < -1e29, NONE, -m1))
    tl.store(S + o, s0)
    tl.store(S + o + nr, s1)


@triton.jit
def pull(
    RH, RL, RN, CH, CL, CN, P, C, SELF, RMASS, CMASS, RA, CA, RM, CM, RRAW, CRAW, RFAR, CFAR, SHIFT,
    RCODE, CCODE, FIRST, LAST, G, nr, nc, power,
    DP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, FAMILY: tl.constexpr,
    ANYWHERE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """As `kernels.pull`: the sum of the weights times a row, less the weights times the columns."""
    first = tl.program_id(0) * BM
    i = first + tl.arange(0, BM)
    k = tl.arange(0, DP)
    code = tl.load(RCODE + first // TILE)
    self = tl.load(SELF + i)
    a = tl.load(RH + i[:, None] * DP + k[None, :]) * 2
    al = tl.load(RL + i[:, None] * DP + k[None, :]) * 2
    ni = tl.load(RN + i)
    vi = tl.load(RMASS + i)
    shift = tl.load(SHIFT)
    far = shift > 64.0
    for u in tl.static_range(BM // TILE):
        far = far | (tl.load(RFAR + first // TILE + u) != 0)
    total = tl.zeros((BM,), tl.float32)
    g = tl.zeros((BM, DP), tl.float32)
    split = tl.program_id(1)
    for t in range(tl.load(FIRST + split), tl.load(LAST + split)):
        own = tl.load(CCODE + t) == code
        j = t * TILE + tl.arange(0, BN)
        squares = -_minus_squares(a, al, ni, CH, CL, CN, j, k, DP)
        e = _energy_of(squares, power, FAMILY)
        inside = (t * TILE < first + BM) & (t * TILE + TILE > first)
        if ANYWHERE:
            inside = t >= 0
        if inside:
            e = tl.where(self[:, None] == j[None, :], NONE, e)
        vj = tl.load(CMASS + j)
        column = tl.where(own, nc, 0) + j
        kind = tl.where(own, nr, 0) + i
        if far | (tl.load(CFAR + t) != 0):
            w = tl.exp2(tl.load(RM + kind)[:, None] - e) * tl.load(RRAW + kind)[:, None]
            v = tl.exp2(tl.load(CM + column)[None, :] - e) * tl.load(CRAW + column)[None, :]
            w = w * vj[None, :] + v * vi[:, None]
        else:
            w = tl.load(RA + kind)[:, None] * vj[None, :]
            w += tl.load(CA + column)[None, :] * vi[:, None]
            w = w * tl.exp2(shift - e)
        if FAMILY == _STUDENT:
            w = w / (1.0 + squares)
        if FAMILY == _LAPLACE:
            w = w * tl.where(squares > 0, tl.rsqrt(tl.maximum(squares, 1e-37)), 0.0)
        total += tl.sum(w, 1)
        x = tl.load(C + j[:, None] * DP + k[None, :])
        g = tl.dot(w, x, g, input_precision=PRECISION)
    z = tl.load(P + i[:, None] * DP + k[None, :])
    tl.store(G + (split * nr + i[:, None]) * DP + k[None, :], total[:, None] * z - g)
