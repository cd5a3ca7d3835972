"""Networks and periodic features; what all maps keep to is in contracts."""

from __future__ import annotations

from itertools import pairwise

import formulas
import numpy as np
import pytest
import scipy.sparse as sp

from vicinal._features import Features
from vicinal.maps import MLP, Linear, Periodic, _layers
from vicinal.maps.periodic import make_waves
from vicinal.starts import RCA

D = 3
MAPS = [
    MLP((4, 5), "tanh", n_components=2),
    MLP(4, "logistic", residual=False, n_components=2),
    Periodic(3, 2, 0.5, n_components=2),
    Periodic(3, 2, 0.5, then=MLP(4), n_components=2),
    Periodic(3, 2, 0.5, then=MLP(4, residual=False), n_components=2),
]
each_map = pytest.mark.parametrize("mapping", MAPS, ids=repr)


def table(rng, n=60):
    return Features(rng.standard_normal((n, D)) * [1.0, 5.0, 0.1] + 3.0, "standard")


def dense(X):
    return X.dense(slice(None), np.float64)


def theta_for(mapping, X, rng):
    """Random parameters, all different from zero."""
    rows, theta_of = mapping.start_from(X, rng)
    theta = theta_of(rng.standard_normal((2, rows.shape[1])))
    return theta + 0.3 * rng.standard_normal(len(theta))


def by_formula(mapping, theta, x):
    """Z of dense rows, row by row."""
    if isinstance(mapping, Periodic):
        shapes = [(D, 3), (2, 6), (2,)]
        size = sum(map(np.prod, shapes))
        x = formulas.periodic_features(x, *_layers.unpack(theta[:size], shapes))
        theta = theta[size:]
        if mapping.then is None:
            return x @ theta.reshape(2, -1).T
        mapping = mapping.then
    sizes = [x.shape[1], *mapping.hidden]
    shapes = [s for a, b in pairwise(sizes) for s in ((b, a), (b,))]
    shapes += [(2, sizes[-1])] + [(2, sizes[0])] * mapping.residual
    parts = _layers.unpack(theta, shapes)
    layers = list(zip(parts[: 2 * len(mapping.hidden) : 2], parts[1::2], strict=False))
    V, *A = parts[2 * len(mapping.hidden) :]
    return formulas.mlp(x, layers, V, A[0] if A else None, mapping.activation)


@each_map
def test_matches_reference(rng, monkeypatch, mapping):
    monkeypatch.setattr(_layers, "_BLOCK", 16)
    X = table(rng)
    theta = theta_for(mapping, X, rng)
    Z, _ = mapping.forward(theta, X)
    np.testing.assert_allclose(Z, by_formula(mapping, theta, dense(X)), atol=1e-12)
    near, _ = mapping.forward(theta, X, np.float32)
    np.testing.assert_allclose(near, Z, atol=2e-4 * np.abs(Z).max())


@each_map
def test_sparse_rows_are_as_good_as_dense(rng, mapping):
    raw = rng.standard_normal((50, D)) * (rng.uniform(size=(50, D)) < 0.4)
    X, sparse = Features(raw, "standard"), Features(sp.csr_matrix(raw), "standard")
    theta, dZ = theta_for(mapping, X, rng), rng.standard_normal((50, 2))
    (Z, pull), (Z_sparse, pull_sparse) = mapping.forward(theta, X), mapping.forward(theta, sparse)
    np.testing.assert_allclose(Z_sparse, Z, atol=1e-12)
    np.testing.assert_allclose(pull_sparse(dZ), pull(dZ), atol=1e-11)


@each_map
def test_scaled_parameters_give_scaled_points(rng, mapping):
    X = table(rng)
    theta = theta_for(mapping, X, rng)
    before = theta.copy()
    scaled = mapping.scaled(theta, 3.7)
    np.testing.assert_allclose(
        mapping.forward(scaled, X)[0], 3.7 * mapping.forward(theta, X)[0], rtol=1e-12
    )
    np.testing.assert_array_equal(theta, before)
    with pytest.raises(ValueError, match=r"No number of columns gives a map .* parameters"):
        mapping.scaled(theta[1:], 2.0)


def test_penalty_is_on_matrices(rng):
    """Frequencies and biases are free."""
    weights = Periodic(3, 2, n_components=2).penalty_weights(np.zeros(D * 3 + 12 + 2 + 2 * 3 * D))
    expected = np.repeat([0.0, 1.0, 0.0, 1.0], [3 * D, 12, 2, 2 * 3 * D])
    np.testing.assert_array_equal(weights, expected)
    mapping = MLP(4, n_components=2)
    weights = mapping.penalty_weights(np.zeros(4 * D + 4 + 8 + 2 * D))
    np.testing.assert_array_equal(weights, np.repeat([1.0, 0.0, 1.0], [4 * D, 4, 8 + 2 * D]))


@each_map
def test_start_from_a_matrix_is_the_linear_map_of_its_rows(rng, mapping):
    """The rows of a start, times its matrix, are the first Z: so RCA of them is what it says."""
    X = table(rng)
    rows, theta_of = mapping.start_from(X, np.random.RandomState(0))
    A = RCA()(rows, rng.integers(0, 3, 60), 2, np.random.RandomState(1))
    Z, _ = mapping.forward(theta_of(A), X)
    np.testing.assert_allclose(Z, rows.matmul(A.T), atol=1e-12)
    whole = np.concatenate([block for _, block in rows.blocks()])
    np.testing.assert_allclose(whole @ A.T, Z, atol=1e-12)
    V = rng.standard_normal((60, 2))
    np.testing.assert_allclose(rows.rmatmul(V), whole.T @ V, atol=1e-11)


@pytest.mark.parametrize("then", [None, MLP(4)])
def test_start_from_a_matrix_of_the_columns(rng, then):
    """Features count for nothing at first, but in components that the columns do not fill."""
    X, A = table(rng), rng.standard_normal((2, D))
    mapping = Periodic(3, 2, then=then, n_components=2)
    rows, theta_of = mapping.start_from(X, rng=np.random.RandomState(0))
    assert rows is X
    np.testing.assert_allclose(
        mapping.forward(theta_of(A), X)[0], Linear(2).forward(A.ravel(), X)[0], atol=1e-12
    )
    wide = mapping.with_rank(D + 2)
    theta = wide.start_from(X, np.random.RandomState(0))[1](np.eye(D + 2, D))
    Z = wide.forward(theta, X)[0]
    assert np.linalg.matrix_rank(Z) == D + 2
    assert Z[:, D:].std() < 0.5 * Z[:, :D].std()


def test_cosine_and_sine(rng):
    """Whole turns, quarter turns and long ways give no other values than NumPy's."""
    for dtype, tolerance in ((np.float64, 1e-14), (np.float32, 1e-5)):
        x = np.concatenate([rng.standard_normal(999) * 3, np.arange(-8, 9) / 4])[None].astype(dtype)
        F = np.array([[1.0, -0.5]], dtype)
        waves = make_waves(F, x, _layers.Workspace())
        assert waves.dtype == dtype
        angle = 2 * np.pi * F.astype(np.float64).T * x
        expected = np.concatenate([np.cos(angle), np.sin(angle), np.ones_like(x)])
        np.testing.assert_allclose(waves[0], expected, atol=tolerance)


def test_too_long_a_step_warns_of_nothing(rng):
    X = table(rng)
    mapping = Periodic(2, 2, n_components=2)
    rows, theta_of = mapping.start_from(X, rng=np.random.RandomState(0))
    theta = theta_of(np.ones((2, rows.shape[1])))
    assert not np.isfinite(mapping.forward(np.where(theta > 0, np.inf, theta), X)[0]).all()


def test_rank_is_given_later(rng):
    assert Periodic(then=MLP(4)).with_rank(3) == Periodic(then=MLP(4), n_components=3)
    assert MLP([4, 5]).with_rank(3) == MLP((4, 5), n_components=3)
    with pytest.raises(ValueError, match=r"'n_components' parameter of MLP must .* Got None"):
        MLP().forward(np.zeros(3), table(rng))


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: MLP(hidden=0), r"'hidden' parameter of MLP .* Got 0 instead"),
        (lambda: MLP(hidden=()), r"'hidden' parameter of MLP .* Got \(\) instead"),
        (lambda: MLP(hidden=(3, 1.5)), r"'hidden' parameter of MLP"),
        (lambda: MLP(activation="sine"), r"'activation' parameter of MLP .* Got 'sine' instead"),
        (lambda: MLP(residual="no"), r"'residual' parameter of MLP .* Got 'no' instead"),
        (lambda: MLP(n_components=0), r"'n_components' parameter of MLP .* Got 0 instead"),
        (lambda: Periodic(0), r"'n_frequencies' parameter of Periodic .* Got 0 instead"),
        (lambda: Periodic(width=1.5), r"'width' parameter of Periodic .* Got 1.5 instead"),
        (lambda: Periodic(sigma=0), r"'sigma' parameter of Periodic .* Got 0 instead"),
        (lambda: Periodic(then=MLP), r"'then' parameter of Periodic must be None or an MLP"),
        (lambda: Periodic(then=MLP(n_components=2)), r"'then' parameter of Periodic"),
        (lambda: Periodic(n_components=0), r"'n_components' parameter of Periodic"),
    ],
)
def test_bad_parameters(make, match):
    with pytest.raises(ValueError, match=match):
        make()
