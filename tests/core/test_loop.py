"""The one loop: history, stopping, resuming, and what is kept when a run is cut short."""

from time import perf_counter, sleep

import numpy as np
import pytest
from common.loops import START, fun, monitor_peaking_at
from common.problems import D, make_problem

from vicinal.core.stages import Stage
from vicinal.core.stopping import stop_rules
from vicinal.core.training import train
from vicinal.core.types import Batch, Result, Sampler, Source
from vicinal.samplers import Full
from vicinal.solvers import (
    LBFGS,
    Adam,
    BoldDriver,
    ConjugateGradient,
    Momentum,
    ProjectedGradient,
    minimize,
    refresh,
)

SOLVERS = [LBFGS(), ConjugateGradient(), BoldDriver(), ProjectedGradient(), Momentum(), Adam()]
KEYS = ["iteration", "loss", "grad_norm", "validation_score", "seconds", "n_evaluations"]
every_solver = pytest.mark.parametrize(
    "solver", [pytest.param(solver, id=type(solver).__name__) for solver in SOLVERS]
)


def swinging(theta, batch=None):  # too steep for Adam at a rate of 0.3
    return float(50 * theta @ theta), 100 * theta


def raise_at(n, error=KeyboardInterrupt, inner=fun):
    """``inner``, but the n-th call raises."""
    count = [0]

    def wrapped(theta, batch=None):
        count[0] += 1
        if count[0] == n:
            raise error
        return inner(theta, batch)

    return wrapped


def without_seconds(history):
    # Strings, because nan == nan must hold here.
    return {key: list(map(repr, history[key])) for key in KEYS if key != "seconds"}


@every_solver
def test_history(solver):
    result = minimize(fun, START, solver, max_iter=7, tol=0.0)
    history = result.history
    assert list(history) == KEYS
    assert {len(entries) for entries in history.values()} == {8}
    assert history["iteration"] == list(range(8))
    assert history["loss"][0] == fun(START)[0]
    assert history["grad_norm"][0] == np.abs(fun(START)[1]).max()
    assert history["loss"][-1] == result.state.value
    assert history["n_evaluations"][0] == 1
    assert history["n_evaluations"][-1] == result.state.n_evaluations
    assert np.isnan(history["validation_score"]).all()
    assert np.all(np.diff([0.0, *history["seconds"]]) > 0)
    assert (result.n_iter, result.reason, result.converged) == (7, "max_iter", False)
    assert isinstance(result, Result)


@pytest.mark.parametrize("keep", ["nothing", "best", "last"])
@every_solver
def test_resume_equals_run_through(solver, keep):
    whole = minimize(fun, START, solver, max_iter=23, tol=0.0)
    first = minimize(fun, START, solver, max_iter=9, tol=0.0)
    theta = {"nothing": None, "best": first.theta, "last": first.state.theta}[keep]
    options = {"max_iter": 14, "tol": 0.0, "state": first.state, "history": first.history}
    second = minimize(fun, theta, solver, **options)
    assert first.n_iter == 9
    assert second.n_iter == whole.n_iter - 9
    np.testing.assert_array_equal(second.theta, whole.theta)
    assert (second.value, second.reason) == (whole.value, whole.reason)
    for one, other in zip(second.state, whole.state, strict=True):
        np.testing.assert_array_equal(one, other)
    assert without_seconds(second.history) == without_seconds(whole.history)
    assert np.all(np.diff(second.history["seconds"]) > 0)
    assert len(first.history["loss"]) == 10  # the history handed in is not written to


@every_solver
def test_resume_keeps_the_patience_and_the_best(solver):
    # The score peaks near the start: the best parameters are from the first leg.
    options = {"monitor": monitor_peaking_at(1000.0), "n_iter_no_change": 5, "tol": -1.0}
    whole = minimize(fun, START, solver, max_iter=200, **options)
    assert whole.reason == "early_stopping"
    assert whole.n_iter >= 5
    cut = whole.n_iter - 2
    first = minimize(fun, START, solver, max_iter=cut, **options)
    assert first.reason == "max_iter"
    assert not np.array_equal(first.theta, first.state.theta)
    options |= {"state": first.state, "history": first.history}
    second = minimize(fun, first.theta, solver, max_iter=200, **options)
    assert (second.reason, second.n_iter) == ("early_stopping", 2)
    np.testing.assert_array_equal(second.theta, whole.theta)
    assert second.value == whole.value == fun(whole.theta)[0]
    assert without_seconds(second.history) == without_seconds(whole.history)


def test_resume_after_divergence_returns_what_it_knows():
    # Adam at a high rate: the lowest loss was in the first leg, and is kept only if handed in.
    first = minimize(swinging, np.array([0.5]), Adam(0.3), max_iter=3, tol=-1.0)
    assert first.value < first.state.value
    options = {"max_iter": 1, "tol": -1.0, "state": first.state, "history": first.history}
    kept = minimize(swinging, first.theta, Adam(0.3), **options)
    assert kept.value == first.value
    np.testing.assert_array_equal(kept.theta, first.theta)
    other = minimize(swinging, None, Adam(0.3), **options)
    assert other.value == swinging(other.theta)[0] > first.value


@pytest.mark.parametrize("cut", [1, 4, 9, 13])
@every_solver
def test_a_result_is_resumed_with_all_that_it_holds(solver, cut):
    """Its best parameters, its patience and the iterations that are scored, too."""
    options = {"monitor": monitor_peaking_at(1000.0), "monitor_every": 3, "n_iter_no_change": 4}
    whole = minimize(fun, START, solver, max_iter=15, tol=-1.0, **options)
    first = minimize(fun, START, solver, max_iter=cut, tol=-1.0, **options)
    assert np.isfinite(first.history["validation_score"][-1])
    second = minimize(fun, None, solver, max_iter=15 - cut, tol=-1.0, state=first, **options)
    np.testing.assert_array_equal(second.theta, whole.theta)
    assert (second.value, second.reason) == (whole.value, whole.reason)
    assert without_seconds(second.history) == without_seconds(whole.history)


def test_a_result_keeps_the_best_on_a_fixed_batch():
    whole = minimize(swinging, np.array([0.5]), Adam(0.3), max_iter=4, tol=-1.0)
    first = minimize(swinging, np.array([0.5]), Adam(0.3), max_iter=3, tol=-1.0)
    assert first.value < first.state.value
    second = minimize(swinging, None, Adam(0.3), max_iter=1, tol=-1.0, state=first)
    assert second.value == whole.value == first.value
    np.testing.assert_array_equal(second.theta, first.theta)
    with pytest.raises(ValueError, match="'history' parameter of minimize must be None if 'state'"):
        minimize(swinging, None, Adam(0.3), state=first, history=first.history)


def test_state_or_history_alone_continue_the_counts():
    first = minimize(fun, START, LBFGS(), max_iter=3)
    second = minimize(fun, None, LBFGS(), max_iter=2, state=first.state)
    assert second.history["iteration"] == [1, 2]
    assert second.history["n_evaluations"][0] > first.history["n_evaluations"][-1]
    second = minimize(fun, first.theta, Adam(), max_iter=2, history=first.history)
    assert second.history["iteration"] == [0, 1, 2, 3, 4, 5]
    evaluations = first.history["n_evaluations"][-1]
    assert second.history["n_evaluations"][-2:] == [evaluations + 2, evaluations + 3]
    assert second.state.n_evaluations == evaluations + 3


@every_solver
def test_refresh_forgets_losses_of_the_old_function(solver):
    # The new function lies higher: judged by the old losses, nothing would ever improve again.
    first = minimize(fun, START, solver, max_iter=30, tol=0.0)

    def higher(theta, batch=None):
        value, grad = fun(theta)
        return value + 1000.0, grad

    state = refresh(solver, higher, first.state.theta, first.state)
    options = {"state": state, "history": first.history, "n_iter_no_change": 3, "tol": 1e-12}
    second = minimize(higher, None, solver, max_iter=60, **options)
    assert second.n_iter > 3
    assert 1000.0 < second.value < state.value
    assert second.value == higher(second.theta)[0]


@every_solver
def test_stops_on_gradient(solver):
    # A line search leaps to the minimum of a round bowl; the others have no window to end in.
    options = {"max_iter": 5000, "tol": 1e-3, "n_iter_no_change": 5000}
    result = minimize(swinging, np.array([0.1, 0.2]), solver, **options)
    norms = np.array(result.history["grad_norm"])
    assert (result.reason, result.converged) == ("gradient", True)
    assert norms[-1] <= 1e-3
    assert (norms[:-1] > 1e-3).all()
    at_once = minimize(fun, np.ones(8), solver)
    assert (at_once.reason, at_once.n_iter, at_once.converged) == ("gradient", 0, True)
    assert at_once.state.n_evaluations == 1


@pytest.mark.parametrize("solver", [LBFGS(), ConjugateGradient()])
def test_stops_on_loss_after_one_small_step(solver):
    tol = 1e-4
    result = minimize(fun, START, solver, tol=tol)
    loss = np.array(result.history["loss"])
    assert (result.reason, result.converged) == ("loss", True)
    small = -np.diff(loss) <= tol * np.maximum(np.abs(loss[:-1]), 1.0)
    assert small[-1]
    assert not small[:-1].any()


@pytest.mark.parametrize("solver", [LBFGS(), ConjugateGradient()])
def test_patience_is_a_window_for_line_searches_too(solver):
    tol, window = 0.1, 4
    hasty = minimize(fun, START, solver, tol=tol, n_iter_no_change=window)
    result = minimize(fun, START, solver, tol=tol, n_iter_no_change=window, patient=True)
    assert (hasty.reason, result.reason) == ("loss", "loss")
    assert result.n_iter >= hasty.n_iter + window - 1
    lowest = np.minimum.accumulate(result.history["loss"])
    assert lowest[-1 - window] - lowest[-1] <= tol * max(lowest[-1 - window], 1.0)


@pytest.mark.parametrize("solver", [BoldDriver(), Momentum(), Adam(0.1)])
def test_stops_on_loss_after_a_flat_window(solver):
    tol, window = 1e-6, 12
    result = minimize(fun, START, solver, tol=tol, n_iter_no_change=window, max_iter=5000)
    assert (result.reason, result.converged) == ("loss", True)
    lowest = np.minimum.accumulate(result.history["loss"])
    assert lowest[-1 - window] - lowest[-1] <= tol * max(lowest[-1 - window], 1.0)
    np.testing.assert_allclose(result.value, 0.25, atol=1e-3)


def test_an_overshoot_is_not_convergence():
    # Adam crosses the valley floor at 4.3 and needs longer than the window to come back to it.
    def rosenbrock(theta, batch=None):
        x, y = theta
        fall = y - x * x
        return (1 - x) ** 2 + 100 * fall**2, np.array([2 * (x - 1) - 400 * x * fall, 200 * fall])

    result = minimize(rosenbrock, np.array([-1.2, 1.0]), Adam(), max_iter=400, tol=1e-8)
    lowest = np.minimum.accumulate(result.history["loss"])
    assert np.diff(np.flatnonzero(np.diff(lowest) < 0)).max() > 10
    assert result.value < 3.0


@pytest.mark.parametrize(("slope", "converged"), [(5e-3, True), (5e-2, False)])
@pytest.mark.parametrize("solver", SOLVERS[:3])
def test_stalled_is_convergence_only_where_the_gradient_is_small(solver, slope, converged):
    values = iter(range(10_000))

    def rising(theta, batch=None):
        return float(next(values)), np.array([slope, 0.0])

    result = minimize(rising, np.ones(2), solver, tol=1e-4)
    assert (result.reason, result.converged, result.n_iter) == ("stalled", converged, 1)
    np.testing.assert_array_equal(result.theta, 1.0)
    # Taken up again as it is, there is nothing to do.
    again = minimize(rising, None, solver, tol=1e-4, state=result.state)
    assert (again.reason, again.n_iter) == ("stalled", 0)


@every_solver
def test_early_stopping_restores_the_best(solver):
    monitor = monitor_peaking_at(800.0)
    options = {"monitor": monitor, "n_iter_no_change": 4, "tol": -1.0}
    result = minimize(fun, START, solver, max_iter=500, **options)
    scores = np.array(result.history["validation_score"])
    best = int(np.argmax(scores))
    assert (result.reason, result.converged) == ("early_stopping", True)
    assert result.n_iter == best + 4
    assert monitor(result.theta) == scores[best]
    assert result.value == result.history["loss"][best] == fun(result.theta)[0]
    assert result.value > result.history["loss"][-1]


def test_nan_scores_never_win():
    scores = iter([np.nan, 0.1, np.nan, np.nan, 0.2, *[np.nan] * 20])
    options = {"monitor": lambda theta: next(scores), "n_iter_no_change": 3, "tol": -1.0}
    result = minimize(fun, START, Adam(), **options)
    assert result.reason == "early_stopping"
    assert result.n_iter == 7
    assert result.value == result.history["loss"][4]


@pytest.mark.parametrize("given", ["state", "history"])
def test_start_without_a_row_is_scored(given):
    # Every later place scores worse, so the start must stay the best.
    options = {"monitor": lambda theta: fun(theta)[0], "n_iter_no_change": 3, "tol": -1.0}
    if given == "state":
        options["state"] = LBFGS().init(fun, START)
    else:
        options["history"] = minimize(fun, START - 0.5, LBFGS(), max_iter=2).history
    result = minimize(fun, START, LBFGS(), **options)
    np.testing.assert_array_equal(result.theta, START)
    assert (result.reason, result.n_iter) == ("early_stopping", 3)


@every_solver
def test_callback_stops(solver):
    seen = []

    def on_iteration(info):
        seen.append(info)
        return info.iteration == 3

    result = minimize(fun, START, solver, on_iteration=on_iteration)
    assert (result.reason, result.n_iter, result.converged) == ("callback", 3, False)
    assert [info.iteration for info in seen] == [0, 1, 2, 3]
    assert type(seen[0]).__name__ == "Iteration"
    last = seen[-1]
    assert last.loss == fun(last.theta)[0] == result.history["loss"][-1]
    assert last.grad_norm == result.history["grad_norm"][-1]
    assert last.seconds == result.history["seconds"][-1]
    assert last.history["iteration"][-1] == 3


@pytest.mark.parametrize("n", [2, 3, 6, 9])
@every_solver
def test_interrupt_keeps_the_best(solver, n):
    result = minimize(raise_at(n), START, solver, tol=0.0)
    assert (result.reason, result.converged) == ("interrupted", False)
    assert {len(entries) for entries in result.history.values()} == {result.n_iter + 1}
    assert result.value == min(result.history["loss"]) == fun(result.theta)[0]
    # Nothing half-done is left behind: the run can be taken up from its last whole iteration.
    options = {"tol": 0.0, "state": result.state, "history": result.history}
    again = minimize(fun, None, solver, max_iter=3, **options)
    whole = minimize(fun, START, solver, tol=0.0, max_iter=result.n_iter + 3)
    np.testing.assert_array_equal(again.state.theta, whole.state.theta)
    assert without_seconds(again.history) == without_seconds(whole.history)


@pytest.mark.parametrize("where", ["monitor", "on_iteration"])
@pytest.mark.parametrize("n", [1, 4])
def test_interrupt_outside_the_function(where, n):
    result = minimize(fun, START, Adam(), tol=0.0, **{where: raise_at(n, inner=lambda *_: 0.0)})
    assert result.reason == "interrupted"
    assert np.isfinite(result.value)
    assert len({len(entries) for entries in result.history.values()}) == 1


def test_interrupt_before_the_first_row_interrupts_the_run(rng):
    """There is no state yet that a later run could take up."""
    problem = make_problem(rng)

    class Interrupted:
        units = problem.objective.units

        def __call__(self, *arguments, gradient=True, **options):
            if not gradient:  # the score of the start
                raise KeyboardInterrupt
            return problem.objective(*arguments, **options)

    stage = Stage(problem.replace(objective=Interrupted()), LBFGS(), stop_rules(LBFGS()))
    with pytest.raises(KeyboardInterrupt):
        train([stage], rng.standard_normal(2 * D), max_iter=3)


@pytest.mark.parametrize(
    ("value", "grad", "message"),
    [
        (np.nan, [1.0, 1.0], "loss at the start must be finite. Got nan"),
        (np.inf, [1.0, 1.0], "loss at the start must be finite. Got inf"),
        (1.0, [np.nan, 1.0], "gradient at the start must be finite. 1 of its 2 entries"),
    ],
)
@every_solver
def test_non_finite_start(solver, value, grad, message):
    with pytest.raises(ValueError, match=message):
        minimize(lambda theta, batch: (value, np.array(grad)), np.ones(2), solver)


@pytest.mark.parametrize("solver", [Momentum(), Adam(learning_rate=1.0)])
@pytest.mark.parametrize("bad", ["value", "grad"])
def test_non_finite_later_returns_the_best(solver, bad):
    count = [0]

    def breaking(theta, batch=None):
        count[0] += 1
        value, grad = fun(theta)
        if count[0] > 4:
            return (np.nan, grad) if bad == "value" else (value, np.full(8, np.inf))
        return value, grad

    result = minimize(breaking, START, solver)
    assert (result.reason, result.converged, result.n_iter) == ("non_finite", False, 3)
    assert np.isfinite(result.history["loss"]).all()
    assert result.value == min(result.history["loss"]) == fun(result.theta)[0]
    assert np.isfinite(result.state.value)


def test_best_not_last_is_returned():
    result = minimize(swinging, np.array([0.1]), Adam(0.3), max_iter=30, tol=-1.0)
    assert result.value == min(result.history["loss"]) == swinging(result.theta)[0]
    assert result.value < result.state.value


class Halves:
    """Two halves of the rows in turn, the order drawn from ``random_state``."""

    fixed = False

    def dealer(self, source, random_state):
        return lambda theta, rng: [
            Batch(rows=rows) for rows in np.array_split(rng.permutation(source.n_rows), 2)
        ]


def mean_of_rows(theta, batch):
    """Mean over the rows r of (theta - r)^2, whose minimum is the rows' mean."""
    rows = np.arange(10.0) if batch.rows is None else batch.rows.astype(float)
    return float(np.mean((theta - rows) ** 2)), np.atleast_1d(2 * np.mean(theta - rows))


@pytest.mark.parametrize("solver", SOLVERS[:3])
def test_solvers_that_need_one_batch_refuse_many(solver):
    with pytest.raises(ValueError, match=f"{type(solver).__name__} needs the same .* Halves"):
        minimize(mean_of_rows, np.zeros(1), solver, sampler=Halves(), source=Source(10))


@pytest.mark.parametrize("solver", [Momentum(0.02), Adam(0.1)])
def test_changing_batches(solver):
    options = {"sampler": Halves(), "source": Source(10), "max_iter": 400}
    run = [
        minimize(mean_of_rows, np.zeros(1), solver, random_state=seed, **options)
        for seed in (0, np.random.RandomState(0), 1)
    ]
    # Losses on different halves say nothing about which place is best: the last is returned.
    assert [result.reason for result in run] == ["max_iter"] * 3
    for result in run:
        np.testing.assert_array_equal(result.theta, result.state.theta)
        assert result.theta[0] == pytest.approx(4.5, abs=0.8)
    assert run[0].history["loss"] == run[1].history["loss"]
    assert run[0].history["loss"] != run[2].history["loss"]


@every_solver
def test_full_is_the_default(solver):
    assert isinstance(Full(), Sampler)
    assert Full().fixed
    deal = Full().dealer(Source(10), np.random.RandomState(0))
    assert deal(np.zeros(1), np.random.RandomState(0)) == [Batch()]
    plain = minimize(mean_of_rows, np.zeros(1), solver, max_iter=20)
    full = minimize(
        mean_of_rows, np.zeros(1), solver, max_iter=20, sampler=Full(), source=Source(10)
    )
    np.testing.assert_array_equal(plain.theta, full.theta)
    assert without_seconds(plain.history) == without_seconds(full.history)


def test_errors():
    with pytest.raises(ZeroDivisionError):  # of the function: not swallowed
        minimize(raise_at(4, ZeroDivisionError), START, Adam())
    with pytest.raises(ValueError, match="theta must be an array"):
        minimize(fun, None, LBFGS())
    with pytest.raises(ValueError, match="source must be a Source"):
        minimize(fun, START, LBFGS(), sampler=Full())


def test_no_iterations():
    began = perf_counter()
    result = minimize(lambda t, b: (sleep(0.02), fun(t))[1], START, LBFGS(), max_iter=0)
    assert (result.reason, result.n_iter) == ("max_iter", 0)
    np.testing.assert_array_equal(result.theta, START)
    # The first evaluation counts.
    assert 0.02 <= result.history["seconds"][0] <= perf_counter() - began
