"""How faithful an embedding is to the data: functions of any data X and any embedding Z.

Every function works on a block of rows at a time: the memory is that of the data and a few
megabytes per thread, never n² distances.  The time is of order n² log n; ``sample_size`` computes
the mean over some of the rows, drawn by ``random_state``, each of which is still compared with
all n rows.  Results do not depend on the number of threads.

Among equally distant rows the one with the smaller number is the nearer one.  Euclidean distances
in more than eight dimensions are computed by inner products, whose rounding errors may order rows
that are equally distant or nearly so.
"""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from typing import Any, Literal

import numpy as np
from scipy.stats import rankdata
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from vicinal._search import finder
from vicinal._threads import single_threaded_blas
from vicinal.core.types import Array
from vicinal.metrics._ranks import (
    check_count,
    check_pair,
    distances,
    draw_rows,
    nearest,
    ranks,
    sum_over_blocks,
)


def r_nx_curve(
    X: Any,
    Z: Any,
    *,
    max_neighbors: int | None = None,
    metric: Any = "euclidean",
    sample_size: int | None = None,
    random_state: Any = None,
) -> tuple[Array, Array]:
    r"""How many of the K nearest rows an embedding keeps, beyond chance, for all K.

    .. math:: Q_{NX}(K) = \frac{1}{n K} \sum_i |\nu_i^K \cap n_i^K|, \qquad
              R_{NX}(K) = \frac{(n - 1) Q_{NX}(K) - K}{n - 1 - K}

    with the K nearest other rows :math:`\nu_i^K` of row i in the data and :math:`n_i^K` in the
    embedding.  :math:`R_{NX}` is 1 for a perfect embedding and 0 on average for a random one.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n, n_features), or (n, n) if precomputed
        The data, or distances between all rows.
    Z : array-like of shape (n, n_components)
        The embedding; its distances are Euclidean.
    max_neighbors : int, default=None
        Largest K; None: n - 2, the largest for which :math:`R_{NX}` is defined.  A small one
        saves most of the time, which goes into sorting.
    metric : str or callable, default="euclidean"
        Distance between rows of X, as in :func:`sklearn.metrics.pairwise_distances`, or
        "precomputed".
    sample_size : int, default=None
        Number of rows i over which the mean is taken; None: all.
    random_state : int, RandomState instance or None, default=None
        Draws those rows.

    Returns
    -------
    K : int64 ndarray of shape (max_neighbors,)
        1, 2, ..., max_neighbors.
    R : float64 ndarray of shape (max_neighbors,)
        :math:`R_{NX}(K)`.

    References
    ----------
    [Lee2015]

    Examples
    --------
    >>> import numpy as np
    >>> from vicinal.metrics import r_nx_curve
    >>> X = np.arange(6.0)[:, None] ** 2
    >>> r_nx_curve(X, np.sqrt(X))[1].round(2)
    array([0.79, 0.44, 0.44, 1.  ])
    """
    X, Z = check_pair("r_nx_curve", X, Z, metric, 3)
    n = X.shape[0]
    largest = check_count("r_nx_curve", "max_neighbors", max_neighbors, n - 2, n - 2)
    rows = draw_rows("r_nx_curve", n, sample_size, random_state)
    K = np.arange(1, largest + 1)
    Q = _kept(X, Z, metric, rows, largest) / (len(rows) * K)
    return K, ((n - 1) * Q - K) / (n - 1 - K)


def _kept(X: Any, Z: Array, metric: Any, rows: Array, largest: int) -> Array:
    """How many rows are among the K nearest of both, for K = 1, ..., ``largest``."""
    of_X, of_Z, n = distances(X, metric), distances(Z, "euclidean"), X.shape[0]

    def count(block: Array) -> Array:
        rank_in_X = ranks(nearest(of_X(block), largest), n)
        # A row is among the K nearest of both from K = the larger of its two ranks on.
        worse = np.take_along_axis(rank_in_X, nearest(of_Z(block), largest), axis=1)
        worse = np.maximum(worse, np.arange(1, largest + 1, dtype=np.int32))
        return np.bincount(worse.ravel(), minlength=n + 1)[1 : largest + 1]

    return np.cumsum(sum_over_blocks(count, rows, n))


def r_nx_auc(
    X: Any,
    Z: Any,
    *,
    max_neighbors: int | None = None,
    metric: Any = "euclidean",
    sample_size: int | None = None,
    random_state: Any = None,
) -> float:
    r"""Area under the curve of :math:`R_{NX}(K)` over the logarithm of K.

    .. math:: \Bigl(\sum_K R_{NX}(K) / K\Bigr) \Big/ \sum_K 1 / K

    It weighs all sizes of neighbourhoods alike: 1 is perfect, 0 is what a random embedding has on
    average.  Values computed with different ``max_neighbors`` cannot be compared.

    Parameters
    ----------
    X, Z, max_neighbors, metric, sample_size, random_state
        As in :func:`r_nx_curve`.

    Returns
    -------
    auc : float

    References
    ----------
    [Lee2015]
    """
    K, R = r_nx_curve(
        X, Z, max_neighbors=max_neighbors, metric=metric, sample_size=sample_size,
        random_state=random_state,
    )  # fmt: skip
    return float(np.average(R, weights=1.0 / K))


def knn_accuracy(Z: Any, y: Any, n_neighbors: int | Iterable[int] = range(1, 16)) -> Any:
    """Leave-one-out accuracy of a vote of the k nearest rows, for several k at once.

    Each row is classified by its k nearest other rows; they are searched for once.  Of classes
    with equally many votes the one with the nearest voter wins.

    Parameters
    ----------
    Z : array-like of shape (n, n_components)
        The embedding, or any table: distances are Euclidean.
    y : array-like of shape (n,)
        Class labels.
    n_neighbors : int or iterable of int, default=range(1, 16)
        The values of k, each in [1, n - 1].

    Returns
    -------
    accuracy : float, or float64 ndarray with a value for each k
    """
    Z = check_array(Z, dtype=[np.float64, np.float32], ensure_min_samples=2, input_name="Z")
    y = column_or_1d(y)
    check_consistent_length(Z, y)
    single = isinstance(n_neighbors, Integral)
    listed = [n_neighbors] if single else list(n_neighbors)  # type: ignore[arg-type]
    ks = [check_count("knn_accuracy", "n_neighbors", k, None, len(Z) - 1) for k in listed]
    if not ks:
        raise ValueError(
            "The 'n_neighbors' parameter of knn_accuracy must hold at least one int. Got none."
        )
    codes = np.unique(y, return_inverse=True)[1]
    voters = codes[nearest_others(Z, max(ks))]
    won = winners(voters, int(codes.max()) + 1, ties="nearest")
    right = np.mean(won == codes[:, None], axis=0)
    return right[ks[0] - 1] if single else right[np.array(ks) - 1]


def nearest_others(Z: Array, k: int) -> Array:
    """Numbers of the k nearest other rows of each row, nearest first."""
    near, apart = finder("exact", Z)(Z, k + 1)
    own = near == np.arange(len(Z))[:, None]
    own[~own.any(axis=1), -1] = True  # duplicates pushed the row itself out
    near = near[~own].reshape(len(Z), k)
    # Trees return equally distant rows in no particular order: sort them by their numbers.
    order = np.lexsort((near, apart[~own].reshape(len(Z), k)), axis=1)
    return np.take_along_axis(near, order, axis=1)


def winners(voters: Array, n_classes: int, *, ties: Literal["nearest", "first"]) -> Array:
    """The class that wins the vote of the first 1, 2, ... voters of each row.

    Of classes with equally many votes, the one with the nearest voter wins, or the first class.
    """
    n, k = voters.shape
    rows, won = np.arange(n), np.empty((n, k), np.intp)
    votes, first = np.zeros((n, n_classes), np.int64), np.full((n, n_classes), k)
    for at in range(k):
        own = voters[:, at]
        votes[rows, own] += 1
        if ties == "nearest":
            first[rows, own] = np.minimum(first[rows, own], at)
        # the most votes, then the nearest voter: both in one number
        won[:, at] = (votes * (k + 1) - first).argmax(axis=1)
    return won


def trustworthiness(
    X: Any,
    Z: Any,
    *,
    n_neighbors: int = 5,
    metric: Any = "euclidean",
    sample_size: int | None = None,
    random_state: Any = None,
) -> float:
    r"""To what extent neighbours in the embedding are neighbours in the data.

    .. math:: T(k) = 1 - \frac{2}{n k (2 n - 3 k - 1)} \sum_i \sum_{j \in n_i^k} \max(0, r_{ij} - k)

    where :math:`n_i^k` are the k nearest rows of i in the embedding and :math:`r_{ij}` is the rank
    of j among the rows nearest to i in the data.  Equal to
    :func:`sklearn.manifold.trustworthiness`, which needs memory for all n² distances.

    Parameters
    ----------
    X, Z, metric, sample_size, random_state
        As in :func:`r_nx_curve`.
    n_neighbors : int, default=5
        k, less than n / 2.

    Returns
    -------
    trustworthiness : float
        Between 0 and 1.

    References
    ----------
    [Venna2001]
    """
    return _one_minus_penalty(
        "trustworthiness", X, Z, n_neighbors, metric, sample_size, random_state
    )


def continuity(
    X: Any,
    Z: Any,
    *,
    n_neighbors: int = 5,
    metric: Any = "euclidean",
    sample_size: int | None = None,
    random_state: Any = None,
) -> float:
    """To what extent neighbours in the data are neighbours in the embedding.

    It is the :func:`trustworthiness` with X and Z exchanged: each row that is among the k nearest
    in the data costs as many ranks as it lies beyond the k nearest in the embedding.

    Parameters
    ----------
    X, Z, metric, sample_size, random_state
        As in :func:`r_nx_curve`.
    n_neighbors : int, default=5
        k, less than n / 2.

    Returns
    -------
    continuity : float
        Between 0 and 1.

    References
    ----------
    [Venna2001]
    """
    return _one_minus_penalty("continuity", X, Z, n_neighbors, metric, sample_size, random_state)


def _one_minus_penalty(
    name: str, X: Any, Z: Any, n_neighbors: Any, metric: Any, sample_size: Any, random_state: Any
) -> float:
    """1 minus the scaled sum of the ranks beyond k that the k nearest rows have on the other side.

    ``name`` is that of the caller: of the trustworthiness, the nearest are those in Z and the ranks
    those in X, and of the continuity the other way round.
    """
    X, Z = check_pair(name, X, Z, metric, 3)
    n = X.shape[0]
    rows = draw_rows(name, n, sample_size, random_state)
    k = check_count(name, "n_neighbors", n_neighbors, None, (n - 1) // 2)
    listed, ranked = distances(X, metric), distances(Z, "euclidean")
    if name == "trustworthiness":
        listed, ranked = ranked, listed

    def excess(block: Array) -> int:
        near = nearest(listed(block), k)
        rank = np.take_along_axis(ranks(nearest(ranked(block), n - 1), n), near, axis=1)
        return int(np.maximum(rank - k, 0).sum(dtype=np.int64))

    total = sum_over_blocks(excess, rows, n)
    return float(1.0 - total * (2.0 / (len(rows) * k * (2.0 * n - 3.0 * k - 1.0))))


def neighbor_recall(
    X: Any,
    Z: Any,
    *,
    n_neighbors: int = 15,
    metric: Any = "euclidean",
    sample_size: int | None = None,
    random_state: Any = None,
) -> float:
    """Share of the k nearest rows in the data that are among the k nearest in the embedding.

    This is :math:`Q_{NX}(k)` of :func:`r_nx_curve`.

    Parameters
    ----------
    X, Z, metric, sample_size, random_state
        As in :func:`r_nx_curve`.
    n_neighbors : int, default=15
        k.

    Returns
    -------
    recall : float
        Between 0 and 1.
    """
    X, Z = check_pair("neighbor_recall", X, Z, metric, 2)
    n = X.shape[0]
    rows = draw_rows("neighbor_recall", n, sample_size, random_state)
    k = check_count("neighbor_recall", "n_neighbors", n_neighbors, None, n - 1)
    return float(_kept(X, Z, metric, rows, k)[-1] / (len(rows) * k))


def rank_correlation(
    X: Any,
    Z: Any,
    *,
    metric: Any = "euclidean",
    sample_size: int | None = 1000,
    random_state: Any = None,
) -> float:
    """Spearman's rank correlation between distances in the data and in the embedding.

    Over all pairs of ``sample_size`` rows.  Most pairs are far apart, so this tells how much of the
    large-scale arrangement an embedding keeps.  If all distances of one side are equal, it is 0.

    Parameters
    ----------
    X, Z, metric
        As in :func:`r_nx_curve`.
    sample_size : int, default=1000
        Number of rows whose pairs are compared; the memory is of the order of its square.  None,
        or more than n: all rows.
    random_state : int, RandomState instance or None, default=None
        Draws the rows.

    Returns
    -------
    correlation : float
        Between -1 and 1.
    """
    X, Z = check_pair("rank_correlation", X, Z, metric, 3)
    n = X.shape[0]
    size = None if sample_size is None or sample_size >= n else sample_size
    rows = draw_rows("rank_correlation", n, size, random_state)
    X, Z = X[rows], Z[rows]
    if isinstance(metric, str) and metric == "precomputed":
        X = X[:, rows]
    upper = np.triu_indices(len(rows), 1)
    everyone = np.arange(len(rows))
    with single_threaded_blas():
        pairs = [distances(X, metric)(everyone)[upper], distances(Z, "euclidean")(everyone)[upper]]
    one, other = (each - each.mean() for each in map(rankdata, pairs))
    scale = float(np.sqrt((one @ one) * (other @ other)))
    return float(one @ other) / scale if scale > 0 else 0.0
