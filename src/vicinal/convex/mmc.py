"""MMC: similar pairs near each other on the mean, dissimilar pairs at a mean distance of one."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize

from vicinal.convex._factored import Factored, minimise_factored
from vicinal.core.types import Array

_SMALLEST = 1e-200  # squared distances below have slopes that overflow; no minimum is there


def mmc(S: Array, Y: Array, *, max_iter: int, tol: float) -> Factored:
    r"""Solve MMC's problem [Xing2002, eqs. (3)-(5)] for a full matrix.

    .. math::
        \min_{M \succeq 0} \langle S, M \rangle
        \quad\text{subject to}\quad \operatorname{mean}_c (y_c^\top M y_c)^{1/2} \ge 1

    Both sides are homogeneous in M.  With ``M = Wᵀ N W``, ``W S Wᵀ = I``, it is therefore the same
    to maximise the mean distance over the matrices N of trace one, and N is found through a factor.

    Parameters
    ----------
    S : array of shape (D, D)
        Mean of ``x xᵀ`` over the differences of similar pairs, positive definite.
    Y : array of shape (n, D)
        Differences of the dissimilar pairs; none is zero.
    max_iter, tol
        It ends when the duality gap, relative to the value, is at most ``tol``.
    """
    W = np.linalg.inv(np.linalg.cholesky(S))
    Z = Y @ W.T

    def fun(L: Array) -> tuple[float, Array, float]:
        size = float(np.sum(L * L))
        P = Z @ L.T
        distance = np.sqrt(np.maximum(np.einsum("ij,ij->i", P, P), _SMALLEST))
        mean = float(np.mean(distance))
        slope = (P.T / distance) @ Z / (len(Z) * mean)
        # By concavity no N of trace one has a mean distance above mean (1 + gap/2).
        B = (Z.T / distance) @ Z * (size / (len(Z) * mean))
        gap = float(np.linalg.eigvalsh(B)[-1]) - 1.0
        return np.log(size) - 2.0 * np.log(mean), 2.0 * (L / size - slope), gap

    L, value, n_iter, converged = minimise_factored(fun, np.eye(len(S)), max_iter, tol)
    scale = np.mean(np.linalg.norm(Z @ L.T, axis=1))
    return Factored(L @ W / scale, float(np.exp(value)), n_iter, converged)


def mmc_diagonal(S: Array, Y: Array, *, max_iter: int, tol: float) -> Factored:
    r"""Solve the same problem for a diagonal matrix, in its form without constraint.

    .. math::
        \min_{w \ge 0} \langle s, w \rangle - 2 \log \operatorname{mean}_c
        \Big(\sum_j y_{cj}^2 w_j\Big)^{1/2}

    [Xing2002, §2.1], where s is the diagonal of S.  Its minimum is one of the problem above up
    to a factor.

    Parameters
    ----------
    S : array of shape (D, D)
        As in :func:`mmc`; only its diagonal, which is positive, counts.
    Y : array of shape (n, D)
        Differences of the dissimilar pairs; none is zero.
    max_iter, tol
        It ends when the duality gap, relative to the value, is at most ``tol``.
    """
    squares = Y * Y / np.diag(S)  # in the unit of s, so that the steps do not depend on it

    def fun(w: Array) -> tuple[float, Array]:
        distance = np.sqrt(np.maximum(squares @ w, _SMALLEST))
        total = float(np.sum(distance))
        return float(w.sum()) - 2.0 * np.log(total), 1.0 - (1.0 / distance) @ squares / total

    def gap(w: Array) -> float:
        return float(np.max(1.0 - fun(w)[1]) * w.sum()) - 1.0

    def stop(intermediate_result: Any) -> None:
        if gap(intermediate_result.x) <= tol:
            raise StopIteration

    D = squares.shape[1]
    options = {"maxiter": max_iter, "maxfun": 20 * max_iter, "ftol": 0.0, "gtol": 0.0}
    found = minimize(
        fun, np.full(D, 1.0 / D), jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * D,
        callback=stop, options=options,
    )  # fmt: skip
    w = found.x
    mean = float(np.mean(np.sqrt(squares @ w)))
    L = np.diag(np.sqrt(w / np.diag(S)) / mean)
    return Factored(L, float(w.sum()) / mean**2, max(1, int(found.nit)), gap(w) <= tol)
