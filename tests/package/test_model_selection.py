"""The search for mu and the margin: grids that follow the data, and scikit-learn's classes."""

from __future__ import annotations

import doctest
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import uniform
from sklearn.datasets import load_wine
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV, RandomizedSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from vicinal import LMNN, NCA, Chi2LMNN
from vicinal.estimators.chi2_lmnn import own_class_distance
from vicinal.metrics import chi2_distances
from vicinal.model_selection import margin_search

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
QUICK = {"max_iter": 3, "random_state": 0}


@pytest.fixture
def histograms(rng):
    """60 rows of three classes, each with bins of its own, and counts for values."""
    y = np.arange(60) % 3
    return rng.poisson(1 + 9 * (np.arange(6) % 3 == y[:, None])).astype(float), y


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return X[::3], y[::3]


def tried(search, name):
    return sorted({params[name] for params in search.cv_results_["params"]})


def unit_by_hand(X, y):
    H = X / X.sum(axis=1, keepdims=True)
    D = chi2_distances(H)
    np.fill_diagonal(D, np.inf)
    return np.median(np.where(y[:, None] == y, D, np.inf).min(axis=1))


# The grids


def test_margins_are_shares_of_the_distance_to_the_own_class(histograms):
    X, y = histograms
    search = margin_search(Chi2LMNN(3, **QUICK), X, y, cv=2)
    assert type(search) is GridSearchCV
    assert tried(search, "mu") == [0.3, 1.0, 3.0]
    shares = np.array([0.05, 0.1, 0.2, 0.4])
    np.testing.assert_allclose(tried(search, "margin"), shares * unit_by_hand(X, y), rtol=1e-12)
    assert len(search.cv_results_["params"]) == 12


def test_margins_follow_the_scale_of_the_distances(histograms):
    """Rows half-way to a common histogram, (h + 1/D) / 2, are nearer to each other."""
    X, y = histograms
    near = X / X.sum(axis=1, keepdims=True) + 1 / 6
    found = [
        margin_search(Chi2LMNN(3, **QUICK), rows, y, mu=[1.0], cv=2) for rows in (X, 50 * X, near)
    ]
    plain, counts, close = (np.array(tried(search, "margin")) for search in found)
    np.testing.assert_allclose(counts, plain, rtol=1e-12)  # rows are divided by their sums
    ratio = unit_by_hand(near, y) / unit_by_hand(X, y)
    assert ratio < 0.5
    np.testing.assert_allclose(close, ratio * plain, rtol=1e-12)


def test_auto_is_a_sixth_of_the_same_distance(histograms):
    X, y = histograms
    unit = own_class_distance(X, y)
    assert unit == pytest.approx(unit_by_hand(X, y), rel=1e-12)
    assert Chi2LMNN(3, **QUICK).fit(X, y).margin_ == pytest.approx(unit / 6, rel=1e-12)
    assert own_class_distance(sp.csr_array(X), y) == pytest.approx(unit, rel=1e-12)


def test_copies_and_lonely_rows_do_not_tell_the_distance(histograms):
    X, y = histograms
    # each row three times, but for one class
    rows = np.concatenate([np.repeat(np.flatnonzero(y > 0), 3), np.flatnonzero(y == 0)])
    first = y == 0
    unit = unit_by_hand(X[first], y[first])
    assert own_class_distance(X[rows], y[rows]) == pytest.approx(unit, rel=1e-12)
    assert own_class_distance(np.ones((4, 3)), [0, 0, 1, 1]) == 1.0
    # a row in 40 has others of its class, and none of those is every third
    many = np.resize(X, (2400, 6))
    alone = np.arange(2400)
    alone[[1, 2]] = -1
    with pytest.warns(UserWarning, match="unique classes is greater"):
        unit = own_class_distance(many, alone)
    pair = many[[1, 2]] / many[[1, 2]].sum(axis=1, keepdims=True)
    assert unit == pytest.approx(chi2_distances(pair)[0, 1], rel=1e-5)


def test_the_margin_of_lmnn_is_left_alone(wine):
    search = margin_search(LMNN(2, margin=0.7, **QUICK), *wine, cv=2)
    assert tried(search, "mu") == [0.1, 0.3, 1.0, 3.0, 10.0]
    assert set(search.best_params_) == {"mu"}
    assert search.best_estimator_.margin == 0.7


@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_the_margin_of_lmnn_is_a_unit(wine, alpha):
    """What the docstring says: with the penalty too, two margins have one map but for its scale."""
    settings = {"n_components": 2, "alpha": alpha, "tol": 1e-9, "max_iter": 3000, "random_state": 0}
    one, other = (LMNN(margin=margin, **settings).fit(*wine) for margin in (1.0, 0.2))
    assert other.loss_ == pytest.approx(0.2 * one.loss_, rel=5e-3)
    np.testing.assert_array_equal(other.predict(wine[0]), one.predict(wine[0]))


def test_given_values_are_tried(histograms, wine):
    search = margin_search(
        Chi2LMNN(3, **QUICK), *histograms, mu=np.array([0.5, 2]), margin=(0.01,), cv=2
    )
    assert (tried(search, "mu"), tried(search, "margin")) == ([0.5, 2.0], [0.01])
    search = margin_search(Chi2LMNN(3, **QUICK), *histograms, mu=[1], margin=["auto"], cv=2)
    assert search.best_params_ == {"mu": 1, "margin": "auto"}
    search = margin_search(LMNN(2, **QUICK), *wine, mu=[1.0], margin=[0.5, 2.0], cv=2)
    assert tried(search, "margin") == [0.5, 2.0]


# Pipelines, and other searches


def test_a_pipeline_is_searched_in_its_last_step(histograms):
    X, y = histograms
    square = FunctionTransformer(np.square)
    pipeline = make_pipeline(square, Chi2LMNN(3, **QUICK))
    search = margin_search(pipeline, X, y, mu=[1.0, 2.0], cv=2)
    assert set(search.best_params_) == {"chi2lmnn__mu", "chi2lmnn__margin"}
    assert max(tried(search, "chi2lmnn__margin")) == pytest.approx(0.4 * unit_by_hand(X**2, y))
    assert not hasattr(pipeline[-1], "components_")
    alone = margin_search(make_pipeline(Chi2LMNN(3, **QUICK)), X, y, mu=[1.0], cv=2)
    assert max(tried(alone, "chi2lmnn__margin")) == pytest.approx(0.4 * unit_by_hand(X, y))


def test_a_pipeline_of_lmnn(wine):
    search = margin_search(make_pipeline(StandardScaler(), LMNN(2, **QUICK)), *wine, cv=2)
    assert set(search.best_params_) == {"lmnn__mu"}
    assert search.best_estimator_.score(*wine) > 0.9


@pytest.mark.filterwarnings("ignore:The .k. parameter of LMNN is")
def test_other_searches(histograms, wine):
    halving = margin_search(
        LMNN(2, **QUICK), *wine, search=HalvingGridSearchCV, cv=2, min_resources=24, factor=2,
        random_state=0,
    )  # fmt: skip
    assert type(halving) is HalvingGridSearchCV
    assert halving.n_candidates_[0] == 5
    drawn = margin_search(
        Chi2LMNN(3, **QUICK), *histograms, search=RandomizedSearchCV, cv=2, n_iter=3,
        mu=uniform(0.5, 1.0), random_state=0,
    )  # fmt: skip
    assert len(drawn.cv_results_["params"]) == 3
    assert all(0.5 < value < 1.5 for value in tried(drawn, "mu"))


def test_arguments_reach_the_search(histograms):
    search = margin_search(
        Chi2LMNN(3, **QUICK), *histograms, mu=[1.0], cv=3, scoring="balanced_accuracy", refit=False
    )
    assert (search.n_splits_, search.scoring) == (3, "balanced_accuracy")
    assert not hasattr(search, "best_estimator_")
    with pytest.raises(TypeError, match="param_grid"):
        margin_search(Chi2LMNN(), *histograms, param_grid={})


def test_the_best_values_are_those_of_the_map(histograms):
    X, y = histograms
    model = Chi2LMNN(3, **QUICK)
    search = margin_search(model, X, y, mu=[0.5, 5.0], cv=2)
    best = search.best_estimator_
    assert (best.mu, best.margin_) == (search.best_params_["mu"], search.best_params_["margin"])
    again = Chi2LMNN(3, **QUICK, **search.best_params_).fit(X, y)
    np.testing.assert_array_equal(again.components_, best.components_)
    np.testing.assert_array_equal(search.predict(X), best.predict(X))
    assert (model.mu, model.margin) == (1.0, "auto")
    assert not hasattr(model, "components_")
    same = margin_search(model, X, y, mu=[0.5, 5.0], cv=2)
    np.testing.assert_array_equal(
        same.cv_results_["mean_test_score"], search.cv_results_["mean_test_score"]
    )
    assert same.best_params_ == search.best_params_


# Errors

MUST = r"The '{}' parameter of margin_search must be {}\. Got {} instead"


@pytest.mark.parametrize("estimator", [NCA(), make_pipeline(NCA()), LMNN, None])
def test_another_estimator_is_refused(wine, estimator):
    what = MUST.format("estimator", "an LMNN, a Chi2LMNN or a Pipeline that ends in one", ".*")
    with pytest.raises(TypeError, match=what):
        margin_search(estimator, *wine)


@pytest.mark.parametrize("search", [GridSearchCV(LMNN(), {}), "grid"])
def test_a_search_that_is_no_class_is_refused(wine, search):
    what = MUST.format("search", "a class such as GridSearchCV", ".*")
    with pytest.raises(TypeError, match=what):
        margin_search(LMNN(), *wine, search=search)


@pytest.mark.parametrize("name", ["mu", "margin"])
@pytest.mark.parametrize(
    ("values", "got"),
    [
        ([1.0, -2.0], "-2.0"),
        ([0.0], "0.0"),
        ([np.inf], "inf"),
        ([np.nan], "nan"),
        ([1.0, True], "True"),
        ([None], "None"),
        (["auto"], "'auto'"),
        ([], r"\[\]"),
        (3.0, "3.0"),
        ("auto", "'auto'"),
    ],
)
def test_wrong_values_are_named(wine, name, values, got):
    what = MUST.format(name, r"a sequence of floats in \(0.0, inf\)", got)
    with pytest.raises(ValueError, match=what):
        margin_search(LMNN(), *wine, **{name: values})


def test_wrong_margins_of_histograms_are_named(histograms):
    what = MUST.format("margin", r"a sequence of floats in \(0.0, inf\) or 'auto'", "'best'")
    with pytest.raises(ValueError, match=what):
        margin_search(Chi2LMNN(), *histograms, margin=["auto", "best"])


def test_wrong_rows_are_told_of_as_by_a_fit(histograms):
    X, y = histograms
    with pytest.raises(ValueError, match=r"Row 0 sums to \d"):
        margin_search(Chi2LMNN(normalize=False), X, y)
    X[4, 2] = -3.0
    with pytest.raises(ValueError, match="Row 4 has -3"):
        margin_search(Chi2LMNN(), X, y)
    with pytest.raises(ValueError, match="at least 2 classes"):
        margin_search(Chi2LMNN(), abs(X), 0 * y)


def test_the_example():
    result = doctest.testmod(sys.modules[margin_search.__module__])
    assert result.attempted > 0
    assert result.failed == 0
