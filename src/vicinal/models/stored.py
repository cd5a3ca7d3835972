"""The embedded training rows that a model predicts from, and the search for the nearest of them."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from functools import cached_property
from typing import Any, Self

import numpy as np
from sklearn import get_config
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import gen_batches

from vicinal import _clock, _search
from vicinal._threads import n_threads
from vicinal._validation import warn
from vicinal.core import checks
from vicinal.core.points import cast, lies_elsewhere
from vicinal.core.types import Array, QueryCost
from vicinal.engines import choose
from vicinal.models.equal_rows import EqualRows

_LARGEST_AUTO = 50  # largest k tried by n_neighbors="auto"
# Pairs from which votes use our own search.  scikit-learn's tree runs on one thread, also in 15
# dimensions, where it visits most of the rows; its search without a tree compares in float64.
_OWN_SEARCH_FROM = 2**24
_SEARCH_BYTES = 48  # of a search, for each neighbour of a query
_CHUNK_BYTES = 2**25  # of the neighbours that are found at a time to choose k
_TREE_UP_TO = 15  # dimensions up to which scikit-learn's search uses a tree
_TIMED_CHUNKS = 16  # of rows, if there is a time limit


class Elsewhere:
    """Stands for projections that stay on a cluster: what needs them here is refused by name.

    Parameters
    ----------
    shape : (n, d)
    dtype : dtype
    """

    ndim = 2
    shape: tuple[int, ...]
    dtype: np.dtype

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self.shape, self.dtype = shape, dtype

    def check_fields(self) -> None:
        """Refuse fields that no projections have."""
        checks.need(len(self.shape) == 2, "shape must have two entries")
        for length in self.shape:
            checks.count(length, "shape", 1)
        checks.need(self.dtype in (np.float32, np.float64), "dtype must be that of floats")

    @property
    def itemsize(self) -> int:
        """Bytes of a coordinate."""
        return self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise ValueError(
            f"The {self.shape[0]:,} embedded training rows of this model stay on a cluster. Use "
            "predict, predict_proba, kneighbors and score of the estimator of vicinal.dask that "
            "learnt it, or to_local() of that, which brings them here."
        )

    __array__ = __getitem__ = _refuse


class StoredRows:
    """Stored projections of the training rows, and a number k of neighbours that predict.

    Subclasses say what the rows are to reach: ``n_outputs`` and ``sample_weight``, and how well the
    nearest others predict a row: `_scores_without`.

    Parameters
    ----------
    Z : array of shape (n, d)
        Projections.
    n_neighbors : int or "auto"
        k; "auto" chooses it by leave-one-out.  Subclasses may accept other values.
    """

    Z: Any  # an array, or Elsewhere
    asked: Any
    chosen: int | None = None  # k, once it has been computed
    _known: Any = None

    def __init__(self, Z: Array, n_neighbors: Any) -> None:
        self.Z, self.asked = Z, n_neighbors

    def check_fields(self) -> None:
        """Refuse fields that do not fit together."""
        if self.is_here:
            checks.real(self.Z, 2, "Z")
        n, d = self.Z.shape
        checks.need(n >= 1 and d >= 1, "Z must not be empty")
        if not (self.asked is None or isinstance(self.asked, str)):
            checks.count(self.asked, "asked", 1)
        if self.chosen is not None:
            checks.count(self.chosen, "chosen", 1, n)
        checks.need(self.n_outputs >= 1, "there is nothing to predict")

    @property
    def is_here(self) -> bool:
        """Whether the projections are in memory, and not on a cluster."""
        return not isinstance(self.Z, Elsewhere)

    @property
    def n_outputs(self) -> int:
        """Numbers that a prediction consists of."""
        raise NotImplementedError

    @property
    def sample_weight(self) -> Array | None:
        """The weights of the training rows."""
        raise NotImplementedError

    def _scores_without(self, rows: Array, near: Array) -> Array:
        """Scores of some rows as predicted by their 1, 2, ... nearest others, ``near``."""
        raise NotImplementedError

    def cost(self, rule: str) -> QueryCost:
        """What a prediction by the nearest rows costs; subclasses have other rules as well.

        The search tree, which the first prediction makes, is not included.
        """
        (n, d), k = self.Z.shape, self.settled_n_neighbors or min(_LARGEST_AUTO, len(self.Z))
        nanoseconds = 1.0 + 0.2 * d
        if d <= _TREE_UP_TO:  # on one thread
            nanoseconds = n_threads() * (1000.0 + 250.0 * k) * (1.0 + 0.25 * d) / n
        return QueryCost(nanoseconds, 24.0 * k + 16.0 * self.n_outputs)

    def _cost_of_sums(self, nanoseconds: float, in_numpy: float, row_bytes: float) -> QueryCost:
        """What sums over all training rows cost; NumPy, for few of them, uses one thread."""
        (n, d), itemsize = self.Z.shape, self.Z.itemsize
        if choose.is_small(n):
            return QueryCost(n_threads() * in_numpy, row_bytes, 3e6)
        slower = 1.0 if itemsize == 4 else 1.5
        return QueryCost(slower * nanoseconds, row_bytes, 3e5 + n * (2 * d * itemsize + 88))

    @property
    def known(self) -> Any:
        """The projections of the training rows, where the queries lie."""
        return self.Z if self._known is None else self._known

    def beside(self, Z: Any) -> Self:
        """The model, for queries that lie elsewhere, with its projections there."""
        if not lies_elsewhere(Z):
            return self
        model = copy(self)
        model._known = cast(Z, self.Z)
        return model

    def set_voters(self, n_neighbors: Any) -> None:
        """Use another k from now on."""
        if n_neighbors != self.asked:
            self.asked, self.chosen = n_neighbors, None

    def __getstate__(self) -> dict[str, Any]:
        """Without the searches, which are made again on first use."""
        searches = ("index", "find", "equal", "_known")
        return {name: value for name, value in vars(self).items() if name not in searches}

    # Only the nearest neighbours need the tree and k: they are made on first use.
    @cached_property
    def index(self) -> Any:
        """A search tree over the projections."""
        return NearestNeighbors().fit(self.Z)

    @cached_property
    def find(self) -> Any:
        """A search over the projections that uses all threads."""
        return _search.finder("exact", self.Z)

    @cached_property
    def equal(self) -> tuple[Array, Array, Array] | None:
        """Equal projections; None if all of them differ.

        The first of the rows that are equal to each row, the rows sorted by that, and the place of
        each row among these.
        """
        if (np.diff(np.sort(self.Z[:, 0])) > 0).all():  # ten times as fast, and often enough
            return None
        first, itself = EqualRows(self.Z).first(self.Z, self.Z), np.arange(len(self.Z))
        first = np.where(first < 0, itself, first)
        if (first == itself).all():
            return None
        by_first = np.argsort(first, kind="stable")
        return first, by_first, np.argsort(by_first)

    @property
    def n_neighbors(self) -> int:
        """Number of voters, at most the number of rows."""
        self.choose_voters()
        assert self.chosen is not None
        return self.chosen

    @property
    def settled_n_neighbors(self) -> int | None:
        """Number of voters, or None if that has not been computed yet, or differs by query."""
        settled = self.chosen is not None or not isinstance(self.asked, str)
        return self.n_neighbors if settled else None

    def _n_voters(self, asked: Any, deadline: float | None) -> int:
        n = len(self.Z)
        if asked == "auto":
            return self._leave_one_out(min(_LARGEST_AUTO, n - 1), deadline)
        if int(asked) > n:
            warn(
                f"n_neighbors={asked} is more than the {n} training rows; n_neighbors={n} is used."
            )
        return min(int(asked), n)

    def nearest(self, Z: Array | None, k: int) -> tuple[Array, Array]:
        """Distances and positions of the k nearest training rows, nearest first.

        None stands for the training rows themselves; none is its own neighbour.
        """
        itself = Z is None
        if self._known is not None:
            return _search.nearest_elsewhere(self._known, self._known if itself else Z, k, itself)
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

    def _voters(self, Z: Array, k: int) -> Array:
        """Positions of the k nearest training rows of each query, nearest first."""
        if self._known is not None and not isinstance(Z, np.ndarray):
            return self._first_of_equal(_search.nearest_elsewhere(self._known, Z, k, False)[1])
        if len(Z) * len(self.Z) < _OWN_SEARCH_FROM:
            return self._first_of_equal(self.index.kneighbors(Z, k, return_distance=False))
        return self._first_of_equal(self.find(Z, k)[0])

    def _first_of_equal(self, near: Array) -> Array:
        """The neighbours; those with equals are replaced by the first of their equals, in order.

        Which of them a search finds depends on the search, and so on the number of queries.
        """
        if self.equal is None:
            return near
        first, by_first, place = self.equal
        group = first[near]
        order = group.argsort(axis=1, kind="stable")
        group = np.take_along_axis(group, order, axis=1)
        column = np.arange(near.shape[1])
        begins = np.where(np.diff(group, axis=1, prepend=-1) != 0, column, 0)
        rank = column - np.maximum.accumulate(begins, axis=1)
        np.put_along_axis(near, order, by_first[place[group] + rank], axis=1)
        return near

    def _in_chunks(self, Z: Array, row_bytes: int, function: Any) -> Array:
        """Process as many rows at a time as scikit-learn's ``working_memory`` allows."""
        return np.concatenate([function(Z[rows]) for rows in self._chunks(len(Z), row_bytes)])

    def _chunks(self, n: int, row_bytes: int) -> Iterator[slice]:
        """Slices of as many rows as scikit-learn's ``working_memory`` allows."""
        size = max(1, int(get_config()["working_memory"] * 2**20 // row_bytes))
        return gen_batches(n, size)

    def choose_voters(self, deadline: float | None = None) -> None:
        """Choose k now; after the deadline, on the clock of ``_clock.now``, from fewer rows."""
        if self.chosen is None:
            self.chosen = self._n_voters(self.asked, deadline)

    def _leave_one_out(self, largest: int, deadline: float | None) -> int:
        """The k with the best mean score, each row left out in turn; the smallest k wins ties."""
        n = len(self.Z)
        # Strided, so that the chunks done before the deadline are a fair sample of all rows.
        n_chunks = 1 + n * (_SEARCH_BYTES * largest + 8 * self.n_outputs) // _CHUNK_BYTES
        if deadline is not None:
            n_chunks = max(n_chunks, min(n, _TIMED_CHUNKS))
        scores: Array | None = None
        done: list[Array] = []
        for rows in (np.arange(first, n, n_chunks) for first in range(n_chunks)):
            if done and deadline is not None and _clock.now() >= deadline:
                break
            found = self._scores_without(rows, self._nearest_others(rows, largest))
            scores = np.zeros((n, largest), found.dtype) if scores is None else scores
            scores[rows] = found
            done.append(rows)
        chosen = slice(None) if len(done) == n_chunks else np.concatenate(done)
        assert scores is not None
        weight = None if self.sample_weight is None else self.sample_weight[chosen]
        return int(np.average(scores[chosen], axis=0, weights=weight).argmax()) + 1

    def _nearest_others(self, rows: Array, k: int) -> Array:
        """Positions of the k nearest other training rows of some training rows."""
        near = self._voters(self.Z[rows], k + 1)
        other = near != rows[:, None]
        other[other.all(axis=1), 0] = False  # duplicates pushed the row itself out
        return near[other].reshape(len(rows), k)
