"""Affinities of a table, or of new rows to it: neighbours, weights, marginals of sets of k."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_array

from vicinal._validation import warn
from vicinal.affinities.calibration import K_UP_TO, Lists, calibrate, choose_sets
from vicinal.affinities.distances import graph_lists, make_source
from vicinal.affinities.lengths import measured_lists
from vicinal.core.types import Array
from vicinal.engines import choose
from vicinal.targets.affinities import Affinities

_SEARCHES = ("auto", "exact", "tree", "brute", "faiss")


def affinities(
    X: Any,
    perplexity: float = 30.0,
    k: int = 5,
    *,
    metric: Any = "euclidean",
    metric_params: dict[str, Any] | None = None,
    max_missing: float = 0.05,
    search: str = "auto",
) -> Affinities:
    r"""The chance that each row is in a neighbourhood of k of each other row.

    Row i chooses a set s of k other rows with a probability proportional to
    :math:`\prod_{j \in s} w_{ij}`, :math:`w_{ij} = \exp(-d_{ij}^2 / 2 \sigma_i^2)`, where
    :math:`\sigma_i` gives a choice of *one* row the perplexity asked for [Tarlow2013]_.  The
    marginals :math:`p^k_{ij}` are the chances that j is in s.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, n_features), or (n, n) if ``metric`` is "precomputed..."
        Rows; or distances; or weights.  Entries that a sparse matrix of distances does not have are
        no neighbours; those that a matrix of weights does not have are 0.  The diagonal is ignored.
    perplexity : float, default=30.0
        In [1, inf).  More than (n - 1) / 3, or than 2 of fewer than seven rows, is reduced to that
        with a warning.
    k : int, default=5
        Size of the neighbourhoods.  From n - 1 on there is only one set: k is reduced to n - 2, or
        to 1 of two rows, with a warning.
    metric : str or callable, default="euclidean"
        Any metric of :func:`sklearn.metrics.pairwise_distances`; "precomputed": X has distances;
        "precomputed_affinities": X has the weights :math:`w_{ij}`, and no perplexity is needed.
    metric_params : dict, default=None
        Further arguments of the metric.
    max_missing : float, default=0.05
        Largest share of the marginals that the lists may leave out, in [0, 1).  It is measured on
        128 rows.  If lists of ten times the usual length (and 16 million entries) are too short,
        as with thousands of equal rows, they are used with a warning.
    search : {"auto", "exact", "tree", "brute", "faiss"}, default="auto"
        Search for the nearest rows, for the Euclidean distance: "auto" is faiss from 50,000 rows of
        6 columns on if that is installed, else exact.

    Returns
    -------
    Affinities
        Up to 500 rows, all pairs; beyond, lists of the nearest.
    """
    params = metric_params or {}
    _check_parameters(perplexity, k, metric, max_missing, search)
    X = check_table(X, metric)
    n = X.shape[0]
    if n < 2:
        raise ValueError("affinities needs at least 2 rows. Got 1 instead.")
    perplexity, k = resolve_sizes(n, perplexity, k, metric, "affinities")
    compiled, missing = not choose.is_small(n), 0.0
    if metric == "precomputed_affinities":
        lists = weight_lists(X, own=True)
        check_counts(lists, k)
    elif sp.issparse(X) and metric == "precomputed":
        lists = _squared(graph_lists(X, own=True))
        check_counts(lists, k)
        missing = 0.0 if len(lists.indices) == n * (n - 1) else math.nan
        _warn_short(lists, perplexity)
        calibrate(lists, perplexity, compiled)
    else:
        source = make_source(X, metric, params, search)
        if compiled and max_missing > 0:
            lists, missing = measured_lists(source, X, perplexity, k, max_missing)
        else:
            lists = source.lists(X, n - 1, own=True)
        if missing > max_missing:
            _warn_missing(missing, max_missing, len(lists.indices) // n)
        check_counts(lists, k)
        calibrate(lists, perplexity, compiled)
    entropy = choose_sets(lists, k, compiled)
    return Affinities(lists.indptr, lists.indices, lists.values, k, entropy, missing)


def resolve_sizes(n: int, perplexity: float, k: int, metric: Any, owner: str) -> tuple[float, int]:
    """Perplexity and k that n rows allow, with a warning if they are not those asked for.

    ``owner`` is whose parameters they are.
    """
    most = max((n - 1) / 3, min(n - 1, 2))
    if perplexity > most and metric != "precomputed_affinities":
        warn(f"perplexity={perplexity:g} is too large for {n} rows: {most:g} is used.")
        perplexity = most
    if k > max(1, n - 2):
        warn(
            f"k={k} is too large for {n} rows, which offer no such choice: k={max(1, n - 2)} "
            "is used."
        )
        k = max(1, n - 2)
    if k > K_UP_TO:
        raise ValueError(
            f"The 'k' parameter of {owner} must be an int in [1, {K_UP_TO}]. Got {k} instead."
        )
    return float(perplexity), int(k)


def check_table(X: Any, metric: Any, n_columns: int | None = None) -> Any:
    """Rows, distances or weights: finite numbers, dense or CSR; those given are not negative.

    Distances and weights are square if ``n_columns`` is None.
    """
    X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32], input_name="X")
    given = isinstance(metric, str) and metric.startswith("precomputed")
    if n_columns is None and given and X.shape[0] != X.shape[1]:
        raise ValueError(f"X must be square for metric={metric!r}. Got shape {X.shape} instead.")
    if n_columns is not None and X.shape[1] != n_columns:
        raise ValueError(f"X must have {n_columns} columns. Got {X.shape[1]} instead.")
    if not given:
        return X
    if sp.issparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    least = (X.data if sp.issparse(X) else X).min(initial=0.0)
    if least < 0:
        raise ValueError(f"X must not be negative for metric={metric!r}. Got {least} instead.")
    return X


def weight_lists(W: Any, own: bool) -> Lists:
    """Energies of given weights, the largest weight first; weights of 0 are no members."""
    lists = graph_lists(sp.csr_array(W), own)
    indptr, indices, values = lists
    there = values > 0
    counts = np.add.reduceat(np.append(there, False), indptr[:-1], dtype=np.int64)
    counts[np.diff(indptr) == 0] = 0
    i = np.repeat(np.arange(len(indptr) - 1), counts)
    energies = -np.log(values[there])
    order = np.lexsort((indices[there], energies, i))
    indptr = np.concatenate([[0], np.cumsum(counts)])
    return Lists(indptr, indices[there][order], energies[order])


def check_counts(lists: Lists, k: int) -> None:
    """Refuse a list of fewer than k members."""
    counts = np.diff(lists.indptr)
    short = np.flatnonzero(counts < k)
    if len(short):
        raise ValueError(
            f"Every row needs at least k={k} neighbours of positive weight. Got {counts[short[0]]} "
            f"for row {short[0]} instead ({len(short)} such rows). Lower k or give more of them."
        )


def _check_parameters(perplexity: Any, k: Any, metric: Any, max_missing: Any, search: Any) -> None:
    wanted = [
        ("perplexity", perplexity, Real, "a float in [1, inf)", 1, math.inf),
        ("k", k, Integral, "an int in [1, inf)", 1, math.inf),
        ("max_missing", max_missing, Real, "a float in [0, 1)", 0, 1),
    ]
    for name, value, kind, what, low, high in wanted:
        number = isinstance(value, kind) and not isinstance(value, bool)
        if not (number and low <= float(value) < high):
            raise ValueError(
                f"The {name!r} parameter of affinities must be {what}. Got {value!r} instead."
            )
    if not (isinstance(metric, str) or callable(metric)):
        raise ValueError(
            f"The 'metric' parameter of affinities must be a str or callable. Got {metric!r} "
            "instead."
        )
    if search not in _SEARCHES:
        raise ValueError(
            f"The 'search' parameter of affinities must be a str among {list(_SEARCHES)}. "
            f"Got {search!r} instead."
        )


def _squared(lists: Lists) -> Lists:
    np.square(lists.values, out=lists.values)
    return lists


def _warn_short(lists: Lists, perplexity: float) -> None:
    short = int(np.sum(np.diff(lists.indptr) < perplexity))
    if short:
        warn(
            f"Rows with fewer neighbours than perplexity={perplexity:g} ({short} of them) give all "
            "of these the same weight."
        )


def _warn_missing(missing: float, max_missing: float, length: int) -> None:
    warn(
        f"Lists of {length} rows leave out {100 * missing:.2g} % of the affinities, more than "
        f"max_missing={max_missing:g}: rows have very many neighbours at nearly the same distance, "
        "or the search is not exact."
    )


@dataclass(frozen=True)
class NewAffinities:
    """Marginals of neighbourhoods of new rows among known ones, in compressed sparse rows.

    Parameters
    ----------
    indptr, indices, marginals, k, entropy
        As those of `Affinities`; ``indices`` are positions of known rows, the nearest first.
    distances : float64 array
        Distance of each of them; of given weights, minus their logarithm.
    n_known : int
        Number of known rows.
    """

    indptr: Array
    indices: Array
    marginals: Array
    k: int
    entropy: Array
    distances: Array
    n_known: int

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def matrix(self) -> Any:
        """The marginals as a sparse array of shape (n_new, n_known)."""
        shape = (len(self), self.n_known)
        return sp.csr_array((self.marginals, self.indices, self.indptr), shape=shape)

    def at_zero(self) -> Array:
        """The first known row at distance 0 of each new row, -1 if there is none."""
        first = np.full(len(self), -1, np.int64)
        some = np.flatnonzero(np.diff(self.indptr) > 0)
        some = some[self.distances[self.indptr[some]] == 0]
        first[some] = self.indices[self.indptr[some]]
        return first


def new_affinities(
    X_new: Any,
    X: Any,
    perplexity: float,
    k: int,
    *,
    length: int | None = None,
    metric: Any = "euclidean",
    metric_params: dict[str, Any] | None = None,
    search: str = "exact",
) -> NewAffinities:
    """The chance that each known row is in a neighbourhood of k of each new row.

    As `affinities`, but a new row chooses among the known ones only, so that it gets the same
    affinities whatever other rows are new.

    Parameters
    ----------
    X_new : array or sparse matrix of shape (n_new, n_features) or (n_new, n)
        New rows; their distances to the known rows; or their weights for them: as ``metric`` says.
    X : array or sparse matrix of shape (n, n_features), or int
        The known rows; the number n of them if distances or weights are given.
    perplexity, k : float, int
        Those of `affinities`, as the known rows allow them.
    length : int, default=None
        Number of the nearest known rows that a list holds, more than k; None: all.
    metric, metric_params
        As those of `affinities`.
    search : {"exact", "tree", "brute"}, default="exact"
        Search for the nearest known rows.

    Returns
    -------
    NewAffinities
    """
    given = metric in ("precomputed", "precomputed_affinities")
    n = int(X) if given else X.shape[0]
    X_new = check_table(X_new, metric, n if given else X.shape[1])
    k, length = min(k, n), min(n, n if length is None else max(length, k + 1))
    compiled = not choose.is_small(n)
    if metric == "precomputed_affinities":
        lists = weight_lists(X_new, own=False)
        check_counts(lists, k)
        distances = lists.values.copy()
    else:
        if metric == "precomputed" and sp.issparse(X_new):
            lists = graph_lists(X_new, own=False)
            np.square(lists.values, out=lists.values)
        else:
            rows = X_new if given else X
            source = make_source(rows, metric, metric_params or {}, search)
            lists = source.lists(X_new, length, own=False)
        check_counts(lists, k)
        distances = np.sqrt(lists.values)
        calibrate(lists, perplexity, compiled)
    entropy = choose_sets(lists, k, compiled)
    indptr, indices, marginals = lists
    return NewAffinities(indptr, indices, marginals, k, entropy, distances, n)
