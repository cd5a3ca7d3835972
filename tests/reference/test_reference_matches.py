"""The plain formulas of soft matches and of MLKR: by hand, by differences, and against NCA's."""

from __future__ import annotations

from math import exp, log

import numpy as np
import pytest
from formulas import (
    finite_difference,
    matches_of_distributions,
    matches_of_numbers,
    mlkr,
    nca,
    nca_matches,
)

OBJECTIVES = ["accuracy", "log"]
KERNELS = ["gaussian", "student"]
ROWS = {
    "all": {},
    "weights": {"sample_weight": np.linspace(0.0, 2.0, 12)},
    "held-out": {"queries": [0, 4, 7, 9], "references": [1, 2, 3, 5, 6, 8, 9, 10, 11]},
}
each_objective = pytest.mark.parametrize("objective", OBJECTIVES)
each_kernel = pytest.mark.parametrize("kernel", KERNELS)
each_rows = pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)


@pytest.fixture
def Z(rng):
    grid = np.array([[i, j] for i in range(4) for j in range(3)], dtype=float)
    return grid + 0.3 * rng.standard_normal(grid.shape)


def some_matches(rng):
    M = rng.uniform(size=(12, 12)) * (rng.uniform(size=(12, 12)) < 0.4)
    M[5] = 0.0  # a row that matches nobody
    np.fill_diagonal(M, 0.7)  # which counts for nothing
    return M


@each_objective
@each_kernel
@each_rows
@pytest.mark.parametrize("scale", [0.5, 3.0])
def test_gradient_of_matches(rng, Z, objective, kernel, rows, scale):
    M = some_matches(rng)
    value, dZ = nca_matches(scale * Z, M, objective, kernel=kernel, **rows)
    numeric = finite_difference(
        lambda W: nca_matches(W, M, objective, kernel=kernel, **rows)[0], scale * Z
    )
    assert np.abs(dZ).max() > 1e-3
    np.testing.assert_allclose(dZ, numeric, atol=1e-7)


@each_kernel
@each_rows
@pytest.mark.parametrize("outputs", [0, 1, 3])
def test_gradient_of_mlkr(rng, Z, kernel, rows, outputs):
    y = rng.standard_normal((12, outputs) if outputs else 12)
    value, dZ = mlkr(Z, y, kernel=kernel, **rows)
    numeric = finite_difference(lambda W: mlkr(W, y, kernel=kernel, **rows)[0], Z)
    assert np.abs(dZ).max() > 1e-3
    np.testing.assert_allclose(dZ, numeric, atol=1e-7)


def test_three_points_by_hand():
    """Row 0 has squared distances 1 and log 3 to the others."""
    Z = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, np.sqrt(log(3))]])
    p = exp(-1) / (exp(-1) + 1 / 3)
    M = np.array([[1.0, 0.3, 0.8], [0, 0, 0], [0, 0, 0]])
    right = 0.3 * p + 0.8 * (1 - p)
    assert nca_matches(Z, M, "accuracy", queries=[0])[0] == pytest.approx(-right)
    assert nca_matches(Z, M, "log", queries=[0])[0] == pytest.approx(-log(right))
    assert nca_matches(Z, M, "log")[0] == pytest.approx(-log(right))  # the others are left out
    assert nca_matches(Z, M, "accuracy")[0] == pytest.approx(-right / 3)
    y = np.array([[1.0, 0.0], [3.0, 2.0], [-1.0, 5.0]])
    predicted = p * y[1] + (1 - p) * y[2]
    assert mlkr(Z, y, queries=[0])[0] == pytest.approx(np.sum((y[0] - predicted) ** 2))
    weighted = 2 * p / (2 * p + 1 - p)
    predicted = weighted * y[1] + (1 - weighted) * y[2]
    assert mlkr(Z, y, [0], None, [5, 2, 1])[0] == pytest.approx(np.sum((y[0] - predicted) ** 2))


@each_objective
@each_kernel
@each_rows
def test_labels_as_matches_are_nca(rng, Z, objective, kernel, rows):
    y = np.array([0, 1, 2, 1, 0, 0, 2, 2, 1, 0, 1, 3])
    expected = nca(Z, y, objective, kernel=kernel, **rows)
    for M in [
        y[:, None] == y,
        matches_of_distributions(np.eye(4)[y]),
        matches_of_numbers(y, 0.5, hard=True),
        matches_of_numbers(y, 1e-2),
    ]:
        value, dZ = nca_matches(Z, M, objective, kernel=kernel, **rows)
        assert value == pytest.approx(expected[0], rel=1e-12)
        np.testing.assert_allclose(dZ, expected[1], atol=1e-13)


def test_two_numbers_as_classes_have_the_squared_error_of_their_probability(rng, Z):
    """With y in {0, 1}, the prediction is the probability of class 1."""
    y = np.arange(12) % 2
    for i in range(12):
        p = -nca(Z, y, "accuracy", [i])[0]
        assert mlkr(Z, y, [i])[0] == pytest.approx((1 - p) ** 2, rel=1e-12)


def test_far_points_keep_their_logarithms():
    """The only match is so far that its probability underflows."""
    Z = np.array([[0.0], [1.0], [50.0]])
    M = np.zeros((3, 3))
    M[0, 2] = 0.5
    value, dZ = nca_matches(Z, M, "log")
    assert value == pytest.approx(2499 + log(2), rel=1e-14)
    np.testing.assert_allclose(dZ[:, 0], [-98.0, -2.0, 100.0])
