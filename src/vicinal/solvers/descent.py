"""Steps along the gradient: bold driver, stochastic gradient descent, momentum with gains, Adam.

References
----------
[Vogl1988], [Oneata2011] §3.3.1 and [OlsenPetersen] section 3 (bold driver), [Oneata2011] §5.3.2
(rates of stochastic gradient descent), [Jacobs1988] (delta-bar-delta), [KingmaBa2015] (Adam),
[LoshchilovHutter2019] (decoupled weight decay).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

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
from vicinal.solvers._line_search import first_rate
from vicinal.solvers.schedules import InverseTime, Schedule, check_rate, rate_at

_T0 = 100.0  # of an untuned rate: the first move is 1 % of the norm of theta


class BoldDriverState(NamedTuple):
    """State of :class:`BoldDriver`: the current point, and the rate to try next."""

    theta: Array
    value: float
    grad: Array
    n_evaluations: int
    stalled: bool
    rate: float
    residual: Array | None = None  # the projected gradient, if the parameters are constrained


@dataclass(frozen=True)
class BoldDriver(Solver):
    r"""Gradient descent that speeds up while the loss falls and backs off when it rises.

    .. math:: \theta_{t+1} = P(\theta_t - \eta_t \nabla f(\theta_t))

    P is the projection ``fun.project`` onto the allowed parameters, if there is one; the start is
    projected too.  :math:`\eta` is multiplied by 1.1 after a step that lowers the loss; otherwise
    it is halved and the step is tried again from the old point ([Oneata2011] §3.3.1, after
    [Vogl1988]).  One ``step`` ends with the first success, so each step lowers the loss.  The
    solver "adaptive" is this one with ``increase=1.01, max_failures=20``, the step of
    [OlsenPetersen] section 3.

    Parameters
    ----------
    learning_rate : float or None
        The first :math:`\eta`.  None: the rate whose move is a tenth of the norm of theta,
        :math:`0.1\,\|\theta\| / \|\nabla f\|` (with :math:`\|\theta\| = 1` if theta is zero),
        whatever the scale of the loss; too long a first step only costs halvings.
    increase, decrease : float
        Factors on success (> 1) and on failure (< 1).
    max_failures : int
        After this many failures in a row the solver has stalled; the rate keeps its value from
        before them, in case the function changes.
    """

    learning_rate: float | None = None
    increase: float = 1.1
    decrease: float = 0.5
    max_failures: int = 50

    needs_fixed_batch: ClassVar[bool] = True
    # No Wolfe condition: at the edge of stability a step may lower the loss by next to nothing
    # far from any minimum, so one small decrease does not mean convergence.
    projects: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.learning_rate is not None:
            check_part(self, "learning_rate")
        check_part(self, "increase", low=1.0)
        check_part(self, "decrease", high=1.0)
        check_part(self, "max_failures", low=1, kind=int, closed=True)

    def init(self, fun: Fun, theta: Array, batch: Batch | None = None) -> BoldDriverState:
        """Evaluate once at ``theta`` and choose the first rate."""
        theta = projected(fun, np.array(theta, dtype=np.float64))
        value, grad = evaluate(fun, theta, batch)
        rate = self.learning_rate
        if rate is None:
            rate = first_rate(theta, grad, 0.1)
        residual = projected_gradient(fun, theta, grad)
        stalled = is_stationary(grad, residual)
        return BoldDriverState(theta, value, grad, 1, stalled, float(rate), residual)

    def step(
        self, fun: Fun, theta: Array, state: BoldDriverState, batch: Batch | None = None
    ) -> tuple[Array, BoldDriverState]:
        """Halve the rate until a step lowers the loss."""
        n_evaluations = state.n_evaluations
        # A state that began at a zero gradient and was refreshed has no rate yet.
        rate = state.rate if state.rate > 0.0 else first_rate(theta, state.grad, 0.1)
        for _ in range(self.max_failures):
            with np.errstate(over="ignore", invalid="ignore"):
                new = projected(fun, theta - rate * state.grad)
            if np.array_equal(new, theta):
                break
            if np.isfinite(new).all():
                value, grad = evaluate(fun, new, batch)
                n_evaluations += 1
                if value < state.value and is_finite(value, grad):
                    rate *= self.increase
                    residual = projected_gradient(fun, new, grad)
                    stalled = is_stationary(grad, residual)
                    fields = (new, value, grad, n_evaluations, stalled, rate, residual)
                    return new, BoldDriverState(*fields)
            rate *= self.decrease
        return theta, state._replace(n_evaluations=n_evaluations, stalled=True)


class SGDState(NamedTuple):
    """State of :class:`SGD`: the current point, the velocity, and what the rate depends on."""

    theta: Array
    value: float
    grad: Array
    n_evaluations: int
    stalled: bool
    velocity: Array
    t: int
    eta0: float  # used if the learning rate is None
    residual: Array | None = None  # the projected gradient, if the parameters are constrained


@dataclass(frozen=True)
class SGD(Solver):
    r"""Gradient descent with a schedule, with or without momentum (heavy ball).

    .. math::
        v_{t+1} = \mu v_t - \eta_t \nabla f(\theta_t), \qquad
        \theta_{t+1} = P(\theta_t + v_{t+1})

    P is the projection ``fun.project`` onto the allowed parameters, if there is one; the start is
    projected too.  The loss need not fall at each step.

    Parameters
    ----------
    learning_rate : float, schedule or None
        :math:`\eta_t`, a number or a callable of t.  None: :math:`\eta_0 / (t + 100)` with
        :math:`\eta_0 = \|\theta\| / \|\nabla f\|` at the start (with :math:`\|\theta\| = 1` if
        theta is zero), the ``InverseTime`` that :func:`~vicinal.solvers.tune_t0` tunes.
    momentum : float
        :math:`\mu`, in [0, 1).
    """

    learning_rate: float | Schedule | None = None
    momentum: float = 0.0

    needs_fixed_batch: ClassVar[bool] = False
    projects: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.learning_rate is not None:
            check_rate(self)
        check_part(self, "momentum", high=1.0, closed=True)

    def init(self, fun: Fun, theta: Array, batch: Batch | None = None) -> SGDState:
        """Evaluate once at ``theta``; the velocity is zero."""
        theta = projected(fun, np.array(theta, dtype=np.float64))
        value, grad = evaluate(fun, theta, batch)
        eta0 = first_rate(theta, grad, 1.0)
        residual = projected_gradient(fun, theta, grad)
        stalled = is_stationary(grad, residual)
        zero = np.zeros_like(theta)
        return SGDState(theta, value, grad, 1, stalled, zero, 0, eta0, residual)

    def step(
        self, fun: Fun, theta: Array, state: SGDState, batch: Batch | None = None
    ) -> tuple[Array, SGDState]:
        """Move by the gradient in ``state``, then evaluate at the new place."""
        # A state that began at a zero gradient, of a batch without a pair, has no rate yet.
        eta0 = state.eta0 if state.eta0 > 0.0 else first_rate(theta, state.grad, 1.0)
        if self.learning_rate is not None:
            rate = rate_at(self.learning_rate, state.t)
        else:
            rate = InverseTime(eta0, _T0)(state.t) if eta0 > 0.0 else 0.0
        with np.errstate(over="ignore", invalid="ignore"):  # the loop stops diverging runs
            velocity = self.momentum * state.velocity - rate * state.grad
            new = projected(fun, theta + velocity)
        value, grad = evaluate(fun, new, batch)
        residual = projected_gradient(fun, new, grad)
        n, stalled = state.n_evaluations + 1, is_stationary(grad, residual)
        return new, SGDState(new, value, grad, n, stalled, velocity, state.t + 1, eta0, residual)


class MomentumState(NamedTuple):
    """State of :class:`Momentum`: the current point, rate, velocity and gains."""

    theta: Array
    value: float
    grad: Array
    n_evaluations: int
    stalled: bool
    rate: float
    velocity: Array
    gains: Array
    residual: Array | None = None  # the projected gradient, if the parameters are constrained


@dataclass(frozen=True)
class Momentum(Solver):
    r"""Gradient descent with momentum and a gain for each parameter (delta-bar-delta).

    .. math::
        v_{t+1} = \mu v_t - \eta\, \gamma_t \odot \nabla f(\theta_t), \qquad
        \theta_{t+1} = P(\theta_t + v_{t+1})

    The gain :math:`\gamma` of a parameter is 1 at first.  It grows by 0.2 while the velocity goes
    downhill and is multiplied by 0.8 when it goes uphill, but stays above 0.01 ([Jacobs1988]; as
    in t-SNE).  P is the projection ``fun.project``, if there is one; the gradient is then the
    projected one, since gains must not follow what the projection takes away.  The loss need not
    fall at each step.

    Parameters
    ----------
    learning_rate : float or None
        :math:`\eta`, also if a run of another rate is continued.  None:
        :math:`0.01\,\|\theta\| / \|\nabla f\|` at the start (with :math:`\|\theta\| = 1` if
        theta is zero), constant from then on.
    momentum : float
        :math:`\mu`, in [0, 1).
    """

    learning_rate: float | None = None
    momentum: float = 0.8

    needs_fixed_batch: ClassVar[bool] = False
    projects: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.learning_rate is not None:
            check_part(self, "learning_rate")
        check_part(self, "momentum", high=1.0, closed=True)

    def init(self, fun: Fun, theta: Array, batch: Batch | None = None) -> MomentumState:
        """Evaluate once at ``theta`` and choose the rate; the velocity is zero."""
        theta = projected(fun, np.array(theta, dtype=np.float64))
        value, grad = evaluate(fun, theta, batch)
        residual = projected_gradient(fun, theta, grad)
        rate = self.learning_rate
        if rate is None:
            rate = first_rate(theta, _slope(grad, residual), 0.01)
        zero, one = np.zeros_like(theta), np.ones_like(theta)
        stalled = is_stationary(grad, residual)
        return MomentumState(theta, value, grad, 1, stalled, float(rate), zero, one, residual)

    def step(
        self, fun: Fun, theta: Array, state: MomentumState, batch: Batch | None = None
    ) -> tuple[Array, MomentumState]:
        """Move by the gradient in ``state``, then evaluate at the new place."""
        slope = _slope(state.grad, state.residual)
        # A given rate applies to a state of another run too, such as that of an earlier stage.
        rate = state.rate if self.learning_rate is None else float(self.learning_rate)
        rate = rate if rate > 0.0 else first_rate(theta, slope, 0.01)
        # Signs, since products underflow; where one of the two is zero the gain stays.
        downhill = np.signbit(slope) != np.signbit(state.velocity)
        gains = np.where(downhill, state.gains + 0.2, 0.8 * state.gains)
        np.copyto(gains, state.gains, where=(slope == 0.0) | (state.velocity == 0.0))
        np.maximum(gains, 0.01, out=gains)
        with np.errstate(over="ignore", invalid="ignore"):  # the loop stops diverging runs
            velocity = self.momentum * state.velocity - rate * gains * slope
            new = projected(fun, theta + velocity)
        value, grad = evaluate(fun, new, batch)
        residual = projected_gradient(fun, new, grad)
        n, stalled = state.n_evaluations + 1, is_stationary(grad, residual)
        return new, MomentumState(new, value, grad, n, stalled, rate, velocity, gains, residual)


class AdamState(NamedTuple):
    """State of :class:`Adam`: the current point, the two moments, and the number of steps."""

    theta: Array
    value: float
    grad: Array
    n_evaluations: int
    stalled: bool
    m: Array
    v: Array
    t: int
    residual: Array | None = None  # the projected gradient, if the parameters are constrained


@dataclass(frozen=True)
class Adam(Solver):
    r"""Gradient descent scaled by running moments of the gradient, [KingmaBa2015] alg. 1.

    .. math::
        m_t = \beta_1 m_{t-1} + (1 - \beta_1) g_t, \quad
        v_t = \beta_2 v_{t-1} + (1 - \beta_2) g_t^2, \quad
        \theta_t = P\Bigl(\theta_{t-1} - \eta \frac{m_t / (1 - \beta_1^t)}
                                           {\sqrt{v_t / (1 - \beta_2^t)} + \epsilon}\Bigr)

    Each parameter moves by about :math:`\eta` per step, whatever the scale of the loss (above
    :math:`\epsilon`).  The loss need not fall at each step.

    With ``weight_decay`` each step also subtracts :math:`\eta \lambda\, w \odot \theta_{t-1}`
    (AdamW, [LoshchilovHutter2019] alg. 2): unlike a penalty in the loss, it is not scaled by the
    moments.  The weights w are the ``penalty_weights`` of the map, zero for biases and
    frequencies; one for maps without such, as matrices.

    P is the projection ``fun.project``, if there is one.  The gradient is then the projected one:
    the moments of the plain gradient would hold what the projection takes away, such as a
    constant in each column of a map on the simplex, and the rest would be lost compared with it.

    Parameters
    ----------
    learning_rate : float or schedule
        :math:`\eta`, or a callable of the number of steps, such as ``Cosine(0.02, 400)``.
    beta_1, beta_2 : float
        Decay of the moments, in [0, 1).
    epsilon : float
        Keeps the division finite.
    weight_decay : float
        :math:`\lambda`, in [0, inf).
    """

    learning_rate: float | Schedule = 0.02
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.0

    needs_fixed_batch: ClassVar[bool] = False
    projects: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_rate(self)
        check_part(self, "beta_1", high=1.0, closed=True)
        check_part(self, "beta_2", high=1.0, closed=True)
        check_part(self, "epsilon")
        check_part(self, "weight_decay", closed=True)

    def init(self, fun: Fun, theta: Array, batch: Batch | None = None) -> AdamState:
        """Evaluate once at ``theta``; both moments are zero."""
        theta = projected(fun, np.array(theta, dtype=np.float64))
        value, grad = evaluate(fun, theta, batch)
        zero = np.zeros_like(theta)
        residual = projected_gradient(fun, theta, grad)
        return AdamState(
            theta, value, grad, 1, is_stationary(grad, residual), zero, zero, 0, residual
        )

    def step(
        self, fun: Fun, theta: Array, state: AdamState, batch: Batch | None = None
    ) -> tuple[Array, AdamState]:
        """Move by the gradient in ``state``, then evaluate at the new place."""
        t, slope = state.t + 1, _slope(state.grad, state.residual)
        m = self.beta_1 * state.m + (1.0 - self.beta_1) * slope
        with np.errstate(over="ignore"):  # an infinite v only stops that parameter
            v = self.beta_2 * state.v + (1.0 - self.beta_2) * slope**2
        root = np.sqrt(v / (1.0 - self.beta_2**t))
        rate = rate_at(self.learning_rate, state.t)
        new = theta - rate * (m / (1.0 - self.beta_1**t)) / (root + self.epsilon)
        if self.weight_decay > 0.0:
            new -= rate * self.weight_decay * _penalty_weights(fun, theta) * theta
        new = projected(fun, new)
        value, grad = evaluate(fun, new, batch)
        residual = projected_gradient(fun, new, grad)
        n, stalled = state.n_evaluations + 1, is_stationary(grad, residual)
        return new, AdamState(new, value, grad, n, stalled, m, v, t, residual)


def _slope(grad: Array, residual: Array | None) -> Array:
    """The gradient; under a constraint, the opposite of the projected step along it."""
    return grad if residual is None else -residual


def _penalty_weights(fun: Any, theta: Array) -> float | Array:
    """The weight of each parameter in a penalty: ``fun`` states it, or it is one."""
    weights = getattr(fun, "penalty_weights", None)
    return 1.0 if weights is None else weights(theta)
