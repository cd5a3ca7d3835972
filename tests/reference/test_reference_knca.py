"""The oracle of kNCA itself: by hand, set by set, chain by chain, and by finite differences."""

from __future__ import annotations

from itertools import product
from math import exp, log

import numpy as np
import pytest
from formulas import finite_difference, knca, knca_by_subsets, knca_posterior, nca

VOTES = ["majority", "all"]
OBJECTIVES = ["log", "accuracy"]
each_vote = pytest.mark.parametrize("vote", VOTES)
each_objective = pytest.mark.parametrize("objective", OBJECTIVES)
both_ways = pytest.mark.parametrize("way", [knca, knca_by_subsets], ids=lambda way: way.__name__)


def cloud(rng, n, n_classes, scale=1.0):
    y = np.arange(n) % n_classes
    rng.shuffle(y)
    return scale * rng.standard_normal((n, 2)), y


def assert_close(got, expected, rtol):
    assert got[0] == pytest.approx(expected[0], rel=rtol, abs=rtol)
    size = np.abs(expected[1]).max()
    np.testing.assert_allclose(got[1], expected[1], rtol=0, atol=rtol * (size + 0.1))


@both_ways
@each_objective
def test_one_query_by_hand(way, objective):
    """d² is log 2, log 3, log 5 and log 7, so the weights are 1/2 and 1/3 (own), 1/5 and 1/7."""
    Z = np.sqrt(np.log([[1.0], [2.0], [3.0], [5.0], [7.0]]))
    y = [0, 0, 0, 1, 2]
    # times 210: 105, 70 | 42 | 30; k = 2: a pair of the own class, or not
    pairs = 105 * 70 + 105 * 42 + 105 * 30 + 70 * 42 + 70 * 30 + 42 * 30
    # k = 3: two votes are a majority; one of each class is a tie, and the rest there are not
    triples = 105 * 70 * 42 + 105 * 70 * 30 + 105 * 42 * 30 + 70 * 42 * 30
    for k, vote, p in [
        (2, "majority", 105 * 70 / pairs),
        (2, "all", 105 * 70 / pairs),
        (3, "majority", 105 * 70 * (42 + 30) / triples),
        (3, "all", 0.0),
        (4, "majority", 1.0),  # all four: two votes against one and one
        (4, "all", 0.0),
        (9, "majority", 1.0),
    ]:
        expected = -p if objective == "accuracy" else -log(p) if p else 0.0
        value, dZ = way(Z, y, k, vote, objective, queries=[0])
        assert value == pytest.approx(expected, rel=1e-13, abs=1e-14)
        if p in (0.0, 1.0):
            np.testing.assert_allclose(dZ, 0, atol=1e-15)


@both_ways
def test_gradient_of_one_query_by_hand(way):
    """k = 2: p = w_1 w_2 / e_2; P(1 in s | win) = 1 and P(1 in s) = w_1 (w_2 + w_3 + w_4) / e_2."""
    Z = np.sqrt(np.log([[1.0], [2.0], [3.0], [5.0], [7.0]]))
    w = 1 / np.array([2, 3, 5, 7])
    e2 = ((w.sum()) ** 2 - (w**2).sum()) / 2
    marginal = w * (w.sum() - w) / e2
    gap = np.array([1, 1, 0, 0]) - marginal
    _, dZ = way(Z, [0, 0, 0, 1, 2], 2, "majority", "log", queries=[0])
    np.testing.assert_allclose(dZ[1:, 0], 2 * gap * Z[1:, 0], rtol=1e-12)
    assert dZ[0, 0] == pytest.approx(-dZ[1:, 0].sum(), rel=1e-12)


@each_vote
@each_objective
def test_chains_equal_subsets(rng, vote, objective):
    for n, n_classes, k in product([3, 6, 9], [1, 2, 3, 4], [1, 2, 3, 4, 20]):
        Z, y = cloud(rng, n, n_classes, 10 ** rng.uniform(-1, 0.5))
        for rows in [{}, {"queries": [0, 2], "references": np.arange(1, n)}]:
            args = (Z, y, k, vote, objective, *rows.values())
            mass = rng.uniform(0.1, 3, n)
            assert_close(knca(*args, mass=mass), knca_by_subsets(*args, mass=mass), 1e-10)


@each_vote
@each_objective
@pytest.mark.parametrize("k", [1, 2, 5])
def test_gradient_matches_finite_differences(rng, vote, objective, k):
    Z, y = cloud(rng, 14, 2)
    rows = {"queries": [0, 3, 4, 9], "references": np.arange(1, 14)}
    for scale in [0.3, 2.0]:
        _, dZ = knca(scale * Z, y, k, vote, objective, **rows)
        numeric = finite_difference(
            lambda W: knca(W, y, k, vote, objective, **rows)[0], scale * Z, 1e-5
        )
        np.testing.assert_allclose(dZ, numeric, rtol=0, atol=1e-7 * np.abs(dZ).max())


@both_ways
@each_vote
@each_objective
def test_one_neighbour_is_nca(rng, way, vote, objective):
    Z, y = cloud(rng, 9, 3)
    for rows in [{}, {"queries": [0, 2], "references": np.arange(1, 9)}]:
        for scale in [0.1, 1, 4]:
            got = way(scale * Z, y, 1, vote, objective, **rows)
            assert_close(got, nca(scale * Z, y, objective, **rows), 1e-11)


def test_certain_rows_and_far_own_class_by_hand():
    """Four points on a line: for k = 2 two of the own class or not, at either end of p."""
    Z, y = np.array([[0.0], [1.0], [2.0], [10.0]]), [0, 0, 0, 1]
    # win: e^-(1 + 4); lose: e^-(1 + 100) + e^-(4 + 100)
    odds = exp(-96) + exp(-99)
    value, dZ = knca(Z, y, 2, "all", "log", queries=[0])
    assert value == pytest.approx(odds, rel=1e-13, abs=0)
    assert dZ[3, 0] == pytest.approx(-2 * 10 * odds, rel=1e-12, abs=0)  # 3 is in all that lose
    value, dZ = knca(Z, [0, 0, 1, 0], 2, "all", "log", queries=[0])
    assert value == pytest.approx(96, rel=1e-13)  # what wins is 1 and 10, what loses 1 and 2
    np.testing.assert_allclose(dZ[2:, 0], [-2 * 2, 2 * 10], rtol=1e-12)


def test_posterior(rng):
    Z, y = cloud(rng, 9, 3)
    for k, vote in product([1, 2, 3, 4], VOTES):
        if k == 4 and vote == "all":
            np.testing.assert_array_equal(knca_posterior(Z[:2] + 0.1, Z, y, k, vote), 1 / 3)
            continue
        P = knca_posterior(Z[:1], Z[1:], y[1:], k, vote)[0]
        assert P.sum() == pytest.approx(1, rel=1e-13)
        # the odds of two classes are those of their own p
        p = [knca(Z, np.r_[c, y[1:]], k, vote, "accuracy", queries=[0])[0] for c in range(3)]
        np.testing.assert_allclose(P, np.array(p) / sum(p), rtol=1e-11)


def test_errors(rng):
    Z, y = cloud(rng, 5, 2)
    with pytest.raises(ValueError, match=r"vote must be 'majority' or 'all'\. Got 'most'"):
        knca(Z, y, vote="most")
    with pytest.raises(ValueError, match=r"objective must be 'accuracy' or 'log'\. Got 'kl'"):
        knca_by_subsets(Z, y, objective="kl")
