"""LMNN beside metric-learn's, whose numbers `benchmarks/metric_learn_lmnn.py` has stored.

metric-learn weighs the pull by r and the push by 1 - r, and adds over the rows where we take the
mean: its objective is n r times ours at mu = (1 - r) / r.  The script says what else was read in
its code.  All r here are unequal to 0.5, where the two weights could be exchanged unseen.
"""

from __future__ import annotations

import json
from pathlib import Path

import formulas
import numpy as np
import pytest

from vicinal.objectives import lmnn
from vicinal.targets import TargetNeighbors

STORED = json.loads(
    Path(__file__).parents[1].joinpath("data").joinpath("metric_learn_lmnn.json").read_text()
)


def plain(Z, y, neighbours, mu, margin):
    return formulas.lmnn(Z, y, neighbours, mu=mu, margin=margin)


def fast(Z, y, neighbours, mu, margin):
    return lmnn(Z, TargetNeighbors(y, neighbours), mu=mu, margin=margin)


def name_of(case):
    return f"{case['data']}-{case['map']}-k{case['k']}-r{case['regularization']}"


def parts(case):
    """X, y, L and the target neighbours of a case."""
    data = STORED["data"][case["data"]]
    X, y = np.array(data["X"]), np.array(data["y"])
    return X, y, np.array(data["maps"][case["map"]]), np.array(data["targets"][str(case["k"])])


def assert_is_stored(case, objective, gradient):
    """Equal up to rounding, the gradient by its largest entry."""
    assert objective == pytest.approx(case["objective"], rel=1e-12)
    expected = np.array(case["gradient"])
    np.testing.assert_allclose(gradient, expected, rtol=0.0, atol=1e-12 * np.abs(expected).max())


each_function = pytest.mark.parametrize("function", [plain, fast])
each_case = pytest.mark.parametrize("case", STORED["cases"], ids=name_of)


@pytest.mark.nojit
@each_function
@each_case
def test_matches_metric_learn(case, function):
    X, y, L, neighbours = parts(case)
    r = case["regularization"]
    value, dZ = function(X @ L.T, y, neighbours, (1.0 - r) / r, 1.0)
    weight = len(X) * r
    assert_is_stored(case, weight * value, weight * dZ.T @ X)


@pytest.mark.nojit
@each_function
@each_case
def test_matches_metric_learn_at_another_margin(case, function):
    # its margin is always 1: distances and margin times 4 are a map times 2, which is exact
    X, y, L, neighbours = parts(case)
    r = case["regularization"]
    value, dZ = function(2.0 * X @ L.T, y, neighbours, (1.0 - r) / r, 4.0)
    weight = len(X) * r
    assert_is_stored(case, weight * value / 4.0, weight * dZ.T @ X / 2.0)


def test_stored_cases_are_telling():
    cases = STORED["cases"]
    assert {case["regularization"] for case in cases} == {0.3, 0.7}
    assert {case["k"] for case in cases} == {1, 3}
    assert any(case["at_zero"] for case in cases)  # hinges of 0, which must add no gradient
    assert any(case["active"] == 0 for case in cases)
    moved = [np.argmax(_to_targets(case), axis=1) for case in cases if case["k"] > 1]
    # the farthest target in X need not be the farthest under the map, which limits the impostors
    assert any((farthest < 2).any() for farthest in moved)


def _to_targets(case):
    X, _, L, neighbours = parts(case)
    Z = X @ L.T
    return ((Z[:, None, :] - Z[neighbours]) ** 2).sum(axis=2)
