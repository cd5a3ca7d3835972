"""How near the partners of a row are, among all rows: the score of a map learnt from pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from vicinal.core import checks
from vicinal.core.types import Array
from vicinal.targets.pairs import PairWeights

_PAIRS = 2**22  # distances at a time: 32 MB


class PartnerModel:
    """Ranks the training rows by their distance from a query.

    Parameters
    ----------
    Z : array of shape (n, d)
        Embedded training rows.
    """

    Z: Array

    def __init__(self, Z: Array) -> None:
        self.Z = Z

    def check_fields(self) -> None:
        """Refuse points that cannot be compared."""
        checks.real(self.Z, 2, "Z")

    def scores(self, Z: Array, target: Any, rule: str) -> Array:
        """Share of the training rows that are farther from each query than its partners.

        Ties count a half; several partners are averaged by their weights.  A query without partners
        gets the mean of the others, so that it changes no average; 0.5 if no query has any.

        Parameters
        ----------
        Z : array of shape (n_queries, d)
            Embedded queries.
        target : sparse array of shape (n_queries, n)
            Weights of their partners among the training rows.
        rule : str
            Ignored: there is one way to score.

        Returns
        -------
        scores : array of shape (n_queries,)
        """
        scores = np.full(len(Z), np.nan)
        with_partners = np.flatnonzero(np.asarray(target.sum(axis=1)).ravel() > 0)
        size = max(1, _PAIRS // max(1, len(self.Z)))
        for first in range(0, len(with_partners), size):
            rows = with_partners[first : first + size]
            D = cdist(Z[rows], self.Z, "sqeuclidean")
            for i, row in enumerate(rows):
                own = slice(*target.indptr[row : row + 2])
                shares = _farther(D[i], target.indices[own])
                scores[row] = np.average(shares, weights=target.data[own])
        known = scores[with_partners]
        return np.where(
            np.isnan(scores), known.mean() if len(known) else PairWeights.chance, scores
        )


def _farther(d2: Array, chosen: Array) -> Array:
    """Share of the other entries that are larger than each chosen one."""
    ordered = np.sort(d2)
    below = np.searchsorted(ordered, d2[chosen], side="left")
    equal = np.searchsorted(ordered, d2[chosen], side="right") - below - 1  # without itself
    others = max(1, len(d2) - 1)
    return 1.0 - (below + 0.5 * equal) / others
