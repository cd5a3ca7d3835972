"""Affinities of new rows: each for itself, of the same weights, and twins are known."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from common.checks import assert_same_bits, set_threads
from formulas.ksne import set_marginals
from sklearn.metrics import pairwise_distances

from vicinal.affinities import affinities, new_affinities
from vicinal.models.equal_rows import EqualRows


def fields(A):
    return [A.indptr, A.indices, A.marginals, A.entropy, A.distances]


def rows(rng, n, d=4):
    return rng.standard_normal((n, d)), rng.standard_normal((23, d))


@pytest.mark.parametrize("k", [1, 4])
@pytest.mark.parametrize("n", [60, 700])
def test_new_rows_choose_as_known_rows_do(rng, n, k):
    """A new row among the known ones would have the same affinities, if they all kept theirs."""
    X, new = rows(rng, n)
    A = new_affinities(new, X, 7.0, k)
    assert A.matrix.shape == (23, n)
    for i in (0, 5):
        together = affinities(np.vstack([X, new[i]]), 7.0, k, max_missing=0.0)
        np.testing.assert_allclose(
            A.matrix[[i]].toarray()[0], together.matrix[[n]].toarray()[0, :n], atol=1e-12
        )
        assert A.entropy[i] == pytest.approx(together.entropy[n], abs=1e-11)
    d = pairwise_distances(new, X)
    i = np.repeat(np.arange(23), np.diff(A.indptr))
    np.testing.assert_allclose(A.distances, d[i, A.indices], rtol=1e-9)


@pytest.mark.parametrize("k", [1, 5])
def test_weights_have_the_perplexity(rng, k):
    X, new = rows(rng, 300)
    P = new_affinities(new, X, 11.0, 1, length=90).matrix.toarray()
    safe = np.where(P > 0, P, 1.0)
    np.testing.assert_allclose(np.exp(-np.sum(P * np.log(safe), axis=1)), 11.0, rtol=1e-9)
    with np.errstate(divide="ignore"):
        expected, _ = set_marginals(np.log(P), k)
    got = new_affinities(new, X, 11.0, k, length=90)
    np.testing.assert_allclose(got.matrix.toarray(), expected, atol=1e-10)


@pytest.mark.parametrize(
    ("n", "d", "metric"),
    [
        (300, 9, "euclidean"),
        (1000, 9, "euclidean"),
        (3000, 9, "euclidean"),
        (7000, 9, "euclidean"),
        (7000, 3, "euclidean"),
        (600, 3, "manhattan"),
        (600, 9, "cosine"),
    ],
)
@pytest.mark.parametrize("doubled", [False, True])
def test_each_row_for_itself(rng, monkeypatch, n, d, metric, doubled):
    """Alone, in company, in another order and on several threads: the same bits."""
    X, new = rows(rng, n, d)
    if doubled:
        X[n // 2 :] = X[: n // 2]
        new[:9] = X[:9] + 0.25
    options = {"length": 40, "metric": metric}
    together = fields(new_affinities(new, X, 9.0, 5, **options))
    set_threads(monkeypatch, 3)
    assert_same_bits(fields(new_affinities(new, X, 9.0, 5, **options)), together)
    order = rng.permutation(23)
    shuffled = fields(new_affinities(new[order], X, 9.0, 5, **options))
    for got, expected in zip(shuffled[1:3], together[1:3], strict=True):
        np.testing.assert_array_equal(got.reshape(23, 40), expected.reshape(23, 40)[order])
    alone = fields(new_affinities(new[4:5], X, 9.0, 5, **options))
    for got, expected in zip(alone[1:3], together[1:3], strict=True):
        np.testing.assert_array_equal(got, expected.reshape(23, 40)[4])


@pytest.mark.parametrize("n", [60, 700])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equal_rows_are_found(rng, n, kind, dtype):
    """Not multiples of a row, nor rows that differ by a rounding; -0.0 is 0.0."""
    X, new = rows(rng, n)
    X, new = X.astype(dtype), new.astype(dtype)
    X[33] = X[11]
    X[20, 1] = -0.0
    new[3], new[7], new[8], new[9] = X[20], X[11], 2 * X[12], np.nextafter(X[13], dtype(9))
    new[3, 1] = 0.0
    expected = np.full(23, -1)
    expected[3], expected[7] = 20, 11
    found = EqualRows(kind(X)).first(kind(new), kind(X))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("n", [60, 700, 3000])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equal_rows_have_the_distance_zero(rng, n, kind, dtype):
    """Whatever inner products would say, far from the origin; and no other rows have it."""
    X, new = rows(rng, n)
    X, new = (100 + X).astype(dtype), (100 + new).astype(dtype)
    new[7], new[9] = X[11], X[13] + dtype(0.01)
    A = new_affinities(kind(new), kind(X), 7.0, 3)
    nearest = A.indptr[:-1]
    assert A.indices[nearest[7]] == 11
    np.testing.assert_array_equal(A.distances[nearest] == 0, np.arange(23) == 7)


def test_given_distances_and_weights(rng):
    X, new = rows(rng, 60)
    new[4] = X[17]
    D = pairwise_distances(new, X)
    D[4, 17] = 0.0
    A = new_affinities(new, X, 7.0, 3)
    B = new_affinities(D, 60, 7.0, 3, metric="precomputed")
    np.testing.assert_allclose(A.matrix.toarray(), B.matrix.toarray(), atol=1e-9)
    np.testing.assert_array_equal(B.at_zero(), np.where(np.arange(23) == 4, 17, -1))
    graph = sp.csr_array(np.where(D < np.sort(D, axis=1)[:, 30:31], D + 1e-9, 0.0))
    C = new_affinities(graph, 60, 7.0, 3, metric="precomputed")
    near = new_affinities(D, 60, 7.0, 3, length=30, metric="precomputed")
    np.testing.assert_allclose(C.matrix.toarray(), near.matrix.toarray(), atol=1e-6)
    W = rng.random((23, 60))
    P, _ = set_marginals(np.log(W), 3)
    E = new_affinities(W, 60, 7.0, 3, metric="precomputed_affinities")
    np.testing.assert_allclose(E.matrix.toarray(), P, atol=1e-12)


def test_few_known_rows(rng):
    """As few as there are: k is at most their number."""
    X, new = rows(rng, 3)
    A = new_affinities(new, X, 1.5, 5)
    assert A.k == 3
    np.testing.assert_allclose(A.marginals, 1.0)
    np.testing.assert_allclose(A.entropy, 0.0, atol=1e-12)


def test_bad_tables(rng):
    X, new = rows(rng, 60)
    with pytest.raises(ValueError, match=r"X must have 4 columns. Got 3 instead"):
        new_affinities(new[:, :3], X, 7.0, 3)
    with pytest.raises(ValueError, match=r"X must have 60 columns. Got 4 instead"):
        new_affinities(new, 60, 7.0, 3, metric="precomputed")
    W = np.ones((5, 60))
    W[2] = 0.0
    with pytest.raises(ValueError, match=r"at least k=3 neighbours .* Got 0 for row 2 instead"):
        new_affinities(W, 60, 7.0, 3, metric="precomputed_affinities")
