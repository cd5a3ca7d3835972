"""Neighbourhood components of pairs without classes, [Goldberger2005] eq. (8).

The derivation is in ``docs/theory/pair_nca.md``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from formulas._common import Array, pull_to_points, softmax_rows, squared_distances

__all__ = ["pair_nca"]


def pair_nca(
    Z: ArrayLike,
    pairs: ArrayLike,
    weights: ArrayLike | None = None,
    queries: ArrayLike | None = None,
    references: ArrayLike | None = None,
) -> tuple[float, Array]:
    """Mean loss of the pairs under one softmax over all ordered pairs, and its gradient.

    With w_ab halved and given to both orders of a pair::

        loss = -sum_ab w_ab log(exp(-d2_ab) / sum_{c != d} exp(-d2_cd)) / sum_ab w_ab

    over queries a, c and references b, d.

    Parameters
    ----------
    Z : array of shape (n, d)
        Embedded points.
    pairs : int array of shape (m, 2)
        Positions in `Z` of the two points of each pair.
    weights : array of shape (m,), default=None
        None stands for ones.
    queries, references : int arrays, default=None
        Positions in `Z`; None stands for all rows.

    Returns
    -------
    value : float
        0 if no pair counts.
    dZ : array of shape (n, d)
    """
    Z = np.asarray(Z, dtype=np.float64)
    n, (a, b) = len(Z), np.asarray(pairs, dtype=np.intp).reshape(-1, 2).T
    q = np.arange(n) if queries is None else np.asarray(queries, dtype=np.intp)
    r = np.arange(n) if references is None else np.asarray(references, dtype=np.intp)
    w = np.ones(len(a)) if weights is None else np.asarray(weights, dtype=np.float64)
    W = np.zeros((n, n))
    np.add.at(W, (a, b), w / 2)
    np.add.at(W, (b, a), w / 2)
    W = W[np.ix_(q, r)]
    if not W.sum() > 0:
        return 0.0, np.zeros_like(Z)
    W /= W.sum()
    d2 = squared_distances(Z[q], Z[r])
    T = np.where(q[:, None] == r[None, :], -np.inf, -d2)  # c = d is left out
    log_total, P = softmax_rows(T.reshape(1, -1))
    value = np.sum(W * (log_total[0] + d2))  # [Goldberger2005] eq. (8)
    return float(value), pull_to_points(W - P.reshape(T.shape), Z, q, r)
