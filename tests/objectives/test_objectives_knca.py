"""kNCA against a list of all sets, the plain chains, finite differences, NCA and itself."""

from __future__ import annotations

import warnings
from itertools import combinations
from math import exp, log

import formulas
import numpy as np
import pytest
from common.checks import (
    assert_close,
    assert_same_bits,
)
from common.clouds import (
    OBJECTIVES,
    VOTES,
    all_rows,
    each_objective,
    each_vote,
    lists_of,
    points,
    separate,
)
from formulas import finite_difference
from hypothesis import given
from hypothesis import strategies as st

from vicinal.objectives import knca, nca

votes, objectives = st.sampled_from(VOTES), st.sampled_from(OBJECTIVES)


def quiet_knca(*args, **kwargs):
    """Small classes and few rows are part of the game here."""
    return knca(*args, warn=False, **kwargs)


@st.composite
def clouds(draw):
    """A few rows, some equal or at equal distances, and labels of one to four classes."""
    n, n_classes = draw(st.integers(2, 9)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    Z = draw(st.sampled_from([0.1, 0.5, 1, 2])) * rng.standard_normal((n, draw(st.integers(1, 3))))
    kind = draw(st.sampled_from(["plain", "duplicates", "integers", "constant"]))
    if kind == "duplicates":
        Z = Z[rng.integers(0, n, n)]
    elif kind == "integers":  # exact ties
        Z = np.rint(2 * Z)
    elif kind == "constant":
        Z[:] = Z[0]
    return Z, rng.integers(0, n_classes, n)


def assert_is_enumeration(got, expected):
    """The difference of two marginals of order one: gradients to a few digits of those."""
    assert got[0] == pytest.approx(expected[0], rel=1e-11, abs=1e-14)
    np.testing.assert_allclose(got[1], expected[1], rtol=0, atol=1e-11)


@given(clouds(), st.integers(1, 4), votes, objectives)
def test_matches_enumeration(cloud, k, vote, objective):
    Z, y = cloud
    expected = formulas.knca_by_subsets(Z, y, k, vote, objective)
    assert_is_enumeration(quiet_knca(Z, y, k, vote, objective), expected)


@given(clouds(), st.integers(1, 4), votes, objectives, st.data())
def test_any_queries_and_references(cloud, k, vote, objective, data):
    Z, y = cloud
    rows = st.lists(st.integers(0, len(Z) - 1), unique=True, max_size=len(Z))
    q, r = np.array(data.draw(rows), dtype=int), np.array(data.draw(rows), dtype=int)
    got = quiet_knca(Z, y, k, vote, objective, q, r)
    assert_is_enumeration(got, formulas.knca_by_subsets(Z, y, k, vote, objective, q, r))


@pytest.mark.nojit
@each_vote
@each_objective
@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_matches_enumeration_for_every_k(rng, vote, objective, n_classes):
    Z, y = points(rng, 9, 2, n_classes, 0.7)
    for k in [1, 2, 3, 4]:
        expected = formulas.knca_by_subsets(Z, y, k, vote, objective)
        assert_is_enumeration(quiet_knca(Z, y, k, vote, objective), expected)


@each_vote
def test_many_classes(rng, vote):
    """More classes than votes, most of them smaller than k, and rows in several tiles."""
    Z, y = points(rng, 60, 2, 17)
    rows = {"queries": np.arange(0, 60, 9)}
    got = quiet_knca(Z, y, 3, vote, **rows)
    assert_close(got, formulas.knca(Z, y, 3, vote, **rows), 1e-10)


def test_six_points_by_hand():
    """A hexagon of radius 1 in turn a b a b a b: d² is 1, 3, 4, 3, 1 around each point."""
    angle = np.arange(6) * np.pi / 3
    Z, y = np.stack([np.cos(angle), np.sin(angle)], axis=1), list("ababab")
    d2, own = [1, 3, 4, 3, 1], [False, True, False, True, False]
    for k, wins in [(2, 2), (3, 2), (4, 3)]:  # votes that win: of four two are a tie
        sums = {True: [], False: []}
        for s in combinations(range(5), k):
            sums[sum(own[j] for j in s) >= wins].append(sum(d2[j] for j in s))
        if not sums[True]:
            assert knca(Z, y, k, "majority", "accuracy")[0] == 0
            continue
        win, lose = (sum(exp(-e) for e in sums[won]) for won in (True, False))
        gap = np.subtract(
            *(np.average(sums[won], weights=np.exp(-np.array(sums[won]))) for won in (True, False))
        )
        p = win / (win + lose)
        for objective, value, slope in [("accuracy", -p, p * (1 - p)), ("log", -log(p), 1 - p)]:
            for dtype, rtol in [(np.float64, 1e-13), (np.float32, 2e-6)]:
                # growing by a factor 1 + t adds 2 t d² to d²; each row has a sixth of it
                got = knca(Z.astype(dtype), y, k, "majority", objective)
                assert_close(got, (value, slope * gap / 3 * Z), rtol)


@each_vote
@each_objective
@pytest.mark.parametrize("k", [1, 2, 5])
def test_gradient_matches_finite_differences_between_separate_classes(rng, vote, objective, k):
    Z, y = separate(rng, 18, 2, 3.5)
    value, dZ = knca(Z, y, k, vote, objective)
    assert value + (objective == "accuracy") < 0.1  # settled, nearly
    size = np.abs(dZ).max()
    numeric = finite_difference(lambda W: knca(W, y, k, vote, objective)[0], Z, 1e-5)
    np.testing.assert_allclose(dZ, numeric, rtol=1e-5, atol=1e-6 * size + 2e-11)


@each_vote
@each_objective
def test_one_neighbour_is_nca(rng, vote, objective):
    """To the last digits, in tiles and in lists."""
    Z, y = points(rng, 90, 3, 4)
    rows = {"queries": np.arange(50), "references": np.arange(20, 90)}
    lists = lists_of([rng.permutation(90)[: 20 + i % 7] for i in range(90)])
    for scale, rtol in [(0.1, 1e-13), (1.0, 1e-13), (5.0, 1e-12)]:
        for part in [{}, rows]:
            for pairs in [None, all_rows(90), lists]:
                args = {"objective": objective, "pairs": pairs, "warn": False, **part}
                got = knca(scale * Z, y, 1, vote, **args)
                assert_close(got, nca(scale * Z, y, **args), rtol)


@each_objective
def test_one_neighbour_is_nca_late_in_learning(rng, objective):
    for gap in [6, 15]:
        Z, y = separate(rng, 40, 3, gap)
        assert_close(knca(Z, y, 1, "all", objective), nca(Z, y, objective), 1e-11)


def test_float32_sums_over_many_rows(rng):
    """One by one, ten thousand weights of a class would be off by some 1e-5."""
    Z, y = points(rng, 30_000, 2, 2, 1e-3)
    for k in [1, 5]:
        single, double = (
            knca(Z.astype(dtype), y, k, "all", queries=np.arange(32), gradient=False)[0]
            for dtype in (np.float32, np.float64)
        )
        assert single == pytest.approx(double, rel=5e-7)


def test_defaults_and_report(rng):
    Z, y = points(rng, 50, 2, 3)
    report = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = knca(Z, y, report=report)
    assert_same_bits(got, knca(Z, y, 5, "majority", "log"))
    assert report == {"share_of_pairs": 1.0, "log_domain": 0}
