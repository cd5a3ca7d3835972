"""What the functions that run a fit work with: its method, its plan, its seed, its time budget.

A fit cannot end with its last step: batches need a correction of the scale, and every fit embeds
its rows and computes a final loss.  How long that takes is measured on a few rows before the first
step.  The steps end that much earlier.  Where there is little time the correction and the loss use
fewer rows, or the correction and the importances of features are left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from vicinal import _clock, maps, samplers
from vicinal.core.problem import Problem
from vicinal.core.seeds import rng_for, step_seed
from vicinal.core.stages import FitResult
from vicinal.core.state import FitState
from vicinal.core.types import Array
from vicinal.fit.method import Config, Method
from vicinal.fit.plan import Plan, is_large
from vicinal.fit.report import Reports

REPAIR_QUERIES = 1000  # most rows that score the scale of a map learnt from few rows
_EVALUATION_ROWS = 2000  # sampled rows that estimate the loss of a fit without all pairs
_SEARCH_TOL = 1e-3  # of the runs of a search

_PROBED = 64  # rows whose loss is timed
_CORRECTION, _FINAL = 0.15, 0.05  # shares of the budget that the two may take
_IMPORTANCES = 0.03  # share of the budget that is kept back for them
_DOUBLE = 3.0  # times as long as in float32 it takes to embed rows in float64
_MARGIN = 1.25  # predictions are rough
_EVALUATIONS = 13  # of the loss, for a correction of the scale to one per cent
_LEAST_EVALUATIONS = 5
_LEAST_ROWS = 100
_EMBEDDINGS = 3  # after the last step, besides the embeddings for the losses
_LEAST_EMBEDDINGS = 2 * _EMBEDDINGS  # with those that time a loss and a step


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


def in_float32(problem: Problem) -> Problem:
    """The problem in float32 if it has many rows."""
    return problem.replace(dtype=np.float32) if is_large(len(problem.rows)) else problem


class Finish(NamedTuple):
    """Measured seconds: to embed all rows, and for the loss of one row against all others."""

    embed: float
    query: float

    def loss(self, rows: float) -> float:
        """Seconds for the loss of this many rows."""
        return self.embed + rows * self.query

    def rows_within(self, seconds: float) -> int:
        """How many rows' loss can be computed in that time."""
        return int(max(seconds - self.embed, 0.0) / max(self.query, 1e-9))


class Budget:
    """The time of one fit.

    Parameters
    ----------
    seconds : float or None
        ``time_budget``; None for no limit.
    began : float
        When the fit began, on the clock of ``_clock.now``.
    """

    def __init__(self, seconds: float | None, began: float) -> None:
        self.seconds, self.began = seconds, began
        #: what there was no time for, or not enough
        self.left_out: list[str] = []
        self._finish: Finish | None = None
        self._measured: Any = None

    def leave_out(self, what: str) -> None:
        """Note that something was left out, or not finished."""
        if what not in self.left_out:
            self.left_out.append(what)

    def deadline(self, share: float = 1.0) -> float | None:
        """When this share of the time is used up; None for no limit."""
        return None if self.seconds is None else self.began + share * self.seconds

    def measure(self, problem: Problem, theta: Array) -> None:
        """Time the loss of a few rows, unless that is known for problems of this size.

        If it is too late for any step, the loss counts as endless and is not timed.
        """
        size = (len(problem.rows), theta.size, problem.dtype)
        deadline = self.deadline()
        if deadline is None or self._measured == size:
            return
        self._finish, self._measured = Finish(0.0, math.inf), size
        began, compiled = _clock.now(), _clock.compiled_seconds()
        if began > deadline:
            return
        problem.embed(theta)
        embed = _clock.now() - began - (_clock.compiled_seconds() - compiled)
        self._finish = Finish(embed, math.inf)
        if _clock.now() + _LEAST_EMBEDDINGS * embed > deadline:
            return
        rows = problem.rows[:: max(1, len(problem.rows) // _PROBED)]
        problem.value(theta, rows[:2])  # compiles
        began = _clock.now()
        problem.value(theta, rows)
        loss = _clock.now() - began
        self._finish = Finish(embed, max(loss - embed, 0.0) / len(rows))

    def loss_seconds(self, rows: int) -> float | None:
        """Seconds for the loss of this many rows; None if that is not known."""
        return None if self._finish is None else self._finish.loss(rows)

    def passes_left(self) -> float:
        """How often all rows can be embedded in float64 before the deadline."""
        deadline = self.deadline()
        if deadline is None:
            return math.inf
        left = deadline - _clock.now()
        if self._finish is None or left <= 0.0:
            return math.inf if left > 0.0 else 0.0
        pass_seconds = self._finish.embed * (_DOUBLE if self._measured[2] == np.float32 else 1.0)
        return left / max(_MARGIN * pass_seconds, 1e-9)

    def correction(self, rows: int) -> tuple[int, int]:
        """Evaluations for a correction of the scale, and rows for each, of those wanted."""
        if self.seconds is None or self._finish is None:
            return _EVALUATIONS * 10, rows  # Brent's method stops by itself
        each = _CORRECTION * self.seconds / _EVALUATIONS
        affordable = self._finish.rows_within(each)
        if affordable >= _LEAST_ROWS:
            return _EVALUATIONS, min(rows, affordable)
        rows = min(rows, _LEAST_ROWS)
        count = int(_CORRECTION * self.seconds / max(self._finish.loss(rows), 1e-9))
        return int(np.clip(count, _LEAST_EVALUATIONS, _EVALUATIONS)), rows

    def loss_rows(self, rows: int) -> int:
        """For how many rows, of those wanted, there is time to compute a loss."""
        if self.seconds is None or self._finish is None:
            return rows
        affordable = self._finish.rows_within(_FINAL * self.seconds)
        return min(rows, max(affordable, _LEAST_ROWS))

    def reserve(
        self, correction_rows: int, loss_rows: int, losses: int = 1, importances: bool = False
    ) -> float:
        """Seconds to keep back for the work after the last step.

        Parameters
        ----------
        correction_rows : int
            Rows wanted for a correction of the scale; 0 if there is none.
        loss_rows : int
            Rows wanted for the final loss.
        losses : int, default=1
            How many such losses are computed.
        importances : bool, default=False
            Whether rows are embedded for the importances of features.
        """
        if self.seconds is None or self._finish is None:
            return 0.0
        finish, needed = self._finish, _EMBEDDINGS * self._finish.embed
        if correction_rows:
            count, rows = self.correction(correction_rows)
            needed += (count + 1) * finish.loss(rows)
        needed += losses * finish.loss(self.loss_rows(loss_rows))
        needed += importances * _IMPORTANCES * self.seconds
        return _MARGIN * needed
