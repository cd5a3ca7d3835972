"""Every fit is a training run through a list of stages.

Fast iterations in float32, final ones in float64, lists of pairs that are refreshed every few
iterations: each is a stage, or a property of one.  A coarse start on few rows is a short run of
its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from vicinal import _clock
from vicinal.core.batches import fixed_batch
from vicinal.core.evaluation import refresh
from vicinal.core.here import Here
from vicinal.core.loop import Iteration, LoopStart, Recipe, limited, run_stage
from vicinal.core.problem import Problem, Tracked
from vicinal.core.rounds import refresh_loop
from vicinal.core.state import Best, FitState, Round
from vicinal.core.stopping import ENDS_TRAINING, NearEdge, StopRule, TimeBudget, Timed
from vicinal.core.types import Array, Result, Sampler, Solver

__all__ = ["FitResult", "Refresh", "Stage", "train"]


class Refresh(Protocol):
    """Parts of a problem that stay fixed for ``length`` iterations and are then refreshed.

    ``report`` has an entry for each refresh.  What is drawn at random comes from the generator that
    `train` was given.  ``kept`` is what states of older versions hold.
    """

    report: dict[str, list]
    kept: Any

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


#: ``stop = on_iteration(info, problem, here)``; ``here()`` makes the current FitState
OnIteration = Callable[[Iteration, Problem, Here], Any]


def train(
    stages: Sequence[Stage],
    theta: Array | None = None,
    state: FitState | None = None,
    *,
    max_iter: int = 200,
    tol: float = 1e-5,
    patience: int = 10,
    deadline: float | None = None,
    on_iteration: OnIteration | None = None,
    random_state: int | np.random.RandomState | None = None,
) -> FitResult:
    """Run the stages, from a start or from the state of an earlier run.

    Parameters
    ----------
    stages : sequence of Stage
    theta : array or None
        The start; None with a ``state``.
    state : FitState or None
        State of a run to resume: from an earlier `FitResult`, from ``on_iteration``, or read from
        a file.  The stages must be those of that run, and ``random_state``, if it is a RandomState,
        is set to where it was.
    max_iter : int
        Largest number of iterations of this call, over all stages.
    tol : float
        Tolerance that decides when a stage with a `Refresh` is settled.
    patience : int
        A stage with a `Refresh` stops after this many iterations without a better score.
    deadline : float or None
        On the clock of ``_clock.now``; no evaluation, refresh or stage begins that would probably
        end later, except the first evaluation.
    on_iteration : callable or None
        ``on_iteration(info, problem, here)`` is called after each iteration; if it returns a true
        value, the run stops.  ``here()`` gives the current `FitState`.
    random_state : int, RandomState or None
        For the samplers.

    Returns
    -------
    FitResult
    """
    run = _Training(stages, max_iter, tol, patience, deadline, on_iteration, random_state)
    first = 0
    if state is not None:
        first = min(state.stage, len(stages) - 1)
        run.resume(state._replace(stage=first))
    for number in range(first, len(stages)):
        if number > first and not run.has_time_for_next_stage():
            break
        entered = run.enter(number, theta, resumed=state is not None and number == first)
        if not entered:
            break
        run.run(theta)
        if run.result.reason in ENDS_TRAINING:
            break
    return run.finished()


class _Training:
    """A running training: what one stage passes on to the next."""

    def __init__(
        self,
        stages: Sequence[Stage],
        max_iter: int,
        tol: float,
        patience: int,
        deadline: float | None,
        on_iteration: OnIteration | None,
        random_state: Any,
    ) -> None:
        self.stages, self.left, self.tol, self.patience = stages, max_iter, tol, patience
        self.deadline, self.on_iteration, self.random_state = deadline, on_iteration, random_state
        self.number = 0
        self.solver_state: Any = None
        self.history: dict[str, list] | None = None
        self.sampling: Any = None
        self.best: Array | None = None
        self.map_size: float | None = None
        self.window: tuple[Any, Best] | None = None  # of the loop that is resumed
        self.pending = False
        self.round: Round | None = None
        self.n_iter = 0
        self.last_iteration = max_iter  # its number, if no rule stops the run before
        self.evaluation_seconds: float | None = None  # of the last evaluation
        self.compiled_before = _clock.compiled_seconds()
        self.scorer: Problem  # over all pairs, in float64
        self.result: Result  # of the last loop

    @property
    def stage(self) -> Stage:
        return self.stages[self.number]

    def resume(self, state: FitState) -> None:
        """Continue from the state of an earlier run."""
        stage = self.stages[state.stage]._replace(solver=state.part)
        self.stages = [stage if i == state.stage else s for i, s in enumerate(self.stages)]
        self.number = state.stage
        self.solver_state, self.sampling = state.solver, state.sampling
        self.history, self.best = state.history, state.best.theta
        self.map_size = float(np.abs(state.best.theta).max(initial=0.0) or 1.0)
        self.last_iteration += state.history["iteration"][-1]
        self.round, self.pending = state.round, state.pending
        if state.window is not None:
            self.map_size, self.window = state.window.map_size, (state.window, state.best)
        if stage.refresh is not None:
            stage.refresh.kept = state.kept
        self.set_generator(state.rng)

    def generator(self) -> Any:
        """The state of the random generator; None if ``random_state`` is a number or None."""
        rng = self.random_state
        return rng.get_state() if isinstance(rng, np.random.RandomState) else None

    def set_generator(self, state: Any) -> None:
        """Set the random generator to a state from `generator`."""
        if state is not None and isinstance(self.random_state, np.random.RandomState):
            self.random_state.set_state(state)

    def has_time_for_next_stage(self) -> bool:
        """Whether the next stage, in another precision, can make its first steps in time.

        Its code may have to be compiled, as that of this stage was; float64 takes twice as long.
        """
        compiled = _clock.compiled_seconds() - self.compiled_before
        return self.has_time(compiled + 4.0 * (self.evaluation_seconds or 0.0))

    def has_time(self, seconds: float) -> bool:
        """Whether there is so much time; if not, the run ends here."""
        if self.deadline is None or _clock.now() + seconds <= self.deadline:
            return True
        self.result.reason, self.result.converged = TimeBudget.name, False
        return False

    def enter(self, number: int, theta: Array | None, resumed: bool) -> bool:
        """Begin a stage; False if an interrupt came between two stages."""
        before, self.number = self.number, number
        stage = self.stage
        self.scorer = stage.problem.replace(dtype=np.float64)
        try:
            if resumed:
                if stage.fixed and self.round is None:
                    self.refresh(stage.problem, self.solver_state.theta)
            elif number > before:
                # The memory of the solver stays valid: only the last digits of the loss change.
                self.refresh(stage.problem, self.result.theta)
                self.best = self.round = None
        except KeyboardInterrupt:
            if resumed:
                raise
            self.number = before
            self.result.reason, self.result.converged = "interrupted", False
            return False
        return True

    def refresh(self, problem: Problem, theta: Array) -> None:
        """Evaluate the changed function at the solver's theta, on the rows that it sees."""
        stage, batch = self.stage, None
        if self.sampling is not None:
            assert stage.sampler is not None
            batch = fixed_batch(stage.sampler, problem.source, self.sampling)
        self.solver_state = refresh(stage.solver, problem, theta, self.solver_state, batch)

    def run(self, theta: Array | None) -> None:
        """Run the iterations of the stage."""
        stage = self.stage
        if stage.refresh is not None:
            refresh_loop(self, theta, stage.refresh)
        else:
            self.loop(theta, stage.problem)

    def loop(self, theta: Array | None, problem: Problem, most: int | None = None) -> Result:
        """One call of the loop: from theta, or from the solver's state if there is one."""
        stage, stop = self.stage, self.stage.stop
        fun: Any = Tracked(problem)
        if problem.trust is not None:
            stop = (*stop, NearEdge(problem.near_edge))
        if self.deadline is not None:
            stop = (*stop, TimeBudget(max(0.0, self.deadline - _clock.now())))
            fun = Timed(fun, self.deadline, self.evaluation_seconds)
        score = None
        if problem.held_out is not None:
            score = self.scorer.replace(dtype=problem.dtype).validation_score
        recipe = Recipe(
            fun,
            stage.solver,
            stop,
            stage.sampler,
            None if stage.sampler is None else problem.source,
            score,
            stage.score_every,
        )
        resuming = self.solver_state is not None
        if self.map_size is None:
            assert theta is not None
            self.map_size = float(np.abs(theta).max(initial=0.0) or 1.0)
        self.problem, self.before = problem, self.n_iter
        (window, best), pending = self.window or (None, None), self.pending
        self.window, self.pending = None, False  # the next loop begins its own
        result = run_stage(
            limited(recipe, self.left if most is None else min(most, self.left)),
            LoopStart(
                self.best if resuming else theta,
                self.solver_state,
                self.history,
                self.sampling,
                self.map_size,
                window,
                best,
                pending,
            ),
            on_iteration=self._report,
            random_state=self.random_state,
        )
        if not result.history["iteration"]:  # interrupted before its first row: nothing to keep
            raise KeyboardInterrupt
        if self.deadline is not None:
            self.evaluation_seconds = fun.seconds
        self.n_iter += result.n_iter
        self.left -= result.n_iter
        result.n_iter = self.n_iter
        self.solver_state, self.history = result.state, result.history
        self.sampling, self.best = result.sampling, result.theta
        self.result = result
        return result

    def _report(self, info: Iteration) -> bool:
        if self.on_iteration is None:
            return False
        return bool(self.on_iteration(info, self.problem, Here(self, info)))

    def state(
        self, solver: Any, sampling: Any, memory: tuple[Any, Best], history: dict, pending: bool
    ) -> FitState:
        """The state of the run, from the state of its loop."""
        stage, (window, best) = self.stage, memory
        return FitState(
            self.number,
            stage.solver,
            solver,
            sampling,
            best,
            history,
            None if stage.refresh is None else stage.refresh.kept,
            window,
            self.round,
            self.generator(),
            max(0, self.last_iteration - history["iteration"][-1]),
            pending,
        )

    def score(self, theta: Array) -> float:
        """The held-out score, by which the rounds between refreshes are compared."""
        if self.stage.problem.held_out is None:
            return -np.inf
        return self.scorer.validation_score(theta)

    def finished(self) -> FitResult:
        """The result of the whole run."""
        result, refresh = self.result, self.stage.refresh
        memory = result.window, result.best
        pending = result.reason == "interrupted"
        state = self.state(result.state, result.sampling, memory, result.history, pending)
        rounds, complaint = {}, None
        if refresh is not None:
            rounds, complaint = refresh.report, refresh.complaint()
        return FitResult(
            result.theta,
            result.value,
            result.n_iter,
            result.converged,
            result.reason,
            result.history,
            state,
            self.scorer,
            rounds,
            complaint,
        )
