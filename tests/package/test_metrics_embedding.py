"""Measures of an embedding: against their definitions, scikit-learn, and themselves."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import spearmanr
from sklearn.datasets import load_iris
from sklearn.manifold import trustworthiness as theirs
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import KNeighborsClassifier
from threadpoolctl import threadpool_limits

from vicinal.metrics import (
    _ranks,
    continuity,
    knn_accuracy,
    neighbor_recall,
    r_nx_auc,
    r_nx_curve,
    rank_correlation,
    trustworthiness,
)

MEASURES = (r_nx_auc, trustworthiness, continuity, neighbor_recall, rank_correlation)
each_measure = pytest.mark.parametrize("measure", MEASURES, ids=lambda f: f.__name__)


def cloud(rng, n=60, d=12):
    """Data, and an embedding that keeps some of it."""
    X = rng.normal(size=(n, d)) * np.geomspace(3.0, 0.3, d)
    return X, X[:, :2] + 0.3 * rng.normal(size=(n, 2))


def plain_ranks(D):
    """Rank of j among the rows nearest to i, from 1, by counting; of ties the first."""
    n = len(D)
    found = np.zeros((n, n), int)
    for i in range(n):
        for j in range(n):
            ahead = [m for m in range(n) if m not in (i, j) and (D[i, m], m) < (D[i, j], j)]
            found[i, j] = 1 + len(ahead)
    return found


def plain_curve(D_X, D_Z):
    """Q_NX and R_NX by sets of neighbours."""
    n, of_X, of_Z = len(D_X), plain_ranks(D_X), plain_ranks(D_Z)
    R = []
    for K in range(1, n - 1):
        kept = 0
        for i in range(n):
            near_X = {j for j in range(n) if j != i and of_X[i, j] <= K}
            near_Z = {j for j in range(n) if j != i and of_Z[i, j] <= K}
            kept += len(near_X & near_Z)
        Q = kept / (n * K)
        R.append(((n - 1) * Q - K) / (n - 1 - K))
    return np.array(R)


def plain_penalty(D_listed, D_ranked, k):
    n, listed, ranked = len(D_listed), plain_ranks(D_listed), plain_ranks(D_ranked)
    cost = sum(
        max(0, ranked[i, j] - k) for i in range(n) for j in range(n) if j != i and listed[i, j] <= k
    )
    return 1 - 2 * cost / (n * k * (2 * n - 3 * k - 1))


def test_curve_matches_its_definition(rng):
    X, Z = cloud(rng, 23)
    expected = plain_curve(pairwise_distances(X), pairwise_distances(Z))
    K, R = r_nx_curve(X, Z)
    np.testing.assert_array_equal(K, np.arange(1, 22))
    np.testing.assert_allclose(R, expected, rtol=1e-13, atol=1e-13)
    assert r_nx_auc(X, Z) == pytest.approx(np.sum(expected / K) / np.sum(1 / K), rel=1e-13)


def test_duplicates_and_ties_go_by_number(rng):
    X = np.repeat(rng.integers(0, 3, (8, 2)), 3, axis=0).astype(float)
    Z = rng.integers(0, 2, (24, 2)).astype(float)
    D_X, D_Z = pairwise_distances(X, metric="cityblock"), np.abs(Z[:, None] - Z).sum(axis=2)
    # between points of {0, 1}² the order is the same by the Euclidean distance
    expected = plain_curve(D_X, D_Z)
    np.testing.assert_allclose(r_nx_curve(X, Z, metric="cityblock")[1], expected, atol=1e-13)
    np.testing.assert_allclose(
        r_nx_curve(X, Z, metric="cityblock", max_neighbors=3)[1], expected[:3], atol=1e-13
    )
    assert trustworthiness(X, Z, metric="cityblock", n_neighbors=3) == pytest.approx(
        plain_penalty(D_Z, D_X, 3), rel=1e-13
    )


@each_measure
def test_a_copy_is_perfect_and_noise_is_nothing(rng, measure):
    X, y = load_iris(return_X_y=True)  # with a duplicated row
    assert measure(X, X, random_state=0) == pytest.approx(1.0, abs=1e-12)
    assert measure(X, -2.0 * X, random_state=0) == pytest.approx(1.0, abs=1e-12)  # no rounding
    noise = measure(X, rng.normal(size=(len(X), 2)), random_state=0)
    chance = {"trustworthiness": 0.5, "continuity": 0.5, "neighbor_recall": 15 / 149}
    assert noise == pytest.approx(chance.get(measure.__name__, 0.0), abs=0.06)


def test_trustworthiness_is_scikit_learns(rng):
    X, Z = cloud(rng, 130)
    for k in (1, 5, 30, 64):
        assert trustworthiness(X, Z, n_neighbors=k) == pytest.approx(
            theirs(X, Z, n_neighbors=k), rel=1e-14
        )
    assert trustworthiness(X, Z, metric="cosine") == pytest.approx(
        theirs(X, Z, metric="cosine"), rel=1e-14
    )


def test_continuity_is_trustworthiness_turned_round(rng):
    X, Z = cloud(rng, 50)
    assert continuity(X, Z, n_neighbors=4) == pytest.approx(theirs(Z, X, n_neighbors=4), rel=1e-14)


def test_recall_is_the_share_of_common_neighbours(rng):
    X, Z = cloud(rng, 40)
    of_X, of_Z = (plain_ranks(pairwise_distances(each)) for each in (X, Z))
    off = ~np.eye(40, dtype=bool)
    expected = np.sum((of_X <= 7) & (of_Z <= 7) & off) / (40 * 7)
    assert neighbor_recall(X, Z, n_neighbors=7) == pytest.approx(expected, rel=1e-14)


def test_rank_correlation_is_spearmans(rng):
    X, Z = cloud(rng, 40)
    upper = np.triu_indices(40, 1)
    expected = spearmanr(pairwise_distances(X)[upper], pairwise_distances(Z)[upper])[0]
    assert rank_correlation(X, Z) == pytest.approx(expected, rel=1e-12)
    assert rank_correlation(X, np.zeros((40, 2))) == 0.0
    some = [rank_correlation(X, Z, sample_size=30, random_state=seed) for seed in range(5)]
    assert len(set(some)) == 5
    assert np.abs(np.array(some) - expected).max() < 0.2


@pytest.mark.parametrize("seed", range(3))
def test_accuracy_matches_scikit_learns_where_nothing_ties(seed):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(50, 2))
    y = np.where(Z[:, 0] + 0.5 * rng.normal(size=50) > 0, "left", "right")
    ks = (1, 3, 7, 11)  # two classes and odd k: no ties
    got = knn_accuracy(Z, y, ks)
    for k, share in zip(ks, got, strict=True):
        others = [np.delete(np.arange(50), i) for i in range(50)]
        votes = [
            KNeighborsClassifier(k).fit(Z[rest], y[rest]).predict(Z[[i]])[0]
            for i, rest in enumerate(others)
        ]
        assert share == np.mean(np.array(votes) == y)
    assert isinstance(knn_accuracy(Z, y, 3), float)
    assert knn_accuracy(Z, y, 3) == got[1]


def test_of_equal_votes_the_nearest_wins():
    Z = np.array([[0.0], [1.0], [3.0], [7.0]])
    # votes of two: row 0 hears b, a; row 1 hears a, a; row 2 hears b, a; row 3 hears a, b
    assert knn_accuracy(Z, ["a", "b", "a", "a"], 2) == 0.25


def test_duplicates_do_not_vote_for_themselves():
    Z = np.zeros((9, 2))
    y = np.array(["a"] + ["b"] * 8)
    np.testing.assert_array_equal(knn_accuracy(Z, y, [3, 8]), [8 / 9, 8 / 9])


@each_measure
def test_block_size_and_thread_count_agnosticism(rng, measure, monkeypatch):
    X, Z = cloud(rng, 90)
    expected = measure(X, Z)
    for pairs, threads in [(1, 1), (1000, 2), (2**19, 2)]:
        monkeypatch.setattr(_ranks, "_PAIRS", pairs)
        with threadpool_limits(threads):
            assert measure(X, Z) == expected


@each_measure
def test_precomputed_sparse_and_callable_metrics(rng, measure):
    X, Z = cloud(rng, 50)
    X[np.abs(X) < 0.5] = 0.0
    expected = measure(X, Z, metric="cosine")
    assert measure(sp.csr_matrix(X), Z, metric="cosine") == pytest.approx(expected, rel=1e-12)
    D = pairwise_distances(X, metric="cosine")
    before = D.copy()
    assert measure(D, Z, metric="precomputed") == pytest.approx(expected, rel=1e-12)
    np.testing.assert_array_equal(D, before)
    taxi = measure(X, Z, metric=lambda a, b: np.abs(a - b).sum())
    assert taxi == pytest.approx(measure(X, Z, metric="manhattan"), rel=1e-12)


@pytest.mark.parametrize("measure", MEASURES[:-1], ids=lambda f: f.__name__)
def test_a_sample_of_rows_estimates_the_mean(rng, measure):
    X, Z = cloud(rng, 400)
    whole = measure(X, Z)
    some = measure(X, Z, sample_size=200, random_state=3)
    assert some != whole
    assert some == pytest.approx(whole, abs=0.04)
    assert some == measure(X, Z, sample_size=200, random_state=3)
    assert whole == measure(X, Z, sample_size=400, random_state=3)


def test_float32_and_far_from_the_origin(rng):
    X, Z = cloud(rng, 100)
    expected = r_nx_auc(X, Z)
    assert r_nx_auc(X.astype(np.float32), Z.astype(np.float32)) == pytest.approx(expected, abs=1e-3)
    assert r_nx_auc(X + 1e6, Z) == pytest.approx(expected, abs=1e-3)


def test_no_array_of_all_pairs_is_made(rng, monkeypatch):
    n = 1500
    X, Z = cloud(rng, n)
    monkeypatch.setattr(_ranks, "_PAIRS", 2**14)
    tracemalloc.start()
    try:
        r_nx_curve(X, Z, max_neighbors=50)
        neighbor_recall(X, Z)
        trustworthiness(X, Z, sample_size=500)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < n * n * 8 / 4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda X, Z: r_nx_curve(X, Z[:-1]), "Z must have as many rows as X, 20. Got 19"),
        (lambda X, Z: r_nx_curve(X, Z, max_neighbors=19),
         r"The 'max_neighbors' parameter of r_nx_curve must be an int in \[1, 18\] or None."),
        (lambda X, Z: trustworthiness(X, Z, n_neighbors=10),
         r"The 'n_neighbors' parameter of trustworthiness must be an int in \[1, 9\]. Got 10"),
        (lambda X, Z: continuity(X, Z, sample_size=0),
         r"The 'sample_size' parameter of continuity must be an int in \[1, 20\] or None. Got 0"),
        (lambda X, Z: neighbor_recall(X, Z, metric="precomputed"),
         r"X must be square for metric='precomputed' of neighbor_recall. Got shape \(20, 12\)"),
        (lambda X, Z: knn_accuracy(Z, np.zeros(20), [1, 20]),
         r"The 'n_neighbors' parameter of knn_accuracy must be an int in \[1, 19\]. Got 20"),
        (lambda X, Z: knn_accuracy(Z, np.zeros(20), []), "must hold at least one int"),
        (lambda X, Z: rank_correlation(X, Z, sample_size=2.5), "'sample_size' parameter"),
    ],
)  # fmt: skip
def test_bad_arguments_are_named(rng, call, message):
    with pytest.raises(ValueError, match=message):
        call(*cloud(rng, 20))
