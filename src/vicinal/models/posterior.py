"""Predictions by stochastic neighbours: by one, by the vote of k, and with a local k per query."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from vicinal._threads import n_threads
from vicinal.core import checks
from vicinal.core.types import Array, QueryCost
from vicinal.densities import Gaussian, Kernel
from vicinal.models.stored import StoredRows
from vicinal.models.votes import NeighbourModel
from vicinal.objectives import knca_posterior, nca_effective_n_neighbors, nca_posterior
from vicinal.targets import Labels

_GAUSSIAN = Gaussian()
_FEW = 16  # a search for more than 1/16 of the rows takes longer than all distances


class StochasticPicks(StoredRows):
    """Effective numbers of neighbours, for models whose queries pick a training row at random.

    Class priors have no influence on them.
    """

    kernel: Kernel

    @cached_property
    def effective_n_neighbors(self) -> Array:
        """Effective number of neighbours of each training row, [Goldberger2005] section 2."""
        return nca_effective_n_neighbors(self.Z, self.sample_weight, kernel=self.kernel)

    def effective_n_neighbors_of(self, Z: Array) -> Array:
        """Effective number of neighbours of each query among the training rows."""

        def answer(part: Array) -> Array:
            return nca_effective_n_neighbors(
                self.known, self.sample_weight, Z_query=part, kernel=self.kernel
            )

        return self._in_chunks(Z, 16 * Z.shape[1] + 200, answer)

    def local_n_neighbors(self, Z: Array) -> Array:
        """The k of each query: its effective number of neighbours, [Goldberger2005] section 6."""
        effective: Any = np.rint(self.effective_n_neighbors_of(Z))
        return np.clip(effective, 1, len(self.Z)).astype(np.intp)


class NCAModel(StochasticPicks, NeighbourModel):
    """The model of NCA.

    Parameters
    ----------
    Z, labels
        As in `NeighbourModel`.
    n_neighbors : int, "auto" or "local"
        k of the vote; "auto" chooses it by leave-one-out, "local" for each query.
    kernel : Kernel, default=Gaussian()
        Kernel of the stochastic neighbours.
    background : array of shape (n_classes,) or None, default=None
        Weights of the classes' background distributions.
    """

    kernel: Kernel
    background: Array | None

    def __init__(
        self,
        Z: Array,
        labels: Any,
        n_neighbors: int | str | None,
        kernel: Kernel = _GAUSSIAN,
        background: Array | None = None,
    ) -> None:
        super().__init__(Z, labels, n_neighbors)
        self.kernel, self.background = kernel, background

    def check_fields(self) -> None:
        """Refuse fields that do not fit together."""
        super().check_fields()
        if self.background is not None:
            checks.double(self.background, 1, "background", (self.n_outputs,))
            checks.within(self.background, "background", 0.0, 1.0)

    def cost(self, rule: str) -> QueryCost:
        """What a prediction costs; the time is a bound, because far rows are left out."""
        if rule == "knn":
            return super().cost(rule)
        d, row_bytes = self.Z.shape[1], (16.0 + 4 * self.Z.itemsize) * self.n_outputs
        return self._cost_of_sums(2.0 + 0.15 * d, 12.0 + 1.2 * d, row_bytes)

    def _posterior(self, Z: Array) -> Array:
        """Class probabilities by the stochastic neighbours, [Oneata2011] eq. (3.25)."""
        return nca_posterior(Z, self.known, self.labels, self.kernel, background=self.background)

    def log_probabilities(self, Z: Array, rule: str) -> Array:
        """Logarithms of the class probabilities; the posterior's are finite where it underflows."""
        if rule == "knn":
            return super().log_probabilities(Z, rule)
        return self._in_chunks(
            Z,
            24 * self.n_outputs,
            lambda part: nca_posterior(
                part, self.known, self.labels, self.kernel, background=self.background, log=True
            ),
        )

    def votes(self, Z: Array) -> Array:
        """Shares of the weighted votes of the nearest training rows."""
        if self.asked != "local":
            return super().votes(Z)
        k = self.local_n_neighbors(Z)
        # The search for a query depends on its own k only, so that other queries cannot change
        # which of several equally distant rows votes.  k is rounded up to the next power of two:
        # this needs few searches, and none is much wider than its queries need.
        width = np.exp2(np.ceil(np.log2(k))).astype(np.intp)
        width[k > len(self.Z) // _FEW] = 0  # no search
        shares = np.empty((len(Z), self.n_outputs))
        for widest in np.unique(width):
            rows = width == widest
            if widest == 0:
                shares[rows] = self._votes_of_many(Z[rows], k[rows])
            else:
                shares[rows] = self._votes(Z[rows], k[rows], int(widest))
        return shares

    def _votes_of_many(self, Z: Array, k: Array) -> Array:
        """Votes of the k nearest rows of each query, for k that is a large share of all rows."""
        shares = np.empty((len(Z), self.n_outputs))
        references = self.Z.astype(np.float64, copy=False)
        for i, z in enumerate(Z):  # one by one, so that the distances fit into the cache
            distances = cdist(z[None], references, "sqeuclidean")[0]
            near = np.argpartition(distances, k[i] - 1)[: k[i]]
            shares[i] = self._shares(self._first_of_equal(near[None]), k[i : i + 1])[0]
        return shares


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
        return knca_posterior(Z, self.known, self.labels, self.k, self.vote)

    def _n_voters(self, asked: Any, deadline: float | None) -> int:
        return super()._n_voters(self.k if asked is None else asked, deadline)
