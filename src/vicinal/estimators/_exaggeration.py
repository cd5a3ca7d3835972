"""The stages of an embedding: early exaggeration, then the loss itself; and when they end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from vicinal import solvers
from vicinal.core.problem import Problem
from vicinal.core.stages import Stage
from vicinal.core.stopping import CallbackStop, Stalled
from vicinal.core.types import Solver, is_auto

__all__ = ["NoProgress", "SmallGradientNorm", "StageEnd", "learning_rates", "make_stages"]

_LEAST_RATE = 50.0  # of the automatic rate at k = 1, as in scikit-learn
_FIRST_MOMENTUM, _MOMENTUM = 0.5, 0.8  # of early exaggeration and after it [vanDerMaaten2008]


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
    """The Euclidean norm of the gradient is at most ``least``."""

    least: float

    name: ClassVar[str] = "gradient"

    def __call__(self, progress: Any) -> bool:
        return float(np.linalg.norm(progress.state.grad)) <= self.least


def learning_rates(estimator: Any, n: int, k: int) -> tuple[float, float]:
    """The rates of the two stages; "auto" is ``n / (4 * exaggeration * k)``, but no less than 50/k.

    At k = 1 this is the rate of [Belkina2019]; the gradient grows with k.
    """
    rate = estimator.learning_rate
    if not is_auto(rate):
        return float(rate), float(rate)
    early, late = (
        max(n / (4.0 * factor), _LEAST_RATE) / k
        for factor in (estimator.early_exaggeration, estimator.exaggeration)
    )
    return early, late


def make_stages(problem: Problem, estimator: Any, rates: tuple[float, float]) -> list[Stage]:
    """The stages of a fit of free points, or of the map that the estimator was given."""
    objective: Any = problem.objective
    parts: list[Solver] = [
        solvers.Momentum(rates[0], _FIRST_MOMENTUM),
        solvers.Momentum(rates[1], _MOMENTUM),
    ]
    if not is_auto(estimator.solver):
        parts = [solvers.resolve(estimator.solver, type(estimator).__name__)] * 2
    rules = (
        SmallGradientNorm(estimator.min_grad_norm),
        Stalled(-np.inf),
        NoProgress(estimator.n_iter_without_progress),
        CallbackStop(),
    )
    late = Stage(problem, parts[1], rules)
    if estimator.early_exaggeration_iter == 0 or estimator.early_exaggeration == 1.0:
        return [late]
    exaggerated = replace(objective, exaggeration=float(estimator.early_exaggeration))
    end = StageEnd(int(estimator.early_exaggeration_iter))
    early = Stage(problem.replace(objective=exaggerated), parts[0], (CallbackStop(), end))
    return [early, late]
