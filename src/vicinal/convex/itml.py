"""ITML: the M nearest to the identity in LogDet divergence, with bounds on distances of pairs.

The LogDet divergence does not change under linear maps.  So another prior M⁰ = L⁰ᵀL⁰ needs no code:
the differences are mapped by L⁰ first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, blas

from vicinal.convex._factored import barrier, minimise_factored
from vicinal.core.types import Array

# Up to so many pairs, or projections, NumPy suffices: a projection takes three microseconds, and
# compiling takes seconds.
_NUMPY_PAIRS, _NUMPY_PROJECTIONS = 500, 300_000


class ITMLResult(NamedTuple):
    """A factor of M, the multiplier and the bound with slack of each pair, and how it ended."""

    L: Array
    multipliers: Array
    xi: Array
    objective: float
    n_iter: int
    converged: bool


def itml_by_lbfgs(
    X: Array, s: Array, xi0: Array, *, gamma: float, max_iter: int, tol: float
) -> ITMLResult:
    r"""Solve the problem of [Davis2007] in its primal form by L-BFGS.

    .. math::
        \min_{M \succ 0, \xi} D(M, I) + \gamma D(\mathrm{diag}\,\xi, \mathrm{diag}\,\xi^0)
        \quad\text{subject to}\quad s_c (\delta_c - \xi_c) \le 0, \quad \delta_c = x_c^\top M x_c,

    where D is the LogDet divergence.  The best slack is :math:`\xi_c = \delta_c` where the bound
    :math:`\xi^0_c` is violated and :math:`\xi^0_c` elsewhere, which leaves a smooth convex function
    of M alone (docs/theory/itml.md).

    Parameters
    ----------
    X : array of shape (n, D)
        Differences of the pairs; none is zero.
    s : array of shape (n,)
        +1 for similar pairs, whose squared distance is bounded from above, -1 for the others.
    xi0 : array of shape (n,)
        Positive bounds of the squared distances.
    gamma : float
        Weight of the slack, finite.
    max_iter, tol
        It ends when no entry of ``M^(1/2) (∂/∂M) M^(1/2)`` exceeds ``tol`` times the terms that
        it is the difference of.
    """

    def fun(L: Array) -> tuple[float, Array, float]:
        L, value, G = barrier(L)
        Z = X @ L.T
        ratio, slope = _violations(Z, s, xi0, gamma)
        value += gamma * float(np.sum(ratio - np.log(ratio) - 1.0))
        G += (Z.T * slope) @ X
        size = max(1.0, float(np.abs(slope) @ np.einsum("ij,ij->i", Z, Z)) / len(L))
        return value, 2.0 * G, float(np.abs(G @ L.T).max()) / size

    L, value, n_iter, converged = minimise_factored(fun, np.eye(X.shape[1]), max_iter, tol)
    ratio, slope = _violations(X @ L.T, s, xi0, gamma)
    return ITMLResult(L, s * slope, xi0 * ratio, value, n_iter, converged)


def _violations(Z: Array, s: Array, xi0: Array, gamma: float) -> tuple[Array, Array]:
    """ξ/ξ⁰ with the best slack, and the derivative s λ = γ(1/ξ⁰ - 1/ξ) of the penalty by δ."""
    ratio = np.einsum("ij,ij->i", Z, Z) / xi0
    ratio[s * (ratio - 1.0) <= 0.0] = 1.0
    return ratio, gamma * (1.0 - 1.0 / ratio) / xi0


def itml_by_projections(
    X: Array, s: Array, xi0: Array, *, gamma: float, max_iter: int, tol: float
) -> ITMLResult:
    """Solve the same problem by cyclic Bregman projections [Davis2007, algorithm 1].

    Parameters
    ----------
    X, s, xi0
        As in :func:`itml_by_lbfgs`.
    gamma : float
        Weight of the slack; inf: hard constraints.
    max_iter, tol
        It ends when a sweep changes the multipliers by less than ``tol`` times their sum.
    """
    state = _Projections(X, s, xi0, gamma)
    sweep, converged, n_iter = state.sweep, False, 0
    for n_iter in range(1, max_iter + 1):
        if len(X) > _NUMPY_PAIRS and n_iter * len(X) > _NUMPY_PROJECTIONS:
            sweep = state.sweep_compiled
        change = sweep()
        if change <= tol * state.lam.sum():
            converged = True
            break
    L, xi = state.factor(), 1.0 / state.inverse_xi
    objective = barrier(L)[1]
    if np.isfinite(gamma):
        objective += gamma * float(np.sum(xi / xi0 - np.log(xi / xi0) - 1.0))
    return ITMLResult(L, state.lam, xi, objective, n_iter, converged)


class _Projections:
    """M, multipliers and slack between projections.

    Each keeps to ``M⁻¹ = I + Σ s λ x xᵀ`` and ``1/ξ = 1/ξ⁰ - s λ/γ``.
    """

    def __init__(self, X: Array, s: Array, xi0: Array, gamma: float) -> None:
        self.X, self.s = np.ascontiguousarray(X), s.astype(np.float64)
        self.gamma, self.share = float(gamma), 1.0 if np.isinf(gamma) else gamma / (gamma + 1.0)
        self.M = np.eye(X.shape[1], order="F")  # lower triangle; BLAS updates it in place
        self.lam, self.inverse_xi = np.zeros(len(X)), 1.0 / xi0

    def sweep(self) -> float:
        """Project once onto each constraint; return the sum of the absolute changes of λ."""
        M, lam, inverse_xi = self.M, self.lam.tolist(), self.inverse_xi.tolist()
        share, gamma, change = self.share, self.gamma, 0.0
        for c, (x, s) in enumerate(zip(self.X, self.s.tolist(), strict=True)):
            v = blas.dsymv(1.0, M, x, lower=1)
            p = float(blas.ddot(x, v))
            # γ/(γ+1) where [Davis2007] has 1/2, which is right for γ = 1 only
            alpha = min(lam[c], s * share * (1.0 / p - inverse_xi[c]))
            if alpha == 0.0:
                continue
            lam[c] -= alpha
            inverse_xi[c] += s * alpha / gamma  # ξ ← γξ/(γ + sαξ)
            change += abs(alpha)
            M = blas.dsyr(s * alpha / (1.0 - s * alpha * p), v, lower=1, a=M, overwrite_a=1)
        self.M, self.lam, self.inverse_xi = M, np.array(lam), np.array(inverse_xi)
        return change

    def sweep_compiled(self) -> float:
        """The same, compiled."""
        from vicinal.kernels.itml import itml_sweep  # only now: it loads the compiler

        self.M = np.ascontiguousarray(self.M)
        return itml_sweep(
            self.X, self.s, self.gamma, self.share, self.M, self.lam, self.inverse_xi,
            np.empty(len(self.M)),
        )  # fmt: skip

    def factor(self) -> Array:
        """A factor of M, from the multipliers: this undoes the rounding of many updates."""
        inverse = np.eye(len(self.M)) + (self.X.T * (self.s * self.lam)) @ self.X
        try:
            return np.linalg.inv(np.linalg.cholesky(inverse))  # M⁻¹ = C Cᵀ, so M = C⁻ᵀ C⁻¹
        except LinAlgError:  # huge multipliers of contradictory hard constraints cancel
            return np.linalg.cholesky(np.tril(self.M) + np.tril(self.M, -1).T).T
