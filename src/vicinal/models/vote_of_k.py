"""Predictions by a vote of k stochastic neighbours."""

from __future__ import annotations

from typing import Any

from vicinal._threads import n_threads
from vicinal.core import checks
from vicinal.core.types import Array, QueryCost
from vicinal.models.votes import NeighbourModel
from vicinal.objectives import knca_posterior
from vicinal.targets import Labels


class KNCAModel(NeighbourModel):
    """The model of kNCA: the probability to win the vote of k; hard votes use k by default."""

    k: int
    vote: str

    def __init__(self, Z: Array, labels: Labels, n_neighbors: Any, k: int, vote: str) -> None:
        super().__init__(Z, labels, n_neighbors)
        self.k, self.vote = k, vote

    def check_fields(self) -> None:
        """Refuse fields that do not fit together."""
        super().check_fields()
        checks.count(self.k, "k", 1)
        checks.need(self.vote in ("majority", "all"), "unknown vote")

    def cost(self, rule: str) -> QueryCost:
        """What a prediction costs; each thread counts the votes of some queries at a time."""
        if rule == "knn":
            return super().cost(rule)
        d, k, n_classes = self.Z.shape[1], self.k, self.n_outputs
        sums = self._cost_of_sums(3.0 + 1.2 * k + 0.27 * d, 12.0 * (k + d / 4), 8.0 * n_classes)
        counters = 2e4 * n_threads() * (k + 1) * n_classes
        return sums._replace(fixed_bytes=sums.fixed_bytes + counters)

    def _posterior(self, Z: Array) -> Array:
        return knca_posterior(Z, self.Z, self.labels, self.k, self.vote)

    def _n_voters(self, asked: Any, deadline: float | None) -> int:
        return super()._n_voters(self.k if asked is None else asked, deadline)
