"""One evaluation of a loss, its projected gradient, and the test for a stationary point."""

from __future__ import annotations

import math

import numpy as np

from vicinal.core.types import Array, Batch, Fun

__all__ = ["evaluate", "is_finite", "is_stationary", "projected", "projected_gradient"]


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


def projected(fun: Fun, theta: Array) -> Array:
    """Theta projected by ``fun.project``; theta itself if ``fun`` has no ``project``."""
    project = getattr(fun, "project", None)
    return theta if project is None else project(theta)


def projected_gradient(fun: Fun, theta: Array, grad: Array) -> Array | None:
    r"""The move of a projected step along the gradient, :math:`P(\theta - \nabla f) - \theta`.

    It is zero where no allowed direction descends, even if the gradient is not zero.  None if
    ``fun`` has no ``project``.
    """
    if getattr(fun, "project", None) is None:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        return projected(fun, theta - grad) - theta


def is_stationary(grad: Array, residual: Array | None) -> bool:
    """Whether the gradient, or the projected gradient if there is one, is zero."""
    return not (grad if residual is None else residual).any()
