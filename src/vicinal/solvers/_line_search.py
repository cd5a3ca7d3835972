"""What the solvers share: norms, the length of a first step, and a line search.

References
----------
[NocedalWright2006], algorithms 3.5 and 3.6, equation (3.59).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from vicinal.core.evaluation import evaluate, is_finite
from vicinal.core.types import Array, Batch, Fun


def first_rate(theta: Array, grad: Array, fraction: float) -> float:
    r"""Return the rate :math:`\eta` whose first move is a given fraction of the norm of theta.

    .. math:: \eta = \text{fraction} \cdot \|\theta\| / \|\nabla f\|

    The move :math:`\eta \nabla f` does not change if the loss is multiplied by a constant, and
    scales with the parameters.  If theta is zero, its norm is taken to be one.
    """
    size, slope = norm(theta), norm(grad)
    if slope == 0.0:
        return 0.0
    return fraction * (size if size > 0.0 else 1.0) / slope


def norm(x: Array) -> float:
    """The Euclidean norm, for entries of any size."""
    # Divide by the largest entry: squares of 1e-200 or 1e200 would under- or overflow.
    largest = float(np.max(np.abs(x), initial=0.0))
    if largest == 0.0 or not math.isfinite(largest):
        return largest
    return largest * math.sqrt(dot(x / largest, x / largest))


def dot(a: Array, b: Array) -> float:
    """Return the inner product; it overflows to infinity without a warning."""
    # einsum, not BLAS, whose sum depends on the number of threads for long vectors.
    return float(np.einsum("i,i->", a, b))


class Trial(NamedTuple):
    """A point on the line: the step to it, its loss, slope, parameters and gradient."""

    step: float
    value: float
    slope: float
    theta: Array
    grad: Array

    @property
    def usable(self) -> bool:
        return math.isfinite(self.value) and math.isfinite(self.slope)


def _try(fun: Fun, start: Trial, direction: Array, step: float, batch: Batch | None) -> Trial:
    with np.errstate(over="ignore", invalid="ignore"):
        theta = start.theta + step * direction
    if not np.isfinite(theta).all():
        return Trial(step, math.inf, math.nan, theta, start.grad)
    value, grad = evaluate(fun, theta, batch)
    slope = dot(grad, direction) if is_finite(value, grad) else math.nan
    return Trial(step, value, slope, theta, grad)


def _cubic(a: Trial, b: Trial) -> float:
    """Minimiser of the cubic through both values and slopes, [NocedalWright2006] eq. (3.59)."""
    width = b.step - a.step
    d1 = a.slope + b.slope - 3.0 * (b.value - a.value) / width
    radicand = d1 * d1 - a.slope * b.slope
    if not 0.0 <= radicand < math.inf:  # no minimum, or overflow
        return math.nan
    d2 = math.copysign(math.sqrt(radicand), width)
    below = b.slope - a.slope + 2.0 * d2
    return b.step - width * (b.slope + d2 - d1) / below if below != 0.0 else math.nan


def _extrapolate(before: Trial, last: Trial) -> float:
    """Next step past ``last``, by 1.1 to 4 times the distance from ``before`` to ``last``."""
    width = last.step - before.step
    step = _cubic(before, last)
    longest = last.step + 4.0 * width
    if not step > last.step:  # also NaN: the cubic has no minimum
        return longest
    return min(max(step, last.step + 1.1 * width), longest)


def _interpolate(low: Trial, high: Trial, bisect: bool) -> float:
    """Next step inside the bracket, away from its ends."""
    width = high.step - low.step
    if not high.usable:
        # The far end is too far: from the start, perhaps by orders of magnitude.
        return low.step + (0.1 if low.step == 0.0 else 0.5) * width
    share = 0.5 if bisect else (_cubic(low, high) - low.step) / width
    return low.step + (min(max(share, 0.1), 0.9) if math.isfinite(share) else 0.5) * width


def wolfe_search(
    fun: Fun,
    start: Trial,
    direction: Array,
    step: float,
    batch: Batch | None,
    *,
    c_1: float,
    c_2: float,
    max_evaluations: int,
) -> tuple[Trial | None, int]:
    r"""Find a step along ``direction`` that satisfies the strong Wolfe conditions.

    With :math:`\phi(t) = f(\theta + t\,d)`, [NocedalWright2006] eq. (3.7):

    .. math:: \phi(t) \le \phi(0) + c_1 t \phi'(0), \qquad |\phi'(t)| \le c_2 |\phi'(0)|

    Algorithms 3.5 (bracket) and 3.6 (zoom) in one loop: ``low`` is the lowest point seen that
    satisfies the first condition, ``high`` the other end of an interval that contains a Wolfe
    point.  A trial whose loss or gradient is not finite counts as infinitely high.  It may be
    behind a wall, with no Wolfe point before it: where the loss still falls half as steeply as at
    the start, a point at least half way to the wall is taken.

    Parameters
    ----------
    fun : callable
        ``value, grad = fun(theta, batch)``.
    start : Trial
        The point at step 0, its slope :math:`\phi'(0)` negative.
    direction : ndarray of shape (n,)
        The descent direction d.
    step : float
        The first step to try.
    batch : Batch or None
        Passed to ``fun``.
    c_1, c_2 : float
        The constants of the conditions, 0 < c_1 < c_2 < 1.
    max_evaluations : int
        Largest number of trials.

    Returns
    -------
    trial : Trial or None
        The Wolfe point; if none is found (a wall, rounding, noise), a trial below the start; None
        if no trial is below it.
    n_evaluations : int
        Number of trials.
    """
    low, high, best = start, None, start
    widths = (math.inf, math.inf)
    for n in range(1, max_evaluations + 1):
        trial = _try(fun, start, direction, step, batch)
        if trial.usable and trial.value < best.value:
            best = trial
        allowed = start.value + c_1 * step * start.slope
        if not trial.usable or trial.value > allowed or trial.value >= low.value:
            high = trial
        elif abs(trial.slope) <= -c_2 * start.slope:
            return trial, n
        elif high is None and trial.slope < 0.0:
            step, low = _extrapolate(low, trial), trial
            continue
        else:
            # The trial is past a minimum as seen from low: it lies between the two.
            if high is None or trial.slope * (high.step - low.step) >= 0.0:
                high = low
            low = trial
        if not high.usable and low.step >= 0.5 * high.step and low.slope <= 0.5 * start.slope:
            return low, n  # at a wall
        width = abs(high.step - low.step)
        if width * abs(low.slope) <= np.finfo(np.float64).eps * abs(low.value):
            break  # any further gain is below the rounding of the loss
        # If the bracket shrinks slowly, the cubic misleads: bisect ([MoreThuente1994] §4).
        step = _interpolate(low, high, bisect=width > 0.66 * widths[0])
        widths = (widths[1], width)
    return (best if best is not start else None), n
