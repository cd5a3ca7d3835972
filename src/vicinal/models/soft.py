"""Predictions where rows have label distributions, matches or partners in place of classes."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from vicinal.core import checks
from vicinal.core.points import check_points
from vicinal.core.types import Array
from vicinal.densities import Gaussian, Kernel
from vicinal.engines import choose
from vicinal.models.posterior import NCAModel, StochasticPicks
from vicinal.objectives.rules import nca_matched_shares
from vicinal.targets import LabelDistributions, Matches
from vicinal.targets.pairs import PairWeights

_GAUSSIAN = Gaussian()
_PAIRS = 2**22  # distances at a time: 32 MB


class DistributionModel(NCAModel):
    r"""The mean label distribution of stochastic neighbours, or of the k nearest rows.

    .. math:: P(c \mid z) = \sum_j p_j t_{jc}, \qquad p_j = \frac{v_j \kappa(\|z - z_j\|)}
              {\sum_k v_k \kappa(\|z - z_k\|)}

    Parameters
    ----------
    Z : array of shape (n, d)
        Projections.
    distributions : LabelDistributions
        The distributions :math:`t_j` of the rows, and their weights v.
    n_neighbors, kernel
        As in `NCAModel`.
    """

    def __init__(
        self,
        Z: Array,
        distributions: LabelDistributions,
        n_neighbors: int | str,
        kernel: Kernel = _GAUSSIAN,
    ) -> None:
        super().__init__(Z, distributions, n_neighbors, kernel)

    @property
    def n_outputs(self) -> int:
        """The number of classes."""
        return self.labels.values.shape[1]

    def _posterior(self, Z: Array) -> Array:
        means = choose.backend(self.known, len(self.Z)).kernel_means(
            check_points(Z), self.known, self.labels.values, self.sample_weight, self.kernel
        )
        return means / means.sum(axis=1, keepdims=True)

    def log_probabilities(self, Z: Array, rule: str) -> Array:
        """Natural logarithms of the class probabilities, minus infinity for zero."""
        with np.errstate(divide="ignore"):
            return np.log(self.probabilities(Z, rule))

    def scores(self, Z: Array, target: LabelDistributions, rule: str) -> Array:
        """The probability that the class predicted for each query is right."""
        best = self.probabilities(Z, rule).argmax(axis=1)
        return target.values[np.arange(len(best)), best]

    def _shares(self, neighbours: Array, k: Array) -> Array:
        """The mean distribution of the first k of each row's neighbours, sorted by distance."""
        ballots = _ballots(self.sample_weight, neighbours)
        ballots[np.arange(neighbours.shape[1]) >= k[:, None]] = 0.0
        shares = np.einsum("ij,ijc->ic", ballots, self.labels.values[neighbours])
        return shares / shares.sum(axis=1, keepdims=True)

    def _scores_without(self, rows: Array, near: Array) -> Array:
        """The probability of the class that the 1, 2, ... nearest others predict."""
        T, ballots = self.labels.values, _ballots(self.sample_weight, near)
        total, found = np.zeros((len(rows), T.shape[1])), np.empty(near.shape)
        for k, column in enumerate(near.T):
            total += ballots[:, k, None] * T[column]
            found[:, k] = T[rows, total.argmax(axis=1)]
        return found


class MatchModel(StochasticPicks):
    """The share of matches among the stochastic neighbours, or the k nearest rows; no classes.

    Parameters
    ----------
    Z : array of shape (n, d)
        Projections.
    matches : Matches
        The matches of the rows, and their weights.
    n_neighbors : int, "auto" or "local"
        k; "auto" chooses the one with the largest share of matches among the k nearest others.
    kernel : Kernel, default=Gaussian()
        Kernel of the stochastic neighbours.
    """

    background: ClassVar[None] = None
    matches: Matches

    def __init__(
        self, Z: Array, matches: Matches, n_neighbors: int | str, kernel: Kernel = _GAUSSIAN
    ) -> None:
        super().__init__(Z, n_neighbors)
        self.matches, self.kernel = matches, kernel

    def check_fields(self) -> None:
        """Refuse fields that do not fit together."""
        super().check_fields()
        checks.need(len(self.matches) == len(self.Z), "matches and Z must have as many rows")

    @property
    def n_outputs(self) -> int:
        """A share."""
        return 1

    @property
    def sample_weight(self) -> Array | None:
        """The weights of the training rows."""
        return self.matches.sample_weight

    def scores(self, Z: Array, target: Any, rule: str) -> Array:
        """The share of matches among the rows that each query picks.

        ``target`` is a sparse matrix of shape (n_queries, n), or an array.
        """
        if rule != "knn":
            return nca_matched_shares(Z, self.Z, target, self.sample_weight, self.kernel)
        k = self.local_n_neighbors(Z) if self.asked == "local" else None
        k = np.full(len(Z), self.n_neighbors) if k is None else k
        M = sp.csr_matrix(target)

        def answer(rows: Array) -> Array:
            near = self._voters(Z[rows], int(k[rows].max()))
            return _running_means(M, rows, near, self.sample_weight)[
                np.arange(len(rows)), k[rows] - 1
            ]

        return self._in_chunks(np.arange(len(Z)), 64 * int(k.max(initial=1)), answer)

    def _scores_without(self, rows: Array, near: Array) -> Array:
        """The share of matches among the 1, 2, ... nearest others of some rows."""
        return _running_means(sp.csr_matrix(self.matches.matrix), rows, near, self.sample_weight)


def _ballots(weight: Array | None, near: Array) -> Array:
    """The weights of the neighbours, ones if there are none."""
    return np.ones(near.shape) if weight is None else weight[near]


def _running_means(M: Any, rows: Array, near: Array, weight: Array | None) -> Array:
    """Means of the matches of some rows with their 1, 2, ... nearest neighbours."""
    found = np.asarray(M[np.repeat(rows, near.shape[1]), near.ravel()]).reshape(near.shape)
    ballots = _ballots(weight, near)
    return np.cumsum(ballots * found, axis=1) / np.cumsum(ballots, axis=1)


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
