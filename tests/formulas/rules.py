"""Class probabilities from stochastic neighbours, and effective numbers of neighbours."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from formulas._common import (
    Array,
    log_kernel,
    log_masses,
    softmax_rows,
    squared_distances,
    weights,
)

__all__ = ["effective_n_neighbors", "posterior"]


def posterior(
    Z_query: ArrayLike,
    Z_reference: ArrayLike,
    y_reference: ArrayLike,
    priors: ArrayLike | str | None = None,
    sample_weight: ArrayLike | None = None,
    kernel: str = "gaussian",
) -> Array:
    """Class probabilities of new points: Bayes' rule over the class-conditional densities.

    ``p(c | z) = sum_{j in c} m_j kappa(|z - z_j|) / sum_j m_j kappa(|z - z_j|)`` with m_j = v_j,
    or ``p(c) v_j / sum_{k in c} v_k`` for given priors.  Queries are never references here.  If no
    reference is in range, ``p(c | z) = sum_{j in c} m_j / sum_j m_j``.

    Parameters
    ----------
    Z_query : array of shape (n_query, d)
    Z_reference : array of shape (n_reference, d)
    y_reference : array of shape (n_reference,)
    priors : None, "uniform" or array of shape (n_classes,), default=None
        In the order of ``np.unique(y_reference)``.
    sample_weight : array of shape (n_reference,), default=None
        At least one reference must have a positive mass.
    kernel : {"gaussian", "student", "laplace", "compact"}, default="gaussian"

    Returns
    -------
    P : ndarray of shape (n_query, n_classes)
    """
    d2 = squared_distances(Z_query, Z_reference)
    classes, code = np.unique(np.asarray(y_reference), return_inverse=True)
    mass = np.tile(weights(sample_weight, d2.shape[1]), (d2.shape[0], 1))
    log_mass = log_masses(mass, code, len(classes), priors)
    T = log_mass + log_kernel(d2, kernel, np.shape(Z_query)[1])[0]
    T = np.where(T.max(axis=1, keepdims=True) > -np.inf, T, log_mass)
    log_joint = np.empty((d2.shape[0], len(classes)))
    for c in range(len(classes)):
        log_joint[:, c], _ = softmax_rows(T[:, code == c])  # [Oneata2011] eq. (3.9) times p(c)
    return softmax_rows(log_joint)[1]  # [Oneata2011] eq. (3.11); (3.25) without given priors


def effective_n_neighbors(
    Z: ArrayLike,
    sample_weight: ArrayLike | None = None,
    Z_query: ArrayLike | None = None,
    kernel: str = "gaussian",
) -> Array:
    """Perplexity of each point's neighbour distribution, ``exp(-sum_j p_ij log p_ij)``.

    [Goldberger2005] section 2.  Between 1 and n - 1; 0 for a point without any neighbour.
    For new points it is the local K of section 6, between 1 and n.

    Parameters
    ----------
    Z : array of shape (n, d)
    sample_weight : array of shape (n,), default=None
        Mass of each row as a neighbour.
    Z_query : array of shape (n_query, d), default=None
        New points that choose among all rows of Z.  None: each row of Z among the others.
    kernel : {"gaussian", "student", "laplace", "compact"}, default="gaussian"

    Returns
    -------
    perplexity : ndarray of shape (n,) or (n_query,)
    """
    d2 = squared_distances(Z if Z_query is None else Z_query, Z)
    mass = np.tile(weights(sample_weight, d2.shape[1]), (d2.shape[0], 1))
    if Z_query is None:
        np.fill_diagonal(mass, 0.0)
    with np.errstate(divide="ignore"):
        T = np.log(mass) + log_kernel(d2, kernel, np.shape(Z)[1])[0]
        log_sum, P = softmax_rows(T)  # [Goldberger2005] eq. (1)
    entropy = -np.sum(P * np.log(np.where(P > 0, P, 1.0)), axis=1)
    return np.where(log_sum > -np.inf, np.exp(entropy), 0.0)
