"""MLKR beside metric-learn's, whose numbers `benchmarks/metric_learn_mlkr.py` has stored.

metric-learn adds over the rows where we take the mean: its cost is n times ours.
"""

from __future__ import annotations

import json
from pathlib import Path

import formulas
import numpy as np
import pytest

from vicinal.engines import choose
from vicinal.objectives import mlkr

STORED = json.loads(
    Path(__file__).parents[1].joinpath("data").joinpath("metric_learn_mlkr.json").read_text()
)


def compiled(Z, y):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choose, "DENSE_UP_TO", 0)
        return mlkr(Z, y)


def name_of(case):
    return f"{case['data']}-{case['map']}-{case['scale']}"


@pytest.mark.parametrize("function", [formulas.mlkr, mlkr, compiled])
@pytest.mark.parametrize("case", STORED["cases"], ids=name_of)
def test_matches_metric_learn(case, function):
    data = STORED["data"][case["data"]]
    X, y = np.array(data["X"]), np.array(data["y"])
    A = case["scale"] * np.array(data["maps"][case["map"]])
    value, dZ = function(X @ A.T, y)
    assert len(X) * value == pytest.approx(case["cost"], rel=1e-12)
    expected = np.array(case["gradient"])
    # the stored gradient has lost digits where y is far from zero
    near = 1e-11 * max(np.abs(expected).max(), case["cost"])
    np.testing.assert_allclose(len(X) * dZ.T @ X, expected, rtol=0.0, atol=near)


def test_stored_cases_are_telling():
    costs = {}
    for case in STORED["cases"]:
        costs.setdefault(case["data"], set()).add(round(case["cost"], 6))
    assert all(len(found) == 6 for found in costs.values())  # no two maps agree
