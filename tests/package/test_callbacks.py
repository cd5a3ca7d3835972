"""Callbacks: the reporter of the fit loop, and what `vicinal.callbacks` does with it."""

from __future__ import annotations

import io
import pickle
import re
import subprocess
import sys
import textwrap
import time
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from vicinal.callbacks import Checkpoint, Progress, StopAfter
from vicinal.fit import report as support
from vicinal.fit.report import IterationReporter

needs_callbacks = pytest.mark.skipif(not support.HAS_CALLBACKS, reason="needs scikit-learn >= 1.9")


class Creeping(support.CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    """Centroids that go half of the way to the class means in each iteration."""

    def __init__(self, max_iter=8, expected=8, pause=0.0):
        self.max_iter = max_iter
        self.expected = expected
        self.pause = pause

    @support.with_callbacks
    def fit(self, X, y):
        X = np.asarray(X)
        self.n_reconstructed_ = 0
        self.classes_ = np.unique(y)
        means = np.array([X[y == label].mean(axis=0) for label in self.classes_])
        info = SimpleNamespace(history={"iteration": [], "loss": [], "validation_score": []})
        info.centroids = np.zeros_like(means)

        def attributes(info):
            self.n_reconstructed_ += 1
            return {"centroids_": info.centroids, "n_iter_": len(info.history["loss"])}

        report = IterationReporter(
            self, X, y, max_iter=self.expected, reconstruction_attributes=attributes
        )
        for iteration in range(1, self.max_iter + 1):
            time.sleep(self.pause)
            info.centroids = (info.centroids + means) / 2
            info.history["iteration"].append(iteration)
            info.history["loss"].append(0.5**iteration)
            info.history["validation_score"].append(-(0.75**iteration))
            if report(info):
                break
        self.centroids_, self.n_iter_, self.stopped_ = info.centroids, iteration, report.stopped
        self.history_ = info.history
        report.close()
        return self

    def predict(self, X):
        distances = ((np.asarray(X)[:, None] - self.centroids_) ** 2).sum(axis=2)
        return self.classes_[distances.argmin(axis=1)]


class Recorder:
    """Notes every hook; stops or fails when told to."""

    def __init__(self, stop_at=None, fail_at=None):
        self.stop_at, self.fail_at = stop_at, fail_at
        self.hooks, self.estimators = [], []

    def _note(self, hook, context):
        self.hooks.append((hook, context.task_name))
        if hook == self.fail_at:
            raise RuntimeError(f"failed at {hook}")

    def setup(self, estimator, context):
        self._note("setup", context)

    def teardown(self, estimator, context):
        self._note("teardown", context)

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None):
        assert len(X) == len(y)
        self._note("begin", context)

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self._note("end", context)
        self.estimators.append(fitted_estimator)
        return context.parent is not None and context.task_id + 1 == self.stop_at


@pytest.fixture
def data():
    rng = np.random.RandomState(0)
    y = np.repeat(["near", "far"], 15)
    return rng.normal(size=(30, 2)) + np.where(y == "far", 6.0, 0.0)[:, None], y


@pytest.fixture
def rich_console():
    return pytest.importorskip("rich.console").Console


@needs_callbacks
def test_every_iteration_calls_both_hooks(data):
    callback = Recorder()
    Creeping().set_callbacks(callback).fit(*data)
    assert callback.hooks == [
        ("setup", "fit"),
        ("begin", "fit"),
        *[("begin", "iteration"), ("end", "iteration")] * 8,
        ("end", "fit"),
        ("teardown", "fit"),
    ]


@needs_callbacks
@pytest.mark.parametrize("expected", [0, 3, 100, None])
def test_iterations_may_exceed_or_fall_short_of_the_limit(data, expected):
    callback = Recorder()
    Creeping(expected=expected).set_callbacks(callback).fit(*data)
    assert callback.hooks.count(("end", "iteration")) == 8


@needs_callbacks
def test_a_request_to_stop_is_honoured(data):
    callback = Recorder(stop_at=3)
    estimator = Creeping().set_callbacks(callback, Recorder()).fit(*data)
    assert (estimator.n_iter_, estimator.stopped_) == (3, True)
    assert callback.hooks[-2:] == [("end", "fit"), ("teardown", "fit")]


@needs_callbacks
def test_fitted_estimator_is_as_if_stopped_now(data):
    X, y = data
    callback = Recorder()
    Creeping().set_callbacks(callback).fit(X, y)
    for i, fitted in enumerate(callback.estimators[:-1], start=1):
        alone = Creeping(max_iter=i).fit(X, y)
        np.testing.assert_array_equal(fitted.centroids_, alone.centroids_)
        # the live lists have grown on since
        assert fitted.history_ == alone.history_
    assert callback.estimators[-1].n_iter_ == 8


@needs_callbacks
@pytest.mark.parametrize("hook", ["setup", "begin", "end", "teardown"])
def test_an_error_in_a_callback_tears_down(data, hook):
    callback = Recorder(fail_at=hook)
    estimator = Creeping().set_callbacks(callback)
    with pytest.raises(RuntimeError, match=f"failed at {hook}"):
        estimator.fit(*data)
    assert callback.hooks.count(("teardown", "fit")) == 1
    assert not [name for name in vars(estimator) if "_ctx" in name or "teardown" in name]


def test_without_callbacks_nothing_is_called(data, monkeypatch):
    def fail(*args, **kwargs):
        raise AssertionError("called without callbacks")

    monkeypatch.setattr(Creeping, "_init_callback_context", fail, raising=False)
    estimator = Creeping(max_iter=1).fit(*data)
    assert estimator.n_reconstructed_ == 0
    report = IterationReporter(estimator, *data, max_iter=1, reconstruction_attributes=fail)
    assert report(None) is False  # not even looked at
    report.close()


@needs_callbacks
def test_clone_pickle_and_refit(data, rich_console):
    callbacks = [Progress(console=rich_console(file=io.StringIO())), StopAfter(seconds=60)]
    estimator = Creeping().set_callbacks(*callbacks)
    assert clone(estimator)._skl_callbacks == callbacks
    estimator.fit(*data)
    again = pickle.loads(pickle.dumps(estimator))
    np.testing.assert_array_equal(again.predict(data[0]), estimator.predict(data[0]))
    assert again.fit(*data).n_iter_ == 8
    assert estimator.set_callbacks().fit(*data).n_iter_ == 8


@needs_callbacks
@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize("expected", [8, 3, None])
def test_progress_bar_of_scikit_learn_reaches_inside(data, n_jobs, expected, capsys):
    pytest.importorskip("rich")
    from sklearn.callback import ProgressBar

    pipeline = make_pipeline(StandardScaler(), Creeping(expected=expected))
    search = GridSearchCV(pipeline, {"creeping__max_iter": [2, 8]}, cv=2, n_jobs=n_jobs)
    search.set_callbacks(ProgressBar(max_propagation_depth=None)).fit(*data)
    assert search.score(*data) > 0.9
    assert "Creeping - fit" in capsys.readouterr().out
    pickle.loads(pickle.dumps(search.best_estimator_))


@needs_callbacks
def test_scoring_monitor_sees_every_iteration(data):
    from sklearn.callback import ScoringMonitor

    monitor = ScoringMonitor(scoring="accuracy")
    Creeping().set_callbacks(monitor).fit(*data)
    assert len(monitor.get_logs().data) == 8 + 1


def terminal(rich_console):
    options = {"force_terminal": True, "force_interactive": True, "color_system": None}
    return rich_console(file=io.StringIO(), width=140, legacy_windows=False, **options)


def fit_with_progress(console, data, **parameters):
    pipeline = Pipeline([("creep", Creeping(**parameters))])
    pipeline["creep"].set_callbacks(Progress(console=console, interval=0))
    pipeline.fit(*data)
    return console.file.getvalue()


@needs_callbacks
def test_progress_prints_plain_lines_when_not_a_terminal(data, rich_console):
    lines = fit_with_progress(rich_console(file=io.StringIO(), width=20), data).splitlines()
    assert len(lines) == 8 + 1
    second = r"Creeping: iteration 2/8  at most \d:\d\d left  loss 0\.25  held-out loss 0\.5625"
    assert re.fullmatch(second, lines[1])
    assert re.search(
        r"8/8  finished in \d:\d\d  loss 0\.00390625  held-out loss 0\.1001", lines[-1]
    )


@needs_callbacks
def test_progress_estimates_the_time_left(data, rich_console):
    out = fit_with_progress(
        rich_console(file=io.StringIO()), data, max_iter=3, expected=1000, pause=0.12
    )
    # 997 iterations of at least 0.12 s
    minutes, seconds = out.splitlines()[2].split("at most ")[1].split(" left")[0].split(":")
    assert 119 <= 60 * int(minutes) + int(seconds) <= 3600  # of a machine that may be busy
    out = fit_with_progress(rich_console(file=io.StringIO()), data, expected=None)
    assert "iteration 8  loss" in out
    assert "left" not in out  # nobody knows


@needs_callbacks
def test_progress_renews_its_line_in_a_terminal(data, rich_console):
    out = fit_with_progress(terminal(rich_console), data)
    assert re.search(r"iteration 1/8  at most 0:\d\d left  loss 0\.5  held-out loss 0\.7500", out)
    assert "\x1b[2K" in out  # the line is erased before it is written again


@needs_callbacks
def test_progress_prints_no_more_often_than_the_interval(data, rich_console):
    console = rich_console(file=io.StringIO())
    Creeping().set_callbacks(Progress(console=console, interval=60)).fit(*data)
    assert len(console.file.getvalue().splitlines()) == 2


@needs_callbacks
@pytest.mark.parametrize("live", [True, False])
def test_fits_in_threads_share_one_display(data, rich_console, live):
    console = terminal(rich_console) if live else rich_console(file=io.StringIO())
    progress = Progress(console=console)
    estimator = Creeping(pause=0.01).set_callbacks(progress)
    joblib.Parallel(n_jobs=3, prefer="threads")(
        joblib.delayed(lambda: clone(estimator).fit(*data))() for _ in range(6)
    )
    assert console.file.getvalue().count("finished in") >= 6
    assert progress._display is None


@needs_callbacks
def test_an_error_closes_the_display(data, rich_console):
    progress = Progress(console=terminal(rich_console))
    estimator = Creeping().set_callbacks(progress, Recorder(fail_at="end"))
    with pytest.raises(RuntimeError, match="failed at end"):
        estimator.fit(*data)
    assert progress._display is None
    assert progress.console.file.getvalue().endswith("\x1b[?25h")  # the cursor is back


def test_progress_without_rich_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich", None)
    with pytest.raises(ImportError, match="pip install rich"):
        Progress()


@needs_callbacks
def test_stop_after_a_loss(data):
    assert Creeping().set_callbacks(StopAfter(loss=0.125)).fit(*data).n_iter_ == 3


@needs_callbacks
def test_stop_after_seconds(data):
    callback = StopAfter(seconds=0.05, loss=0.0)
    estimator = Creeping(max_iter=1000, expected=1000, pause=0.02).set_callbacks(callback)
    assert 1 <= estimator.fit(*data).n_iter_ <= 3
    assert not callback._began


def test_stop_after_needs_a_limit():
    with pytest.raises(ValueError, match="StopAfter needs 'seconds' or 'loss'"):
        StopAfter()
    with pytest.raises(ValueError, match=r"'seconds' parameter .* Got -1 instead"):
        StopAfter(seconds=-1)


@needs_callbacks
def test_checkpoint_costs_nothing_when_it_is_not_due(data, tmp_path):
    class Unwritten(Checkpoint):
        def setup(self, estimator, context): ...
        def _write(self, saved): ...

    callbacks = [Unwritten(tmp_path / "creeping.vic", every=4), StopAfter(loss=0.0)]
    assert Creeping().set_callbacks(*callbacks).fit(*data).n_reconstructed_ == 2
    assert Creeping().set_callbacks(callbacks[1]).fit(*data).n_reconstructed_ == 0


def test_without_sklearn_callback_all_is_a_no_op():
    script = """
        import importlib, sys
        from types import SimpleNamespace
        import sklearn.base
        import vicinal.fit.report as support
        sys.modules["sklearn.callback"] = None
        support = importlib.reload(support)
        assert not support.HAS_CALLBACKS

        class Estimator(support.CallbackSupportMixin, sklearn.base.BaseEstimator):
            @support.with_callbacks
            def fit(self, X, y=None):
                report = support.IterationReporter(self, X, y, max_iter=1)
                assert report(SimpleNamespace(history={})) is False
                report.close()
                return self

        estimator = Estimator().set_callbacks()
        estimator._skl_callbacks = [object()]  # as from a pickle of a newer version
        assert not hasattr(estimator.fit([[0.0]]), "history_")
        estimator.set_callbacks(object())
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    stderr = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    assert "ImportError: Callbacks of Estimator need scikit-learn >= 1.9. Found" in stderr


def test_callbacks_import_no_optional_package():
    script = "import sys, vicinal.callbacks; assert not {'rich', 'joblib'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)
