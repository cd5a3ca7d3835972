"""The one loop: it drives any solver, records each iteration, and decides when to stop.

A run can be cut anywhere and taken up again: every solver state carries the ``theta`` it stands
at, and ``sampling`` the place among the batches, so ``minimise(fun, None, solver,
state=result.state, history=result.history)``, with ``sampling=result.sampling`` where there is a
sampler, goes on to the same bits as a run that was never cut.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from vicinal.core.batches import Stream
from vicinal.core.evaluation import at_rest, evaluate, is_finite, projected_gradient
from vicinal.core.types import Array, Batch, Fun, Result, Sampler, Sampling, Solver, Source

__all__ = ["Iteration", "minimise", "refresh"]

_KEYS = ("iteration", "loss", "grad_norm", "validation_score", "seconds", "n_evaluations")


class Iteration(NamedTuple):
    """What ``on_iteration`` is told: the newest row of the history, and where the run stands."""

    iteration: int
    theta: Array
    loss: float
    grad_norm: float
    validation_score: float
    seconds: float
    history: dict[str, list]
    state: Any
    sampling: Sampling | None = None


class _Best(NamedTuple):
    theta: Array
    value: float
    score: float


class _Run:
    """One call of :func:`minimise`: what has happened so far, and whether it should stop."""

    def __init__(
        self,
        solver: Solver,
        state: Any,
        history: dict[str, list] | None,
        stream: Stream,
        tol: float,
        unit: float,
        slope_unit: float,
        monitor: Callable[[Array], float] | None,
        monitor_every: int,
        n_iter_no_change: int,
        patient: bool,
        on_iteration: Callable[[Iteration], Any] | None,
    ) -> None:
        self.state, self.tol, self.unit, self.monitor = state, tol, unit, monitor
        self.slope_unit = slope_unit
        self.fixed, self.sampling, self.monitor_every = stream.fixed, stream.at, monitor_every
        self.patience, self.on_iteration = n_iter_no_change, on_iteration
        # Where each step must lower the loss by its due (Wolfe), one small decrease means the end;
        # elsewhere only a window of them does.
        at_once = getattr(solver, "sufficient_decrease", False) and not patient
        self.window = 1 if at_once else n_iter_no_change
        # what else is in it was put there by `on_iteration`, which will go on
        columns = dict.fromkeys([*_KEYS, *(history or {})])
        self.history = {key: list((history or {}).get(key, [])) for key in columns}
        past = self.history["iteration"]
        self.iteration = past[-1] if past else 0
        self.first_iteration = self.iteration
        self.seconds = self.history["seconds"][-1] if past else 0.0
        self.began, self.start_seconds = perf_counter(), 0.0
        self.told_to_stop, self.scored = False, False
        # Losses that can be compared with each other, and their running minimum.
        self.losses, self.lowest = [state.value], [state.value]
        self.best = _Best(state.theta, state.value, -math.inf)
        # The patience counts from the best score even where its parameters are not at hand.
        self.top_score, self.top_iteration = -math.inf, self.iteration

    def take_up(self, theta: Array | None) -> None:
        """Continue the windows of an earlier run, and its best parameters where given.

        Only where the state is the one the history ends with: after :func:`refresh`, or with
        another function, earlier losses and scores are not comparable with those to come.
        """
        loss = np.asarray(self.history["loss"])
        if not loss.size or loss[-1] != self.state.value:
            self.score_start()
            return
        self.losses, self.lowest = loss.tolist(), np.minimum.accumulate(loss).tolist()
        score = np.asarray(self.history["validation_score"], dtype=float)
        score = np.where(np.isnan(score), -math.inf, score)
        top = int(np.argmax(score))
        self.top_score, self.top_iteration = score[top], self.history["iteration"][top]
        if theta is None or np.array_equal(theta, self.state.theta):
            at, theta = -1, self.state.theta
        else:
            at = top if self.monitor is not None else int(np.argmin(loss))
        self.best = _Best(np.array(theta, dtype=np.float64), float(loss[at]), float(score[at]))

    def score_start(self) -> None:
        """Make a start that has no row in the history a candidate for the best score."""
        if self.monitor is not None:
            self._compare(self.state, float(self.monitor(self.state.theta)))

    def commit(self, state: Any, sampling: Sampling | None, count: bool = True) -> None:
        """Record the place ``state`` stands at; afterwards, never before, it is the run's."""
        scored = self.monitor is not None and (self.iteration + count) % self.monitor_every == 0
        score = float(self.monitor(state.theta)) if self.monitor and scored else math.nan
        self.iteration += count
        grad_norm = _slope(state)
        seconds = self.seconds + perf_counter() - self.began
        row = (self.iteration, state.value, grad_norm, score, seconds, state.n_evaluations)
        for key, entry in zip(_KEYS, row, strict=True):
            self.history[key].append(entry)
        if count:
            self.losses.append(state.value)
            self.lowest.append(min(self.lowest[-1], state.value))
        self._compare(state, score)
        self.state, self.sampling, self.scored = state, sampling, scored
        if self.on_iteration is not None:
            row = (self.iteration, state.theta, state.value, grad_norm, score, seconds)
            info = Iteration(*row, self.history, state, sampling)
            self.told_to_stop = bool(self.on_iteration(info))

    def score_last(self) -> None:
        """Score the last row of the history, where its turn had not come."""
        if self.monitor is None or self.scored or self.iteration == self.first_iteration:
            return
        score = float(self.monitor(self.state.theta))
        self.history["validation_score"][-1] = score
        self._compare(self.state, score)

    def out_of_time(self, max_seconds: float | None) -> bool:
        """Whether a step as long as the mean of those so far would pass the budget."""
        if max_seconds is None:
            return False
        passed, n_steps = perf_counter() - self.began, self.iteration - self.first_iteration
        # before the first step, the evaluation at the start stands for one
        step = (passed - self.start_seconds) / n_steps if n_steps else passed
        return passed + step > max_seconds

    def _compare(self, state: Any, score: float) -> None:
        """Keep the parameters of ``state`` if they are the best so far."""
        if score > self.top_score:
            self.top_score, self.top_iteration = score, self.iteration
        if self.monitor is not None:
            better = score > self.best.score
        else:
            # Losses on different batches cannot be compared: the last place is the best guess.
            better = state.value < self.best.value or not self.fixed
        if better:
            self.best = _Best(state.theta, state.value, score)

    def at_rest(self) -> str | None:
        """Return why no further step is worth it from here, judged by the state alone."""
        if not self.fixed:
            return None  # one batch's gradient says little about the others
        if _slope(self.state) <= self.tol * self.slope_unit:
            return "gradient"
        return "stalled" if self.state.stalled else None

    def verdict(self) -> str | None:
        """Return why to stop after the step just committed, or None."""
        reason = self.at_rest()
        if reason is not None:
            return reason
        if self.fixed and self._is_flat():
            return "loss"
        waited = self.iteration - self.top_iteration
        if self.scored and waited >= self.patience * self.monitor_every:
            return "early_stopping"
        return "callback" if self.told_to_stop else None

    def _is_flat(self) -> bool:
        """Whether the lowest loss has settled over the window."""
        if len(self.lowest) <= self.window:
            return False
        old, new = self.lowest[-1 - self.window], self.lowest[-1]
        scale = max(abs(old), abs(new), self.unit)
        # A solver with momentum overshoots and comes back lower: while the loss is well above its
        # lowest the run is under way, not at its end.
        above = max(self.losses[-self.window :]) - new
        return old - new <= self.tol * scale and above <= math.sqrt(max(self.tol, 0.0)) * scale

    def result(self, reason: str) -> Result:
        """Return the best parameters so far, whatever ended the run."""
        # An interrupt can fall between two appends.
        length = min(map(len, self.history.values()))
        history = {key: entries[:length] for key, entries in self.history.items()}
        small = _slope(self.state) <= math.sqrt(max(self.tol, 0.0)) * self.slope_unit
        converged = reason in ("gradient", "loss", "early_stopping")
        return Result(
            theta=self.best.theta,
            value=self.best.value,
            n_iter=self.iteration - self.first_iteration,
            converged=converged or (reason == "stalled" and small),
            reason=reason,
            state=self.state,
            history=history,
            sampling=self.sampling,
        )


def minimise(
    fun: Fun,
    theta: Array | None,
    solver: Solver,
    *,
    sampler: Sampler | None = None,
    source: Source | None = None,
    max_iter: int = 200,
    tol: float = 1e-5,
    unit: float = 1.0,
    slope_unit: float | None = None,
    state: Any = None,
    history: dict[str, list] | None = None,
    sampling: Sampling | None = None,
    monitor: Callable[[Array], float] | None = None,
    monitor_every: int = 1,
    n_iter_no_change: int = 10,
    patient: bool = False,
    max_seconds: float | None = None,
    on_iteration: Callable[[Iteration], Any] | None = None,
    random_state: int | np.random.RandomState | None = None,
) -> Result:
    r"""Minimise ``fun`` from ``theta`` by steps of ``solver``.

    Parameters
    ----------
    fun : callable
        ``value, grad = fun(theta, batch)``.  Where not every theta is allowed it has an attribute
        ``project``, the nearest one that is; only solvers whose ``projects`` is True keep to it.
    theta : ndarray of shape (n,) or None
        The start.  With ``state``, which knows where it stands, theta is not a start: None, or the
        ``Result.theta`` of the run taken up, which then stays the best until it is beaten (this
        needs its ``history`` too).
    solver : Solver
        A part with ``init`` and ``step``.
    sampler : Sampler or None
        Source of the batches.  None: all rows, always.
    source : Source or None
        The rows learnt from, which a sampler needs: how many, of which classes, and where.
    max_iter : int
        The most iterations of this call.
    tol : float
        Tolerance of the tests "gradient" and "loss" below.
    unit : float
        What counts as a loss of size one in these tests, u below.
    slope_unit : float or None
        The same for entries of the gradient; None: that of the loss.
    state : NamedTuple or None
        ``Result.state`` of a run to take up.
    history : dict of lists or None
        ``Result.history`` to continue (a copy is): its iteration numbers, seconds and evaluations.
    sampling : Sampling or None
        ``Result.sampling`` of a run to take up, with the same sampler: its place among the
        batches.  None: a new draw.
    monitor : callable or None
        ``score = monitor(theta)``, higher is better, on rows held out.
    monitor_every : int
        Ask the monitor at the start and every so many iterations, and once more where the run
        ends; the scores of the others are NaN.
    n_iter_no_change : int
        Patience: scores without a better one, or iterations without a lower loss.
    patient : bool
        Judge the loss over ``n_iter_no_change`` steps, whatever the solver: for functions that are
        flat far from their minimum.
    max_seconds : float or None
        Time for this call: no step is begun that would, if it took as long as the mean of those
        before it, end later.
    on_iteration : callable or None
        Called with an :class:`Iteration` after each row of the history (the start, iteration 0,
        among them); a true answer stops the run.
    random_state : int, RandomState or None
        For the sampler.

    Returns
    -------
    Result
        ``theta`` and ``value`` are those of the best score with a monitor, and else of the lowest
        loss (with changing batches, whose losses cannot be compared: the last).  ``state`` is the
        last one.  ``n_iter`` counts this call alone.  ``history`` has a row for the start, unless
        a state or history was given, and one for each iteration.  ``reason`` is one of

        - "gradient": :math:`\max|\nabla f| \le` tol · slope_unit, or, where ``fun`` projects,
          :math:`\max|P(\theta - \nabla f) - \theta| \le` tol · slope_unit (also in the history);
        - "loss": :math:`f_{old} - f_{new} \le \text{tol}\cdot\max(|f_{old}|, |f_{new}|, u)`, over
          one step of a solver with a line search; for the others, or if ``patient``, over the
          lowest losses of ``n_iter_no_change`` steps, none of which ends more than
          :math:`\sqrt{\text{tol}}\cdot\max(\ldots)` above the lowest;
        - "stalled": the solver finds no lower point; counts as converged only where the same is
          at most :math:`\sqrt{\text{tol}}` · slope_unit;
        - "early_stopping": the last ``n_iter_no_change`` scores were no better than the best;
        - "callback", "interrupted" (Ctrl-C), "max_iter", "time_budget", "non_finite" (a step came
          to a loss or gradient that is not finite, and is left out): not converged.

        The first three apply to a fixed batch only.  ``sampling`` is the place among the batches.

    Raises
    ------
    ValueError
        If the loss or its gradient is not finite at the start, if the solver cannot work with
        changing batches and the sampler changes them or not keep to the set that ``fun`` projects
        onto, or if theta or source is missing.
    KeyboardInterrupt
        Only in the very first evaluation, when there is nothing to keep yet.
    """
    began, resumed = perf_counter(), state is not None
    _check_keeps(solver, fun)
    stream = Stream(solver, sampler, source, random_state, sampling)
    if not resumed:
        if theta is None:
            raise ValueError("theta must be an array where no state is given. Got None instead.")
        state = solver.init(fun, theta, stream.next(theta))
        if history is not None and history["n_evaluations"]:
            before = history["n_evaluations"][-1]
            state = state._replace(n_evaluations=before + state.n_evaluations)
    _check_start(state)
    slope_unit = unit if slope_unit is None else slope_unit
    options = (
        tol,
        unit,
        slope_unit,
        monitor,
        monitor_every,
        n_iter_no_change,
        patient,
        on_iteration,
    )
    run = _Run(solver, state, history, stream, *options)
    run.began = began  # the first evaluation counts
    reason = None
    try:
        if resumed:
            run.take_up(theta)
        elif history is not None:
            run.score_start()
        else:
            run.commit(state, stream.at, count=False)
        reason = run.at_rest() or ("callback" if run.told_to_stop else None)
        run.start_seconds = perf_counter() - began
        for _ in range(max_iter):
            if reason is None and run.out_of_time(max_seconds):
                reason = "time_budget"
            if reason is not None:
                break
            theta = run.state.theta
            _, state = solver.step(fun, theta, run.state, stream.next(theta))
            if not is_finite(state.value, state.grad):
                reason = "non_finite"
                break
            run.commit(state, stream.at)
            reason = run.verdict()
        run.score_last()
    except KeyboardInterrupt:
        reason = "interrupted"
    return run.result(reason or "max_iter")


def refresh(solver: Solver, fun: Fun, theta: Array, state: Any, batch: Batch | None = None) -> Any:
    """Evaluate again at ``theta`` after the function has changed, and keep the solver's memory.

    For a switch of precision or of rows in mid-run: pairs, directions, moments and rates stay,
    ``value`` and ``grad`` are those of the new function, and the evaluation is counted.

    Parameters
    ----------
    solver : Solver
        The solver that ``state`` belongs to.
    fun : callable
        The new function.
    theta : ndarray of shape (n,)
        Where to stand from now on: ``state.theta``, or the best parameters of the run.
    state : NamedTuple
        A state of ``solver``; it is not changed.
    batch : Batch or None
        Handed to ``fun``.

    Returns
    -------
    NamedTuple
        The new state, no longer stalled (unless the gradient is zero).
    """
    theta = np.array(theta, dtype=np.float64)
    value, grad = evaluate(fun, theta, batch)
    changes = {"theta": theta, "value": value, "grad": grad, "stalled": at_rest(grad, None)}
    if hasattr(state, "residual"):
        residual = projected_gradient(fun, theta, grad)
        changes.update(residual=residual, stalled=at_rest(grad, residual))
    return state._replace(n_evaluations=state.n_evaluations + 1, **changes)


def _check_keeps(solver: Solver, fun: Fun) -> None:
    """Refuse a solver that would leave the set of allowed parameters."""
    if getattr(fun, "project", None) is not None and not getattr(solver, "projects", False):
        raise ValueError(
            f"The solver {type(solver).__name__} does not keep to the constraint of the map. Use "
            "ProjectedGradient or BoldDriver, or a map whose parameters are free."
        )


def _check_start(state: Any) -> None:
    if not math.isfinite(state.value):
        raise ValueError(f"The loss at the start must be finite. Got {state.value} instead.")
    bad = int(np.count_nonzero(~np.isfinite(state.grad)))
    if bad:
        raise ValueError(
            f"The gradient at the start must be finite. {bad} of its {state.grad.size} entries "
            "are not."
        )


def _slope(state: Any) -> float:
    """The largest entry of the gradient, or of the projected one where the state has it."""
    residual = getattr(state, "residual", None)
    return float(np.max(np.abs(state.grad if residual is None else residual), initial=0.0))
