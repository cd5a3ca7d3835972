"""What NCA's stochastic neighbours say of a query, and a number of voters of its own for each."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from vicinal.core.types import Array
from vicinal.densities import Gaussian, Kernel
from vicinal.models.votes import NeighbourModel
from vicinal.objectives import nca_effective_n_neighbors, nca_posterior
from vicinal.targets import Labels

__all__ = ["NCAModel"]

_GAUSSIAN = Gaussian()
_FEW = 16  # a search for more than 1/16 of the rows takes longer than a look at them all


class NCAModel(NeighbourModel):
    """The rules of NCA.

    Parameters
    ----------
    Z, labels
        As for `NeighbourModel`.
    n_neighbors : int, "auto" or "local"
        k of the vote; "auto" chooses it by leave-one-out, "local" for each query.
    kernel : Kernel, default=Gaussian()
        Of the stochastic neighbours.
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
        return nca_posterior(Z, self.Z, self.labels, kernel=self.kernel, background=self.background)

    def _n_voters(self, asked: Any) -> int:
        if asked == "local":  # each query has its own: the training rows' median
            return int(_whole(np.median(self.effective_n_neighbors), len(self.Z)))
        return super()._n_voters(asked)

    @cached_property
    def effective_n_neighbors(self) -> Array:
        """How many others each training row consults, [Goldberger2005] section 2."""
        return nca_effective_n_neighbors(self.Z, self.labels.sample_weight, kernel=self.kernel)

    def local_n_neighbors(self, Z: Array) -> Array:
        """The k of each query: how many training rows it consults, [Goldberger2005] section 6."""
        weight = self.labels.sample_weight  # no priors: votes know none
        effective = self._in_chunks(
            Z,
            16 * Z.shape[1] + 200,
            lambda part: nca_effective_n_neighbors(
                self.Z, weight, Z_query=part, kernel=self.kernel
            ),
        )
        return _whole(effective, len(self.Z))

    def votes(self, Z: Array) -> Array:
        """Shares of the weighted votes of the nearest training rows."""
        if self.asked != "local":
            return super().votes(Z)
        k = self.local_n_neighbors(Z)
        # A query's k alone decides how it is answered, so that the others' have no say in which of
        # equally far rows votes.  Searches are for the next power of two: few in number, and no
        # query pays for another's appetite.
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
        """Votes of the k nearest of each query, where that is a good part of all rows."""
        codes, weight = self.labels.codes, self.labels.sample_weight
        shares = np.empty((len(Z), len(self.labels.classes)))
        everybody = self.Z.astype(np.float64, copy=False)
        for i, z in enumerate(Z):  # one by one: large arrays of distances would leave the cache
            distances = cdist(z[None], everybody, "sqeuclidean")[0]
            near = np.argpartition(distances, k[i] - 1)[: k[i]]
            ballots = None if weight is None else weight[near]
            shares[i] = np.bincount(codes[near], ballots, minlength=shares.shape[1])
        return shares / shares.sum(axis=1, keepdims=True)


def _whole(effective: Array, n: int) -> Array:
    """Effective numbers of neighbours as numbers of voters: whole, and between 1 and n."""
    return np.clip(np.rint(effective), 1, n).astype(np.intp)
