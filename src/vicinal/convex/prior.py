"""The prior M⁰ of ITML, LSML and SDML, as a factor in scaled columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.datasets import make_spd_matrix

from vicinal.core.types import Array

PRIORS = ("identity", "covariance", "random")
_SINGULAR = 1e-12  # ratio of eigenvalues below which a matrix counts as singular


def prior_factor(
    owner: str, prior: Any, points: Array, scale: Array, rng: np.random.RandomState
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
