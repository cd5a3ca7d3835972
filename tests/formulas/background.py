"""NCA with a background distribution, [Oneata2011] section 4.6.

The derivations are in ``docs/theory/nca.md``, section 10.
"""

from __future__ import annotations

from math import gamma, pi
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from formulas._common import Array, Index, log_kernel, squared_distances, weights

__all__ = [
    "background_gradient",
    "class_normals",
    "kernel_density",
    "mixture_densities",
    "nca_background",
]


def kernel_density(kernel: str, d2: ArrayLike, d: int) -> tuple[Array, Array]:
    """A kernel divided by its integral in d dimensions, and its derivative by |.|^2."""
    log_kappa, fall = log_kernel(np.asarray(d2, dtype=np.float64), kernel, d)
    integral = {
        "gaussian": pi ** (d / 2),
        "student": pi ** ((d + 1) / 2) / gamma((d + 1) / 2),
        "laplace": 2 * pi ** (d / 2) * gamma(d) / gamma(d / 2),
        # 15/16 in [Oneata2011] section 4.6 is one over this at d = 1
        "compact": 8 * pi ** (d / 2) / gamma(d / 2 + 1) / ((d + 2) * (d + 4)),
    }[kernel]
    k = np.exp(log_kappa) / integral
    return k, -fall * k


class Normal(NamedTuple):
    """Mean, shrunk covariance, shrinkage, and the part that the class has of all weight."""

    mu: Array
    Sigma: Array
    rho: float
    part: float


def class_normals(
    Z: ArrayLike, v: ArrayLike, code: ArrayLike, n_classes: int
) -> tuple[list[Any], float]:
    """The `Normal` of each class, None for a class without rows; and the shrinkage rho of T.

    ``Sigma_c = (1 - rho_c) S_c + rho_c T + 1e-6 (tr(S_c) / d + 1) I`` shrinks the covariance S_c
    (around the mean, divided by the total weight) towards that within all classes,
    ``T = (1 - rho) S + rho tr(S) / d I`` with ``S = sum_c V_c S_c / V``.  The amounts are those of
    d + 1 further rows, ``rho_c = (d + 1) / (N_c + d + 1)`` with ``N_c = V_c^2 / sum_j v_j^2``, and
    likewise rho for ``sum_c (N_c - 1)`` rows.
    """
    Z, v = np.asarray(Z, dtype=np.float64), np.asarray(v, dtype=np.float64)
    code, d, total = np.asarray(code), Z.shape[1], v.sum()
    S, n_within = np.zeros((d, d)), 0.0
    raw: list[Any] = [None] * n_classes
    for c in np.unique(code):
        z, w = Z[code == c], v[code == c] / v[code == c].sum()
        mu, n_c, part = w @ z, 1 / (w @ w), v[code == c].sum() / total
        S_c = (z - mu).T @ np.diag(w) @ (z - mu)
        raw[c] = mu, S_c, n_c, part
        S, n_within = S + part * S_c, n_within + n_c - 1
    pooled_rho = (d + 1) / (n_within + d + 1)
    T = (1 - pooled_rho) * S + pooled_rho * np.trace(S) / d * np.eye(d)
    normals: list[Any] = [None] * n_classes
    for c in np.unique(code):
        mu, S_c, n_c, part = raw[c]
        rho = (d + 1) / (n_c + d + 1)
        Sigma = (1 - rho) * S_c + rho * T + 1e-6 * (np.trace(S_c) / d + 1) * np.eye(d)
        normals[c] = Normal(mu, Sigma, rho, part)
    return normals, pooled_rho


def mixture_densities(
    z: ArrayLike,
    Z: ArrayLike,
    v: ArrayLike,
    normal: Normal,
    left_out: int | None,
    kernel: str = "gaussian",
) -> tuple[float, float]:
    """``N(z | mu_c, Sigma_c)`` and ``p_kappa(z | c)`` for a class of rows Z, [Oneata2011] (4.22).

    The row ``left_out`` is excluded from the second; both are 0 for a class without other rows.
    """
    z, Z, v = (np.asarray(part, dtype=np.float64) for part in (z, Z, v))
    v = np.where(np.arange(len(v)) == left_out, 0.0, v)
    if not v.sum() > 0:
        return 0.0, 0.0
    k, _ = kernel_density(kernel, squared_distances(z[None], Z)[0], Z.shape[1])
    mahalanobis = (z - normal.mu) @ np.linalg.solve(normal.Sigma, z - normal.mu)
    density = np.exp(-mahalanobis / 2) / np.sqrt(np.linalg.det(2 * pi * normal.Sigma))
    return float(density), float(v @ k / v.sum())  # eq. (4.21), with 1/N_c


def nca_background(
    Z: ArrayLike,
    y: ArrayLike,
    beta: ArrayLike,
    objective: str = "accuracy",
    queries: ArrayLike | None = None,
    references: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    priors: ArrayLike | None = None,
    kernel: str = "gaussian",
) -> tuple[float, Array]:
    """NCA with a background: mean loss over the queries, and its gradient.

    ``p(z|c) = beta_c N(z|mu_c, Sigma_c) + (1 - beta_c) p_kappa(z|c)``, [Oneata2011] eq. (4.22),
    and p_i is the posterior of the own class by Bayes' rule, eq. (3.11).  The query is left out of
    p_kappa and of empirical priors.  No log-sum-exp: for points that are not far from all others.

    Parameters and results are those of `nca`; `priors` are numbers or None, and `beta` is an array
    of shape (n_classes,).
    """
    options = objective, queries, references, sample_weight, priors, kernel
    return _nca_background(Z, y, beta, *options)[:2]


def background_gradient(Z: ArrayLike, y: ArrayLike, beta: ArrayLike, **options: Any) -> Array:
    """Derivative of `nca_background` by beta."""
    names = ("objective", "queries", "references", "sample_weight", "priors", "kernel")
    defaults = {"objective": "accuracy", "kernel": "gaussian"}
    return _nca_background(Z, y, beta, *({**defaults, **options}.get(name) for name in names))[2]


def _nca_background(
    Z: ArrayLike,
    y: ArrayLike,
    beta: ArrayLike,
    objective: Any,
    queries: Any,
    references: Any,
    sample_weight: Any,
    priors: Any,
    kernel: Any,
) -> tuple[float, Array, Array]:
    """Mean loss, its gradient by the points, and by the shares."""
    Z, beta = np.asarray(Z, dtype=np.float64), np.asarray(beta, dtype=np.float64)
    n, d = Z.shape
    q = np.arange(n) if queries is None else np.asarray(queries, dtype=np.intp)
    r = np.arange(n) if references is None else np.asarray(references, dtype=np.intp)
    classes, code = np.unique(np.asarray(y), return_inverse=True)
    v = weights(sample_weight, n)
    r = r[v[r] > 0]
    members = [r[code[r] == c] for c in range(len(classes))]
    normals, pooled_rho = class_normals(Z[r], v[r], code[r], len(classes))
    losses, weight = np.zeros(len(q)), v[q].copy()
    dZs, dbetas = np.zeros((len(q), n, d)), np.zeros((len(q), len(classes)))
    for a, i in enumerate(q):
        prior, normal, kernels = np.zeros((3, len(classes)))
        for c, rows in enumerate(members):
            if len(rows):
                left_out = int(np.flatnonzero(rows == i)[0]) if i in rows else None
                normal[c], kernels[c] = mixture_densities(
                    Z[i], Z[rows], v[rows], normals[c], left_out, kernel
                )
            mass = v[rows[rows != i]].sum()
            prior[c] = mass if priors is None else np.asarray(priors)[c] * (mass > 0)
        joint = prior * (beta * normal + (1 - beta) * kernels)
        if not joint[code[i]] > 0:  # no other row of its class: as in `nca`
            weight[a] *= objective == "accuracy"
            continue
        p = joint[code[i]] / joint.sum()
        losses[a] = -p if objective == "accuracy" else -np.log(p)
        d_joint = -((np.arange(len(classes)) == code[i]) - p) / joint.sum()  # dloss / djoint
        if objective == "log":
            d_joint /= p
        dbetas[a] = d_joint * prior * (normal - kernels)  # [Oneata2011] eq. (4.24)
        for c, rows in enumerate(members):
            if prior[c] > 0:
                d_density = d_joint[c] * prior[c]
                w = d_density * beta[c] * normal[c]
                dZs[a] += w * _normal_gradient(Z, i, c, members, v, normals, pooled_rho)
                others = rows[rows != i]
                _, slope = kernel_density(kernel, squared_distances(Z[[i]], Z[others])[0], d)
                slope *= 2 * d_density * (1 - beta[c]) * v[others] / v[others].sum()
                pulls = slope[:, None] * (Z[i] - Z[others])
                dZs[a, i] += pulls.sum(axis=0)
                dZs[a, others] -= pulls
    if not weight.sum() > 0:
        return 0.0, np.zeros_like(Z), np.zeros_like(beta)
    weight /= weight.sum()
    return float(weight @ losses), np.tensordot(weight, dZs, 1), weight @ dbetas


def _normal_gradient(
    Z: Array, i: int, c: int, members: list[Index], v: Array, normals: list[Normal], rho: float
) -> Array:
    """Gradient of log N(z_i | mu_c, Sigma_c), through z_i, mu_c and the S of every class."""
    dZ, d = np.zeros_like(Z), Z.shape[1]
    mu, Sigma, rho_c, _ = normals[c]
    u = np.linalg.solve(Sigma, Z[i] - mu)
    d_Sigma = 0.5 * (np.outer(u, u) - np.linalg.inv(Sigma))
    d_T = (1 - rho) * rho_c * d_Sigma + rho * rho_c * np.trace(d_Sigma) / d * np.eye(d)
    dZ[i] -= u
    for k, rows in enumerate(members):
        if not len(rows):
            continue
        d_S = normals[k].part * d_T
        if k == c:
            d_S = d_S + (1 - rho_c) * d_Sigma + 1e-6 * np.trace(d_Sigma) / d * np.eye(d)
        for j in rows:
            share = v[j] / v[rows].sum()
            dZ[j] += share * ((k == c) * u + 2 * d_S @ (Z[j] - normals[k].mu))
    return dZ
