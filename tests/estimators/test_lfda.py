"""LFDA: the formula by brute force, metric-learn's directions, duplicates, singular scatters."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.spatial.distance import cdist, pdist
from sklearn.datasets import load_wine
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from vicinal import LFDA, RCA
from vicinal.estimators import lfda

STORED = json.loads(
    Path(__file__).parents[1].joinpath("data").joinpath("metric_learn_facts.json").read_text()
)


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return StandardScaler().fit_transform(X)[::2], y[::2]


def scales(X, y, k=7):
    """The distance of each row to its k-th neighbour in the class."""
    own = [np.flatnonzero(y == label) for label in y]
    rows = [np.sort(np.linalg.norm(X[o] - x, axis=1)) for o, x in zip(own, X, strict=True)]
    return np.array([row[min(k, len(row) - 1)] for row in rows])


def by_pairs(X, y, sigma):
    """S_w and S_b by the formula, pair by pair."""
    n = len(X)
    S_w, S_b = np.zeros((2, X.shape[1], X.shape[1]))
    for i in range(n):
        for j in range(n):
            outer = np.outer(X[i] - X[j], X[i] - X[j]) / 2
            if y[i] != y[j]:
                S_b += outer / n
                continue
            n_c = np.sum(y == y[i])
            scale = sigma[i] * sigma[j]
            a = np.exp(-np.sum((X[i] - X[j]) ** 2) / scale) if scale > 0 else 0.0
            S_w += a / n_c * outer
            S_b += a * (1 / n - 1 / n_c) * outer
    return S_w, S_b


@pytest.mark.parametrize("k", [2, 7, 200])
@pytest.mark.parametrize("d", [2, 13])
def test_matches_the_formula_pair_by_pair(wine, k, d, monkeypatch):
    monkeypatch.setattr(lfda, "_PAIRS", 300)  # several blocks
    X, y = wine
    S_w, S_b = by_pairs(X, y, scales(X, y, k))
    values, V = eigh(S_b, S_w)
    values, V = values[::-1][:d], V[:, ::-1][:, :d]
    plain = LFDA(d, k=k, embedding="plain", scaling=None).fit(X, y)
    np.testing.assert_allclose(plain.eigenvalues_, values, rtol=1e-8)
    np.testing.assert_allclose(plain.get_mahalanobis_matrix(), V @ V.T, rtol=1e-6, atol=1e-8)
    A = plain.components_
    np.testing.assert_allclose(A @ S_w @ A.T, np.eye(d), atol=1e-8)
    weighted = LFDA(d, k=k, scaling=None).fit(X, y).components_
    np.testing.assert_allclose(weighted, np.sqrt(np.maximum(values, 0))[:, None] * A, atol=1e-8)
    Q = LFDA(d, k=k, embedding="orthonormalized", scaling=None).fit(X, y).components_
    np.testing.assert_allclose(Q @ Q.T, np.eye(d), atol=1e-10)
    np.testing.assert_allclose(A @ Q.T @ Q, A, atol=1e-8)  # the same span


def metric_learn_scales(X, y, k):
    """What metric-learn takes for them: ``np.partition(d, k, axis=0)[:, k]`` is a column.

    It holds distances to row k of the class, not distances of each row to its k-th neighbour.
    """
    sigma = np.empty(len(X))
    for label in np.unique(y):
        d2 = cdist(X[y == label], X[y == label], "sqeuclidean")
        sigma[y == label] = np.sqrt(np.partition(d2, k, axis=0)[:, k])
    return sigma


@pytest.mark.parametrize("case", [fit for fit in STORED["fits"] if fit["class"] == "LFDA"],
                         ids=lambda fit: fit["keywords"]["embedding_type"])  # fmt: skip
def test_metric_learn_differs_by_two_slips_alone(case):
    """Wrong scales, and S_w added where it is to be subtracted: eigenvalues larger by 2."""
    X, y = np.array(STORED["data"]["X"]), np.array(STORED["data"]["y"])
    d, k, embedding = (case["keywords"][key] for key in ("n_components", "k", "embedding_type"))
    for sigma, equal in [(metric_learn_scales(X, y, k), True), (scales(X, y, k), False)]:
        S_w, S_b = by_pairs(X, y, sigma)
        values, V = eigh(S_b, S_w)
        values, V = values[::-1][:d], V[:, ::-1][:, :d]
        if embedding == "weighted":
            V = V * np.sqrt(values + 2)
        elif embedding == "orthonormalized":
            V = np.linalg.qr(V)[0]
        assert np.allclose(V @ V.T, case["M"], rtol=1e-6, atol=1e-9) == equal
    # and the right scales are ours
    ours = LFDA(d, k=k, embedding="plain", scaling=None).fit(X, y)
    np.testing.assert_allclose(ours.eigenvalues_, values, rtol=1e-8)


def test_scaling_is_folded_into_the_map():
    X, y = load_wine(return_X_y=True)
    Z = StandardScaler().fit_transform(X)
    folded, plain = LFDA(3).fit(X, y), LFDA(3, scaling=None).fit(Z, y)
    np.testing.assert_allclose(
        folded.transform(X - X.mean(axis=0)), plain.transform(Z), rtol=1e-8, atol=1e-8
    )


def test_keeps_the_modes_of_a_class_apart():
    """A class on both sides of another: LDA, which brings it together, sees nothing."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 0], 40)
    X = np.column_stack([np.repeat([-4.0, 0.0, 4.0], 40), 3 * rng.standard_normal(120)])
    X += 0.5 * rng.standard_normal(X.shape)
    vote = KNeighborsClassifier(5)
    local = cross_val_score(make_pipeline(LFDA(1, scaling=None), vote), X, y, cv=5).mean()
    whole = cross_val_score(make_pipeline(RCA(1, scaling=None), vote), X, y, cv=5).mean()
    assert local > 0.97
    assert whole < 0.9


def test_duplicates_take_the_nearest_other_row(wine):
    X, y = wine
    X, y = np.repeat(X, 9, axis=0), np.repeat(y, 9)
    model = LFDA(2, scaling=None).fit(X, y)  # seven neighbours at distance zero
    assert np.isfinite(model.components_).all()
    once = LFDA(2, k=1, scaling=None).fit(*wine)
    # all sums are over 81 times as many pairs, and classes of 9 times as many rows
    np.testing.assert_allclose(3 * model.components_, once.components_, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("shape", ["wide", "constant within"])
def test_singular_scatter_is_shrunk_with_a_warning(shape, wine):
    rng = np.random.default_rng(0)
    X, y = wine
    if shape == "wide":
        X, y = rng.standard_normal((20, 50)), np.arange(20) % 2
    else:
        X = np.column_stack([X, 2.0 * y])
    with pytest.warns(UserWarning, match="within classes is singular .* parameter of LFDA") as seen:
        model = LFDA().fit(X, y)
    assert len(seen) == 1
    assert np.isfinite(model.components_).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LFDA(shrinkage="oas").fit(X, y)
        LFDA(shrinkage=0.3).fit(X, y)


def test_wide_rows_equal_their_coordinates_in_the_span():
    """More columns than rows: the same distances as those of a rotated, smaller table."""
    rng = np.random.default_rng(1)
    y = np.arange(24) % 3
    small = rng.standard_normal((24, 5)) + rng.standard_normal((3, 5))[y]
    wide = small @ np.linalg.qr(rng.standard_normal((30, 5)))[0].T
    narrow = LFDA(3, scaling=None).fit(small, y)
    model = LFDA(3, scaling=None).fit(wide, y)
    assert model.components_.shape == (3, 30)
    np.testing.assert_allclose(
        pdist(model.transform(wide)), pdist(narrow.transform(small)), rtol=1e-6
    )


def test_classes_of_one_row_only_push(wine):
    X, y = wine
    y = y.copy()
    y[0] = 9
    rest, labels = np.delete(X, 0, axis=0), np.delete(y, 0)
    S_w, _ = by_pairs(rest, labels, scales(rest, labels))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        A = LFDA(2, embedding="plain", scaling=None).fit(X, y).components_
    np.testing.assert_allclose(A @ S_w @ A.T, np.eye(2), atol=1e-8)


def test_equal_rows_in_every_class_leave_the_means():
    X = np.repeat([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]], 5, axis=0)
    with pytest.warns(UserWarning, match="singular"):
        model = LFDA(2).fit(X, np.repeat([0, 1, 2], 5))
    assert np.linalg.matrix_rank(model.components_) == 2


def test_parameters_are_checked(wine):
    X, y = wine
    for keywords, message in [
        ({"k": 0}, r"'k' parameter of LFDA must be an int in \[1, inf\). Got 0"),
        ({"embedding": "flat"}, "'embedding' parameter of LFDA must be one of 'weighted', 'ortho"),
        ({"n_components": 14}, r"'n_components' parameter of LFDA must be an int in \[1, 13\]"),
        ({"shrinkage": 2}, "'shrinkage' parameter of LFDA must be None, 'oas' or a float"),
    ]:
        with pytest.raises(ValueError, match=message):
            LFDA(**keywords).fit(X, y)
