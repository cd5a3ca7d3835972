"""What the functions that run a fit work with: its method, its plan, its seed, its time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from vicinal import _clock, maps, samplers
from vicinal.core.problem import Problem
from vicinal.core.seeds import rng_for, step_seed
from vicinal.core.stages import FitResult
from vicinal.core.state import FitState
from vicinal.core.types import Array
from vicinal.fit.budget import Budget
from vicinal.fit.method import Config, Method
from vicinal.fit.plan import Plan
from vicinal.fit.report import Reports

SINGLE_FROM = 1000  # number of rows from which float32 is worth compiling
REPAIR_QUERIES = 1000  # most rows that score the scale of a map learnt from few rows
_EVALUATION_ROWS = 2000  # sampled rows that estimate the loss of a fit without all pairs
_SEARCH_TOL = 1e-3  # of the runs of a search


class EndedRun(NamedTuple):
    """The result of a run without its problem: plain data, as `FitState` is."""

    theta: Array
    value: float
    n_iter: int
    converged: bool
    reason: str
    state: FitState
    rounds: dict[str, list]
    complaint: str | None
    path: tuple[str | int, ...] = ()

    @classmethod
    def of(cls, result: FitResult) -> EndedRun:
        """The result without its problem."""
        rounds = {name: list(entries) for name, entries in result.rounds.items()}
        return cls(
            result.theta,
            result.value,
            result.n_iter,
            result.converged,
            result.reason,
            result.state,
            rounds,
            result.complaint,
            result.path,
        )

    def result(self, problem: Problem) -> FitResult:
        """The result, with its problem."""
        return FitResult(*self[:5], self.state.history, self.state, problem, *self[6:])


class BestRun(NamedTuple):
    """The best run of the finished starts, and its loss."""

    loss: float
    run: EndedRun


@dataclass
class FitRecord:
    """What a running fit has finished, for checkpoints and for a fit that resumes it.

    Parameters
    ----------
    trials : dict of lists of Trial
        The finished candidates of a search, by the parameter they are candidates for.
    n_starts : int
        The number of finished starts, if there are several.
    best : BestRun or None
        The best of them.
    collapsed : EndedRun or None
        The first run from the present start, if its map has collapsed and a second one was begun.
    continues : bool
        Whether the run continues an earlier fit instead of beginning with a start.
    search_cut, start_cut : bool
        Whether the search or the present start was stopped before it had ended.
    """

    trials: dict[str, list[Any]] = field(default_factory=dict)
    n_starts: int = 0
    best: BestRun | None = None
    collapsed: EndedRun | None = None
    continues: bool = False
    search_cut: bool = False
    start_cut: bool = False


@dataclass(frozen=True)
class FitContext:
    """What the functions that run a fit work with.

    Parameters
    ----------
    method : Method
    config : Config
    plan : Plan
    seed : int
        Of the whole fit; each step draws from a generator of its own (`rng`).
    reports : Reports
        Reports each iteration to the user and the callbacks.
    budget : Budget
        The time of the whole fit.
    record : FitRecord
        What the fit has finished so far.
    searching : bool
        Whether this is part of a search for parameters, which may take half of the time.
    path : tuple of str or int
        Names the run at hand: the fold of a search, the number of its start.
    counts_all : bool
        Whether a run that goes on from a checkpoint counts the iterations before it, too.
    """

    method: Method
    config: Config
    plan: Plan
    seed: int
    reports: Reports
    budget: Budget
    record: FitRecord = field(default_factory=FitRecord)
    searching: bool = False
    path: tuple[str | int, ...] = ()
    counts_all: bool = False

    def rng(self, step: str) -> np.random.RandomState:
        """The generator of a step of the run at hand."""
        return rng_for(self.seed, step, *self.path)

    def step_seed(self, step: str) -> int:
        """The seed of a step of the run at hand."""
        return step_seed(self.seed, step, *self.path)

    def at(self, *name: str | int) -> FitContext:
        """The same for a part of the run at hand."""
        return replace(self, path=(*self.path, *name))

    def of(self, path: tuple[str | int, ...]) -> FitContext:
        """The same for the run of this name."""
        return replace(self, path=tuple(path))

    def for_search(self, n_steps: int) -> FitContext:
        """The same for a search: coarse, on all pairs of few rows.

        The best penalty or rank depends neither on the solver nor on the last digits of a map.
        """
        plan = self.plan._replace(
            solver=self.method.solver,
            sampling=samplers.Full(),
            neighborhood=None,
            max_iter=min(self.plan.max_iter, n_steps),
        )
        config = replace(self.config, tol=max(self.config.tol or 0.0, _SEARCH_TOL))
        # a trial's own starts and attempts are not part of what a resumed fit looks up
        return replace(self, searching=True, plan=plan, config=config, record=FitRecord())

    @property
    def deadline(self) -> float | None:
        """When the work must have ended, on the clock of ``_clock.now``."""
        return self.budget.deadline(0.5 if self.searching else 1.0)

    @property
    def last_step(self) -> float | None:
        """When the last step must have ended, so that there is time for what comes after it."""
        return self.time_before(REPAIR_QUERIES if self.plan.corrects_scale else 0)

    def time_before(self, correction_rows: int) -> float | None:
        """When work must have ended to leave time for the rest, a correction of the scale first."""
        if self.deadline is None:
            return None
        # the results of several starts are compared by their losses
        losses = 2 if self.method.n_starts > 1 else 1
        nonlinear = maps.bends(self.method.mapping) and not self.searching
        reserve = self.budget.reserve(correction_rows, _EVALUATION_ROWS, losses, nonlinear)
        return self.deadline - reserve

    @property
    def seconds_left(self) -> float | None:
        """Seconds for the steps; None without a time budget."""
        last = self.last_step
        return None if last is None else max(0.0, last - _clock.now())

    def is_late(self, seconds: float) -> bool:
        """Whether work that takes these seconds would leave no time for what comes after it."""
        last = self.last_step
        return last is not None and _clock.now() + seconds > last

    def loss_rows(self, problem: Problem) -> Array | None:
        """The rows that estimate the loss of a map; None for all of them."""
        rng, rows = rng_for(self.seed, "loss"), None
        if not self.plan.exact and len(problem.rows) > _EVALUATION_ROWS:
            rows = np.sort(rng.permutation(problem.rows)[:_EVALUATION_ROWS])
        n = len(problem.rows) if rows is None else len(rows)
        most = self.budget.loss_rows(n)
        if most == n:
            return rows
        return np.sort(rng.permutation(problem.rows if rows is None else rows)[:most])

    def loss_of(self, problem: Problem, theta: Array, value: float) -> float:
        """The loss by which results are compared; lower is better."""
        if problem.held_out is not None:
            return -problem.validation_score(theta)
        if self.plan.exact:
            return value
        # losses of different rows, or over different lists, cannot be compared
        return problem.value(theta, self.loss_rows(problem))


def is_large(n_rows: int) -> bool:
    """Whether float32 is worth compiling for this many rows."""
    return n_rows >= SINGLE_FROM


def in_float32(problem: Problem) -> Problem:
    """The problem in float32 if it has many rows."""
    return problem.replace(dtype=np.float32) if is_large(len(problem.rows)) else problem
