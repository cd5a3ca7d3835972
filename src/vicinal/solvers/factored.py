"""What the learners of a matrix M share: the prior, and a minimiser over square factors of M."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import OptimizeResult, minimize
from sklearn.datasets import make_spd_matrix

from vicinal.core.types import Array

PRIORS = ("identity", "covariance", "random")
_SINGULAR = 1e-12  # ratio of eigenvalues below which a matrix counts as singular

#: steps kept by L-BFGS, at most and at least, and the numbers they may take
_MOST, _LEAST, _NUMBERS = 20, 5, 2**25

# L-BFGS-B's first step has length one in its variables.  The singular L nearest to the identity are
# at just that distance, and where all differences are parallel (one column, one pair) the step ends
# on one.  In the variables 2 L it ends halfway.
_VARIABLES = 2.0

#: value, gradient by L, and how far L is from optimal
Function = Callable[[Array], tuple[float, Array, float]]


def prior_factor(
    owner: str, prior: str | ArrayLike, points: Array, scale: Array, rng: np.random.RandomState
) -> Array:
    """L⁰ (D, D) with ``M⁰ = L⁰ᵀ L⁰`` in scaled columns.

    Parameters
    ----------
    owner : str
        Name of the estimator, for messages.
    prior : {"identity", "covariance", "random"} or array of shape (D, D)
        An array is in the original columns.
    points : array of shape (n, D)
        Centred and scaled points, for the covariance.
    scale : array of shape (D,)
        Factors of the columns; zero for constant ones, to which the prior is the identity.
    rng : RandomState
        For "random".
    """
    D = len(scale)
    if isinstance(prior, str) and prior in PRIORS:
        if prior == "identity":
            return np.eye(D)
        if prior == "random":
            return np.linalg.cholesky(make_spd_matrix(D, random_state=rng)).T
        covariance = points.T @ points / max(1, len(points) - 1)
        covariance[np.diag_indices(D)] += scale == 0.0
        if _is_singular(covariance):
            raise ValueError(
                f"The 'prior' parameter of {owner} is 'covariance', but the covariance of the "
                f"{len(points)} points in {D} features is singular. Use prior='identity' instead."
            )
        return np.linalg.inv(np.linalg.cholesky(covariance))
    try:
        M = np.asarray(prior, dtype=np.float64)
    except (TypeError, ValueError):
        M = np.empty(0)
    if M.shape != (D, D) or not np.isfinite(M).all():
        listed = ", ".join(map(repr, PRIORS))
        raise ValueError(
            f"The 'prior' parameter of {owner} must be one of {listed} or a finite array of shape "
            f"({D}, {D}). Got {prior!r} instead."
        )
    if not np.allclose(M, M.T, rtol=1e-6, atol=1e-9 * np.abs(M).max()) or _is_singular(M):
        raise ValueError(
            f"The 'prior' parameter of {owner} must be symmetric and positive definite. "
            f"Got eigenvalues from {np.linalg.eigvalsh(0.5 * (M + M.T))[0]:.3g} on instead."
        )
    varies = scale > 0.0
    scaled = np.eye(D)
    at = np.ix_(varies, varies)
    scaled[at] = (0.5 * (M + M.T))[at] / np.outer(scale, scale)[at]
    return np.linalg.cholesky(scaled).T


def _is_singular(M: Array) -> bool:
    eigenvalues = np.linalg.eigvalsh(0.5 * (M + M.T))
    return bool(eigenvalues[0] <= _SINGULAR * eigenvalues[-1])


class Factored(NamedTuple):
    """The factor, the value there, the iterations, and whether L is optimal within ``tol``."""

    L: Array
    value: float
    n_iter: int
    converged: bool


def minimise_factored(fun: Function, L0: Array, max_iter: int, tol: float) -> Factored:
    """Minimise ``fun(L) -> value, gradient, residual`` until the residual is at most ``tol``.

    A function that is convex in M may not be convex in L, but where L is regular its gradient by L
    vanishes only where that by M does: every minimum is the global one.

    Parameters
    ----------
    fun : callable
        Of L, (D, D).
    L0 : array of shape (D, D)
        The start; the identity, or as far from singular.
    max_iter : int
        Largest number of iterations.
    tol : float
        The residual to reach.
    """
    last: list[Any] = [None, np.inf]  # the point of the last evaluation, and its residual

    def flat(theta: Array) -> tuple[float, Array]:
        value, gradient, residual = fun(theta.reshape(L0.shape) / _VARIABLES)
        last[:] = theta.copy(), residual
        return value, gradient.ravel() / _VARIABLES

    def stop(intermediate_result: OptimizeResult) -> None:
        theta = intermediate_result.x
        if not np.array_equal(theta, last[0]):  # a line search may return to an earlier point
            flat(theta)
        if last[1] <= tol:
            raise StopIteration

    steps = max(_LEAST, min(_MOST, _NUMBERS // (2 * L0.size)))
    options = {
        "maxiter": max_iter, "maxfun": 20 * max_iter, "maxcor": steps, "ftol": 0.0, "gtol": 0.0,
    }  # fmt: skip
    found = minimize(
        flat, _VARIABLES * L0.ravel(), jac=True, method="L-BFGS-B", callback=stop, options=options
    )
    L = found.x.reshape(L0.shape) / _VARIABLES
    value, _, end = fun(L)
    return Factored(L, value, max(1, int(found.nit)), end <= tol)


def barrier(L: Array) -> tuple[Array, float, Array]:
    """A regular L, the LogDet divergence of LᵀL from the identity, and half its gradient by L.

    A step of a line search may end at an L that is singular.  Distances there may be zero and have
    no logarithm, so the whole objective is to be computed at the L returned: one next to it, high
    up the wall that the divergence puts there.
    """
    try:
        inverse = np.linalg.inv(L)
    except np.linalg.LinAlgError:
        return barrier(L + 1e-9 * max(1.0, float(np.abs(L).max())) * np.eye(len(L)))
    value = np.sum(L * L) - 2.0 * np.linalg.slogdet(L)[1] - len(L)
    return L, float(value), L - inverse.T
