"""ITML, MMC, SDML and LSML beside metric-learn's, whose matrices were stored by a script.

`benchmarks/metric_learn_weak.py` says what was read in its code.  Where metric-learn reaches the
optimum of the same problem, the matrices are equal; where it does not, ours has the lower value.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from vicinal import ITML, LSML, MMC, SDML

STORED = json.loads(
    Path(__file__).parents[1].joinpath("data").joinpath("metric_learn_weak.json").read_text()
)
X, PAIRS, Y, QUADRUPLETS, WEIGHTS = (
    np.array(STORED["data"][name]) for name in ("X", "pairs", "y", "quadruplets", "weights")
)


def theirs(name):
    return np.array(STORED["cases"][name]["M"])


def squared(M, at):
    x = X[at[:, 0]] - X[at[:, 1]]
    return np.einsum("ij,jk,ik->i", x, M, x)


@pytest.mark.parametrize("solver", ["lbfgs", "projections"])
@pytest.mark.parametrize("gamma", [0.3, 1.0, 4.0])
def test_itml_is_that_of_metric_learn(gamma, solver):
    told = STORED["cases"][f"itml {gamma}"]
    model = ITML(
        gamma, bounds=told["bounds"], scaling=None, solver=solver, tol=1e-8, max_iter=100_000,
        preprocessor=X,
    ).fit(PAIRS, Y)  # fmt: skip
    M = np.array(told["M"])
    np.testing.assert_allclose(
        model.get_mahalanobis_matrix(), M, rtol=1e-5, atol=1e-6 * np.abs(M).max()
    )


def mmc_value(M):
    """Mean squared distance of similar pairs where dissimilar pairs have a mean distance of one."""
    return np.mean(squared(M, PAIRS[Y > 0])) / np.mean(np.sqrt(squared(M, PAIRS[Y < 0]))) ** 2


def test_mmc_is_better_than_metric_learns():
    model = MMC(preprocessor=X, tol=1e-8).fit(PAIRS, Y)
    ours = mmc_value(model.get_mahalanobis_matrix())
    assert ours == pytest.approx(model.loss_, rel=1e-8)
    for name in ("mmc", "mmc from the covariance"):
        assert ours < mmc_value(theirs(name)) < 1.5 * ours


def test_diagonal_mmc_is_better_than_metric_learns():
    model = MMC(diagonal=True, preprocessor=X, tol=1e-8).fit(PAIRS, Y)
    ours = mmc_value(model.get_mahalanobis_matrix())
    assert ours == pytest.approx(model.loss_, rel=1e-8)
    assert ours < mmc_value(theirs("mmc diagonal")) < 1.5 * ours


@pytest.mark.parametrize("name", ["sdml 0.05", "sdml 0.2"])
def test_sdml_is_that_of_metric_learn(name):
    told = STORED["cases"][name]
    model = SDML(told["balance"], told["sparsity"], scaling=None, preprocessor=X, tol=1e-7)
    M = model.fit(PAIRS, Y).get_mahalanobis_matrix()
    np.testing.assert_allclose(M, theirs(name), rtol=1e-3, atol=1e-3 * np.abs(M).max())


def lsml_value(M, weights):
    d = [np.sqrt(squared(M, at)) for at in (QUADRUPLETS[:, :2], QUADRUPLETS[:, 2:])]
    residuals = np.maximum(d[0] - d[1], 0.0) ** 2
    return np.trace(M) - np.linalg.slogdet(M)[1] + weights @ residuals / weights.sum()


@pytest.mark.parametrize(
    ("name", "weights"), [("lsml", np.ones(len(WEIGHTS))), ("lsml weights", WEIGHTS)]
)
def test_lsml_is_better_than_metric_learns(name, weights):
    model = LSML(scaling=None, tol=1e-6, preprocessor=X).fit(QUADRUPLETS, weights)
    ours = lsml_value(model.get_mahalanobis_matrix(), weights)
    assert ours == pytest.approx(model.loss_ + 4, rel=1e-8)
    at_prior = lsml_value(np.eye(4), weights)
    peer = lsml_value(theirs(name), weights)
    assert ours < peer < at_prior
