"""The way down that a plan describes: exact, on batches, or in rounds over lists of pairs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from vicinal import samplers, solvers, starts
from vicinal.core.problem import Problem
from vicinal.core.types import Array, Map, Result, Solver
from vicinal.estimators._parts import SINGLE_FROM
from vicinal.estimators._plan import Plan, adam_for
from vicinal.estimators._rounds import Renewal
from vicinal.estimators._split import hold_out

__all__ = ["Descent", "Memory", "Outcome"]

_SCORES = 10  # at least, of held-out rows, in a descent on batches
_REPAIR_PAIRS = 2e8  # as many as some dozens of steps have
_REPAIR_QUERIES = 1000  # rows that judge the scale of a map learnt from few
_TUNING_STEPS = 100  # of the longest runs that a rate is tuned by; all make some 700
_TUNING_SCORES = 40  # that they are judged by
_TUNING_JUDGES = 1000  # held-out rows to each


class Memory(NamedTuple):
    """What ``warm_start`` goes on from: the last run, and the space its solver saw.

    ``kept`` is what the last round had settled: weights of backgrounds, target neighbours.
    """

    plan: Plan
    mapping: Map
    scale: Array
    solver: Solver
    single: bool
    kept: Any
    result: Result

    def fits(self, plan: Plan, mapping: Map, scale: Array) -> bool:
        """Whether a fit goes on where this one stopped."""
        # how long, and at which cost, does not change where
        alike = self.plan[:4] == plan[:4] and self.mapping == mapping
        return alike and np.array_equal(self.scale, scale) and self.steps_left(plan) > 0

    def steps_left(self, plan: Plan) -> int:
        """Iterations to make: those asked for, or what a schedule that was cut short has left."""
        if plan.solver is not None:
            return plan.max_iter
        return _length(self.solver) - self.result.history["iteration"][-1]


class Outcome(NamedTuple):
    """What a descent came to.

    ``problem`` is the one of the last round, over all pairs; ``rounds`` tells of each round what
    was frozen in it; ``complaint`` is something to warn of.
    """

    result: Result
    memory: Memory
    problem: Problem
    rounds: dict[str, list]
    complaint: str | None


@dataclass
class Descent:
    """Minimises a problem as planned.

    Parameters
    ----------
    plan : Plan
    tol, n_iter_no_change
        As in the estimator.
    unit, slope_unit : float
        What counts as a loss, and as an entry of its gradient, of size one.
    patient : bool
        As of `solvers.minimise`.
    rng : RandomState
        Draws batches, lists and samples.
    tell : callable
        ``stop = tell(iteration, problem, single, memory=...)`` after each iteration; ``memory``
        makes of a `Result` what a later fit goes on from.
    scale_objective : callable
        The objective that judges the scale of a map learnt from few rows at a time.
    rounds : callable
        What is frozen for some iterations at a time, made anew for each descent; None for nothing.
    validation_fraction : float
        Rows held out to tune a rate by, where none are held out for early stopping.
    deadline : float or None
        Of ``time.perf_counter``; no step is begun that would end later.
    """

    plan: Plan
    tol: float
    n_iter_no_change: int
    rng: np.random.RandomState
    tell: Callable[..., bool]
    scale_objective: Callable[..., tuple[float, Array]]
    rounds: Callable[[], Renewal | None]
    unit: float = 1.0
    slope_unit: float | None = None
    patient: bool = False
    validation_fraction: float = 0.1
    deadline: float | None = None

    def __call__(
        self, problem: Problem, theta: Array | None = None, memory: Memory | None = None
    ) -> Outcome:
        """Go down from a map, or on from a memory."""
        n = len(problem.X) if problem.train is None else len(problem.train)
        single = n >= SINGLE_FROM if memory is None else memory.single
        solver = memory.solver if memory is not None else self._solver(problem, theta, single)
        if memory is not None:
            left = memory.steps_left(self.plan)
        else:  # a schedule that was made shorter, for want of time, ends there
            left = self.plan.max_iter if self.plan.solver is not None else _length(solver)
        run = _Run(self, problem, solver, single, left)
        if memory is not None:
            run.take_up(memory.result)
        rounds = run.renewed = self.rounds()
        if rounds is not None and memory is not None:
            rounds.kept = memory.kept
        if rounds is not None:
            result = run.in_rounds(theta, rounds)
        elif not self.plan.sampling.fixed:
            result = run.leg(theta)
        else:
            result = run.there_and_back(theta)
        kept = run.memory(replace(result))  # a later fit goes on from the map as it was learnt
        if isinstance(self.plan.sampling, samplers.MiniBatches | samplers.Subsample):
            try:
                result.theta = result.theta * self._repair(run.judge, result.theta)
            except KeyboardInterrupt:
                result.reason, result.converged = "interrupted", False
        if result.reason == "max_iter" and self.plan.changes:
            # batches and random lists differ too much to tell the end by: so many steps were asked
            result.converged = True
        report, complaint = ({}, None) if rounds is None else (rounds.report, rounds.complaint())
        return Outcome(result, kept, run.judge, report, complaint)

    def seconds_left(self) -> float | None:
        """Until the deadline, or None where there is none."""
        return None if self.deadline is None else max(0.0, self.deadline - perf_counter())

    def _solver(self, problem: Problem, theta: Array | None, single: bool) -> Solver:
        """The solver with its rate settled by the start."""
        assert theta is not None
        solver = self.plan.solver
        if solver is None:
            return adam_for(problem, theta, self._affordable(problem, theta, single))
        if isinstance(solver, solvers.SGD) and solver.learning_rate is None:
            return self._tune(problem, theta, solver, single)
        return solver

    def _affordable(self, problem: Problem, theta: Array, single: bool) -> int:
        """How many steps there is time for: a schedule that is cut short does not arrive."""
        if self.deadline is None:
            return self.plan.max_iter
        steps = (self.seconds_left() or 0.0) / self._seconds_a_step(problem, theta, single)
        return int(np.clip(steps, 1, self.plan.max_iter))

    def _seconds_a_step(self, problem: Problem, theta: Array, single: bool) -> float:
        fun = problem.replace(dtype=np.float32) if single else problem
        deal = self.plan.sampling.dealer(problem.source, np.random.RandomState(0))
        batch = deal(theta, np.random.RandomState(0))[0]
        fun(theta, batch)  # compiled, and in the cache
        began = perf_counter()
        fun(theta, batch)
        return 1.2 * (perf_counter() - began)

    def _tune(self, problem: Problem, theta: Array, solver: solvers.SGD, single: bool) -> Solver:
        """The thesis' search for t0, on rows held out ([Oneata2011] section 5.3.2)."""
        if problem.held_out is None:
            # of the rows learnt from: a search judges by the others
            rows = np.arange(len(problem.X)) if problem.train is None else problem.train
            learn, judge = hold_out(
                problem.targets.codes[rows],
                self.validation_fraction,
                self.rng,
                "solver='sgd', which tunes its rate,",
            )
            judge = np.sort(self.rng.permutation(judge)[:_TUNING_JUDGES])
            problem = problem.replace(train=rows[learn], held_out=rows[judge])
        fun = problem.replace(dtype=np.float32) if single else problem
        # no longer than the run it is for: a rate that is good in the end may begin too high
        n_steps = int(np.clip(self.plan.max_iter, 4, _TUNING_STEPS))
        if self.deadline is not None:  # half of the time, for all the steps and scores
            each = self._seconds_a_step(problem, theta, single)
            began = perf_counter()
            fun.validation_score(theta)
            scores = _TUNING_SCORES * (perf_counter() - began)
            affordable = (0.5 * (self.seconds_left() or 0.0) - scores) / (10 * each)
            if affordable < 4:
                return solver  # which has a rate to begin with
            n_steps = int(min(affordable, n_steps))
        tuned, _ = solvers.tune_t0(
            fun,
            theta,
            solver,
            sampler=self.plan.sampling,
            source=problem.source,
            monitor=fun.validation_score,
            n_steps=n_steps,
            random_state=self.rng,
        )
        return tuned

    def _repair(self, problem: Problem, theta: Array) -> float:
        """The scale at which all rows, which lie denser, would have the map.

        [Oneata2011] section 4.1: a sub-sample is thinner than the whole.  Judged as the scale of a
        start is: by accuracy it would go on towards a hard nearest neighbour.
        """
        problem = problem.replace(objective=self.scale_objective)
        rows = np.arange(len(problem.X)) if problem.train is None else problem.train
        queries = int(np.clip(_REPAIR_PAIRS / len(rows), 200, _REPAIR_QUERIES))
        if len(rows) > queries:
            # a draw of its own: a fit that was cut and resumed has made other draws before
            rng = np.random.RandomState(0)
            rows = np.sort(rng.permutation(rows)[:queries])
        single = len(problem.X) >= SINGLE_FROM
        fun = problem.replace(dtype=np.float32) if single else problem
        return starts.repair_scale(lambda s: fun.value(s * theta, rows))


class _Run:
    """One descent under way."""

    def __init__(
        self, descent: Descent, problem: Problem, solver: Solver, single: bool, left: int
    ) -> None:
        self.descent, self.problem, self.solver = descent, problem, solver
        self.single, self.left = single, left
        # of the whole descent, also where this is the rest of one that was cut
        self.steps = left if descent.plan.solver is not None else _length(solver)
        self.state: Any = None
        self.history: dict[str, list] | None = None
        self.sampling: Any = None
        self.best: Array | None = None
        self.judge = problem
        self.report: dict[str, float] = {}  # filled by the objective
        self.renewed: Renewal | None = None
        self.n_iter = 0

    def take_up(self, last: Result) -> None:
        """Go on where a run has stopped."""
        self.state, self.sampling = last.state, last.sampling
        if self.descent.plan.sampling.fixed:
            self.state = self._refresh(self._fun(self.problem), last.state.theta)
        self.history, self.best = last.history, last.theta

    def _refresh(self, fun: Problem, theta: Array) -> Any:
        """The state after the function has changed, on the rows that the solver sees."""
        sampler, batch = self.descent.plan.sampling, None
        if self.sampling is not None:
            batch = solvers.fixed_batch(sampler, fun.source, self.sampling)
        return solvers.refresh(self.solver, fun, theta, self.state, batch)

    def _fun(self, problem: Problem) -> Problem:
        return problem.replace(dtype=np.float32) if self.single else problem

    def leg(
        self, theta: Array | None, problem: Problem | None = None, most: int | None = None
    ) -> Result:
        """A call of the loop: from theta, or from the state where there is one."""
        plan, descent = self.descent.plan, self.descent
        problem = self.problem if problem is None else problem
        fun, judge = self._fun(problem), self._fun(self.judge)
        fun = fun.replace(options={**fun.options, "report": self.report})
        full = isinstance(plan.sampling, samplers.Full)
        result = solvers.minimise(
            fun,
            self.best if self.state is not None else theta,
            self.solver,
            sampler=None if full else plan.sampling,
            source=None if full else fun.source,
            max_iter=self.left if most is None else min(most, self.left),
            tol=max(descent.tol, 1e-5) if self.single else descent.tol,
            unit=descent.unit,
            slope_unit=descent.slope_unit,
            patient=descent.patient,
            state=self.state,
            history=self.history,
            sampling=self.sampling,
            monitor=None if problem.held_out is None else judge.validation_score,
            monitor_every=self._monitor_every(),
            n_iter_no_change=descent.n_iter_no_change,
            max_seconds=descent.seconds_left(),
            on_iteration=partial(self._tell, problem=problem),
            random_state=descent.rng,
        )
        self.n_iter += result.n_iter
        self.left -= result.n_iter
        result.n_iter = self.n_iter
        self.state, self.history = result.state, result.history
        self.sampling, self.best = result.sampling, result.theta
        return result

    def memory(self, result: Result) -> Memory:
        """What a later fit goes on from."""
        plan, problem = self.descent.plan, self.problem
        kept = None if self.renewed is None else self.renewed.kept
        return Memory(
            plan, problem.mapping, problem.X.scale, self.solver, self.single, kept, result
        )

    def _tell(self, info: solvers.Iteration, problem: Problem) -> bool:
        share = self.report.get("share_of_pairs", np.nan)
        info.history.setdefault("share_of_pairs", []).append(share)
        return self.descent.tell(info, problem, self.single, memory=self.memory)

    def _monitor_every(self) -> int:
        """So seldom that scoring the held-out rows takes a fourth of the time, not most of it."""
        sampling, held_out = self.descent.plan.sampling, self.problem.held_out
        if sampling.fixed or held_out is None:
            return 1
        n = len(self.problem.X) - len(held_out)
        size = min(getattr(sampling, "size", n), n)
        # batches of rows are among themselves, and each of their pairs serves both
        step = size * size / 2 if isinstance(sampling, samplers.MiniBatches) else size * n
        # a score is a value without a gradient: less than half of the cost
        every = math.ceil(2 * len(held_out) * n / step)
        return max(1, min(every, self.steps // _SCORES))

    def there_and_back(self, theta: Array | None) -> Result:
        """Travel in float32 where that pays, and arrive in float64."""
        result = self.leg(theta)
        over = ("max_iter", "callback", "interrupted", "early_stopping", "time_budget")
        if not self.single or result.reason in over:
            return result
        try:
            # the memory of the solver stays good: only the last digits of the loss change
            self.state = self._refresh(self.problem, result.theta)
        except KeyboardInterrupt:
            result.reason, result.converged = "interrupted", False
            return result
        self.single, self.best = False, None
        return self.leg(None)

    def in_rounds(self, theta: Array | None, rounds: Renewal) -> Result:
        """Freeze the pairs, go down, renew the pairs; until that changes nothing any more."""
        self.last: Result | None = None
        try:
            return self._rounds(theta, rounds)
        except KeyboardInterrupt:  # between two legs
            if self.last is None:
                raise
            self.last.reason, self.last.converged = "interrupted", False
            return self.last

    def _rounds(self, theta: Array | None, rounds: Renewal) -> Result:
        top, top_score, stale = self.best, -np.inf, 0
        result: Result | None = None
        while True:
            here = theta if self.state is None else self.state.theta
            assert here is not None
            judged_by = self.judge
            problem, self.judge = rounds.freeze(self.problem, here)
            if top is not None and (top_score == -np.inf or self.judge is not judged_by):
                # of the run that is taken up, or by what was renewed: to be judged alike
                top_score = self._score(top)
            if self.state is not None and self.descent.plan.sampling.fixed:
                self.state = self._refresh(self._fun(problem), here)
                fresh = self.state.value
                if rounds.settled(fresh, self.descent.tol) and result is not None:
                    return self._settled(result)
            self.best, before = None, self.n_iter
            result = self.last = self.leg(theta, problem, rounds.length)
            steps = self.n_iter - before
            if problem.held_out is not None:  # the best of all rounds, judged alike
                score = self._score(result.theta)
                stale = 0 if score > top_score else stale + steps
                if top is None or score > top_score:
                    top, top_score = result.theta, score
                result.theta = top
                if stale >= self.descent.n_iter_no_change:
                    result.reason, result.converged = "early_stopping", True
            # at rest, or at the edge of where the lists can be trusted: look again from there
            again = result.reason in ("gradient", "loss", "stalled") and steps > 0
            if self.left <= 0 or (result.reason != "max_iter" and not again):
                return result

    def _score(self, theta: Array) -> float:
        return -np.inf if self.problem.held_out is None else self.judge.validation_score(theta)

    def _settled(self, result: Result) -> Result:
        """The end of rounds that lead nowhere any more."""
        if self.problem.held_out is None:
            result.theta, result.value = self.state.theta, self.state.value
        result.state, result.reason, result.converged = self.state, "loss", True
        return result


def _length(solver: Any) -> int:
    """How many steps the schedule of a planned solver has."""
    return int(solver.learning_rate.n_steps)
