"""Covariance: the inverse, the pseudo-inverse, and metric-learn's matrix."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import pdist, squareform
from sklearn.datasets import load_wine

from vicinal import Covariance

STORED = json.loads(
    Path(__file__).parents[1].joinpath("data").joinpath("metric_learn_facts.json").read_text()
)


@pytest.fixture(scope="module")
def X():
    return load_wine(return_X_y=True)[0]


def test_metric_is_the_inverse_of_the_covariance(X):
    model = Covariance().fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        inverse = np.linalg.inv(np.cov(X.T))
    np.testing.assert_allclose(model.get_mahalanobis_matrix(), inverse, rtol=1e-6, atol=1e-9)
    pairs = np.stack([X[:-1], X[1:]], axis=1)
    expected = np.diag(squareform(pdist(X, "mahalanobis")), 1)
    np.testing.assert_allclose(model.pair_distance(pairs), expected, rtol=1e-8)
    Z = model.transform(X)
    np.testing.assert_allclose(np.cov(Z.T), np.eye(13), atol=1e-9)


def test_is_the_metric_of_metric_learn():
    (case,) = [fit for fit in STORED["fits"] if fit["class"] == "Covariance"]
    model = Covariance().fit(np.array(STORED["data"]["X"]))
    np.testing.assert_allclose(model.get_mahalanobis_matrix(), case["M"], rtol=1e-8, atol=1e-10)


def test_singular_covariance_uses_the_pseudo_inverse(X):
    """Distances of training rows do not depend on which inverse is taken."""
    wide = np.column_stack([X, X[:, 0] - 2 * X[:, 1], np.full(len(X), 3.0)])
    with pytest.warns(UserWarning, match="singular .rank 13 of 15"):
        model = Covariance().fit(wide)
    assert np.isfinite(model.components_).all()
    pairs = np.stack([np.arange(9), np.arange(1, 10)], axis=1)
    np.testing.assert_allclose(
        model.pair_distance(wide[pairs]), Covariance().fit(X).pair_distance(X[pairs]), rtol=1e-6
    )
    M, C = model.get_mahalanobis_matrix(), np.cov(wide.T)
    np.testing.assert_allclose(C @ M @ C, C, rtol=1e-6, atol=1e-6 * np.abs(C).max())


def test_fewer_rows_than_columns(X):
    with pytest.warns(UserWarning, match="singular .rank 5 of 13"):
        model = Covariance().fit(X[:6])
    # every row is as far from every other
    distances = pdist(model.transform(X[:6]))
    np.testing.assert_allclose(distances, np.sqrt(10), rtol=1e-6)


def test_needs_no_labels_and_ignores_them(X):
    one = Covariance().fit(X).components_
    np.testing.assert_array_equal(one, Covariance().fit(X, np.arange(len(X))).components_)
    np.testing.assert_allclose(Covariance().fit(sp.csr_array(X)).components_, one, rtol=1e-8)
    assert Covariance().fit(X[:, :1]).components_[0, 0] == pytest.approx(1 / X[:, 0].std(ddof=1))


def test_refuses_what_has_no_covariance(X):
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        Covariance().fit(X[:1])
    with pytest.raises(ValueError, match="no column that varies"):
        Covariance().fit(np.ones((5, 2)))


def test_factors_beyond_float64_are_refused(X):
    X = X[:, :2] / X[:, :2].std(axis=0)
    twins = X @ [[1, 1], [0, 1e-4]]  # a factor of 1e4 tells them apart
    tiny = 2.0**-980 * twins
    np.testing.assert_allclose(
        Covariance().fit(tiny).transform(tiny), Covariance().fit(twins).transform(twins), rtol=1e-9
    )
    with pytest.raises(
        ValueError, match=r"Column [01] of X varies too little .* at most 1.8e\+308"
    ):
        Covariance().fit(2.0**-1012 * twins)


def test_the_matrix_is_in_float64_where_float32_ends(X):
    X = (2.0**-80 * X).astype(np.float32)
    M = Covariance().fit(X.astype(np.float64)).get_mahalanobis_matrix()
    model = Covariance().fit(X)
    assert model.components_.dtype == np.float32
    single = model.get_mahalanobis_matrix()
    assert single.dtype == np.float64
    np.testing.assert_allclose(single, M, rtol=1e-4, atol=1e-5 * np.abs(M).max())
    tiny = Covariance().fit(2.0**-800 * X.astype(np.float64))
    with pytest.raises(ValueError, match=r"matrix .* beyond float64: .* must be below 1.3e\+154"):
        tiny.get_mahalanobis_matrix()
