"""NCA among others: tables, pipelines, searches, pickles, threads, callbacks, interrupts."""

from __future__ import annotations

import io
import pickle
import threading

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from hooks import hooked
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_info

from vicinal import KNCA, LMNN, NCA, RCA, initialise, reference
from vicinal._callback_support import HAS_CALLBACKS
from vicinal.callbacks import Checkpoint, Progress, StopAfter

needs_callbacks = pytest.mark.skipif(not HAS_CALLBACKS, reason="needs scikit-learn >= 1.9")
unfinished = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def wine():
    return load_wine(return_X_y=True)


# Tables


@pytest.mark.parametrize("estimator", [NCA(2), KNCA(2), LMNN(2), RCA(2)])
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames_in_and_out(wine, library, estimator):
    frames = pytest.importorskip(library)
    X, y = wine
    names = [f"column {i}" for i in range(13)]
    table = frames.DataFrame({name: X[:, i] for i, name in enumerate(names)})
    labels = frames.Series(np.array(["rot", "gelb", "blau"])[y].tolist())
    model = clone(estimator).set_output(transform=library).fit(table, labels)
    assert model.feature_names_in_.tolist() == names
    Z = model.transform(table)
    assert isinstance(Z, frames.DataFrame)
    prefix = type(model).__name__.lower()
    assert list(Z.columns) == model.get_feature_names_out().tolist() == [f"{prefix}0", f"{prefix}1"]
    np.testing.assert_allclose(Z.to_numpy(), X @ model.components_.T, rtol=1e-12)
    with pytest.raises(ValueError, match="feature names"):
        model.transform(table[names[::-1]])
    if not isinstance(model, RCA):
        assert model.classes_.tolist() == ["blau", "gelb", "rot"]
        assert set(model.predict(table)) == {"blau", "gelb", "rot"}
        assert model.score(table, labels.to_numpy()) > 0.95


@pytest.mark.parametrize("labels", [["a", "b", "c"], [True, False, True], [-1, 0, 7], [0.0, 1, 2]])
def test_labels_of_any_sortable_type(wine, labels):
    X, y = wine
    named = np.array(labels)[y]
    model = NCA(2).fit(X, named)
    assert model.classes_.dtype == named.dtype
    np.testing.assert_array_equal(model.classes_, np.unique(named))
    assert model.predict(X).dtype == named.dtype


@pytest.mark.parametrize("layout", [sp.csr_matrix, sp.csr_array, sp.csc_matrix, sp.coo_array])
@pytest.mark.parametrize("mapping", ["linear", "diagonal"])
def test_sparse_equals_dense(layout, mapping):
    X, y = load_digits(return_X_y=True)
    X, y = X[:200], y[:200]
    settings = {"mapping": mapping, "max_iter": 15, "tol": 1e-3, "alpha": 0.01}
    dense, sparse = NCA(**settings).fit(X, y), NCA(**settings).fit(layout(X), y)
    np.testing.assert_allclose(sparse.components_, dense.components_, atol=1e-6)
    np.testing.assert_allclose(sparse.predict_proba(layout(X)), dense.predict_proba(X), atol=1e-6)
    assert isinstance(sparse.transform(layout(X)), np.ndarray)
    np.testing.assert_allclose(sparse.transform(layout(X)), dense.transform(X), atol=1e-5)


# Precision


def test_float32_stays_float32(wine):
    X, y = wine
    single, double = NCA(2).fit(X.astype(np.float32), y), NCA(2).fit(X, y)
    assert single.components_.dtype == single.transform(X.astype(np.float32)).dtype == np.float32
    assert double.transform(X).dtype == np.float64
    assert single.objective_ == pytest.approx(double.objective_, rel=1e-3)
    assert single.predict_proba(X.astype(np.float32)).dtype == np.float64
    np.testing.assert_allclose(single.predict_proba(X), double.predict_proba(X), atol=0.01)


@pytest.mark.parametrize("solver", ["lbfgs", "adam"])
def test_travels_in_float32_and_arrives_in_float64(wine, solver, monkeypatch):
    X, y = wine
    seen = []
    settings = {"n_components": 2, "solver": solver, "tol": 1e-6, "max_iter": 1000}
    straight = NCA(**settings).fit(X, y)
    monkeypatch.setattr("vicinal.estimators._learn.SINGLE_FROM", 100)

    watched = hooked(NCA, lambda Z, kwargs: seen.append(Z.dtype))
    model = watched(**settings).fit(X, y)
    learnt = seen[7:]  # after those that chose the scale of the start
    assert learnt[0] == np.float32
    assert learnt[-1] == np.float64
    assert learnt == sorted(learnt, key=lambda dtype: dtype.itemsize)  # one change, for good
    assert model.objective_ == pytest.approx(straight.objective_, abs=1e-5)
    value, _ = reference.nca(model.transform(X - X.mean(axis=0)), y, "log")
    penalty = model.alpha * np.sum((model.components_ * X.std(axis=0)) ** 2)
    assert model.objective_ == pytest.approx(value + penalty, rel=1e-9)
    assert {len(column) for column in model.history_.values()} == {model.n_iter_ + 1}


def test_a_fit_cut_off_on_the_way_is_not_called_converged(wine, monkeypatch):
    monkeypatch.setattr("vicinal.estimators._learn.SINGLE_FROM", 100)
    whole = NCA(2, tol=1e-7).fit(*wine)
    for max_iter in range(1, whole.n_iter_):
        with pytest.warns(ConvergenceWarning, match="increase 'max_iter'"):
            NCA(2, tol=1e-7, max_iter=max_iter).fit(*wine)


# Copies


@unfinished
@pytest.mark.parametrize("settings", [{}, {"rule": "knn"}, {"warm_start": True, "max_iter": 4}])
def test_pickles_predict_the_same_and_hold_no_training_rows(settings):
    X, y = load_digits(return_X_y=True)
    model = NCA(2, **settings).fit(X, y)
    data = pickle.dumps(model)
    again = pickle.loads(data)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.effective_n_neighbors_, model.effective_n_neighbors_)
    assert len(data) < X.nbytes / 4
    if "warm_start" in settings:
        np.testing.assert_array_equal(again.fit(X, y).components_, model.fit(X, y).components_)


def test_clones_are_unfitted_and_equal():
    array = np.eye(3)
    model = NCA(3, init=array, priors=[0.2, 0.8], solver="cg", random_state=3, alpha=0.5)
    copy = clone(model)
    assert copy.get_params().keys() == model.get_params().keys()
    assert copy.alpha == 0.5
    assert not hasattr(copy, "components_")
    assert not hasattr(copy, "n_neighbors_")
    assert not hasattr(copy, "effective_n_neighbors_")


# Company


def test_search_over_alpha_and_rank_in_a_pipeline(wine):
    pipeline = make_pipeline(StandardScaler(), NCA(random_state=0))
    grid = {"nca__alpha": [1e-3, 1e-1], "nca__n_components": [1, 2]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(*wine)
    assert search.best_score_ > 0.93
    assert len(set(search.cv_results_["mean_test_score"])) > 1
    assert search.predict_proba(wine[0]).shape == (178, 3)


def test_worker_processes_agree_with_this_one(wine):
    scores = [cross_val_score(NCA(2), *wine, cv=4, n_jobs=jobs) for jobs in (1, 2)]
    np.testing.assert_array_equal(*scores)


def test_fits_in_two_threads_agree_with_serial_ones():
    X, y = load_digits(return_X_y=True)
    before = [pool["num_threads"] for pool in threadpool_info()]
    ranks = (2, 3, 4)
    serial = [NCA(d, tol=1e-2, random_state=0).fit(X, y).components_ for d in ranks]
    models = [NCA(d, tol=1e-2, random_state=0) for d in ranks]
    threads = [threading.Thread(target=model.fit, args=(X, y)) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for model, expected in zip(models, serial, strict=True):
        np.testing.assert_array_equal(model.components_, expected)
    assert [pool["num_threads"] for pool in threadpool_info()] == before


@unfinished
@pytest.mark.filterwarnings("ignore:The within-class scatter matrix is singular")
@pytest.mark.parametrize("rule", ["posterior", "knn"])
@pytest.mark.parametrize("mapping", ["linear", "diagonal"])
def test_little_working_memory_gives_the_same_answers(rule, mapping, monkeypatch):
    # the last digits of float32 on the way depend on whether the columns are scaled in a copy
    monkeypatch.setattr("vicinal.estimators._learn.SINGLE_FROM", 10**9)
    X, y = load_digits(return_X_y=True)
    X = np.tile(X, (1, 3))[:, ::2]  # 1.4 MB: too large for a copy under 1 MiB
    settings = {"rule": rule, "mapping": mapping, "max_iter": 4, "random_state": 0}
    plenty = NCA(**settings).fit(X, y)
    with sklearn.config_context(working_memory=1):
        little = NCA(**settings).fit(X, y)
        P = little.predict_proba(X)
    np.testing.assert_allclose(little.components_, plenty.components_, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(P, plenty.predict_proba(X), atol=1e-5)


# What is said and asked during a fit


def test_verbose_tells_the_cost_and_each_iteration(wine, capsys):
    model = NCA(2, verbose=1, early_stopping=True, random_state=0).fit(*wine)
    lines = capsys.readouterr().out.splitlines()
    assert "MiB beyond the input" in lines[0]
    assert len(lines) == 1 + len(model.history_["loss"])
    assert all(line.startswith("[NCA]") for line in lines)
    assert f"{model.history_['loss'][1]:.8f}" in lines[2]
    NCA(2).fit(*wine)
    assert capsys.readouterr().out == ""


def test_cost_is_known_before_the_fit(wine):
    X, _ = wine
    cost = NCA(2).estimate_cost(X)
    assert 0 < cost.memory_bytes < 10e6
    assert cost.seconds_per_evaluation < 0.1
    assert NCA(2).estimate_cost(X.tolist()) == cost
    X_large = np.broadcast_to(np.float32(0), (60_000, 784))
    large = NCA(2, sampling="full").estimate_cost(X_large)
    assert 1e6 < large.memory_bytes < 100e6
    assert 0.1 < large.seconds_per_evaluation < 10
    assert "MiB beyond the input" in str(large)
    assert NCA(2).estimate_cost(X_large).seconds_per_evaluation < 0.1  # of a batch
    assert NCA().estimate_cost(X).memory_bytes > cost.memory_bytes


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
def test_callbacks_watch_stop_and_save(wine, tmp_path):
    X, y = wine
    console = pytest.importorskip("rich.console").Console(file=io.StringIO(), width=100)
    path = tmp_path / "nca.joblib"
    model = NCA(2, early_stopping=True, n_neighbors="auto", random_state=0)
    model.set_callbacks(Progress(console, interval=0), Checkpoint(path, every=3), StopAfter(600))
    model.fit(X, y)
    shown = console.file.getvalue()
    assert f"loss {model.history_['loss'][-1]:.6g}" in shown
    assert "held-out score" in shown
    saved = Checkpoint.load(path)
    np.testing.assert_array_equal(saved.predict_proba(X), model.predict_proba(X))


@needs_callbacks
def test_a_checkpoint_goes_on_to_the_same_bits(wine, tmp_path):
    X, y = wine
    path = tmp_path / "nca.joblib"
    model = NCA(2, random_state=0, max_iter=9, tol=0, warm_start=True)
    with pytest.warns(ConvergenceWarning):
        whole = clone(model).fit(X, y)
    model.set_callbacks(Checkpoint(path, every=4), Interrupting(6, RuntimeError("a power cut")))
    with pytest.raises(RuntimeError, match="a power cut"):
        model.fit(X, y)
    saved = Checkpoint.load(path)
    assert saved.n_iter_ == 4
    with pytest.warns(ConvergenceWarning):
        saved.set_params(max_iter=5).fit(X, y)
    np.testing.assert_array_equal(saved.components_, whole.components_)
    assert saved.history_["loss"] == whole.history_["loss"]


@needs_callbacks
def test_a_checkpoint_is_a_fitted_estimator(wine, tmp_path):
    X, y = wine
    path = tmp_path / "nca.joblib"
    model = NCA(2, random_state=0, max_iter=50, rule="knn", n_neighbors="auto")
    model.set_callbacks(Checkpoint(path, every=4), Interrupting(5, RuntimeError("a power cut")))
    with pytest.raises(RuntimeError, match="a power cut"):
        model.fit(X, y)
    saved = Checkpoint.load(path)
    assert saved.n_iter_ == 4
    with pytest.warns(ConvergenceWarning):
        stopped = NCA(2, random_state=0, max_iter=4, rule="knn", n_neighbors="auto").fit(X, y)
    np.testing.assert_array_equal(saved.components_, stopped.components_)
    np.testing.assert_array_equal(saved.predict_proba(X), stopped.predict_proba(X))
    assert saved.n_neighbors_ == stopped.n_neighbors_
    assert saved.objective_ == stopped.objective_


@needs_callbacks
@pytest.mark.parametrize(
    ("callback", "words"),
    [
        (StopAfter(loss=0.025), "a callback stopped it"),
        (Interrupting(4), "a callback stopped it"),
        (Interrupting(4, KeyboardInterrupt()), "it was interrupted"),
    ],
)
def test_a_stopped_fit_keeps_the_best_map(wine, callback, words):
    X, y = wine
    model = NCA(2, solver="adam", random_state=0).set_callbacks(callback)
    with pytest.warns(ConvergenceWarning, match=words):
        model.fit(X, y)
    assert model.objective_ == pytest.approx(min(model.history_["loss"]), rel=1e-12)
    assert {len(column) for column in model.history_.values()} == {model.n_iter_ + 1}
    assert model.score(X, y) > 0.9


@needs_callbacks
def test_scikit_learns_progress_bar_runs(wine, capsys):
    pytest.importorskip("rich")
    from sklearn.callback import ProgressBar

    NCA(2, init=initialise.Random(2), random_state=0).set_callbacks(ProgressBar()).fit(*wine)
    assert "NCA" in capsys.readouterr().out


@pytest.mark.parametrize("settings", [{}, {"init": initialise.Random(3)}])
@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("call", [9, 14, 40])
def test_an_interrupt_keeps_the_best_map(
    wine, interrupted_nca, settings, single, call, monkeypatch
):
    if single:
        monkeypatch.setattr("vicinal.estimators._learn.SINGLE_FROM", 100)
    X, y = wine
    model = interrupted_nca(call)(2, tol=0.0, random_state=0, **settings)
    with pytest.warns(ConvergenceWarning, match="it was interrupted"):
        model.fit(X, y)
    assert np.isfinite(model.components_).all()
    assert model.objective_ == pytest.approx(min(model.history_["loss"]), rel=1e-5)
    assert model.score(X, y) > 0.5
