"""Starts: against plain formulas, against scikit-learn, and by name."""

import warnings

import numpy as np
import pytest
from common.starts import (
    Rows,
    clean_rows,  # noqa: F401 (fixture)
    plain_scatter,
    projector,
    random_state,  # noqa: F401 (fixture)
)
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.decomposition import PCA as SklearnPCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from vicinal.starts import (
    LDA,
    PCA,
    RCA,
    Auto,
    Given,
    Identity,
    Random,
    Whiten,
    resolve,
    scatter,
    spectral,
)

# Scatter


@pytest.mark.parametrize("weighted", [False, True])
def test_scatter_matches_plain_formula(clean, rng, weighted):
    X, y = clean
    v = rng.uniform(0.1, 3, size=len(y)) if weighted else None
    S, S_W = plain_scatter(X.X, y, v)
    found = scatter(X, y, y.max() + 1, v)
    assert_allclose(found.total, S, atol=1e-13)
    assert_allclose(found.within, S_W, atol=1e-13)
    assert_allclose(found.deviations.T @ found.deviations, S - S_W, atol=1e-13)
    counts = np.bincount(y, weights=v)
    assert_allclose(found.counts, counts)
    for c in range(y.max() + 1):
        mean = np.average(X.X[y == c], axis=0, weights=None if v is None else v[y == c])
        assert_allclose(found.means[c], mean, atol=1e-13)


def test_scatter_keeps_its_digits_when_classes_are_far_apart(rng):
    noise = rng.normal(size=(60, 3))
    y = np.arange(60) % 3
    X = Rows(noise + 1e7 * y[:, None], scaling=False)
    _, S_W = plain_scatter(noise, y)
    assert_allclose(scatter(X, y, 3).within, S_W, rtol=1e-7, atol=1e-8)


def test_scatter_with_zero_weight_equals_scatter_without_the_row(clean):
    X, y = clean
    v = np.ones(len(y))
    v[::3] = 0
    rest = Rows(X.X[v > 0], scaling=False)
    a, b = scatter(X, y, y.max() + 1, v), scatter(rest, y[v > 0], y.max() + 1)
    assert_allclose(a.total, b.total, atol=1e-13)
    assert_allclose(a.within, b.within, atol=1e-13)


def test_scatter_of_an_absent_class_is_finite(clean):
    X, y = clean
    found = scatter(X, y, y.max() + 3)
    assert all(np.isfinite(part).all() for part in found)
    assert_array_equal(found.counts[-2:], 0)


# Directions on clean data


@pytest.mark.parametrize("part", [LDA(), RCA()], ids=repr)
@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_within_scatter_becomes_the_identity(clean, rng, part, d):
    X, y = clean
    A = part(X, y, d, rng)
    _, S_W = plain_scatter(X.X, y)
    assert_allclose(A @ S_W @ A.T, np.eye(d), atol=1e-10)


@pytest.mark.parametrize("part", [LDA(), RCA()], ids=repr)
def test_discriminant_subspace_equals_sklearn(clean, rng, part):
    X, y = clean
    peer = LinearDiscriminantAnalysis(solver="eigen").fit(X.X, y)
    for d in range(1, y.max() + 1):
        A = part(X, y, d, rng)
        assert_allclose(projector(A), projector(peer.scalings_[:, :d].T), atol=1e-8)


def test_discriminant_rows_come_in_order_of_their_ratio(clean, rng):
    X, y = clean
    S, _ = plain_scatter(X.X, y)
    D, C = X.shape[1], y.max() + 1
    for part in (LDA(), RCA()):
        A = part(X, y, D, rng)
        ratio = np.diag(A @ S @ A.T)
        assert np.all(np.diff(ratio[:C]) < 1e-10)
        # past C - 1 the total scatter is the within scatter, and the shortest rows go first
        assert_allclose(ratio[C - 1 :], 1.0, atol=1e-9)
        assert np.all(np.diff(np.linalg.norm(A[C - 1 :], axis=1)) > -1e-10)


def test_full_rank_rca_is_the_inverse_root_up_to_rotation(clean, rng):
    X, y = clean
    A = RCA()(X, y, X.shape[1], rng)
    _, S_W = plain_scatter(X.X, y)
    assert_allclose(A.T @ A, np.linalg.inv(S_W), rtol=1e-8, atol=1e-8)


def test_discriminants_do_not_see_the_scale_of_columns(rng):
    X, y = load_wine(return_X_y=True)
    factors = 10.0 ** rng.uniform(-8, 8, size=X.shape[1])
    for part in (LDA(), RCA()):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            a = part(Rows(X, scaling=False), y, 2, rng)
            b = part(Rows(X * factors, scaling=False), y, 2, rng) * factors
        # rows may turn round: the largest entry of b is another column's
        assert_allclose(np.abs(b), np.abs(a), rtol=1e-6, atol=1e-9 * np.abs(a).max())


@pytest.mark.parametrize("whiten", [False, True])
def test_pca_equals_sklearn(clean, rng, whiten):
    X, y = clean
    d = 3
    A = PCA(whiten=whiten)(X, y, d, rng)
    peer = SklearnPCA(d).fit(X.X)
    assert_allclose(projector(A), projector(peer.components_), atol=1e-10)
    S, _ = plain_scatter(X.X, y)
    if whiten:
        assert_allclose(A @ S @ A.T, np.eye(d), atol=1e-10)
    else:
        assert_allclose(A @ A.T, np.eye(d), atol=1e-12)


def test_whiten_is_the_symmetric_root_at_full_rank(clean, rng):
    X, y = clean
    D = X.shape[1]
    A = Whiten()(X, y, D, rng)
    S, _ = plain_scatter(X.X, y)
    assert_allclose(A, A.T, atol=1e-11)
    assert_allclose(A @ S @ A.T, np.eye(D), atol=1e-9)
    assert_allclose(Whiten()(X, y, 2, rng), PCA()(X, y, 2, rng))


def test_sign_does_not_hang_on_the_last_bit():
    A = np.array([[-1.0, 1.0 + 1e-12, 0.5], [-1.0 - 1e-12, 1.0, 0.5], [0.0, 0.0, 0.0]])
    assert_allclose(spectral.orient(A)[:, 0], [1.0, 1.0, 0.0])


def test_weights_reach_the_start(rng):
    X, y = load_wine(return_X_y=True)
    v = rng.uniform(size=len(y)) * (np.arange(len(y)) % 4 > 0)
    S, S_W = plain_scatter(Rows(X).X, y, v)
    A = RCA()(Rows(X), y, 4, rng, v)
    assert_allclose(A @ S_W @ A.T, np.eye(4), atol=1e-10)
    A = PCA()(Rows(X), y, 4, rng, v)
    assert_allclose(A @ S @ A.T, np.eye(4), atol=1e-10)


@pytest.mark.parametrize("factor", [2.0**-664, 2.0**664, 2.0**1022])
@pytest.mark.parametrize("start", [PCA(), LDA(), RCA()])
def test_a_common_factor_of_the_weights_changes_no_bit(rng, start, factor):
    X, y = load_wine(return_X_y=True)
    v = rng.uniform(0.1, 1.9, size=len(y))
    assert_array_equal(start(Rows(X), y, 2, rng, factor * v), start(Rows(X), y, 2, rng, v))


# Identity, random, a given array, names


def test_identity_takes_the_first_columns_that_vary(rng):
    X, y = load_iris(return_X_y=True)
    assert_array_equal(Identity()(Rows(X), y, 4, rng), np.eye(4))
    assert_array_equal(Identity()(Rows(X), y, 2, rng), np.eye(2, 4))
    X[:, 0] = 1
    assert_array_equal(Identity()(Rows(X), y, 2, rng), np.eye(4)[[1, 2]])
    assert_array_equal(Identity()(Rows(X), y, 4, rng), np.diag([0, 1, 1, 1]))


def test_random_follows_the_generator_it_is_given():
    X, y = load_wine(return_X_y=True)
    X = Rows(X)
    a, b, c = (Random()(X, y, 2, np.random.RandomState(seed)) for seed in (0, 0, 1))
    assert_array_equal(a, b)
    assert np.abs(a - c).max() > 0.01
    assert resolve("random").n_init == 1


def test_given_array_is_copied(rng):
    X, y = load_wine(return_X_y=True)
    array = rng.normal(size=(2, 13))
    A = resolve(array)(Rows(X), y, 2, rng)
    assert_array_equal(A, array)
    assert not np.shares_memory(A, array)
    assert_array_equal(resolve(array.tolist())(Rows(X), y, 2, rng), array)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones((3, 13)), r"of NCA must be an array of shape \(2, 13\). Got \(3, 13\) instead"),
        (np.ones((2, 12)), r"of NCA must be an array of shape \(2, 13\). Got \(2, 12\) instead"),
        (np.ones(13), r"of NCA must be an array of shape \(2, 13\). Got \(13,\) instead"),
        (np.full((2, 13), np.nan), r"of NCA must be an array of finite numbers. Got nan instead"),
        ([["a"] * 13] * 2, r"of NCA must be an array of numbers. Got \[\["),
        ([[1, 2], [1]], r"of NCA must be an array of numbers. Got \[\["),
    ],
)
def test_given_array_is_checked(array, message, rng):
    X, y = load_wine(return_X_y=True)
    with pytest.raises(ValueError, match="The 'init' parameter " + message):
        resolve(array)(Rows(X), y, 2, rng)
    with pytest.raises(ValueError, match="of LMNN must be"):
        Given(array, owner="LMNN")(Rows(X), y, 2, rng)


@pytest.mark.parametrize("value", [0, 1.5, "auto", True, np.nan, np.ones(2)])
@pytest.mark.parametrize("part", [PCA, Whiten, LDA, RCA])
def test_shrinkage_is_checked(part, value, rng):
    X, y = load_iris(return_X_y=True)
    message = (
        rf"'shrinkage' parameter of {part.__name__} must be None, 'oas' or a float in \(0, 1\]. Got"
    )
    with pytest.raises(ValueError, match=message):
        part(shrinkage=value)(Rows(X), y, 2, rng)


def test_n_init_is_checked(rng):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=r"'n_init' parameter of Random must be an int in \[1"):
        Random(n_init=0)(Rows(X), y, 2, rng)


def test_auto_is_rca_where_classes_have_spread():
    X, y = load_digits(return_X_y=True)
    for n in (1797, 40):
        assert Auto().choose(Rows(X[:n]), y[:n], 2) == RCA("oas")
    for codes in (None, np.zeros_like(y), np.arange(len(y))):
        assert Auto().choose(Rows(X), codes, 2) == PCA(whiten=False)
