"""When to stop: each rule has a name, a test, and the advice to print where it is no convergence.

A rule is asked about a :class:`~vicinal.core.loop.Progress`.  `before_step` says that it is asked
before a step is begun, `at_start` that it is asked once before the first one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from vicinal.core.types import Units

if TYPE_CHECKING:
    from vicinal.core.loop import Progress

__all__ = [
    "ENDS_TRAINING",
    "Asked",
    "FlatLoss",
    "MaxIterations",
    "NoBetterScore",
    "SmallGradient",
    "Stalled",
    "StopRule",
    "TimeBudget",
    "advice_for",
    "stop_rules",
]

#: reasons that end a training run, whatever stages are still to come
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
        """Whether a run that stops by this rule has arrived."""
        return self.success


@dataclass(frozen=True)
class SmallGradient(_Rule):
    r""":math:`\max|\nabla f| \le` tol in units of the gradient; of the projected one, if any."""

    tol: float
    units: Units = _UNITS

    name: ClassVar[str] = "gradient"
    at_start: ClassVar[bool] = True
    success: ClassVar[bool] = True

    def __call__(self, progress: Progress) -> bool:
        # the gradient of one batch says little about the others
        return progress.fixed and progress.slope <= self.tol * progress.slope_unit(self.units)


@dataclass(frozen=True)
class Stalled(_Rule):
    """The solver finds no lower point; convergence only where the gradient is nearly small."""

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
        """Whether the gradient is at most the square root of the tolerance."""
        return progress.slope <= math.sqrt(max(self.tol, 0.0)) * progress.slope_unit(self.units)


@dataclass(frozen=True)
class FlatLoss(_Rule):
    r""":math:`f_{old} - f_{new} \le \text{tol}\cdot\max(|f_{old}|, |f_{new}|, u)` over a window.

    Of the lowest losses so far; and no loss in the window may be more than
    :math:`\sqrt{\text{tol}}\cdot\max(\ldots)` above them.
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
        # lowest the run is under way, not at its end.
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
class Asked(_Rule):
    """A callback asked to stop."""

    name: ClassVar[str] = "callback"
    at_start: ClassVar[bool] = True
    advice: ClassVar[str] = "a callback stopped it after {n} iterations"

    def __call__(self, progress: Progress) -> bool:
        return progress.told_to_stop


@dataclass(frozen=True)
class MaxIterations(_Rule):
    """So many iterations were made."""

    most: int

    name: ClassVar[str] = "max_iter"
    before_step: ClassVar[bool] = True
    advice: ClassVar[str] = (
        "the {n} iterations of 'max_iter' were used up; increase 'max_iter' or 'tol'"
    )

    def __call__(self, progress: Progress) -> bool:
        return progress.n_steps >= self.most


@dataclass(frozen=True)
class TimeBudget(_Rule):
    """A step as long as the mean of those so far would end after so many seconds."""

    seconds: float

    name: ClassVar[str] = "time_budget"
    before_step: ClassVar[bool] = True
    advice: ClassVar[str] = (
        "the {budget:g} seconds of 'time_budget' were used up after {n} iterations"
    )

    def __call__(self, progress: Progress) -> bool:
        return progress.passed + progress.seconds_a_step > self.seconds


def advice_for(reason: str) -> str:
    """Why a run that stopped for this reason did not converge; has fields {n} and {budget}."""
    rules: tuple[Any, ...] = (Stalled, Asked, MaxIterations, TimeBudget)
    return {**_ADVICE, **{rule.name: rule.advice for rule in rules}}[reason]


def stop_rules(
    solver: Any,
    *,
    tol: float = 1e-5,
    units: Units = _UNITS,
    patience: int = 10,
    flat_loss: bool = False,
) -> tuple[StopRule, ...]:
    """The rules that most runs stop by.

    Parameters
    ----------
    solver : Solver
        Where each of its steps must lower the loss by its due (Wolfe), one small decrease means
        the end; elsewhere only a window of ``patience`` steps does.
    tol : float
        Of the gradient and of the loss.
    units : Units
        What a loss of size one is.
    patience : int
        Scores without a better one, or iterations without a lower loss.
    flat_loss : bool
        Judge the loss over ``patience`` steps, whatever the solver: for losses that are flat far
        from their minimum.
    """
    at_once = getattr(solver, "sufficient_decrease", False) and not flat_loss
    return (
        SmallGradient(tol, units),
        Stalled(tol, units),
        FlatLoss(tol, units, 1 if at_once else patience),
        NoBetterScore(patience),
        Asked(),
    )
