"""NCA with a background distribution, [Oneata2011] section 4.6.

The derivations are in ``docs/theory/nca.md``, section 10.
"""

from __future__ import annotations

from math import gamma, pi

import numpy as np
from numpy.typing import ArrayLike

from vicinal.reference._common import Array, Index, log_kernel, squared_distances, weights

__all__ = ["class_normal", "kernel_density", "mixture_densities", "nca_background"]


def kernel_density(kernel: str, d2: ArrayLike, d: int) -> tuple[Array, Array]:
    """A kernel divided by its integral in d dimensions, and its derivative by |.|^2."""
    log_kappa, fall = log_kernel(np.asarray(d2, dtype=np.float64), kernel, d)
    integral = {
        "gaussian": pi ** (d / 2),
        "student": pi ** ((d + 1) / 2) / gamma((d + 1) / 2),
        # 15/16 in [Oneata2011] section 4.6 is one over this at d = 1
        "compact": 8 * pi ** (d / 2) / gamma(d / 2 + 1) / ((d + 2) * (d + 4)),
    }[kernel]
    k = np.exp(log_kappa) / integral
    return k, -fall * k


def class_normal(Z: ArrayLike, v: ArrayLike) -> tuple[Array, Array, float]:
    """Mean and shrunk covariance of a class, and the shrinkage rho.

    ``Sigma = (1 - rho) S + (rho tr(S) / d + 1e-6) I``, where S is the covariance around the mean,
    divided by the total weight; ``rho = d / (n + d)`` if n <= d, otherwise 1e-6.
    """
    Z, v = np.asarray(Z, dtype=np.float64), np.asarray(v, dtype=np.float64)
    n, d = Z.shape
    mu = v @ Z / v.sum()
    S = (Z - mu).T @ np.diag(v / v.sum()) @ (Z - mu)
    rho = d / (n + d) if n <= d else 1e-6
    return mu, (1 - rho) * S + (rho * np.trace(S) / d + 1e-6) * np.eye(d), rho


def mixture_densities(
    z: ArrayLike, Z: ArrayLike, v: ArrayLike, left_out: int | None, kernel: str = "gaussian"
) -> tuple[float, float]:
    """``N(z | mu_c, Sigma_c)`` and ``p_kappa(z | c)`` for a class of rows Z, [Oneata2011] (4.22).

    The row ``left_out`` is excluded from the second; both are 0 for a class without other rows.
    """
    z, Z, v = (np.asarray(part, dtype=np.float64) for part in (z, Z, v))
    mu, Sigma, _ = class_normal(Z, v)
    v = np.where(np.arange(len(v)) == left_out, 0.0, v)
    if not v.sum() > 0:
        return 0.0, 0.0
    k, _ = kernel_density(kernel, squared_distances(z[None], Z)[0], Z.shape[1])
    mahalanobis = (z - mu) @ np.linalg.solve(Sigma, z - mu)
    normal = np.exp(-mahalanobis / 2) / np.sqrt(np.linalg.det(2 * pi * Sigma))
    return float(normal), float(v @ k / v.sum())  # eq. (4.21), with 1/N_c


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
    Z, beta = np.asarray(Z, dtype=np.float64), np.asarray(beta, dtype=np.float64)
    n, d = Z.shape
    q = np.arange(n) if queries is None else np.asarray(queries, dtype=np.intp)
    r = np.arange(n) if references is None else np.asarray(references, dtype=np.intp)
    classes, code = np.unique(np.asarray(y), return_inverse=True)
    v = weights(sample_weight, n)
    members = [r[(code[r] == c) & (v[r] > 0)] for c in range(len(classes))]
    losses, weight = np.zeros(len(q)), v[q].copy()
    dZs = np.zeros((len(q), n, d))
    for a, i in enumerate(q):
        prior, normal, kernels = np.zeros((3, len(classes)))
        for c, rows in enumerate(members):
            if len(rows):
                left_out = int(np.flatnonzero(rows == i)[0]) if i in rows else None
                normal[c], kernels[c] = mixture_densities(Z[i], Z[rows], v[rows], left_out, kernel)
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
        for c, rows in enumerate(members):
            if prior[c] > 0:
                d_density = d_joint[c] * prior[c]
                _add_normal(dZs[a], Z, i, rows, v, d_density * beta[c] * normal[c])
                others = rows[rows != i]
                _, slope = kernel_density(kernel, squared_distances(Z[[i]], Z[others])[0], d)
                slope *= 2 * d_density * (1 - beta[c]) * v[others] / v[others].sum()
                pulls = slope[:, None] * (Z[i] - Z[others])
                dZs[a, i] += pulls.sum(axis=0)
                dZs[a, others] -= pulls
    if not weight.sum() > 0:
        return 0.0, np.zeros_like(Z)
    weight /= weight.sum()
    return float(weight @ losses), np.tensordot(weight, dZs, 1)


def _add_normal(dZ: Array, Z: Array, i: int, rows: Index, v: Array, w: float) -> None:
    """Add w times the gradient of log N(z_i | mu, Sigma), through z_i, mu and Sigma."""
    mu, Sigma, rho = class_normal(Z[rows], v[rows])
    u = np.linalg.solve(Sigma, Z[i] - mu)
    dS = 0.5 * (np.outer(u, u) - np.linalg.inv(Sigma))
    dS = (1 - rho) * dS + rho * np.trace(dS) / len(mu) * np.eye(len(mu))
    dZ[i] -= w * u
    for j in rows:
        dZ[j] += w * v[j] / v[rows].sum() * (u + 2 * dS @ (Z[j] - mu))
