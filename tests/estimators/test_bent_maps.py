"""Estimators with maps that bend: starts, ranks, searches, and what is left of a fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_wine

from vicinal import KSNE, NCA
from vicinal._features import Features
from vicinal.core.problem import Problem
from vicinal.maps import Linear
from vicinal.objectives import NCALoss
from vicinal.starts import PCA, Auto, Given, first_map
from vicinal.targets import Labels


@dataclass(frozen=True)
class Squares:
    """``Z = A [x, x²]``: the least that bends."""

    n_components: Any = None

    def with_rank(self, d):
        return replace(self, n_components=d)

    def _wide(self, X):
        blocks = [block for _, block in X.blocks()]
        plain = np.concatenate(blocks) if blocks else np.empty(X.shape)
        rows = Features.as_they_are(np.hstack([plain, plain**2]))
        return rows

    def forward(self, theta, X, dtype=np.float64):
        return Linear(self.n_components).forward(theta, self._wide(X), dtype)

    def start_from(self, X, rng):
        return self._wide(X), lambda A: A.ravel().copy()


@pytest.fixture(scope="module")
def wine():
    return load_wine(return_X_y=True)


def first_theta(problem, start=None, d=2, seed=0):
    made = first_map(start or Auto(), d, "NCA")
    return made(problem, np.random.RandomState(seed))


def problem_of(X, y, mapping, **more):
    return Problem(Features(X, "standard"), Labels(y), NCALoss(), mapping, **more)


def test_the_start_is_a_matrix_of_the_last_layer(wine):
    X, y = wine
    mapping = Squares(2)
    problem = problem_of(X, y, mapping)
    theta = first_theta(problem, PCA())
    rows, _ = mapping.start_from(problem.X, None)
    A = PCA()(rows, y, 2, np.random.RandomState(0))
    share = theta.reshape(2, -1) / A
    np.testing.assert_allclose(share, share[0, 0])  # but for the scale, which the loss chooses
    assert share[0, 0] != 1.0
    losses = [problem.value(problem.scaled(theta, s)) for s in (0.25, 0.5, 1.0, 2.0, 4.0)]
    assert np.argmin(losses) == 2


def test_held_out_rows_do_not_influence_the_start(wine, rng):
    X, y = wine
    order = rng.permutation(len(X))
    train, held_out = np.sort(order[:120]), np.sort(order[120:])
    problem = problem_of(X, y, Squares(2), train=train, held_out=held_out)
    theta = first_theta(problem)
    problem.X.X[held_out] = rng.normal(size=(len(held_out), 13)) * 100
    other = y.copy()
    other[held_out] = 0
    np.testing.assert_array_equal(first_theta(problem.replace(target=Labels(other))), theta)


def test_an_array_is_the_map_of_the_features(wine, rng):
    X, y = wine
    A = rng.normal(size=(15, 13)) / X.std(axis=0)  # more components than features
    problem = problem_of(X, y, Squares(15))
    Z = problem.embed(first_theta(problem, Given(A), 15))
    np.testing.assert_allclose(Z, (X - X.mean(axis=0)) @ A.T, atol=1e-10)
    model = NCA(mapping=Squares(), init=A, max_iter=2, alpha=0.0, tol=None).fit(X, y)
    assert model.n_components_ == 15
    with pytest.raises(ValueError, match=r"'init' parameter of NCA must be an array of shape"):
        NCA(3, mapping=Squares(), init=A).fit(X, y)


def test_ranks(wine):
    X, y = wine
    for asked, found in ((None, 13), (2, 2), (20, 20)):
        model = NCA(asked, mapping=Squares(), alpha=0.01, max_iter=1, tol=None).fit(X, y)
        assert (model.n_components_, model.transform(X).shape[1]) == (found, found)
    assert NCA(mapping=Squares(3), alpha=0.1, max_iter=1, tol=None).fit(X, y).n_components_ == 3
    with pytest.raises(ValueError, match="'mapping' parameter of NCA must have n_components=4"):
        NCA(4, mapping=Squares(3)).fit(X, y)
    with pytest.raises(ValueError, match=r"must be an int in \[1, inf\) or None. Got 'auto'"):
        NCA("auto", mapping=Squares(3)).fit(X, y)


def test_a_search_chooses_rank_and_penalty(wine):
    X, y = wine
    model = NCA("auto", mapping=Squares(), cv=2, random_state=0).fit(X[::2], y[::2])
    assert model.n_components_ == model._map.mapping.n_components
    assert set(model.cv_results_["stage"]) == {"n_components", "alpha"}
    assert model.score(X[1::2], y[1::2]) > 0.9


@pytest.mark.parametrize("init", ["pca", "random", "array"])
def test_pictures(wine, init, rng):
    X, y = wine
    given = rng.normal(size=(2, 13)) / X.std(axis=0) if init == "array" else init
    model = KSNE(mapping=Squares(), init=given, k=2, max_iter=5, random_state=0)
    Z = model.fit_transform(X)
    np.testing.assert_array_equal(model.transform(X), Z)
    assert model.history_["loss"][-1] < model.history_["loss"][0]
