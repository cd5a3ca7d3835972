"""Stop rules: each has a name, a test, and advice to print if stopping is not convergence.

A rule looks at a :class:`~vicinal.core.loop.Progress`.  With `before_step` it is checked before
each step instead of after it; with `at_start` it is also checked once before the first step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from vicinal import _clock
from vicinal.core.types import Units

if TYPE_CHECKING:
    from vicinal.core.loop import Progress

#: reasons that end a training run even if further stages are planned
ENDS_TRAINING = ("max_iter", "callback", "interrupted", "early_stopping", "time_budget")

_UNITS = Units()

_ADVICE = {
    "interrupted": "it was interrupted after {n} iterations",
    "non_finite": "the loss became infinite or NaN; decrease the learning rate of 'solver' "
    "or increase 'alpha'",
}


class StopRule(Protocol):
    """A reason to stop."""

    name: ClassVar[str]
    #: why the run did not converge, and which parameter to change
    advice: ClassVar[str]
    at_start: ClassVar[bool]
    before_step: ClassVar[bool]

    def __call__(self, progress: Progress) -> bool: ...

    def converged(self, progress: Progress) -> bool: ...


class _Rule:
    name: ClassVar[str]
    advice: ClassVar[str] = ""
    at_start: ClassVar[bool] = False
    before_step: ClassVar[bool] = False
    success: ClassVar[bool] = False

    def converged(self, progress: Progress) -> bool:
        """Whether a run that this rule stops has converged."""
        return self.success


@dataclass(frozen=True)
class SmallGradient(_Rule):
    r""":math:`\max|\nabla f| \le` tol in units of the gradient (the projected one, if any)."""

    tol: float
    units: Units = _UNITS

    name: ClassVar[str] = "gradient"
    at_start: ClassVar[bool] = True
    success: ClassVar[bool] = True

    def __call__(self, progress: Progress) -> bool:
        # The gradient of one batch says little about the others.
        return progress.fixed and progress.slope <= self.tol * progress.slope_unit(self.units)


@dataclass(frozen=True)
class Stalled(_Rule):
    """The solver finds no lower point; convergence only if the gradient is nearly small."""

    tol: float
    units: Units = _UNITS

    name: ClassVar[str] = "stalled"
    at_start: ClassVar[bool] = True
    advice: ClassVar[str] = (
        "the solver found no lower loss though the gradient is not small; "
        "check the data, or change 'solver', 'scaling' or 'alpha'"
    )

    def __call__(self, progress: Progress) -> bool:
        return progress.fixed and bool(progress.state.stalled)

    def converged(self, progress: Progress) -> bool:
        """Whether the gradient is at most the square root of the tolerance, if there is one."""
        if self.tol == -math.inf:
            return True
        return progress.slope <= math.sqrt(max(self.tol, 0.0)) * progress.slope_unit(self.units)


@dataclass(frozen=True)
class FlatLoss(_Rule):
    r""":math:`f_{old} - f_{new} \le \text{tol}\cdot\max(|f_{old}|, |f_{new}|, u)` over a window.

    Here f is the lowest loss so far; and no loss in the window may be more than
    :math:`\sqrt{\text{tol}}\cdot\max(\ldots)` above it.
    """

    tol: float
    units: Units = _UNITS
    window: int = 1

    name: ClassVar[str] = "loss"
    success: ClassVar[bool] = True

    def __call__(self, progress: Progress) -> bool:
        lowest = progress.lowest
        if not progress.fixed or len(lowest) <= self.window:
            return False
        old, new = lowest[-1 - self.window], lowest[-1]
        scale = max(abs(old), abs(new), self.units.loss)
        # A solver with momentum overshoots and comes back lower: while the loss is well above its
        # minimum so far, the run has not converged.
        above = max(progress.losses[-self.window :]) - new
        return old - new <= self.tol * scale and above <= math.sqrt(max(self.tol, 0.0)) * scale


@dataclass(frozen=True)
class NoBetterScore(_Rule):
    """The last ``patience`` scores of the held-out rows were no better than the best."""

    patience: int

    name: ClassVar[str] = "early_stopping"
    success: ClassVar[bool] = True

    def __call__(self, progress: Progress) -> bool:
        waited = progress.iteration - progress.top_iteration
        return progress.scored and waited >= self.patience * progress.score_every


@dataclass(frozen=True)
class CallbackStop(_Rule):
    """A callback requested a stop."""

    name: ClassVar[str] = "callback"
    at_start: ClassVar[bool] = True
    advice: ClassVar[str] = "a callback stopped it after {n} iterations"

    def __call__(self, progress: Progress) -> bool:
        return progress.stop_requested


@dataclass(frozen=True)
class MaxIterations(_Rule):
    """The number of iterations has reached its limit."""

    most: int

    name: ClassVar[str] = "max_iter"
    before_step: ClassVar[bool] = True
    advice: ClassVar[str] = (
        "the {n} iterations of 'max_iter' were used up; increase 'max_iter' or 'tol'"
    )

    def __call__(self, progress: Progress) -> bool:
        return progress.n_steps >= self.most


@dataclass(frozen=True)
class NearEdge(_Rule):
    """The rows are so far from where lists were made that the next steps would be cut short."""

    near_edge: Callable[[Any], bool]

    name: ClassVar[str] = "edge"
    at_start: ClassVar[bool] = True  # a run that is resumed there does not continue its round

    def __call__(self, progress: Progress) -> bool:
        return self.near_edge(progress.state.theta)


@dataclass(frozen=True)
class TimeBudget(_Rule):
    """The next step and a last score, if they take as long as before, would end too late."""

    seconds: float

    name: ClassVar[str] = "time_budget"
    before_step: ClassVar[bool] = True
    advice: ClassVar[str] = (
        "the {budget:g} seconds of 'time_budget' were used up after {n} iterations"
    )

    def __call__(self, progress: Progress) -> bool:
        needed = progress.seconds_a_step + progress.score_seconds
        return progress.passed + needed > self.seconds


class TimeUp(Exception):
    """There is no time for another evaluation."""


class Timed:
    """A function that raises `TimeUp` instead of an evaluation that would end too late.

    A step of a solver may take many evaluations, so the stop rules, which are asked between
    steps, cannot keep to a time limit alone.  The first evaluation is always made.

    Parameters
    ----------
    fun : callable
        ``value, grad = fun(theta, batch)``; its ``project`` and ``facts`` are passed on.
    deadline : float
        On the clock of ``_clock.now``.
    seconds : float or None
        How long the last evaluation took, without compilation; None before the first.
    """

    def __init__(self, fun: Any, deadline: float, seconds: float | None = None) -> None:
        self.fun, self.deadline, self.seconds = fun, deadline, seconds

    def __call__(self, theta: Any, batch: Any = None) -> Any:
        began, compiled = _clock.now(), _clock.compiled_seconds()
        if self.seconds is not None and began + self.seconds > self.deadline:
            raise TimeUp
        result = self.fun(theta, batch)
        self.seconds = _clock.now() - began - (_clock.compiled_seconds() - compiled)
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self.fun, name)


def advice_for(reason: str) -> str:
    """Why a run that stopped for this reason did not converge; has fields {n} and {budget}."""
    rules: tuple[Any, ...] = (Stalled, CallbackStop, MaxIterations, TimeBudget)
    return {**_ADVICE, **{rule.name: rule.advice for rule in rules}}[reason]


def stop_rules(
    solver: Any,
    *,
    tol: float = 1e-5,
    units: Units = _UNITS,
    patience: int = 10,
    flat_loss: bool = False,
) -> tuple[StopRule, ...]:
    """The usual stop rules.

    Parameters
    ----------
    solver : Solver
        If each of its steps must lower the loss sufficiently (Wolfe), a single small decrease means
        convergence; otherwise only a window of ``patience`` steps does.
    tol : float
        Tolerance for the gradient and for the loss; minus infinity for none.
    units : Units
        The units of the loss.
    patience : int
        Scores without a better one, or iterations without a lower loss.
    flat_loss : bool
        Always compare losses over ``patience`` steps, whatever the solver: for losses that are
        flat far from their minimum.
    """
    at_once = solver.sufficient_decrease and not flat_loss
    return (
        SmallGradient(tol, units),
        Stalled(tol, units),
        FlatLoss(tol, units, 1 if at_once else patience),
        NoBetterScore(patience),
        CallbackStop(),
    )
