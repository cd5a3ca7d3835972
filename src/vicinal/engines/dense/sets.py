"""Repulsion and attraction of small data, as whole arrays in NumPy: see `base.SetSums`.

Everything is float64.  BLAS is not used: its bits depend on the cores.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from vicinal.core.types import Array
from vicinal.engines.newton import near_of, newton, polynomials
from vicinal.targets import Affinities

_FULL = 0.2  # share of all pairs in the lists from which whole arrays are faster


def _log_weights(d2: Array, kernel: str, kappa: float) -> tuple[Array, Array]:
    """log w, and the derivative of -log w by the squared distance."""
    smooth = -d2 if kernel == "gaussian" else -np.log1p(d2)
    slope = np.ones_like(d2) if kernel == "gaussian" else np.exp(smooth)
    if kappa == 0:
        return smooth, slope
    log_w = np.logaddexp(smooth, np.log(kappa))
    return log_w, slope * np.exp(smooth - log_w)


def attraction(
    Z: Array,
    target: Affinities,
    kernel: str,
    kappa: float,
    rows: tuple[Array, Array] | None,
    gradient: bool = True,
) -> tuple[float, Array | None]:
    """The sum of ``-p_ij log w_ij`` over the queries and references, and its gradient by Z."""
    n, d = Z.shape
    P = target.matrix if rows is None else target.matrix[rows[0]][:, rows[1]]
    if rows is None and P.nnz > _FULL * n * n:
        return _attraction_of_all(Z.astype(np.float64, copy=False), P, kernel, kappa, gradient)
    i, j = np.repeat(np.arange(P.shape[0]), np.diff(P.indptr)), P.indices
    if rows is not None:
        i, j = rows[0][i], rows[1][j]
    Z = Z.astype(np.float64, copy=False)
    difference = Z[i] - Z[j]
    d2 = np.einsum("tc,tc->t", difference, difference)
    log_w, slope = _log_weights(d2, kernel, kappa)
    value = -float(np.sum(P.data * log_w))
    if not gradient:
        return value, None
    force = 2.0 * P.data * slope
    dZ = np.empty((n, d))
    for c in range(d):
        along = force * difference[:, c]
        dZ[:, c] = np.bincount(i, along, n) - np.bincount(j, along, n)
    return value, dZ


def _attraction_of_all(
    Z: Array, P: Any, kernel: str, kappa: float, gradient: bool
) -> tuple[float, Array | None]:
    """The same for lists that hold most of the rows: whole arrays take a third of the time."""
    P = P.toarray()
    log_w, slope = _log_weights(cdist(Z, Z, "sqeuclidean"), kernel, kappa)
    value = -float(np.sum(P * log_w))
    if not gradient:
        return value, None
    force = 2.0 * P * slope
    force += force.T.copy()  # a pair moves both of its points
    dZ = [np.sum(force * np.subtract.outer(z, z), axis=1) for z in Z.T]
    return value, np.column_stack(dZ)


class DenseSets:
    """Sums over all sets of k references, by power sums, or by a chain where these cancel."""

    name = "dense"

    def __init__(
        self, Z: Array, k: int, kernel: str, kappa: float, query_rows: Array, references: Array
    ) -> None:
        self.shape, self.k = Z.shape, k
        self.query_rows, self.references = query_rows, references
        Z = Z.astype(np.float64, copy=False)
        self.Zq, self.Zr = Z[query_rows], Z[references]
        d2 = cdist(self.Zq, self.Zr, "sqeuclidean")
        self.own = query_rows[:, None] == references
        self.kernel, self.kappa = kernel, kappa
        if kernel == "gaussian":
            self.log_w, self.slope = _log_weights(d2, kernel, kappa)
            self.log_w[self.own] = -np.inf
            self.largest = self.log_w.max(axis=1)
            self.v = np.exp(self.log_w - self.largest[:, None])  # relative to the nearest
        else:  # logarithms only where they are needed
            smooth = 1.0 / (1.0 + d2)
            self.w, self.slope = smooth, smooth
            if kappa > 0:
                self.w = smooth + kappa
                self.slope = smooth * (smooth / self.w)
            self.w = np.where(self.own, 0.0, self.w)
            largest = self.w.max(axis=1)
            self.v, self.largest = self.w / largest[:, None], np.log(largest)
        self.facts = {"chain_rows": 0.0, "share_of_pairs": 1.0}

    def sums(self) -> Array:
        """The log of the total weight of all sets of k, for each query."""
        k = self.k
        log_total, self.coefficients, safe = newton(_power_sums(self.v, k))
        self.apart = np.flatnonzero(~safe)
        self.facts["chain_rows"] = float(len(self.apart))
        if len(self.apart):
            log_v = self._log_weights_of(self.apart) - self.largest[self.apart, None]
            within = bool(self.own[self.apart].any())
            log_total[self.apart], self.q_apart = _chain(log_v, k, within)
        return log_total + k * self.largest

    def _log_weights_of(self, rows: Array) -> Array:
        if self.kernel == "gaussian":
            return self.log_w[rows]
        with np.errstate(divide="ignore"):  # of a row itself
            return np.log(self.w[rows])

    def pull(self, factors: Array) -> Array:
        """The gradient by Z of the sum of ``factors`` times the sums."""
        q = _marginals(self.v, self.coefficients)
        if len(self.apart):
            q[self.apart] = self.q_apart
        W = -2.0 * factors[:, None] * q * self.slope
        dZ = np.zeros(self.shape)
        for c in range(self.shape[1]):  # products of coordinates would lose digits of far pairs
            along = np.subtract.outer(self.Zq[:, c], self.Zr[:, c])
            along *= W
            dZ[self.query_rows, c] += along.sum(axis=1)
            dZ[self.references, c] -= along.sum(axis=0)
        return dZ


def _power_sums(v: Array, k: int) -> Array:
    """Sums of v, v², ..., v^k along the rows, (n, k)."""
    S, power = np.empty((len(v), k)), v
    for m in range(k):
        power = power * v if m else v
        S[:, m] = power.sum(axis=1)
    return S


def _marginals(v: Array, coefficients: Array) -> Array:
    """``c_1 v + ... + c_k v^k`` in each row."""
    q = coefficients[:, -1:] * v
    for m in range(coefficients.shape[1] - 2, -1, -1):
        q += coefficients[:, m : m + 1]
        q *= v
    return q


def _chain(log_v: Array, k: int, within: bool) -> tuple[Array, Array]:
    """log e_k and the marginals of rows whose power sums cancel.

    The 4 k nearest references are kept apart and go through a chain, as `kernels.ksne_chain` says.
    ``within`` says that a weight may be zero.
    """
    n, m = log_v.shape
    r = near_of(k, m - within)
    near = np.argpartition(-log_v, r - 1, axis=1)[:, :r]
    weights = np.take_along_axis(log_v, near, axis=1).T  # (r, n)
    last = weights.min(axis=0)
    v = np.exp(np.minimum(log_v - last[:, None], 0.0))
    np.put_along_axis(v, near, 0.0, axis=1)
    after = np.full((r + 1, k + 1, n), -np.inf)
    after[r] = _log_polynomials(v, k, last)
    for s in range(r - 1, -1, -1):
        after[s] = after[s + 1]
        after[s, 1:] = np.logaddexp(after[s + 1, 1:], after[s + 1, :-1] + weights[s])
    total = after[0, k]
    q_near, before = np.empty((r, n)), np.full((k + 1, n), -np.inf)
    before[0] = 0.0
    for s in range(r):
        without = np.logaddexp.reduce(before[:k] + after[s + 1, k - 1 :: -1][:k], axis=0)
        q_near[s] = np.exp(without + weights[s] - total)
        before[1:] = np.logaddexp(before[1:], before[:-1] + weights[s])
    powers = np.arange(1, k + 1)[:, None]
    coefficients = np.exp(after[0, k - 1 :: -1][:k] + powers * last - total)
    q = _marginals(v, ((-1.0) ** (powers - 1) * coefficients).T)
    np.put_along_axis(q, near, q_near.T, axis=1)
    return total, q


def _log_polynomials(v: Array, k: int, last: Array) -> Array:
    """log e_u of weights of at most 1, in units of exp(last); (k + 1, n)."""
    S = _power_sums(v, k)
    unit = np.maximum(S[:, 0] / k, 1.0)
    e, _ = polynomials(S, unit)
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(e, 0.0)) + np.arange(k + 1)[:, None] * (np.log(unit) + last)
