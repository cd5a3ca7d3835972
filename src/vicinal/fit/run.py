"""From a problem to a learnt map: the starts, the run from each, and what saves a collapsed map."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from vicinal import _clock, samplers
from vicinal._validation import warn
from vicinal.core.problem import Problem
from vicinal.core.stages import FitResult, Refresh, RunSnapshot, Stage
from vicinal.core.state import FitState
from vicinal.core.stopping import advice_for, stop_rules
from vicinal.core.training import train
from vicinal.core.types import Array, Solver
from vicinal.fit.context import BestRun, EndedRun, FitContext, in_float32
from vicinal.fit.method import Config, Method
from vicinal.fit.plan import Plan, is_large, schedule_length
from vicinal.fit.resume import STOPPED
from vicinal.fit.tuning import repair_scale, solver_for

_SCORES = 10  # least number of scores of held-out rows in a run on batches
_OTHER_SCALE = (
    "The map collapsed, because the loss is flat at the scale of its start. The fit began again at "
    "another scale."
)

_MANY_ALONE = 0.1  # warn above this share of rows with no neighbour in range


def best_of_starts(
    context: FitContext, problem: Problem, state: FitState | None = None
) -> FitResult:
    """The result with the lowest loss of the runs from all starts.

    ``state`` is that of a run that was cut, from the first start that has not finished.
    """
    record, n_starts = context.record, context.method.n_starts
    reason, seconds = None, 0.0  # for a start
    result: FitResult | None = None  # of the best run, unless an earlier fit has made it
    cut: FitResult | None = None
    if not context.searching:
        context.reports.expect(n_starts * context.plan.max_iter)
    for number in range(record.n_starts, n_starts):
        if record.best is not None and context.is_late(seconds):
            reason, record.start_cut = "time_budget", True
            break
        here, began = context.at("start", number), _clock.now()
        try:
            theta = first_theta(here, problem) if state is None else None
            seconds = _clock.now() - began
            new = run(here, problem, theta, state)
        except KeyboardInterrupt:
            if record.best is None:
                raise
            reason, record.start_cut = "interrupted", True
            break
        reason, state = new.reason, None
        loss = context.loss_of(new.problem, new.theta, new.value) if n_starts > 1 else new.value
        if record.best is None or loss < record.best.loss:
            best, result = BestRun(loss, EndedRun.of(new)), new
        else:
            best = record.best
        if reason in STOPPED:
            cut = new
            break
        if n_starts > 1:
            record.n_starts, record.best, record.collapsed = number + 1, best, None
    if result is None:
        assert record.best is not None
        result = _rebuilt(context, problem, record.best.run)
    if reason in STOPPED:
        result.reason, result.converged = reason, False
    if cut is not None:  # a later fit completes this run, even if an earlier start was better
        result.state, result.path = cut.state, cut.path
    return result


def first_theta(context: FitContext, problem: Problem) -> Array:
    """The first theta, improved on a few rows if the method has a coarse start."""
    method, reports = context.method, context.reports
    seconds = context.seconds_left
    # a start that iterates may take half of the time
    until = None if seconds is None else _clock.now() + 0.5 * seconds
    reporter = reports.start_reporter(context.searching, context.record, until)
    if not context.searching:
        reports.doing("preparing the start")
    coarse = method.coarse(problem, context.rng("coarse"))
    if coarse is None:
        return method.start(problem, context.rng("start"), reporter)
    few = coarse.problem
    theta = method.start(few, context.rng("start"), reporter)
    # The few rows are the same at every step: use the full-batch solver.
    solver = context.plan.solver
    if solver is None or not context.plan.sampling.fixed:
        solver = method.solver
    rules = stop_rules(solver, tol=coarse.tol, units=problem.units, flat_loss=_is_flat(problem))
    result = train(
        [Stage(few, solver, rules)],
        theta,
        max_iter=coarse.max_iter,
        deadline=None if seconds is None else _clock.now() + 0.3 * seconds,
        on_iteration=lambda info, at, snapshot: reporter(info, at),
    )
    reporter.say(f"the start was improved on {len(few.X)} rows, in {result.n_iter} iterations")
    if result.reason == "interrupted":
        raise KeyboardInterrupt
    return coarse.finish(result.theta)


def run(
    context: FitContext,
    problem: Problem,
    theta: Array | None = None,
    state: FitState | None = None,
    *,
    left: int | None = None,
) -> FitResult:
    """One training run: from a map, or from the state of an earlier run.

    A run from a ``state`` completes the run that was cut there; with ``left``, it makes this many
    more iterations after a run that had ended.
    """
    record = context.record
    if record.collapsed is None or context.searching:
        result = _train(context, problem, theta, state, left)
        if context.searching or result.reason == "interrupted":
            return result  # a search never chooses a collapsed map
        state = None
    else:  # the state is that of the second run from this start
        result = _rebuilt(context, problem, record.collapsed)
    told = context.method.collapse_warning(result.problem.embed(result.theta), result.problem)
    if told is None:
        return result
    if theta is None and not record.continues:
        theta = first_theta(context, problem)
    return _instead_of_collapsed(context, problem, theta, result, told, state)


def _train(
    context: FitContext,
    problem: Problem,
    theta: Array | None,
    state: FitState | None,
    left: int | None = None,
) -> FitResult:
    plan, completes = context.plan, state is not None and left is None
    at = theta if state is None else state.best.theta
    assert at is not None
    # in the precision of the loss after the last step
    context.budget.measure(problem if plan.exact else in_float32(problem), at)
    solver = solver_for(context, problem, at) if state is None else state.part
    # a schedule may be shorter than `max_iter` for lack of time
    most = plan.max_iter if plan.solver is not None else schedule_length(solver)
    if left is None:
        left = most if state is None or state.left is None else state.left
    result = train(
        _stages(context, problem, solver),
        theta,
        state,
        max_iter=left,
        tol=context.config.tolerance,
        patience=context.config.n_iter_no_change,
        deadline=context.last_step,
        on_iteration=context.reports.on_iteration(context.searching, context.path),
        seed=context.step_seed("batches"),
        completes=completes,
    )
    result.path = context.path
    if context.counts_all and completes:
        result.n_iter += most - left
    if plan.corrects_scale and not context.method.batches_keep_scale:
        if not context.searching:
            context.reports.doing("correcting the scale of the map")
        try:
            factor = repair_scale(context, result.problem, result.theta)
            result.theta = problem.scaled(result.theta, factor)
        except KeyboardInterrupt:
            result.reason, result.converged = "interrupted", False
    if result.reason == "max_iter" and (plan.noisy or context.config.tol is None):
        # Noisy losses cannot show convergence, and without a tolerance there is none to show:
        # reaching `max_iter` counts as success.
        result.converged = True
    return result


def _rebuilt(context: FitContext, problem: Problem, ended: EndedRun) -> FitResult:
    """The result of a run that had ended, with its problem."""
    stages = _stages(context.of(ended.path), problem, ended.state.part)
    if stages[0].refresh is None:
        return ended.result(problem.replace(dtype=np.float64))
    again = train(stages, None, ended.state, max_iter=0)
    again.path = ended.path
    return ended.result(again.problem)


def if_stopped(
    context: FitContext, problem: Problem, snapshot: RunSnapshot
) -> tuple[Array, Problem]:
    """The parameters that the fit would keep if it stopped now, and their problem."""
    best, whole, earlier = snapshot.best(), snapshot.scorer, context.record.best
    theta = best.theta
    if context.plan.corrects_scale and not context.method.batches_keep_scale:
        theta = problem.scaled(theta, repair_scale(context, whole, theta))
    if earlier is None or context.loss_of(whole, theta, best.value) < earlier.loss:
        return theta, whole
    return earlier.run.theta, _rebuilt(context, problem, earlier.run).problem


def _instead_of_collapsed(
    context: FitContext,
    problem: Problem,
    theta: Array | None,
    result: FitResult,
    told: str,
    state: FitState | None,
) -> FitResult:
    """A run from a better scale, or the start itself: a collapsed map is no result.

    The zero map is stationary, so no run leaves it.  A run gets there from a scale at which the
    loss is flat, so that only the penalty has a gradient, or if the penalty outweighs the loss
    everywhere.
    """
    method, rng, stopped = context.method, context.rng("second start"), None
    reporter = context.reports.start_reporter(True, context.record)
    start = method.start(problem.replace(alpha=0.0), rng, reporter)
    rescale: Callable[..., Array] | None = getattr(method.start, "rescale", None)
    if rescale is not None:
        again = rescale(problem, start, rng)
        moves = theta is None or not np.allclose(theta, again)
        if moves and result.reason not in STOPPED and not context.is_late(0.0):
            context.record.collapsed = EndedRun.of(result)
            second = _train(context.at("second"), problem, again, state)
            if method.collapse_warning(second.problem.embed(second.theta), second.problem) is None:
                second.complaint = _OTHER_SCALE
                return second
            stopped = second if second.reason in STOPPED else None
        start = rescale(problem.replace(alpha=0.0), start, rng)
    result.theta, result.value = start, problem.value(start)
    result.complaint = f"{told} The start is kept instead."
    if stopped is not None:  # a fit that resumes this one completes the second run
        result.reason, result.converged, result.state = stopped.reason, False, stopped.state
    return result


def _stages(context: FitContext, problem: Problem, solver: Solver) -> list[Stage]:
    """A stage in float32 for large data, then one in float64 if losses can be compared."""
    plan = context.plan
    refresh = context.method.refresh(plan, context.step_seed("refresh"))
    whole = _stage(context, problem, solver, refresh)
    if not is_large(len(problem.rows)):
        return [whole]
    fast = _stage(context, problem.replace(dtype=np.float32), solver, refresh)
    return [fast, whole] if _continues(plan, refresh) and not context.searching else [fast]


def _stage(context: FitContext, problem: Problem, solver: Solver, refresh: Refresh | None) -> Stage:
    plan, tol = context.plan, context.config.tolerance
    if problem.dtype == np.float32 and (tol >= 0 or _continues(plan, refresh)):
        tol = max(tol, 1e-5)  # losses in float32 have no more digits
    rules = stop_rules(
        solver,
        tol=tol,
        units=problem.units,
        patience=context.config.n_iter_no_change,
        flat_loss=_is_flat(problem),
    )
    full = isinstance(plan.sampling, samplers.Full)
    steps = plan.max_iter if plan.solver is not None else schedule_length(solver)
    every = _score_every(plan, problem, steps)
    return Stage(problem, solver, rules, None if full else plan.sampling, refresh, every)


def _score_every(plan: Plan, problem: Problem, steps: int) -> int:
    """Iterations between scores, so that scoring takes only a quarter of the time."""
    sampling, held_out = plan.sampling, problem.held_out
    if sampling.fixed or held_out is None:
        return 1
    n = len(problem.X) - len(held_out)
    size = min(sampling.size or n, n)
    # rows of a batch pick among themselves, and each of their pairs serves both rows
    step = size * size / 2 if sampling.thins_rows else size * n
    # a score is a value without a gradient, at less than half the cost
    every = math.ceil(2 * len(held_out) * n / step)
    return max(1, min(every, steps // _SCORES))


def _continues(plan: Plan, refresh: Refresh | None) -> bool:
    """Whether a stage in float64 follows one in float32."""
    return refresh is None and plan.sampling.fixed


def _is_flat(problem: Problem) -> bool:
    """Whether the loss is flat far from its minimum, so that one small step is not convergence."""
    return problem.mapping.gradient_floor < 1.0


def warn_of_run(
    method: Method,
    config: Config,
    result: FitResult,
    facts: Mapping[str, float],
    left_out: list[str],
) -> None:
    """Warn of what the run complained of, of rows out of range, or if it did not converge.

    Also of what a time budget left too little time for.
    """
    if left_out:
        warn(
            f"The {config.time_budget:g} seconds of 'time_budget' were not enough for "
            f"{' and '.join(left_out)}: increase 'time_budget'."
        )
    if result.complaint is not None:
        warn(result.complaint)
    alone = facts.get("out_of_range", 0.0)
    if alone > _MANY_ALONE and not method.kernel.background:
        warn(
            f"{100 * alone:.3g} % of the rows have no other row in range of the compact "
            "kernel and do not contribute: give the kernel a background, or scale 'init' down."
        )
    if not result.converged:
        advice = advice_for(result.reason).format(n=result.n_iter, budget=config.time_budget)
        warn(
            f"{method.name} did not converge: {advice}. The best map so far is kept.",
            ConvergenceWarning,
        )


def final_loss(
    context: FitContext, problem: Problem, theta: Array
) -> tuple[float, Mapping[str, float]]:
    """The loss of a learnt map, and the facts of its evaluation."""
    rows = context.loss_rows(problem)
    # On a sample of rows the loss is an estimate, for which float32 suffices.
    scorer = problem if rows is None else problem.replace(dtype=np.float32)
    found = scorer.score(theta, problem.train if rows is None else rows)
    return found.value, found.facts


def last_theta(last: Any, problem: Problem) -> Array | None:
    """The parameters of the last fitted map in this problem's columns; None if it does not fit."""
    theta = None if last is None else last.theta_for(problem.mapping, problem.X)
    return theta if theta is not None and theta.any() else None
