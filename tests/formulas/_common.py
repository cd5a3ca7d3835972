"""What the plain formulas share: distances, kernels, masses, and pulls."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "Array",
    "Index",
    "finite_difference",
    "log_kernel",
    "log_masses",
    "pull_to_points",
    "softmax_rows",
    "squared_distances",
    "weights",
]

Array = NDArray[np.float64]
Index = NDArray[np.intp]


def squared_distances(Z: ArrayLike, W: ArrayLike | None = None) -> Array:
    """Squared Euclidean distances ``d2[i, j] = |z_i - w_j|^2``, from differences.

    Differences, not ``|z|^2 + |w|^2 - 2 z.w``: equal rows are at distance exactly 0.

    Parameters
    ----------
    Z : array of shape (n, d)
    W : array of shape (m, d), default=None
        None stands for `Z`.

    Returns
    -------
    d2 : ndarray of shape (n, m)
    """
    Z = np.asarray(Z, dtype=np.float64)
    W = Z if W is None else np.asarray(W, dtype=np.float64)
    d2 = np.zeros((Z.shape[0], W.shape[0]))
    for c in range(Z.shape[1]):
        d2 += (Z[:, None, c] - W[None, :, c]) ** 2
    return d2


def log_kernel(d2: Array, kernel: str, d: int) -> tuple[Array, Array]:
    """log kappa at squared distances, and -kappa'/kappa (derivative by the squared distance).

    "gaussian" is exp(-d2), "student" (1 + d2)^-(d + 1)/2 in d dimensions ([Oneata2011] section 6),
    "laplace" exp(-sqrt(d2)), whose derivative at 0 is taken as 0, and "compact" (1 - d2)^2 up to 1,
    eq. (4.16), and 0 beyond.
    """
    if kernel == "gaussian":
        return -d2, np.ones_like(d2)
    if kernel == "student":
        return -0.5 * (d + 1) * np.log1p(d2), 0.5 * (d + 1) / (1 + d2)
    if kernel == "laplace":
        u = np.sqrt(d2)
        return -u, np.divide(0.5, u, np.zeros_like(u), where=u > 0)
    if kernel == "compact":
        t = np.maximum(1 - d2, 0.0)
        with np.errstate(divide="ignore"):
            return 2 * np.log(t), np.divide(2.0, t, np.zeros_like(t), where=t > 0)
    names = "'gaussian', 'student', 'laplace' or 'compact'"
    raise ValueError(f"kernel must be {names}. Got {kernel!r} instead.")


def softmax_rows(T: Array) -> tuple[Array, Array]:
    """Log-sum-exp of each row and the row's softmax; an empty row gives ``-inf`` and zeros."""
    largest = T.max(axis=1, initial=-np.inf)
    shift = np.where(np.isfinite(largest), largest, 0.0)  # [Oneata2011] eq. (3.20)
    E = np.exp(T - shift[:, None])
    total = E.sum(axis=1)
    with np.errstate(divide="ignore"):
        log_sum = shift + np.log(total)
    return log_sum, E / np.where(total > 0, total, 1.0)[:, None]


def weights(sample_weight: ArrayLike | None, n: int) -> Array:
    v = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if v.shape != (n,) or not np.all(v >= 0):
        raise ValueError(f"sample_weight must be {n} numbers >= 0. Got shape {v.shape} instead.")
    return v


def log_masses(mass: Array, code: Index, n_classes: int, priors: ArrayLike | str | None) -> Array:
    """Logarithm of the factor of the kernel of reference j for query i.

    `mass` holds v_j, and 0 if j is not a reference of i (in particular j = i).  With given
    priors it becomes ``p(c) v_j / sum_{k in c} v_k``: one density per class, then Bayes' rule.
    """
    if priors is not None:
        prior = np.full(n_classes, 1 / n_classes) if isinstance(priors, str) else priors
        if isinstance(priors, str) and priors != "uniform":
            raise ValueError(f"priors must be None, 'uniform' or an array. Got {priors!r} instead.")
        prior = np.asarray(prior, dtype=np.float64)
        if prior.shape != (n_classes,) or not np.all(prior >= 0):
            raise ValueError(f"priors must be {n_classes} numbers >= 0. Got {priors!r} instead.")
        in_class = code[:, None] == np.arange(n_classes)
        class_mass = (mass @ in_class)[:, code]  # sum over the class of j, without the query
        # [Oneata2011] eq. (3.9) and (3.11), without the query in its own class
        mass = prior[code] * np.divide(mass, class_mass, np.zeros_like(mass), where=mass > 0)
    with np.errstate(divide="ignore"):
        return np.log(mass)


def pull_to_points(G: Array, Z: Array, q: Index, r: Index) -> Array:
    """Turn G_ij = dloss/d|z_i - z_j|^2 into dZ: a pair moves its two points oppositely."""
    dZ = np.zeros_like(Z)
    for c in range(Z.shape[1]):
        F = 2 * G * (Z[q, c][:, None] - Z[r, c][None, :])  # d|z_i - z_j|^2 / dz_i = 2 (z_i - z_j)
        np.add.at(dZ[:, c], q, F.sum(axis=1))
        np.add.at(dZ[:, c], r, -F.sum(axis=0))
    return dZ


def finite_difference(fun: Callable[[Array], float], Z: ArrayLike, eps: float = 1e-6) -> Array:
    """Gradient of a scalar function by central differences, ``(f(z + eps) - f(z - eps)) / 2 eps``.

    Parameters
    ----------
    fun : callable
        From an array of `Z`'s shape to a float.
    Z : array
    eps : float, default=1e-6

    Returns
    -------
    gradient : ndarray of `Z`'s shape
    """
    Z = np.array(Z, dtype=np.float64)
    gradient = np.empty_like(Z)
    for index in np.ndindex(Z.shape):
        up, down = Z.copy(), Z.copy()
        up[index] += eps
        down[index] -= eps
        # the step after rounding, which differs from 2 eps when |z| is large
        gradient[index] = (fun(up) - fun(down)) / (up[index] - down[index])
    return gradient
