"""LMNN among others: precision, threads, pickles, searches, warm starts, callbacks, interrupts."""

from __future__ import annotations

import numpy as np
import pytest
from common.hooks import hooked
from sklearn.datasets import load_digits, load_wine

from vicinal import LMNN
from vicinal.fit.report import HAS_CALLBACKS

needs_callbacks = pytest.mark.skipif(not HAS_CALLBACKS, reason="needs scikit-learn >= 1.9")
unfinished = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def wine():
    return load_wine(return_X_y=True)


@pytest.fixture(scope="module")
def rows(wine):
    """A third of wine: 60 rows of three classes."""
    X, y = wine
    return X[::3], y[::3]


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:300], y[:300]


@pytest.fixture(scope="module")
def fitted(rows):
    return LMNN(2, random_state=0).fit(*rows)


# Company


@unfinished
def test_travels_in_float32_and_arrives_in_float64(rows, monkeypatch):
    X, y = rows
    straight = LMNN(2, tol=1e-5, random_state=0).fit(X, y)
    monkeypatch.setattr("vicinal.fit.plan.SINGLE_FROM", 50)
    seen = []

    watched = hooked(LMNN, lambda Z, kwargs: seen.append(Z.dtype))
    model = watched(2, tol=1e-5, random_state=0).fit(X, y)
    assert np.float32 in seen
    assert seen[-1] == np.float64
    assert model.loss_ == pytest.approx(straight.loss_, rel=0.01)


def test_order_of_rows(rows, rng):
    X, y = rows
    order = rng.permutation(60)
    settings = {"n_components": 3, "init": "pca", "tol": 1e-7, "max_iter": 2000}
    model, other = LMNN(**settings).fit(X, y), LMNN(**settings).fit(X[order], y[order])
    assert other.loss_ == pytest.approx(model.loss_, rel=1e-3)
    M, N = model.get_mahalanobis_matrix(), other.get_mahalanobis_matrix()
    np.testing.assert_allclose(N, M, atol=0.03 * np.abs(M).max())


@unfinished
def test_warm_start_on_other_data_begins_at_the_last_map(rows):
    X, y = rows
    model = LMNN(2, warm_start=True, max_iter=30, random_state=0).fit(X, y)
    cold = LMNN(2, max_iter=30, random_state=0).fit(X[::2], y[::2])
    before = model.loss_
    model.set_params(max_iter=1).fit(X[::2], y[::2])
    assert model.history_["loss"][0] < max(2 * before, cold.history_["loss"][0])


@unfinished
def test_early_stopping_restores_the_best_and_refers_to_all_rows(digits):
    X, y = digits
    model = LMNN(5, early_stopping=True, validation_fraction=0.3, n_iter_no_change=3,
                 max_iter=100, random_state=0).fit(X, y)  # fmt: skip
    scores = model.history_["validation_score"]
    assert np.isfinite(scores).all()
    assert len(model._model.Z) == 300  # all rows classify
    best = int(np.argmax(scores))
    stopped = LMNN(5, early_stopping=True, validation_fraction=0.3, n_iter_no_change=3,
                   max_iter=max(best, 1), random_state=0).fit(X, y)  # fmt: skip
    np.testing.assert_array_equal(stopped.components_, model.components_)
    assert len(scores) == model.n_iter_ + 1
    assert model.n_iter_ < 100


# What is said and asked during a fit


def test_verbose_tells_the_cost_and_each_iteration(rows, capsys):
    model = LMNN(2, verbose=1, random_state=0).fit(*rows)
    lines = capsys.readouterr().out.splitlines()
    assert "MiB beyond the input" in lines[0]
    assert "share of right votes of k neighbours: standard" in lines[1]
    assert len(lines) == 3 + len(model.history_["loss"])
    assert all(line.startswith("[LMNN]") for line in lines)
    assert f"{model.history_['loss'][1]:.8f}" in lines[4]


def test_cost_is_known_before_the_fit(rows):
    X, _ = rows
    cost = LMNN(2).estimate_cost(X)
    assert cost.memory_bytes > 0
    assert cost.seconds_per_evaluation < 0.1
    large = LMNN(30, sampling="full").estimate_cost(np.broadcast_to(np.float32(0), (60_000, 784)))
    assert 64e6 < large.memory_bytes < 1e9
    assert 0.1 < large.seconds_per_evaluation < 30
