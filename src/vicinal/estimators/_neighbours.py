"""Classification in the embedded space: the posterior rule, or k-NN votes."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import gen_batches

from vicinal._types import Array
from vicinal.objectives.nca import nca_posterior
from vicinal.targets import Labels

__all__ = ["NeighbourRules"]

_LARGEST_AUTO = 50  # neighbours tried by n_neighbors="auto"


class NeighbourRules:
    """Stored projections of the training rows, and what can be asked of them.

    Parameters
    ----------
    Z : array of shape (n, d)
        Projections.
    labels : Labels
        Their classes, weights and priors.
    n_neighbors : int or "auto"
        k of the vote; "auto" chooses it by leave-one-out.
    """

    def __init__(self, Z: Array, labels: Labels, n_neighbors: int | str) -> None:
        self.Z, self.labels = Z, labels
        self.index = NearestNeighbors().fit(Z)
        self.n_neighbors = self._check(n_neighbors)

    def posterior(self, Z: Array) -> Array:
        """Class probabilities by the stochastic neighbours, [Oneata2011] eq. (3.25)."""
        n_classes = len(self.labels.classes)
        return self._in_chunks(
            Z, 24 * n_classes, lambda part: nca_posterior(part, self.Z, self.labels)
        )

    def votes(self, Z: Array, n_neighbors: int | None = None) -> Array:
        """Shares of the weighted votes of the nearest training rows."""
        k = self.n_neighbors if n_neighbors is None else n_neighbors
        n_classes = len(self.labels.classes)
        return self._in_chunks(
            Z,
            24 * k + 8 * n_classes,
            lambda part: self._shares(self.index.kneighbors(part, k, return_distance=False)),
        )

    def _in_chunks(self, Z: Array, row_bytes: int, function: Any) -> Array:
        """Answer for as many rows at a time as scikit-learn's ``working_memory`` allows."""
        size = max(1, int(get_config()["working_memory"] * 2**20 // row_bytes))
        return np.concatenate([function(Z[rows]) for rows in gen_batches(len(Z), size)])

    def _shares(self, neighbours: Array) -> Array:
        codes = self.labels.codes[neighbours]
        weight = self.labels.sample_weight
        ballots = np.ones(codes.shape) if weight is None else weight[neighbours]
        shares = np.zeros((len(codes), len(self.labels.classes)))
        np.add.at(shares, (np.arange(len(codes))[:, None], codes), ballots)
        return shares / shares.sum(axis=1, keepdims=True)

    def _check(self, n_neighbors: int | str) -> int:
        n = len(self.Z)
        if n_neighbors == "auto":
            return self._leave_one_out(min(_LARGEST_AUTO, n - 1))
        if n_neighbors > n:
            warnings.warn(
                f"n_neighbors={n_neighbors} is more than the {n} training rows; "
                f"n_neighbors={n} is used.",
                UserWarning,
                stacklevel=4,
            )
        return min(int(n_neighbors), n)

    def _leave_one_out(self, largest: int) -> int:
        """The k with the best vote of each training row's other neighbours; small k wins ties."""
        if largest < 1:
            return 1
        neighbours = self.index.kneighbors(n_neighbors=largest, return_distance=False)
        codes = self.labels.codes
        votes = np.zeros((len(codes), len(self.labels.classes)))
        right = np.empty(largest)
        weight = self.labels.sample_weight
        rows = np.arange(len(codes))
        for k in range(largest):
            column = neighbours[:, k]
            votes[rows, codes[column]] += 1.0 if weight is None else weight[column]
            right[k] = np.average(votes.argmax(axis=1) == codes, weights=weight)
        return int(right.argmax()) + 1
