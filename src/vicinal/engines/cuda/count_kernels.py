"""Triton kernels that count the votes of k neighbours, from summaries of the classes.

By the steps of `vicinal.kernels.votes`, one lane for each query, in float64: in plain numbers, and
again in logarithms where a lane of the block leaves their range.  ``W`` is room for (rows, lanes),
n lanes of N queries; a lane reads what it wrote itself.
"""

from __future__ import annotations

import triton
import triton.language as tl

from vicinal.engines.cuda.kernels import NOTHING
from vicinal.engines.cuda.vote_kernels import HALF

#: of weights in logarithms and in plain numbers, as in `vicinal.kernels._arithmetic` and `subsets`
_EMPTY = tl.constexpr(-1e300)
_LEAST = tl.constexpr(2.0**-900)
_LOWEST, _HIGHEST = tl.constexpr(-1000.0), tl.constexpr(1000.0)
_FLOOR = tl.constexpr(-700.0)
_COLUMNS = tl.constexpr(10)  # numbers of a step


@triton.jit
def _more(s, a, b, LOG: tl.constexpr):
    """s + a b"""
    if LOG:
        a = tl.maximum(a + b, _EMPTY)
        top = tl.maximum(s, a)
        s = top + tl.log2(1.0 + tl.exp2(tl.minimum(s, a) - top))
    else:
        s = s + a * b
    return s


@triton.jit
def _times(a, b, LOG: tl.constexpr):
    if LOG:
        a = tl.maximum(a + b, _EMPTY)
    else:
        a = a * b
    return a


@triton.jit
def _power(x):
    """2^x, and 0 where that counts as nothing."""
    return tl.where(x > _LOWEST, tl.exp2(tl.minimum(x, _HIGHEST)), 0.0)


@triton.jit
def _member(NEAR, o, base, LOG: tl.constexpr):
    """The weight of a near member relative to the nearest of all classes; nothing if absent."""
    t = tl.load(NEAR + o).to(tl.float64)
    if LOG:
        w = tl.where(t < HALF, base - t, _EMPTY)
    else:
        w = tl.where(t < HALF, _power(base - t), 0.0)
    return w


@triton.jit
def _rest(REST, o, shift, LOG: tl.constexpr):
    """A coefficient of the polynomial of the others, relative to the nearest of all classes."""
    e = tl.load(REST + o)
    if LOG:
        e = tl.where(e > 0, tl.log2(tl.where(e > 0, e, 1.0)) + shift, _EMPTY)
    else:
        e = e * _power(shift)
    return e


@triton.jit
def _joined(NEAR, REST, THETA, W, room, c, base, i, at, n, N, k, STEP, LOG: tl.constexpr):
    """The polynomial of a class in a room of ``W``: the others first, then the near members.

    With ``STEP`` 0 it is in the rows of the first polynomial; with ``STEP`` k + 1 the polynomials
    before each member are kept, that of all members in the first place.
    """
    unit = tl.full(i.shape, 0.0 if LOG else 1.0, tl.float64)
    theta = tl.load(THETA + c * N + at).to(tl.float64)
    last = room + k * STEP
    tl.store(W + last * n + i, unit)
    for u in range(1, k + 1):
        shift = u * (base - theta)
        e = _rest(REST, (c * k + u - 1) * N + at, shift, LOG)
        tl.store(W + (last + u) * n + i, e)
    for r in range(k):
        s = k - 1 - r
        w = _member(NEAR, (c * k + s) * N + at, base, LOG)
        before, after = room + (s + 1) * STEP, room + s * STEP
        for q in range(k):
            m = k - q
            x = tl.load(W + (before + m) * n + i)
            y = tl.load(W + (before + m - 1) * n + i)
            tl.store(W + (after + m) * n + i, _more(x, w, y, LOG))
        tl.store(W + after * n + i, unit)


@triton.jit
def _polynomials(
    NEAR, REST, THETA, W, own, room, others, mine, i, at, n, N, k, n_classes, LOG: tl.constexpr
):
    """The polynomials of all classes but the own one, which is apart; the nearest energy."""
    base = tl.full(i.shape, NOTHING, tl.float64)
    for c in range(n_classes):
        base = tl.minimum(base, tl.load(NEAR + c * k * N + at).to(tl.float64))
    base = tl.where(base < HALF, base, 0.0)
    nothing = tl.full(i.shape, _EMPTY if LOG else 0.0, tl.float64)
    unit = tl.full(i.shape, 0.0 if LOG else 1.0, tl.float64)
    for m in range(k + 1):
        tl.store(W + (mine + m) * n + i, nothing)
    for c in range(n_classes):
        _joined(NEAR, REST, THETA, W, room, c, base, i, at, n, N, k, 0, LOG)
        is_own = own == c
        for m in range(k + 1):
            x = tl.load(W + (room + m) * n + i)
            absent = nothing
            if m == 0:
                absent = unit
            tl.store(W + (others + c * (k + 1) + m) * n + i, tl.where(is_own, absent, x))
            y = tl.load(W + (mine + m) * n + i)
            tl.store(W + (mine + m) * n + i, tl.where(is_own, x, y))
    return base


@triton.jit
def _do(W, STEPS, n_steps, i, n, LOG: tl.constexpr):
    """Execute the steps of `vicinal.kernels.votes`."""
    nothing = tl.full(i.shape, _EMPTY if LOG else 0.0, tl.float64)
    unit = tl.full(i.shape, 0.0 if LOG else 1.0, tl.float64)
    for step in range(n_steps):
        o = STEPS + step * _COLUMNS
        kind, r, sign = tl.load(o), tl.load(o + 1), tl.load(o + 2)
        first, last, x = tl.load(o + 3), tl.load(o + 4), tl.load(o + 5)
        a, b, y, low = tl.load(o + 6), tl.load(o + 7), tl.load(o + 8), tl.load(o + 9)
        for t in range(first, last + 1):
            out = W + (r + sign * t) * n + i
            if kind == 3:
                total = tl.load(out)
                for m in range(a, tl.minimum(b, t - low) + 1):
                    p = tl.load(W + (x + m) * n + i)
                    q = tl.load(W + (y + t - m) * n + i)
                    total = _more(total, p, q, LOG)
                tl.store(out, total)
            else:
                value = nothing
                if kind == 1:
                    value = unit
                if kind == 2:
                    value = tl.load(W + (x + t) * n + i)
                tl.store(out, value)


@triton.jit
def _shares(W, own, others, votes, p_won, i, n, k, n_classes, LOG: tl.constexpr):
    """The weight of all sets; derivatives p_won become the shares of the numbers of votes."""
    unit = tl.full(i.shape, 0.0 if LOG else 1.0, tl.float64)
    total = tl.load(W + votes * n + i)
    for m in range(1, k + 1):
        total = _more(total, tl.load(W + (votes + m) * n + i), unit, LOG)
    for c in range(n_classes):
        for m in range(k + 1):
            o = c * (k + 1) + m
            p = tl.load(W + (p_won + o) * n + i)
            part = _times(tl.load(W + (others + o) * n + i), p, LOG)
            part = tl.where(own == c, tl.load(W + (votes + m) * n + i), part)
            if LOG:
                less = tl.minimum(part - total, 0.0)
                there = (total > 0.5 * _EMPTY) & (less > _FLOOR)
                share = tl.where(there, tl.exp2(less), 0.0)
            else:
                there = total >= _LEAST
                share = tl.where(there, tl.minimum(part / tl.where(there, total, 1.0), 1.0), 0.0)
            tl.store(W + (p_won + o) * n + i, share)
    return total


@triton.jit
def _plain(x, LOG: tl.constexpr):
    if LOG:
        x = tl.where(x > _FLOOR, tl.exp2(x), 0.0)
    return x


@triton.jit
def _slopes(
    NEAR, REST, THETA, W, VALUES, POWERS, room, p_won, p_lost, sign, c, base, where, i, at, n, N, k,
    LOG: tl.constexpr,
):  # fmt: skip
    """Add to the slopes of the members of a class, from the shares of its votes.

    These are ``p_won``, in plain numbers less ``p_lost``.

    See `vicinal.kernels.subsets.class_slopes`.
    """
    _joined(NEAR, REST, THETA, W, room, c, base, i, at, n, N, k, k + 1, LOG)
    A = room + (k + 1) * (k + 1)
    for m in range(1, k + 1):  # derivatives by the coefficients, from those by their logarithms
        f = tl.load(W + (room + m) * n + i)
        p = tl.load(W + (p_won + c * (k + 1) + m) * n + i)
        if LOG:
            there = (p > 0) & (f > 0.5 * _EMPTY)
            a = tl.where(there, tl.log2(tl.where(there, p, 1.0)) - f, _EMPTY)
        else:
            p -= tl.load(W + (p_lost + c * (k + 1) + m) * n + i)
            a = tl.where(f > 1e-300, p / tl.where(f > 1e-300, f, 1.0), 0.0)
        tl.store(W + (A + m) * n + i, a)
    for s in range(k):
        w = _member(NEAR, (c * k + s) * N + at, base, LOG)
        before = room + (s + 1) * (k + 1)
        total = _times(tl.load(W + (A + 1) * n + i), tl.load(W + before * n + i), LOG)
        for m in range(2, k + 1):
            x = tl.load(W + (before + m - 1) * n + i)
            total = _more(total, tl.load(W + (A + m) * n + i), x, LOG)
        total = _times(total, w, LOG)
        for m in range(1, k):
            a, b = tl.load(W + (A + m) * n + i), tl.load(W + (A + m + 1) * n + i)
            tl.store(W + (A + m) * n + i, _more(a, w, b, LOG))
        if LOG:
            total = _plain(tl.minimum(total, 0.0), LOG)  # rounding may give more than 1
        o = (c * k + s) * N + at
        value = tl.load(VALUES + o).to(tl.float64) + sign * total
        tl.store(VALUES + o, value.to(VALUES.dtype.element_ty), mask=where)
    # A is now the derivative by the polynomial of the others, relative to the nearest of all
    theta = tl.load(THETA + c * N + at).to(tl.float64)
    there = tl.load(NEAR + (c * k + k - 1) * N + at).to(tl.float64) < HALF
    for u in range(1, k + 1):
        a, shift = tl.load(W + (A + u) * n + i), u * (base - theta)
        if LOG:
            a = _plain(tl.minimum(_times(a, shift, LOG), 0.0 * a + k), LOG)
        else:
            a = a * _power(shift)
        tl.store(W + (A + u) * n + i, tl.where(there, sign * a, 0.0))
    for v in range(k):
        b = tl.load(W + (A + v + 1) * n + i)
        for u in range(v + 2, k + 1):
            e = tl.load(REST + (c * k + u - 2 - v) * N + at)
            b += tl.load(W + (A + u) * n + i) * e
        o = (c * k + v) * N + at
        value = tl.load(POWERS + o).to(tl.float64) + b
        tl.store(POWERS + o, value.to(POWERS.dtype.element_ty), mask=where)


@triton.jit
def _counted(
    NEAR, REST, THETA, STEPS, W, VALUES, POWERS, own, where, n_steps, others, mine, win, lose,
    p_won, p_lost, room, i, at, n, N, k, n_classes, LOG: tl.constexpr, SLOPES: tl.constexpr,
):  # fmt: skip
    """Weights of the sets that are won and lost; slopes of the lanes in ``where`` are stored."""
    base = _polynomials(
        NEAR, REST, THETA, W, own, room, others, mine, i, at, n, N, k, n_classes, LOG
    )
    _do(W, STEPS, n_steps, i, n, LOG)
    won = _shares(W, own, others, win, p_won, i, n, k, n_classes, LOG)
    lost = _shares(W, own, others, lose, p_lost, i, n, k, n_classes, LOG)
    if SLOPES:
        for c in range(n_classes):
            for v in range(k):
                o = (c * k + v) * N + at
                zero = tl.zeros(i.shape, VALUES.dtype.element_ty)
                begun = where if LOG else i >= 0  # padding too has a slope, which is 0
                tl.store(VALUES + o, zero, mask=begun)
                tl.store(POWERS + o, zero, mask=begun)
            _slopes(
                NEAR, REST, THETA, W, VALUES, POWERS, room, p_won, p_lost, 1.0, c, base, where, i,
                at, n, N, k, LOG,
            )  # fmt: skip
            if LOG:  # logarithms have no sign: won and lost are apart
                _slopes(
                    NEAR, REST, THETA, W, VALUES, POWERS, room, p_lost, p_won, -1.0, c, base,
                    where, i, at, n, N, k, LOG,
                )  # fmt: skip
    return won, lost


_SIZES = ["begin", "n_steps", "others", "mine", "win", "lose", "p_won", "p_lost", "room",
          "n", "N", "k", "n_classes"]  # fmt: skip


@triton.jit(do_not_specialize=_SIZES)
def count(
    NEAR, REST, THETA, OWN, STEPS, W, VALUES, POWERS, ODDS, LOGGED, LIMITS, begin, n_steps,
    others, mine, win, lose, p_won, p_lost, room, n, N, k, n_classes,
    BM: tl.constexpr, SLOPES: tl.constexpr,
):  # fmt: skip
    """log2 of lost : won sets of the queries from ``begin`` on, and the slopes of all members.

    Queries beyond those of ``OWN``, which are padding, have the own class -2.
    """
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    at = begin + i
    least, most = tl.load(LIMITS), tl.load(LIMITS + 1)
    own = tl.load(OWN + at)
    real = own > -2
    won, lost = _counted(
        NEAR, REST, THETA, STEPS, W, VALUES, POWERS, own, real, n_steps, others, mine, win, lose,
        p_won, p_lost, room, i, at, n, N, k, n_classes, False, SLOPES,
    )  # fmt: skip
    # after an overflow a weight may be NaN, which fails every comparison
    within = (tl.minimum(won, lost) >= least) & (tl.maximum(won, lost) <= most)
    within = within & (won == won) & (lost == lost)
    safe_won, safe_lost = tl.where(within, won, 1.0), tl.where(within, lost, 1.0)
    odds = tl.log2(safe_lost) - tl.log2(safe_won)
    again = real & ~within
    logged = tl.zeros((BM,), tl.int32)
    if tl.max(again.to(tl.int32), 0) > 0:
        won, lost = _counted(
            NEAR, REST, THETA, STEPS, W, VALUES, POWERS, own, again, n_steps, others, mine, win,
            lose, p_won, p_lost, room, i, at, n, N, k, n_classes, True, SLOPES,
        )  # fmt: skip
        can_win, can_lose = won > 0.5 * _EMPTY, lost > 0.5 * _EMPTY
        found = tl.where(can_win, tl.where(can_lose, lost - won, -float("inf")), float("inf"))
        odds = tl.where(again, found, odds)
        logged = (again & can_win & can_lose).to(tl.int32)
        if SLOPES:  # a query that can only win or only lose has none
            decided = again & ~(can_win & can_lose)
            for o in range(n_classes * k):
                zero = tl.zeros(i.shape, VALUES.dtype.element_ty)
                tl.store(VALUES + o * N + at, zero, mask=decided)
                tl.store(POWERS + o * N + at, zero, mask=decided)
    tl.store(ODDS + at, odds)
    tl.store(LOGGED + at, logged)


@triton.jit(do_not_specialize=[size for size in _SIZES if size not in ("win", "lose", "p_lost")])
def shares(
    NEAR, REST, THETA, STEPS, W, WINS, LIMITS, begin, n_steps, others, mine, p_won, room, n, N, k,
    n_classes, BM: tl.constexpr,
):  # fmt: skip
    """The chance of each class to win, given no tie: (classes, queries)."""
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    at = begin + i
    least, most = tl.load(LIMITS), tl.load(LIMITS + 1)
    nobody = tl.full((BM,), -1, tl.int32)
    _polynomials(NEAR, REST, THETA, W, nobody, room, others, mine, i, at, n, N, k, n_classes, False)
    _do(W, STEPS, n_steps, i, n, False)
    best = tl.zeros((BM,), tl.float64)
    total = tl.zeros((BM,), tl.float64)
    sound = nobody < 0
    for c in range(n_classes):
        wins = tl.load(W + (p_won + c * (k + 1)) * n + i)
        sound = sound & (wins <= most)  # also NaN, after an overflow, fails
        best = tl.maximum(best, wins)
        total += wins
    within = sound & (best >= least)
    for c in range(n_classes):
        wins = tl.load(W + (p_won + c * (k + 1)) * n + i)
        tl.store(WINS + c * N + at, wins / tl.where(within, total, 1.0))
    if tl.max((~within).to(tl.int32), 0) > 0:
        _polynomials(
            NEAR, REST, THETA, W, nobody, room, others, mine, i, at, n, N, k, n_classes, True
        )
        _do(W, STEPS, n_steps, i, n, True)
        best = tl.full((BM,), _EMPTY, tl.float64)
        for c in range(n_classes):
            best = tl.maximum(best, tl.load(W + (p_won + c * (k + 1)) * n + i))
        total = tl.zeros((BM,), tl.float64)
        for c in range(n_classes):  # if no class can win, all are equal
            total += tl.exp2(tl.load(W + (p_won + c * (k + 1)) * n + i) - best)
        for c in range(n_classes):
            wins = tl.exp2(tl.load(W + (p_won + c * (k + 1)) * n + i) - best)
            tl.store(WINS + c * N + at, wins / total, mask=~within)


@triton.jit(do_not_specialize=["begin", "shares", "room", "n", "N", "k"])
def sets(
    NEAR, REST, THETA, W, TOTAL, VALUES, POWERS, begin, shares, room, n, N, k, BM: tl.constexpr
):  # fmt: skip
    """log2 of the weight of all sets of k of one class, and the slopes of its members."""
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    at = begin + i
    base = tl.load(NEAR + at).to(tl.float64)
    base = tl.where(base < HALF, base, 0.0)
    _joined(NEAR, REST, THETA, W, room, 0, base, i, at, n, N, k, 0, True)
    tl.store(TOTAL + at, tl.load(W + (room + k) * n + i) - k * base)
    zero = tl.zeros(i.shape, VALUES.dtype.element_ty)
    for m in range(k + 1):
        share = tl.where(m < k, 0.0, 1.0)  # all sets have k members
        tl.store(W + (shares + m) * n + i, tl.full(i.shape, 0.0, tl.float64) + share)
    for v in range(k):
        tl.store(VALUES + v * N + at, zero)
        tl.store(POWERS + v * N + at, zero)
    _slopes(
        NEAR, REST, THETA, W, VALUES, POWERS, room, shares, shares, 1.0, 0, base, i >= 0, i, at, n,
        N, k, True,
    )  # fmt: skip
