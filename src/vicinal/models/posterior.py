"""Predictions by NCA's stochastic neighbours, and votes with a local k for each query."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.spatial.distance import cdist

from vicinal.core.types import Array
from vicinal.densities import Gaussian, Kernel
from vicinal.models.votes import NeighbourModel
from vicinal.objectives import nca_effective_n_neighbors, nca_posterior
from vicinal.targets import Labels

__all__ = ["NCAModel"]

_GAUSSIAN = Gaussian()
_FEW = 16  # a search for more than 1/16 of the rows takes longer than all distances


class NCAModel(NeighbourModel):
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

    def __init__(
        self,
        Z: Array,
        labels: Labels,
        n_neighbors: int | str,
        kernel: Kernel = _GAUSSIAN,
        background: Array | None = None,
    ) -> None:
        super().__init__(Z, labels, n_neighbors)
        self.kernel, self.background = kernel, background

    def _posterior(self, Z: Array) -> Array:
        """Class probabilities by the stochastic neighbours, [Oneata2011] eq. (3.25)."""
        return nca_posterior(Z, self.Z, self.labels, self.kernel, background=self.background)

    def log_probabilities(self, Z: Array, rule: str) -> Array:
        """Logarithms of the class probabilities; the posterior's are finite where it underflows."""
        if rule == "knn":
            return super().log_probabilities(Z, rule)
        return self._in_chunks(
            Z,
            24 * len(self.labels.classes),
            lambda part: nca_posterior(
                part, self.Z, self.labels, self.kernel, background=self.background, log=True
            ),
        )

    @cached_property
    def effective_n_neighbors(self) -> Array:
        """Effective number of neighbours of each training row, [Goldberger2005] section 2."""
        return nca_effective_n_neighbors(self.Z, self.labels.sample_weight, kernel=self.kernel)

    def effective_n_neighbors_of(self, Z: Array) -> Array:
        """Effective number of neighbours of each query among the training rows."""
        weight = self.labels.sample_weight  # no priors: votes do not use them
        return self._in_chunks(
            Z,
            16 * Z.shape[1] + 200,
            lambda part: nca_effective_n_neighbors(
                self.Z, weight, Z_query=part, kernel=self.kernel
            ),
        )

    def local_n_neighbors(self, Z: Array) -> Array:
        """The k of each query: its effective number of neighbours, [Goldberger2005] section 6."""
        return _whole(self.effective_n_neighbors_of(Z), len(self.Z))

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
        shares = np.empty((len(Z), len(self.labels.classes)))
        for widest in np.unique(width):
            rows = width == widest
            if widest == 0:
                shares[rows] = self._votes_of_many(Z[rows], k[rows])
            else:
                shares[rows] = self._votes(Z[rows], k[rows], int(widest))
        return shares

    def _votes_of_many(self, Z: Array, k: Array) -> Array:
        """Votes of the k nearest rows of each query, for k that is a large share of all rows."""
        codes, weight = self.labels.codes, self.labels.sample_weight
        shares = np.empty((len(Z), len(self.labels.classes)))
        references = self.Z.astype(np.float64, copy=False)
        for i, z in enumerate(Z):  # one by one, so that the distances fit into the cache
            distances = cdist(z[None], references, "sqeuclidean")[0]
            near = np.argpartition(distances, k[i] - 1)[: k[i]]
            ballots = None if weight is None else weight[near]
            shares[i] = np.bincount(codes[near], ballots, minlength=shares.shape[1])
        return shares / shares.sum(axis=1, keepdims=True)


def _whole(effective: Array, n: int) -> Array:
    """Effective numbers of neighbours, rounded and clipped to [1, n]."""
    return np.clip(np.rint(effective), 1, n).astype(np.intp)
