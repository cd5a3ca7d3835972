"""Triton kernels for sets of k neighbours: summaries, and the pull (`base.Votes`, `base.SetSums`).

The scheme is that of docs/theory/knca.md.  A lane owns a query.  Of each class it keeps

- ``T``: the K smallest energies, in order; `NOTHING` stands for absent ones;
- ``S``: the sums of the powers 1 .. K of the weights of all other members, relative to the K-th
  smallest energy, so that no weight exceeds 1.

Sums of powers add up in any order and need no second scale.  The elementary symmetric polynomials
``E`` follow from them by Newton's identities, whose rounding errors are small compared with the
polynomials of the whole class, because the K nearest members are in these (section 9 there).
For kSNE all references are one class, and weights may be those of Student's kernel, of power 1.
"""

from __future__ import annotations

import triton
import triton.language as tl

from vicinal.engines.cuda.kernels import _STUDENT, NONE, NOTHING, TILE, _energies, _energy_of

HALF = tl.constexpr(5e28)  # of `NOTHING`: energies below it are those of members


@triton.jit
def _inserted(near, x, K: tl.constexpr):
    """The K smallest energies and one more, in order; the last one is pushed out."""
    kept = ()
    for s in tl.static_range(K):
        kept = kept + (tl.minimum(near[s], x),)
        x = tl.maximum(near[s], x)
    return kept + (x,)


@triton.jit
def _scaled(sums, ratio, K: tl.constexpr):
    """Sums of powers of weights that are multiplied by a ratio."""
    found = ()
    factor = ratio
    for u in tl.static_range(K):
        found = found + (sums[u] * factor,)
        factor = factor * ratio
    return found


@triton.jit
def collect(
    R, C, SELF, FIRST, LAST, T, S, nr, nc,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, K: tl.constexpr, FAMILY: tl.constexpr,
    ANYWHERE: tl.constexpr,
):  # fmt: skip
    """T and S (splits, K, rows) of a block of rows, over the tiles of a split of one class."""
    first = tl.program_id(0) * BM
    i = first + tl.arange(0, BM)
    self = tl.load(SELF + i)
    z = ()
    for k in tl.static_range(D):
        z = z + (tl.load(R + k * nr + i),)
    near = ()
    total = ()
    for _ in tl.static_range(K):
        near = near + (tl.full((BM,), NOTHING, z[0].dtype),)
        total = total + (tl.zeros((BM,), z[0].dtype),)
    place = tl.arange(0, BN)[:, None]
    split = tl.program_id(1)
    for t in range(tl.load(FIRST + split), tl.load(LAST + split)):
        inside = (t * TILE < first + BM) & (t * TILE + TILE > first)
        if ANYWHERE:
            inside = t >= 0
        part = ()  # of this tile: long sums of float32 would lose digits
        for _ in tl.static_range(K):
            part = part + (tl.zeros((BM,), z[0].dtype),)
        for b in range(TILE // BN):
            j = t * TILE + b * BN + tl.arange(0, BN)
            e = _energies(z, C, self, j, nc, 1.0, D, FAMILY, False)
            if inside:
                e = tl.where(self[None, :] == j[:, None], NONE, e)
            last = near[K - 1]
            nearer = tl.max(tl.sum((e < last[None, :]).to(tl.int32), 0), 0)
            if nearer > 0:
                for _turn in range(tl.minimum(nearer, K)):
                    x = tl.min(e, 0)
                    at = tl.min(tl.where(e == x[None, :], place, BN), 0)
                    more = _inserted(near, x, K)
                    near = more[:K]
                    # what is pushed out takes the place of the energy that was inserted
                    e = tl.where(place == at[None, :], more[K][None, :], e)
                ratio = tl.exp2(near[K - 1] - last)
                total = _scaled(total, ratio, K)
                part = _scaled(part, ratio, K)
            shift = tl.where(near[K - 1] < HALF, near[K - 1], 0.0)
            w = tl.exp2(shift[None, :] - e)
            power = w
            longer = ()
            for u in tl.static_range(K):
                longer = longer + (part[u] + tl.sum(power, 0),)
                power = power * w
            part = longer
        longer = ()
        for u in tl.static_range(K):
            longer = longer + (total[u] + part[u],)
        total = longer
    for u in tl.static_range(K):
        o = (split * K + u) * nr + i
        tl.store(T + o, near[u])
        tl.store(S + o, total[u])


@triton.jit
def merged(
    T, S, BEGIN, NEAR, REST, THETA, n, K: tl.constexpr, BM: tl.constexpr
):  # fmt: skip
    """T, E (classes, K, rows) and theta (classes, rows) of all splits of a class.

    ``theta`` is the K-th smallest energy, and less if there are many others about as near, so that
    the sum of their weights, which are relative to it, is at most K.
    """
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    c = tl.program_id(1)
    near = ()
    for _ in tl.static_range(K):
        near = near + (tl.full((BM,), NOTHING, tl.float64),)
    empty = near
    for p in range(tl.load(BEGIN + c), tl.load(BEGIN + c + 1)):
        for s in range(K):
            near = _inserted(near, tl.load(T + (p * K + s) * n + i).to(tl.float64), K)[:K]
    last = tl.where(near[K - 1] < HALF, near[K - 1], 0.0)
    again = empty
    total = ()
    for _ in tl.static_range(K):
        total = total + (tl.zeros((BM,), tl.float64),)
    for p in range(tl.load(BEGIN + c), tl.load(BEGIN + c + 1)):
        for s in range(K):
            x = tl.load(T + (p * K + s) * n + i).to(tl.float64)
            more = _inserted(again, x, K)
            again = more[:K]
            w = tl.where(more[K] < HALF, tl.exp2(last - more[K]), 0.0)
            power = w
            longer = ()
            for u in tl.static_range(K):
                longer = longer + (total[u] + power,)
                power = power * w
            total = longer
        x = tl.load(T + (p * K + K - 1) * n + i).to(tl.float64)
        ratio = tl.where(x < HALF, tl.exp2(last - x), 0.0)
        power = ratio
        longer = ()
        for u in tl.static_range(K):
            longer = longer + (total[u] + power * tl.load(S + (p * K + u) * n + i).to(tl.float64),)
            power = power * ratio
        total = longer
    theta = last - tl.log2(tl.maximum(total[0] / K, 1.0))
    theta = theta.to(THETA.dtype.element_ty)
    total = _scaled(total, tl.exp2(theta.to(tl.float64) - last), K)
    tl.store(THETA + c * n + i, theta)
    polynomial = (tl.full((BM,), 1.0, tl.float64),)
    for u in tl.static_range(1, K + 1):
        e = tl.zeros((BM,), tl.float64)
        for v in tl.static_range(1, u + 1):
            if v % 2:
                e += polynomial[u - v] * total[v - 1]
            else:
                e -= polynomial[u - v] * total[v - 1]
        polynomial = polynomial + (tl.maximum(e / u, 0.0),)
    for u in tl.static_range(K):
        o = (c * K + u) * n + i
        tl.store(NEAR + o, near[u].to(NEAR.dtype.element_ty))
        tl.store(REST + o, polynomial[u + 1])


@triton.jit
def _by_powers(e, theta, b, K: tl.constexpr):
    """w (b_0 - b_1 w + b_2 w² - ...) of pairs, w being their weight relative to theta."""
    w = tl.exp2(theta - e)
    x = b[K - 1]
    for v in tl.static_range(1, K):
        x = b[K - 1 - v] - x * w
    return x * w


@triton.jit
def pull(
    R, C, SELF, RNEAR, RTHETA, RPOWERS, RVALUES, RFACTOR, CNEAR, CTHETA, CPOWERS, CVALUES, CFACTOR,
    RCODE, CCODE, FIRST, LAST, G, nr, nc,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, K: tl.constexpr, FAMILY: tl.constexpr,
    OWN: tl.constexpr, OTHER: tl.constexpr, ANYWHERE: tl.constexpr,
):  # fmt: skip
    """Sums of the pair weights times the differences, for a block of rows of one class.

    ``OWN`` says that the rows are queries, which picked columns; ``OTHER`` that the columns are
    queries, which picked rows.  One of the K nearest of a class, which an energy recognises, has a
    value of its own.
    """
    first = tl.program_id(0) * BM
    i = first + tl.arange(0, BM)
    self = tl.load(SELF + i)
    z = ()
    g = ()
    for k in tl.static_range(D):
        z = z + (tl.load(R + k * nr + i),)
        g = g + (tl.zeros((BN, BM), z[0].dtype),)  # a sum for each place in the tile
    if OWN:
        own_factor = tl.load(RFACTOR + i)[None, :]
    if OTHER:
        code = tl.load(RCODE + first // TILE)
    split = tl.program_id(1)
    for t in range(tl.load(FIRST + split), tl.load(LAST + split)):
        inside = (t * TILE < first + BM) & (t * TILE + TILE > first)
        if ANYWHERE:
            inside = t >= 0
        if OWN:
            c = tl.load(CCODE + t)
            theta = tl.load(RTHETA + c * nr + i)[None, :]
            last = tl.load(RNEAR + (c * K + K - 1) * nr + i)[None, :]
            powers = ()
            for v in tl.static_range(K):
                powers = powers + (tl.load(RPOWERS + (c * K + v) * nr + i)[None, :],)
        for b in range(TILE // BN):
            j = t * TILE + b * BN + tl.arange(0, BN)
            squares = tl.zeros((BN, BM), z[0].dtype)
            xs = ()
            for k in tl.static_range(D):
                x = z[k][None, :] - tl.load(C + k * nc + j)[:, None]
                squares = tl.fma(x, x, squares)
                xs = xs + (x,)
            e = _energy_of(squares, 1.0, FAMILY)
            if inside:
                e = tl.where(self[None, :] == j[:, None], NONE, e)
            w = tl.zeros((BN, BM), z[0].dtype)
            if OWN:
                u = _by_powers(e, theta, powers, K)
                if tl.max(tl.max((e <= last).to(tl.int32), 0), 0) > 0:
                    for q in tl.static_range(K):
                        m = K - 1 - q
                        energy = tl.load(RNEAR + (c * K + m) * nr + i)[None, :]
                        u = tl.where(
                            e <= energy, tl.load(RVALUES + (c * K + m) * nr + i)[None, :], u
                        )
                w = u * own_factor
            if OTHER:
                b_j = ()
                for v in tl.static_range(K):
                    b_j = b_j + (tl.load(CPOWERS + (code * K + v) * nc + j)[:, None],)
                u = _by_powers(e, tl.load(CTHETA + code * nc + j)[:, None], b_j, K)
                least = tl.load(CNEAR + (code * K + K - 1) * nc + j)[:, None]
                if tl.max(tl.max((e <= least).to(tl.int32), 0), 0) > 0:
                    for q in tl.static_range(K):
                        o = (code * K + K - 1 - q) * nc + j
                        value = tl.load(CVALUES + o)[:, None]
                        u = tl.where(e <= tl.load(CNEAR + o)[:, None], value, u)
                w = tl.fma(u, tl.load(CFACTOR + j)[:, None], w)
            if FAMILY == _STUDENT:
                w = w / (1.0 + squares)
            h = ()
            for k in tl.static_range(D):
                h = h + (tl.fma(w, xs[k], g[k]),)
            g = h
    for k in tl.static_range(D):
        tl.store(G + (split * D + k) * nr + i, tl.sum(g[k], 0))


@triton.jit
def attract(
    Z, INDPTR, INDICES, P, VALUE, G, D: tl.constexpr, GAUSSIAN: tl.constexpr, LENGTH: tl.constexpr
):  # fmt: skip
    """The sum of ``-P_ij log w_ij`` over a row, and its gradient by the row's own point."""
    i = tl.program_id(0).to(tl.int64)
    last = tl.load(INDPTR + i + 1)
    total = tl.zeros((LENGTH,), Z.dtype.element_ty)
    g = ()
    for _ in tl.static_range(D):
        g = g + (tl.zeros((LENGTH,), Z.dtype.element_ty),)
    for first in range(tl.load(INDPTR + i), last, LENGTH):
        at = first + tl.arange(0, LENGTH)
        inside = at < last
        j = tl.load(INDICES + at, mask=inside, other=0).to(tl.int64)
        p = tl.load(P + at, mask=inside, other=0.0)
        squares = tl.zeros((LENGTH,), Z.dtype.element_ty)
        xs = ()
        for k in tl.static_range(D):
            x = tl.load(Z + i * D + k) - tl.load(Z + j * D + k)
            squares += x * x
            xs = xs + (x,)
        if GAUSSIAN:
            total += p * squares
        else:
            total += p * tl.log(1.0 + squares)
            p = p / (1.0 + squares)
        h = ()
        for k in tl.static_range(D):
            h = h + (g[k] + p * xs[k],)
        g = h
    tl.store(VALUE + i, tl.sum(total, 0))
    for k in tl.static_range(D):
        tl.store(G + i * D + k, 2.0 * tl.sum(g[k], 0))
