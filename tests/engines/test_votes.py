"""The vote of k neighbours against enumeration, in plain numbers and in logarithms."""

from __future__ import annotations

import platform
import re
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from numba import config

from vicinal.kernels import _arithmetic
from vicinal.kernels import votes as votes_kernels
from vicinal.kernels._jit import kernel
from vicinal.kernels.votes import vote_lanes, vote_room, win_lanes

VOTES = [pytest.param(False, id="majority"), pytest.param(True, id="all")]
DOMAINS = [pytest.param(None, id="linear"), pytest.param(1, id="log")]
# sizes of the classes: fewer than k members, none, one class against many
SIZES = [(3, 4), (8, 1), (3, 2, 4), (4, 0, 5), (2, 2, 2, 2), (1, 3, 0, 4)]


def wins(counts, own, unanimous):
    """Whether the own class wins with these (..., C) numbers of votes: the definition."""
    rest = np.delete(counts, own, axis=-1)
    if unanimous:
        return rest.sum(axis=-1) == 0
    return rest.max(axis=-1, initial=0) < counts[..., own]


def polynomials(weights, k):
    """(C, k + 1, W) elementary symmetric polynomials of the (n_c, W) weights of each class."""
    F = np.zeros((len(weights), k + 1, weights[0].shape[1]))
    F[:, 0] = 1
    for c, w in enumerate(weights):
        for row in w:
            F[c, 1:] += row * F[c, :-1]
    return F


def by_counts(F, own, k, unanimous):
    """Win, lose and probabilities by all numbers of votes; Fractions stay Fractions."""
    C = len(F)
    bars = np.array(list(combinations(range(k + C - 1), C - 1)), dtype=int)
    counts = np.diff(bars, axis=1, prepend=-1, append=k + C - 1) - 1
    weight = np.prod([F[c][counts[:, c]] for c in range(C)], axis=0)
    won = np.stack([wins(counts, o, unanimous) for o in own], axis=1)
    totals, P = [], []
    for part in (np.where(won, weight, 0 * weight), np.where(won, 0 * weight, weight)):
        sums = [[part[counts[:, c] == m].sum(axis=0) for m in range(k + 1)] for c in range(C)]
        total = part.sum(axis=0)
        totals.append(total)
        P.append(np.array(sums) / np.where(total > 0, total, total + 1))
    return (*totals, *P)


def to_log(F):
    with np.errstate(divide="ignore"):
        return np.where(F > 0, np.log2(F), _arithmetic.NOTHING)


def room_of_nan(C, k, W):
    """Room in which what is read before it is written shows."""
    room = vote_room(C, k, W)
    room.rows.fill(np.nan)
    return room


def votes(F, own, k, unanimous, log):
    """What the kernel gives, win and lose in its arithmetic."""
    C, _, W = F.shape
    weights, room = np.full((2, W), np.nan), room_of_nan(C, k, W)
    own = np.asarray(own, dtype=np.intp)
    vote_lanes(F, own, k, unanimous, weights, room, log)
    (win, lose), (P_win, P_lose) = weights, room.P
    check_sums(k, unanimous, win, P_win, own, log, won=True)
    check_sums(k, unanimous, lose, P_lose, own, log, won=False)
    return win, lose, P_win, P_lose


def check_sums(k, unanimous, weight, P, own, log, won):
    """Each class has some number of votes, and all have k; nobody votes in sets there are not."""
    real = weight > (0 if log is None else 0.5 * _arithmetic.NOTHING)
    np.testing.assert_allclose(P.sum(axis=1)[:, real], 1, rtol=1e-9)
    votes_of = np.einsum("cmw,m->cw", P, np.arange(k + 1.0))
    np.testing.assert_allclose(votes_of.sum(axis=0)[real], k, rtol=1e-9)
    assert np.all((P >= 0) & (P <= 1))
    np.testing.assert_array_equal(P[:, :, ~real], 0)
    if won and unanimous:
        np.testing.assert_array_equal(P[own[real], k, np.flatnonzero(real)], 1)


def check(F, own, k, unanimous, log, expected, rtol):
    """The kernel's numbers are the expected ones, given as plain numbers."""
    got = votes(F if log is None else to_log(F), own, k, unanimous, log)
    for weight, right in zip(got[:2], expected[:2], strict=True):
        weight = weight if log is None else np.exp2(np.maximum(weight, -2000))
        np.testing.assert_allclose(weight, right, rtol=rtol)
    for P, right in zip(got[2:], expected[2:], strict=True):
        np.testing.assert_allclose(P, right, rtol=rtol, atol=1e-300)


@pytest.mark.nojit
@pytest.mark.parametrize("log", DOMAINS)
@pytest.mark.parametrize("unanimous", VOTES)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_matches_all_subsets(rng, k, sizes, unanimous, log):
    C, W = len(sizes), 5
    own = np.arange(W) % C
    y = np.repeat(np.arange(C), sizes)
    w = np.exp2(-rng.exponential(4, (len(y), W)))
    totals, parts = np.zeros((2, W)), np.zeros((2, C, k + 1, W))
    for members in combinations(range(len(y)), k):
        counts = np.bincount(y[list(members)], minlength=C)
        weight = w[list(members)].prod(axis=0)
        for i in range(W):
            s = 0 if wins(counts, own[i], unanimous) else 1
            totals[s, i] += weight[i]
            parts[s, np.arange(C), counts, i] += weight[i]
    P = parts / np.where(totals > 0, totals, 1)[:, None, None]
    F = polynomials([w[y == c] for c in range(C)], k)
    check(F, own, k, unanimous, log, (*totals, *P), rtol=1e-12)


@pytest.mark.parametrize("log", DOMAINS)
@pytest.mark.parametrize("unanimous", VOTES)
@pytest.mark.parametrize(("C", "k"), [(6, 7), (6, 8), (4, 15), (3, 16), (1, 5), (2, 9), (12, 4)])
def test_matches_all_counts(rng, C, k, unanimous, log):
    W = 7
    own = rng.integers(0, C, W)
    sizes = rng.integers(2, 2 * k, C)
    sizes[0] = k + 1
    F = polynomials([np.exp2(-rng.exponential(3, (n, W))) for n in sizes], k)
    expected = by_counts(F, own, k, unanimous)
    check(F, own, k, unanimous, log, expected, rtol=1e-11 if log else 1e-12)


@pytest.mark.parametrize("log", DOMAINS)
@pytest.mark.parametrize("unanimous", VOTES)
def test_six_classes_and_fifteen_votes(rng, unanimous, log):
    """By all numbers of votes; and e_k of all weights, which win and lose add up to."""
    C, k, W = 6, 15, 4
    weights = [np.exp2(-rng.exponential(5, (12, W))) for _ in range(C)]
    F = polynomials(weights, k)
    own = np.array([0, 2, 5, 2])
    expected = by_counts(F, own, k, unanimous)
    check(F, own, k, unanimous, log, expected, rtol=1e-11)
    every = polynomials([np.concatenate(weights)], k)[0, k]
    np.testing.assert_allclose(expected[0] + expected[1], every, rtol=1e-12)


@pytest.mark.nojit
@pytest.mark.parametrize("unanimous", VOTES)
@pytest.mark.parametrize(("C", "k"), [(2, 3), (3, 4), (4, 5)])
def test_log_domain_at_extreme_scales(rng, C, k, unanimous):
    """Powers of two between 2**-5000 and 2**5000, against exact fractions."""
    W = 8
    e = np.empty((C, k + 1, W), dtype=np.int64)
    # sets of k weigh much the same, at a scale far out of range, or anything at all
    slope = rng.integers(-5000 // k, 5000 // k, W // 2)
    e[..., : W // 2] = slope * np.arange(k + 1)[:, None] + rng.integers(-3, 4, (C, k + 1, W // 2))
    e[..., W // 2 :] = rng.integers(-5000, 5001, (C, k + 1, W - W // 2))
    e[:, 0] = 0
    F = e.astype(float)
    exact = np.vectorize(lambda x: Fraction(2) ** int(x), otypes=[object])(e)
    F[1, k:, ::3], exact[1, k:, ::3] = _arithmetic.NOTHING, Fraction(0)  # a small class
    own = np.arange(W) % C
    expected = by_counts(exact, own, k, unanimous)
    got = votes(F, own, k, unanimous, 1)
    for weight, right in zip(got[:2], expected[:2], strict=True):
        for x, r in zip(weight, right, strict=True):
            # the ratio of 2**x, x being a whole number and a rest, to the exact weight
            whole = int(np.floor(max(x, -1e6)))
            ratio = float(r / Fraction(2) ** whole)
            assert x == _arithmetic.NOTHING if r == 0 else abs(np.log2(ratio) - x + whole) < 1e-10
    for P, right in zip(got[2:], expected[2:], strict=True):
        # what is below 2**-700 is left out
        right = np.array([float(r) for r in right.ravel()]).reshape(right.shape)
        np.testing.assert_allclose(P, right, rtol=1e-10, atol=2.0**-699)


@pytest.mark.parametrize("unanimous", VOTES)
@pytest.mark.parametrize(("C", "k"), [(10, 5), (7, 15), (5, 24), (300, 6)])
def test_log_domain_agrees_with_plain_numbers(rng, C, k, unanimous):
    W = 12
    F = polynomials([np.exp2(-rng.exponential(2, (k + 3, W))) for _ in range(C)], k)
    F[C // 2, k // 2 + 1 :, ::2] = 0  # a small class
    own = rng.integers(0, C, W)
    win, lose, P_win, P_lose = votes(F, own, k, unanimous, None)
    log_win, log_lose, Q_win, Q_lose = votes(to_log(F), own, k, unanimous, 1)
    impossible = unanimous & (own == C // 2) & (np.arange(W) % 2 == 0)
    np.testing.assert_array_equal(win == 0, impossible)
    np.testing.assert_allclose(to_log(win), log_win, rtol=1e-12)
    np.testing.assert_allclose(np.log2(lose), log_lose, rtol=1e-12)
    np.testing.assert_allclose(Q_win, P_win, rtol=1e-11, atol=1e-200)
    np.testing.assert_allclose(Q_lose, P_lose, rtol=1e-11, atol=1e-200)
    np.testing.assert_allclose(Q_win, P_win, atol=1e-12)
    np.testing.assert_allclose(Q_lose, P_lose, atol=1e-12)


@pytest.mark.nojit
@pytest.mark.parametrize("log", DOMAINS)
@pytest.mark.parametrize("unanimous", VOTES)
@pytest.mark.parametrize(("C", "k"), [(1, 3), (2, 4), (3, 1), (3, 5), (5, 8)])
def test_every_class_wins_as_if_it_were_the_own(rng, C, k, unanimous, log):
    W = 3
    sizes = rng.integers(1, k + 3, C)
    F = polynomials([np.exp2(-rng.exponential(4, (n, W))) for n in sizes], k)
    F = F if log is None else to_log(F)
    out = np.full((C, W), np.nan)
    win_lanes(F, k, unanimous, out, room_of_nan(C, k, W), log)
    for c in range(C):
        win = votes(F, np.full(W, c), k, unanimous, log)[0]
        np.testing.assert_allclose(out[c], win, rtol=1e-12, atol=0 if log is None else 1e-12)


@pytest.mark.nojit
@pytest.mark.parametrize("log", DOMAINS)
def test_two_classes_by_hand(log):
    """k = 2, weights 1/2, 1/4 in the own class and 1, 1/8 in the other: a tie loses."""
    F = np.array([[1, 0.75, 0.125], [1, 1.125, 0.125]])[..., None]
    win, lose = 0.125, 0.75 * 1.125 + 0.125
    P_lose = np.array([[0.125, 0.75 * 1.125, 0], [0, 0.75 * 1.125, 0.125]]) / lose
    expected = ([win], [lose], np.array([[0, 0, 1], [1, 0, 0]])[..., None], P_lose[..., None])
    for unanimous in (False, True):  # the same for k = 2
        check(F, [0], 2, unanimous, log, expected, rtol=1e-14)


@pytest.mark.nojit
@pytest.mark.parametrize("log", DOMAINS)
def test_room_may_be_wider_than_the_tile(rng, log):
    C, k, W = 3, 5, 3
    F = polynomials([np.exp2(-rng.exponential(4, (6, W))) for _ in range(C)], k)
    F, own = F if log is None else to_log(F), np.array([0, 2, 1])
    win, lose, P_win, P_lose = votes(F, own, k, False, log)
    weights, room = np.empty((2, W)), room_of_nan(C, k, W + 5)
    vote_lanes(F, own, k, False, weights, room, log)
    for x, y in zip((win, lose, P_win, P_lose), (*weights, *room.P[..., :W]), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.nojit
def test_sets_below_the_range_have_no_votes():
    """In plain numbers a weight that has lost digits is reported, and divides nothing."""
    F = np.array([[[1.0, 1.0, 1.0]], [[1.0, 1.0, 1.0]]])
    F = np.concatenate([F, [[[2.0**-1000, 0.0, 2.0**-800]], [[1.0, 1.0, 1.0]]]], axis=1)
    weights, room = np.empty((2, 3)), vote_room(2, 1, 3)
    own = np.zeros(3, dtype=np.intp)
    vote_lanes(F, own, 1, False, weights, room, None)
    (win, lose), (P_win, P_lose) = weights, room.P
    np.testing.assert_array_equal(win, [2.0**-1000, 0, 2.0**-800])
    np.testing.assert_array_equal(lose, 1)
    np.testing.assert_array_equal(P_win[0], [[0, 0, 0], [0, 0, 1]])
    np.testing.assert_array_equal(P_lose[0], [[1, 1, 1], [0, 0, 0]])


@kernel
def _sums_and_products(a, b, sums, products, log):
    for i in range(len(a)):
        sums[i] = _arithmetic.add(a[i], b[i], log)
        products[i] = _arithmetic.times(a[i], b[i], log)


@pytest.mark.nojit
def test_nothing_stays_nothing():
    nothing = _arithmetic.NOTHING
    a = np.array([nothing, nothing, nothing, 3.0, 5000.0, -5000.0])
    b = np.array([nothing, 9000.0, -9000.0, 3.0, -5000.0, -5001.0])
    sums, products = np.empty(6), np.empty(6)
    _sums_and_products(a, b, sums, products, 1)
    right = [nothing, 9000, -9000, 4, 5000, -5000 + np.log2(1.5)]
    np.testing.assert_allclose(sums, right, rtol=1e-15)
    np.testing.assert_array_equal(products, [nothing, nothing, nothing, 6, 0, -10001])
    for _ in range(3):  # products of products do not run off
        _sums_and_products(products, products, sums, products, 1)
        assert np.all(products >= nothing)
        assert np.all(np.isfinite(sums))


@pytest.mark.nojit
@pytest.mark.parametrize("log", DOMAINS)
def test_absent_own_class_never_wins(rng, log):
    k = 4
    F = polynomials([np.empty((0, 2)), *(rng.uniform(size=(3, 2)) for _ in range(2))], k)
    F = F if log is None else to_log(F)
    win, lose, P_win, P_lose = votes(F, [0, 1], k, False, log)
    nothing = 0.0 if log is None else _arithmetic.NOTHING
    assert win[0] == nothing
    assert win[1] > nothing
    np.testing.assert_allclose(P_lose[0, :, 0], [1, 0, 0, 0, 0], rtol=1e-15)


@pytest.mark.nojit
@pytest.mark.parametrize("log", DOMAINS)
@pytest.mark.parametrize(("a", "b", "low"), [(0, 9, 0), (1, 9, 0), (1, 4, 3), (2, 2, 0), (5, 9, 2)])
def test_products_of_polynomials(rng, a, b, low, log):
    k, W = 9, 3
    X, Y, start = rng.uniform(0.1, 1, (3, k + 1, W))
    kept_X, kept_Y = X.copy(), Y.copy()
    kept_X[:a], kept_X[b + 1 :], kept_Y[:low] = 0, 0, 0
    right = np.stack([np.convolve(kept_X[:, i], kept_Y[:, i])[: k + 1] for i in range(W)], axis=1)
    if log is not None:
        X, Y, start = np.log2(X), np.log2(Y), np.log2(start)
    for origin, sign in ((0, 1), (k, -1)):
        rows = np.concatenate([start, X, Y])
        steps = votes_kernels._Steps(1, k)
        steps.products(0, origin, sign, 2, k, k + 1, a, b, 2 * (k + 1), low)
        votes_kernels._do(steps.table(), rows, rows, rows, W, log)
        out = rows[: k + 1]
        change = out - start if log is None else np.exp2(out) - np.exp2(start)
        np.testing.assert_allclose(change[::sign][2:], right[2:], atol=1e-13)
        np.testing.assert_array_equal(out[::sign][:2], start[::sign][:2])


@pytest.mark.skipif(config.DISABLE_JIT, reason="needs compiled kernels")
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="x86 assembly")
@pytest.mark.parametrize("log", DOMAINS)
def test_inner_loops_are_vectorised(log):
    rows = np.zeros((18, 16))
    votes_kernels._do(votes_kernels._Steps(1, 5).table(), rows, rows, rows, 16, log)
    last = "none" if log is None else "int64"
    codes = votes_kernels._do.inspect_asm()
    code = next(text for types, text in codes.items() if str(types[-1]) == last)
    if "%ymm" not in code:
        pytest.skip("no AVX2 on this machine")
    # plain: 4 terms, 2 and 1 to a sweep; log domain: 5, 3 and 2 exponentials of degree 10
    packed = re.findall(r"\bvfn?m(?:add|sub)\d+pd\b.*%[yz]mm", code)
    assert len(packed) >= (7 if log is None else 100)
