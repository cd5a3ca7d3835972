"""Predictions from the stored projections of the training rows: a posterior, or votes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import gen_batches

from vicinal import _clock, _search
from vicinal._validation import warn
from vicinal.core.types import Array
from vicinal.metrics import Chi2Index
from vicinal.targets import Labels

__all__ = ["Chi2VotingModel", "NeighbourModel", "VotingModel"]

_LARGEST_AUTO = 50  # largest k tried by n_neighbors="auto"
# Pairs from which votes use our own search.  scikit-learn's tree runs on one thread, also in 15
# dimensions, where it visits most of the rows; its search without a tree compares in float64.
_OWN_SEARCH_FROM = 2**24
_SEARCH_BYTES = 48  # of a search, for each neighbour of a query
_CHUNK_BYTES = 2**25  # of the neighbours that are found at a time to choose k
_TIMED_CHUNKS = 16  # of rows, if there is a time limit


class NeighbourModel:
    """Predicts from stored projections of the training rows.

    Subclasses define the posterior of their method, `_posterior`.

    Parameters
    ----------
    Z : array of shape (n, d)
        Projections.
    labels : Labels
        Their classes, weights and priors.
    n_neighbors : int or "auto"
        k of the vote; "auto" chooses it by leave-one-out.  Subclasses may accept other values.
    """

    deadline: float | None = None  # of a choice of k

    def __init__(self, Z: Array, labels: Labels, n_neighbors: Any) -> None:
        self.Z, self.labels, self.asked = Z, labels, n_neighbors

    def _posterior(self, Z: Array) -> Array:
        """Class probabilities of some queries under the model of the method."""
        raise NotImplementedError

    def set_voters(self, n_neighbors: Any) -> None:
        """Use another k from now on."""
        if n_neighbors != self.asked:
            self.asked = n_neighbors
            self.__dict__.pop("n_neighbors", None)

    # Only votes need the tree and k: they are made on first use.
    @cached_property
    def index(self) -> Any:
        """A search tree over the projections."""
        return NearestNeighbors().fit(self.Z)

    @cached_property
    def find(self) -> Any:
        """A search over the projections that uses all threads."""
        return _search.finder("exact", self.Z)

    @cached_property
    def n_neighbors(self) -> int:
        """Number of voters, at most the number of rows."""
        return self._n_voters(self.asked)

    @property
    def settled_n_neighbors(self) -> int | None:
        """Number of voters, or None if that has not been computed yet, or differs by query."""
        settled = "n_neighbors" in self.__dict__ or not isinstance(self.asked, str)
        return self.n_neighbors if settled else None

    def _n_voters(self, asked: Any) -> int:
        n = len(self.Z)
        if asked == "auto":
            return self._leave_one_out(min(_LARGEST_AUTO, n - 1))
        if int(asked) > n:
            warn(
                f"n_neighbors={asked} is more than the {n} training rows; n_neighbors={n} is used."
            )
        return min(int(asked), n)

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

    def nearest(self, Z: Array | None, k: int) -> tuple[Array, Array]:
        """Distances and positions of the k nearest training rows, nearest first.

        None stands for the training rows themselves, of which none is its own neighbour.
        """
        itself = Z is None
        queries = self.Z if Z is None else Z
        find = _search.finder("exact", self.Z)
        distances = np.empty((len(queries), k), self.Z.dtype)
        near = np.empty((len(queries), k), np.int64)
        row_bytes = (64 + 3 * queries.itemsize * queries.shape[1]) * (k + itself)
        for rows in self._chunks(len(queries), row_bytes):
            found = find(queries[rows], k + itself)[0]
            if itself:  # which is not always the first: others may be equal to it
                own = found == np.arange(rows.start, rows.stop)[:, None]
                found = np.take_along_axis(found, own.argsort(axis=1, kind="stable"), axis=1)[:, :k]
            # A search may compare by inner products, which have fewer digits than differences.
            apart = np.linalg.norm(queries[rows][:, None] - self.Z[found], axis=2)
            order = apart.argsort(axis=1, kind="stable")
            distances[rows] = np.take_along_axis(apart, order, axis=1)
            near[rows] = np.take_along_axis(found, order, axis=1)
        return distances, near

    def posterior(self, Z: Array) -> Array:
        """Class probabilities under the model of the method."""
        return self._in_chunks(Z, 24 * len(self.labels.classes), self._posterior)

    def votes(self, Z: Array) -> Array:
        """Shares of the weighted votes of the nearest training rows."""
        return self._votes(Z, np.full(len(Z), self.n_neighbors), self.n_neighbors)

    def _votes(self, Z: Array, k: Array, widest: int) -> Array:
        """Votes of the k nearest rows of each query; ``widest`` is at least the largest k."""

        def answer(rows: Array) -> Array:
            return self._shares(self._voters(Z[rows], widest), k[rows])

        return self._in_chunks(
            np.arange(len(Z)), 32 * widest + 8 * len(self.labels.classes), answer
        )

    def _voters(self, Z: Array, k: int) -> Array:
        """Positions of the k nearest training rows of each query, nearest first."""
        if len(Z) * len(self.Z) < _OWN_SEARCH_FROM:
            return self.index.kneighbors(Z, k, return_distance=False)
        return self.find(Z, k)[0]

    def _in_chunks(self, Z: Array, row_bytes: int, function: Any) -> Array:
        """Process as many rows at a time as scikit-learn's ``working_memory`` allows."""
        return np.concatenate([function(Z[rows]) for rows in self._chunks(len(Z), row_bytes)])

    def _chunks(self, n: int, row_bytes: int) -> Iterator[slice]:
        """Slices of as many rows as scikit-learn's ``working_memory`` allows."""
        size = max(1, int(get_config()["working_memory"] * 2**20 // row_bytes))
        return gen_batches(n, size)

    def _shares(self, neighbours: Array, k: Array) -> Array:
        """Class shares among the first k of each row's neighbours, sorted by distance."""
        codes = self.labels.codes[neighbours]
        weight = self.labels.sample_weight
        ballots = np.ones(codes.shape) if weight is None else weight[neighbours]
        ballots[np.arange(codes.shape[1]) >= k[:, None]] = 0.0
        shares = np.zeros((len(codes), len(self.labels.classes)))
        np.add.at(shares, (np.arange(len(codes))[:, None], codes), ballots)
        return shares / shares.sum(axis=1, keepdims=True)

    def choose_voters(self, deadline: float | None = None) -> None:
        """Choose k now; after the deadline, on the clock of ``_clock.now``, from fewer rows."""
        self.deadline = deadline
        try:
            _ = self.n_neighbors
        finally:
            self.deadline = None

    def _leave_one_out(self, largest: int) -> int:
        """The k with the best leave-one-out accuracy of the votes; the smallest k wins ties."""
        n, n_classes = len(self.Z), len(self.labels.classes)
        # Strided, so that the chunks done before the deadline are a fair sample of all rows.
        n_chunks = 1 + n * (_SEARCH_BYTES * largest + 8 * n_classes) // _CHUNK_BYTES
        if self.deadline is not None:
            n_chunks = max(n_chunks, min(n, _TIMED_CHUNKS))
        right = np.zeros((n, largest), bool)
        done: list[Array] = []
        for rows in (np.arange(first, n, n_chunks) for first in range(n_chunks)):
            if done and self.deadline is not None and _clock.now() >= self.deadline:
                break
            right[rows] = self._right_without(rows, largest)
            done.append(rows)
        chosen = slice(None) if len(done) == n_chunks else np.concatenate(done)
        weight = self.labels.sample_weight
        weight = None if weight is None else weight[chosen]
        share = np.average(right[chosen], axis=0, weights=weight)
        return int(share.argmax()) + 1

    def _right_without(self, rows: Array, largest: int) -> Array:
        """Whether the votes of the 1, ..., largest nearest others are right, for some rows."""
        codes, weight = self.labels.codes, self.labels.sample_weight
        near = self._voters(self.Z[rows], largest + 1)
        other = near != rows[:, None]
        other[other.all(axis=1), 0] = False  # so many duplicates that the row itself is missing
        near = near[other].reshape(len(rows), largest)
        votes = np.zeros((len(rows), len(self.labels.classes)))
        right = np.empty((len(rows), largest), bool)
        at = np.arange(len(rows))
        for k in range(largest):
            column = near[:, k]
            votes[at, codes[column]] += 1.0 if weight is None else weight[column]
            right[:, k] = votes.argmax(axis=1) == codes[rows]
        return right


class VotingModel(NeighbourModel):
    """Votes of the k nearest rows, unless ``n_neighbors`` says otherwise."""

    def __init__(self, Z: Array, labels: Labels, n_neighbors: Any, k: int) -> None:
        super().__init__(Z, labels, n_neighbors)
        self.k = k

    def _n_voters(self, asked: Any) -> int:
        return super()._n_voters(self.k if asked is None else asked)


class Chi2VotingModel(VotingModel):
    """Votes of the nearest histograms under χ²."""

    @cached_property
    def index(self) -> Any:
        """A search over the mapped histograms."""
        return Chi2Index(self.Z)

    def _voters(self, Z: Array, k: int) -> Array:
        return self.index.kneighbors(Z, k, return_distance=False)

    def nearest(self, Z: Array | None, k: int) -> tuple[Array, Array]:
        """As above; distances are square roots of χ², which are a metric."""
        distances, near = self.index.kneighbors(Z, k)
        return np.sqrt(distances), near
