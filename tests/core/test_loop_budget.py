"""The loop with a monitor that is asked now and then, and with a budget of seconds."""

import numpy as np
import pytest
from common.loops import START, fun, monitor_peaking_at

from vicinal import _clock
from vicinal.core.stopping import Timed
from vicinal.solvers import LBFGS, Adam, minimize


class Clock:
    """A clock that evaluations and scores move."""

    def __init__(self, monkeypatch):
        self.seconds = 0.0
        monkeypatch.setattr(_clock, "now", lambda: self.seconds)

    def slow(self, function, seconds):
        def slowed(*args):
            self.seconds += seconds
            return function(*args)

        return slowed


def test_monitor_is_asked_now_and_then():
    asked, monitor = [], monitor_peaking_at(800.0)

    def counted(theta):
        asked.append(theta)
        return monitor(theta)

    options = {"monitor": counted, "monitor_every": 3, "n_iter_no_change": 2, "tol": -1.0}
    result = minimize(fun, START, Adam(), max_iter=500, **options)
    scores = np.array(result.history["validation_score"])
    rows = np.flatnonzero(~np.isnan(scores))
    assert rows.tolist() == list(range(0, len(scores), 3))
    assert len(asked) == len(rows)
    best = int(np.nanargmax(scores))
    assert (result.reason, result.n_iter) == ("early_stopping", best + 2 * 3)
    assert monitor(result.theta) == scores[best]


@pytest.mark.parametrize("end", ["max_iter", "callback", "non_finite", "time_budget"])
def test_last_iteration_is_scored(monkeypatch, end):
    count, clock = [0], Clock(monkeypatch)

    def breaking(theta, batch=None):
        count[0] += 1
        clock.seconds += 1.0
        return (np.nan, theta) if end == "non_finite" and count[0] > 8 else fun(theta)

    options = {
        "max_iter": 7 if end == "max_iter" else 100,
        "on_iteration": lambda info: end == "callback" and info.iteration == 7,
        "max_seconds": 10.0 if end == "time_budget" else None,
    }
    monitor = monitor_peaking_at(0.0)  # each step is better than the one before
    result = minimize(breaking, START, Adam(), monitor=monitor, monitor_every=50, **options)
    assert result.reason == end
    scores = np.array(result.history["validation_score"])
    assert np.flatnonzero(~np.isnan(scores)).tolist() == [0, result.n_iter]
    np.testing.assert_array_equal(result.theta, result.state.theta)
    assert scores[-1] == monitor(result.theta)


def test_resume_keeps_the_patience_between_scores():
    options = {"monitor": monitor_peaking_at(800.0), "monitor_every": 4, "n_iter_no_change": 3}
    whole = minimize(fun, START, Adam(), max_iter=500, tol=-1.0, **options)
    assert whole.reason == "early_stopping"
    cut = whole.n_iter - 5  # scored there too, which is no reason to stop earlier
    first = minimize(fun, START, Adam(), max_iter=cut, tol=-1.0, **options)
    options |= {"state": first.state, "history": first.history, "tol": -1.0}
    second = minimize(fun, first.theta, Adam(), max_iter=500, **options)
    assert (second.reason, second.n_iter) == ("early_stopping", 5)
    np.testing.assert_array_equal(second.theta, whole.theta)


@pytest.mark.parametrize("solver", [LBFGS(), Adam()])
def test_time_budget(monkeypatch, solver):
    clock = Clock(monkeypatch)
    slow = clock.slow(fun, 1.0)
    result = minimize(slow, START, solver, max_seconds=15.0, tol=-1.0)
    assert (result.reason, result.converged) == ("time_budget", False)
    assert 0 < result.n_iter < 15
    assert 10.0 < clock.seconds <= 15.0
    # The time is that of one call: taken up, the run has as much again.
    options = {"state": result.state, "history": result.history, "tol": -1.0}
    again = minimize(slow, None, solver, max_seconds=15.0, **options)
    assert (again.reason, again.n_iter > 0) == ("time_budget", True)


def test_no_time_for_a_single_step(monkeypatch):
    slow = Clock(monkeypatch).slow(fun, 1.0)
    result = minimize(slow, START, LBFGS(), max_seconds=1.5)
    assert (result.reason, result.n_iter) == ("time_budget", 0)
    np.testing.assert_array_equal(result.theta, START)
    assert minimize(fun, START, LBFGS(), max_seconds=1000.0).reason == "loss"


@pytest.mark.parametrize("seconds", [1.0, 7.5, 30.2])
def test_no_evaluation_begins_that_would_end_too_late(monkeypatch, seconds):
    clock = Clock(monkeypatch)
    timed = Timed(clock.slow(fun, 1.0), seconds)
    options = {"max_seconds": seconds, "tol": -1.0, "max_iter": 10**4}
    result = minimize(timed, START, LBFGS(c_1=1e-4, c_2=0.01), **options)  # long line searches
    assert result.reason == "time_budget"
    assert clock.seconds <= seconds
    assert result.value <= fun(START)[0]
    np.testing.assert_array_equal(result.state.value, result.history["loss"][-1])


def test_the_last_score_is_within_the_budget(monkeypatch):
    clock = Clock(monkeypatch)
    monitor = clock.slow(monitor_peaking_at(0.0), 5.0)
    options = {"max_seconds": 60.0, "tol": -1.0, "max_iter": 10**4, "monitor_every": 1000}
    result = minimize(clock.slow(fun, 1.0), START, Adam(), monitor=monitor, **options)
    assert (result.reason, clock.seconds) == ("time_budget", 60.0)


def test_compilation_does_not_count_as_the_pace(monkeypatch):
    clock = Clock(monkeypatch)
    compiled = [0.0]
    monkeypatch.setattr(_clock, "compiled_seconds", lambda: compiled[0])

    def first_compiles(theta, batch=None):
        if not compiled[0]:
            compiled[0] = 20.0
            clock.seconds += 20.0
        return fun(theta)

    options = {"max_seconds": 30.0, "tol": -1.0, "max_iter": 10**4}
    result = minimize(clock.slow(first_compiles, 1.0), START, Adam(), **options)
    assert result.n_iter == 9
