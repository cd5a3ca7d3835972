"""What the stored projections of the training rows say of a query: a posterior, or votes."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn import get_config
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import gen_batches

from vicinal._types import Array
from vicinal._validation import warn
from vicinal.densities import Gaussian, Kernel
from vicinal.objectives import nca_effective_n_neighbors, nca_posterior
from vicinal.targets import Labels

__all__ = ["NeighbourRules"]

_GAUSSIAN = Gaussian()
_LARGEST_AUTO = 50  # neighbours tried by n_neighbors="auto"
_FEW = 16  # a search for more than 1/16 of the rows takes longer than a look at them all


class NeighbourRules:
    """Stored projections of the training rows, and what can be asked of them.

    Parameters
    ----------
    Z : array of shape (n, d)
        Projections.
    labels : Labels
        Their classes, weights and priors.
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
        self.Z, self.labels, self.asked = Z, labels, n_neighbors
        self.kernel, self.background = kernel, background

    def ask(self, n_neighbors: int | str) -> None:
        """Vote by another k from now on."""
        if n_neighbors != self.asked:
            self.asked = n_neighbors
            self.__dict__.pop("n_neighbors", None)

    # Trees and k are for votes alone: made when first asked for.
    @cached_property
    def index(self) -> NearestNeighbors:
        """A search tree over the projections."""
        return NearestNeighbors().fit(self.Z)

    @cached_property
    def n_neighbors(self) -> int:
        """Number of voters, no more than there are rows; "local": the training rows' median."""
        n = len(self.Z)
        if self.asked == "local":
            return int(_whole(np.median(self.effective_n_neighbors), n))
        if self.asked == "auto":
            return self._leave_one_out(min(_LARGEST_AUTO, n - 1))
        if int(self.asked) > n:
            warn(
                f"n_neighbors={self.asked} is more than the {n} training rows; "
                f"n_neighbors={n} is used."
            )
        return min(int(self.asked), n)

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

    def probabilities(self, Z: Array, rule: str) -> Array:
        """Class probabilities by a rule: "posterior", or the shares of the votes for "knn"."""
        return self.posterior(Z) if rule == "posterior" else self.votes(Z)

    def posterior(self, Z: Array) -> Array:
        """Class probabilities by the stochastic neighbours, [Oneata2011] eq. (3.25)."""
        n_classes = len(self.labels.classes)
        return self._in_chunks(
            Z,
            24 * n_classes,
            lambda part: nca_posterior(
                part, self.Z, self.labels, kernel=self.kernel, background=self.background
            ),
        )

    def votes(self, Z: Array) -> Array:
        """Shares of the weighted votes of the nearest training rows."""
        if self.asked != "local":
            return self._votes(Z, np.full(len(Z), self.n_neighbors), self.n_neighbors)
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

    def _votes(self, Z: Array, k: Array, widest: int) -> Array:
        """Votes of the k nearest of each query, the largest k being ``widest`` at most."""

        def answer(rows: Array) -> Array:
            neighbours = self.index.kneighbors(Z[rows], widest, return_distance=False)
            return self._shares(neighbours, k[rows])

        return self._in_chunks(
            np.arange(len(Z)), 32 * widest + 8 * len(self.labels.classes), answer
        )

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

    def _in_chunks(self, Z: Array, row_bytes: int, function: Any) -> Array:
        """Answer for as many rows at a time as scikit-learn's ``working_memory`` allows."""
        size = max(1, int(get_config()["working_memory"] * 2**20 // row_bytes))
        return np.concatenate([function(Z[rows]) for rows in gen_batches(len(Z), size)])

    def _shares(self, neighbours: Array, k: Array) -> Array:
        """Shares of the first k of each row's neighbours, which come nearest first."""
        codes = self.labels.codes[neighbours]
        weight = self.labels.sample_weight
        ballots = np.ones(codes.shape) if weight is None else weight[neighbours]
        ballots[np.arange(codes.shape[1]) >= k[:, None]] = 0.0
        shares = np.zeros((len(codes), len(self.labels.classes)))
        np.add.at(shares, (np.arange(len(codes))[:, None], codes), ballots)
        return shares / shares.sum(axis=1, keepdims=True)

    def _leave_one_out(self, largest: int) -> int:
        """The k with the best vote of each training row's other neighbours; small k wins ties."""
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


def _whole(effective: Array, n: int) -> Array:
    """Effective numbers of neighbours as numbers of voters: whole, and between 1 and n."""
    return np.clip(np.rint(effective), 1, n).astype(np.intp)
