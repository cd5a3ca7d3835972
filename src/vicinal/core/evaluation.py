"""One evaluation of a loss, its projected gradient, and tests of what it gave."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from vicinal.core.types import Array, Batch, Fun, Solver


def evaluate(fun: Fun, theta: Array, batch: Batch | None) -> tuple[float, Array]:
    """Return ``fun(theta, batch)`` as a float and a float64 copy (``fun`` may reuse a buffer)."""
    value, grad = fun(theta, batch)
    grad = np.array(grad, dtype=np.float64)
    if grad.shape != theta.shape:
        raise ValueError(
            f"The gradient must have the shape of theta, {theta.shape}. Got {grad.shape} instead."
        )
    return float(value), grad


def is_finite(value: float, grad: Array) -> bool:
    """Whether the value and every entry of the gradient are finite."""
    return math.isfinite(value) and bool(np.isfinite(grad).all())


def _projection(fun: Fun) -> Callable[[Array], Array] | None:
    """``fun.project``; None for a function without constraint, which may be any function."""
    return getattr(fun, "project", None)


def projected(fun: Fun, theta: Array) -> Array:
    """Theta projected by ``fun.project``; theta itself if ``fun`` has no ``project``."""
    project = _projection(fun)
    return theta if project is None else project(theta)


def projected_gradient(fun: Fun, theta: Array, grad: Array) -> Array | None:
    r"""The move of a projected step along the gradient, :math:`P(\theta - \nabla f) - \theta`.

    It is zero where no allowed direction descends, even if the gradient is not zero.  None if
    ``fun`` has no ``project``.
    """
    if _projection(fun) is None:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        return projected(fun, theta - grad) - theta


def is_stationary(grad: Array, residual: Array | None) -> bool:
    """Whether the gradient, or the projected gradient if there is one, is zero."""
    return not (grad if residual is None else residual).any()


def refresh(solver: Solver, fun: Fun, theta: Array, state: Any, batch: Batch | None = None) -> Any:
    """Evaluate again at ``theta`` after the function has changed, and keep the solver's memory.

    For a change of precision or of rows during a run: curvature pairs, directions, moments and
    rates stay, ``value`` and ``grad`` are those of the new function, and the evaluation is counted.

    Parameters
    ----------
    solver : Solver
        The solver that ``state`` belongs to.
    fun : callable
        The new function.
    theta : ndarray of shape (n,)
        The parameters to continue from: ``state.theta``, or the best parameters of the run.
    state : NamedTuple
        A state of ``solver``; it is not changed.
    batch : Batch or None
        Passed to ``fun``.

    Returns
    -------
    NamedTuple
        The new state, no longer stalled (unless the gradient is zero).
    """
    theta = np.array(theta, dtype=np.float64)
    value, grad = evaluate(fun, theta, batch)
    changes = {"theta": theta, "value": value, "grad": grad, "stalled": is_stationary(grad, None)}
    if hasattr(state, "residual"):
        residual = projected_gradient(fun, theta, grad)
        changes.update(residual=residual, stalled=is_stationary(grad, residual))
    return state._replace(n_evaluations=state.n_evaluations + 1, **changes)


def check_projects(solver: Solver, fun: Fun) -> None:
    """Refuse a solver that ignores the constraint of ``fun``."""
    if _projection(fun) is not None and not solver.projects:
        raise ValueError(
            f"The solver {type(solver).__name__} does not keep to the constraint of the map. Use "
            "one whose 'projects' is True, such as Adam, or a map without a constraint."
        )


def check_start(state: Any) -> None:
    """Refuse a start where the loss or its gradient is not finite."""
    if not math.isfinite(state.value):
        raise ValueError(f"The loss at the start must be finite. Got {state.value} instead.")
    bad = int(np.count_nonzero(~np.isfinite(state.grad)))
    if bad:
        raise ValueError(
            f"The gradient at the start must be finite. {bad} of its {state.grad.size} entries "
            "are not."
        )
