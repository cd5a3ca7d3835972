"""Run the stages of a training run, with their refreshes, from a start or a resumed state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from vicinal import _clock
from vicinal.core.batches import fixed_batch
from vicinal.core.evaluation import refresh
from vicinal.core.loop import Iteration, LoopStart, Recipe, limited, run_stage
from vicinal.core.problem import Problem, Tracked
from vicinal.core.stages import FitResult, OnIteration, Refresh, Stage
from vicinal.core.state import Best, FitState, Round, Window
from vicinal.core.stopping import ENDS_TRAINING, MaxIterations, NearEdge, TimeBudget, Timed
from vicinal.core.types import Array, Result


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
    seed: int | None = None,
    completes: bool = False,
) -> FitResult:
    """Run the stages, from a start or from the state of an earlier run.

    Parameters
    ----------
    stages : sequence of Stage
    theta : array or None
        The start; None with a ``state``.
    state : FitState or None
        State of a run to resume: from an earlier `FitResult`, from ``on_iteration``, or read from
        a file.  The stages and the seed must be the same as in that run.
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
        ``on_iteration(info, problem, snapshot)`` is called after each iteration, with a
        `RunSnapshot`; if it returns a true value, the run stops.
    seed : int or None
        Of the batches.
    completes : bool
        Whether ``state`` is that of a run that was cut: the stop rules have not seen its last
        iteration, and what follows gives the bits of a run that was never cut.

    Returns
    -------
    FitResult
    """
    run = _Training(stages, max_iter, tol, patience, deadline, on_iteration, seed)
    first = 0
    if state is not None:
        first = min(state.stage, len(stages) - 1)
        run.resume(state._replace(stage=first), completes)
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
        seed: int | None,
    ) -> None:
        self.stages, self.left, self.tol, self.patience = stages, max_iter, tol, patience
        self.deadline, self.on_iteration, self.seed = deadline, on_iteration, seed
        self.number = 0
        self.solver_state: Any = None
        self.history: dict[str, list] | None = None
        self.sampling: Any = None
        self.best: Array | None = None
        self.map_size: float | None = None
        self.window: tuple[Any, Best] | None = None  # of the loop that is resumed
        self.completes = False
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

    def resume(self, state: FitState, completes: bool) -> None:
        """Continue from the state of an earlier run."""
        stage = self.stages[state.stage]._replace(solver=state.part)
        self.stages = [stage if i == state.stage else s for i, s in enumerate(self.stages)]
        self.number, self.completes = state.stage, completes
        self.solver_state, self.sampling = state.solver, state.sampling
        self.history, self.best = state.history, state.best.theta
        self.map_size, self.window = state.window.map_size, (state.window, state.best)
        self.last_iteration += state.history["iteration"][-1]
        self.round = state.round

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
        if stage.refresh is None:
            self.loop(theta, stage.problem)
            return
        try:
            for result in self._rounds(theta, stage.refresh):
                self.result = result
        except KeyboardInterrupt:  # between two loops
            if not hasattr(self, "result"):
                raise
            self.result.reason, self.result.converged = "interrupted", False

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
        (window, best), completes = self.window or (None, None), self.completes
        self.window, self.completes = None, False  # the next loop begins its own
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
                completes,
            ),
            on_iteration=self._report,
            random_state=self.seed,
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
        return bool(self.on_iteration(info, self.problem, _Snapshot(self, info)))

    def state(
        self, solver: Any, sampling: Any, memory: tuple[Window, Best], history: dict[str, list]
    ) -> FitState:
        """The state of the run, from the state of its loop."""
        window, best = memory
        return FitState(
            self.number,
            self.stage.solver,
            solver,
            sampling,
            best,
            history,
            window,
            self.round,
            max(0, self.last_iteration - history["iteration"][-1]),
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
        state = self.state(result.state, result.sampling, memory, result.history)
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

    def _rounds(self, theta: Array | None, refresh: Refresh) -> Iterator[Result]:
        """Alternate between refreshes and iterations until the loss settles; yield each result."""
        stage, whole = self.stage, self.scorer
        top, top_score, stale = self.best, -np.inf, 0
        result: Result | None = None
        past: Round | None = self.round  # a round that was cut
        here: Array | None
        while True:
            if past is not None:
                here, top, top_score, stale = past.theta, past.top, past.top_score, past.stale
                refresh.restore(past.memory)
            else:
                here = theta if self.solver_state is None else self.solver_state.theta
            assert here is not None
            began, compiled = _clock.now(), _clock.compiled_seconds()
            memory = refresh.memory()
            scored_by = self.scorer
            fixed, self.scorer = refresh.fix(whole, here)
            problem = fixed.replace(dtype=stage.problem.dtype)
            if top is not None and (top_score == -np.inf or self.scorer is not scored_by):
                # Re-score the best map: the run was resumed, or the scoring problem changed.
                top_score = self.score(top)
            fresh, settled = None if past is None else past.fresh, False
            if self.solver_state is not None and stage.fixed:
                self.refresh(problem, self.solver_state.theta)
                fresh = self.solver_state.value if past is None else fresh
            if fresh is not None:
                settled = refresh.settled(fresh, self.tol)
            if past is not None:
                assert self.history is not None
                done = self.history["iteration"][-1] - past.iteration
            else:
                done = 0
                last = 0 if self.history is None else self.history["iteration"][-1]
                self.round = Round(here, last, memory, fresh, top, top_score, stale)
                self.best = None
                if settled and result is not None:
                    yield self._settled(result)
                    return
            past = None
            refreshed = _clock.now() - began - (_clock.compiled_seconds() - compiled)
            result = self.loop(theta, problem, refresh.length - done)
            steps = self.n_iter - self.before + done
            if problem.held_out is not None:  # keep the best of all rounds, by the same score
                score = self.score(result.theta)
                stale = 0 if score > top_score else stale + steps
                if top is None or score > top_score:
                    top, top_score = result.theta, score
                result.theta = top
                if stale >= self.patience:
                    result.reason, result.converged = "early_stopping", True
            yield result
            # converged, or near the edge of the trust region of the lists: refresh and continue
            again = result.reason in ("gradient", "loss", "stalled", NearEdge.name) and steps > 0
            if self.left <= 0 and result.reason == NearEdge.name:
                result.reason = MaxIterations.name
            if self.left <= 0 or (result.reason != "max_iter" and not again):
                return
            if not self.has_time(refreshed + 2.0 * (self.evaluation_seconds or 0.0)):
                return

    def _settled(self, result: Result) -> Result:
        """The result once refreshing no longer lowers the loss."""
        if self.stage.problem.held_out is None:
            result.theta, result.value = self.solver_state.theta, self.solver_state.value
        result.state, result.reason, result.converged = self.solver_state, "loss", True
        return result


class _Snapshot:
    """A training after an iteration; see `RunSnapshot`."""

    def __init__(self, training: _Training, info: Iteration) -> None:
        self._training, self._info = training, info
        self._best = info.best if info.best is not None else Best(info.theta, info.loss)

    @property
    def scorer(self) -> Problem:
        return self._training.scorer

    def state(self) -> FitState:
        info = self._info
        assert info.window is not None
        history = {key: list(entries) for key, entries in info.history.items()}
        return self._training.state(info.state, info.sampling, (info.window, self._best), history)

    def best(self) -> Best:
        training, info, best = self._training, self._info, self._best
        if training.stage.problem.held_out is None:
            return best
        if info.window is not None and not info.window.scored:  # the last iteration is scored
            scorer = self.scorer.replace(dtype=training.problem.dtype)
            score = scorer.validation_score(info.theta)
            best = Best(info.theta, info.loss, score) if score > best.score else best
        rounds = training.round
        if rounds is None or rounds.top is None or training.score(best.theta) > rounds.top_score:
            return best
        return best._replace(theta=rounds.top)
