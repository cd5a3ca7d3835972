"""kNCA where numbers end: far classes, settled rows, near points beside far ones; and odd input."""

from __future__ import annotations

import warnings
from math import log

import formulas
import numpy as np
import pytest
from common.checks import (
    assert_close,
    assert_same_bits,
    each_dtype,
)
from common.clouds import (
    OBJECTIVES,
    each_objective,
    each_vote,
    points,
    separate,
)
from common.engines import compiled_only

from vicinal.engines.cpu.lanes import AllPairs
from vicinal.engines.cpu.trees import Bounded
from vicinal.engines.cpu.votes import ClassSummary, Slopes, VoteCounter
from vicinal.objectives import knca, nca
from vicinal.targets import Labels

LOWEST = {"accuracy": -1.0, "log": 0.0}


@each_vote
@each_objective
@each_dtype
@pytest.mark.parametrize("scale", [1e-8, 30.0, 1e4, 1e8])
def test_huge_and_tiny_scales(rng, vote, objective, dtype, scale):
    """Large ones against all sets, which chains of logarithms of 1e16 know to a factor only."""
    Z, y = points(rng, 12, 3, 2)
    Z = (scale * Z).astype(dtype)
    for k in [1, 2, 4]:
        value, dZ = knca(Z, y, k, vote, objective)
        assert LOWEST[objective] <= value <= (0 if objective == "accuracy" else np.inf)
        plain = formulas.knca if scale < 100 else formulas.knca_by_subsets
        expected, dZ_expected = plain(Z, y, k, vote, objective)
        if scale < 1e8:
            rtol = 1e-3 if dtype == np.float32 else 1e-6
            assert_close((value, dZ), (expected, dZ_expected), rtol)
        else:
            assert value == pytest.approx(expected, rel=1e-5, abs=1e-12)
            assert np.isfinite(dZ).all()
            assert np.abs(dZ).max() <= 30 * np.abs(dZ_expected).max()


@each_vote
@pytest.mark.parametrize("scale", [10.0, 100.0])
def test_large_scales_of_more_rows(rng, vote, scale):
    Z, y = points(rng, 40, 3, 3)
    report = {}
    for k in [2, 5, 9]:
        rows = {"queries": np.arange(10)}
        got = knca(scale * Z, y, k, vote, report=report, **rows)
        assert_close(got, formulas.knca(scale * Z, y, k, vote, **rows), 1e-14 * scale**2 + 1e-11)
        assert report["log_domain"] > 0 or scale < 100


@each_dtype
def test_one_far_query_keeps_the_pull_of_its_nearest(rng, dtype):
    """Its nearest are at the edges of their chunks, whose distances are rounded by many bits."""
    for scale in [1e5, 1e7] if dtype == np.float32 else [1e9, 1e20]:
        for _ in range(10):
            Z = (scale * (1 + rng.random((300, 1)))).astype(dtype)
            Z[0] = 0
            y = rng.integers(0, 2, 300)
            nearest = 1 + np.argmin(Z[1:, 0])
            y[0] = 1 - y[nearest]
            value, dZ = knca(Z, y, 1, queries=[0])
            assert dZ[nearest, 0] == pytest.approx(-2 * float(Z[nearest, 0]), rel=1e-6)
            assert_close((value, dZ), nca(Z, y, queries=[0]), 1e-3)


def interleaved(rng, n, gap):
    """Twins of two classes, far from all others: the own class is out of reach."""
    Z = np.repeat(gap * np.arange(n // 2, dtype=float), 2)[:, None] + 0.1 * rng.standard_normal(
        (n, 2)
    )
    return Z, np.arange(n) % 2


@each_vote
@each_dtype
@pytest.mark.parametrize("k", [1, 3, 6])
def test_own_class_out_of_reach(rng, vote, dtype, k):
    """p_i underflows, the loss does not: such rows are counted in logarithms."""
    Z, y = interleaved(rng, 24, 40.0)
    Z = Z.astype(dtype)
    report = {}
    got = knca(Z, y, k, vote, report=report)
    expected = formulas.knca(Z, y, k, vote)
    assert_close(got, expected, 2e-4 if dtype == np.float32 else 1e-10)
    assert expected[0] > (1000 if vote == "all" or k == 1 else 300)
    assert 0 < report["log_domain"] <= 24
    assert knca(Z, y, k, vote, "accuracy")[0] == pytest.approx(
        formulas.knca(Z, y, k, vote, "accuracy")[0], rel=1e-3, abs=1e-30
    )


def test_rows_that_need_no_logarithms(rng):
    Z, y = points(rng, 100, 2, 3)
    Z[0] += 300  # one far row is far from everyone, and its own nearest are as far as the others
    report = {}
    for k in [1, 5, 15]:
        got = knca(Z[1:], y[1:], k, report=report)
        assert report["log_domain"] == 0
        alone = knca(Z, y, k, queries=np.arange(1, 100))
        assert alone[0] == pytest.approx(got[0], rel=1e-11)
    rows = {"queries": [0]}
    for vote in ["majority", "all"]:
        got = knca(Z, y, 5, vote, **rows)
        assert_close(got, formulas.knca(Z, y, 5, vote, **rows), 1e-9)


@each_vote
@each_objective
@each_dtype
@pytest.mark.parametrize("gap", [6.0, 9.0, 14.0, 25.0])
def test_settled_rows_keep_their_gradient(rng, vote, objective, dtype, gap):
    """1 - p_i from 1e-12 downwards, and the gradient is a few of its units, right in its digits."""
    Z, y = separate(rng, 36, 3, gap)
    Z, rows = Z.astype(dtype), {"queries": np.arange(0, 36, 9)}
    for k in [1, 2, 5, 8]:
        got = knca(Z, y, k, vote, objective, **rows)
        expected = formulas.knca(Z, y, k, vote, objective, **rows)
        size = np.abs(expected[1]).max()
        if size < (1e-34 if dtype == np.float32 else 1e-290):  # no number of that type
            assert np.abs(got[1]).max() < 1e-30
            continue
        assert 0 < size < 1e-4
        assert_close(got, expected, 1e-3 if dtype == np.float32 else 1e-10)
        if objective == "log":
            assert 0 < got[0] < 1e-5


@pytest.mark.parametrize("unanimous", [False, True])
def test_lanes_whose_sums_overflow(unanimous):
    """They are known by what is no number, too: infinity times a class without members."""
    k, far = 4, 1e300
    T = np.full((3, k, 2), far)
    T[0], T[1, :1], T[2, :2] = 0.0, 1.0, 2.0
    E, theta = np.zeros((3, k, 2)), np.full((3, 2), far)
    E[0], theta[0] = np.array([1e308, 1.7e308, 1.7e308, 1.7e308])[:, None], 0.0
    summary, own = ClassSummary(T, E, theta), np.array([1, 2])
    size = 3, k, 2, unanimous, far, 100
    counters = VoteCounter(*size), VoteCounter(*size, log=1)
    told = [Slopes.room(T.shape) for _ in counters]
    odds = [c.odds(summary, own, 2, s) for c, s in zip(counters, told, strict=True)]
    assert odds[0][0] == np.inf  # one member does not win a vote of four
    if unanimous:
        assert odds[0][1] == np.inf
    else:
        assert odds[0][1] == pytest.approx(odds[1][1], rel=1e-12)
    assert all(np.isfinite(x).all() for x in told[0])
    np.testing.assert_allclose(*(c.wins(summary) for c in counters), rtol=1e-12)


@compiled_only
def test_many_dimensions_take_fewer_blocks(rng):
    """Each block has a gradient of all queries of a batch: some hundred MB, not a GB."""
    Z = np.zeros((8192, 800), np.float32)
    rows = np.arange(len(Z))
    blocks = {}
    for d in [2, 100, 800]:
        engine = AllPairs(Z[:, :d], rows % 10, rows, rows[::4], 5)
        blocks[d] = engine._blocks()
        assert blocks[d] * engine.queries.nbytes <= max(2**26, 8 * engine.queries.nbytes)
    assert blocks[2] == 32
    assert blocks[800] == 8


def ring(rng, radii, codes):
    """A query in the middle, of class 0, and references around it at given radii."""
    angle = rng.uniform(0, 2 * np.pi, len(radii))
    Z = np.c_[np.cos(angle), np.sin(angle)] * np.asarray(radii)[:, None]
    return np.r_[np.zeros((1, 2)), Z], np.r_[0, codes]


def slopes(Z, dZ):
    """dloss / d|z_0 - z_j|², from the pull of the only query on its references."""
    away = Z[1:].astype(float) - Z[0]
    return (dZ[1:] * away).sum(axis=1) / (2 * (away**2).sum(axis=1))


@each_vote
@each_objective
@each_dtype
@pytest.mark.parametrize("weight", [1e-5, 1e-8])
def test_three_near_points_and_the_rest_far(rng, vote, objective, dtype, weight):
    """All without j must not be got by dividing j out: float32 would be wrong by itself at 1e-5."""
    radii = np.sqrt(np.r_[0.01, 0.02, 0.03, -log(weight) + 0.5 * rng.uniform(0, 1, 30)])
    codes = np.r_[0, 0, 0, np.arange(30) % 2]
    Z, y = ring(rng, radii, codes)
    Z = Z.astype(dtype)
    rtol = 3e-5 if dtype == np.float32 else 1e-12
    for k in [2, 3, 4, 5, 7]:
        got = knca(Z, y, k, vote, objective, queries=[0])
        expected = formulas.knca(Z, y, k, vote, objective, queries=[0])
        assert got[0] == pytest.approx(expected[0], rel=rtol, abs=1e-15)
        marginals, exact = slopes(Z, got[1]), slopes(Z, expected[1])
        np.testing.assert_allclose(marginals[:3], exact[:3], rtol=0, atol=rtol)
        size = np.abs(exact[3:]).max()  # far ones are as right as they are rare
        np.testing.assert_allclose(marginals[3:], exact[3:], rtol=0, atol=rtol * size + 1e-25)


@each_dtype
@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize("k", [1, 2, 5, 10, 15])
def test_equal_near_points_and_then_nothing(rng, dtype, k, more):
    """The worst case of the rest's polynomial: k + 1 alike, of which it has one, and a cliff.

    Of n near points each is in k / n of the sets that win, and in (k - 1) / n of those that lose.
    With n = k nothing is left for the rest, and no digit is lost.
    """
    n = k + more
    radii = np.r_[0.5 + 1e-4 * np.arange(n), np.full(4, 4.5)]
    Z, y = ring(rng, radii, np.r_[np.zeros(n, int), np.ones(4, int)])
    Z = Z.astype(dtype)
    got = knca(Z, y, k, "all", "log", queries=[0])
    expected = formulas.knca(Z, y, k, "all", "log", queries=[0])
    marginals = slopes(Z, got[1]) / expected[0]  # -log p is 1 - p here
    exact = slopes(Z, expected[1]) / expected[0]
    np.testing.assert_allclose(exact[:n], 1 / n, rtol=0.02)
    eps = float(np.finfo(dtype).eps)
    bound = 100 * k * eps  # of the weights themselves
    if more:
        bound += 2 ** (k + 2) / (k + 1) * k * eps  # docs/theory/knca.md, (i), the total being k
    np.testing.assert_allclose(marginals, exact, rtol=0, atol=bound)


@each_objective
def test_even_k_and_ties(objective):
    """Two of each class at the same distance: of two neighbours both or none, of four a tie."""
    Z = np.array([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    y = [0, 0, 0, 1, 1]
    for k, p in [(1, 1 / 2), (2, 1 / 6), (3, 1 / 2), (4, 0.0)]:
        value, _ = knca(Z, y, k, "majority", objective, queries=[0], warn=False)
        expected = -p if objective == "accuracy" else -log(p) if p else 0.0
        assert value == pytest.approx(expected, rel=1e-13, abs=1e-15)
    y = [0, 0, 0, 1, 2]  # two votes against one and one
    for k, p in [(2, 1 / 6), (3, 1 / 2), (4, 1.0)]:
        value, _ = knca(Z, y, k, "majority", "accuracy", queries=[0], warn=False)
        assert value == pytest.approx(-p, rel=1e-13)


@pytest.mark.filterwarnings("ignore:.* left out of the log objective:UserWarning")
@each_vote
@each_objective
def test_more_neighbours_than_rows(rng, vote, objective):
    Z, y = points(rng, 9, 2, 2)
    y[:] = [0, 0, 0, 0, 0, 0, 1, 1, 1]
    with pytest.warns(UserWarning, match=r"k=12 is more than the 8 rows .*k=8 is used"):
        got = knca(Z, y, 12, vote, objective)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same_bits(knca(Z, y, 12, vote, objective, warn=False), got)
    assert_same_bits(knca(Z, y, 8, vote, objective, warn=False), got)
    assert_close(got, formulas.knca_by_subsets(Z, y, 8, vote, objective), 1e-11)
    for rows, available in [
        ({"queries": [0, 1], "references": np.arange(3, 9)}, 6),
        ({"queries": [0, 4], "references": np.arange(3, 9)}, 5),
    ]:
        with pytest.warns(UserWarning, match=rf"the {available} rows"):
            got = knca(Z, y, 7, vote, objective, **rows)
        expected = formulas.knca_by_subsets(Z, y, available, vote, objective, **rows)
        assert_close(got, expected, 1e-11)


def test_classes_too_small_to_win(rng):
    """Accuracy counts them at 0, log leaves them out; as references they push all the same."""
    Z, _ = points(rng, 12, 2, 2)
    y = np.array(list("aaaaaabbbccd"))
    for k, vote, losers in [(5, "all", "bcd"), (3, "all", "bcd"), (3, "majority", "cd")]:
        rest = np.flatnonzero(~np.isin(y, list(losers)))
        names = ", ".join(map(repr, losers))
        message = rf"^{12 - len(rest)} rows .* left out of the log objective: classes {names}\.$"
        with pytest.warns(UserWarning, match=message):
            value, dZ = knca(Z, y, k, vote)
        assert_close((value, dZ), formulas.knca_by_subsets(Z, y, k, vote), 1e-11)
        assert_close((value, dZ), knca(Z, y, k, vote, queries=rest), 1e-13)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert_same_bits(knca(Z, y, k, vote, warn=False), (value, dZ))
            got = knca(Z, y, k, vote, "accuracy")
        without, dZ_without = knca(Z, y, k, vote, "accuracy", queries=rest)
        share = len(rest) / 12
        assert_close(got, (share * without, share * dZ_without), 1e-13)
        lost = np.setdiff1d(np.arange(12), rest)
        for objective in OBJECTIVES:
            value, dZ = knca(Z, y, k, vote, objective, queries=lost, warn=False)
            assert (value, dZ.any()) == (0.0, False)


def test_wrong_input(rng):
    Z, y = points(rng, 12, 2, 2)
    bad = Z.copy()
    bad[3, 1] = np.nan
    wrong = [
        ((bad, y), {}, r"Z must be finite\. Got NaN"),
        ((Z[:, 0], y), {}, r"Z must have shape \(n, d\) with d >= 1\. Got \(12,\) instead"),
        ((Z, y[:-1]), {}, "Z has 12 rows but there are 11 labels"),
        ((Z, y), {"queries": [0, 12]}, r"'queries' parameter of knca must lie in \[0, 11\]"),
        ((Z, y), {"references": [1, 2, 1]}, "'references' parameter of knca must not repeat a row"),
        ((Z, y), {"vote": "most"}, r"'vote' parameter of knca must be .* Got 'most' instead"),
        ((Z, y), {"objective": "kl"}, r"'objective' parameter of knca must be .* Got 'kl' instead"),
        ((Z, y), {"k": 0}, r"'k' parameter of knca must be an int .* Got 0 instead"),
        ((Z, y), {"k": -3}, r"'k' parameter of knca must be an int .* Got -3 instead"),
        ((Z, y), {"k": 2.5}, r"'k' parameter of knca must be an int .* Got 2\.5 instead"),
        ((Z, y), {"k": True}, r"'k' parameter of knca must be an int .* Got True instead"),
        ((Z, y), {"k": "5"}, r"'k' parameter of knca must be an int .* Got '5' instead"),
        (
            (Z, y),
            {"pairs": Bounded(0.1)},
            r"'pairs' parameter of knca must be .* Got Bounded",
        ),
        ((Z, y), {"pairs": "near"}, r"'pairs' parameter of knca must be Pairs .* Got 'near'"),
        ((Z, Labels(y, np.ones(12))), {}, "labels of knca must not have sample_weight"),
        ((Z, Labels(y, priors="uniform")), {}, "labels of knca must not have priors"),
    ]
    for args, kwargs, message in wrong:
        with pytest.raises((ValueError, TypeError), match=message):
            knca(*args, **{"k": 3, **kwargs})


def test_warns_of_a_k_that_costs_digits(rng):
    Z, y = points(rng, 120, 2, 2, 1.0)
    with pytest.warns(UserWarning, match="k=41 is more than 40: gradients lose digits"):
        knca(Z, y, 41, "all", "log")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        knca(Z, y, 41, "all", "log", gradient=False)


def test_nobody_to_score_is_checked_and_told_all_the_same(rng):
    Z, y = points(rng, 12, 2, 2, 1.0)
    report = {"share_of_pairs": np.nan}
    assert knca(Z, y, 3, queries=[], report=report)[0] == 0.0
    assert report == {"share_of_pairs": 0.0, "log_domain": 0}
    with pytest.raises(TypeError, match="'pairs' parameter of knca must be Pairs or None"):
        knca(Z, y, 3, queries=[], pairs=[[1, 2]])
