"""LMNN among others: precision, threads, pickles, searches, warm starts, callbacks, interrupts."""

from __future__ import annotations

import io
import pickle
import warnings
from time import perf_counter

import numpy as np
import pytest
import scipy.sparse as sp
from hooks import hooked
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from vicinal import LMNN
from vicinal._callback_support import HAS_CALLBACKS
from vicinal.callbacks import Checkpoint, Progress, StopAfter

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


def test_float32_and_sparse(rows):
    X, y = rows
    settings = {"n_components": 2, "random_state": 0, "alpha": 0.01}
    double = LMNN(**settings).fit(X, y)
    single = LMNN(**settings).fit(X.astype(np.float32), y)
    assert single.components_.dtype == single.transform(X.astype(np.float32)).dtype == np.float32
    assert single.objective_ == pytest.approx(double.objective_, rel=1e-2)
    sparse = LMNN(**settings).fit(sp.csr_array(X), y)
    assert sparse.objective_ == pytest.approx(double.objective_, rel=1e-6)
    np.testing.assert_allclose(sparse.transform(sp.csr_array(X)), sparse.transform(X), atol=1e-9)


@unfinished
def test_travels_in_float32_and_arrives_in_float64(rows, monkeypatch):
    X, y = rows
    straight = LMNN(2, tol=1e-5, random_state=0).fit(X, y)
    monkeypatch.setattr("vicinal.estimators._learn.SINGLE_FROM", 50)
    monkeypatch.setattr("vicinal.estimators._margins.SINGLE_FROM", 50)
    seen = []

    watched = hooked(LMNN, lambda Z, kwargs: seen.append(Z.dtype))
    model = watched(2, tol=1e-5, random_state=0).fit(X, y)
    assert np.float32 in seen
    assert seen[-1] == np.float64
    assert model.objective_ == pytest.approx(straight.objective_, rel=0.01)


@unfinished
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "settings", [{}, {"early_stopping": True}, {"refresh_targets": 3}, {"mapping": "diagonal"}]
)
def test_thread_count_agnosticism(digits, settings, dtype):
    X, y = digits
    answers = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            model = LMNN(max_iter=8, random_state=0, **settings).fit(X.astype(dtype), y)
        answers.append((model.components_, model.history_["loss"], model.predict_proba(X)))
    for one, two in zip(*answers, strict=True):
        np.testing.assert_array_equal(one, two)


def test_order_of_rows(rows, rng):
    X, y = rows
    order = rng.permutation(60)
    settings = {"n_components": 3, "init": "pca", "tol": 1e-7, "max_iter": 2000}
    model, other = LMNN(**settings).fit(X, y), LMNN(**settings).fit(X[order], y[order])
    assert other.objective_ == pytest.approx(model.objective_, rel=1e-3)
    M, N = model.get_mahalanobis_matrix(), other.get_mahalanobis_matrix()
    np.testing.assert_allclose(N, M, atol=0.03 * np.abs(M).max())


@unfinished
@pytest.mark.parametrize(
    "settings",
    [{}, {"solver": "bold_driver"}, {"solver": "adam"}, {"early_stopping": True},
     {"refresh_targets": 4}, {"refresh_targets": 2, "early_stopping": True}],
    ids=repr,
)  # fmt: skip
def test_two_fits_end_in_the_bits_of_one(rows, settings):
    settings = {"n_components": 2, "warm_start": True, "random_state": 0, "tol": 0.0, **settings}
    whole = LMNN(max_iter=8, **settings).fit(*rows)
    half = LMNN(max_iter=4, **settings).fit(*rows)
    half = pickle.loads(pickle.dumps(half)).fit(*rows)
    np.testing.assert_array_equal(half.components_, whole.components_)
    assert half.history_["loss"] == whole.history_["loss"]
    np.testing.assert_array_equal(half.predict_proba(rows[0]), whole.predict_proba(rows[0]))


@unfinished
def test_warm_start_on_other_data_begins_at_the_last_map(rows):
    X, y = rows
    model = LMNN(2, warm_start=True, max_iter=30, random_state=0).fit(X, y)
    cold = LMNN(2, max_iter=30, random_state=0).fit(X[::2], y[::2])
    before = model.objective_
    model.set_params(max_iter=1).fit(X[::2], y[::2])
    assert model.history_["loss"][0] < max(2 * before, cold.history_["loss"][0])


@unfinished
@pytest.mark.filterwarnings("ignore:The within-class scatter matrix is singular")
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


@unfinished
@pytest.mark.filterwarnings("ignore:The within-class scatter matrix is singular")
def test_pickles_predict_the_same_and_hold_no_training_rows(digits):
    X, y = digits
    X = np.tile(X, 4)
    model = LMNN(2, max_iter=5, warm_start=True, random_state=0).fit(X, y)
    data = pickle.dumps(model)
    again = pickle.loads(data)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert len(data) < X.nbytes / 4
    np.testing.assert_array_equal(again.fit(X, y).components_, model.fit(X, y).components_)


def test_clones_are_unfitted_and_equal(fitted):
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    assert not hasattr(copy, "components_")
    assert not hasattr(copy, "k_")


def test_search_in_a_pipeline(rows):
    pipeline = make_pipeline(StandardScaler(), LMNN(2, random_state=0, tol=1e-2))
    search = GridSearchCV(pipeline, {"lmnn__mu": [1e-3, 1.0], "lmnn__k": [1, 3]}, cv=3).fit(*rows)
    assert search.best_score_ > 0.85
    assert search.predict_proba(rows[0]).shape == (60, 3)


# What is said and asked during a fit


def test_verbose_tells_the_cost_and_each_iteration(rows, capsys):
    model = LMNN(2, verbose=1, random_state=0).fit(*rows)
    lines = capsys.readouterr().out.splitlines()
    assert "MiB beyond the input" in lines[0]
    assert "votes of k neighbours that are right: standard" in lines[1]
    assert len(lines) == 2 + len(model.history_["loss"])
    assert all(line.startswith("[LMNN]") for line in lines)
    assert f"{model.history_['loss'][1]:.8f}" in lines[3]


def test_cost_is_known_before_the_fit(rows):
    X, _ = rows
    cost = LMNN(2).estimate_cost(X)
    assert cost.memory_bytes > 0
    assert cost.seconds_per_evaluation < 0.1
    large = LMNN(30).estimate_cost(np.broadcast_to(np.float32(0), (60_000, 784)))
    assert 64e6 < large.memory_bytes < 1e9
    assert 0.1 < large.seconds_per_evaluation < 30


def test_a_time_budget_is_kept(digits):
    X, y = digits
    LMNN(5, max_iter=1, tol=1e9).fit(X, y)  # compiled
    began = perf_counter()
    with pytest.warns(ConvergenceWarning, match=r"0\.3 seconds of 'time_budget' were used up"):
        model = LMNN(60, time_budget=0.3, max_iter=10**6, tol=0.0, random_state=0).fit(X, y)
    assert perf_counter() - began < 5
    assert model.history_["loss"][-1] <= model.history_["loss"][0]


def test_unfinished_fits_say_so_at_the_line_of_the_user(rows):
    with pytest.warns(ConvergenceWarning, match="LMNN did not converge: the 2 iter") as told:
        LMNN(2, max_iter=2, random_state=0).fit(*rows)
    assert [warning.filename for warning in told] == [__file__]


@pytest.mark.parametrize("settings", [{}, {"refresh_targets": 2}, {"solver": "bold_driver"}])
@pytest.mark.parametrize("call", [2, 7, 13])
def test_an_interrupt_keeps_the_best_map(rows, interrupted_nca, settings, call):
    model = interrupted_nca(call, LMNN)(2, tol=0.0, random_state=0, warm_start=True, **settings)
    with pytest.warns(ConvergenceWarning, match="it was interrupted"):
        model.fit(*rows)
    assert np.isfinite(model.components_).all()
    assert model.objective_ <= model.history_["loss"][0]
    # less, where targets had just been chosen anew
    assert model.objective_ <= min(model.history_["loss"]) * (1 + 1e-9)
    if not settings.get("refresh_targets"):
        assert model.objective_ == pytest.approx(min(model.history_["loss"]), rel=1e-9)
    before = model.objective_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.set_params(max_iter=10).fit(*rows)  # goes on
    assert model.objective_ < before
    assert model.history_["iteration"] == list(range(len(model.history_["loss"])))


@needs_callbacks
def test_callbacks_watch_stop_and_save(rows, tmp_path):
    X, y = rows
    console = pytest.importorskip("rich.console").Console(file=io.StringIO(), width=100)
    path = tmp_path / "lmnn.joblib"
    model = LMNN(2, k=3, early_stopping=True, n_neighbors="auto", random_state=0)
    model.set_callbacks(Progress(console, interval=0), Checkpoint(path, every=3), StopAfter(600))
    model.fit(X, y)
    shown = console.file.getvalue()
    assert f"loss {model.history_['loss'][-1]:.6g}" in shown
    assert "held-out score" in shown
    saved = Checkpoint.load(path)
    np.testing.assert_array_equal(saved.predict_proba(X), model.predict_proba(X))
    assert saved.k_ == model.k_ == 3


@needs_callbacks
@pytest.mark.parametrize("settings", [{}, {"refresh_targets": 3}])
def test_a_checkpoint_goes_on_to_the_same_bits(rows, tmp_path, settings):
    X, y = rows
    path = tmp_path / "lmnn.joblib"
    model = LMNN(2, random_state=0, max_iter=9, tol=0, warm_start=True, **settings)
    with pytest.warns(ConvergenceWarning):
        whole = clone(model).fit(X, y)

    class PowerCut:
        def setup(self, estimator, context): ...
        def teardown(self, estimator, context): ...
        def on_fit_task_begin(self, estimator, context): ...

        def on_fit_task_end(self, estimator, context):
            if context.parent is not None and context.task_id >= 4:
                raise RuntimeError("a power cut")

    model.set_callbacks(Checkpoint(path, every=3), PowerCut())
    with pytest.raises(RuntimeError, match="a power cut"):
        model.fit(X, y)
    saved = Checkpoint.load(path)
    assert saved.n_iter_ == 3
    with pytest.warns(ConvergenceWarning):
        saved.set_params(max_iter=6).fit(X, y)
    np.testing.assert_array_equal(saved.components_, whole.components_)
    assert saved.history_["loss"] == whole.history_["loss"]


@needs_callbacks
def test_a_callback_stops_and_the_best_map_stays(rows):
    model = LMNN(2, k=3, solver="adam", random_state=0).set_callbacks(StopAfter(loss=20.0))
    with pytest.warns(ConvergenceWarning, match="a callback stopped it"):
        model.fit(*rows)
    assert model.objective_ == pytest.approx(min(model.history_["loss"]), rel=1e-9)
    assert model.k_ == 3
