"""SDML: a sparse M by the graphical lasso."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh
from sklearn.covariance import graphical_lasso
from sklearn.exceptions import ConvergenceWarning

from vicinal.core.types import Array

_SHARES = (1.0, 1e-2, 1e-4)  # of the wanted gap, that the solver is asked for in turn


class SDMLResult(NamedTuple):
    """The matrix, the value there, the duality gap per feature (inf: unknown), the iterations."""

    M: Array
    objective: float
    gap: float
    n_iter: int


def largest_balance(prior_inverse: Array, K: Array) -> float:
    """The largest η up to which ``prior_inverse + η K`` is positive definite; inf: any."""
    lowest = float(eigh(K, prior_inverse, eigvals_only=True, subset_by_index=(0, 0))[0])
    return -1.0 / lowest if lowest < 0.0 else np.inf


def sdml(P: Array, sparsity: float, *, max_iter: int, tol: float) -> SDMLResult | None:
    r"""Minimise the graphical lasso's objective, to which [Qi2009] comes down.

    .. math::
        \min_{M \succ 0} \langle P, M \rangle - \log\det M + \rho \sum_{i \ne j} |M_{ij}|

    Parameters
    ----------
    P : array of shape (D, D)
        Inverse of the prior plus the weighted pairs.
    sparsity : float
        The penalty ρ.
    max_iter, tol
        Of scikit-learn's ``graphical_lasso``; ``tol`` bounds the duality gap per feature.

    Returns
    -------
    SDMLResult, or None if the solver found no positive definite matrix
    """
    if sparsity == 0.0 or len(P) == 1:
        try:
            np.linalg.cholesky(P)
        except np.linalg.LinAlgError:
            return None
        return _result(np.linalg.inv(P), P, 0.0, 1)
    result, n_iter = None, 0
    # The solver measures its gap at two matrices that are not quite inverse to each other.  It is
    # asked for more where the gap of the result, which is the one we promise, is too large.
    for share in _SHARES:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                _, M, n = graphical_lasso(
                    P, sparsity, max_iter=max_iter - n_iter, tol=share * tol * len(P),
                    enet_tol=min(1e-4, share * tol), return_n_iter=True,
                )  # fmt: skip
            n_iter += n
            result = _result(0.5 * (M + M.T), P, sparsity, n_iter)
        except (FloatingPointError, np.linalg.LinAlgError):
            break
        if result.gap <= tol or n_iter >= max_iter:
            break
    return result


def _result(M: Array, P: Array, sparsity: float, n_iter: int) -> SDMLResult:
    np.linalg.cholesky(M)  # fails unless M is positive definite
    value = float(np.sum(P * M) - np.linalg.slogdet(M)[1] + sparsity * _off_diagonal(M))
    return SDMLResult(M, value, _gap(M, P, sparsity, value), n_iter)


def _off_diagonal(M: Array) -> float:
    return float(np.abs(M).sum() - np.abs(np.diag(M)).sum())


def _gap(M: Array, P: Array, sparsity: float, value: float) -> float:
    """Bound per feature of how far the value is above the minimum.

    The dual problem is to maximise ``log det W + D`` where W has the diagonal of P and differs from
    it by at most ρ elsewhere.  M⁻¹, moved into these limits, is such a W if it is positive
    definite.
    """
    W = P + np.clip(np.linalg.inv(M) - P, -sparsity, sparsity)
    np.fill_diagonal(W, np.diag(P))
    sign, log_det = np.linalg.slogdet(W)
    if sign <= 0 or np.linalg.eigvalsh(W)[0] <= 0.0:
        return np.inf
    return (value - float(log_det) - len(P)) / len(P)
