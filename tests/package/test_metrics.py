"""Chi-squared distances and searches: against the formula, scikit-learn, and themselves."""

from __future__ import annotations

import tracemalloc

import formulas
import numpy as np
import pytest
import scipy.sparse as sp
from common.engines import engine  # noqa: F401
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics.pairwise import additive_chi2_kernel
from threadpoolctl import threadpool_limits

from vicinal.engines.cpu import margins as _margins
from vicinal.metrics import Chi2Index, chi2_distances

nojit = pytest.mark.nojit
each_dtype = pytest.mark.parametrize("dtype", [np.float32, np.float64])
TOLERANCE = {np.float32: 2e-6, np.float64: 1e-14}


def histograms(rng, n, d, dtype=np.float64):
    """Rows on the simplex with a third of the bins empty."""
    X = rng.gamma(0.5, size=(n, d)) * (rng.uniform(size=(n, d)) < 0.67)
    X[:, 0] += 1e-3
    return (X / X.sum(axis=1, keepdims=True)).astype(dtype)


def plain(X, Y):
    return np.array([[formulas.chi2(x, y)[0] for y in Y] for x in X])


@nojit
@each_dtype
@pytest.mark.parametrize("d", [1, 2, 7, 20])
def test_matches_reference(rng, d, dtype):
    X, Y = histograms(rng, 9, d, dtype), histograms(rng, 7, d, dtype)
    for got, expected in [
        (chi2_distances(X, Y), plain(X, Y)),
        (chi2_distances(X), plain(X, X)),
        (chi2_distances(X, Y[:1]), plain(X, Y[:1])),
    ]:
        assert got.dtype == dtype
        np.testing.assert_allclose(got, expected, rtol=10 * TOLERANCE[dtype], atol=TOLERANCE[dtype])


@each_dtype
def test_is_minus_half_of_scikit_learns_kernel(rng, dtype):
    X, Y = histograms(rng, 150, 90, dtype), histograms(rng, 201, 90, dtype)
    theirs = -0.5 * additive_chi2_kernel(X.astype(np.float64), Y.astype(np.float64))
    np.testing.assert_allclose(chi2_distances(X, Y), theirs, atol=TOLERANCE[dtype])
    counts = rng.poisson(3.0, (30, 12))  # integers, and not on the simplex
    ours = chi2_distances(counts)
    assert ours.dtype == np.float64
    np.testing.assert_allclose(ours, -0.5 * additive_chi2_kernel(counts), rtol=1e-13)


@nojit
@each_dtype
def test_symmetric_to_the_bit(rng, dtype, monkeypatch):
    monkeypatch.setattr(_margins, "_ROWS", 5)
    monkeypatch.setattr(_margins, "_TILE", 200)
    X = histograms(rng, 23, 6, dtype)
    X[4] = X[19]
    distances = chi2_distances(X)
    np.testing.assert_array_equal(distances, distances.T)
    np.testing.assert_array_equal(np.diag(distances), 0)
    assert distances[4, 19] == 0
    np.testing.assert_array_equal(
        np.delete(distances[4], [4, 19]), np.delete(distances[19], [4, 19])
    )
    off = distances[~np.eye(23, dtype=bool)]
    assert np.count_nonzero(off == 0) == 2
    np.testing.assert_allclose(distances, chi2_distances(X, X), atol=TOLERANCE[dtype])


@nojit
def test_by_hand():
    X = [[0.2, 0.8, 0.0], [0.0, 0.0, 1.0]]
    Y = [[0.6, 0.4, 0.0]]
    np.testing.assert_allclose(chi2_distances(X, Y), [[1 / 6], [1.0]], rtol=1e-15)
    np.testing.assert_array_equal(chi2_distances(np.zeros((2, 3))), 0)


@nojit
def test_small_and_large_scales(rng):
    """Twice as much is twice as far, as long as the squares of the bins are floats."""
    X = histograms(rng, 5, 4)
    expected = chi2_distances(X)
    for scale in [2.0**-400, 2.0**400]:
        np.testing.assert_allclose(chi2_distances(scale * X) / scale, expected, rtol=1e-14)
    single = X.astype(np.float32)
    for scale in [np.float32(2.0**-40), np.float32(2.0**40)]:
        np.testing.assert_allclose(
            chi2_distances(scale * single) / scale, expected, rtol=1e-4, atol=1e-6
        )


@each_dtype
def test_same_bits_for_any_blocks_and_threads(rng, dtype, monkeypatch):
    X, Y = histograms(rng, 301, 33, dtype), histograms(rng, 177, 33, dtype)

    def everything():
        return [chi2_distances(X), chi2_distances(X, Y), *Chi2Index(Y).kneighbors(X, 7),
                *Chi2Index(X).kneighbors(n_neighbors=4)]  # fmt: skip

    expected = everything()
    with threadpool_limits(1):
        results = [everything()]
    for rows, tile in [(1, 1), (17, 5000), (1000, 2**30)]:
        monkeypatch.setattr(_margins, "_ROWS", rows)
        monkeypatch.setattr(_margins, "_TILE", tile)
        results.append(everything())
    for result in results:
        for one, other in zip(result, expected, strict=True):
            np.testing.assert_array_equal(one, other)


@given(
    arrays(
        np.float64, st.tuples(st.integers(1, 9), st.integers(1, 6)),
        elements=st.floats(0, 1) | st.sampled_from([0.0, 0.5, 1.0]),
    )
)  # fmt: skip
def test_any_histograms(X):
    distances = chi2_distances(X)
    np.testing.assert_allclose(distances, plain(X, X), rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(distances, distances.T)
    roots = np.sqrt(distances)  # a metric
    assert (roots[:, :, None] <= roots[:, None, :] + roots.T[None] + 1e-7).all()


# The search.


@nojit
@each_dtype
def test_nearest_are_those_of_a_stable_sort(rng, dtype):
    Y = histograms(rng, 26, 5, dtype)
    Y[[3, 8, 25]] = Y[11]  # ties, the last of them in an incomplete group of four
    X = np.concatenate([histograms(rng, 11, 5, dtype), Y[11:12]])
    table = chi2_distances(X, Y)
    order = np.argsort(table, axis=1, kind="stable")
    for k in [1, 3, 26]:
        distances, near = Chi2Index(Y).kneighbors(X, k)
        assert (distances.dtype, near.dtype) == (dtype, np.int64)
        np.testing.assert_array_equal(near, order[:, :k])
        np.testing.assert_array_equal(distances, np.take_along_axis(table, near, axis=1))
    assert near[-1, :4].tolist() == [3, 8, 11, 25]
    np.testing.assert_array_equal(Chi2Index(Y).kneighbors(X, 3, return_distance=False), near[:, :3])


@nojit
def test_a_row_is_not_its_own_neighbour(rng):
    X = histograms(rng, 15, 4)
    X[9] = X[2]
    table = chi2_distances(X)
    np.fill_diagonal(table, np.inf)
    distances, near = Chi2Index(X).kneighbors(n_neighbors=14)
    assert not (near == np.arange(15)[:, None]).any()
    assert (near[9, 0], near[2, 0]) == (2, 9)  # a duplicate is
    np.testing.assert_allclose(distances, np.sort(table, axis=1)[:, :14], atol=1e-15)
    # but in X it is found
    assert (Chi2Index(X[:2]).kneighbors(X[:2], 1)[1][:, 0] == [0, 1]).all()


def test_memory_does_not_grow_with_the_pairs(rng):
    X = histograms(rng, 3000, 8, np.float32)
    index = Chi2Index(X)
    index.kneighbors(X[:10], 3)
    tracemalloc.start()
    index.kneighbors(n_neighbors=3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20  # of 36 MB of distances


# What is refused.


def test_bad_input(rng):
    X = histograms(rng, 6, 3)
    bad = X.copy()
    bad[4, 1] = -0.25
    words = r"must hold histograms without negative entries. Row 4 has -0.25"
    with pytest.raises(ValueError, match=f"X {words}"):
        chi2_distances(bad)
    with pytest.raises(ValueError, match=f"Y {words}"):
        chi2_distances(X, bad)
    with pytest.raises(ValueError, match=f"points {words}"):
        Chi2Index(bad)
    with pytest.raises(ValueError, match=f"X {words}"):
        Chi2Index(X).kneighbors(bad, 2)
    with pytest.raises(ValueError, match=r"Y must have as many columns as X, 3. Got 2 instead"):
        chi2_distances(X, X[:, :2])
    with pytest.raises(ValueError, match=r"X must have as many columns as the points, 3. Got 2"):
        Chi2Index(X).kneighbors(X[:, :2], 1)
    bad[4, 1] = np.nan
    with pytest.raises(ValueError, match="X contains NaN"):
        chi2_distances(bad)
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        chi2_distances(sp.csr_matrix(X))
    for k, most in [(0, 6), (7, 6), (2.5, 6)]:
        with pytest.raises(
            ValueError, match=rf"'n_neighbors' .* in \[1, {most}\]. Got {k} instead"
        ):
            Chi2Index(X).kneighbors(X, k)
    with pytest.raises(ValueError, match=r"in \[1, 5\]. Got 6 instead"):
        Chi2Index(X).kneighbors(n_neighbors=6)


def test_mixed_precision_and_layout(rng):
    X, Y = histograms(rng, 6, 3), histograms(rng, 4, 3, np.float32)
    assert chi2_distances(X, Y).dtype == np.float64
    assert Chi2Index(Y).kneighbors(X, 2)[0].dtype == np.float64
    np.testing.assert_array_equal(chi2_distances(np.asfortranarray(X)), chi2_distances(X))
    np.testing.assert_array_equal(chi2_distances(X[::2]), chi2_distances(X)[::2, ::2])


@each_dtype
def test_issue_14_small_rows_do_not_underflow(rng, engine, dtype):  # noqa: F811
    X, least = histograms(rng, 9, 7), 1e-30 if dtype == np.float32 else 1e-250
    small = (least * X).astype(dtype)
    np.testing.assert_allclose(
        chi2_distances(small).astype(np.float64) / least, plain(X, X), rtol=2e-5, atol=1e-6
    )
    near = Chi2Index(small).kneighbors(n_neighbors=2, return_distance=False)
    np.testing.assert_array_equal(near, Chi2Index(X).kneighbors(n_neighbors=2)[1])
