"""ITML, MMC, SDML and LSML: what all learners of a matrix from tuples keep to."""

import pickle
import warnings

import numpy as np
import pytest
from common.elsewhere import ELSEWHERE
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from threadpoolctl import threadpool_limits

from vicinal import ITML, LSML, MMC, SDML
from vicinal._validation import distinct_rows
from vicinal.targets import pairs_from_labels, quadruplets_from_labels

LEARNERS = {
    "itml": ITML(),
    "itml projections": ITML(0.7, solver="projections", scaling=None),
    "itml prior": ITML(3.0, prior="covariance"),
    "mmc": MMC(),
    "mmc diagonal": MMC(diagonal=True, scaling="global"),
    "sdml": SDML(),
    "lsml": LSML(),
    "lsml prior": LSML(prior="random", random_state=0),
}
all_learners = pytest.mark.parametrize("learner", LEARNERS.values(), ids=LEARNERS.keys())


@pytest.fixture
def rows(rng):
    """Three classes in four columns of different units; the last tells nothing."""
    y = np.repeat([0, 1, 2], 20)
    X = rng.normal(size=(60, 4)) + 6 * np.eye(3, 4)[y]
    return X * [1.0, 5.0, 0.1, 30.0] + [0, 100, -3, 7], y


def indices(learner, y, n=40):
    """Constraints as indices, and the labels that a fit takes: those of pairs, or none."""
    if learner.tuple_size == 4:
        return quadruplets_from_labels(y, n, random_state=0), ()
    pairs, labels = pairs_from_labels(y, n, random_state=0)
    return pairs, (labels,)


@all_learners
def test_tuples_elsewhere_are_refused(learner, rows):
    X, y = rows
    at, labels = indices(learner, y)
    remedy, moved = ELSEWHERE["dask array"]
    for fit in (
        lambda: clone(learner).fit(moved(X[at]), *labels),
        lambda: clone(learner).set_params(preprocessor=moved(X)).fit(at, *labels),
        lambda: clone(learner).fit(X[at], *labels).transform(moved(X)),
        lambda: clone(learner).fit(X[at], *labels).pair_distance(moved(X[at])),
    ):
        with pytest.raises(TypeError, match=rf"Use \w+\.{remedy}\(\)"):
            fit()


@all_learners
def test_the_metric_is_that_of_the_components(learner, rows):
    X, y = rows
    at, labels = indices(learner, y)
    learner = clone(learner).fit(X[at], *labels)
    A, M = learner.components_, learner.get_mahalanobis_matrix()
    assert A.shape == M.shape == (4, 4)
    np.testing.assert_allclose(learner.transform(X), X @ A.T)
    x, z = X[3] - X[50], learner.transform(X[[3]]) - learner.transform(X[[50]])
    assert learner.pair_distance(X[[[3, 50]]])[0] == pytest.approx(np.sqrt(x @ M @ x))
    assert learner.get_metric()(X[3], X[50]) == pytest.approx(np.linalg.norm(z))
    assert learner.pair_score(X[[[3, 50]]])[0] == pytest.approx(-np.linalg.norm(z))
    assert np.isfinite(learner.loss_)
    assert learner.n_iter_ >= 1
    assert learner.n_features_in_ == 4


@all_learners
def test_dissimilar_pairs_are_told_from_similar_ones(learner, rows):
    X, y = rows
    at, labels = indices(learner, y)
    new, new_labels = indices(learner, y[::-1], 60)
    learner = clone(learner).fit(X[at], *labels)
    assert learner.score(X[::-1][new], *new_labels) > 0.8
    found = learner.predict(X[::-1][new])
    assert set(found) <= {-1, 1}
    assert np.mean(found == (new_labels[0] if new_labels else 1)) > 0.75


@all_learners
def test_indices_with_a_preprocessor_are_the_rows_themselves(learner, rows):
    X, y = rows
    at, labels = indices(learner, y)
    given = clone(learner).fit(X[at], *labels)
    for preprocessor in (X, lambda rows: X[rows]):
        by_index = clone(learner).set_params(preprocessor=preprocessor).fit(at, *labels)
        np.testing.assert_array_equal(by_index.components_, given.components_)
        np.testing.assert_array_equal(by_index.predict(at), given.predict(X[at]))
        assert by_index.score(at, *labels) == given.score(X[at], *labels)


@all_learners
def test_float32_in_float32_out(learner, rows):
    X, y = rows
    at, labels = indices(learner, y)
    double, single = (clone(learner).fit(X.astype(t)[at], *labels) for t in ("f8", "f4"))
    assert single.components_.dtype == single.transform(X.astype("f4")).dtype == np.float32
    M = double.get_mahalanobis_matrix()
    np.testing.assert_allclose(
        single.get_mahalanobis_matrix(), M, rtol=1e-2, atol=1e-3 * np.abs(M).max()
    )


@all_learners
def test_units_of_columns_do_not_matter(learner, rows):
    if learner.scaling != "standard":
        pytest.skip("scales no column by itself")
    X, y = rows
    at, labels = indices(learner, y)
    units = np.array([1e-3, 7.0, 1e4, 2.0])
    Z = clone(learner).fit(X[at], *labels).transform(X - X.mean(axis=0))
    scaled = clone(learner).fit((X * units)[at], *labels)
    centred = (X - X.mean(axis=0)) * units
    np.testing.assert_allclose(scaled.transform(centred), Z, rtol=1e-5, atol=1e-6)


@all_learners
def test_a_constant_column_has_no_weight(learner, rows):
    X, y = rows
    at, labels = indices(learner, y)
    learner = clone(learner).set_params(tol=1e-7)
    alone = clone(learner).fit(X[at], *labels)
    X = np.insert(X, 1, 4.2, axis=1)
    both = learner.fit(X[at], *labels)
    assert (both.components_[:, 1] == 0).all()
    if getattr(learner, "prior", None) == "random":  # drawn for five columns
        return
    M = both.get_mahalanobis_matrix()
    M = np.delete(np.delete(M, 1, 0), 1, 1)
    units = np.outer(rows[0].std(axis=0), rows[0].std(axis=0))
    np.testing.assert_allclose(M * units, alone.get_mahalanobis_matrix() * units, atol=1e-3)


@all_learners
def test_pickles_and_threads_change_nothing(learner, rows):
    X, y = rows
    at, labels = indices(learner, y)
    fitted = []
    for n in (1, 2):
        with threadpool_limits(n):
            fitted.append(clone(learner).fit(X[at], *labels))
    np.testing.assert_array_equal(fitted[0].components_, fitted[1].components_)
    again = pickle.loads(pickle.dumps(fitted[0]))
    np.testing.assert_array_equal(again.predict(X[at]), fitted[0].predict(X[at]))


@all_learners
def test_bad_input_is_refused_and_changes_nothing(learner, rows):
    X, y = rows
    at, labels = indices(learner, y)
    learner = clone(learner)
    with pytest.raises(NotFittedError):
        learner.predict(X[at])
    learner.fit(X[at], *labels)
    before = learner.components_
    bad = X[at].copy()
    bad[3, 1, 2] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        learner.fit(bad, *labels)
    with pytest.raises(ValueError, match="no column that varies"):
        learner.fit(np.ones_like(bad), *labels)
    for name, value in [("scaling", "often"), ("max_iter", 0), ("tol", -1.0)]:
        with pytest.raises(ValueError, match=f"'{name}' parameter of {type(learner).__name__}"):
            clone(learner).set_params(**{name: value}).fit(X[at], *labels)
    assert learner.components_ is before


@pytest.mark.parametrize("learner", [ITML(), SDML(), LSML()], ids=lambda e: type(e).__name__)
def test_priors(learner, rows, rng):
    X, y = rows
    at, labels = indices(learner, y)
    name = type(learner).__name__

    def M(**options):
        options = {"tol": 1e-7, **options}
        return clone(learner).set_params(**options).fit(X[at], *labels).get_mahalanobis_matrix()

    points = np.unique(X[at].reshape(-1, 4), axis=0)
    inverse = np.linalg.inv(np.cov(points.T))
    covariance = M(prior="covariance", scaling=None)
    np.testing.assert_allclose(M(prior=inverse, scaling=None), covariance, rtol=1e-3)
    if name != "SDML":  # whose penalty depends on the units
        np.testing.assert_allclose(M(prior=inverse), covariance, rtol=1e-3)
        np.testing.assert_allclose(M(prior="covariance"), covariance, rtol=1e-3)
    np.testing.assert_allclose(
        M(prior=np.diag(1 / points.var(axis=0))), M(prior="identity"), rtol=1e-3, atol=1e-8
    )
    np.testing.assert_array_equal(
        M(prior="random", random_state=1), M(prior="random", random_state=1)
    )
    for bad in ("best", np.eye(3), None):
        with pytest.raises(ValueError, match=f"'prior' parameter of {name} must be one of"):
            M(prior=bad)
    for bad in (np.diag([1.0, 1, 1, -1]), np.ones((4, 4)), np.triu(np.ones((4, 4)))):
        with pytest.raises(ValueError, match="symmetric and positive definite"):
            M(prior=bad)
    few, kept = (at[[0, -1]], (np.array([1, -1]),)) if labels else (at[:1], ())
    with pytest.raises(ValueError, match=r"singular. Use prior='identity'"):
        clone(learner).set_params(prior="covariance").fit(X[few], *kept)


@pytest.mark.parametrize("learner", [ITML(), MMC(), LSML()], ids=lambda e: type(e).__name__)
def test_a_fit_that_ends_early_says_so(learner, rows):
    X, y = rows
    at, labels = indices(learner, y)
    if learner.tuple_size == 4:
        at = at[:, [2, 3, 0, 1]]  # comparisons that do not hold yet
    with pytest.warns(ConvergenceWarning, match="did not converge in 1 iterations: increase 'max"):
        clone(learner).set_params(max_iter=1, tol=1e-9).fit(X[at], *labels)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clone(learner).fit(X[at], *labels)


@pytest.mark.parametrize("learner", [ITML(), MMC(), SDML()], ids=lambda e: type(e).__name__)
def test_scikit_learns_tools_take_pairs(learner, rows):
    X, y = rows
    at, (labels,) = indices(learner, y)
    assert cross_val_score(learner, X[at], labels, cv=3).mean() > 0.7
    by_index = clone(learner).set_params(preprocessor=X)
    search = GridSearchCV(by_index, {"scaling": [None, "standard"]}, cv=3, scoring="accuracy")
    assert search.fit(at, labels).best_score_ > 0.6
    with pytest.raises(ValueError, match=r"needs similar \(\+1\) and dissimilar"):
        learner.fit(X[at], np.ones(len(at)))


def test_scikit_learns_tools_take_quadruplets(rows):
    X, y = rows
    at, _ = indices(LSML(), y)
    assert cross_val_score(LSML(), X[at], cv=3).mean() > 0.7


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_are_scaled_as_if_each_occurred_once(rng, dtype):
    rows = rng.integers(-1, 2, size=(300, 3)).astype(dtype)
    rows[rows == 0] *= rng.choice([-1, 1], size=np.sum(rows == 0))  # zeros of both signs
    found = distinct_rows(rows)
    assert found.dtype == dtype
    np.testing.assert_array_equal(np.unique(found, axis=0), np.unique(rows, axis=0))
    assert len(found) == 27
