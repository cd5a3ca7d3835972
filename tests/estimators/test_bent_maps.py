"""Estimators with maps that bend: starts, ranks, searches, and what is left of a fit."""

from __future__ import annotations

import pickle
import tracemalloc
from contextlib import nullcontext

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from vicinal import KSNE, NCA
from vicinal._features import Features
from vicinal.core.problem import Problem
from vicinal.fit.context import Budget, FitContext
from vicinal.fit.method import Config, Data
from vicinal.fit.plan import make_plan, size_of
from vicinal.fit.report import Reports
from vicinal.fit.score import exchange_importances
from vicinal.fit.search import search_effort
from vicinal.maps import MLP, Linear, Periodic
from vicinal.maps.fitted import FittedMap
from vicinal.objectives import NCALoss
from vicinal.samplers import Full, MiniBatches, StochasticQueries
from vicinal.solvers import LBFGS, Adam
from vicinal.starts import PCA, Auto, Given, first_map
from vicinal.targets import Labels

SMALL = Periodic(n_frequencies=3, width=2)
NETWORK = MLP(hidden=(5,), activation="tanh")


@pytest.fixture(scope="module")
def wine():
    return load_wine(return_X_y=True)


@pytest.fixture(scope="module")
def learnt(wine):
    X, y = wine
    return NCA(3, mapping=SMALL, alpha=3e-3, random_state=0).fit(X[::2], y[::2])


def first_theta(problem, start=None, d=2):
    return first_map(start or Auto(), d, "NCA")(problem, np.random.RandomState(0))


def problem_of(X, y, mapping, **more):
    return Problem(Features(X, "standard"), Labels(y), NCALoss(), mapping, **more)


# starts


def test_the_start_is_a_matrix_of_the_last_layer(wine):
    X, y = wine
    mapping = SMALL.with_rank(2)
    problem = problem_of(X, y, mapping)
    theta = first_theta(problem, PCA())
    rng = np.random.RandomState(0)
    rows, theta_of = mapping.start_from(problem.X, rng)
    A = PCA()(rows, y, 2, rng)
    # but for the scale, which the loss chooses
    factor = np.linalg.norm(problem.embed(theta)) / np.linalg.norm(problem.embed(theta_of(A)))
    np.testing.assert_allclose(theta, mapping.scaled(theta_of(A), factor))
    assert factor != 1.0
    losses = [problem.value(problem.scaled(theta, s)) for s in (0.25, 0.5, 1.0, 2.0, 4.0)]
    assert np.argmin(losses) == 2


def test_held_out_rows_do_not_influence_the_start(wine, rng):
    X, y = wine
    order = rng.permutation(len(X))
    train, held_out = np.sort(order[:120]), np.sort(order[120:])
    problem = problem_of(X, y, SMALL.with_rank(2), train=train, held_out=held_out)
    theta = first_theta(problem)
    problem.X.X[held_out] = rng.normal(size=(len(held_out), 13)) * 100
    other = y.copy()
    other[held_out] = 0
    np.testing.assert_array_equal(first_theta(problem.replace(target=Labels(other))), theta)


@pytest.mark.parametrize("mapping", [SMALL, NETWORK])
def test_an_array_is_the_map_of_the_features(wine, rng, mapping):
    X, y = wine
    A = rng.normal(size=(15, 13)) / X.std(axis=0)  # more components than features
    problem = problem_of(X, y, mapping.with_rank(15))
    Z = problem.embed(first_theta(problem, Given(A), 15))
    np.testing.assert_allclose(Z, (X - X.mean(axis=0)) @ A.T, atol=1e-10)
    model = NCA(mapping=mapping, init=A, max_iter=1, alpha=0.0, tol=None).fit(X, y)
    assert model.n_components_ == 15
    with pytest.raises(ValueError, match=r"'init' parameter of NCA must be an array of shape"):
        NCA(3, mapping=mapping, init=A).fit(X, y)


def test_a_network_without_the_features_takes_no_array(wine, rng):
    X, y = wine
    plain = MLP(hidden=(5,), residual=False)
    with pytest.raises(ValueError, match=r"'init' parameter of NCA must be another start .* array"):
        NCA(mapping=plain, init=np.eye(2, 13)).fit(X, y)
    model = NCA(2, mapping=plain, alpha=3e-3, random_state=0).fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.9


@pytest.mark.parametrize("mapping", [SMALL, NETWORK, Periodic(3, 2, then=NETWORK)])
def test_no_component_is_stuck_at_zero(wine, mapping):
    """A start has only as many directions as there are columns; the map may have more."""
    X, y = wine
    model = NCA(6, mapping=mapping, alpha=1e-3, max_iter=9, tol=None).fit(X[:, :3], y)
    assert np.linalg.matrix_rank(model.transform(X[:, :3]), rtol=1e-6) > 3


# ranks and searches


def test_ranks(wine):
    X, y = wine
    for asked, found in ((None, 13), (2, 2), (20, 20)):
        model = NCA(asked, mapping=SMALL, alpha=0.01, max_iter=1, tol=None).fit(X, y)
        assert (model.n_components_, model.transform(X).shape[1]) == (found, found)
    fixed = MLP((5,), n_components=3)
    assert NCA(mapping=fixed, alpha=0.1, max_iter=1, tol=None).fit(X, y).n_components_ == 3
    with pytest.raises(ValueError, match="'mapping' parameter of NCA must have n_components=4"):
        NCA(4, mapping=fixed).fit(X, y)
    with pytest.raises(ValueError, match=r"must be an int in \[1, inf\) or None. Got 'auto'"):
        NCA("auto", mapping=fixed).fit(X, y)


def test_a_search_chooses_the_rank(wine):
    X, y = wine
    model = NCA("auto", mapping=NETWORK, cv=2, random_state=0, max_iter=10, tol=None)
    model.fit(X[::2], y[::2])
    assert model.n_components_ == model._map.mapping.n_components
    assert set(model.cv_results_["stage"]) == {"n_components"}
    assert model.alpha_ == 0.01  # by the number of rows
    assert model.score(X[1::2], y[1::2]) > 0.9


def test_maps_are_parameters_of_a_grid(wine):
    X, y = wine
    search = GridSearchCV(
        NCA(2, alpha=3e-3, max_iter=3, tol=None),
        {"mapping": ["linear", "periodic", NETWORK]},
        cv=2,
        error_score="raise",
    ).fit(X, y)
    assert set(map(str, search.cv_results_["param_mapping"])) == {
        "linear",
        "periodic",
        "MLP(hidden=(5,), activation='tanh', residual=True, n_components=None)",
    }


@pytest.mark.parametrize("init", ["pca", "random", "array"])
def test_pictures(wine, init, rng):
    X, y = wine
    given = rng.normal(size=(2, 13)) / X.std(axis=0) if init == "array" else init
    model = KSNE(mapping=SMALL, init=given, k=2, max_iter=5, random_state=0)
    Z = model.fit_transform(X)
    np.testing.assert_array_equal(model.transform(X), Z)
    assert model.history_["loss"][-1] < model.history_["loss"][0]
    assert model.history_["loss"][0] > 0


# what is left of a fit


def test_only_linear_maps_have_a_matrix(learnt, wine):
    X, y = wine
    assert not hasattr(learnt, "components_")
    with pytest.raises(AttributeError, match="components_ exists for linear maps only"):
        learnt.components_  # noqa: B018
    with pytest.raises(AttributeError) as why:
        learnt.inverse_transform(X)
    assert "inverse_transform exists for linear maps only" in str(why.value.__cause__)
    with pytest.raises(AttributeError, match="get_mahalanobis_matrix exists for linear maps only"):
        learnt.get_mahalanobis_matrix()
    with pytest.raises(AttributeError, match="'NCA' object has no attribute 'components_'"):
        NCA().components_  # noqa: B018
    again = clone(learnt).set_params(mapping="linear", max_iter=1, tol=None).fit(X, y)
    assert again.components_.shape == (3, 13)


def test_transform_in_blocks(learnt, wine, monkeypatch):
    X, _ = wine
    Z = learnt.transform(X)
    monkeypatch.setattr("vicinal.maps.fitted._ROWS", 32)
    np.testing.assert_allclose(learnt.transform(X), Z, rtol=1e-12)
    np.testing.assert_allclose(learnt.transform(sp.csr_array(X)), Z, rtol=1e-12)
    assert learnt._map.transform(X[:0]).shape == (0, 3)
    few = learnt.transform(X[:5])  # not Z[:5]: BLAS may round otherwise for another number of rows
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(learnt)).transform(X[:5]), few)
    assert list(learnt.get_feature_names_out()) == ["nca0", "nca1", "nca2"]


def test_float32(wine):
    X, y = wine
    model = NCA(2, mapping=SMALL, alpha=0.01, max_iter=3, tol=None, random_state=0)
    Z = model.fit(X, y).transform(X)
    small = clone(model).fit(X.astype(np.float32), y)
    assert (Z.dtype, model.transform(X.astype(np.float32)).dtype) == (np.float64, np.float64)
    assert small.transform(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(small.transform(X.astype(np.float32)), Z, atol=1e-4 * np.ptp(Z))


def test_limits_hold_for_models_only(rng):
    """As for linear maps: gross outliers are moved for learning and prediction, not transform."""
    X = rng.normal(size=(300, 2))
    X[0, 0] = 1e6
    features = Features(X, "standard")
    assert features.limits is not None
    mapping = MLP((3,), n_components=2)
    theta = mapping.start_from(features, rng)[1](np.eye(2))
    fitted = FittedMap(mapping, theta, features, np.float64)
    linear = Linear(2).forward(np.eye(2).ravel(), features)[0]
    np.testing.assert_allclose(fitted.embed(X), linear, atol=1e-12)
    assert fitted.transform(X)[0, 0] > 1e3 * fitted.embed(X)[0, 0]
    np.testing.assert_allclose(fitted.transform(X)[1:], linear[1:], atol=1e-12)


def test_importances_of_a_linear_map_are_those_of_its_matrix(rng):
    A = rng.normal(size=(2, 5))
    found = exchange_importances(Linear(2), A.ravel(), rng.gamma(1.0, size=(7, 5)))
    np.testing.assert_allclose(found, np.sum(A**2, axis=0), rtol=1e-10)


def test_importances_find_the_columns_that_decide(rng):
    X = rng.normal(size=(150, 6))
    X[:, 4] = 1.0
    y = (np.abs(X[:, 2]) < 0.67).astype(int)  # no linear map separates these
    model = NCA(2, mapping=MLP((20,)), alpha=0.01, max_iter=40, tol=None, random_state=0).fit(X, y)
    found = model.feature_importances_
    assert (np.argmax(found), found[4]) == (2, 0.0)
    assert found.sum() == pytest.approx(1.0)
    np.testing.assert_array_equal(clone(model).fit(X, y).feature_importances_, found)
    sparse = clone(model).fit(sp.csr_array(X), y)
    np.testing.assert_allclose(sparse.feature_importances_, found, rtol=1e-3)


# continuing


@pytest.mark.parametrize("sampling", ["full", StochasticQueries(40)])
@pytest.mark.parametrize("mapping", [SMALL, NETWORK])
def test_two_halves_of_a_fit_are_the_whole(wine, mapping, sampling):
    X, y = wine
    solver = "lbfgs" if sampling == "full" else Adam(0.01, weight_decay=0.1)
    settings = {"mapping": mapping, "random_state": 0, "sampling": sampling, "solver": solver}
    whole = NCA(2, alpha=1e-3, tol=0.0, max_iter=8, **settings)
    halves = clone(whole).set_params(max_iter=4, warm_start=True)
    for model in (whole, halves, halves):
        with pytest.warns(ConvergenceWarning) if sampling == "full" else nullcontext():
            model.fit(X, y)
    np.testing.assert_array_equal(halves._map.theta, whole._map.theta)


def test_a_warm_start_begins_with_the_last_map(wine):
    X, y = wine
    model = NCA(2, mapping=SMALL, solver="lbfgs", alpha=1e-3, random_state=0, warm_start=True)
    before = model.fit(X[::2], y[::2]).transform(X)
    model.set_params(max_iter=1, tol=None).fit(X, y)  # other rows
    cold = clone(model).set_params(warm_start=False).fit(X, y)
    after, other = model.transform(X), cold.transform(X)
    assert np.linalg.norm(after - before) < 0.5 * np.linalg.norm(other - before)


def test_streams(wine, rng):
    X, y = wine
    order = rng.permutation(len(X))
    model = NCA(2, mapping=SMALL, alpha=0.01, random_state=0).fit(X[::2], y[::2])
    before = model.transform(X)
    model.solver = Adam(1e-12)
    model.partial_fit(X[40:80], y[40:80], classes=[0, 1, 2])  # whose scaling differs
    np.testing.assert_allclose(model.transform(X), before, atol=1e-8)
    model = NCA(2, mapping=SMALL, alpha=0.01, random_state=0)
    for _ in range(2):
        for rows in np.array_split(order, 3):
            model.partial_fit(X[rows], y[rows], classes=[0, 1, 2])
    assert model.score(X, y) > 0.9
    assert model.feature_importances_.sum() == pytest.approx(1.0)


def test_early_stopping_with_any_map(wine):
    X, y = wine
    model = NCA(2, mapping=NETWORK, alpha=0.0, early_stopping=True, random_state=0,
                n_iter_no_change=3).fit(X, y)  # fmt: skip
    scores = model.history_["validation_score"]
    assert np.isfinite(scores).sum() > 3
    assert len(scores) < model.plan_.max_iter


def test_bent_maps_learn_by_adam_on_small_batches(wine):
    X, y = wine
    model = NCA(2, mapping=SMALL, alpha=1e-3, random_state=0, max_iter=2).fit(X, y)
    assert (model.plan_.solver, model.plan_.sampling) == (None, MiniBatches(64, "random"))
    assert "small batches" in model.plan_.reason
    chosen = NCA(2, mapping=SMALL, random_state=0, max_iter=2).fit(X, y)  # without a search
    assert chosen.alpha_ == 0.01  # up to 850 rows
    assert "by the number of rows" in chosen.plan_.reason
    assert not hasattr(chosen, "cv_results_")
    whole = NCA(
        2, mapping=SMALL, alpha=1e-3, random_state=0, max_iter=2, sampling="full", tol=None
    ).fit(X, y)
    assert whole.plan_.solver == Adam(0.01)
    with pytest.warns(ConvergenceWarning):
        asked = NCA(2, mapping=SMALL, alpha=1e-3, solver="lbfgs", max_iter=2).fit(X, y)
    assert asked.plan_.sampling == Full()
    assert NCA(2, alpha=1e-3, random_state=0).fit(X, y).plan_.solver == LBFGS()


def test_costly_maps_are_searched_with_less(rng):
    def effort(mapping, n, n_features, alpha="auto", cv=None):
        model = NCA(2, mapping=mapping, alpha=alpha, cv=cv)
        X, y = rng.normal(size=(n, n_features)), np.arange(n) % 2
        data = Data(X, Labels(y), np.arange(2))
        method, config = model._method(data), Config.of(model)
        plan = make_plan(method, config, size_of(data, method))
        context = FitContext(method, config, plan, 0, Reports("NCA", 0), Budget(None, 0.0))
        return search_effort(context, problem_of(X, y, method.mapping))

    assert effort("linear", 5000, 300) == (2000, None, 40)
    assert effort("periodic", 5000, 5) == (2000, None, 40)
    assert effort("periodic", 300, 30) == (2000, None, 40)
    assert effort("periodic", 3000, 900) == (500, 3, 20)
    assert effort("periodic", 3000, 900, cv=4) == (500, 4, 20)
    middle = effort("periodic", 5000, 100)
    assert middle.cv == 3
    assert 500 < middle.n_rows < 2000


def test_memory_is_stated(rng):
    X, y = rng.normal(size=(400, 20)), np.arange(400) % 3
    for mapping in ("periodic", MLP((64,))):
        model = NCA(8, mapping=mapping, alpha=0.01, max_iter=3, tol=None, random_state=0)
        stated = model.estimate_cost(X, y).memory_bytes
        model.fit(X, y)  # loads what it needs
        tracemalloc.start()
        model.fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert 0.5 * stated < peak < 2.0 * stated
