"""A map and its pull-back: forward, back, and the two as one inner product."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from vicinal import _features
from vicinal._features import SCALINGS, Features
from vicinal.core.types import Map
from vicinal.maps import Diagonal, Linear, Simplex, resolve
from vicinal.reference import finite_difference

D = 7
# a map, and how many parameters and outputs it has for rows of length D
MAPS = [
    (Linear(3), 3 * D, 3),
    (Linear(1), D, 1),
    (Linear(9), 9 * D, 9),
    (Diagonal(), D, D),
    (Simplex(3), 3 * D, 3),  # its parameters are linear ones; tests/test_simplex.py has the softmax
]
each_map = pytest.mark.parametrize(
    ("mapping", "n_parameters", "d"),
    MAPS,
    ids=["linear", "to a line", "to more", "diagonal", "simplex"],
)


def table(rng, kind, scaling, dtype, monkeypatch):
    X = rng.standard_normal((200, D)) * np.logspace(-2, 2, D) + np.arange(D)
    monkeypatch.setattr(_features, "_BLOCK", 64)
    if kind != "copied":
        monkeypatch.setattr(_features, "_COPY_BELOW", 0)
    if kind == "far away":  # too far to fold
        X += 1e4 * np.logspace(-2, 2, D)
    X = X.astype(dtype)
    if kind == "sparse":
        X = sp.csr_matrix(X * (rng.uniform(size=X.shape) < 0.5))
    features = Features(X, scaling)
    assert features._fold == (kind in ("folded", "sparse"))
    return features


def dense(features):
    return np.concatenate([block for _, block in features.blocks()])


@each_map
@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["copied", "folded", "far away", "sparse"])
def test_pull_is_adjoint(rng, monkeypatch, kind, dtype, scaling, mapping, n_parameters, d):
    """<dZ, forward(t)> = <pull(dZ), t>: these maps are linear in their parameters."""
    if scaling is None and kind == "far away":
        kind = "copied"  # unscaled, all but the last column are near
    X = table(rng, kind, scaling, dtype, monkeypatch)
    theta, dZ = rng.standard_normal(n_parameters), rng.standard_normal((200, d)).astype(dtype)
    Z, pull = mapping.forward(theta, X, dtype)
    dtheta = pull(dZ)
    assert (Z.shape, Z.dtype) == ((200, d), dtype)
    assert (dtheta.shape, dtheta.dtype) == ((n_parameters,), np.float64)
    size = np.linalg.norm(Z.astype(np.float64)) * np.linalg.norm(dZ)
    tolerance = {np.float32: 1e-5, np.float64: 1e-12}[dtype]
    assert abs(np.vdot(dZ.astype(np.float64), Z) - dtheta @ theta) < tolerance * size
    other = rng.standard_normal(n_parameters)  # and in every other direction
    Z_other, _ = mapping.forward(other, X, dtype)
    assert abs(np.vdot(dZ.astype(np.float64), Z_other) - dtheta @ other) < tolerance * (
        np.linalg.norm(Z_other.astype(np.float64)) * np.linalg.norm(dZ)
    )


@each_map
def test_forward_is_the_matrix_product(rng, monkeypatch, mapping, n_parameters, d):
    X = table(rng, "folded", "standard", np.float64, monkeypatch)
    theta = rng.standard_normal(n_parameters)
    A = mapping.components(theta)
    assert A.shape == (d, D)
    Z, pull = mapping.forward(theta, X)
    np.testing.assert_allclose(Z, dense(X) @ A.T, atol=1e-12)
    np.testing.assert_array_equal(mapping.theta(A), theta)


@each_map
def test_pull_matches_finite_differences(rng, monkeypatch, mapping, n_parameters, d):
    X = table(rng, "copied", "standard", np.float64, monkeypatch)
    target = rng.standard_normal((200, d))

    def loss(theta):
        return np.sum((mapping.forward(theta, X)[0] - target) ** 2) / 200

    theta = rng.standard_normal(n_parameters)
    Z, pull = mapping.forward(theta, X)
    numeric = finite_difference(loss, theta, 1e-5)
    np.testing.assert_allclose(pull(2 * (Z - target) / 200), numeric, atol=1e-8)


def test_diagonal_of_a_matrix(rng):
    a = np.array([2.0, -3.0, 0.0])
    np.testing.assert_array_equal(Diagonal().theta(np.diag(a)), a)  # signs are kept
    A = rng.standard_normal((2, 3))
    np.testing.assert_allclose(Diagonal().theta(A), np.linalg.norm(A, axis=0))
    A = rng.standard_normal((3, 3))
    np.testing.assert_allclose(Diagonal().theta(A), np.linalg.norm(A, axis=0))


def test_theta_is_a_copy(rng):
    for mapping in [Linear(3), Diagonal(), Simplex(3)]:
        A = np.diag([1.0, 2.0, 3.0])
        mapping.theta(A)[:] = 9.0
        np.testing.assert_array_equal(A, np.diag([1.0, 2.0, 3.0]))


def test_resolve():
    assert resolve("linear", 4) == Linear(4)
    assert resolve("diagonal", 4) == Diagonal()
    part = Linear(2)
    assert resolve(part, 4) is part
    assert all(isinstance(mapping, Map) for mapping, _, _ in MAPS)
    for wrong in ["cubic", None, 3, Linear]:
        with pytest.raises(
            ValueError, match=r"'mapping' parameter of RCA must be 'linear', .* Got"
        ):
            resolve(wrong, 4, "RCA")
