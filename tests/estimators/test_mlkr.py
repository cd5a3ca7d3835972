"""MLKR and NCARegressor: what is special to estimators that learn from numbers."""

from __future__ import annotations

import functools
import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from common.checks import set_threads
from sklearn.base import clone, is_regressor
from sklearn.datasets import make_friedman1
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import r2_score
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsRegressor
from sklearn.preprocessing import StandardScaler

from vicinal import MLKR, NCARegressor
from vicinal.samplers import MiniBatches, StochasticQueries

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]
each = pytest.mark.parametrize("kind", [MLKR, NCARegressor])


@functools.cache
def table(n=160):
    """Friedman's first: five of ten columns matter."""
    X, y = make_friedman1(n, noise=0.5, random_state=0)
    return X, y


def outputs(n=160):
    """Two numbers of unequal size for each row."""
    X, y = table(n)
    return X, np.column_stack([y, 1000.0 * np.sin(4 * X[:, 0]) + 5.0])


def make(kind, *args, **parameters):
    return kind(*args, **{"alpha": 3e-3, "max_iter": 15, "random_state": 0, **parameters})


@functools.cache
def fitted(kind):
    return make(kind).fit(*table())


def left_out(Z, y):
    """Every row predicted by the kernel from the others."""
    d2 = ((Z[:, None] - Z) ** 2).sum(axis=2)
    np.fill_diagonal(d2, np.inf)
    p = np.exp(-d2)
    return (p @ y) / p.sum(axis=1)[:, None]


@each
def test_is_ahead_of_nearest_neighbours_on_new_rows(kind):
    X, y = table(300)
    train, test = slice(0, 200), slice(200, 300)
    columns = StandardScaler().fit(X[train])
    S, S_test = columns.transform(X[train]), columns.transform(X[test])
    plain = max(
        KNeighborsRegressor(k).fit(S, y[train]).score(S_test, y[test]) for k in (3, 5, 10, 20)
    )
    model = kind(random_state=0).fit(X[train], y[train])
    assert is_regressor(model)
    assert model.score(X[test], y[test]) > plain + 0.15
    assert set(np.argsort(model.feature_importances_)[-5:]) == set(range(5))
    assert len(model.cv_results_["params"]) >= 3
    assert model.alpha_ in model.cv_results_["param_alpha"]


def test_the_loss_is_one_minus_r2_of_rows_left_out():
    X, Y = outputs()
    for y in (Y[:, :1], Y):
        model = make(MLKR, alpha=0.0, n_components=3).fit(X, y)
        expected = r2_score(y, left_out(model.transform(X), y))
        assert model.loss_ == pytest.approx(1 - expected, rel=1e-9)


@each
def test_units_of_y_do_not_change_the_map(kind):
    X, Y = outputs()
    scale, shift = np.array([1e-3, 4e5]), np.array([1e6, -3.0])
    one, other = make(kind, 2).fit(X, Y), make(kind, 2).fit(X, Y * scale + shift)
    # the numbers that are learnt differ in their last digits, and rounding grows with the steps
    np.testing.assert_allclose(other.components_, one.components_, rtol=1e-3, atol=1e-4)
    near = {"rtol": 1e-9, "atol": 1e-2}
    np.testing.assert_allclose((other.predict(X) - shift) / scale, one.predict(X), **near)
    huge = make(kind, 2).fit(X, 2.0**800 * Y)  # a power of two changes no digit
    np.testing.assert_array_equal(huge.predict(X), 2.0**800 * one.predict(X))


@each
@pytest.mark.parametrize("rule", ["kernel", "knn"])
def test_shapes_of_y_come_back(kind, rule):
    X, Y = outputs()
    for y in (Y[:, 0], Y[:, :1], Y):
        model = make(kind, 2, rule=rule, max_iter=3).fit(X, y)
        assert model.predict(X[:7]).shape == (7, *y.shape[1:])
        weight = np.linspace(0, 1, len(X))
        expected = r2_score(y, model.predict(X), sample_weight=weight)
        assert model.score(X, y, weight) == pytest.approx(expected)
    alike = make(kind, 2, max_iter=3).fit(X, np.column_stack([Y[:, 0]] * 3))
    single = make(kind, 2, max_iter=3).fit(X, Y[:, 0])
    np.testing.assert_allclose(alike.components_, single.components_, rtol=1e-4, atol=1e-6)


@each
def test_nearest_rows_predict_by_their_means(kind):
    X, y = table()
    model = clone(fitted(kind)).set_params(rule="knn", n_neighbors=7).fit(X, y)
    expected = KNeighborsRegressor(7).fit(model.transform(X), y).predict(model.transform(X))
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-9)
    assert model.n_neighbors_ == 7
    model.set_params(n_neighbors="auto")
    assert not hasattr(model, "n_neighbors_")  # not chosen yet
    model.predict(X[:1])
    assert 1 <= model.n_neighbors_ <= 50
    with pytest.raises(ValueError, match=r"'n_neighbors' parameter of .* Got 'local'"):
        model.set_params(n_neighbors="local").predict(X)
    with pytest.raises(ValueError, match=r"'rule' parameter of .* one of 'kernel', 'knn'. Got 'po"):
        model.set_params(n_neighbors=3, rule="posterior").predict(X)


@each
def test_weights(kind):
    X, y = table()
    weight = np.where(np.arange(len(X)) % 4 == 0, 0.0, 1.0 + np.arange(len(X)) % 3)
    kept = weight > 0
    with_zeros = make(kind, 2).fit(X, y, weight)
    without = make(kind, 2).fit(X[kept], y[kept], weight[kept])
    np.testing.assert_array_equal(with_zeros.predict(X), without.predict(X))
    assert not np.allclose(with_zeros.predict(X), make(kind, 2).fit(X[kept], y[kept]).predict(X))
    ones, none = make(kind, 2).fit(X, y, 2.0), make(kind, 2).fit(X, y)
    np.testing.assert_allclose(ones.predict(X), none.predict(X), rtol=1e-5)
    near = with_zeros.kneighbors(X, 3, return_distance=False)
    assert kept[near].all()
    with pytest.raises(ValueError, match="positive for at least 2 rows"):
        make(kind).fit(X, y, np.eye(len(X))[0])


WRONG = [
    (lambda y: np.where(y > 15, np.nan, y), ValueError, "Input y contains NaN"),
    (lambda y: np.where(y > 15, np.inf, y), ValueError, "Input y contains infinity"),
    (
        lambda y: np.where(y > 15, "a", "b"),
        ValueError,
        r"\w+ must hold numbers. Got an array of <U",
    ),
    (lambda y: y[:, None, None], ValueError, "dim 3"),
    (lambda y: y + 1j, ValueError, "Complex data"),
    (lambda y: sp.csr_array(y[:, None]), TypeError, "must be a dense array"),
    (lambda y: 3.0 + 0 * y, ValueError, r"needs numbers y that vary. Got \[3.0\] for all 160"),
    (lambda y: np.full((160, 2), 0.1), ValueError, r"needs numbers y that vary. Got \[0.1, 0.1\]"),
]


@each
@pytest.mark.parametrize(("change", "error", "message"), WRONG)
def test_numbers_that_cannot_be_learnt_are_refused(kind, change, error, message):
    X, y = table()
    model = make(kind)
    with pytest.raises(error, match=message):
        model.fit(X, change(y))
    assert not hasattr(model, "components_")


@each
def test_an_output_that_does_not_vary_is_predicted(kind):
    X, Y = outputs()
    Y = np.column_stack([Y[:, 0], np.full(len(X), 0.1)])
    model = make(kind, 2, max_iter=3).fit(X, Y)
    np.testing.assert_allclose(model.predict(X)[:, 1], 0.1, rtol=1e-12)


@each
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kernel": "compact"}, "'kernel' .* 'gaussian', 'student' or 'laplace'.* Got 'compact'"),
        ({"neighborhood": "tree"}, "'neighborhood' parameter of .* Got 'tree'"),
        ({"init": "rca"}, "'init' parameter of .* start that needs no classes"),
        ({"rule": "posterior"}, "'rule' parameter of .* 'kernel', 'knn'"),
        ({"n_components": 11}, r"'n_components' .* \[1, 10\]"),
        ({"alpha": -1.0}, "'alpha' parameter"),
    ],
)
def test_parameters_that_do_not_fit_are_named(kind, parameters, message):
    X, y = table()
    with pytest.raises(ValueError, match=message):
        make(kind, **parameters).fit(X, y)


def test_widths():
    X, y = table()
    model = fitted(NCARegressor)
    apart = np.abs(y[:, None] - y)[np.triu_indices(len(y), 1)]
    assert model.width_ == pytest.approx(np.quantile(apart, 0.2), rel=1e-6)
    for matching in ("soft", "hard"):
        given = make(NCARegressor, width=2.5, matching=matching).fit(X, y)
        assert given.width_ == pytest.approx(2.5)
        larger = make(NCARegressor, width=250.0, matching=matching).fit(X, 100 * y)
        np.testing.assert_allclose(larger.components_, given.components_, rtol=1e-4, atol=1e-6)
    X, Y = outputs()
    assert make(NCARegressor, width=0.5, max_iter=2).fit(X, Y).width_ == pytest.approx(0.5)
    ties = np.arange(len(X)) % 2 * 3.0  # half of all pairs are equal
    assert make(NCARegressor, max_iter=2).fit(X, ties).width_ == pytest.approx(3.0)
    for width in (0.0, -1.0, "wide", np.inf):
        with pytest.raises(ValueError, match=r"'width' parameter of NCARegressor must be a float"):
            make(NCARegressor, width=width).fit(X, ties)


def test_rows_that_match_no_other_are_counted():
    X, y = table()
    y = np.r_[y[:-2], 100.0, 200.0]
    told = r"2 of 160 rows match no other row: none has a number within the width 3\. .*soft"
    with pytest.warns(UserWarning, match=told):
        hard = make(NCARegressor, matching="hard", width=3.0, max_iter=3).fit(X, y)
    assert np.isfinite(hard.predict(X)).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        make(NCARegressor, width=3.0, max_iter=3).fit(X, y)


def test_two_values_that_match_or_not_are_classes():
    """Hard matches of two values, far apart: the probabilities of NCA."""
    from vicinal import NCA

    X, y = table()
    y = np.where(y > np.median(y), 1.0, 0.0)
    ours = make(NCARegressor, 2, matching="hard", width=0.5, init="pca").fit(X, y)
    theirs = make(NCA, 2, init="pca").fit(X, y)
    assert ours.loss_ == pytest.approx(theirs.loss_, rel=1e-9)
    np.testing.assert_allclose(ours.predict(X), theirs.predict_proba(X)[:, 1], atol=1e-6)


@each
@pytest.mark.parametrize("sampling", [StochasticQueries(30), MiniBatches(60, "random")])
def test_batches_learn_nearly_as_well(kind, sampling):
    X, y = table()
    few = make(kind, 3, sampling=sampling, max_iter=100).fit(X, y)
    assert few.score(X, y) > 0.75


@each
def test_search_scores_are_r2_of_held_out_rows(kind):
    X, y = table()
    folds = KFold(3, shuffle=True, random_state=0)
    model = kind(2, cv=folds, max_iter=10, random_state=0).fit(X, y)
    found = model.cv_results_["mean_test_score"]
    assert (found < 1).all()
    assert found.max() > 0.5
    assert len([key for key in model.cv_results_ if key.startswith("split")]) == 3
    grown = kind("auto", cv=folds, max_iter=10, random_state=0).fit(X, y)
    assert grown.n_components_ > 2


@each
def test_scores_are_told_in_r2(kind, capsys):
    X, y = table()
    make(kind, 2, early_stopping=True, max_iter=3, verbose=1).fit(X, y)
    assert "R² is 0." in capsys.readouterr().out
    make(kind, 2, alpha="auto", cv=2, max_iter=3, verbose=1).fit(X, y)
    assert "held-out R² 0." in capsys.readouterr().out


@each
def test_costs_of_a_fit_are_known_beforehand(kind):
    X, y = table()
    assert 0 < make(kind).estimate_cost(X, y).memory_bytes < 1e8
    assert make(kind).estimate_cost(X, y) == make(kind).estimate_cost(X)


@pytest.mark.parametrize("n", [160, 700])
@pytest.mark.parametrize("rule", ["kernel", "knn"])
def test_costs_of_predictions_are_known_beforehand(rule, n, monkeypatch):
    set_threads(monkeypatch, 1)  # of several, one that comes late takes no memory
    X, y = table(n)
    many = np.tile(X, (20_000 // n, 1))
    model = make(MLKR, 3, rule=rule, max_iter=1).fit(X, y)
    model.predict(many)  # compiled, and the search tree is made
    cost = model.estimate_predict_cost(many)
    tracemalloc.start()
    model.predict(many)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0.5 * cost.memory_bytes < peak < 2.0 * cost.memory_bytes
    assert cost.seconds > 0


@each
def test_float32_and_sparse_rows(kind):
    X, y = table()
    expected = fitted(kind).predict(X)
    for rows in (X.astype(np.float32), sp.csr_matrix(X)):
        model = make(kind).fit(rows, y)
        assert model.components_.dtype == rows.dtype
        np.testing.assert_allclose(model.predict(rows), expected, rtol=0.05)


def test_large_data_use_batches_by_plan():
    rows = np.broadcast_to(np.float32(0), (100_000, 20))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cost = MLKR(2).estimate_cost(rows)
    assert cost.seconds_per_evaluation < 1.0


def test_a_map_that_collapses_because_y_is_noise(rng):
    X, y = rng.standard_normal((80, 3)), rng.standard_normal(80)
    told = "collapsed.* is the mean of y.*nothing about y.*alpha=0.05 is too strong"
    with pytest.warns(UserWarning, match=told):
        MLKR(alpha=0.05, random_state=0).fit(X, y)
