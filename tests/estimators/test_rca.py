"""RCA: whitening of the scatter within classes, or within chunklets."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.linalg import eigh
from sklearn.datasets import load_digits, load_wine
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from vicinal import RCA


@pytest.fixture(scope="module")
def wine():
    return load_wine(return_X_y=True)


def within_scatter(X, groups):
    """S_W by its formula: mean outer product of deviations from the group's mean."""
    S, count = np.zeros((X.shape[1], X.shape[1])), 0
    for group in np.unique(groups[groups >= 0]):
        rows = X[groups == group]
        S += (rows - rows.mean(axis=0)).T @ (rows - rows.mean(axis=0))
        count += len(rows)
    return S / count


@pytest.mark.parametrize("scaling", ["standard", "global", None])
def test_metric_is_the_inverse_within_scatter(wine, scaling):
    X, y = wine
    model = RCA(scaling=scaling).fit(X, y)
    assert model.components_.shape == (13, 13)
    inverse = np.linalg.inv(within_scatter(X, y))
    np.testing.assert_allclose(model.get_mahalanobis_matrix(), inverse, rtol=1e-6, atol=1e-9)
    # and the distances are those of S_W^(-1/2)
    value, V = eigh(within_scatter(X, y))
    Z = X @ (V / np.sqrt(value)) @ V.T
    pairs = np.stack([X[:-1], X[1:]], axis=1)
    plain = np.linalg.norm(np.diff(Z, axis=0), axis=1)
    np.testing.assert_allclose(model.pair_distance(pairs), plain, rtol=1e-6)
    np.testing.assert_allclose(model.pair_score(pairs), -plain, rtol=1e-6)
    assert model.get_metric()(X[0], X[1]) == pytest.approx(plain[0], rel=1e-6)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_low_rank_is_the_top_of_the_generalised_eigenproblem(wine, d):
    X, y = wine
    model = RCA(d).fit(X, y)
    S, S_W = np.cov(X.T, bias=True), within_scatter(X, y)
    value, V = eigh(S, S_W)  # V' S_W V = I, ascending
    A = model.components_
    np.testing.assert_allclose(A @ S_W @ A.T, np.eye(d), atol=1e-6)
    # The ratio of total to within scatter is as large as any d directions can have it.
    kept = np.sum(np.diag(A @ S @ A.T))
    assert kept == pytest.approx(np.sum(value[-d:]), rel=1e-6)
    if d <= 2:  # past the number of class means all directions are alike
        np.testing.assert_allclose(A.T @ A, V[:, -d:] @ V[:, -d:].T, rtol=1e-5, atol=1e-8)


def test_low_rank_keeps_the_classes_apart():
    # The directions of least within-class variance, the top of S_W^(-1/2), would not.
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)
    model = make_pipeline(RCA(5, shrinkage=0.1), KNeighborsClassifier(5)).fit(X_train, y_train)
    assert model.score(X_test, y_test) > 0.85


def test_labels_are_chunklets_of_all_rows(wine):
    X, y = wine
    by_labels = RCA(3).fit(X, np.array(["a", "b", "c"])[y])
    by_chunks = RCA(3).fit(X, chunks=y)
    np.testing.assert_array_equal(by_labels.components_, by_chunks.components_)
    np.testing.assert_array_equal(RCA(3).fit(X, chunks=y * 7).components_, by_chunks.components_)
    Z = RCA(3).fit_transform(X, chunks=y)
    np.testing.assert_allclose(Z, X @ by_chunks.components_.T, rtol=1e-12)


def test_rows_in_no_chunklet_count_towards_the_total_only(wine):
    X, y = wine
    chunks = np.where(np.arange(len(y)) % 3, y, -1)
    inverse = np.linalg.inv(within_scatter(X, chunks))
    full = RCA().fit(X, chunks=chunks)
    np.testing.assert_allclose(full.get_mahalanobis_matrix(), inverse, rtol=1e-6, atol=1e-9)
    low = RCA(2).fit(X, chunks=chunks)
    np.testing.assert_allclose(
        low.components_ @ within_scatter(X, chunks) @ low.components_.T, np.eye(2), atol=1e-6
    )
    value = eigh(np.cov(X.T, bias=True), within_scatter(X, chunks), eigvals_only=True)
    kept = np.trace(low.components_ @ np.cov(X.T, bias=True) @ low.components_.T)
    assert kept == pytest.approx(value[-2:].sum(), rel=1e-6)


def test_one_group_is_whitening(wine):
    X, y = wine
    model = RCA().fit(X, 0 * y)
    np.testing.assert_allclose(np.cov(model.transform(X).T, bias=True), np.eye(13), atol=1e-6)


def test_columns_of_any_size(wine):
    X, y = wine
    units = 10.0 ** np.linspace(-8, 8, 13)
    for scaling in ("standard", "global", None):
        hard = RCA(2, scaling=scaling).fit(X * units, y)
        np.testing.assert_allclose(
            hard.components_ * units, RCA(2).fit(X, y).components_, rtol=1e-4, atol=1e-8
        )


@pytest.mark.parametrize("scaling", ["standard", "global", None])
def test_singular_scatter_is_shrunk_with_a_warning(wine, scaling):
    X, y = wine
    X = np.column_stack([X, X[:, 0], np.full(len(y), 3.0)])
    with pytest.warns(
        UserWarning, match=r"singular \(rank 13 of 14\).*'shrinkage' parameter of RCA"
    ):
        model = RCA(scaling=scaling).fit(X, y)
    assert np.isfinite(model.components_).all()
    np.testing.assert_array_equal(model.components_[:, -1], 0.0)
    few = slice(None, None, 20)
    with pytest.warns(UserWarning, match="singular") as caught:
        model = RCA(scaling=scaling).fit(X[few], y[few])
    assert np.isfinite(model.components_).all()
    assert caught[0].filename == __file__


def test_groups_of_one_row_say_nothing_within(wine):
    X, _ = wine
    with pytest.warns(UserWarning, match="rank 0 of 13"):
        model = RCA(2).fit(X, chunks=np.arange(len(X)))
    assert np.isfinite(model.components_).all()


def test_shrinkage_is_an_option(wine):
    X, y = wine
    plain, oas, half = (RCA(shrinkage=value).fit(X, y) for value in (None, "oas", 0.5))
    assert not np.allclose(plain.components_, oas.components_)
    # shrunk towards a multiple of the identity over the scaled columns
    S_W = within_scatter(X / X.std(axis=0), y)
    shrunk = 0.5 * S_W + 0.5 * np.trace(S_W) / 13 * np.eye(13)
    A = half.components_ * X.std(axis=0)
    np.testing.assert_allclose(A.T @ A, np.linalg.inv(shrunk), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "requires y to be passed, but the target y is None"),
        ({"y": [0, 1] * 5, "chunks": [0, 1] * 5}, "exactly one of y and 'chunks'"),
        ({"y": [0, 1] * 4}, "inconsistent numbers of samples"),
        ({"y": np.linspace(0, 1, 10)}, "Unknown label type"),
        ({"y": ["a", 1] * 5}, "labels y must all be of one type"),
        ({"y": [np.nan, 1] * 5}, "NaN"),
        ({"chunks": [0, 1] * 4}, "inconsistent numbers of samples"),
        ({"chunks": [0.5, 1] * 5}, "'chunks' parameter of RCA.fit must hold ints"),
        ({"chunks": ["a", "b"] * 5}, "'chunks' parameter of RCA.fit must hold ints"),
        ({"chunks": [-2, 1] * 5}, "ints of at least -1"),
        ({"chunks": [-1] * 10}, "at least one that is not negative"),
        ({"chunks": np.zeros((10, 2), int)}, "1d array"),
    ],
)
def test_wrong_groups_are_refused(rng, arguments, message):
    with pytest.raises(ValueError, match=message):
        RCA().fit(rng.normal(size=(10, 3)), **arguments)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"n_components": 4},
            r"'n_components' parameter of RCA must be an int in \[1, 3\] or None",
        ),
        ({"n_components": 0}, r"'n_components' .* Got 0 instead"),
        ({"shrinkage": 0}, r"'shrinkage' parameter of RCA must be .* Got 0 instead"),
        ({"shrinkage": "auto"}, r"'shrinkage' .* Got 'auto' instead"),
        ({"scaling": "robust"}, r"'scaling' parameter of RCA must be one of 'standard', 'global'"),
    ],
)
def test_wrong_parameters_are_refused(rng, parameters, message):
    with pytest.raises(ValueError, match=message):
        RCA(**parameters).fit(rng.normal(size=(10, 3)), [0, 1] * 5)


def test_constant_rows_are_refused():
    with pytest.raises(ValueError, match="no column that varies"):
        RCA().fit(np.ones((10, 3)), [0, 1] * 5)


def test_issue_14_chunklets_given_as_labels_are_noticed(wine):
    X, y = wine
    with pytest.warns(UserWarning, match="chunklets, with -1 for rows in none, pass them as chunk"):
        RCA().fit(X, np.where(np.arange(len(y)) % 2, y, -1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RCA().fit(X, np.where(y == 0, -1, 1))  # two classes, as many people write them
        RCA().fit(X, y)
