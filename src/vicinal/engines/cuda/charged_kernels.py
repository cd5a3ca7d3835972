"""Triton kernels for means of charges, as `kernels` has them for sums over classes."""

from __future__ import annotations

import triton
import triton.language as tl

from vicinal.engines.cuda.kernels import (
    _LAPLACE,
    _LARGE,
    _STUDENT,
    NONE,
    NOTHING,
    TILE,
    _energies,
    _energy_of,
)


@triton.jit
def _added(
    z, m, C, MASS, Y, self, j0, nc, power, s, sum_y,
    D: tl.constexpr, BN: tl.constexpr, FAMILY: tl.constexpr, OUT: tl.constexpr,
):  # fmt: skip
    """The sums and what a tile adds to them, relative to the shift m; the weight of the tile."""
    total = tl.zeros_like(m)
    for b in range(TILE // BN):
        j = j0 + b * BN + tl.arange(0, BN)
        e = _energies(z, C, self, j, nc, power, D, FAMILY, True)
        w = tl.exp2(m[None, :] - e)
        v = tl.load(MASS + j)[:, None]
        # a row without any reference so far has a shift at which weights are infinite
        w = tl.where(v > 0, w * v, 0.0)
        total += tl.sum(w, 0)
        more = ()
        for c in tl.static_range(OUT):
            more = more + (sum_y[c] + tl.sum(w * tl.load(Y + c * nc + j)[:, None], 0),)
        sum_y = more
    return (s + total, total) + sum_y


@triton.jit
def sums(
    R, C, SELF, MASS, Y, FIRST, LAST, M, S, T, nr, nc, power,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, FAMILY: tl.constexpr, OUT: tl.constexpr,
):  # fmt: skip
    """Sums of the weights, and of the weights times each of OUT charges, over a split.

    As in `kernels.sums`, a tile is done again where it exceeds the range of the shift.
    """
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    self = tl.load(SELF + i)
    z = ()
    sum_y = ()
    for k in tl.static_range(D):
        z = z + (tl.load(R + k * nr + i),)
    for _ in tl.static_range(OUT):
        sum_y = sum_y + (tl.zeros((BM,), z[0].dtype),)
    m = tl.where(z[0] > 1e14, 0.0, NOTHING).to(z[0].dtype)
    s = tl.zeros_like(m)
    split = tl.program_id(1)
    for t in range(tl.load(FIRST + split), tl.load(LAST + split)):
        found = _added(z, m, C, MASS, Y, self, t * TILE, nc, power, s, sum_y, D, BN, FAMILY, OUT)
        if tl.max((~(found[1] < _LARGE)).to(tl.int32), 0) != 0:  # also for NaN
            least = m
            for b in range(TILE // BN):
                j = t * TILE + b * BN + tl.arange(0, BN)
                e = _energies(z, C, self, j, nc, power, D, FAMILY, True)
                e = tl.where((tl.load(MASS + j) > 0)[:, None], e, NONE)
                least = tl.minimum(least, tl.min(e, 0))
            factor = tl.where(m > 0.9 * NOTHING, 0.0, tl.exp2(least - m))
            s = s * factor
            scaled = ()
            for c in tl.static_range(OUT):
                scaled = scaled + (sum_y[c] * factor,)
            m = least
            found = _added(
                z, m, C, MASS, Y, self, t * TILE, nc, power, s, scaled, D, BN, FAMILY, OUT
            )
        s = found[0]
        longer = ()
        for c in tl.static_range(OUT):
            longer = longer + (found[2 + c],)
        sum_y = longer
    o = split * nr + i
    tl.store(M + o, m)
    tl.store(S + o, tl.where(m < 0.9 * NOTHING, s, 0.0))
    for c in tl.static_range(OUT):
        tl.store(T + (split * OUT + c) * nr + i, sum_y[c])


@triton.jit
def _asked(F, Y, f0, y0, nf, ny, OUT: tl.constexpr, ROWS: tl.constexpr):
    """``F - sum_c B_c y_c`` of pairs, (columns, rows): F and B of one side, y of the other."""
    if ROWS:  # factors of the rows, charges of the columns
        found = tl.load(F + f0)[None, :]
        for c in tl.static_range(OUT):
            b = tl.load(F + (c + 1) * nf + f0)
            found = found - b[None, :] * tl.load(Y + c * ny + y0)[:, None]
    else:
        found = tl.load(F + f0)[:, None]
        for c in tl.static_range(OUT):
            b = tl.load(F + (c + 1) * nf + f0)
            found = found - b[:, None] * tl.load(Y + c * ny + y0)[None, :]
    return found


@triton.jit
def pull(
    R, C, SELF, RMASS, CMASS, RA, CA, RM, CM, RRAW, CRAW, RFAR, CFAR, SHIFT, RY, CY, FIRST, LAST, G,
    nr, nc, power,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, FAMILY: tl.constexpr, OUT: tl.constexpr,
):  # fmt: skip
    """As `kernels.pull`, with a factor of a pair that depends on the charge of the reference."""
    first = tl.program_id(0) * BM
    i = first + tl.arange(0, BM)
    self = tl.load(SELF + i)
    z = ()
    g = ()
    for k in tl.static_range(D):
        z = z + (tl.load(R + k * nr + i),)
        g = g + (tl.zeros((BN, BM), z[0].dtype),)
    shift = tl.load(SHIFT)
    vi = tl.load(RMASS + i)
    mi = tl.load(RM + i)
    far = shift > 64.0
    for u in tl.static_range((BM + TILE - 1) // TILE):
        far = far | (tl.load(RFAR + first // TILE + u) != 0)
    split = tl.program_id(1)
    for t in range(tl.load(FIRST + split), tl.load(LAST + split)):
        two = far | (tl.load(CFAR + t) != 0)
        for b in range(TILE // BN):
            j = t * TILE + b * BN + tl.arange(0, BN)
            squares = tl.zeros((BN, BM), z[0].dtype)
            xs = ()
            for k in tl.static_range(D):
                x = z[k][None, :] - tl.load(C + k * nc + j)[:, None]
                squares = tl.fma(x, x, squares)
                xs = xs + (x,)
            e = _energy_of(squares, power, FAMILY)
            e = tl.where(self[None, :] == j[:, None], NONE, e)
            vj = tl.load(CMASS + j)[:, None]
            if two:
                w = tl.exp2(mi[None, :] - e) * vj * _asked(RRAW, CY, i, j, nr, nc, OUT, True)
                v = tl.exp2(tl.load(CM + j)[:, None] - e) * vi[None, :]
                w += v * _asked(CRAW, RY, j, i, nc, nr, OUT, False)
            else:
                w = vj * _asked(RA, CY, i, j, nr, nc, OUT, True)
                w += vi[None, :] * _asked(CA, RY, j, i, nc, nr, OUT, False)
                w = w * tl.exp2(shift - e)
            if FAMILY == _STUDENT:
                w = w / (1.0 + squares)
            if FAMILY == _LAPLACE:
                w = w * tl.where(squares > 0, tl.rsqrt(tl.maximum(squares, 1e-37)), 0.0)
            h = ()
            for k in tl.static_range(D):
                h = h + (tl.fma(w, xs[k], g[k]),)
            g = h
    for k in tl.static_range(D):
        tl.store(G + (split * D + k) * nr + i, tl.sum(g[k], 0))
