"""Spectral projected gradients, for parameters that must stay in a convex set.

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
from vicinal.core.evaluation import allowed, at_rest, evaluate, is_finite, projected_gradient
from vicinal.core.types import Array, Batch, Fun
from vicinal.solvers._line_search import dot, first_rate, norm

__all__ = ["ProjectedGradient", "ProjectedGradientState"]

_FIRST_MOVE = 0.1  # along the gradient, as a share of the norm of theta
_FIRST_LEAP = 10.0  # the same where theta cannot leave a set: it ends on the other side
_RANGE = 1e10  # how many times longer or shorter than the first a step may become
_SHORTEST, _LONGEST = 0.1, 0.5  # of a share that failed: the next one


class ProjectedGradientState(NamedTuple):
    """Memory of :class:`ProjectedGradient`: where it is, its step, and the last losses."""

    theta: Array
    value: float
    grad: Array
    n_evaluations: int
    stalled: bool
    rate: float
    scale: float  # the first rate
    values: Array  # oldest first; the last is ``value`` unless the function has changed since
    residual: Array | None = None  # the projected gradient, where the parameters are not free


class _Found(NamedTuple):
    theta: Array
    value: float
    grad: Array


@dataclass(frozen=True)
class ProjectedGradient:
    r"""Gradient steps of the length that the last step suggests, back onto the allowed set.

    .. math::
        d_k = P(\theta_k - \eta_k \nabla f(\theta_k)) - \theta_k, \qquad
        \theta_{k+1} = \theta_k + \lambda_k d_k, \qquad
        \eta_{k+1} = \frac{s^\top s}{s^\top y}

    with :math:`s = \theta_{k+1} - \theta_k,\ y = \nabla f_{k+1} - \nabla f_k`
    [BarzilaiBorwein1988].  P is ``fun.project``, the projection onto a convex set, so that the
    line from :math:`\theta_k` along :math:`d_k` stays in it up to :math:`\lambda = 1`; where
    ``fun`` has none, P is the identity.  A start that is not allowed is projected.

    :math:`\lambda` is 1, or less until the loss is below the highest of the last ``memory`` losses
    by ``c_1`` of what the slope promises ([Birgin2000] algorithm SPG2): steps that raise the loss
    are what makes these lengths fast.  The first move is a tenth of the norm of theta, and ten
    times that norm where there is a P, whatever the scale of the loss; no later :math:`\eta` is
    more than 1e10 times longer or shorter.  Where the curvature :math:`s^\top y` is not positive,
    :math:`\eta = \|s\| / \|y\|`.

    Parameters
    ----------
    memory : int
        Losses that a step is compared with; with 1 the loss falls at each step.
    c_1 : float
        Share of the decrease promised by the slope that is asked for.
    max_line_search : int
        The most evaluations on one line.
    """

    memory: int = 10
    c_1: float = 1e-4
    max_line_search: int = 20

    needs_fixed_batch: ClassVar[bool] = True
    # The loss may rise: one small decrease does not mean convergence.
    sufficient_decrease: ClassVar[bool] = False
    projects: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_part(self, "memory", low=1, kind=int, closed=True)
        check_part(self, "c_1", high=1.0)
        check_part(self, "max_line_search", low=1, kind=int, closed=True)

    def init(self, fun: Fun, theta: Array, batch: Batch | None = None) -> ProjectedGradientState:
        """Evaluate once at ``theta`` and choose the first rate."""
        theta = allowed(fun, np.array(theta, dtype=np.float64))
        value, grad = evaluate(fun, theta, batch)
        rate = _first(fun, theta, grad)
        residual = projected_gradient(fun, theta, grad)
        row = (theta, value, grad, 1, at_rest(grad, residual), rate, rate, np.array([value]))
        return ProjectedGradientState(*row, residual)

    def step(
        self, fun: Fun, theta: Array, state: ProjectedGradientState, batch: Batch | None = None
    ) -> tuple[Array, ProjectedGradientState]:
        """Go to a point that is low enough on the line of the projected step, or stay."""
        # A state begun at a zero gradient and refreshed since has no rate yet.
        scale = state.scale if state.scale > 0.0 else _first(fun, theta, state.grad)
        rate = state.rate if state.rate > 0.0 else scale
        # Losses of another function, before a refresh, say nothing of this one.
        values = state.values if state.values[-1] == state.value else np.array([state.value])
        found, n = None, 0
        # a step that leaves the range of floats is cut to the length of a first one
        for length in (rate, first_rate(theta, state.grad, _FIRST_MOVE)):
            with np.errstate(over="ignore", invalid="ignore"):
                end = allowed(fun, theta - length * state.grad)
                direction = end - theta
            if np.isfinite(direction).all():
                rate, highest = length, float(values.max())
                found, n = self._search(fun, theta, state, end, direction, highest, batch)
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
        row = (*found, n, at_rest(found.grad, residual), rate, scale, values)
        return found.theta, ProjectedGradientState(*row, residual)

    def _search(
        self,
        fun: Fun,
        theta: Array,
        state: ProjectedGradientState,
        end: Array,
        direction: Array,
        highest: float,
        batch: Batch | None,
    ) -> tuple[_Found | None, int]:
        """The first point from ``end`` backwards that is low enough, and the number of trials.

        Failing that (rounding, noise) the lowest trial below the start, or None.
        """
        slope, share = dot(state.grad, direction), 1.0
        best: _Found | None = None
        for n in range(self.max_line_search):
            # the projection itself: theta + (end - theta) is off by rounding
            new = end if share == 1.0 else theta + share * direction
            gain = -share * slope
            rounding = np.finfo(np.float64).eps * abs(state.value)
            if np.array_equal(new, theta) or not gain > (rounding if n else 0.0):
                return best, n
            value, grad = evaluate(fun, new, batch)
            usable = is_finite(value, grad)
            if usable and value <= highest - self.c_1 * gain:
                return _Found(new, value, grad), n + 1
            if usable and value < (state if best is None else best).value:
                best = _Found(new, value, grad)
            # the minimum of the parabola through the loss and slope at the start and this loss
            lower = 0.5 * gain / (value - state.value + gain) if usable else 0.0
            share *= min(max(lower, _SHORTEST), _LONGEST) if math.isfinite(lower) else _LONGEST
        return best, self.max_line_search


def _first(fun: Fun, theta: Array, grad: Array) -> float:
    """The first rate."""
    free = getattr(fun, "project", None) is None
    return first_rate(theta, grad, _FIRST_MOVE if free else _FIRST_LEAP)


def _spectral(s: Array, y: Array, rate: float) -> float:
    """The step whose multiple of the identity fits the last curvature best."""
    size, change = norm(s), norm(y)
    if change == 0.0:  # a straight slope
        return 10.0 * rate
    if not math.isfinite(change):
        return rate
    # through unit vectors: squares of 1e-200 or 1e200 would under- or overflow
    cosine = dot(s / size, y / change)
    return size / change / cosine if cosine > 0.0 else size / change
