"""Spectral projected gradients, for parameters in a convex set.

References
----------
[Birgin2000] algorithm SPG2, [BarzilaiBorwein1988].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from vicinal._validation import check_part
from vicinal.core.evaluation import (
    evaluate,
    is_finite,
    is_stationary,
    projected,
    projected_gradient,
)
from vicinal.core.types import Array, Batch, Fun, Solver
from vicinal.solvers._line_search import dot, first_rate, norm

_FIRST_MOVE = 0.1  # along the gradient, as a share of the norm of theta
_FIRST_CONSTRAINED_MOVE = 10.0  # the same under a constraint, which bounds the move
_RANGE = 1e10  # how many times longer or shorter than the first a step may become
_SHORTEST, _LONGEST = 0.1, 0.5  # range of the factor for the next share after one that failed


class ProjectedGradientState(NamedTuple):
    """State of :class:`ProjectedGradient`: the current point, its rate, and the last losses."""

    theta: Array
    value: float
    grad: Array
    n_evaluations: int
    stalled: bool
    rate: float
    scale: float  # the first rate
    values: Array  # oldest first; the last is ``value`` unless the function has changed since
    residual: Array | None = None  # the projected gradient, if the parameters are constrained


class _Point(NamedTuple):
    theta: Array
    value: float
    grad: Array


@dataclass(frozen=True)
class ProjectedGradient(Solver):
    r"""Projected gradient steps whose length comes from the last step.

    .. math::
        d_k = P(\theta_k - \eta_k \nabla f(\theta_k)) - \theta_k, \qquad
        \theta_{k+1} = \theta_k + \lambda_k d_k, \qquad
        \eta_{k+1} = \frac{s^\top s}{s^\top y}

    with :math:`s = \theta_{k+1} - \theta_k,\ y = \nabla f_{k+1} - \nabla f_k`
    [BarzilaiBorwein1988].  P is ``fun.project``, the projection onto a convex set, so that the
    line from :math:`\theta_k` along :math:`d_k` stays in it up to :math:`\lambda = 1`; if ``fun``
    has no ``project``, P is the identity.  The start is projected.

    :math:`\lambda` begins at 1 and shrinks until the loss is below the highest of the last
    ``memory`` losses by ``c_1`` times the decrease that the slope promises ([Birgin2000] algorithm
    SPG2): these step lengths are fast because some steps may raise the loss.  The first move is a
    tenth of the norm of theta, or ten times that norm if there is a P, whatever the scale of the
    loss; no later :math:`\eta` is more than 1e10 times longer or shorter.  If the curvature
    :math:`s^\top y` is not positive, :math:`\eta = \|s\| / \|y\|`.

    Parameters
    ----------
    memory : int
        Number of losses that a step is compared with; with 1 the loss falls at each step.
    c_1 : float
        Required share of the decrease that the slope promises.
    max_line_search : int
        Largest number of evaluations on one line.
    """

    memory: int = 10
    c_1: float = 1e-4
    max_line_search: int = 20

    needs_fixed_batch: ClassVar[bool] = True
    # The loss may rise: one small decrease does not mean convergence.
    projects: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_part(self, "memory", low=1, kind=int, closed=True)
        check_part(self, "c_1", high=1.0)
        check_part(self, "max_line_search", low=1, kind=int, closed=True)

    def init(self, fun: Fun, theta: Array, batch: Batch | None = None) -> ProjectedGradientState:
        """Evaluate once at ``theta`` and choose the first rate."""
        theta = projected(fun, np.array(theta, dtype=np.float64))
        value, grad = evaluate(fun, theta, batch)
        rate = _initial_rate(fun, theta, grad)
        residual = projected_gradient(fun, theta, grad)
        fields = (theta, value, grad, 1, is_stationary(grad, residual), rate, rate)
        return ProjectedGradientState(*fields, np.array([value]), residual)

    def step(
        self, fun: Fun, theta: Array, state: ProjectedGradientState, batch: Batch | None = None
    ) -> tuple[Array, ProjectedGradientState]:
        """Move to a point that is low enough on the line of the projected step, or stay."""
        # A state that began at a zero gradient and was refreshed has no rate yet.
        scale = state.scale if state.scale > 0.0 else _initial_rate(fun, theta, state.grad)
        rate = state.rate if state.rate > 0.0 else scale
        # Losses from before a refresh belong to another function.
        values = state.values if state.values[-1] == state.value else np.array([state.value])
        found, n = None, 0
        # A step that overflows is replaced by one of the length of a first step.
        for length in (rate, first_rate(theta, state.grad, _FIRST_MOVE)):
            with np.errstate(over="ignore", invalid="ignore"):
                end = projected(fun, theta - length * state.grad)
                direction = end - theta
            if np.isfinite(direction).all():
                rate, highest = length, float(values.max())
                found, n = self._line_search(fun, theta, state, end, direction, highest, batch)
                break
        n += state.n_evaluations
        if found is None:
            return theta, state._replace(stalled=True, n_evaluations=n)
        with np.errstate(over="ignore"):
            s, y = found.theta - theta, found.grad - state.grad
        rate = _spectral(s, y, rate)
        rate = min(max(rate, scale / _RANGE), scale * _RANGE)
        values = np.append(values, found.value)[-self.memory :]
        residual = projected_gradient(fun, found.theta, found.grad)
        fields = (*found, n, is_stationary(found.grad, residual), rate, scale, values)
        return found.theta, ProjectedGradientState(*fields, residual)

    def _line_search(
        self,
        fun: Fun,
        theta: Array,
        state: ProjectedGradientState,
        end: Array,
        direction: Array,
        highest: float,
        batch: Batch | None,
    ) -> tuple[_Point | None, int]:
        """The first point from ``end`` backwards that is low enough, and the number of trials.

        If there is none (rounding, noise): the lowest trial below the start, or None.
        """
        slope, share = dot(state.grad, direction), 1.0
        best: _Point | None = None
        for n in range(self.max_line_search):
            # theta + (end - theta) would differ from end by rounding
            new = end if share == 1.0 else theta + share * direction
            gain = -share * slope
            rounding = np.finfo(np.float64).eps * abs(state.value)
            if np.array_equal(new, theta) or not gain > (rounding if n else 0.0):
                return best, n
            value, grad = evaluate(fun, new, batch)
            usable = is_finite(value, grad)
            if usable and value <= highest - self.c_1 * gain:
                return _Point(new, value, grad), n + 1
            if usable and value < (state if best is None else best).value:
                best = _Point(new, value, grad)
            # the minimum of the parabola through the loss and slope at the start and this loss
            lower = 0.5 * gain / (value - state.value + gain) if usable else 0.0
            share *= min(max(lower, _SHORTEST), _LONGEST) if math.isfinite(lower) else _LONGEST
        return best, self.max_line_search


def _initial_rate(fun: Fun, theta: Array, grad: Array) -> float:
    free = getattr(fun, "project", None) is None
    return first_rate(theta, grad, _FIRST_MOVE if free else _FIRST_CONSTRAINED_MOVE)


def _spectral(s: Array, y: Array, rate: float) -> float:
    """The rate for which a multiple of the identity fits the last curvature best."""
    size, change = norm(s), norm(y)
    if change == 0.0:  # no curvature
        return 10.0 * rate
    if not math.isfinite(change):
        return rate
    # unit vectors, since squares of 1e-200 or 1e200 would under- or overflow
    cosine = dot(s / size, y / change)
    return size / change / cosine if cosine > 0.0 else size / change
