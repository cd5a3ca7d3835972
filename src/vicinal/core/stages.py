"""Every fit is a training run through a list of stages; `training.py` runs them.

Fast iterations in float32, final ones in float64, lists of pairs that are refreshed every few
iterations: each is a stage, or a property of one.  A coarse start on few rows is a short run of
its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from vicinal.core.loop import Iteration
from vicinal.core.problem import Problem
from vicinal.core.state import Best, FitState
from vicinal.core.stopping import StopRule
from vicinal.core.types import Array, Sampler, Solver


class Refresh(Protocol):
    """Parts of a problem that stay fixed for ``length`` iterations and are then refreshed.

    ``report`` has an entry for each refresh.  What a refresh draws at random depends on its number
    alone, so that a resumed run draws the same.
    """

    report: dict[str, list]

    @property
    def length(self) -> int: ...

    def fix(self, problem: Problem, theta: Array) -> tuple[Problem, Problem]:
        """The problem to continue with from theta, and the problem to score with."""
        ...

    def settled(self, loss: float, tol: float) -> bool:
        """Whether the loss right after each refresh no longer falls."""
        ...

    def complaint(self) -> str | None:
        """A warning for the user at the end, or None."""
        ...

    def memory(self) -> dict[str, Any]:
        """All that later refreshes depend on, as plain data that does not change later."""
        ...

    def restore(self, memory: dict[str, Any]) -> None:
        """Continue from the `memory` of an earlier run."""
        ...


class Stage(NamedTuple):
    """One stage of a training run.

    Parameters
    ----------
    problem : Problem
        The problem to minimise, in the precision of the stage.
    solver : Solver
        Minimises it.
    stop : tuple of StopRule
        When to stop, besides the limits of the whole run.
    sampler : Sampler or None
        Which rows each step sees.  None: all of them.
    refresh : Refresh or None
        Refreshes parts of the problem every few iterations.
    score_every : int
        Number of iterations between scores of the held-out rows.
    """

    problem: Problem
    solver: Solver
    stop: tuple[StopRule, ...]
    sampler: Sampler | None = None
    refresh: Refresh | None = None
    score_every: int = 1

    @property
    def fixed(self) -> bool:
        """Whether every step sees the same rows."""
        return self.sampler is None or self.sampler.fixed


@dataclass
class FitResult:
    """The result of a training run."""

    theta: Array
    value: float
    n_iter: int
    converged: bool
    reason: str
    history: dict[str, list]
    state: FitState
    problem: Problem  # that of the last stage, over all pairs
    rounds: dict[str, list] = field(default_factory=dict)
    complaint: str | None = None
    path: tuple[str | int, ...] = ()  # the name of the run, which its draws depend on


class RunSnapshot(Protocol):
    """A run after an iteration, for those who watch it."""

    @property
    def scorer(self) -> Problem:
        """The problem over all pairs, in float64."""
        ...

    def state(self) -> FitState:
        """The state from which the run can be resumed."""
        ...

    def best(self) -> Best:
        """What the run would return if it stopped now."""
        ...


#: ``stop = on_iteration(info, problem, snapshot)``
OnIteration = Callable[[Iteration, Problem, RunSnapshot], Any]
