"""One evaluation of a loss, and what its gradient says of a place."""

from __future__ import annotations

import math

import numpy as np

from vicinal.core.types import Array, Batch, Fun

__all__ = ["allowed", "at_rest", "evaluate", "is_finite", "projected_gradient"]


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


def allowed(fun: Fun, theta: Array) -> Array:
    """The nearest parameters that ``fun.project`` allows; where there is none, theta itself."""
    project = getattr(fun, "project", None)
    return theta if project is None else project(theta)


def projected_gradient(fun: Fun, theta: Array, grad: Array) -> Array | None:
    r"""What a step along the gradient moves by, :math:`P(\theta - \nabla f) - \theta`.

    It is zero where no allowed direction descends, though the gradient need not be.  None where
    ``fun`` has no ``project``.
    """
    if getattr(fun, "project", None) is None:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        return allowed(fun, theta - grad) - theta


def at_rest(grad: Array, residual: Array | None) -> bool:
    """Whether no step along the gradient moves, or none that is allowed."""
    return not (grad if residual is None else residual).any()
