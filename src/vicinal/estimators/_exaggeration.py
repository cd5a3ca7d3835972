"""The stages of an embedding: early exaggeration, then the loss itself; and when they end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from vicinal import solvers
from vicinal.core.problem import Problem
from vicinal.core.stages import Stage
from vicinal.core.stopping import CallbackStop, Stalled
from vicinal.core.types import Array, Solver, is_auto

__all__ = [
    "NoProgress",
    "SmallGradientNorm",
    "StageEnd",
    "divergence",
    "learning_rates",
    "make_stages",
]

_MOMENTUM = 0.8


class _Rule:
    advice: ClassVar[str] = ""
    at_start: ClassVar[bool] = False
    before_step: ClassVar[bool] = False

    def converged(self, progress: Any) -> bool:
        """Whether a run that this rule stops has converged."""
        return True


@dataclass(frozen=True)
class StageEnd(_Rule):
    """The stage ends after iteration number ``last`` of the whole run."""

    last: int

    name: ClassVar[str] = "stage"
    at_start: ClassVar[bool] = True

    def __call__(self, progress: Any) -> bool:
        return progress.iteration >= self.last


@dataclass(frozen=True)
class NoProgress(_Rule):
    """The lowest loss is ``most`` iterations old."""

    most: int

    name: ClassVar[str] = "no_progress"

    def __call__(self, progress: Any) -> bool:
        losses = progress.losses
        return len(losses) > self.most and min(losses[-self.most :]) > progress.lowest[-1]


@dataclass(frozen=True)
class SmallGradientNorm(_Rule):
    """The Euclidean norm of the gradient is at most ``least``, or that share of a small picture.

    Early exaggeration may shrink a picture by many orders of magnitude.  The gradient is as small
    then, but the picture is about to grow.
    """

    least: float

    name: ClassVar[str] = "gradient"

    def __call__(self, progress: Any) -> bool:
        size = min(1.0, float(np.std(progress.state.theta)))
        return float(np.linalg.norm(progress.state.grad)) <= self.least * size


def learning_rates(estimator: Any, n: int, k: int) -> tuple[float, float]:
    """The rates of the two stages; "auto" is ``n / (4 * exaggeration * k)``.

    At k = 1 this is the rate of [Belkina2019]; the gradient grows with k.  There is no least rate,
    as others have: of 25 to 150 rows, one of 10 or more scatters the points during early
    exaggeration.
    """
    rate = estimator.learning_rate
    if not is_auto(rate):
        return float(rate), float(rate)
    factors = estimator.early_exaggeration, estimator.exaggeration
    early, late = (n / (4.0 * factor * k) for factor in factors)
    return early, late


def make_stages(problem: Problem, estimator: Any, rates: tuple[float, float]) -> list[Stage]:
    """The stages of a fit."""
    rules = (
        SmallGradientNorm(estimator.min_grad_norm),
        Stalled(-np.inf),
        NoProgress(estimator.n_iter_without_progress),
        CallbackStop(),
    )
    late = Stage(problem, _solver(estimator, rates[1]), rules)
    if estimator.early_exaggeration_iter == 0 or estimator.early_exaggeration == 1.0:
        return [late]
    objective: Any = problem.objective
    exaggerated = replace(objective, exaggeration=float(estimator.early_exaggeration))
    end = CallbackStop(), StageEnd(int(estimator.early_exaggeration_iter)), Stalled(-np.inf)
    early = Stage(problem.replace(objective=exaggerated), _solver(estimator, rates[0]), end)
    return [early, late]


def _solver(estimator: Any, rate: float) -> Solver:
    if is_auto(estimator.solver):
        # 0.5 during early exaggeration, as in [vanDerMaaten2008], only delays it: at iteration 50
        # the loss of 150 digits was 2.50 then, and 2.38 with 0.8
        return solvers.Momentum(rate, _MOMENTUM)
    return solvers.resolve(estimator.solver, type(estimator).__name__)


def divergence(problem: Problem, theta: Array, value: float) -> float:
    """The divergence without exaggeration, of parameters with this loss."""
    objective: Any = problem.objective
    if objective.exaggeration == 1.0:
        return float(value)
    return problem.replace(objective=replace(objective, exaggeration=1.0)).value(theta)
