"""LMNN's search for impostors: lists that are kept, or not made at all, change no bit."""

from __future__ import annotations

import pickle
import tracemalloc

import formulas
import numpy as np
import pytest
from common.checks import (
    assert_close,
    assert_same_bits,
    each_dtype,
    set_threads,
)
from common.clouds import (
    distances,
    each_distance,
    evaluate,
    some_targets,
)
from common.engines import compiled_only

from vicinal.engines.cpu import impostors as _impostors
from vicinal.objectives import Candidates, lmnn
from vicinal.targets import TargetNeighbors

pytestmark = compiled_only


@pytest.fixture(autouse=True)
def long_lists(monkeypatch):
    """Of few rows a fiftieth of all pairs is next to nothing."""
    monkeypatch.setattr(_impostors, "KEPT_SHARE", 0.3)


def spread(rng, distance, n=400, dtype=np.float64):
    """Classes so far apart that lists are worth keeping, and a margin that some rows reach into."""
    y = np.arange(n) % 4
    Z = (
        rng.standard_normal((n, 3))
        + 2.5 * np.array([[1, 1, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1]])[y]
    )
    Z = (np.exp(Z) if distance == "chi2" else Z).astype(dtype)
    own = np.where(y[:, None] == y, distances(Z, distance), np.inf)
    np.fill_diagonal(own, np.inf)
    targets = TargetNeighbors(y, np.argsort(own, axis=1)[:, :2])
    return Z, targets, 0.2 * float(np.median(own.min(axis=1)))


def steps(rng, Z, distance, sizes):
    """A random walk; of histograms, one that keeps them so."""
    for size in sizes:
        step = size * rng.standard_normal(Z.shape)
        Z = (Z * np.exp(step) if distance == "chi2" else Z + step).astype(Z.dtype)
        yield Z


SMALL, LARGE = [1e-4] * 4 + [1e-3] * 4, [0.3] * 3


@each_distance
@each_dtype
@pytest.mark.parametrize("sizes", [SMALL, LARGE, SMALL[:3] + LARGE[:1] + SMALL], ids=len)
def test_lists_kept_along_a_walk_change_no_bit(rng, distance, dtype, sizes):
    Z, targets, margin = spread(rng, distance, dtype=dtype)
    kept, none = Candidates(), Candidates(most=20)
    for W in [Z, *steps(rng, Z, distance, sizes)]:
        expected = evaluate(W, targets, distance, margin=margin)
        assert expected[1].any()
        for candidates in (kept, none):
            got = evaluate(W, targets, distance, margin=margin, candidates=candidates)
            assert_same_bits(got, expected)
    assert kept.n_evaluations == none.n_evaluations == none.n_searches == len(sizes) + 1
    if sizes is SMALL:
        assert kept.n_searches == 1
    elif sizes is LARGE:
        assert kept.n_searches == 4
    else:
        assert kept.n_searches == 3  # after a large step lists are not thought to live long


@each_dtype
@pytest.mark.parametrize("place", [1e3, 1e6])
def test_lists_far_from_the_origin(rng, dtype, place):
    """Where a distance has lost digits that the search, which is centred, has."""
    Z, targets, margin = spread(rng, "squared")
    Z = (Z + place).astype(dtype)
    kept = Candidates()
    for W in [Z, *steps(rng, Z, "squared", [1e-4, 1e-3, 1e-3, 0.3, 1e-3, 1e-3])]:
        got = evaluate(W, targets, margin=margin, candidates=kept)
        assert_same_bits(got, evaluate(W, targets, margin=margin))
        assert_same_bits(got, evaluate(W, targets, margin=margin, candidates=Candidates(most=9)))
    assert kept.n_searches < 7


@each_distance
@pytest.mark.parametrize("far", [30.0, 1e6, 1e15])
def test_lists_beside_outliers(rng, distance, far):
    Z, targets, margin = spread(rng, distance)
    Z[::40] *= far
    kept = Candidates()
    for W in [Z, *steps(rng, Z, distance, [1e-5] * 3 + [1e-3] * 3 + [0.2] + [1e-5] * 3)]:
        expected = evaluate(W, targets, distance, margin=margin)
        assert_same_bits(evaluate(W, targets, distance, margin=margin, candidates=kept), expected)
        W[:40] = W[40:80]  # twins, from here on


def nearest_unlisted(Z, targets, kept, distance):
    """The pair of different classes that is nearest to being listed."""
    lists, made = kept._lists, kept._made
    excess = np.sqrt(distances(Z, distance))
    excess -= np.maximum(made.root[:, None], made.root)
    excess[targets.codes[:, None] == targets.codes] = np.inf
    for p, (start, end) in enumerate(zip(lists.indptr[:-1], lists.indptr[1:], strict=True)):
        excess[p, lists.indices[start:end]] = np.inf
    return np.unravel_index(excess.argmin(), excess.shape)


@each_dtype
@pytest.mark.parametrize("place", [0.0, 1e4])
@pytest.mark.parametrize("n", [60, 250])
def test_lists_hold_until_two_rows_may_have_met(rng, dtype, place, n):
    """Two classes go to meet, so that no reach grows, where a pair is nearest to being listed."""
    Z, targets, margin = spread(rng, "squared", n)
    Z = (Z + place).astype(dtype)
    kept, report = Candidates(), {}
    settings = {"margin": margin, "candidates": kept, "report": report}
    evaluate(Z, targets, **settings)
    p, q = nearest_unlisted(Z, targets, kept, "squared")
    slack = kept._slack
    way = (Z[q] - Z[p]) / np.linalg.norm(Z[q] - Z[p])
    own, other = (targets.codes == targets.codes[row] for row in (p, q))
    for share, searches in [(0.5, 1), (0.97, 1), (1.03, 2)]:
        W = Z + share * slack * (own * 1.0 - other)[:, None].astype(dtype) * way
        got = evaluate(W.astype(dtype), targets, **settings)
        assert_same_bits(got, evaluate(W.astype(dtype), targets, margin=margin))
        assert kept.n_searches == searches
    assert np.sqrt(np.sum((W[p] - W[q]) ** 2)) < 1.01 * max(kept._made.root[[p, q]])


@each_dtype
def test_lists_of_histograms_hold_until_rows_may_have_met(rng, dtype):
    Z, targets, margin = spread(rng, "chi2", dtype=dtype)
    kept = Candidates()
    evaluate(Z, targets, "chi2", margin=margin, candidates=kept)
    p, q = nearest_unlisted(Z, targets, kept, "chi2")
    for share in np.linspace(0, 0.5, 30):
        W = Z.copy()
        W[[p, q]] += share * (Z[[q, p]] - Z[[p, q]])
        got = evaluate(W, targets, "chi2", margin=margin, candidates=kept)
        assert_same_bits(got, evaluate(W, targets, "chi2", margin=margin))
    assert 1 < kept.n_searches < 20


@each_distance
def test_lists_hold_while_reaches_grow(rng, distance):
    """A row stays, and its target neighbour leaves: it has impostors that it had not before."""
    Z, targets, margin = spread(rng, distance)
    kept, alone = Candidates(), []
    away = rng.standard_normal(Z.shape) * (np.arange(len(Z)) % 5 == 0)[:, None]
    for size in np.linspace(0, 0.6, 25):
        W = Z * np.exp(size * away) if distance == "chi2" else Z + size * away
        got = evaluate(W, targets, distance, margin=margin, candidates=kept)
        expected = evaluate(W, targets, distance, margin=margin)
        assert_same_bits(got, expected)
        alone.append(expected[0])
    assert 1 < kept.n_searches < 25
    assert max(alone) > alone[0]


@pytest.mark.nojit
def test_a_row_that_had_no_reach_gets_one(rng):
    """With no margin a row upon its target has no impostors, until it moves away."""
    Z, y = 30 * rng.standard_normal((60, 2)), np.arange(60) % 2
    Z[:3], y[:4] = Z[3], [0, 0, 1, 1]
    J = np.argsort(np.where(y[:, None] == y, distances(Z, "squared"), np.inf), axis=1)[:, 1:2]
    J[:4, 0] = [1, 0, 3, 2]
    targets = TargetNeighbors(y, J)
    kept = Candidates()
    assert_same_bits(*(lmnn(Z, targets, margin=0.0, candidates=c) for c in (kept, None)))
    Z[0] += 1e-3
    Z[2] -= 1e-3
    got = lmnn(Z, targets, margin=0.0, candidates=kept)
    assert_same_bits(got, lmnn(Z, targets, margin=0.0))
    assert_close(got, formulas.lmnn(Z, y, J, margin=0.0), 1e-12)


@each_distance
@each_dtype
@pytest.mark.parametrize("denominator", [3, 7, 10])
def test_brackets_that_are_nearly_zero(rng, distance, dtype, denominator):
    """Fractions, whose sums differ in the last digit: the search must not decide."""
    for _ in range(4):
        Z = (rng.integers(0, 6, (150, 3)) / denominator).astype(dtype)
        y = np.arange(150) % 3
        targets = TargetNeighbors(y, some_targets(rng, y, 2))
        kept = Candidates()
        for margin in (0.1, 1 / 7, 2 / 3):
            ways = [evaluate(Z, targets, distance, margin=margin, candidates=candidates)
                    for candidates in (None, kept, Candidates(most=5))]  # fmt: skip
            assert_same_bits(ways[1], ways[0])
            assert_same_bits(ways[2], ways[0])


@each_distance
@each_dtype
@pytest.mark.parametrize("kept", [False, True])
def test_an_impostor_by_the_last_digit(rng, distance, dtype, kept):
    """A row upon its target, and another just inside of the margin, or just upon it."""
    alone = TargetNeighbors([0, 0], [[1], [-1]])
    targets = TargetNeighbors([0, 0, 1], [[1], [-1], [-1]])
    for _ in range(50):
        Z = rng.uniform(0.1, 1, (3, 1)).astype(dtype)
        Z[1] = Z[0]
        D = dtype(lmnn(Z[[0, 2]], alone, mu=0.0, distance=distance)[0])
        for margin, count in [(D, 0), (np.nextafter(D, dtype(9)), 1)]:
            report = {}
            candidates = Candidates() if kept else None
            evaluate(Z, targets, distance, margin=margin, candidates=candidates, report=report)
            assert report["n_impostors"] == count


@each_distance
def test_lists_serve_any_other_question(rng, distance):
    """Of other rows, other targets, other margins, in another precision or by another distance."""
    Z, targets, margin = spread(rng, "chi2", 200)
    others = TargetNeighbors(targets.codes, some_targets(rng, targets.codes, 3))
    few = TargetNeighbors(targets.codes, np.where(targets.neighbors % 2, targets.neighbors, -1))
    one_class = TargetNeighbors(np.zeros(200, int), targets.neighbors)
    halves = TargetNeighbors(np.arange(200) // 100, some_targets(rng, np.arange(200) // 100, 2))
    rows = {"queries": np.arange(120), "references": np.arange(40, 200)}
    kept = Candidates()
    questions = [
        (Z, targets, {}),
        (Z, few, {}),
        (Z, targets, {}),
        (Z, targets, rows),
        (Z, targets, {**rows, "gradient": False}),
        (Z, targets, {"references": rows["references"]}),
        (Z.astype(np.float32), targets, {}),
        (Z, targets, {"margin": 3 * margin}),
        (Z, others, {"margin": 0.0}),
        (Z, one_class, {}),
        (Z, halves, {}),
        (Z[:100], targets.take(slice(100)), {}),
        (Z, targets, {"distance": "squared", "margin": 30 * margin}),
        *((Z, targets, {"distance": "chi2", "margin": c * margin}) for c in (1, 3, 10, 30, 100)),
        (Z, targets, {"gradient": False}),
        (Z, targets, {}),
    ]
    usual = {"distance": distance, "margin": margin}
    for W, aim, change in questions:
        fresh = Candidates()
        evaluate(Z, targets, **usual, candidates=fresh)
        assert fresh._lists is not None
        expected = evaluate(W, aim, **{**usual, **change})
        for candidates in (kept, fresh):
            got = evaluate(W, aim, **{**usual, **change}, candidates=candidates)
            assert_same_bits(got, expected)


@each_distance
def test_thread_count_agnosticism_of_lists(rng, monkeypatch, distance):
    Z, targets, margin = spread(rng, distance, 700, np.float32)
    walk = [Z, *steps(rng, Z, distance, [1e-4, 1e-4, 0.1, 1e-4])]
    answers = []
    for threads in (1, 2, 3):
        set_threads(monkeypatch, threads)
        kept = Candidates()
        answers.append(
            [evaluate(W, targets, distance, margin=margin, candidates=kept) for W in walk]
        )
    for other in answers[1:]:
        for got, expected in zip(other, answers[0], strict=True):
            assert_same_bits(got, expected)


@pytest.mark.slow
@each_distance
@pytest.mark.parametrize("lists", [False, True])
def test_memory_is_bounded_whatever_the_number_of_impostors(rng, monkeypatch, distance, lists):
    """All pairs are: 36 million of them, 144 MB in lists, and three hinges to each."""
    monkeypatch.setattr(_impostors, "n_threads", lambda: 2)
    Z, y = rng.uniform(size=(6000, 2)), np.arange(6000) % 2
    targets = TargetNeighbors(y, (np.arange(6000)[:, None] + [2, 4, 6]) % 6000)
    candidates = Candidates() if lists else None
    few = {"queries": np.arange(200), "gradient": False}
    evaluate(Z, targets, distance, **few)  # compiled
    report = {}
    tracemalloc.start()
    value, dZ = evaluate(
        Z, targets, distance, margin=1e4, candidates=candidates, gradient=True, report=report
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert report["n_impostors"] == 3 * 6000 * 3000
    assert peak < 2 * 16e6 + 1000 * 6000
    D = distances(Z[:1], distance)[0, 0]
    assert value == pytest.approx(0.3 * (1e4 + D) * 9000, rel=0.01)
    assert np.isfinite(dZ).all()


def test_lists_do_not_travel(rng):
    Z, targets, margin = spread(rng, "squared")
    kept = Candidates(most=10**6)
    evaluate(Z, targets, margin=margin, candidates=kept)
    data = pickle.dumps(kept)
    assert len(data) < 500
    again = pickle.loads(data)
    assert (again.most, again.n_searches, again.n_evaluations) == (10**6, 0, 0)
    got = evaluate(Z, targets, margin=margin, candidates=again)
    assert_same_bits(got, evaluate(Z, targets, margin=margin))


def test_few_pairs_are_looked_at_once_lists_are_there(rng, monkeypatch):
    Z, targets, margin = spread(rng, "squared", 1000)
    for share in (0.02, 0.2):
        monkeypatch.setattr(_impostors, "KEPT_SHARE", share)
        report, kept = {}, Candidates()
        evaluate(Z, targets, margin=margin, candidates=kept, report=report)
        assert share / 4 < report["share_of_pairs"] < 2 * share
    evaluate(Z, targets, margin=margin, candidates=kept)
    assert (kept.n_searches, kept.n_evaluations) == (1, 2)
    # a loss without a gradient uses them too, and leaves them as they are
    monkeypatch.setattr(_impostors._Search, "__init__", lambda *_: pytest.fail("searched again"))
    value = evaluate(Z, targets, margin=margin, candidates=kept, gradient=False)[0]
    assert (kept.n_searches, kept.n_evaluations) == (1, 2)
    monkeypatch.undo()
    assert value == evaluate(Z, targets, margin=margin, gradient=False)[0]


@each_distance
@each_dtype
def test_few_queries_search_for_themselves(rng, distance, dtype, monkeypatch):
    """Rows that are no queries are only compared with the queries: the loss is the same."""
    Z, targets, margin = spread(rng, distance, 120, dtype)
    for queries, references in [
        (np.arange(0, 120, 7), None),
        (np.arange(0, 60, 5), np.arange(100)),
        (np.arange(0, 120, 3), np.arange(90)),  # some queries are no references
    ]:
        rows = {"queries": queries, "references": references}
        arguments = targets.codes, targets.neighbors, 0.3, margin, distance
        expected = formulas.lmnn(Z, *arguments, **rows)
        report = {}
        got = evaluate(Z, targets, distance, margin=margin, report=report, **rows)
        assert_close(got, expected, 1e-10 if dtype == np.float64 else 1e-4, 1e-13)
        assert 0 < report["share_of_pairs"] <= 1
        for change in (
            lambda m: set_threads(m, 3),
            lambda m: m.setattr(_impostors, "KEPT", 20),
            lambda m: m.setattr(_impostors, "ONCE", 20),
        ):
            with monkeypatch.context() as changed:
                change(changed)
                assert_same_bits(evaluate(Z, targets, distance, margin=margin, **rows), got)
