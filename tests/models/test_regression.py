"""Kernel regression and means of the nearest rows, over stored projections."""

from __future__ import annotations

import numpy as np
import pytest
from common.checks import each_dtype, set_threads
from sklearn import config_context
from sklearn.neighbors import KNeighborsRegressor

from vicinal.densities import Gaussian, Laplace, Student
from vicinal.models.regression import RegressionModel
from vicinal.targets import Numbers

KERNELS = {
    "gaussian": (Gaussian(), lambda d2, d: np.exp(-d2)),
    "student": (Student(), lambda d2, d: (1 + d2) ** (-(d + 1) / 2)),
    "laplace": (Laplace(), lambda d2, d: np.exp(-np.sqrt(d2))),
}
each_kernel = pytest.mark.parametrize("kernel", KERNELS)


def data(rng, n=40, n_queries=9, d=3, q=2):
    return rng.normal(size=(n_queries, d)), rng.normal(size=(n, d)), rng.normal(size=(n, q))


@each_kernel
@pytest.mark.parametrize("weighted", [False, True])
def test_kernel_regression_by_the_formula(rng, kernel, weighted):
    part, formula = KERNELS[kernel]
    for d in (1, 3, 20):
        queries, Z, Y = data(rng, d=d)
        v = rng.uniform(0.1, 2, len(Z)) if weighted else None
        d2 = ((queries[:, None] - Z) ** 2).sum(axis=2)
        w = formula(d2, d) * (1.0 if v is None else v)
        expected = (w @ Y) / w.sum(axis=1, keepdims=True)
        found = RegressionModel(Z, Numbers(Y, v), 5, part).predict(queries, "kernel")
        np.testing.assert_allclose(found, expected, rtol=1e-10)


@each_kernel
@each_dtype
@pytest.mark.parametrize("scale", [0.0, 1e-8, 1.0, 1e3, 1e8])
def test_predictions_are_finite_at_any_scale(rng, kernel, dtype, scale):
    queries, Z, Y = data(rng)
    model = RegressionModel((scale * Z).astype(dtype), Numbers(Y), 5, KERNELS[kernel][0])
    found = model.predict((scale * queries).astype(dtype), "kernel")
    assert (found.shape, found.dtype) == ((9, 2), np.float64)
    assert (found <= Y.max(axis=0) + 1e-12).all()
    assert (found >= Y.min(axis=0) - 1e-12).all()


def test_far_from_all_rows_the_nearest_decides(rng):
    queries, Z, Y = data(rng)
    far = 1e6 * queries
    nearest = ((far[:, None] - Z) ** 2).sum(axis=2).argmin(axis=1)
    found = RegressionModel(Z, Numbers(Y), 5).predict(far, "kernel")
    np.testing.assert_array_equal(found, Y[nearest])
    with pytest.raises(ValueError, match="must lie within"):
        RegressionModel(Z, Numbers(Y), 5).predict(1e200 * queries, "kernel")


def test_a_light_row_nearby_does_not_hide_the_others(rng):
    Z = np.array([[0.0], [30.0], [31.0]])
    numbers = Numbers([5.0, 1.0, 2.0], [1e-300, 1.0, 1.0])
    (found,) = RegressionModel(Z, numbers, 1).predict(np.array([[25.0]]), "kernel")[:, 0]
    assert found == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("k", [1, 4, 40])
def test_nearest_means_as_scikit_learn_has_them(rng, k):
    queries, Z, Y = data(rng)
    expected = KNeighborsRegressor(k).fit(Z, Y).predict(queries)
    model = RegressionModel(Z, Numbers(Y), k)
    np.testing.assert_allclose(model.predict(queries, "knn"), expected, rtol=1e-12)
    with config_context(working_memory=1e-4):  # a row at a time
        np.testing.assert_array_equal(
            model.predict(queries, "knn"), RegressionModel(Z, Numbers(Y), k).predict(queries, "knn")
        )


def test_nearest_means_with_weights(rng):
    queries, Z, Y = data(rng)
    v = rng.uniform(0.1, 2, len(Z))
    near = ((queries[:, None] - Z) ** 2).sum(axis=2).argsort(axis=1)[:, :4]
    expected = (v[near][:, :, None] * Y[near]).sum(axis=1) / v[near].sum(axis=1)[:, None]
    found = RegressionModel(Z, Numbers(Y, v), 4).predict(queries, "knn")
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_auto_has_the_least_squared_error_of_rows_left_out(rng, weighted):
    _, Z, Y = data(rng, n=30, d=2)
    Y = Y + 2 * Z  # neighbours tell something
    v = rng.uniform(0.1, 2, 30) if weighted else np.ones(30)
    errors = []
    for k in range(1, 30):
        error = 0.0
        for i in range(30):
            rest = np.delete(np.arange(30), i)
            near = rest[((Z[i] - Z[rest]) ** 2).sum(axis=1).argsort()[:k]]
            error += v[i] * np.sum((Y[i] - np.average(Y[near], axis=0, weights=v[near])) ** 2)
        errors.append(error)
    model = RegressionModel(Z, Numbers(Y, v if weighted else None), "auto")
    assert model.n_neighbors == 1 + int(np.argmin(errors))
    assert 1 < model.n_neighbors < 29


@pytest.mark.parametrize("rule", ["kernel", "knn"])
def test_scores_are_shares_of_the_variance(rng, rule):
    queries, Z, Y = data(rng, n_queries=300)
    truth = rng.normal(size=(300, 2))
    v = rng.uniform(0.1, 2, len(Z))
    model = RegressionModel(Z, Numbers(Y, v), 5)
    scores = model.scores(queries, Numbers(truth), rule)
    mean = np.average(Y, axis=0, weights=v)
    variance = np.average(((Y - mean) ** 2).sum(axis=1), weights=v)
    error = ((model.predict(queries, rule) - truth) ** 2).sum(axis=1)
    np.testing.assert_allclose(scores, 1 - error / variance)
    same = RegressionModel(Z, Numbers(np.full_like(Y, 3.0)), 5)  # nothing varies
    np.testing.assert_array_equal(same.scores(queries, Numbers(np.full((300, 2), 3.0)), rule), 1.0)


@each_kernel
@pytest.mark.parametrize("n", [60, 700])
def test_bits_depend_neither_on_threads_nor_on_other_rows(rng, monkeypatch, kernel, n):
    queries, Z, Y = data(rng, n, 1500)
    model = RegressionModel(Z, Numbers(Y), 5, KERNELS[kernel][0])
    set_threads(monkeypatch, 1)
    expected = model.predict(queries, "kernel")
    np.testing.assert_array_equal(model.predict(queries[-7:], "kernel"), expected[-7:])
    np.testing.assert_array_equal(model.predict(queries[700:701], "kernel"), expected[700:701])
    for threads in (2, 3):
        set_threads(monkeypatch, threads)
        np.testing.assert_array_equal(model.predict(queries, "kernel"), expected)
