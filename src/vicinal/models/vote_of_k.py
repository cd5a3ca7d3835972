"""Predictions by a vote of k stochastic neighbours."""

from __future__ import annotations

from typing import Any

from vicinal.core.types import Array
from vicinal.models.votes import NeighbourModel
from vicinal.objectives import knca_posterior
from vicinal.targets import Labels

__all__ = ["KNCAModel"]


class KNCAModel(NeighbourModel):
    """The model of kNCA: the probability to win the vote of k; hard votes use k by default."""

    def __init__(self, Z: Array, labels: Labels, n_neighbors: Any, k: int, vote: str) -> None:
        super().__init__(Z, labels, n_neighbors)
        self.k, self.vote = k, vote

    def _posterior(self, Z: Array) -> Array:
        return knca_posterior(Z, self.Z, self.labels, self.k, self.vote)

    def _n_voters(self, asked: Any) -> int:
        return super()._n_voters(self.k if asked is None else asked)
