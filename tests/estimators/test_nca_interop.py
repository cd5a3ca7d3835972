"""NCA among others: tables, pipelines, searches, pickles, threads, callbacks, interrupts."""

from __future__ import annotations

import threading

import formulas
import numpy as np
import pytest
import sklearn
from common.hooks import hooked
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_info

from vicinal import NCA, starts
from vicinal.callbacks import Checkpoint
from vicinal.fit.report import HAS_CALLBACKS

needs_callbacks = pytest.mark.skipif(not HAS_CALLBACKS, reason="needs scikit-learn >= 1.9")
unfinished = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def wine():
    return load_wine(return_X_y=True)


# Tables


# Precision


@pytest.mark.parametrize("solver", ["lbfgs", "adam"])
def test_travels_in_float32_and_arrives_in_float64(wine, solver, monkeypatch):
    X, y = wine
    seen = []
    settings = {"n_components": 2, "solver": solver, "tol": 1e-6, "max_iter": 1000}
    straight = NCA(alpha=3e-3, **settings).fit(X, y)
    monkeypatch.setattr("vicinal.fit.plan.SINGLE_FROM", 100)

    watched = hooked(NCA, lambda Z, kwargs: seen.append(Z.dtype))
    model = watched(alpha=3e-3, **settings).fit(X, y)
    learnt = seen[7:]  # after those that chose the scale of the start
    assert learnt[0] == np.float32
    assert learnt[-1] == np.float64
    assert learnt == sorted(learnt, key=lambda dtype: dtype.itemsize)  # one change, for good
    assert model.loss_ == pytest.approx(straight.loss_, abs=1e-5)
    value, _ = formulas.nca(model.transform(X - X.mean(axis=0)), y, "log")
    penalty = model.alpha * np.sum((model.components_ * X.std(axis=0)) ** 2)
    assert model.loss_ == pytest.approx(value + penalty, rel=1e-9)
    assert {len(column) for column in model.history_.values()} == {model.n_iter_ + 1}


def test_a_fit_cut_off_on_the_way_is_not_called_converged(wine, monkeypatch):
    monkeypatch.setattr("vicinal.fit.plan.SINGLE_FROM", 100)
    whole = NCA(2, tol=1e-7, alpha=3e-3).fit(*wine)
    for max_iter in range(1, whole.n_iter_):
        with pytest.warns(ConvergenceWarning, match="increase 'max_iter'"):
            NCA(2, tol=1e-7, max_iter=max_iter, alpha=3e-3).fit(*wine)


# Copies


def test_clones_are_unfitted_and_equal():
    array = np.eye(3)
    model = NCA(3, init=array, priors=[0.2, 0.8], solver="cg", random_state=3, alpha=0.5)
    copy = clone(model)
    assert copy.get_params().keys() == model.get_params().keys()
    assert copy.alpha == 0.5
    assert not hasattr(copy, "components_")
    assert not hasattr(copy, "n_neighbors_")


# Company


def test_fits_in_two_threads_agree_with_serial_ones():
    X, y = load_digits(return_X_y=True)
    before = [pool["num_threads"] for pool in threadpool_info()]
    ranks = (2, 3, 4)
    serial = [NCA(d, tol=1e-2, random_state=0, alpha=3e-3).fit(X, y).components_ for d in ranks]
    models = [NCA(d, tol=1e-2, random_state=0, alpha=3e-3) for d in ranks]
    threads = [threading.Thread(target=model.fit, args=(X, y)) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for model, expected in zip(models, serial, strict=True):
        np.testing.assert_array_equal(model.components_, expected)
    assert [pool["num_threads"] for pool in threadpool_info()] == before


@unfinished
@pytest.mark.parametrize("rule", ["posterior", "knn"])
@pytest.mark.parametrize("mapping", ["linear", "diagonal"])
def test_little_working_memory_gives_the_same_answers(rule, mapping, monkeypatch):
    # the last digits of float32 on the way depend on whether the columns are scaled in a copy
    monkeypatch.setattr("vicinal.fit.plan.SINGLE_FROM", 10**9)
    X, y = load_digits(return_X_y=True)
    X = np.tile(X, (1, 3))[:, ::2]  # 1.4 MB: too large for a copy under 1 MiB
    settings = {"rule": rule, "mapping": mapping, "max_iter": 4, "random_state": 0}
    plenty = NCA(alpha=3e-3, **settings).fit(X, y)
    with sklearn.config_context(working_memory=1):
        little = NCA(alpha=3e-3, **settings).fit(X, y)
        P = little.predict_proba(X)
    np.testing.assert_allclose(little.components_, plenty.components_, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(P, plenty.predict_proba(X), atol=1e-5)


# What is said and asked during a fit


def test_cost_is_known_before_the_fit(wine):
    X, _ = wine
    cost = NCA(2, alpha=3e-3).estimate_cost(X)
    assert 0 < cost.memory_bytes < 10e6
    assert cost.seconds_per_evaluation < 0.1
    assert NCA(2, alpha=3e-3).estimate_cost(X.tolist()) == cost
    X_large = np.broadcast_to(np.float32(0), (60_000, 784))
    large = NCA(2, sampling="full", alpha=3e-3).estimate_cost(X_large)
    assert 1e6 < large.memory_bytes < 100e6
    assert 0.1 < large.seconds_per_evaluation < 10
    assert "MiB beyond the input" in str(large)
    assert NCA(2, alpha=3e-3).estimate_cost(X_large).seconds_per_evaluation < 0.1  # of a batch
    wider = NCA(30, sampling="full", alpha=3e-3).estimate_cost(X_large)
    assert wider.memory_bytes > large.memory_bytes


class Interrupting:
    """A callback that raises, or asks to stop, after some iterations."""

    def __init__(self, after, raises=None):
        self.after, self.raises = after, raises

    def setup(self, estimator, context): ...
    def teardown(self, estimator, context): ...
    def on_fit_task_begin(self, estimator, context): ...

    def on_fit_task_end(self, estimator, context):
        if context.parent is None or context.task_id < self.after:
            return False
        if self.raises is not None:
            raise self.raises
        return True


@needs_callbacks
def test_a_checkpoint_is_a_fitted_estimator(wine, tmp_path):
    X, y = wine
    path = tmp_path / "nca.joblib"
    model = NCA(2, random_state=0, max_iter=50, rule="knn", n_neighbors="auto", alpha=3e-3)
    model.set_callbacks(Checkpoint(path, every=4), Interrupting(5, RuntimeError("a power cut")))
    with pytest.raises(RuntimeError, match="a power cut"):
        model.fit(X, y)
    saved = Checkpoint.load(path)
    assert saved.n_iter_ == 4
    with pytest.warns(ConvergenceWarning):
        stopped = NCA(
            2, random_state=0, max_iter=4, rule="knn", n_neighbors="auto", alpha=3e-3
        ).fit(X, y)
    np.testing.assert_array_equal(saved.components_, stopped.components_)
    np.testing.assert_array_equal(saved.predict_proba(X), stopped.predict_proba(X))
    assert saved.n_neighbors_ == stopped.n_neighbors_
    assert saved.loss_ == stopped.loss_


@needs_callbacks
def test_scikit_learns_progress_bar_runs(wine, capsys):
    pytest.importorskip("rich")
    from sklearn.callback import ProgressBar

    NCA(2, init=starts.Random(2), random_state=0, alpha=3e-3).set_callbacks(ProgressBar()).fit(
        *wine
    )
    assert "NCA" in capsys.readouterr().out


@pytest.mark.parametrize("settings", [{}, {"init": starts.Random(3)}])
@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("call", [9, 14, 40])
def test_an_interrupt_keeps_the_best_map(
    wine, interrupted_nca, settings, single, call, monkeypatch
):
    if single:
        monkeypatch.setattr("vicinal.fit.plan.SINGLE_FROM", 100)
    X, y = wine
    model = interrupted_nca(call)(2, alpha=3e-3, tol=0.0, random_state=0, **settings)
    with pytest.warns(ConvergenceWarning, match="it was interrupted"):
        model.fit(X, y)
    assert np.isfinite(model.components_).all()
    assert model.loss_ == pytest.approx(min(model.history_["loss"]), rel=1e-5)
    assert model.score(X, y) > 0.5
