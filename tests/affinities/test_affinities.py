"""Affinities: they reach the perplexity, add up over all sets, and their lists leave out little."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from common.checks import assert_same_bits
from formulas.ksne import set_marginals, set_marginals_by_subsets
from sklearn.manifold._utils import _binary_search_perplexity
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import KNeighborsTransformer

from vicinal.affinities import affinities, distances, lengths
from vicinal.affinities.calibration import Lists, calibrate, choose_sets
from vicinal.engines import choose
from vicinal.targets import Affinities


@pytest.fixture(params=["numpy", "compiled"])
def path(request, monkeypatch):
    """Each test runs in NumPy and in compiled loops."""
    if request.param == "compiled":
        monkeypatch.setattr(choose, "DENSE_UP_TO", 0)
    return request.param


def lists_of(table):
    """Sorted lists of a table, one for each row; inf: no member."""
    table = np.sort(table, axis=1)
    counts = np.isfinite(table).sum(axis=1)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    indices = np.concatenate([np.arange(c, dtype=np.int32) for c in counts])
    return Lists(indptr, indices, table[np.isfinite(table)])


def single_choice(X, perplexity, **options):
    """The chances of a single choice as a dense table."""
    return affinities(X, perplexity, 1, **options).matrix.toarray()


def perplexities(P):
    log_p = np.log(np.where(P > 0, P, 1.0))
    return np.exp(-np.sum(P * log_p, axis=1))


# Weights and marginals of given lists


@pytest.mark.nojit
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
def test_marginals_are_those_of_all_sets(rng, k, scale, compiled):
    energies = scale * rng.chisquare(3, (6, 9))
    lists = lists_of(energies)
    before = lists.values.reshape(6, 9).copy()
    entropy = choose_sets(lists, k, compiled)
    P, log_total = set_marginals_by_subsets(-before, k)
    np.testing.assert_allclose(lists.values.reshape(6, 9), P, atol=1e-13)
    np.testing.assert_allclose(entropy, np.sum(P * before, axis=1) + log_total, atol=1e-11)


@pytest.mark.nojit
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("k", [1, 5, 12])
def test_lists_of_different_lengths(rng, k, compiled):
    energies = rng.chisquare(3, (20, 30))
    energies[1:][np.arange(30) >= rng.integers(12, 31, 19)[:, None]] = np.inf
    lists = lists_of(energies)
    entropy = choose_sets(lists, k, compiled)
    P, log_total = set_marginals(-np.sort(energies, axis=1), k)
    assert_allclose = np.testing.assert_allclose
    assert_allclose(lists.padded(0.0)[0], P, atol=1e-13)
    sorted_energies = np.sort(np.where(np.isfinite(energies), energies, 1e9), axis=1)
    assert_allclose(entropy, np.sum(P * sorted_energies, axis=1) + log_total, atol=1e-11)


@pytest.mark.nojit
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("gap", [1.0, 40.0, 800.0, 1e5, 1e12])
def test_marginals_of_any_range_of_weights(gap, compiled):
    """Three members dominate; two places of five are left for six that are equally far."""
    lists = lists_of(np.array([[0.0, 0.0, 0.0, *[gap] * 6, 3 * gap]]))
    entropy = choose_sets(lists, 5, compiled)
    got = lists.values
    assert got.sum() == pytest.approx(5, rel=1e-14)
    if gap >= 40:
        np.testing.assert_allclose(got, [1, 1, 1, *[1 / 3] * 6, 0], atol=1e-14)
        assert entropy[0] == pytest.approx(np.log(15), abs=1e-9 + 1e-15 * gap)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(("k", "m"), [(300, 2000), (700, 1500), (698, 700)])
def test_large_sets(rng, k, m, compiled):
    lists = lists_of(rng.chisquare(3, (2, m)))
    before = lists.values.reshape(2, m).copy()
    choose_sets(lists, k, compiled)
    np.testing.assert_allclose(lists.values.reshape(2, m), set_marginals(-before, k)[0], atol=1e-9)


@pytest.mark.nojit
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1.0, 1e8, 1e150])
@pytest.mark.parametrize("perplexity", [1.5, 7.3, 28.0])
def test_perplexity_is_reached(rng, perplexity, scale, compiled):
    lists = lists_of(scale * rng.chisquare(4, (25, 40)))
    calibrate(lists, perplexity, compiled)
    weights = np.exp(-lists.values.reshape(25, 40))
    np.testing.assert_allclose(weights[:, 0], 1.0)
    got = perplexities(weights / weights.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(got, perplexity, rtol=1e-10)


@pytest.mark.nojit
@pytest.mark.parametrize("compiled", [False, True])
def test_a_perplexity_that_no_weights_have(compiled):
    """As many or fewer members: equal weights.  More nearest ones: these, and no others."""
    table = np.array([[1.0, 2.0, 5.0, 9.0, np.inf, np.inf], [2.0] * 5 + [7.0], [4.0] * 6])
    lists = lists_of(table)
    calibrate(lists, 4.0, compiled)
    got, _ = lists.padded(np.inf)
    np.testing.assert_array_equal(got[0, :4], 0.0)
    np.testing.assert_array_equal(got[1, :5], 0.0)
    assert 40 < got[1, 5] < np.inf
    np.testing.assert_array_equal(got[2], 0.0)


# Affinities of rows


def test_single_choice_is_that_of_scikit_learn(rng, path):
    X = rng.standard_normal((90, 4))
    d2 = pairwise_distances(X, metric="sqeuclidean").astype(np.float32)
    P = _binary_search_perplexity(d2, 20.0, 0)  # all pairs; the diagonal counts as no neighbour
    got = single_choice(X, 20.0, max_missing=0.0)
    np.testing.assert_allclose(got, P, atol=2e-5)  # its entropy is within 1e-5
    np.testing.assert_allclose(perplexities(got), 20.0, rtol=1e-9)


@pytest.mark.nojit
@pytest.mark.parametrize("k", [1, 3])
def test_marginals_of_rows_are_those_of_all_sets(rng, path, k):
    X = rng.standard_normal((10, 2))
    P = single_choice(X, 2.5, max_missing=0.0)
    A = affinities(X, 2.5, k, max_missing=0.0)
    with np.errstate(divide="ignore"):
        expected, log_total = set_marginals_by_subsets(np.log(P), k)
    assert isinstance(A, Affinities)
    assert A.k == k
    assert A.missing == 0.0
    assert (A.indptr.dtype, A.indices.dtype) == (np.int64, np.int32)
    np.testing.assert_allclose(A.matrix.toarray(), expected, atol=1e-12)
    safe = np.where(P > 0, P, 1.0)
    entropy = log_total - np.sum(expected * np.log(safe), axis=1)
    np.testing.assert_allclose(A.entropy, entropy, atol=1e-11)


def test_paths_agree(rng, monkeypatch):
    X = rng.standard_normal((80, 3))
    few = affinities(X, 10.0, 4, max_missing=0.0)
    monkeypatch.setattr(choose, "DENSE_UP_TO", 0)
    many = affinities(X, 10.0, 4, max_missing=0.0)
    np.testing.assert_array_equal(many.indices, few.indices)
    np.testing.assert_allclose(many.marginals, few.marginals, atol=1e-12)
    np.testing.assert_allclose(many.entropy, few.entropy, atol=1e-11)


@pytest.mark.parametrize("k", [1, 5, 20])
def test_lists_leave_out_at_most_one_percent(rng, k):
    """As measured over all rows, and longer lists for larger k."""
    X = np.concatenate([rng.standard_normal((300, 6)), 4 + 2 * rng.standard_normal((400, 6))])
    A, full = (affinities(X, 8.0, k, max_missing=share) for share in (0.01, 0.0))
    assert (full.missing, len(full.indices)) == (0.0, 700 * 699)
    length = len(A.indices) // 700
    assert length >= lengths.list_length(700, 8.0, k)
    P = full.matrix.toarray()
    rows = np.repeat(np.arange(700), length)
    out = 1.0 - P[rows, A.indices].sum() / P.sum()
    assert 0 < A.missing <= 0.01
    assert out == pytest.approx(A.missing, abs=0.002)
    np.testing.assert_allclose(A.matrix.sum(axis=1), k)
    many = affinities(X, 8.0, k, max_missing=0.2)
    assert len(many.indices) <= len(A.indices)


def test_larger_k_has_longer_lists(rng):
    X = rng.standard_normal((700, 6))
    lengths = [len(affinities(X, 8.0, k).indices) // 700 for k in (1, 5, 20)]
    assert lengths == sorted(set(lengths))


@pytest.mark.parametrize("search", ["tree", "brute", "exact"])
def test_every_search_finds_the_same(rng, search):
    X = rng.standard_normal((600, 9))
    A, B = affinities(X, 8.0, 3), affinities(X, 8.0, 3, search=search)
    assert_same_bits([A.indices, A.marginals], [B.indices, B.marginals])
    assert A.missing == B.missing


def test_lists_of_faiss_are_a_tenth_longer(rng):
    pytest.importorskip("faiss")
    X = rng.standard_normal((600, 9))
    A, B = (affinities(X, 8.0, 3, max_missing=0.01, search=s) for s in ("exact", "faiss"))
    length = len(A.indices) // 600
    np.testing.assert_array_equal(A.indices, B.indices.reshape(600, -1)[:, :length].ravel())
    assert len(B.indices) // 600 == int(np.ceil(1.1 * length))
    assert 0 < B.missing < A.missing <= 0.01


def test_a_search_that_misses_rows_is_measured(rng, monkeypatch):
    """What is left out is what the lists have, not what lists of that length could have."""
    X = rng.standard_normal((600, 9))
    honest = distances.EuclideanRows.lists

    def every_second(self, queries, length, own):
        found = honest(self, queries, 2 * length, own)
        keep = np.tile(np.arange(2 * length) % 2 == 0, queries.shape[0])
        indptr = np.arange(queries.shape[0] + 1) * length
        return Lists(indptr, found.indices[keep], found.values[keep])

    monkeypatch.setattr(distances.EuclideanRows, "lists", every_second)
    monkeypatch.setattr(distances, "resolved", lambda search, points: "faiss")
    with pytest.warns(UserWarning, match=r"leave out [34]\d % .* more than max_missing=0.05"):
        A = affinities(X, 8.0, 3)
    assert 0.3 < A.missing < 0.5


def test_symmetric_affinities(rng):
    A = affinities(rng.standard_normal((60, 3)), 8.0, 5)
    both = A.symmetric
    np.testing.assert_array_equal(both.toarray(), A.matrix.toarray() + A.matrix.toarray().T)
    assert both.has_canonical_format
    # SciPy would double the memory of the indices because of those of the rows
    assert A.matrix.indices.dtype == both.indices.dtype == np.int32
    assert np.shares_memory(A.matrix.indices, A.indices)


def test_pickles_leave_out_what_follows(rng):
    A = affinities(rng.standard_normal((60, 3)), 8.0, 5)
    before = pickle.dumps(A)
    both = A.symmetric
    assert pickle.dumps(A) == before
    again = pickle.loads(before)
    np.testing.assert_array_equal(again.symmetric.toarray(), both.toarray())
    assert (again.k, again.missing) == (A.k, A.missing)


# Metrics and given distances


def norm_of_difference(x, y):
    return float(np.abs(x - y).sum())


@pytest.mark.parametrize(
    ("metric", "params"),
    [
        ("manhattan", None),
        ("cosine", None),
        ("l2", None),
        ("minkowski", {"p": 3}),
        ("seuclidean", None),
        ("mahalanobis", None),
        (norm_of_difference, None),
    ],
)
def test_any_metric_of_scikit_learn(rng, path, metric, params):
    X = rng.standard_normal((40, 3)) + 1.0
    D = pairwise_distances(X, metric=metric, **(params or {}))
    A = affinities(X, 7.0, 3, metric=metric, metric_params=params)
    B = affinities(D, 7.0, 3, metric="precomputed")
    np.testing.assert_array_equal(A.indices, B.indices)
    np.testing.assert_allclose(A.marginals, B.marginals, atol=1e-9)


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "manhattan"])
@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csc_array])
def test_sparse_rows(rng, path, metric, kind):
    X = rng.standard_normal((50, 12)) * (rng.random((50, 12)) < 0.4)
    X[7] = X[3]
    A = affinities(X, 7.0, 3, metric=metric)
    B = affinities(kind(X), 7.0, 3, metric=metric)
    np.testing.assert_allclose(A.matrix.toarray(), B.matrix.toarray(), atol=1e-9)


def test_graph_of_neighbours(rng, path):
    """As a transformer of scikit-learn gives it, with each row as its own neighbour."""
    X = rng.standard_normal((60, 3))
    graph = KNeighborsTransformer(n_neighbors=25, mode="distance").fit_transform(X)
    assert graph.diagonal().tolist() == [0.0] * 60
    A = affinities(graph, 6.0, 3, metric="precomputed")
    assert np.isnan(A.missing)
    assert np.diff(A.indptr).tolist() == [25] * 60
    D = np.where(graph.toarray() > 0, graph.toarray(), 1e3)
    B = affinities(D, 6.0, 3, metric="precomputed", max_missing=0.0)
    np.testing.assert_allclose(A.matrix.toarray(), B.matrix.toarray(), atol=1e-12)


def test_given_weights(rng, path):
    W = rng.random((30, 30)) ** 6
    W[W < 0.01] = 0.0
    A = affinities(W, 1e9, 3, metric="precomputed_affinities")
    np.fill_diagonal(W, 0.0)
    with np.errstate(divide="ignore"):
        P, _ = set_marginals(np.log(W), 3)
    np.testing.assert_allclose(A.matrix.toarray(), P, atol=1e-12)
    assert (A.marginals > 0).all()
    for given in (sp.csr_array(W), sp.coo_matrix(W)):
        B = affinities(given, 1e9, 3, metric="precomputed_affinities")
        assert_same_bits([B.marginals], [A.marginals])


def test_float32_rows_are_rows(rng, path):
    X = rng.standard_normal((60, 5)).astype(np.float32)
    A, B = affinities(X, 7.0, 3), affinities(X.astype(np.float64), 7.0, 3)
    assert_same_bits([A.marginals], [B.marginals])
    X[:] += 1e4  # distances are those of differences, not of inner products
    A, B = affinities(X, 7.0, 3), affinities(X.astype(np.float64), 7.0, 3)
    np.testing.assert_array_equal(A.indices, B.indices)
    assert_same_bits([A.marginals], [B.marginals])


def test_scale_and_offset_do_not_matter(rng, path):
    X = rng.standard_normal((60, 5))
    A = affinities(X, 7.0, 3)
    for B in (affinities(1e8 * X, 7.0, 3), affinities(1e-8 * X, 7.0, 3)):
        np.testing.assert_allclose(B.marginals, A.marginals, atol=1e-9)


# Degenerate input


@pytest.mark.parametrize("k", [1, 4, 9])
def test_all_rows_equal(path, k):
    A = affinities(np.full((30, 3), 0.1), 5.0, k, max_missing=0.01)
    np.testing.assert_allclose(A.marginals, k / 29)
    assert A.missing == 0.0


def test_more_duplicates_than_the_perplexity(rng, path):
    """Rows choose among their twins alone; sets of more than all twins add the nearest others."""
    places = 3 * rng.standard_normal((5, 4)) + 1e3
    X = places[np.arange(60) % 5]
    A = affinities(X, 4.0, 3, max_missing=0.0)
    twins = (np.arange(60)[:, None] % 5 == np.arange(60) % 5) & ~np.eye(60, dtype=bool)
    np.testing.assert_allclose(A.matrix.toarray(), np.where(twins, 3 / 11, 0.0), atol=1e-12)
    B = affinities(X, 4.0, 14, max_missing=0.0).matrix.toarray()
    np.testing.assert_allclose(B[twins], 1.0)
    d2 = np.where(twins, np.inf, pairwise_distances(X, metric="sqeuclidean"))
    np.fill_diagonal(d2, np.inf)
    np.testing.assert_allclose(B.sum(axis=1), 14)
    assert (B[np.arange(60), d2.argmin(axis=1)] > 0.2).all()


def test_lists_are_long_enough_for_many_duplicates(rng):
    """700 rows at five places have 139 twins each: lists of 34 would hold a quarter."""
    places = 3 * rng.standard_normal((5, 9))
    A = affinities(places[np.arange(700) % 5], 8.0, 5, max_missing=0.01)
    assert A.missing <= 0.01
    assert len(A.indices) // 700 >= 138


def test_lists_have_a_longest_length(rng, monkeypatch):
    monkeypatch.setattr(lengths, "_ENTRIES", 0)
    with pytest.warns(UserWarning, match=r"Lists of 360 rows leave out 48 % .* max_missing=0.05"):
        A = affinities(np.zeros((700, 2)), 8.0, 6)
    assert A.missing == pytest.approx(1 - 360 / 699)
    np.testing.assert_allclose(A.marginals, 6 / 360)


def test_disconnected_groups(rng, path):
    X = rng.standard_normal((60, 3))
    X[30:] += 1e9
    A = affinities(X, 6.0, 3)
    P = A.matrix.toarray()
    assert P[:30, 30:].max() < 1e-12
    alone = affinities(X[:30], 6.0, 3).matrix.toarray()
    np.testing.assert_allclose(P[:30, :30], alone, atol=1e-9)


def test_lonely_pairs_need_others(rng, path):
    """Pairs far from each other: sets of three hold the other of the pair and two more."""
    X = np.repeat(100.0 * rng.standard_normal((15, 2)), 2, axis=0)
    X[1::2] += 1e-3
    A = affinities(X, 1.2, 3)
    P = A.matrix.toarray()
    np.testing.assert_allclose(P[np.arange(30), np.arange(30) ^ 1], 1.0, atol=0.05)
    np.testing.assert_allclose(P.sum(axis=1), 3.0)


@pytest.mark.parametrize(
    ("n", "perplexity", "k", "used", "k_used"),
    [(2, 1.0, 1, 1.0, 1), (3, 2.0, 1, 2.0, 1), (7, 2.0, 5, 2.0, 5), (31, 10.0, 29, 10.0, 29)],
)
def test_smallest_tables(rng, n, perplexity, k, used, k_used):
    X = rng.standard_normal((n, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        A = affinities(X, perplexity, k)
    assert A.k == k_used
    np.testing.assert_allclose(A.matrix.sum(axis=1), k)
    assert (A.entropy >= 0).all()
    assert (np.diff(A.indptr) == n - 1).all()


@pytest.mark.parametrize(("n", "used"), [(2, "1"), (3, "2"), (6, "2"), (10, "3"), (50, "16.3333")])
def test_perplexity_too_large_is_reduced_with_a_warning(rng, n, used):
    X = rng.standard_normal((n, 2))
    with pytest.warns(UserWarning, match=f"perplexity=30 is too large for {n} rows: {used} is us"):
        P = single_choice(X, 30.0)
    np.testing.assert_allclose(perplexities(P), float(used), rtol=1e-5)


@pytest.mark.parametrize(("n", "k", "used"), [(2, 2, 1), (3, 2, 1), (9, 8, 7), (9, 1000, 7)])
def test_k_too_large_is_reduced_with_a_warning(rng, n, k, used):
    with pytest.warns(UserWarning, match=f"k={k} is too large for {n} rows, .* k={used} is used"):
        A = affinities(rng.standard_normal((n, 2)), 1.0, k)
    assert A.k == used
    np.testing.assert_allclose(A.matrix.sum(axis=1), used)


@pytest.mark.parametrize("metric", ["precomputed", "precomputed_affinities"])
@pytest.mark.parametrize("neighbours", [[3, 4, 11], [11], []])
def test_too_few_neighbours_in_a_graph(rng, path, metric, neighbours):
    graph = sp.random(30, 30, 0.9, format="lil", rng=rng)
    graph[11] = 0.0
    graph[11, neighbours] = 0.5
    count = max(0, len(neighbours) - 1)
    message = (
        rf"at least k=5 neighbours of positive weight. Got {count} for row 11 instead \(1 such"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=message):
            affinities(graph, 5.0, 5, metric=metric)


def test_a_graph_with_lists_shorter_than_the_perplexity(rng, path):
    """These rows have equal weights, and a warning counts them."""
    graph = sp.random(30, 30, 0.9, format="lil", rng=rng)
    graph[11] = 0.0
    graph[11, [3, 4, 9, 20]] = [0.5, 0.7, 0.1, 0.2]
    with pytest.warns(UserWarning, match=r"fewer neighbours than perplexity=5 \(1 of them\)"):
        P = affinities(graph, 5.0, 3, metric="precomputed").matrix.toarray()
    np.testing.assert_allclose(P[11, [3, 4, 9, 20]], 0.75)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"perplexity": 0.5}, r"'perplexity' parameter .* a float in \[1, inf\). Got 0.5 instead"),
        ({"perplexity": "30"}, r"'perplexity' parameter .* Got '30' instead"),
        ({"perplexity": np.nan}, r"'perplexity' parameter .* Got nan instead"),
        ({"k": 0}, r"'k' parameter of affinities must be an int in \[1, inf\). Got 0 instead"),
        ({"k": 2.0}, r"'k' parameter .* Got 2.0 instead"),
        ({"max_missing": 1.0}, r"'max_missing' parameter .* a float in \[0, 1\). Got 1.0 instead"),
        ({"search": "ball"}, r"'search' parameter .* among \['auto', .* Got 'ball' instead"),
        ({"metric": 3}, r"'metric' parameter .* a str or callable. Got 3 instead"),
        ({"metric": "precomputed"}, r"must be square for metric='precomputed'. Got shape \(30, 2"),
        ({"metric": lambda x, y: -1.0}, r"finite and not negative. Got -1.0..-1.0 instead"),
    ],
)
def test_bad_parameters(rng, options, message):
    with pytest.raises(ValueError, match=message):
        affinities(rng.standard_normal((30, 2)), **{"perplexity": 5.0, **options})


def test_bad_tables(rng):
    D = pairwise_distances(rng.standard_normal((30, 2)))
    D[2, 3] = -1.0
    for given in (D, sp.csr_array(D)):
        with pytest.raises(ValueError, match=r"not be negative for metric='precomputed'. Got -1.0"):
            affinities(given, 5.0, metric="precomputed")
    for bad, message in ((np.nan, "NaN"), (np.inf, "infinity")):
        D[2, 3] = bad
        with pytest.raises(ValueError, match=message):
            affinities(D, 5.0)
    with pytest.raises(ValueError, match=r"at least 2 rows. Got 1"):
        affinities(np.ones((1, 3)))
    with pytest.raises(ValueError, match=r"'k' parameter of affinities .* in \[1, 700\]. Got 900"):
        affinities(np.zeros((1000, 2)), 5.0, 900)


# Size


@pytest.mark.slow
def test_memory_of_many_rows_is_far_from_that_of_all_pairs():
    """In a process of its own, where nothing else is measured."""
    program = """
import tracemalloc, numpy as np
from vicinal.affinities import affinities
X = np.random.default_rng(0).standard_normal((6000, 9))
affinities(X[:600], 8.0)
for n, arrays in ((400, 16), (6000, 0.2)):
    tracemalloc.start()
    affinities(X[:n], 8.0, 5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < arrays * 8 * n * n, (n, peak / (8 * n * n))
"""
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)


def test_small_tables_compile_nothing():
    program = """
import sys, numpy as np
from vicinal.affinities import affinities
affinities(np.random.default_rng(0).standard_normal((500, 4)))
assert "numba" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
