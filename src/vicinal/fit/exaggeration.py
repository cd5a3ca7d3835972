"""The stages of an embedding: early exaggeration, then the loss itself; and when they end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from vicinal import solvers
from vicinal.core.problem import Problem
from vicinal.core.stages import Stage
from vicinal.core.stopping import CallbackStop, FlatLoss, Stalled, StopRule
from vicinal.core.types import Array, Solver, is_auto
from vicinal.fit.cost import engine_of
from vicinal.fit.first_points import learns_map

_MOMENTUM, _MAP_RATE = 0.8, 0.05
_FLAT = 1e-5  # relative decrease over ten steps of a line search that counts as none


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


def early_exaggeration(estimator: Any) -> float:
    """The factor of the first stage; "auto" is 12 for free points, and 1, for none, for a map.

    Of a linear map of 400 digits the divergence after 500 steps of L-BFGS was 5.01 without, and
    5.13 with 250 exaggerated steps.
    """
    factor = estimator.early_exaggeration
    if is_auto(factor):
        return 1.0 if learns_map(estimator) else 12.0
    return float(factor)


@dataclass(frozen=True)
class Shrunk(_Rule):
    """The spread of free points is a thousandth of the size of their start.

    While all points are close together, forces are linear in their places, and every direction in
    which the exaggerated attraction outweighs the repulsion shrinks exponentially.  With few rows
    or a large k these may be all directions: the picture would forget its start, digit by digit.
    """

    n_components: int

    name: ClassVar[str] = "stage"

    def __call__(self, progress: Any) -> bool:
        # about the mean: gains, one for each coordinate, let the picture drift
        spread = progress.state.theta.reshape(-1, self.n_components).std(axis=0).max()
        # random starts shrink to a hundredth first, and then grow
        return bool(spread <= 1e-3 * min(1.0, progress.map_size))


def learning_rates(estimator: Any, n: int, k: int) -> tuple[float, float]:
    """The rates of the two stages; "auto" is ``n / (4 * exaggeration * k)``.

    At k = 1 this is the rate of [Belkina2019]; the gradient grows with k.  There is no least rate,
    as others have: of 25 to 75 rows, one of 10 or more scatters the points during early
    exaggeration.
    """
    rate = estimator.learning_rate
    if not is_auto(rate):
        return float(rate), float(rate)
    factors = early_exaggeration(estimator), float(estimator.exaggeration)
    early, late = (n / (4.0 * factor * k) for factor in factors)
    return early, late


def make_stages(problem: Problem, estimator: Any) -> list[Stage]:
    """The stages of a fit."""
    target: Any = problem.target
    rates = learning_rates(estimator, len(target), target.k)
    solver = make_solver(estimator, rates[1], len(target))
    rules: tuple[StopRule, ...] = (
        SmallGradientNorm(estimator.min_grad_norm),
        Stalled(-np.inf),
        NoProgress(estimator.n_iter_without_progress),
        CallbackStop(),
    )
    if solver.sufficient_decrease:  # it never goes uphill: no progress is little
        rules = (*rules, FlatLoss(_FLAT, window=10))
    late = Stage(problem, solver, rules)
    factor = early_exaggeration(estimator)
    if estimator.early_exaggeration_iter == 0 or factor == estimator.exaggeration:
        return [late]
    objective: Any = problem.objective
    exaggerated = problem.replace(objective=replace(objective, exaggeration=factor))
    last = StageEnd(int(estimator.early_exaggeration_iter))
    end: tuple[StopRule, ...] = CallbackStop(), last, Stalled(-np.inf)
    if not learns_map(estimator):
        end = *end, Shrunk(int(estimator.n_components))
    return [Stage(exaggerated, make_solver(estimator, rates[0], len(target)), end), late]


def make_solver(estimator: Any, rate: float, n: int) -> Solver:
    """The solver of a stage.

    Momentum of 0.5 during early exaggeration, as in [vanDerMaaten2008], only delays it: at
    iteration 50 the loss of 150 digits was 2.50 then, and 2.38 with 0.8.
    """
    if not is_auto(estimator.solver):
        return solvers.resolve(estimator.solver, type(estimator).__name__)
    if not learns_map(estimator) or not is_auto(estimator.learning_rate):
        return solvers.Momentum(rate, _MOMENTUM)
    # interpolated losses are too rough for a line search
    return solvers.Adam(_MAP_RATE) if engine_of(estimator, n) == "fft" else solvers.LBFGS()


def divergence(problem: Problem, theta: Array, value: float) -> float:
    """The divergence without exaggeration, of parameters with this loss."""
    objective: Any = problem.objective
    if objective.exaggeration == 1.0:
        return float(value)
    return problem.replace(objective=replace(objective, exaggeration=1.0)).value(theta)
