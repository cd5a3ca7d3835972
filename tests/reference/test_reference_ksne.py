"""The oracle of kSNE itself: by hand, set by set, chain by chain, and by finite differences."""

from __future__ import annotations

from itertools import product
from math import log

import numpy as np
import pytest
from formulas import finite_difference, ksne, set_marginals, set_marginals_by_subsets

each_kernel = pytest.mark.parametrize("kernel", ["cauchy", "gaussian"])
both_ways = pytest.mark.parametrize(
    "way", [set_marginals, set_marginals_by_subsets], ids=lambda way: way.__name__
)


@both_ways
def test_marginals_by_hand(way):
    """Weights 1/2, 1/3, 1/5, 1/7: times 210 they are 105, 70, 42, 30."""
    log_w = np.log([[1 / 2, 1 / 3, 1 / 5, 1 / 7]])
    pairs = 105 * 70 + 105 * 42 + 105 * 30 + 70 * 42 + 70 * 30 + 42 * 30
    marginals, log_total = way(log_w, 2)
    np.testing.assert_allclose(
        marginals[0] * pairs, [105 * 142, 70 * 177, 42 * 205, 30 * 217], rtol=1e-13
    )
    assert log_total[0] == pytest.approx(log(pairs / 210**2), rel=1e-13)
    np.testing.assert_allclose(way(log_w, 4)[0], 1.0, rtol=1e-13)
    np.testing.assert_allclose(way(log_w, 1)[0][0] * 247, [105, 70, 42, 30], rtol=1e-13)


def test_chains_equal_subsets(rng):
    for n, k in product([1, 4, 9], [1, 2, 3, 4]):
        if k > n:
            continue
        log_w = rng.standard_normal((5, n)) * 10 ** rng.uniform(-1, 2)
        got, expected = set_marginals(log_w, k), set_marginals_by_subsets(log_w, k)
        np.testing.assert_allclose(got[0], expected[0], atol=1e-12)
        np.testing.assert_allclose(got[1], expected[1], rtol=1e-13)
        np.testing.assert_allclose(got[0].sum(axis=1), k, rtol=1e-13)


def test_weights_of_zero_are_never_chosen(rng):
    log_w = rng.standard_normal((3, 6))
    log_w[:, 2] = -np.inf
    marginals, log_total = set_marginals(log_w, 3)
    expected = set_marginals_by_subsets(np.delete(log_w, 2, axis=1), 3)
    assert not marginals[:, 2].any()
    np.testing.assert_allclose(np.delete(marginals, 2, axis=1), expected[0], rtol=1e-12)
    np.testing.assert_allclose(log_total, expected[1], rtol=1e-13)


def test_one_query_by_hand():
    """d² is 1, 2, 4 and 6, so the Cauchy weights are 1/2, 1/3, 1/5 and 1/7, e_2 = 21210 / 210²."""
    Z = np.sqrt([[0.0], [1.0], [2.0], [4.0], [6.0]])
    P = np.zeros((5, 5))
    P[0, 1:] = p = np.array([0.9, 0.6, 0.4, 0.1])
    w, total = 1 / np.array([2, 3, 5, 7]), 21210 / 210**2
    value, dZ = ksne(Z, P, 2, queries=np.array([0]))
    assert value == pytest.approx(p @ np.log([2, 3, 5, 7]) + log(total), rel=1e-13)
    q = w * (w.sum() - w) / total
    np.testing.assert_allclose(dZ[1:, 0], 2 * (p - q) * w * Z[1:, 0], rtol=1e-12)
    assert dZ[0, 0] == pytest.approx(-dZ[1:, 0].sum(), rel=1e-12)


@each_kernel
@pytest.mark.parametrize("kappa", [0.0, 0.2])
def test_gradient_matches_finite_differences(rng, kernel, kappa):
    Z, P = rng.standard_normal((9, 2)), rng.random((9, 9))
    for k, rows in product([1, 3], [{}, {"queries": np.arange(4), "references": np.arange(1, 9)}]):
        options = {"kernel": kernel, "kappa": kappa, "exaggeration": 1.7, **rows}
        dZ = ksne(Z, P, k, **options)[1]
        numeric = finite_difference(lambda W, k=k, o=options: ksne(W, P, k, **o)[0], Z, 1e-5)
        np.testing.assert_allclose(dZ, numeric, rtol=0, atol=1e-8 * np.abs(dZ).max())


@each_kernel
def test_the_best_points_choose_the_targets_sets(rng, kernel):
    """Marginals of the points themselves: no slope, and the loss is the entropy of the sets."""
    Z = rng.standard_normal((8, 2))
    d2 = ((Z[:, None] - Z) ** 2).sum(axis=2)
    log_w = np.where(np.eye(8, dtype=bool), -np.inf, -d2 if kernel == "gaussian" else -np.log1p(d2))
    P, log_total = set_marginals(log_w, 3)
    value, dZ = ksne(Z, P, 3, kernel)
    np.testing.assert_allclose(dZ, 0, atol=1e-14)
    sets, _ = set_marginals_by_subsets(log_w[0:1, 1:], 3)
    np.testing.assert_allclose(P[0, 1:], sets[0], rtol=1e-12)
    weight = np.sum(P * np.where(np.isinf(log_w), 0.0, log_w), axis=1)
    assert value == pytest.approx(np.mean(log_total - weight), rel=1e-13)
