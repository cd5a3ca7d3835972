"""ITML: bounds, slack, hard constraints."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.spatial.distance import pdist
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning

from vicinal import ITML
from vicinal.targets import pairs_from_labels


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    pairs, labels = pairs_from_labels(y, 60, random_state=0)
    return X[:, :5], pairs, labels


@pytest.mark.parametrize(
    ("solver", "gamma"), [("lbfgs", 0.2), ("lbfgs", 1.0), ("lbfgs", 6.0), ("projections", 0.2)]
)
@pytest.mark.parametrize("prior", ["identity", "covariance", "random"])
def test_conditions_of_optimality(wine, gamma, solver, prior):
    X, pairs, y = wine
    model = ITML(gamma, prior=prior, solver=solver, tol=1e-7, random_state=0)
    model.fit(X[pairs], y)
    M, lam = model.get_mahalanobis_matrix(), model.multipliers_
    x = X[pairs[:, 0]] - X[pairs[:, 1]]
    delta = np.einsum("ij,jk,ik->i", x, M, x)
    xi0 = np.where(y > 0, *model.bounds_)
    xi = 1 / (1 / xi0 - y * lam / gamma)
    assert lam.min() >= 0
    assert np.max(y * (delta - xi) / xi0) < 1e-4
    assert np.max(np.abs(lam * (delta - xi))) < 1e-4 * np.max(lam * xi)
    # what is left of M⁻¹ without the pairs is the inverse of the prior, whatever was learnt
    rest = np.linalg.inv(M) - (x.T * (y * lam)) @ x
    points = np.unique(X[pairs].reshape(-1, 5), axis=0)
    deviation = points.std(axis=0)
    rest /= np.outer(deviation, deviation)
    if prior == "covariance":
        covariance = np.cov((points / deviation).T)
        np.testing.assert_allclose(rest, covariance, atol=1e-3)
    elif prior == "identity":
        np.testing.assert_allclose(rest, np.eye(5), atol=1e-3)
    else:
        assert np.linalg.eigvalsh(rest)[0] > 0


@pytest.mark.parametrize("constant", [0, 2])
@pytest.mark.parametrize("seed", range(20))
def test_one_column_that_varies_reaches_the_minimum(seed, constant):
    rng = np.random.default_rng(seed)
    pairs = rng.normal(size=(20, 2, 1))
    y = np.where(rng.random(20) < 0.5, 1, -1)
    y[:2] = 1, -1
    squares = (pairs[:, 0, 0] - pairs[:, 1, 0]) ** 2
    bounds = np.quantile(squares, [0.2, 0.8])

    def value(t):
        ratio = np.exp(t) * squares / np.where(y > 0, *bounds)
        violated = y * (ratio - 1) > 0
        return np.exp(t) - t - 1 + np.sum((ratio - np.log(ratio) - 1)[violated])

    best = minimize_scalar(value, bounds=(-12, 4), options={"xatol": 1e-10})
    pairs = np.concatenate([pairs, np.full((20, 2, constant), 7.0)], axis=2)
    model = ITML(bounds=bounds, scaling=None, tol=1e-6).fit(pairs, y)
    assert model.loss_ == pytest.approx(best.fun, rel=1e-8)
    np.testing.assert_allclose(model.get_mahalanobis_matrix()[0, 0], np.exp(best.x), rtol=1e-4)


def test_default_bounds_are_percentiles_of_squared_distances_under_the_prior(wine):
    X, pairs, y = wine
    points = np.unique(X[pairs].reshape(-1, 5), axis=0)
    model = ITML(scaling=None).fit(X[pairs], y)
    assert model.bounds_ == pytest.approx(np.percentile(pdist(points, "sqeuclidean"), (5, 95)))
    whitened = pdist(points, "mahalanobis", VI=np.linalg.inv(np.cov(points.T))) ** 2
    model = ITML(prior="covariance").fit(X[pairs], y)
    assert model.bounds_ == pytest.approx(np.percentile(whitened, (5, 95)))
    standard = pdist(points / points.std(axis=0), "sqeuclidean")
    assert ITML().fit(X[pairs], y).bounds_ == pytest.approx(np.percentile(standard, (5, 95)))


def test_bounds_of_many_rows_come_from_a_sample(wine, monkeypatch):
    X, pairs, y = wine
    exact = ITML().fit(X[pairs], y).bounds_
    monkeypatch.setattr("vicinal.estimators.itml._ALL_PAIRS_UP_TO", 50)
    model = ITML(random_state=0).fit(X[pairs], y)
    assert model.bounds_ != exact
    assert model.bounds_ == pytest.approx(exact, rel=0.05)
    assert ITML(random_state=0).fit(X[pairs], y).bounds_ == model.bounds_


def test_hard_constraints_hold(wine):
    X, pairs, y = wine
    few = pairs[[0, 1, 60, 61]], y[[0, 1, 60, 61]]
    model = ITML(np.inf, bounds=(0.5, 20.0), preprocessor=X, tol=1e-9, max_iter=10_000).fit(*few)
    squares = model.pair_distance(few[0]) ** 2
    assert (squares[:2] < 0.5 * (1 + 1e-6)).all()
    assert (squares[2:] > 20.0 * (1 - 1e-6)).all()


def test_contradictory_hard_constraints_are_reported(wine):
    X, pairs, y = wine
    with pytest.warns(ConvergenceWarning, match="or use a finite 'gamma' if the pairs contradict"):
        model = ITML(np.inf, preprocessor=X, max_iter=20).fit(pairs[[0, 0, 1]], [1, -1, 1])
    assert np.isfinite(model.components_).all()


def test_more_slack_keeps_nearer_to_the_prior(wine):
    X, pairs, y = wine
    Z = X / np.unique(X[pairs].reshape(-1, 5), axis=0).std(axis=0)
    far = [
        np.linalg.norm(
            ITML(gamma, scaling=None).fit(Z[pairs], y).get_mahalanobis_matrix() - np.eye(5)
        )
        for gamma in (1e-4, 1e-2, 1.0)
    ]
    assert far[0] < 0.05
    assert far == sorted(far)


def test_equal_rows_are_left_out(wine):
    X, pairs, y = wine
    plain = ITML(preprocessor=X, bounds=(1, 9)).fit(pairs, y)
    more, labels = np.concatenate([pairs, [[3, 3], [4, 4]]]), np.r_[y, 1, 1]
    same = ITML(preprocessor=X, bounds=(1, 9)).fit(more, labels)  # similar: nothing to report
    np.testing.assert_allclose(same.components_, plain.components_, rtol=1e-12)
    assert same.multipliers_[-2:].tolist() == [0, 0]
    with pytest.warns(UserWarning, match="2 dissimilar pairs of ITML hold two equal rows"):
        left = ITML(preprocessor=X, bounds=(1, 9)).fit(more, np.r_[y, -1, -1])
    np.testing.assert_allclose(left.components_, plain.components_, rtol=1e-12)


def test_small_fits_compile_nothing(wine, monkeypatch):
    X, pairs, y = wine
    monkeypatch.setattr("vicinal.estimators.itml._Projections.sweep_compiled", None)
    for solver in ("lbfgs", "projections"):
        ITML(solver=solver, preprocessor=X).fit(pairs, y)


def test_bad_parameters_are_refused(wine):
    X, pairs, y = wine

    def fit(**options):
        ITML(preprocessor=X, **options).fit(pairs, y)

    for bad in (0.0, -1.0, np.nan, "large", True):
        with pytest.raises(ValueError, match=r"'gamma' parameter of ITML must be a float in \(0"):
            fit(gamma=bad)
    with pytest.raises(ValueError, match="'gamma' parameter of ITML must be finite for solver"):
        fit(gamma=np.inf, solver="lbfgs")
    with pytest.raises(ValueError, match="'solver' parameter of ITML must be one of"):
        fit(solver="newton")
    for bad in ((2.0, 1.0), (0.0, 1.0), (1.0,), 3.0, (1.0, np.inf), "wide"):
        with pytest.raises(ValueError, match="'bounds' parameter of ITML must be two numbers"):
            fit(bounds=bad)
