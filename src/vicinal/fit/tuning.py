"""What is chosen by measuring around a run: the rate of its solver, and the scale of its map."""

from __future__ import annotations

import math

import numpy as np

from vicinal import _clock, maps, solvers, starts
from vicinal.core.points import to_host
from vicinal.core.problem import Problem
from vicinal.core.seeds import rng_for
from vicinal.core.stopping import Timed, TimeUp
from vicinal.core.types import Array, Solver
from vicinal.fit.context import REPAIR_QUERIES, FitContext, in_float32
from vicinal.fit.plan import hold_out, is_large
from vicinal.targets.labels import class_codes

_REPAIR_PAIRS = 2e8  # pairs for the correction of the scale: as many as in some dozens of steps
_TUNING_STEPS = 100  # steps of the longest runs that tune a rate; all runs together: some 700
_TUNING_SCORES = 40  # number of scores during the tuning
_TUNING_ROWS = 1000  # held-out rows per score

_LEAST, _MOST = 0.2, 0.6  # sizes of the entries of a nonlinear map, if columns have variance one
_RATE = 0.05  # of Adam, relative to the entries of a map that spreads the rows as the start does


def solver_for(context: FitContext, problem: Problem, theta: Array) -> Solver:
    """The solver of a run, with its rate chosen at the start."""
    solver = context.plan.solver
    if solver is None:
        steps = _affordable_steps(context, problem, theta)
        return adam_for(problem, theta, steps, context.method.relative_rate)
    if isinstance(solver, solvers.SGD) and solver.learning_rate is None:
        return _tuned(context, problem, theta, solver)
    return solver


def _affordable_steps(context: FitContext, problem: Problem, theta: Array) -> int:
    """Number of steps that there is time for: a schedule must be completed to converge."""
    seconds = context.seconds_left
    if seconds is None:
        return context.plan.max_iter
    if context.is_late(0.0):  # to make steps in order to time them
        return 1
    each = _seconds_a_step(context, problem, theta)
    return int(np.clip(seconds / each, 1, context.plan.max_iter))


def _seconds_a_step(context: FitContext, problem: Problem, theta: Array) -> float:
    fun = in_float32(problem)
    deal = context.plan.sampling.dealer(problem.source, np.random.RandomState(0))
    batch = deal(theta, np.random.RandomState(0))[0]
    fun(theta, batch)  # compiles, and fills the cache
    began = _clock.now()
    fun(theta, batch)
    return 1.2 * max(_clock.now() - began, 1e-9)


def _tuned(context: FitContext, problem: Problem, theta: Array, solver: solvers.SGD) -> Solver:
    """Tune t0 on held-out rows, as in the thesis ([Oneata2011] section 5.3.2)."""
    if context.is_late(0.0):
        return solver  # with its untuned rate
    single, rng = is_large(len(problem.rows)), context.rng("rate")
    if problem.held_out is None:
        # taken from the training rows, since a search scores with the others
        rows, strata = problem.rows, problem.target.strata
        learn, score = hold_out(
            class_codes(strata, len(problem.X))[rows],
            context.config.validation_fraction,
            rng,
            "solver='sgd', which tunes its rate,",
        )
        score = np.sort(rng.permutation(score)[:_TUNING_ROWS])
        problem = problem.replace(train=rows[learn], held_out=rows[score])
    fun = problem.replace(dtype=np.float32) if single else problem
    # no longer than the run itself: a rate that is good in the end may begin too high
    n_steps = int(np.clip(context.plan.max_iter, 4, _TUNING_STEPS))
    seconds = context.seconds_left
    if seconds is not None:  # all steps and scores may take half of the time left
        each = _seconds_a_step(context, problem, theta)
        began = _clock.now()
        fun.validation_score(theta)
        scores = _TUNING_SCORES * (_clock.now() - began)
        affordable = (0.5 * seconds - scores) / (10 * each)
        if affordable < 4:
            return solver
        n_steps = int(min(affordable, n_steps))
    tuned, _ = solvers.tune_t0(
        fun,
        theta,
        solver,
        sampler=context.plan.sampling,
        source=problem.source,
        monitor=fun.validation_score,
        n_steps=n_steps,
        random_state=rng,
    )
    return tuned


def repair_scale(context: FitContext, problem: Problem, theta: Array) -> float:
    """The factor that corrects the scale of a map learnt from few rows.

    [Oneata2011] section 4.1: a sub-sample is less dense than all rows.  The objective is that of
    the scale of a start: accuracy would tend to a hard nearest neighbour.
    """
    problem = problem.replace(objective=problem.objective.for_scaling())
    rows = problem.rows
    queries = int(np.clip(_REPAIR_PAIRS / len(rows), 200, REPAIR_QUERIES))
    evaluations, queries = context.budget.correction(queries)
    if len(rows) > queries:
        rows = np.sort(rng_for(context.seed, "scale").permutation(rows)[:queries])
    fun = problem.replace(dtype=np.float32) if is_large(len(problem.X)) else problem
    until = context.time_before(0)
    timed = Timed(
        lambda s, batch: fun.value(fun.scaled(theta, s), rows),
        math.inf if until is None else until,
        context.budget.loss_seconds(len(rows)),
    )

    def loss(s: float) -> float:
        try:
            return timed(s)
        except TimeUp:
            context.budget.leave_out("the correction of the scale of the map")
            raise

    return starts.repair_scale(loss, max_evaluations=evaluations)


def rate_for(problem: Problem, theta: Array, relative: float | None = None) -> float:
    r"""A rate of Adam that suits the data: a share of the entries of a map as large as the start.

    .. math:: \eta_0 = r\,\|Z_0\|_F / (\sqrt{d}\,\|X\|_F)

    These are the entries of a map that treats all columns alike and spreads the rows as the start
    does.  The entries of the start itself are unsuitable: RCA gives enormous weights to columns
    that hardly vary.  A nonlinear map has inner parameters as well, of sizes around 0.1 to 1: for
    these the rate is at least 0.01 and at most 0.03 if r is that of NCA and the columns are scaled.
    """
    rows = np.arange(0, len(problem.X), max(1, len(problem.X) // 1000))
    X = problem.X.take(rows)
    Z = to_host(problem.mapping.forward(theta, X, np.float64)[0])
    Z = Z - Z.mean(axis=0)
    spread = np.sqrt(sum(float(np.sum(part**2)) for _, part in X.blocks()))
    size = np.linalg.norm(Z) / (np.sqrt(Z.shape[1]) * spread) if spread > 0 else 0.0
    size = size if size > 0 else 1.0
    if maps.bends(problem.mapping):
        unit = max(1.0, spread / np.sqrt(Z.shape[0] * X.shape[1]))
        size = np.clip(size, _LEAST / unit, _MOST)
    return float((_RATE if relative is None else relative) * size)


def adam_for(
    problem: Problem, theta: Array, n_steps: int, relative: float | None = None
) -> solvers.Adam:
    """Adam with a rate that suits the data and falls to zero along a cosine."""
    return solvers.Adam(solvers.Cosine(rate_for(problem, theta, relative), n_steps))
