"""L-BFGS and conjugate gradients for a fixed batch, with a common line search.

References
----------
[NocedalWright2006], chapters 5 and 7.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from vicinal._validation import check_part
from vicinal.core.evaluation import evaluate
from vicinal.core.types import Array, Batch, Fun, Solver
from vicinal.solvers._line_search import Trial, dot, first_rate, wolfe_search

#: First move along the negative gradient, as a share of the norm of theta.
_FIRST_MOVE = 0.1


def _check_search(solver: LBFGS | ConjugateGradient) -> None:
    check_part(solver, "c_1", high=1.0)
    check_part(solver, "c_2", low=solver.c_1, high=1.0)
    check_part(solver, "max_line_search", low=1, kind=int, closed=True)


def _line_search(
    solver: LBFGS | ConjugateGradient,
    fun: Fun,
    theta: Array,
    state: LBFGSState | CGState,
    direction: Array | None,
    step: float,
    batch: Batch | None,
) -> tuple[Trial | None, int, Array]:
    """Search along ``direction``; if that fails, or is None, along the negative gradient.

    Returns the trial (None: no lower point on either line), the number of evaluations and the
    direction in which it was found.
    """
    options: dict[str, Any] = {
        "c_1": solver.c_1,
        "c_2": solver.c_2,
        "max_evaluations": solver.max_line_search,
    }
    n_evaluations = 0
    if direction is not None:
        slope = dot(state.grad, direction)
        # An ascent direction comes from rounding, or from a function that has changed.
        if slope < 0.0 and np.isfinite(direction).all():
            start = Trial(0.0, state.value, slope, theta, state.grad)
            trial, n_evaluations = wolfe_search(fun, start, direction, step, batch, **options)
            if trial is not None:
                return trial, n_evaluations, direction
    direction = -state.grad
    start = Trial(0.0, state.value, dot(state.grad, direction), theta, state.grad)
    step = first_rate(theta, state.grad, _FIRST_MOVE)
    trial, more = wolfe_search(fun, start, direction, step, batch, **options)
    return trial, n_evaluations + more, direction


class LBFGSState(NamedTuple):
    """State of :class:`LBFGS`: the current point, and the last curvature pairs, oldest first."""

    theta: Array
    value: float
    grad: Array
    n_evaluations: int
    stalled: bool
    s: Array  # (n_pairs, n), differences of theta
    y: Array  # (n_pairs, n), differences of the gradient


@dataclass(frozen=True)
class LBFGS(Solver):
    r"""Limited-memory BFGS with a strong Wolfe line search.

    .. math:: \theta_{k+1} = \theta_k - t_k H_k \nabla f(\theta_k)

    :math:`H_k` is the inverse Hessian built from the last ``memory`` pairs
    :math:`s = \theta_{k+1} - \theta_k,\ y = \nabla f_{k+1} - \nabla f_k` by the two-loop recursion
    [NocedalWright2006] alg. 7.4, started from :math:`\gamma_k I`, eq. (7.20).  The first step to
    try, at the start and after a quasi-Newton direction has failed, is a tenth of the norm of
    theta, so the path does not depend on the scale of the loss.

    Parameters
    ----------
    memory : int
        Number of pairs kept.
    c_1, c_2 : float
        Constants of the Wolfe conditions.
    max_line_search : int
        Largest number of evaluations on one line.
    """

    memory: int = 10
    c_1: float = 1e-4
    c_2: float = 0.9
    max_line_search: int = 20

    needs_fixed_batch: ClassVar[bool] = True
    sufficient_decrease: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_part(self, "memory", low=1, kind=int, closed=True)
        _check_search(self)

    def init(self, fun: Fun, theta: Array, batch: Batch | None = None) -> LBFGSState:
        """Evaluate once at ``theta``; the memory is empty."""
        theta = np.array(theta, dtype=np.float64)
        value, grad = evaluate(fun, theta, batch)
        none = np.empty((0, theta.size))
        return LBFGSState(theta, value, grad, 1, not grad.any(), none, none)

    def step(
        self, fun: Fun, theta: Array, state: LBFGSState, batch: Batch | None = None
    ) -> tuple[Array, LBFGSState]:
        """Move to a lower point on the quasi-Newton line, or stay and set ``stalled``."""
        if not state.grad.any():
            return theta, state._replace(stalled=True)
        direction = self._direction(state) if len(state.s) else None
        trial, n, taken = _line_search(self, fun, theta, state, direction, 1.0, batch)
        n_evaluations = state.n_evaluations + n
        if trial is None:
            # Keep the pairs: they stay valid after a change of precision.
            return theta, state._replace(stalled=True, n_evaluations=n_evaluations)
        s, y = self._remember(trial, theta, state, forget=taken is not direction)
        stalled = not trial.grad.any()
        new = LBFGSState(trial.theta, trial.value, trial.grad, n_evaluations, stalled, s, y)
        return trial.theta, new

    @np.errstate(over="ignore", divide="ignore", invalid="ignore")
    def _direction(self, state: LBFGSState) -> Array:
        """Return ``-H @ grad`` by the two-loop recursion, [NocedalWright2006] alg. 7.4."""
        s, y = state.s, state.y
        rho = 1.0 / np.einsum("ij,ij->i", s, y)
        alpha = np.empty(len(s))
        q = state.grad.copy()
        for i in range(len(s) - 1, -1, -1):
            alpha[i] = rho[i] * dot(s[i], q)
            q -= alpha[i] * y[i]
        q *= 1.0 / (rho[-1] * dot(y[-1], y[-1]))  # gamma, [NocedalWright2006] eq. (7.20)
        for i in range(len(s)):
            q += (alpha[i] - rho[i] * dot(y[i], q)) * s[i]
        return -q

    def _remember(
        self, trial: Trial, theta: Array, state: LBFGSState, forget: bool
    ) -> tuple[Array, Array]:
        """Return the pairs, with the newest appended if its curvature is positive."""
        s, y = trial.theta - theta, trial.grad - state.grad
        old_s, old_y = (state.s[:0], state.y[:0]) if forget else (state.s, state.y)
        # Zero or negative curvature (a step without the second Wolfe condition) would make H
        # indefinite; the bound is that of L-BFGS-B.
        if not dot(s, y) > np.finfo(np.float64).eps * dot(y, y):
            return old_s, old_y
        first = max(0, len(old_s) + 1 - self.memory)
        return np.vstack([old_s[first:], s]), np.vstack([old_y[first:], y])


class CGState(NamedTuple):
    """State of :class:`ConjugateGradient`: the current point, and the line that led to it."""

    theta: Array
    value: float
    grad: Array
    n_evaluations: int
    stalled: bool
    direction: Array  # the last direction, zero before the first step
    last_grad: Array  # the gradient where that direction began
    decrease: float  # of the loss along it


@dataclass(frozen=True)
class ConjugateGradient(Solver):
    r"""Non-linear conjugate gradients, Polak-Ribière+, with a strong Wolfe line search.

    .. math::
        d_k = -g_k + \beta_k d_{k-1}, \qquad
        \beta_k = \max\Bigl(0, \frac{g_k^\top (g_k - g_{k-1})}{\|g_{k-1}\|^2}\Bigr)

    [NocedalWright2006] eq. (5.44), (5.45).  It restarts along the negative gradient if
    :math:`\beta_k` is cut off at zero, if the direction descends less than a hundredth as fast
    as the negative gradient, or if a line has no lower point.  The first step to try is a tenth of
    the norm of theta; later ones would repeat the last decrease, eq. (3.60).

    Parameters
    ----------
    c_1, c_2 : float
        Constants of the Wolfe conditions.
    max_line_search : int
        Largest number of evaluations on one line.
    """

    c_1: float = 1e-4
    c_2: float = 0.4
    max_line_search: int = 20

    needs_fixed_batch: ClassVar[bool] = True
    sufficient_decrease: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_search(self)

    def init(self, fun: Fun, theta: Array, batch: Batch | None = None) -> CGState:
        """Evaluate once at ``theta``; there is no direction yet."""
        theta = np.array(theta, dtype=np.float64)
        value, grad = evaluate(fun, theta, batch)
        zero = np.zeros_like(grad)
        return CGState(theta, value, grad, 1, not grad.any(), zero, zero, 0.0)

    def step(
        self, fun: Fun, theta: Array, state: CGState, batch: Batch | None = None
    ) -> tuple[Array, CGState]:
        """Move to a lower point on the conjugate line, or stay and set ``stalled``."""
        if not state.grad.any():
            return theta, state._replace(stalled=True)
        direction, step = self._direction(theta, state)
        trial, n, direction = _line_search(self, fun, theta, state, direction, step, batch)
        n_evaluations = state.n_evaluations + n
        if trial is None:
            return theta, state._replace(stalled=True, n_evaluations=n_evaluations)
        new = CGState(
            trial.theta,
            trial.value,
            trial.grad,
            n_evaluations,
            not trial.grad.any(),
            direction,
            state.grad,
            state.value - trial.value,
        )
        return trial.theta, new

    def _direction(self, theta: Array, state: CGState) -> tuple[Array | None, float]:
        """Return the conjugate direction (None: restart) and the step to try."""
        grad, last = state.grad, state.last_grad
        last_square = dot(last, last)
        if last_square == 0.0:  # the start, or a gradient so small that its square is zero
            return None, 0.0
        # beta is computed here, not at the end of the last step, so that it uses a refreshed
        # gradient (another precision, other rows).
        beta = max(0.0, dot(grad, grad - last) / last_square)  # eq. (5.44), (5.45)
        direction = beta * state.direction - grad
        slope, steepest = dot(grad, direction), -dot(grad, grad)
        if not slope <= 0.01 * steepest:
            direction, slope = -grad, steepest
        if slope == 0.0:
            return None, 0.0
        step = 1.01 * 2.0 * state.decrease / -slope  # [NocedalWright2006] eq. (3.60)
        return direction, step if step > 0.0 else first_rate(theta, grad, _FIRST_MOVE)
