"""What Chi2LMNN says, and is asked, during a fit: lines, budgets, interrupts, callbacks."""

from __future__ import annotations

import io
import warnings
from time import perf_counter

import numpy as np
import pytest
from chi2_common import assert_on_simplex, counts, each_constraint
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from vicinal import Chi2LMNN
from vicinal._callback_support import HAS_CALLBACKS
from vicinal.callbacks import Checkpoint, Progress, StopAfter

needs_callbacks = pytest.mark.skipif(not HAS_CALLBACKS, reason="needs scikit-learn >= 1.9")


@pytest.fixture
def rows(rng):
    return counts(rng)


def test_verbose_and_cost(rows, capsys):
    model = Chi2LMNN(3, verbose=1, random_state=0).fit(*rows)
    lines = capsys.readouterr().out.splitlines()
    assert "MiB beyond the input" in lines[0]
    assert len(lines) == 1 + len(model.history_["loss"])
    assert all(line.startswith("[Chi2LMNN]") for line in lines)
    small = Chi2LMNN(3).estimate_cost(rows[0])
    large = Chi2LMNN(20).estimate_cost(np.broadcast_to(np.float32(0), (10_000, 800)))
    assert small.seconds_per_evaluation < 0.1
    assert 10 * small.seconds_per_evaluation < large.seconds_per_evaluation
    assert 1e7 < large.memory_bytes < 1e9


def test_a_time_budget_is_kept(rng):
    X, y = counts(rng, 300, 40)
    Chi2LMNN(20, max_iter=1, tol=1e9).fit(X, y)  # compiled
    began = perf_counter()
    with pytest.warns(ConvergenceWarning, match=r"0\.3 seconds of 'time_budget' were used up"):
        model = Chi2LMNN(20, time_budget=0.3, max_iter=10**6, tol=0.0, random_state=0).fit(X, y)
    assert perf_counter() - began < 5
    assert model.objective_ < model.history_["loss"][0]


def test_unfinished_fits_say_so_at_the_line_of_the_user(rows):
    with pytest.warns(ConvergenceWarning, match="Chi2LMNN did not converge: the 2 iter") as told:
        Chi2LMNN(3, max_iter=2, tol=0.0, random_state=0).fit(*rows)
    assert [warning.filename for warning in told] == [__file__]


@each_constraint
@pytest.mark.parametrize("call", [5, 9])
def test_an_interrupt_keeps_the_best_map(rows, constraint, call, interrupted_nca):
    settings = {"constraint": constraint, "tol": 0.0, "random_state": 0, "warm_start": True}
    model = interrupted_nca(call, Chi2LMNN)(3, **settings)
    with pytest.warns(ConvergenceWarning, match="it was interrupted"):
        model.fit(*rows)
    assert_on_simplex(model.components_)
    before = model.objective_
    assert before == pytest.approx(min(model.history_["loss"]), rel=1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.set_params(max_iter=10).fit(*rows)  # goes on
    assert model.objective_ < before
    assert model.history_["iteration"] == list(range(len(model.history_["loss"])))


@needs_callbacks
def test_callbacks_watch_stop_and_save(rows, tmp_path):
    X, y = rows
    console = pytest.importorskip("rich.console").Console(file=io.StringIO(), width=100)
    path = tmp_path / "chi2.joblib"
    model = Chi2LMNN(3, early_stopping=True, random_state=0)
    model.set_callbacks(Progress(console, interval=0), Checkpoint(path, every=3), StopAfter(600))
    model.fit(X, y)
    assert f"loss {model.history_['loss'][-1]:.6g}" in console.file.getvalue()
    saved = Checkpoint.load(path)
    np.testing.assert_array_equal(saved.predict_proba(X), model.predict_proba(X))
    assert (saved.k_, saved.margin_) == (3, model.margin_)
    with pytest.warns(ConvergenceWarning, match="a callback stopped it"):
        clone(model).set_callbacks(StopAfter(loss=1e6)).fit(X, y)


@needs_callbacks
@each_constraint
def test_a_checkpoint_goes_on_to_the_same_bits(rows, tmp_path, constraint):
    X, y = rows
    path = tmp_path / "chi2.joblib"
    model = Chi2LMNN(
        3, constraint=constraint, random_state=0, max_iter=9, tol=0.0, warm_start=True
    )  # fmt: skip
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
    assert (saved.n_iter_, saved.margin_) == (3, whole.margin_)
    with pytest.warns(ConvergenceWarning):
        saved.set_params(max_iter=6).fit(X, y)
    np.testing.assert_array_equal(saved.components_, whole.components_)
    assert saved.history_["loss"] == whole.history_["loss"]
