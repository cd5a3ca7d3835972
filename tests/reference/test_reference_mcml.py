"""The plain formula of MCML: by hand, by finite differences, and its convexity."""

from __future__ import annotations

from math import exp, log

import numpy as np
import pytest
from formulas import finite_difference, mcml, mcml_gradient_printed

WEIGHTS = [1.0, 0.3, 2.0, 0.0, 1.5, 1.0, 0.7, 3.0, 1.0, 0.2, 1.0, 1.0]
VARIANTS = {
    "plain": {},
    "queries": {"queries": [0, 3, 4, 11]},
    "references": {"references": [1, 2, 3, 5, 6, 8, 10]},
    "held-out": {"queries": [0, 4, 7, 9], "references": [1, 2, 3, 5, 6, 8, 10, 11]},
    "weights": {"sample_weight": WEIGHTS},
    "weights, queries": {"sample_weight": WEIGHTS, "queries": [0, 1, 2, 3, 7]},
}


@pytest.fixture
def cloud():
    rng = np.random.default_rng(20)
    return rng.standard_normal((12, 2)), np.arange(12) % 3


def by_loops(Z, y, queries=range(12), references=range(12), sample_weight=(1.0,) * 12):
    """The divergence as it is spelled."""
    v, total, weight = sample_weight, 0.0, 0.0
    for i in queries:
        others = [j for j in references if j != i and v[j] > 0]
        p = {j: v[j] * exp(-np.sum((Z[i] - Z[j]) ** 2)) for j in others}
        ideal = {j: v[j] for j in others if y[j] == y[i]}
        p = {j: x / sum(p.values()) for j, x in p.items()}
        ideal = {j: x / sum(ideal.values()) for j, x in ideal.items()}
        total += v[i] * sum(x * log(x / p[j]) for j, x in ideal.items())
        weight += v[i]
    return total / weight


@pytest.mark.parametrize("variant", VARIANTS)
def test_value_matches_the_definition_by_loops(cloud, variant):
    assert mcml(*cloud, **VARIANTS[variant])[0] == pytest.approx(
        by_loops(*cloud, **VARIANTS[variant]), rel=1e-12
    )


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("scale", [0.3, 3.0])
def test_gradient_matches_finite_differences(cloud, variant, scale):
    Z, y = cloud
    dZ = mcml(scale * Z, y, **VARIANTS[variant])[1]
    numeric = finite_difference(lambda W: mcml(W, y, **VARIANTS[variant])[0], scale * Z)
    np.testing.assert_allclose(dZ, numeric, atol=1e-7 * np.abs(dZ).max())


def test_three_points_by_hand():
    """Two rows of a class one apart, a third of another class between them at a half."""
    Z, y = [[0.0], [1.0], [0.5]], [0, 0, 1]
    # the third row has no other of its class: it is left out, but is picked by the others
    expected = 1.0 + log(exp(-1.0) + exp(-0.25))
    assert mcml(Z, y)[0] == pytest.approx(expected, rel=1e-14)


def test_ideal_of_collapsed_classes_is_zero():
    Z = np.repeat([[0.0, 0.0], [0.0, 40.0], [40.0, 0.0]], 4, axis=0)
    value, dZ = mcml(Z, np.repeat([0, 1, 2], 4))
    assert value == pytest.approx(0.0, abs=1e-12)
    assert not dZ.any()


def test_printed_gradient_is_the_one_by_the_points(cloud):
    X, y = cloud
    A = np.array([[0.7, -0.2], [0.4, 1.1]])
    dA = mcml(X @ A.T, y)[1].T @ X
    np.testing.assert_allclose(dA, 2 * A @ mcml_gradient_printed(A.T @ A, X, y) / 12, atol=1e-12)


def test_convex_in_the_metric(cloud):
    """Along a line between two metrics the loss is below its chord."""
    X, y = cloud
    rng = np.random.default_rng(3)

    def loss(M):
        return mcml(X @ np.linalg.cholesky(M), y)[0]

    for _ in range(10):
        M, N = (B @ B.T + 0.01 * np.eye(2) for B in rng.standard_normal((2, 2, 2)))
        chord = [(1 - t) * loss(M) + t * loss(N) for t in (0.2, 0.5, 0.8)]
        between = [loss((1 - t) * M + t * N) for t in (0.2, 0.5, 0.8)]
        assert (np.array(between) < np.array(chord)).all()
