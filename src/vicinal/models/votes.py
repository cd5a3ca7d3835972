"""Predictions from the stored projections of the training rows: a posterior, or votes."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from vicinal.core import checks
from vicinal.core.types import Array, QueryCost
from vicinal.metrics import Chi2Index
from vicinal.models.stored import StoredRows
from vicinal.targets import Labels


class NeighbourModel(StoredRows):
    """Predicts classes from stored projections of the training rows.

    Subclasses define the posterior of their method, `_posterior`.

    Parameters
    ----------
    Z : array of shape (n, d)
        Projections.
    labels : Labels
        Their classes, weights and priors.  Subclasses may take another target.
    n_neighbors : int or "auto"
        k of the vote; "auto" chooses it by leave-one-out.  Subclasses may accept other values.
    """

    labels: Any

    def __init__(self, Z: Array, labels: Any, n_neighbors: Any) -> None:
        super().__init__(Z, n_neighbors)
        self.labels = labels

    def check_fields(self) -> None:
        """Refuse fields that do not fit together."""
        super().check_fields()
        checks.need(len(self.labels) == len(self.Z), "labels and Z must have as many rows")

    @property
    def n_outputs(self) -> int:
        """The number of classes."""
        return len(self.labels.classes)

    @property
    def sample_weight(self) -> Array | None:
        """The weights of the training rows."""
        return self.labels.sample_weight

    def _posterior(self, Z: Array) -> Array:
        """Class probabilities of some queries under the model of the method."""
        raise NotImplementedError

    def probabilities(self, Z: Array, rule: str) -> Array:
        """Class probabilities: shares of the votes for "knn", the posterior for other rules."""
        return self.votes(Z) if rule == "knn" else self.posterior(Z)

    def scores(self, Z: Array, target: Any, rule: str) -> Array:
        """1 for each query that is classified rightly, else 0."""
        return (self.probabilities(Z, rule).argmax(axis=1) == target.codes).astype(np.float64)

    def log_probabilities(self, Z: Array, rule: str) -> Array:
        """Natural logarithms of the class probabilities, minus infinity for zero."""
        with np.errstate(divide="ignore"):
            return np.log(self.probabilities(Z, rule))

    def posterior(self, Z: Array) -> Array:
        """Class probabilities under the model of the method."""
        return self._in_chunks(Z, 24 * self.n_outputs, self._posterior)

    def votes(self, Z: Array) -> Array:
        """Shares of the weighted votes of the nearest training rows."""
        return self._votes(Z, np.full(len(Z), self.n_neighbors), self.n_neighbors)

    def _votes(self, Z: Array, k: Array, widest: int) -> Array:
        """Votes of the k nearest rows of each query; ``widest`` is at least the largest k."""

        def answer(rows: Array) -> Array:
            return self._shares(self._voters(Z[rows], widest), k[rows])

        return self._in_chunks(np.arange(len(Z)), 32 * widest + 8 * self.n_outputs, answer)

    def _shares(self, neighbours: Array, k: Array) -> Array:
        """Class shares among the first k of each row's neighbours, sorted by distance."""
        weight = self.labels.sample_weight
        ballots = np.ones(neighbours.shape) if weight is None else weight[neighbours]
        ballots[np.arange(neighbours.shape[1]) >= k[:, None]] = 0.0
        return vote_shares(self.labels.codes[neighbours], ballots, len(self.labels.classes))

    def _scores_without(self, rows: Array, near: Array) -> Array:
        """Whether the votes of the 1, 2, ... nearest others are right, for some rows."""
        codes, weight = self.labels.codes, self.labels.sample_weight
        votes = np.zeros((len(rows), len(self.labels.classes)))
        right = np.empty(near.shape, bool)
        at = np.arange(len(rows))
        for k in range(near.shape[1]):
            column = near[:, k]
            votes[at, codes[column]] += 1.0 if weight is None else weight[column]
            right[:, k] = votes.argmax(axis=1) == codes[rows]
        return right


def vote_shares(codes: Array, ballots: Array, n_classes: int) -> Array:
    """Class shares of weighted votes: codes and weights are (m, k)."""
    shares = np.zeros((len(codes), n_classes))
    np.add.at(shares, (np.arange(len(codes))[:, None], codes), ballots)
    return shares / shares.sum(axis=1, keepdims=True)


class VotingModel(NeighbourModel):
    """Votes of the k nearest rows, unless ``n_neighbors`` says otherwise."""

    k: int

    def __init__(self, Z: Array, labels: Labels, n_neighbors: Any, k: int) -> None:
        super().__init__(Z, labels, n_neighbors)
        self.k = k

    def check_fields(self) -> None:
        """Refuse fields that do not fit together."""
        super().check_fields()
        checks.count(self.k, "k", 1)

    def _n_voters(self, asked: Any, deadline: float | None) -> int:
        return super()._n_voters(self.k if asked is None else asked, deadline)


class Chi2VotingModel(VotingModel):
    """Votes of the nearest histograms under χ²."""

    def check_fields(self) -> None:
        """Refuse fields that do not fit together."""
        super().check_fields()
        checks.within(self.Z, "histograms")

    @cached_property
    def index(self) -> Any:
        """A search over the mapped histograms."""
        return Chi2Index(self.Z)

    def cost(self, rule: str) -> QueryCost:
        """What a prediction costs: a division for every bin, and a normalised copy of the rows."""
        cost = super().cost(rule)
        return cost._replace(nanoseconds=2.0 * self.Z.shape[1], entry_bytes=16.0)

    def _voters(self, Z: Array, k: int) -> Array:
        return self.index.kneighbors(Z, k, return_distance=False)

    def nearest(self, Z: Array | None, k: int) -> tuple[Array, Array]:
        """As above; distances are square roots of χ², which are a metric."""
        distances, near = self.index.kneighbors(Z, k)
        return np.sqrt(distances), near
