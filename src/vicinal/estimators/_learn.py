"""From a method and a plan to a learnt map: starts, stages, and the correction of the scale."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from vicinal import _clock, maps, samplers, solvers, starts
from vicinal.core.here import Here
from vicinal.core.journal import Journal, Record
from vicinal.core.method import Config, Method
from vicinal.core.problem import Problem, for_scaling
from vicinal.core.stages import FitResult, Refresh, Stage, train
from vicinal.core.stopping import Timed, TimeUp, stop_rules
from vicinal.core.types import Array, Solver
from vicinal.estimators._budget import Budget
from vicinal.estimators._plan import Plan, adam_for
from vicinal.estimators._resume import Resumable, schedule_length
from vicinal.estimators._split import hold_out
from vicinal.estimators._starts import Ended, best_of_starts
from vicinal.estimators._telling import Reports
from vicinal.targets.labels import class_codes

__all__ = ["SEARCH_STEPS", "SINGLE_FROM", "Learning", "Resumable", "evaluation_rows"]

SINGLE_FROM = 1000  # number of rows from which float32 is worth compiling
_EVALUATION_ROWS = 2000  # sampled rows that estimate the loss of a fit without all pairs
_SCORES = 10  # least number of scores of held-out rows in a run on batches
_REPAIR_PAIRS = 2e8  # pairs for the correction of the scale: as many as in some dozens of steps
_REPAIR_QUERIES = 1000  # most rows that score the scale of a map learnt from few rows
_TUNING_STEPS = 100  # steps of the longest runs that tune a rate; all runs together: some 700
_TUNING_SCORES = 40  # number of scores during the tuning
_TUNING_ROWS = 1000  # held-out rows per score
_OTHER_SCALE = (
    "The map collapsed, because the loss is flat at the scale of its start. The fit began again at "
    "another scale."
)
_SEARCH_TOL, SEARCH_STEPS = 1e-3, 40  # of the runs of a search


@dataclass(frozen=True)
class Learning:
    """The optimisation of one ``fit``, from its starts on.

    Parameters
    ----------
    method : Method
    config : Config
    plan : Plan
    rng : RandomState
        Draws starts, batches, lists and samples.
    reports : Reports
        Reports each iteration to the user and the callbacks.
    budget : Budget
        The time of the whole fit.
    searching : bool
        Whether this is part of a search for parameters, which may take half of the time.
    counts_all : bool
        Whether a run that goes on from a checkpoint counts the iterations before it, too.
    """

    method: Method
    config: Config
    plan: Plan
    rng: np.random.RandomState
    reports: Reports
    budget: Budget
    searching: bool = False
    counts_all: bool = False

    @property
    def deadline(self) -> float | None:
        """When the work must have ended, on the clock of ``_clock.now``."""
        return self.budget.deadline(0.5 if self.searching else 1.0)

    @property
    def last_step(self) -> float | None:
        """When the last step must have ended, so that there is time for what comes after it."""
        return self._before(_REPAIR_QUERIES if self.plan.corrects_scale else 0)

    def _before(self, correction_rows: int) -> float | None:
        """When work must have ended to leave time for the rest, a correction of the scale first."""
        if self.deadline is None:
            return None
        # the results of several starts are compared by their losses
        losses = 2 if self.method.n_starts > 1 else 1
        bends = maps.bends(self.method.mapping) and not self.searching
        return self.deadline - self.budget.reserve(correction_rows, _EVALUATION_ROWS, losses, bends)

    def learn(self, problem: Problem) -> FitResult:
        """The best result of the training runs from all starts."""
        return self.record.step("starts", lambda: best_of_starts(self, problem), keep=False)

    @property
    def journal(self) -> Journal:
        """The finished steps of the fit."""
        return self.reports.journal

    @property
    def record(self) -> Record:
        """The journal, for steps that draw from this generator."""
        return Record(self.reports.journal, self.rng)

    def is_late(self, seconds: float) -> bool:
        """Whether work of so many seconds would leave no time for what comes after it."""
        return self.last_step is not None and _clock.now() + seconds > self.last_step

    def start(self, problem: Problem) -> Array:
        """The first theta, improved on a few rows if the method has a coarse start."""
        # a start that iterates may take half of the time
        until = None if self.deadline is None else _clock.now() + 0.5 * self._seconds_left()
        reporter = self.reports.start_reporter(self.searching, self.rng, until)
        if not self.searching:
            self.reports.doing("preparing the start")
        coarse = self.method.coarse(problem, self.rng)
        if coarse is None:
            return self.method.start(problem, self.rng, reporter)
        seconds = None if self.deadline is None else 0.3 * self._seconds_left()
        few = coarse.problem
        theta = self.method.start(few, self.rng, reporter)
        # these few rows are the same at every step, which a solver for batches does not use
        solver = self.plan.solver
        if solver is None or not self.plan.sampling.fixed:
            solver = self.method.solver
        rules = stop_rules(solver, tol=coarse.tol, units=problem.units, flat_loss=_is_flat(problem))
        result = train(
            [Stage(few, solver, rules)],
            theta,
            max_iter=coarse.max_iter,
            deadline=None if seconds is None else _clock.now() + seconds,
            on_iteration=lambda info, at, state: reporter(info, at),
        )
        reporter.say(f"the start was improved on {len(few.X)} rows, in {result.n_iter} iterations")
        if result.reason == "interrupted":
            raise KeyboardInterrupt
        return coarse.finish(result.theta)

    def loss_of(self, result: FitResult) -> float:
        """The loss by which results are compared; lower is better."""
        return self._loss(result.problem, result.theta, result.value)

    def _loss(self, problem: Problem, theta: Array, value: float) -> float:
        if problem.held_out is not None:
            return -problem.validation_score(theta)
        if self.plan.exact:
            return value
        # losses of different rows, or over different lists, cannot be compared
        return problem.value(theta, self.loss_rows(problem, np.random.RandomState(0)))

    def loss_rows(self, problem: Problem, rng: np.random.RandomState) -> Array | None:
        """The rows that estimate the loss of a map; None for all of them."""
        rows = None if self.plan.exact else evaluation_rows(problem, rng)
        n = len(problem.rows) if rows is None else len(rows)
        most = self.budget.loss_rows(n)
        if most == n:
            return rows
        return np.sort(rng.permutation(problem.rows if rows is None else rows)[:most])

    def run(
        self, problem: Problem, theta: Array | None = None, resumed: Resumable | None = None
    ) -> FitResult:
        """One training run: from a map, from a start, or from the state of an earlier run."""
        if resumed is None or self.journal.resumes("start"):
            theta = self.record.step(
                "start", lambda: self.start(problem) if theta is None else theta
            )
        ended = self.record.take("collapsed")
        if ended is not None:
            result = self.rebuilt(problem, ended)
        else:
            result = self._run(problem, theta, resumed)
        if self.searching or result.reason == "interrupted":
            return result  # a search never chooses a collapsed map
        told = self._collapsed(result)
        if told is None:
            return result
        self.record.put("collapsed", Ended.of(result))
        return self._instead_of_collapsed(problem, theta, result, told)

    def _run(self, problem: Problem, theta: Array | None, resumed: Resumable | None) -> FitResult:
        cut = state = self.journal.take_state()  # of a run that was cut
        left = None if state is None else state.left
        if state is None and resumed is not None:
            state, left = resumed.state, resumed.steps_left(self.plan)
        at = theta if state is None else state.best.theta
        assert at is not None
        # in the precision of the loss after the last step
        self.budget.measure(problem if self.plan.exact else _in_float32(problem), at)
        if state is not None:
            solver = state.part
        else:
            solver = self.record.step("solver", lambda: self._solver(problem, at))
        # a schedule may be shorter than `max_iter` for lack of time
        most = self.plan.max_iter if self.plan.solver is not None else schedule_length(solver)
        left = most if left is None else left
        result = train(
            self._stages(problem, solver),
            theta,
            state,
            max_iter=left,
            tol=self.config.tolerance,
            patience=self.config.n_iter_no_change,
            deadline=self.last_step,
            on_iteration=self.reports.on_iteration(self.searching),
            random_state=self.rng,
        )
        if self.counts_all and cut is not None:
            result.n_iter += most - left
        if self.plan.corrects_scale and not self.method.batches_keep_scale:
            if not self.searching:
                self.reports.doing("correcting the scale of the map")
            try:
                factor = self._repair(result.problem, result.theta)
                result.theta = problem.scaled(result.theta, factor)
            except KeyboardInterrupt:
                result.reason, result.converged = "interrupted", False
        if result.reason == "max_iter" and (self.plan.noisy or self.config.tol is None):
            # Noisy losses cannot show convergence, and without a tolerance there is none to show:
            # reaching `max_iter` counts as success.
            result.converged = True
        if result.reason in ("interrupted", "time_budget") and not self.searching:
            self.journal.mark_cut(self.journal.here(result.state))
        return result

    def rebuilt(self, problem: Problem, ended: Ended) -> FitResult:
        """The result of a run that an earlier fit has made."""
        stages, rng = self._stages(problem, ended.state.part), self.rng.get_state()
        if stages[0].refresh is None:
            return ended.result(problem.replace(dtype=np.float64))
        again = train(stages, None, ended.state, max_iter=0, random_state=self.rng)
        self.rng.set_state(rng)
        return ended.result(again.problem)

    def if_stopped(self, problem: Problem, here: Here) -> tuple[Array, Problem]:
        """The parameters that the fit would keep if it stopped here, and their problem."""
        best, whole = here.best(), here.scorer
        theta = best.theta
        if self.plan.corrects_scale and not self.method.batches_keep_scale:
            theta = problem.scaled(theta, self._repair(whole, theta))
        earlier = self.journal.recorded("best")
        if earlier is None or self._loss(whole, theta, best.value) < earlier.loss:
            return theta, whole
        return earlier.ended.theta, self.rebuilt(problem, earlier.ended).problem

    def _collapsed(self, result: FitResult) -> str | None:
        """The warning if the map maps all rows to nearly the same point, or None."""
        return self.method.collapse_warning(result.problem.embed(result.theta), result.problem)

    def _instead_of_collapsed(
        self, problem: Problem, theta: Array | None, result: FitResult, told: str
    ) -> FitResult:
        """A run from a better scale, or the start itself: a collapsed map is no result.

        The zero map is stationary, so no run leaves it.  A run gets there from a scale at which the
        loss is flat, so that only the penalty has a gradient, or if the penalty outweighs the loss
        everywhere.
        """
        rng = np.random.RandomState(0)  # a resumed fit has made other draws before
        reporter = self.reports.start_reporter(True, rng)
        start = self.method.start(problem.replace(alpha=0.0), rng, reporter)
        rescale = getattr(self.method.start, "rescale", None)
        if rescale is not None:
            again = rescale(problem, start, rng)
            if not self.is_late(0.0) and (theta is None or not np.allclose(theta, again)):
                second = self.record.step(
                    "second", lambda: self._run(problem, again, None), keep=False
                )
                if self._collapsed(second) is None:
                    second.complaint = _OTHER_SCALE
                    return second
            start = rescale(problem.replace(alpha=0.0), start, rng)
        result.theta, result.value = start, problem.value(start)
        result.complaint = f"{told} The start is kept instead."
        return result

    def _stages(self, problem: Problem, solver: Solver) -> list[Stage]:
        """A stage in float32 for large data, then one in float64 if losses can be compared."""
        plan = self.plan
        refresh = self.method.refresh(plan, self.rng)
        single = len(problem.rows) >= SINGLE_FROM
        whole = self._stage(problem, solver, refresh)
        if not single:
            return [whole]
        fast = self._stage(problem.replace(dtype=np.float32), solver, refresh)
        return [fast, whole] if _continues(plan, refresh) and not self.searching else [fast]

    def _stage(self, problem: Problem, solver: Solver, refresh: Refresh | None) -> Stage:
        plan, tol = self.plan, self.config.tolerance
        if problem.dtype == np.float32 and (tol >= 0 or _continues(plan, refresh)):
            tol = max(tol, 1e-5)  # losses in float32 have no more digits
        rules = stop_rules(
            solver,
            tol=tol,
            units=problem.units,
            patience=self.config.n_iter_no_change,
            flat_loss=_is_flat(problem),
        )
        full = isinstance(plan.sampling, samplers.Full)
        steps = plan.max_iter if plan.solver is not None else schedule_length(solver)
        every = self._score_every(problem, steps)
        return Stage(problem, solver, rules, None if full else plan.sampling, refresh, every)

    def _score_every(self, problem: Problem, steps: int) -> int:
        """Iterations between scores, so that scoring takes only a quarter of the time."""
        sampling, held_out = self.plan.sampling, problem.held_out
        if sampling.fixed or held_out is None:
            return 1
        n = len(problem.X) - len(held_out)
        size = min(getattr(sampling, "size", n), n)
        # rows of a batch pick among themselves, and each of their pairs serves both rows
        step = size * size / 2 if sampling.thins_rows else size * n
        # a score is a value without a gradient, at less than half the cost
        every = math.ceil(2 * len(held_out) * n / step)
        return max(1, min(every, steps // _SCORES))

    def _solver(self, problem: Problem, theta: Array) -> Solver:
        """The solver, with its rate chosen at the start."""
        solver = self.plan.solver
        if solver is None:
            steps = self._affordable(problem, theta)
            return adam_for(problem, theta, steps, self.method.relative_rate)
        if isinstance(solver, solvers.SGD) and solver.learning_rate is None:
            return self._tune(problem, theta, solver)
        return solver

    def _seconds_left(self) -> float:
        """Seconds for the steps."""
        assert self.last_step is not None
        return max(0.0, self.last_step - _clock.now())

    def _affordable(self, problem: Problem, theta: Array) -> int:
        """Number of steps that there is time for: a schedule must be completed to converge."""
        if self.deadline is None:
            return self.plan.max_iter
        if self.is_late(0.0):  # to make steps in order to time them
            return 1
        steps = self._seconds_left() / self._seconds_a_step(problem, theta)
        return int(np.clip(steps, 1, self.plan.max_iter))

    def _seconds_a_step(self, problem: Problem, theta: Array) -> float:
        fun = _in_float32(problem)
        deal = self.plan.sampling.dealer(problem.source, np.random.RandomState(0))
        batch = deal(theta, np.random.RandomState(0))[0]
        fun(theta, batch)  # compiles, and fills the cache
        began = _clock.now()
        fun(theta, batch)
        return 1.2 * max(_clock.now() - began, 1e-9)

    def _tune(self, problem: Problem, theta: Array, solver: solvers.SGD) -> Solver:
        """Tune t0 on held-out rows, as in the thesis ([Oneata2011] section 5.3.2)."""
        if self.is_late(0.0):
            return solver  # with its untuned rate
        single = len(problem.rows) >= SINGLE_FROM
        if problem.held_out is None:
            # taken from the training rows, since a search scores with the others
            rows, strata = problem.rows, problem.target.strata
            learn, score = hold_out(
                class_codes(strata, len(problem.X))[rows],
                self.config.validation_fraction,
                self.rng,
                "solver='sgd', which tunes its rate,",
            )
            score = np.sort(self.rng.permutation(score)[:_TUNING_ROWS])
            problem = problem.replace(train=rows[learn], held_out=rows[score])
        fun = problem.replace(dtype=np.float32) if single else problem
        # no longer than the run itself: a rate that is good in the end may begin too high
        n_steps = int(np.clip(self.plan.max_iter, 4, _TUNING_STEPS))
        if self.deadline is not None:  # all steps and scores may take half of the time left
            each = self._seconds_a_step(problem, theta)
            began = _clock.now()
            fun.validation_score(theta)
            scores = _TUNING_SCORES * (_clock.now() - began)
            affordable = (0.5 * self._seconds_left() - scores) / (10 * each)
            if affordable < 4:
                return solver
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
        """The factor that corrects the scale of a map learnt from few rows.

        [Oneata2011] section 4.1: a sub-sample is less dense than all rows.  The objective is that
        of the scale of a start: accuracy would tend to a hard nearest neighbour.
        """
        problem = problem.replace(objective=for_scaling(problem.objective))
        rows = problem.rows
        queries = int(np.clip(_REPAIR_PAIRS / len(rows), 200, _REPAIR_QUERIES))
        evaluations, queries = self.budget.correction(queries)
        if len(rows) > queries:
            # a new generator, since a resumed fit has made other draws before
            rng = np.random.RandomState(0)
            rows = np.sort(rng.permutation(rows)[:queries])
        fun = problem.replace(dtype=np.float32) if len(problem.X) >= SINGLE_FROM else problem
        until = self._before(0)
        timed = Timed(
            lambda s, batch: fun.value(fun.scaled(theta, s), rows),
            math.inf if until is None else until,
            self.budget.loss_seconds(len(rows)),
        )

        def loss(s: float) -> float:
            try:
                return timed(s)
            except TimeUp:
                self.budget.leave_out("the correction of the scale of the map")
                raise

        return starts.repair_scale(loss, max_evaluations=evaluations)

    def for_search(self, n_steps: int = SEARCH_STEPS) -> Learning:
        """The same for a search: coarse, on all pairs of few rows, and without a change of the fit.

        The best penalty or rank depends neither on the solver nor on the last digits of a map.
        """
        rng = np.random.RandomState()
        rng.set_state(self.rng.get_state())
        plan = self.plan._replace(
            solver=self.method.solver,
            sampling=samplers.Full(),
            pairs=None,
            max_iter=min(self.plan.max_iter, n_steps),
        )
        config = replace(self.config, tol=max(self.config.tol or 0.0, _SEARCH_TOL))
        return replace(self, rng=rng, searching=True, plan=plan, config=config)


def _continues(plan: Plan, refresh: Refresh | None) -> bool:
    """Whether a stage in float64 follows one in float32."""
    return refresh is None and plan.sampling.fixed


def evaluation_rows(problem: Problem, rng: np.random.RandomState) -> Array | None:
    """A sample of the training rows that estimates the loss; None for all of them."""
    rows = problem.rows
    if len(rows) <= _EVALUATION_ROWS:
        return None
    return np.sort(rng.permutation(rows)[:_EVALUATION_ROWS])


def _in_float32(problem: Problem) -> Problem:
    """The problem in float32 if it has many rows."""
    return problem.replace(dtype=np.float32) if len(problem.rows) >= SINGLE_FROM else problem


def _is_flat(problem: Problem) -> bool:
    """Whether the loss is flat far from its minimum, so that one small step is not convergence."""
    return getattr(problem.mapping, "gradient_floor", 1.0) < 1.0
