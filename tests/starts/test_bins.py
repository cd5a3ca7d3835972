"""Starts for histograms, and what makes histograms of rows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from common.histograms import as_histograms, assert_on_simplex, counts
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy.special import softmax

from vicinal._features import Features
from vicinal._validation import histograms
from vicinal.estimators._metric import chi2
from vicinal.metrics import chi2_distances
from vicinal.starts import (
    AutoBins,
    BinGroups,
    BinIdentity,
    GivenBins,
    RandomBins,
    resolve_bins,
)


def features(X):
    return Features.as_they_are(histograms(X, True))


def begin(start, X, y, r, seed=0):
    return start(features(X), y, r, np.random.RandomState(seed))


# Starts


@pytest.mark.parametrize("r", [3, 8])
def test_the_identity_is_that_of_the_report(rng, r):
    L = begin(BinIdentity(), *counts(rng), r)
    np.testing.assert_allclose(L[:, :r], softmax(10 * np.eye(r) + 0.01, axis=0), rtol=1e-12)
    np.testing.assert_allclose(L[:, r:], 1 / r)


def test_auto_groups_only_where_bins_must_go(rng):
    X, y = counts(rng)
    np.testing.assert_array_equal(begin(AutoBins(), X, y, 8), begin(BinIdentity(), X, y, 8))
    np.testing.assert_array_equal(begin(AutoBins(), X, y, 3), begin(BinGroups(), X, y, 3))


def test_random_columns_are_even_over_the_simplex(rng):
    X, y = counts(rng, 6, 4000)
    L = begin(RandomBins(), X, y, 3)
    np.testing.assert_allclose(L.mean(axis=1), 1 / 3, atol=0.02)
    np.testing.assert_allclose(L.var(axis=1), 1 / 18, atol=0.005)  # of a Dirichlet of ones
    assert not np.array_equal(L, begin(RandomBins(), X, y, 3, seed=1))


@pytest.mark.parametrize("sharpness", [5.0, 1e6])
def test_bins_of_the_same_classes_go_together(rng, sharpness):
    """Bin f is of class f mod 3, and so of group f mod 3, whatever its mass."""
    X, y = counts(rng, 300, 12, contrast=10.0)
    X *= np.logspace(-0.5, 0.5, 12)
    for seed in range(5):
        L = begin(BinGroups(sharpness), X, y, 3, seed)
        group = L.argmax(axis=0)
        assert len(set(group[:3])) == 3
        np.testing.assert_array_equal(group, np.tile(group[:3], 4))
        if sharpness > 5:
            np.testing.assert_allclose(L, np.eye(3)[group].T, atol=1e-9)


def test_more_groups_than_kinds_of_bins(rng):
    """Bins of two kinds, and an empty one, in six groups of which some are alike."""
    y = np.arange(40) % 2
    X = np.where(np.arange(7) % 2 == y[:, None], 3.0, 1.0)
    X[:, 6] = 0.0
    for r in (3, 6, 7):
        L = begin(BinGroups(), X, y, r)
        assert_on_simplex(L)
        np.testing.assert_allclose(L[:, 0], L[:, 2], atol=1e-12)
        assert abs(L[:, 0] - L[:, 1]).max() > 0.05


def test_classes_count_alike(rng):
    """The shares of classes in a bin do not change where one class has ten times the rows."""
    X, y = counts(rng, 60, 9)
    more = np.concatenate([np.arange(60), np.repeat(np.flatnonzero(y == 1), 9)])
    L, M = begin(BinGroups(), X, y, 3), begin(BinGroups(), X[more], y[more], 3)
    np.testing.assert_allclose(M, L, atol=1e-9)


def test_a_class_without_rows_does_no_harm(rng):
    X, y = counts(rng)
    assert_on_simplex(begin(BinGroups(), X, 2 * y, 3))  # codes 0, 2, 4: others are held out


def test_values_of_init():
    for name, start in (("auto", AutoBins), ("groups", BinGroups), ("identity", BinIdentity),
                        ("random", RandomBins)):  # fmt: skip
        assert isinstance(resolve_bins(name), start)
    part = BinGroups(2.0)
    assert resolve_bins(part) is part
    assert isinstance(resolve_bins([[1.0]]), GivenBins)
    with pytest.raises(ValueError, match=r"'init' parameter of Chi2LMNN must be one of .* Got 3"):
        resolve_bins(3)
    with pytest.raises(ValueError, match=r"'sharpness' parameter of BinGroups .* Got -1"):
        BinGroups(-1)
    with pytest.raises(ValueError, match=r"'n_init' parameter of RandomBins .* Got 0"):
        RandomBins(0)


# Rows as histograms

numbers = st.floats(0, 1e200) | st.floats(0, 10) | st.sampled_from([0.0, 1e-200, 5e-324, 1e308])


@given(
    arrays(np.float64, array_shapes(min_dims=2, max_dims=2, max_side=7), elements=numbers),
    st.booleans(),
)
def test_rows_sum_to_one_whatever_they_were(X, sparse):
    given = sp.csr_array(X) if sparse else X.copy()
    H = histograms(given, True)
    assert sp.issparse(H) == sparse
    H = H.toarray() if sparse else H
    assert (H >= 0).all()
    np.testing.assert_allclose(H.sum(axis=1), 1.0, atol=1e-14)
    np.testing.assert_allclose(H[X.max(axis=1) == 0], 1 / X.shape[1])
    # shares are kept, those that a float has room for
    top = X.max(axis=1, keepdims=True)
    shares = np.divide(X, top, out=np.ones_like(X), where=top > 0)
    np.testing.assert_allclose(H, shares / shares.sum(axis=1, keepdims=True), rtol=1e-14)
    np.testing.assert_array_equal(given.toarray() if sparse else given, X)


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200, 1e307])
@pytest.mark.parametrize("sparse", [False, True])
def test_huge_and_tiny_rows(rng, scale, sparse):
    X = counts(rng)[0]
    X[3] = 0.0
    wrap = sp.csr_array if sparse else np.asarray
    H = histograms(wrap(X * scale), True)
    H = H.toarray() if sparse else H
    np.testing.assert_allclose(H, as_histograms(X), rtol=1e-13)


@pytest.mark.parametrize("sparse", [False, True])
def test_float32_rows(rng, sparse):
    X = counts(rng)[0].astype(np.float32)
    X[3] = 0.0
    H = histograms((sp.csr_array if sparse else np.asarray)(X * np.float32(1e37)), True)
    assert H.dtype == np.float32
    H = H.toarray() if sparse else H
    np.testing.assert_allclose(H, as_histograms(X.astype(np.float64)), rtol=1e-6)


def test_zeros_that_are_stored_are_no_mass():
    X = sp.csr_array(np.array([[1.0, 2.0, 3.0], [1.0, 1.0, 1.0]]))
    X.data[3:] = 0.0
    np.testing.assert_allclose(histograms(X, True).toarray()[1], 1 / 3)


def test_sums_that_only_rounding_changes_are_accepted(rng):
    H = as_histograms(counts(rng)[0])
    for rows in (H, H.astype(np.float32), H.round(5), sp.csr_array(H)):
        assert histograms(rows, False) is rows
    with pytest.raises(ValueError, match=r"Row 2 sums to 1\.001"):
        histograms(H * np.where(np.arange(60) == 2, 1.001, 1.0)[:, None], False)


def test_chi2_of_pairs_is_that_of_all(rng):
    H = as_histograms(counts(rng)[0])
    np.testing.assert_allclose(chi2(H[:-1], H[1:]), np.diag(chi2_distances(H), 1), rtol=1e-12)
    assert chi2(np.zeros(3), np.zeros(3)) == 0.0
