"""LSML: relative comparisons of distances, with the LogDet divergence from the identity."""

from __future__ import annotations

import numpy as np

from vicinal.convex._factored import Factored, barrier, minimise_factored
from vicinal.core.types import Array


def lsml(X: Array, Y: Array, weights: Array, *, max_iter: int, tol: float) -> Factored:
    r"""Minimise squared residuals of comparisons [Liu2012].

    .. math::
        \min_{M \succ 0} D(M, I) + \sum_c w_c [d_M(x_c) - d_M(y_c)]_+^2,
        \quad d_M(x) = (x^\top M x)^{1/2}

    Parameters
    ----------
    X, Y : arrays of shape (n, D)
        Differences of the pairs that should be nearer, and of those that should be farther.
    weights : array of shape (n,)
        Not negative.
    max_iter, tol
        It ends when no entry of ``M^(1/2) (∂/∂M) M^(1/2)`` exceeds ``tol``.
    """

    def fun(L: Array) -> tuple[float, Array, float]:
        L, value, G = barrier(L)
        near, far = X @ L.T, Y @ L.T
        d_near, d_far = np.linalg.norm(near, axis=1), np.linalg.norm(far, axis=1)
        residual = np.maximum(d_near - d_far, 0.0)
        value += float(weights @ residual**2)
        # ∂/∂M of a squared residual r²: r/d_near x xᵀ - r/d_far y yᵀ.  Where y is zero, so is y yᵀ.
        pull = weights * residual
        G += (near.T * _ratio(pull, d_near)) @ X - (far.T * _ratio(pull, d_far)) @ Y
        return value, 2.0 * G, float(np.abs(G @ L.T).max())

    return minimise_factored(fun, np.eye(X.shape[1]), max_iter, tol)


def _ratio(a: Array, b: Array) -> Array:
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0.0)
