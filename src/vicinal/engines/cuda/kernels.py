"""Triton kernels for sums over classes: rows along the lanes, columns one tile after the other.

Rows and columns are sorted by class, and classes are padded to whole tiles, so that a block of rows
and a tile of columns have one class each.  A lane owns its rows: no sum over columns crosses lanes.
Coordinates are scaled so that a weight is a power of two.  Padding lies at `PAD`, whose weight is
exactly 0.  Each program of a split writes to places of its own; nothing is atomic.
"""

from __future__ import annotations

import triton
import triton.language as tl

TILE = tl.constexpr(64)
PAD = 1e15
NONE = tl.constexpr(1e30)  # the energy of a row and itself, and of padding
NOTHING = tl.constexpr(1e29)  # the shift of an empty sum: far below `NONE`, so that weights stay 0
_LARGE = tl.constexpr(1.152921504606847e18)  # 2^60
#: kernels, as `densities` numbers their families
_STUDENT, _LAPLACE = tl.constexpr(1), tl.constexpr(3)


@triton.jit
def _energy_of(e, power, FAMILY: tl.constexpr):
    if FAMILY == _STUDENT:
        e = tl.where(e > 1e29, NONE, power * tl.log2(1.0 + e))
    if FAMILY == _LAPLACE:
        e = tl.where(e > 1e29, NONE, tl.sqrt(e))
    return e


@triton.jit
def _energies(z, C, self, j, nc, power, D: tl.constexpr, FAMILY: tl.constexpr, MASK: tl.constexpr):
    """Energies (columns, rows); the sum of squares comes first, so that no shift costs digits."""
    e = tl.zeros((j.shape[0], self.shape[0]), z[0].dtype)
    for k in tl.static_range(D):
        x = z[k][None, :] - tl.load(C + k * nc + j)[:, None]
        e = tl.fma(x, x, e)
    e = _energy_of(e, power, FAMILY)
    if MASK:
        e = tl.where(self[None, :] == j[:, None], NONE, e)
    return e


@triton.jit
def _gap(RBOX, CBOX, b, t, power, D: tl.constexpr, FAMILY: tl.constexpr):
    """The least energy that a pair of a block of rows and a tile of columns can have."""
    e = 0.0
    for k in tl.static_range(D):
        low = tl.load(CBOX + (t * 2 + 0) * D + k) - tl.load(RBOX + (b * 2 + 1) * D + k)
        high = tl.load(RBOX + (b * 2 + 0) * D + k) - tl.load(CBOX + (t * 2 + 1) * D + k)
        x = tl.maximum(tl.maximum(low, high), 0.0)
        e += x * x
    return _energy_of(e, power, FAMILY)


@triton.jit
def keys(Q, CODE, KEY, n, D: tl.constexpr, BITS: tl.constexpr, BLOCK: tl.constexpr):
    """The class of each row, then its place along Morton's curve; Q (D, n) are cells of a grid."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    key = tl.load(CODE + i, mask=inside, other=0).to(tl.int64) << 48
    for k in tl.static_range(D):
        q = tl.load(Q + k * n + i, mask=inside, other=0).to(tl.int64)
        for b in tl.static_range(BITS):
            key = key | (((q >> b) & 1) << (b * D + k))
    tl.store(KEY + i, key, mask=inside)


@triton.jit
def seeds(
    R, RCODE, CCODE, RBOX, CBOX, SEED, COUNT, nr, power, tolerance,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, FAMILY: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Bounds of the least energies of a block of rows, and how many tiles are within reach of it.

    They are the least energies within its own tiles, and in the nearest tile of another class.
    """
    block = tl.program_id(0)
    first = block * BM
    i = first + tl.arange(0, BM)
    code = tl.load(RCODE + first // TILE)
    z = ()
    for k in tl.static_range(D):
        z = z + (tl.load(R + k * nr + i),)
    m1 = tl.full((BM,), NOTHING, z[0].dtype)
    m0 = tl.full((BM,), NOTHING, z[0].dtype)
    for u in tl.static_range(BM // TILE):
        for b in range(TILE // BN):
            j = first + u * TILE + b * BN + tl.arange(0, BN)
            e = _energies(z, R, i, j, nr, power, D, FAMILY, True)
            m1 = tl.minimum(m1, tl.min(e, 0))
    tiles = nr // TILE
    least = tl.full((WIDE,), 3e38, z[0].dtype)
    where = tl.zeros((WIDE,), tl.int32)
    for t0 in range(0, tiles, WIDE):
        t = t0 + tl.arange(0, WIDE)
        gap, other = _gaps(RBOX, CBOX, CCODE, block, t, tiles, code, power, D, FAMILY)
        gap = tl.where(other, gap, 3e38)
        where = tl.where(gap < least, t, where)
        least = tl.minimum(least, gap)
    lane = tl.arange(0, WIDE)
    best = tl.min(tl.where(least == tl.min(least, 0), lane, WIDE), 0)
    tile = tl.sum(tl.where(lane == best, where, 0), 0)
    if tl.load(CCODE + tile) != code:
        for b in range(TILE // BN):
            j = tile * TILE + b * BN + tl.arange(0, BN)
            m0 = tl.minimum(m0, tl.min(_energies(z, R, i, j, nr, power, D, FAMILY, True), 0))
    pad = z[0] > 1e14
    m0 = tl.where(pad, 0.0, m0)
    m1 = tl.where(pad, 0.0, m1)
    tl.store(SEED + i, m0)
    tl.store(SEED + nr + i, m1)
    far0 = tl.max(m0, 0) + tolerance
    far1 = tl.max(m1, 0) + tolerance
    count = tl.zeros((WIDE,), tl.int32)
    for t0 in range(0, tiles, WIDE):
        t = t0 + tl.arange(0, WIDE)
        gap, other = _gaps(RBOX, CBOX, CCODE, block, t, tiles, code, power, D, FAMILY)
        count += ((gap <= tl.where(other, far0, far1)) & (t < tiles)).to(tl.int32)
    tl.store(COUNT + block, tl.sum(count, 0))


@triton.jit
def _gaps(RBOX, CBOX, CCODE, b, t, tiles, code, power, D: tl.constexpr, FAMILY: tl.constexpr):
    """`_gap` of a block of rows and of many tiles, and whether these are of another class."""
    inside = t < tiles
    e = tl.zeros((t.shape[0],), RBOX.dtype.element_ty)
    for k in tl.static_range(D):
        low = tl.load(CBOX + (t * 2 + 0) * D + k, mask=inside, other=3e18)
        high = tl.load(CBOX + (t * 2 + 1) * D + k, mask=inside, other=-3e18)
        low = low - tl.load(RBOX + (b * 2 + 1) * D + k)
        high = tl.load(RBOX + (b * 2 + 0) * D + k) - high
        x = tl.maximum(tl.maximum(low, high), 0.0)
        e = tl.fma(x, x, e)
    other = tl.load(CCODE + t, mask=inside, other=0) != code
    return _energy_of(e, power, FAMILY), other & inside


@triton.jit
def _part(
    z, m, C, MASS, self, j, nc, power, D: tl.constexpr, FAMILY: tl.constexpr,
    WEIGHED: tl.constexpr, MASK: tl.constexpr,
):  # fmt: skip
    """The sum over some columns, relative to the shift m."""
    w = tl.exp2(m[None, :] - _energies(z, C, self, j, nc, power, D, FAMILY, MASK))
    if WEIGHED:
        w = w * tl.load(MASS + j)[:, None]
    return tl.sum(w, 0)


@triton.jit
def _added(
    z, m, C, MASS, self, j0, nc, power, D: tl.constexpr, BN: tl.constexpr, FAMILY: tl.constexpr,
    WEIGHED: tl.constexpr, MASK: tl.constexpr,
):  # fmt: skip
    """The sum over a tile, relative to the shift m."""
    total = tl.zeros_like(m)
    if D <= 8:
        for b in tl.static_range(TILE // BN):
            j = j0 + b * BN + tl.arange(0, BN)
            total += _part(z, m, C, MASS, self, j, nc, power, D, FAMILY, WEIGHED, MASK)
    else:  # unrolled, many dimensions would take a minute to compile
        for turn in range(TILE // BN):
            j = j0 + turn * BN + tl.arange(0, BN)
            total += _part(z, m, C, MASS, self, j, nc, power, D, FAMILY, WEIGHED, MASK)
    return total


@triton.jit
def sums(
    R, C, SELF, MASS, RCODE, CCODE, FIRST, LAST, SEED, RBOX, CBOX, SKIP, M, S,
    nr, nc, power, tolerance,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, FAMILY: tl.constexpr,
    WEIGHED: tl.constexpr, ANYWHERE: tl.constexpr, SKIPS: tl.constexpr,
):  # fmt: skip
    """Sums of a block of rows over the tiles of a split: other classes, own class.

    The shift of a row is the least energy that was seen when it was set.  A tile whose sum exceeds
    2^60 relative to it, as any first tile, is done again with the least energy of the tile.
    """
    first = tl.program_id(0) * BM
    i = first + tl.arange(0, BM)
    code = tl.load(RCODE + first // TILE)
    self = tl.load(SELF + i)
    z = ()
    for k in tl.static_range(D):
        z = z + (tl.load(R + k * nr + i),)
    pad = z[0] > 1e14
    if SKIPS:
        skip = tl.load(SKIP)
        m0, m1 = tl.load(SEED + i), tl.load(SEED + nr + i)
        far0 = tl.max(tl.where(pad, 0.0, m0), 0) + tolerance
        far1 = tl.max(tl.where(pad, 0.0, m1), 0) + tolerance
    else:
        m0 = tl.where(pad, 0.0, NOTHING).to(z[0].dtype)
        m1 = m0
    s0 = tl.zeros_like(m0)
    s1 = tl.zeros_like(m0)
    split = tl.program_id(1)
    for t in range(tl.load(FIRST + split), tl.load(LAST + split)):
        own = tl.load(CCODE + t) == code
        near = t >= 0
        if SKIPS:
            if skip != 0:
                gap = _gap(RBOX, CBOX, tl.program_id(0), t, power, D, FAMILY)
                near = gap <= tl.where(own, far1, far0)
        if near:
            m = tl.where(own, m1, m0)
            s = tl.where(own, s1, s0)
            exact = (t * TILE < first + BM) & (t * TILE + TILE > first)
            if ANYWHERE:
                exact = t < 0
            add = tl.zeros_like(m)
            if not exact:
                add = _added(
                    z, m, C, MASS, self, t * TILE, nc, power, D, BN, FAMILY, WEIGHED, ANYWHERE
                )
                exact = tl.max((~(add < _LARGE)).to(tl.int32), 0) != 0  # also for NaN
            if exact:
                least = m
                for b in range(TILE // BN):
                    j = t * TILE + b * BN + tl.arange(0, BN)
                    e = _energies(z, C, self, j, nc, power, D, FAMILY, True)
                    if WEIGHED:
                        e = tl.where((tl.load(MASS + j) > 0)[:, None], e, NONE)
                    least = tl.minimum(least, tl.min(e, 0))
                s = s * tl.exp2(least - m)
                m = least
                add = tl.zeros_like(m)
                for b in range(TILE // BN):
                    j = t * TILE + b * BN + tl.arange(0, BN)
                    e = _energies(z, C, self, j, nc, power, D, FAMILY, True)
                    w = tl.exp2(m[None, :] - e)
                    if WEIGHED:
                        w = w * tl.load(MASS + j)[:, None]
                    add += tl.sum(w, 0)
                add = tl.where(m < 0.9 * NOTHING, add, 0.0)
            s = s + add
            m1 = tl.where(own, m, m1)
            s1 = tl.where(own, s, s1)
            m0 = tl.where(own, m0, m)
            s0 = tl.where(own, s0, s)
    o = split * 2 * nr + i
    tl.store(M + o, m0)
    tl.store(M + o + nr, m1)
    tl.store(S + o, s0)
    tl.store(S + o + nr, s1)


@triton.jit
def joined(M, S, SHIFT, LOG2, nr, splits, BM: tl.constexpr):
    """Shifts and log2 of the sums of all splits, (2, N) each in float64, added in their order."""
    o = tl.program_id(1) * nr + tl.program_id(0) * BM + tl.arange(0, BM)
    m = tl.full((BM,), 1e30, tl.float64)
    for p in range(splits):
        m = tl.minimum(m, tl.load(M + p * 2 * nr + o).to(tl.float64))
    s = tl.zeros((BM,), tl.float64)
    for p in range(splits):
        mp = tl.load(M + p * 2 * nr + o).to(tl.float64)
        s += tl.load(S + p * 2 * nr + o).to(tl.float64) * tl.exp2(m - mp)
    empty = (m > 0.9 * NOTHING) | (s <= 0)
    tl.store(SHIFT + o, tl.where(empty, float("inf"), m))
    tl.store(LOG2 + o, tl.where(empty, float("-inf"), tl.log2(tl.where(empty, 1.0, s))))


@triton.jit
def _pulled(
    z, g, ai, mi, raw, vi, self, C, CMASS, CA, CM, CRAW, j, own, shift, nc, power,
    D: tl.constexpr, FAMILY: tl.constexpr, WEIGHED: tl.constexpr, MASK: tl.constexpr,
    TWO: tl.constexpr,
):  # fmt: skip
    """The sums g, and what some columns add; with two exponentials for a pair, or with one."""
    column = tl.where(own, nc, 0) + j
    squares = tl.zeros((j.shape[0], self.shape[0]), z[0].dtype)
    xs = ()
    for k in tl.static_range(D):
        x = z[k][None, :] - tl.load(C + k * nc + j)[:, None]
        squares = tl.fma(x, x, squares)
        xs = xs + (x,)
    e = _energy_of(squares, power, FAMILY)
    if MASK:
        e = tl.where(self[None, :] == j[:, None], NONE, e)
    if TWO:
        w = tl.exp2(mi[None, :] - e) * raw[None, :]
        v = tl.exp2(tl.load(CM + column)[:, None] - e) * tl.load(CRAW + column)[:, None]
        if WEIGHED:
            w = w * tl.load(CMASS + j)[:, None] + v * vi[None, :]
        else:
            w = w + v
    else:
        aj = tl.load(CA + column)[:, None]
        if WEIGHED:
            aj = ai[None, :] * tl.load(CMASS + j)[:, None] + aj * vi[None, :]
        else:
            aj = ai[None, :] + aj
        w = tl.exp2(shift - e) * aj
    if FAMILY == _STUDENT:
        w = w / (1.0 + squares)
    if FAMILY == _LAPLACE:
        w = w * tl.where(squares > 0, tl.rsqrt(tl.maximum(squares, 1e-37)), 0.0)
    h = ()
    for k in tl.static_range(D):
        h = h + (tl.fma(w, xs[k], g[k]),)
    return h


@triton.jit
def pull(
    R, C, SELF, RMASS, CMASS, RA, CA, RM, CM, RRAW, CRAW, RFAR, CFAR, SHIFT, RCODE, CCODE, FIRST,
    LAST, RBOX, CBOX, RLEVEL, CLEVEL, SKIP, G, nr, nc, power, tolerance,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, FAMILY: tl.constexpr,
    WEIGHED: tl.constexpr, ANYWHERE: tl.constexpr, SKIPS: tl.constexpr,
):  # fmt: skip
    """Sums of the pair weights times the differences, for a block of rows.

    A weight is ``2^(shift - e) (A_i v_j + A_j v_i)``, one exponential for both directions.  Where
    the shift is large, or that of a row is far from it, it takes two, each with the row's own.
    """
    first = tl.program_id(0) * BM
    i = first + tl.arange(0, BM)
    code = tl.load(RCODE + first // TILE)
    self = tl.load(SELF + i)
    z = ()
    g = ()
    for k in tl.static_range(D):
        z = z + (tl.load(R + k * nr + i),)
        g = g + (tl.zeros((BN, BM), z[0].dtype),)  # a sum for each place in the tile
    shift = tl.load(SHIFT)
    vi = tl.load(RMASS + i)
    far = shift > 64.0
    if SKIPS:
        skip = tl.load(SKIP)
        top0 = tl.load(RLEVEL + first // TILE)
        top1 = tl.load(RLEVEL + nr // TILE + first // TILE)
        for u in tl.static_range(1, BM // TILE):
            top0 = tl.maximum(top0, tl.load(RLEVEL + first // TILE + u))
            top1 = tl.maximum(top1, tl.load(RLEVEL + nr // TILE + first // TILE + u))
    for u in tl.static_range((BM + TILE - 1) // TILE):
        far = far | (tl.load(RFAR + first // TILE + u) != 0)
    split = tl.program_id(1)
    for t in range(tl.load(FIRST + split), tl.load(LAST + split)):
        own = tl.load(CCODE + t) == code
        near = t >= 0
        if SKIPS:
            if skip != 0:
                gap = _gap(RBOX, CBOX, tl.program_id(0), t, power, D, FAMILY)
                top = tl.load(CLEVEL + tl.where(own, nc // TILE, 0) + t)
                top = tl.maximum(top, tl.where(own, top1, top0))
                near = gap <= top + tolerance
        if near:
            kind = tl.where(own, nr, 0) + i
            inside = (t * TILE < first + BM) & (t * TILE + TILE > first)
            if ANYWHERE:
                inside = t < 0
            ai = tl.load(RA + kind)
            raw = tl.load(RRAW + kind)
            mi = tl.load(RM + kind)
            if far | (tl.load(CFAR + t) != 0) | inside:
                for b in range(TILE // BN):
                    j = t * TILE + b * BN + tl.arange(0, BN)
                    g = _pulled(
                        z, g, ai, mi, raw, vi, self, C, CMASS, CA, CM, CRAW, j, own, shift, nc,
                        power, D, FAMILY, WEIGHED, True, True,
                    )  # fmt: skip
            else:
                for b in range(TILE // BN):
                    j = t * TILE + b * BN + tl.arange(0, BN)
                    g = _pulled(
                        z, g, ai, mi, raw, vi, self, C, CMASS, CA, CM, CRAW, j, own, shift, nc,
                        power, D, FAMILY, WEIGHED, ANYWHERE, False,
                    )  # fmt: skip
    for k in tl.static_range(D):
        tl.store(G + (split * D + k) * nr + i, tl.sum(g[k], 0))
