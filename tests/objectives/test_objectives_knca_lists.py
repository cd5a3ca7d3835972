"""kNCA over candidate lists: the plain formula list by list, and all pairs in the limit."""

from __future__ import annotations

import formulas
import numpy as np
import pytest
from common.checks import (
    assert_close,
    each_dtype,
)
from common.clouds import (
    OBJECTIVES,
    all_rows,
    each_objective,
    each_vote,
    lists_of,
    plain_lists,
    points,
    separate,
    some_lists,
)
from common.engines import compiled_only

from vicinal.objectives import knca

pytestmark = compiled_only


@pytest.mark.nojit
@each_vote
@each_objective
@pytest.mark.parametrize("k", [1, 2, 3])
def test_truncated_lists_equal_enumeration(rng, vote, objective, k):
    Z, y = points(rng, 14, 2, 2, 0.8)
    pairs = some_lists(rng, 14, 4, 9)
    values, gradients = [], []
    for i in range(14):
        rows = np.setdiff1d(pairs.indices[pairs.indptr[i] : pairs.indptr[i + 1]], [i])
        if len(rows) < k:  # nothing that it could pick
            continue
        args = (Z, y, k, vote), ([i], rows)
        if formulas.knca_by_subsets(*args[0], "accuracy", *args[1])[0] == 0:
            continue
        value, dZ = formulas.knca_by_subsets(*args[0], objective, *args[1])
        values.append(value)
        gradients.append(dZ)
    assert 1 < len(values) < 14
    divisor = len(values) if objective == "log" else 14
    expected = sum(values) / divisor, sum(gradients) / divisor
    assert_close(knca(Z, y, k, vote, objective, pairs=pairs, warn=False), expected, 1e-11)


@each_vote
def test_lists_shorter_than_k(rng, vote):
    """Such a query has nothing to pick: it cannot win, whatever is in the list."""
    Z, y = points(rng, 30, 2, 2)
    rows = [np.arange(30)] * 30
    rows[4] = np.flatnonzero(y == y[4])[:5]  # with itself, perhaps: five of its class at most
    rows[7] = rows[7][:0]
    pairs = lists_of(rows)
    rest = np.delete(np.arange(30), [4, 7])
    with pytest.warns(UserWarning, match=r"2 rows .* left out of the log objective"):
        got = knca(Z, y, 6, vote, pairs=pairs)
    assert_close(got, knca(Z, y, 6, vote, queries=rest), 1e-11)
    got = knca(Z, y, 6, vote, "accuracy", pairs=pairs)
    value, dZ = knca(Z, y, 6, vote, "accuracy", queries=rest)
    assert_close(got, (value * 28 / 30, dZ * 28 / 30), 1e-11)
    for objective in OBJECTIVES:
        value, dZ = knca(Z, y, 6, vote, objective, queries=[4, 7], pairs=pairs, warn=False)
        assert (value, dZ.any()) == (0.0, False)


@each_vote
@each_objective
def test_rates_of_samples(rng, vote, objective):
    """A sampled reference stands for several: its weight is divided by the share that was drawn."""
    Z, y = points(rng, 24, 2, 3)
    rates = np.log2(rng.uniform(0.2, 1, (2, 24)))
    pairs = some_lists(rng, 24, 10, 20)._replace(log2_rates=rates)
    for k in [1, 3]:
        got = knca(Z, y, k, vote, objective, pairs=pairs, warn=False)
        assert_close(got, plain_lists(Z, y, k, vote, objective, pairs), 1e-10)
        without = knca(Z, y, k, vote, objective, pairs=pairs._replace(log2_rates=None), warn=False)
        assert abs(got[0] - without[0]) > 1e-3


@each_vote
@each_dtype
def test_far_and_settled_rows(rng, vote, dtype):
    """Lists keep what all pairs keep: the digits of settled rows, and classes out of reach."""
    rtol = 1e-3 if dtype == np.float32 else 1e-10
    report = {}
    for gap in [9.0, 20.0, 40.0]:
        Z, y = separate(rng, 24, 2, gap)
        Z = Z.astype(dtype)
        if dtype == np.float64 or gap < 10:
            got = knca(Z, y, 4, vote, pairs=all_rows(24))
            assert_close(got, formulas.knca(Z, y, 4, vote), rtol)
        y = np.arange(24) // 2 % 2  # across the gap
        got = knca(Z, y, 4, vote, pairs=all_rows(24), report=report)
        assert_close(got, formulas.knca(Z, y, 4, vote), rtol)


def test_own_class_out_of_reach(rng):
    Z, _ = separate(rng, 24, 2, 60.0)
    y = np.r_[np.zeros(12, int), np.ones(12, int)]
    Z = Z[np.argsort(np.arange(24) % 2, kind="stable")]  # twelve here, twelve there
    y[[0, 12]] = 1, 0  # and one of each on the wrong side
    report = {}
    got = knca(Z, y, 3, "all", pairs=all_rows(24), report=report)
    assert_close(got, formulas.knca(Z, y, 3, "all"), 1e-10)
    assert got[0] > 100
    assert report["log_domain"] >= 2


def test_share_and_float32(rng):
    Z, y = points(rng, 100, 3, 3)
    pairs = some_lists(rng, 100, 20, 20)
    report = {}
    expected = knca(Z, y, 4, pairs=pairs, report=report, warn=False)
    assert 0.15 < report["share_of_pairs"] < 0.25
    assert report["log_domain"] == 0
    got = knca(Z.astype(np.float32), y, 4, pairs=pairs, warn=False)
    assert got[1].dtype == np.float32
    assert_close(got, expected, 5e-5)
    value, dZ = knca(Z, y, 4, pairs=pairs, gradient=False, warn=False)
    assert (value, dZ.any()) == (expected[0], False)
