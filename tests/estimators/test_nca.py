"""NCA as a model: what it minimises, what it learns, how it classifies and measures."""

from __future__ import annotations

import formulas
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.preprocessing import StandardScaler

from vicinal import NCA, maps, solvers, starts

INITS = ["auto", "identity", "random", "pca", "lda", "rca", "whiten"]
SOLVERS = ["lbfgs", "cg", "bold_driver", "momentum", "adam"]


@pytest.fixture(scope="module")
def wine():
    return load_wine(return_X_y=True)


@pytest.fixture(scope="module")
def halves(wine):
    X, y = wine
    return train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)


@pytest.fixture(scope="module")
def fitted(halves):
    X, _, y, _ = halves
    return NCA(2, random_state=0, alpha=3e-3).fit(X, y)


def peer_value(A, X, y):
    """Mean of scikit-learn's objective at the map A."""
    peer = NeighborhoodComponentsAnalysis()
    peer.n_iter_ = 0
    value, _ = peer._loss_grad_lbfgs(A.ravel(), X, y[:, None] == y[None, :])
    return value / len(y)


@pytest.mark.parametrize("mapping", ["linear", "diagonal"])
def test_objective_equals_scikit_learns_at_the_same_map(mapping):
    X, y = load_iris(return_X_y=True)
    model = NCA(objective="accuracy", mapping=mapping, init="identity", alpha=0.0)
    model.set_params(max_iter=3, tol=0.0)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    # centred: scikit-learn's products lose digits on columns that are far from zero
    peer = peer_value(model.components_, X - X.mean(axis=0), y)
    assert model.loss_ == pytest.approx(-peer, rel=1e-9)
    with pytest.warns(ConvergenceWarning):
        model.set_params(objective="log").fit(X, y)
    value, _ = formulas.nca(model.transform(X - X.mean(axis=0)), y, "log")
    assert model.loss_ == pytest.approx(value, rel=1e-9)


def test_a_given_map_is_the_start_as_it_is(wine):
    X, y = wine
    A = np.diag(1 / X.std(axis=0))[:3]
    with pytest.warns(ConvergenceWarning):
        model = NCA(3, objective="accuracy", init=A, alpha=0.0, max_iter=1).fit(X, y)
    start = -peer_value(A, X - X.mean(axis=0), y)
    assert model.history_["loss"][0] == pytest.approx(start, rel=1e-9)
    assert model.loss_ < start


@pytest.mark.parametrize("objective", ["log", "accuracy"])
def test_the_penalty_is_in_the_space_of_the_solver(wine, objective):
    X, y = wine
    model = NCA(2, objective=objective, alpha=0.03).fit(X, y)
    Z = model.transform(X - X.mean(axis=0))
    penalty = 0.03 * np.sum((model.components_ * X.std(axis=0)) ** 2)
    value, _ = formulas.nca(Z, y, objective)
    assert model.loss_ == pytest.approx(value + penalty, rel=1e-9)


@pytest.mark.parametrize(
    ("load", "n_components", "gain"), [(load_wine, 2, 0.2), (load_wine, None, 0.2),
                                       (load_iris, 2, -0.02), (load_digits, None, -0.01)],
)  # fmt: skip
def test_learns_a_metric_at_least_as_good_as_the_euclidean(load, n_components, gain):
    # Iris and raw digits leave Euclidean 1-NN next to nothing to gain; wine does, and so do
    # standardised digits, on which NCA works.
    X, y = load(return_X_y=True)
    euclidean, scaled, learnt, posterior = np.zeros((4, 3))
    for seed in range(3):
        split = train_test_split(X, y, test_size=0.6, random_state=seed, stratify=y)
        X_train, X_test, y_train, y_test = split
        one = KNeighborsClassifier(1)
        euclidean[seed] = one.fit(X_train, y_train).score(X_test, y_test)
        scaler = StandardScaler().fit(X_train)
        one.fit(scaler.transform(X_train), y_train)
        scaled[seed] = one.score(scaler.transform(X_test), y_test)
        model = NCA(n_components, random_state=0, alpha=3e-3).fit(X_train, y_train)
        posterior[seed] = model.score(X_test, y_test)
        one.fit(model.transform(X_train), y_train)
        learnt[seed] = one.score(model.transform(X_test), y_test)
    assert learnt.mean() > euclidean.mean() + gain
    assert posterior.mean() > euclidean.mean() + gain
    assert max(learnt.mean(), posterior.mean()) > scaled.mean()


@pytest.mark.parametrize("objective", ["log", "accuracy"])
def test_all_solvers_reach_the_same_loss(wine, objective):
    models = [
        NCA(2, objective=objective, solver=name, max_iter=500, alpha=3e-3).fit(*wine)
        for name in SOLVERS
    ]
    losses = [model.loss_ for model in models]
    assert max(losses) - min(losses) < 1e-3
    assert all(model.n_iter_ > 1 for model in models)


@pytest.mark.parametrize("objective", ["log", "accuracy"])
def test_all_starts_reach_the_same_loss(wine, objective):
    losses = [
        NCA(2, objective=objective, init=name, random_state=0, alpha=3e-3).fit(*wine).loss_
        for name in INITS
    ]
    assert max(losses) - min(losses) < 1e-3


def test_parts_are_the_names_with_parameters(wine):
    def loss(**parameters):
        with pytest.warns(ConvergenceWarning):
            return (
                NCA(2, random_state=0, max_iter=8, alpha=3e-3, **parameters)
                .fit(*wine)
                .history_["loss"]
            )

    assert loss(init=starts.PCA()) == loss(init="pca")
    assert loss(init=starts.PCA(whiten=False)) != loss(init="pca")
    assert loss(solver=solvers.LBFGS(memory=10)) == loss(solver="lbfgs")
    assert loss(solver=solvers.Adam(learning_rate=0.05)) != loss(solver="adam")
    assert loss(mapping=maps.Linear(2)) == loss(mapping="linear")


def test_random_restarts_keep_the_best(wine):
    X, y = wine
    settings = {"objective": "accuracy", "random_state": 3, "max_iter": 60}

    def fit(n_init):
        return NCA(1, init=starts.Random(n_init), alpha=0.0, **settings).fit(X, y)

    one, three = fit(1), fit(3)
    assert three.loss_ <= one.loss_
    best = peer_value(three.components_, X - X.mean(axis=0), y)
    assert three.loss_ == pytest.approx(-best, rel=1e-9)
    assert min(three.history_["loss"]) == pytest.approx(three.loss_, rel=1e-12)
    assert three.n_iter_ == three.history_["iteration"][-1]


def test_diagonal_map_has_one_weight_a_feature(wine):
    X, y = wine
    model = NCA(mapping="diagonal", alpha=3e-3).fit(X, y)
    A = model.components_
    assert A.shape == (13, 13)
    np.testing.assert_array_equal(A, np.diag(np.diag(A)))
    np.testing.assert_array_equal(NCA(mapping=maps.Diagonal(), alpha=3e-3).fit(X, y).components_, A)
    with pytest.warns(UserWarning, match="n_components=2 has no effect on a diagonal map"):
        np.testing.assert_array_equal(
            NCA(2, mapping="diagonal", alpha=3e-3).fit(X, y).components_, A
        )


def test_wide_data_get_32_components_and_a_diagonal_map_all(rng):
    X, y = rng.normal(size=(60, 40)), np.arange(60) % 3
    X[:, 0] += y
    assert NCA(max_iter=3, tol=1.0, alpha=3e-3).fit(X, y).components_.shape == (32, 40)
    for mapping in ("diagonal", maps.Diagonal()):
        A = NCA(mapping=mapping, max_iter=3, tol=1.0, alpha=3e-3).fit(X, y).components_
        assert A.shape == (40, 40)
        assert np.diag(A).all()


def test_transform_is_the_product_with_components(fitted, halves):
    _, X, _, _ = halves
    np.testing.assert_allclose(fitted.transform(X), X @ fitted.components_.T, rtol=1e-12)
    A, B, a, _ = halves
    both = clone(fitted).fit_transform(A, a)
    np.testing.assert_allclose(both, fitted.transform(A), rtol=1e-12)


@pytest.mark.parametrize("priors", [None, "uniform", [0.2, 0.5, 0.3]])
def test_posterior_is_the_formula(halves, priors):
    X, X_test, y, _ = halves
    weight = 0.3 + np.arange(len(y)) % 4
    model = NCA(2, priors=priors, alpha=3e-3).fit(X, y, sample_weight=weight)
    P = formulas.posterior(model.transform(X_test), model.transform(X), y, priors, weight)
    np.testing.assert_allclose(model.predict_proba(X_test), P, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("k", [1, 4, 5])
def test_votes_are_those_of_scikit_learns_neighbours(halves, k):
    X, X_test, y, _ = halves
    model = NCA(2, rule="knn", n_neighbors=k, alpha=3e-3).fit(X, y)
    peer = KNeighborsClassifier(k).fit(model.transform(X), y)
    Z = model.transform(X_test)
    np.testing.assert_allclose(model.predict_proba(X_test), peer.predict_proba(Z))
    np.testing.assert_array_equal(model.predict(X_test), peer.predict(Z))
    assert model.n_neighbors_ == k


@pytest.mark.parametrize("weighted", [False, True])
def test_auto_n_neighbors_is_the_best_left_out_vote(rng, weighted):
    X, y = rng.normal(size=(90, 4)), np.arange(90) % 3
    X[:, 0] += 0.8 * y
    weight = rng.uniform(0.2, 2, size=90) if weighted else np.ones(90)
    model = NCA(rule="knn", n_neighbors="auto", alpha=3e-3).fit(X, y, weight if weighted else None)
    order = pairwise_distances(model.transform(X)).argsort(axis=1, kind="stable")[:, 1:]
    right = []
    for k in range(1, 51):
        votes = np.zeros((90, 3))
        for i in range(90):
            np.add.at(votes[i], y[order[i, :k]], weight[order[i, :k]])
        right.append(np.average(votes.argmax(axis=1) == y, weights=weight))
    assert model.n_neighbors_ == 1 + int(np.argmax(right))


def test_rule_may_change_after_the_fit(fitted, halves):
    X, X_test, y, _ = halves
    other = clone(fitted).fit(X, y).set_params(rule="knn")
    votes = NCA(2, random_state=0, rule="knn", alpha=3e-3).fit(X, y).predict_proba(X_test)
    np.testing.assert_array_equal(other.predict_proba(X_test), votes)


def test_distances_agree_with_each_other(fitted, halves):
    X, X_test, _, _ = halves
    pairs = np.stack([X[:20], X_test[:20]], axis=1)
    M, metric = fitted.get_mahalanobis_matrix(), fitted.get_metric()
    np.testing.assert_allclose(M, fitted.components_.T @ fitted.components_)
    difference = pairs[:, 0] - pairs[:, 1]
    plain = np.sqrt(np.einsum("ij,jk,ik->i", difference, M, difference))
    distances = fitted.pair_distance(pairs)
    np.testing.assert_allclose(distances, plain, rtol=1e-9)
    np.testing.assert_allclose(distances, [metric(u, v) for u, v in pairs], rtol=1e-12)
    np.testing.assert_allclose(distances**2, [metric(u, v, squared=True) for u, v in pairs])
    np.testing.assert_array_equal(fitted.pair_score(pairs), -distances)
    Z, W = fitted.transform(X[:20]), fitted.transform(X_test[:20])
    np.testing.assert_allclose(distances, np.linalg.norm(Z - W, axis=1), rtol=1e-9)
    peer = KNeighborsClassifier(1, metric=metric).fit(X[:20], np.arange(20))
    nearest = pairwise_distances(W, Z).argmin(axis=1)
    np.testing.assert_array_equal(peer.predict(X_test[:20]), nearest)


def test_alpha_shrinks_the_map(wine):
    X, y = wine
    norms = [
        np.linalg.norm(NCA(2, alpha=alpha).fit(X, y).components_ * X.std(axis=0))
        for alpha in (3e-4, 3e-3, 3e-2, 3e-1)
    ]
    assert norms == sorted(norms, reverse=True)
    assert norms[-1] < norms[0] / 2


def test_effective_neighbours_are_the_formula(fitted, halves):
    X, _, y, _ = halves
    expected = formulas.effective_n_neighbors(fitted.transform(X))
    np.testing.assert_allclose(fitted.effective_n_neighbors(), expected, rtol=1e-6)
    assert fitted.effective_n_neighbors().mean() == pytest.approx(expected.mean(), rel=1e-6)
    wide = NCA(2, alpha=0.3).fit(X, y)
    # kept once computed, and forgotten by the next fit
    assert wide.effective_n_neighbors().mean() > fitted.effective_n_neighbors().mean()
    wide.set_params(alpha=fitted.alpha).fit(X, y)
    np.testing.assert_array_equal(wide.effective_n_neighbors(), fitted.effective_n_neighbors())
