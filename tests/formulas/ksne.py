"""kSNE and kt-SNE in plain NumPy: [Tarlow2013] section 6."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from formulas._common import Array, Index, squared_distances

__all__ = ["ksne", "set_marginals", "set_marginals_by_subsets"]


def set_marginals(log_w: ArrayLike, k: int) -> tuple[Array, Array]:
    r"""Chance that each member is in a set of k, and the log of the total weight of such sets.

    A set s has the weight :math:`\prod_{j \in s} w_j`, eqs (9) and (10).  Members of weight zero
    have ``log_w`` = -inf.

    Parameters
    ----------
    log_w : array of shape (n, m)
        Each row is a problem of its own.
    k : int
        At most the number of members of positive weight.

    Returns
    -------
    marginals : ndarray of shape (n, m)
        Each row sums to k.
    log_total : ndarray of shape (n,)
        :math:`\log e_k(w)`.
    """
    given = np.asarray(log_w, dtype=np.float64)
    n, m = given.shape
    largest = given.max(axis=1, initial=-np.inf)
    log_v = given - largest[:, None]  # logarithms of sums of huge numbers would have few digits
    before = np.full((m + 1, k + 1, n), -np.inf)  # log e_u of the first j members
    after = np.full((m + 1, k + 1, n), -np.inf)  # of the members from j on
    before[0, 0] = after[m, 0] = 0.0
    for j in range(m):
        before[j + 1] = before[j]
        before[j + 1, 1:] = np.logaddexp(before[j, 1:], before[j, :-1] + log_v[:, j])
    for j in range(m - 1, -1, -1):
        after[j] = after[j + 1]
        after[j, 1:] = np.logaddexp(after[j + 1, 1:], after[j + 1, :-1] + log_v[:, j])
    log_total = before[m, k]
    without = before[:m, :k] + after[1:, k - 1 :: -1][:, :k]
    log_p = np.logaddexp.reduce(without, axis=1).T + log_v - log_total[:, None]
    return np.exp(log_p), log_total + k * largest


def set_marginals_by_subsets(log_w: ArrayLike, k: int) -> tuple[Array, Array]:
    """The same by going through all sets."""
    log_w = np.asarray(log_w, dtype=np.float64)
    marginals, log_total = np.zeros_like(log_w), np.empty(len(log_w))
    for i, row in enumerate(log_w):
        sets = [list(s) for s in combinations(range(len(row)), k)]
        weight = np.array([row[s].sum() for s in sets])
        log_total[i] = np.logaddexp.reduce(weight)
        for s, log_weight in zip(sets, weight, strict=True):
            marginals[i, s] += np.exp(log_weight - log_total[i])
    return marginals, log_total


def ksne(
    Z: ArrayLike,
    P: ArrayLike,
    k: int,
    kernel: str = "cauchy",
    kappa: float = 0.0,
    queries: Index | None = None,
    references: Index | None = None,
    exaggeration: float = 1.0,
) -> tuple[float, Array]:
    r"""The mean over the queries of :math:`-\sum_j p_{ij} \log w_{ij} + \log e_k(w_i)`, eq. (11).

    ``P`` (n, n) holds the marginals of the target sets, multiplied by ``exaggeration`` here; those
    of rows that are no references do not count.
    """
    Z, P = np.asarray(Z, dtype=np.float64), exaggeration * np.asarray(P, dtype=np.float64)
    rows = np.arange(len(Z))
    queries = rows if queries is None else queries
    references = rows if references is None else references
    d2 = squared_distances(Z[queries], Z[references])
    own = queries[:, None] == references
    smooth = np.exp(-d2) if kernel == "gaussian" else 1 / (1 + d2)
    slope = np.ones_like(d2) if kernel == "gaussian" else smooth  # of delta by d2
    log_smooth = -d2 if kernel == "gaussian" else -np.log1p(d2)
    log_w = np.logaddexp(log_smooth, np.log(kappa)) if kappa > 0 else log_smooth
    p = np.where(own, 0.0, P[np.ix_(queries, references)])
    q, log_total = set_marginals(np.where(own, -np.inf, log_w), k)
    value = np.mean(log_total - np.sum(p * log_w, axis=1))
    # derivative by delta, where w = exp(-delta) + kappa
    share = np.exp(log_smooth - log_w) if kappa > 0 else 1.0
    W = (p - q) * share * slope / len(queries)
    dZ = np.zeros_like(Z)
    for c in range(Z.shape[1]):
        pull = 2 * W * (Z[queries, c][:, None] - Z[references, c])
        dZ[queries, c] += pull.sum(axis=1)
        dZ[references, c] -= pull.sum(axis=0)
    return float(value), dZ
