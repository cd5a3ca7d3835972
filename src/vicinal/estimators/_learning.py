"""Learning inside ``fit``: from each start down, and what callbacks and the user hear of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from vicinal import solvers
from vicinal._callback_support import IterationReporter
from vicinal._features import unscaled
from vicinal.core.problem import Problem
from vicinal.core.types import Array, Result
from vicinal.estimators._descent import Descent, Memory, Outcome
from vicinal.estimators._parts import Parts

__all__ = ["Learning", "Told", "judges"]

_JUDGES = 2000  # rows that tell the loss of a fit that did not look at all pairs


class Told(NamedTuple):
    """What the callbacks are told of: an iteration, where it was made, how to go on from it."""

    history: dict[str, list]
    info: solvers.Iteration
    problem: Problem
    memory: Callable[[Result], Memory]
    searching: bool = False


class Learning:
    """One ``fit`` of an estimator, from its starts down.

    Parameters
    ----------
    owner : estimator
    rng : RandomState
    report : IterationReporter
        Tells the callbacks.
    began : float
        When the time budget began to run, in ``time.perf_counter``.
    """

    def __init__(self, owner: Any, rng: Any, report: IterationReporter, began: float) -> None:
        self.owner, self.rng, self.report = owner, rng, report
        self.deadline = None if owner.time_budget is None else began + owner.time_budget
        self.began = began

    def with_rng(self, rng: Any) -> Learning:
        """The same, with another source of chance."""
        return Learning(self.owner, rng, self.report, self.began)

    @property
    def search_deadline(self) -> float | None:
        """A search may take half of the time."""
        return None if self.deadline is None else self.began + 0.5 * self.owner.time_budget

    def learn(self, problem: Problem, parts: Parts, carried: Array | None = None) -> Outcome:
        """Descend from each start; what the best came to.

        ``carried``, the map of a search, is one more start, and the first.
        """
        again = self._again(problem, parts)
        if again is not None:
            return again
        runs: list[Outcome] = []
        reason = None
        starts: list[Array | None] = [None] * getattr(parts.start, "n_init", 1)
        for given in starts if carried is None else [carried, *starts]:
            try:
                if given is None:
                    given = self.start(problem, parts)
                runs.append(self.descend(problem, parts, given))
            except KeyboardInterrupt:
                if not runs:
                    raise
                reason = "interrupted"
            else:
                reason = runs[-1].result.reason
            if reason in ("callback", "interrupted", "time_budget"):
                break
        best = min(runs, key=self.judge) if len(runs) > 1 else runs[0]
        if reason in ("callback", "interrupted", "time_budget"):
            best.result.reason, best.result.converged = reason, False
        return best

    def _again(self, problem: Problem, parts: Parts) -> Outcome | None:
        """Go on from the last fit, as ``warm_start`` asks; None where there is nothing to."""
        owner = self.owner
        if not owner.warm_start:
            return None
        memory = getattr(owner, "_memory", None)
        if memory is not None and memory.fits(parts.plan, parts.mapping, problem.X.scale):
            return self.descend(problem, parts, memory=memory)
        shape = (parts.d, problem.X.shape[1])
        if hasattr(owner, "components_") and owner.components_.shape == shape:
            theta = problem.mapping.theta(unscaled(owner.components_, problem.X.scale))
            if theta.any():
                return self.descend(problem, parts, theta)
        return None

    def start(self, problem: Problem, parts: Parts, searching: bool = False) -> Array:
        """The first theta."""

        def tell(info: solvers.Iteration, at: Problem) -> bool:
            # like a search, annealing has losses that are not those of the fit
            return self._tell(info, at, False, memory=_nothing, searching=True)

        deadline = self.search_deadline if searching else self.deadline
        return self.owner._first_theta(parts, problem, self.rng, tell, searching, deadline)

    @staticmethod
    def judge(outcome: Outcome) -> float:
        """What descents are compared by: the lower, the better."""
        problem, result = outcome.problem, outcome.result
        if problem.held_out is not None:
            return -problem.validation_score(result.theta)
        if outcome.memory.plan.exact:
            return result.value
        # the losses of other rows, or of other lists, cannot be compared
        return problem.value(result.theta, judges(problem, np.random.RandomState(0)))

    def descend(
        self,
        problem: Problem,
        parts: Parts,
        theta: Array | None = None,
        memory: Memory | None = None,
        searching: bool = False,
    ) -> Outcome:
        """One descent as planned."""
        owner = self.owner
        descent = Descent(
            parts.plan,
            tol=owner.tol,
            unit=owner._unit(problem),
            slope_unit=owner._slope_unit(problem, memory.result.theta if memory else theta),
            patient=owner._patient,
            n_iter_no_change=owner.n_iter_no_change,
            rng=self.rng,
            tell=partial(self._tell, searching=searching),
            scale_objective=owner._scale_objective(),
            rounds=partial(owner._rounds, parts.plan, self.rng),
            validation_fraction=owner.validation_fraction,
            deadline=self.search_deadline if searching else self.deadline,
        )
        return descent(problem, theta, memory)

    def _tell(
        self,
        info: solvers.Iteration,
        problem: Problem,
        single: bool,
        memory: Callable[[Result], Memory],
        searching: bool,
    ) -> bool:
        """Print and report an iteration; whether a callback asks to stop."""
        history, name = info.history, type(self.owner).__name__
        if searching:  # the losses of a search are not those of the fit
            history = {**history, "loss": [math.nan]}
        elif self.owner.verbose:
            score = "" if np.isnan(info.validation_score) else f" {info.validation_score:12.6f}"
            print(
                f"[{name}] {info.iteration:5d} {info.loss:14.8f} "
                f"{info.grad_norm:10.2e}{score} {info.seconds:9.2f}s"
            )
        # the start is iteration 0: callbacks count from 1
        if info.iteration == 0:
            return False
        stop = self.report(Told(history, info, problem, memory, searching))
        return stop or self.report.stopped  # what was asked of the search holds for the fit too


def _nothing(result: Result) -> Any:
    """An annealed start cannot be gone on from: the few steps since are nothing to keep."""
    return None


def judges(problem: Problem, rng: Any) -> Array | None:
    """Some of the rows learnt from, whose loss stands for that of all; None for all of them."""
    rows = np.arange(len(problem.X)) if problem.train is None else problem.train
    return None if len(rows) <= _JUDGES else np.sort(rng.permutation(rows)[:_JUDGES])
