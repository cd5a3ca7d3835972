"""The training loop: it drives any solver, records each iteration, and checks the stop rules.

A run can be interrupted after any iteration and resumed: every solver state holds its ``theta``,
and ``sampling`` holds the position in the sequence of batches.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from vicinal import _clock
from vicinal.core.batches import BatchStream
from vicinal.core.evaluation import check_projects, check_start, is_finite
from vicinal.core.state import Best, Window
from vicinal.core.stopping import MaxIterations, StopRule, TimeBudget, TimeUp
from vicinal.core.types import (
    Array,
    Batch,
    Fun,
    Result,
    Sampler,
    Sampling,
    Solver,
    Source,
    Units,
)

_KEYS = ("iteration", "loss", "grad_norm", "validation_score", "seconds", "n_evaluations")


class Iteration(NamedTuple):
    """The argument of ``on_iteration``: the newest row of the history and the state of the run."""

    iteration: int
    theta: Array
    loss: float
    grad_norm: float
    validation_score: float
    seconds: float
    history: dict[str, list]
    state: Any
    sampling: Sampling | None = None
    best: Best | None = None
    window: Window | None = None


class Recipe(NamedTuple):
    """How to minimise a function: with which solver, on which rows, until when.

    Parameters
    ----------
    fun : callable
        ``value, grad = fun(theta, batch)``.  If theta is constrained, ``fun.project(theta)`` is
        the nearest allowed theta.  If ``fun`` has ``facts``, a dict about its last evaluation, the
        history gets the ``fun.columns`` of it, taken from ``fun.facts_at(theta)``.
    solver : Solver
        A part with ``init`` and ``step``.
    stop : tuple of StopRule
        Checked in this order.
    sampler : Sampler or None
        Source of the batches.  None: every step sees all rows.
    source : Source or None
        The training rows; a sampler needs them.
    score : callable or None
        ``score(theta)`` on held-out rows; higher is better.
    score_every : int
        Number of iterations between scores; the start and the end are always scored.
    """

    fun: Fun
    solver: Solver
    stop: tuple[StopRule, ...] = ()
    sampler: Sampler | None = None
    source: Source | None = None
    score: Callable[[Array], float] | None = None
    score_every: int = 1


class LoopStart(NamedTuple):
    """Where a loop begins.

    Parameters
    ----------
    theta : array or None
        The start; or, with a ``state``, the best parameters of the resumed run.
    state : NamedTuple or None
        The solver state of a run to resume.
    history : dict of lists or None
        The history to continue; it is copied.
    sampling : Sampling or None
        The position of the resumed run in its sequence of batches.
    map_size : float or None
        The largest entry of the map, in which gradients are measured; None: that of the start.
    window, best : Window, Best or None
        What the stop rules of the resumed run compared with, and its best parameters.
    completes : bool
        Whether the resumed run was cut: the stop rules have not seen its last iteration.
    """

    theta: Array | None = None
    state: Any = None
    history: dict[str, list] | None = None
    sampling: Sampling | None = None
    map_size: float | None = None
    window: Window | None = None
    best: Best | None = None
    completes: bool = False


class Progress:
    """The record of a stage so far, which stop rules look at."""

    def __init__(
        self,
        recipe: Recipe,
        begin: LoopStart,
        state: Any,
        batches: BatchStream,
        on_iteration: Callable[[Iteration], Any] | None,
    ) -> None:
        self.recipe, self.state, self.on_iteration = recipe, state, on_iteration
        self.fixed, self.sampling = batches.fixed, batches.at
        self.score_every = recipe.score_every
        history = begin.history or {}
        # Other columns come from `facts`, or were added by `on_iteration`.
        columns = dict.fromkeys([*_KEYS, *history])
        self.history = {key: list(history.get(key, [])) for key in columns}
        past = self.history["iteration"]
        self.iteration = past[-1] if past else 0
        self.since = len(past)
        self.first_iteration = self.iteration
        self.seconds = self.history["seconds"][-1] if past else 0.0
        self.began, self.compiled_before = _clock.now(), _clock.compiled_seconds()
        self.start_seconds = self.score_seconds = 0.0
        self.stop_requested, self.scored = False, False
        # Losses that can be compared with each other, and their running minimum.
        self.losses, self.lowest = [state.value], [state.value]
        self.best = Best(state.theta, state.value)
        # Patience counts from the best score, even if its parameters are not available.
        self.top_score, self.top_iteration = -math.inf, self.iteration
        start = begin.theta if begin.theta is not None else state.theta
        size = begin.map_size
        self.map_size = float(np.abs(start).max(initial=0.0) or 1.0) if size is None else size
        # Window and best parameters before a last score, which a run that goes on does not have.
        self._before_last_score: tuple[Window, Best] | None = None

    @property
    def window(self) -> Window:
        """What the stop rules compare with, for a run that resumes this one."""
        first = (float(self.losses[0]), self.since, float(self.top_score), self.top_iteration)
        return Window(*first, self.scored, self.map_size)

    @property
    def n_steps(self) -> int:
        """Number of steps in this stage."""
        return self.iteration - self.first_iteration

    @property
    def slope(self) -> float:
        """The largest entry of the gradient, or of the projected gradient if there is one."""
        residual = getattr(self.state, "residual", None)
        slope = self.state.grad if residual is None else residual
        return float(np.max(np.abs(slope), initial=0.0))

    def slope_unit(self, units: Units) -> float:
        """The unit in which entries of the gradient are measured."""
        return units.loss / self.map_size if units.relative_to_map else units.loss

    @property
    def passed(self) -> float:
        """Seconds since the stage began."""
        return _clock.now() - self.began

    @property
    def worked(self) -> float:
        """Seconds since the stage began, without compilation."""
        return self.passed - (_clock.compiled_seconds() - self.compiled_before)

    @property
    def seconds_a_step(self) -> float:
        """The mean over the steps; before the first one, the time of the first evaluation."""
        worked = self.worked
        return (worked - self.start_seconds) / self.n_steps if self.n_steps else worked

    def resume(self, begin: LoopStart) -> None:
        """Continue the windows of an earlier run, and its best parameters if given.

        This needs a state that is the last one of the history: after :func:`refresh`, or with
        another function, earlier losses and scores cannot be compared with later ones.
        """
        loss = np.asarray(self.history["loss"])
        if not loss.size or loss[-1] != self.state.value:
            self.score_start()
        elif begin.window is not None and begin.best is not None:
            self._restore(begin.window, begin.best)
        else:
            self._continue(begin.theta, loss)

    def _restore(self, window: Window, best: Best) -> None:
        self.best, self.since, self.scored = best, window.since, window.scored
        self.losses = [window.first, *self.history["loss"][window.since :]]
        self.lowest = np.minimum.accumulate(self.losses).tolist()
        self.top_score, self.top_iteration = window.top_score, window.top_iteration
        if not window.scored:  # it was scored because it was the last
            self.history["validation_score"][-1] = math.nan

    def _continue(self, theta: Array | None, loss: Array) -> None:
        """Continue a run that left only its history."""
        self.since = 1
        self.losses, self.lowest = loss.tolist(), np.minimum.accumulate(loss).tolist()
        score = np.asarray(self.history["validation_score"], dtype=float)
        score = np.where(np.isnan(score), -math.inf, score)
        top = int(np.argmax(score))
        self.top_score, self.top_iteration = score[top], self.history["iteration"][top]
        if theta is None or np.array_equal(theta, self.state.theta):
            at, theta = -1, self.state.theta
        else:
            at = top if self.recipe.score is not None else int(np.argmin(loss))
        self.best = Best(np.array(theta, dtype=np.float64), float(loss[at]), float(score[at]))

    def score_start(self) -> None:
        """Score a start that has no row in the history, as a candidate for the best score."""
        if self.recipe.score is not None:
            self._compare(self.state, self._score(self.state.theta))

    def commit(self, state: Any, sampling: Sampling | None, count: bool = True) -> None:
        """Record ``state`` in the history, and make it the state of the run once it is scored."""
        score = math.nan
        scored = self.recipe.score is not None and (self.iteration + count) % self.score_every == 0
        if self.recipe.score is not None and scored:
            score = self._score(state.theta)
        self.iteration += count
        self.since += not count
        if count:
            self.losses.append(state.value)
            self.lowest.append(min(self.lowest[-1], state.value))
        self._compare(state, score)
        self.state, self.sampling, self.scored = state, sampling, scored
        seconds, slope = self.seconds + self.passed, self.slope
        row = (self.iteration, state.value, slope, score, seconds, state.n_evaluations)
        for key, entry in zip(_KEYS, row, strict=True):
            self.history[key].append(entry)
        if hasattr(self.recipe.fun, "facts"):
            self._record_facts(self.recipe.fun, state)
        if self.on_iteration is not None:
            now = (self.iteration, state.theta, state.value, slope, score, seconds)
            info = Iteration(*now, self.history, state, sampling, self.best, self.window)
            self.stop_requested = bool(self.on_iteration(info))

    def _record_facts(self, fun: Any, state: Any) -> None:
        """Add the facts of the newest point to the history, or of the evaluation that led there."""
        facts = fun.facts_at(state.theta)
        # A solver that took a step back is where it was, maybe since before the run was resumed.
        unchanged = facts is None and self.history["loss"][-2:-1] == [state.value]
        for name in fun.columns:
            # a history from before this fact was recorded
            column = self.history.setdefault(name, [math.nan] * (len(self.history["loss"]) - 1))
            fact = (fun.facts if facts is None else facts).get(name, math.nan)
            column.append(column[-1] if unchanged and column else fact)

    def score_last(self) -> None:
        """Score the last row of the history, unless it has a score."""
        if self.recipe.score is None or self.scored or not self.n_steps:
            return
        score = self._score(self.state.theta)
        self._before_last_score = self.window, self.best
        self.history["validation_score"][-1] = score
        self._compare(self.state, score)

    def _score(self, theta: Array) -> float:
        """The score of theta; its time is kept for stop rules."""
        assert self.recipe.score is not None
        before = self.worked
        score = float(self.recipe.score(theta))
        self.score_seconds = self.worked - before
        return score

    def _compare(self, state: Any, score: float) -> None:
        """Keep the parameters of ``state`` if they are the best so far."""
        if score > self.top_score:
            self.top_score, self.top_iteration = score, self.iteration
        if self.recipe.score is not None:
            better = score > self.best.score
        else:
            # Losses on different batches cannot be compared, so the last parameters count as best.
            better = state.value < self.best.value or not self.fixed
        if better:
            self.best = Best(state.theta, state.value, score)

    def result(self, reason: str, converged: bool) -> Result:
        """The best parameters so far, whatever ended the run."""
        # An interrupt can come between two appends.
        length = min(map(len, self.history.values()))
        history = {key: entries[:length] for key, entries in self.history.items()}
        window, best = self._before_last_score or (self.window, self.best)
        return Result(
            theta=self.best.theta,
            value=self.best.value,
            n_iter=self.n_steps,
            converged=converged,
            reason=reason,
            state=self.state,
            history=history,
            sampling=self.sampling,
            window=window,
            best=best,
        )


def run_stage(
    recipe: Recipe,
    begin: LoopStart,
    *,
    on_iteration: Callable[[Iteration], Any] | None = None,
    random_state: int | np.random.RandomState | None = None,
) -> Result:
    """Run the steps of a solver until a rule stops it.

    Parameters
    ----------
    recipe : Recipe
        What to minimise, and how.
    begin : LoopStart
        A start, or a run to resume.
    on_iteration : callable or None
        Called with an :class:`Iteration` after each row of the history, including the start
        (iteration 0); if it returns a true value, the run stops.
    random_state : int, RandomState or None
        For the sampler.

    Returns
    -------
    Result
        ``reason`` is the name of a rule, "interrupted" (Ctrl-C) or "non_finite".
    """
    began, compiled = _clock.now(), _clock.compiled_seconds()
    resumed = begin.state is not None
    fun, solver, state = recipe.fun, recipe.solver, begin.state
    check_projects(solver, fun)
    batches = BatchStream(solver, recipe.sampler, recipe.source, random_state, begin.sampling)
    if not resumed:
        if begin.theta is None:
            raise ValueError("theta must be an array if no state is given. Got None instead.")
        state = solver.init(fun, begin.theta, batches.next(begin.theta))
        if begin.history is not None and begin.history["n_evaluations"]:
            before = begin.history["n_evaluations"][-1]
            state = state._replace(n_evaluations=before + state.n_evaluations)
    check_start(state)
    progress = Progress(recipe, begin, state, batches, on_iteration)
    progress.began, progress.compiled_before = began, compiled  # include the first evaluation
    rule: StopRule | None = None
    try:
        if resumed:
            progress.resume(begin)
        elif begin.history is not None:
            progress.score_start()
        else:
            progress.commit(state, batches.at, count=False)
        before = [r for r in recipe.stop if r.before_step]
        after = [r for r in recipe.stop if not r.before_step]
        rule = _first(progress, after if begin.completes else [r for r in after if r.at_start])
        progress.start_seconds = progress.worked
        while rule is None:
            rule = _first(progress, before)
            if rule is not None:
                break
            state = update(solver, fun, progress.state, batches.next(progress.state.theta))
            if state is None:
                return _ended(progress, "non_finite")
            progress.commit(state, batches.at)
            rule = _first(progress, after)
        progress.score_last()
    except TimeUp:  # inside a step, which is discarded
        return _ended(progress, TimeBudget.name)
    except KeyboardInterrupt:
        return progress.result("interrupted", False)
    return progress.result(rule.name, rule.converged(progress))


def update(solver: Solver, fun: Fun, state: Any, batch: Batch | None = None) -> Any:
    """The state after one step; None if its loss or gradient is not finite."""
    _, state = solver.step(fun, state.theta, state, batch)
    return state if is_finite(state.value, state.grad) else None


def _first(progress: Progress, rules: list[StopRule]) -> StopRule | None:
    """The first rule that is met."""
    return next((rule for rule in rules if rule(progress)), None)


def _ended(progress: Progress, reason: str) -> Result:
    progress.score_last()
    return progress.result(reason, False)


def limited(recipe: Recipe, most: int) -> Recipe:
    """The recipe with a limit on the iterations, checked before all other rules."""
    return recipe._replace(stop=(MaxIterations(most), *recipe.stop))
