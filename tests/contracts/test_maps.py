"""What every map keeps to: forward, back, and the two as one inner product.  A line in `MAPS`."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from common.checks import assert_same_bits, each_dtype, set_threads
from formulas import finite_difference
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from vicinal import _features
from vicinal._features import SCALINGS, Features
from vicinal.core.types import Map
from vicinal.maps import MLP, Bins, Diagonal, Linear, Periodic, Simplex, _layers, resolve

D = 7
# a map, and how many parameters and outputs it has for rows of length D
MAPS = {
    "linear": (Linear(3), 3 * D, 3),
    "to a line": (Linear(1), D, 1),
    "to more": (Linear(9), 9 * D, 9),
    "diagonal": (Diagonal(), D, D),
    "simplex": (Simplex(3), 3 * D, 3),
    "softmax": (Simplex(3, "softmax"), 3 * D, 3),
}
NONLINEAR = {
    "layers": (MLP((4, 3), "tanh", n_components=3), (4 * D + 4) + (3 * 4 + 3) + 3 * 3 + 3 * D, 3),
    "network": (MLP(5, "logistic", residual=False, n_components=2), 5 * D + 5 + 2 * 5, 2),
    "relu": (MLP((6,), n_components=2), 6 * D + 6 + 2 * 6 + 2 * D, 2),
    "periodic": (Periodic(3, 2, n_components=2), 3 * D + 2 * 6 + 2 + 2 * 3 * D, 2),
    "periodic layers": (
        Periodic(2, 2, then=MLP((3,), "tanh"), n_components=2),
        2 * D + 2 * 4 + 2 + (3 * 3 * D + 3) + 2 * 3 + 2 * 3 * D,
        2,
    ),
    "bins": (Bins(3, n_components=2), D * (4 + 1) + 2 * 3 * D, 2),
}
_PARAMETERS = ("mapping", "n_parameters", "d")
each_matrix = pytest.mark.parametrize(_PARAMETERS, MAPS.values(), ids=MAPS)
_PROJECTING = {name: case for name, case in MAPS.items() if case[0].project is not None}
each_projecting = pytest.mark.parametrize(_PARAMETERS, _PROJECTING.values(), ids=_PROJECTING)
each_nonlinear = pytest.mark.parametrize(_PARAMETERS, NONLINEAR.values(), ids=NONLINEAR)
_ALL = MAPS | NONLINEAR
each_map = pytest.mark.parametrize(_PARAMETERS, _ALL.values(), ids=_ALL)


def table(rng, kind, scaling, dtype, monkeypatch, n=200):
    X = rng.standard_normal((n, D)) * np.logspace(-2, 2, D) + np.arange(D)
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


@each_matrix
@pytest.mark.parametrize("scaling", SCALINGS)
@each_dtype
@pytest.mark.parametrize("kind", ["copied", "folded", "far away", "sparse"])
def test_pull_is_adjoint(rng, monkeypatch, kind, dtype, scaling, mapping, n_parameters, d):
    """<dZ, change of Z> = <pull(dZ), change of theta>: of itself, and in any other direction."""
    if scaling is None and kind == "far away":
        kind = "copied"  # unscaled, all but the last column are near
    X = table(rng, kind, scaling, dtype, monkeypatch)
    theta, dZ = rng.standard_normal(n_parameters), rng.standard_normal((200, d)).astype(dtype)
    Z, pull = mapping.forward(theta, X, dtype)
    dtheta = pull(dZ)
    assert (Z.shape, Z.dtype) == ((200, d), dtype)
    assert (dtheta.shape, dtheta.dtype) == ((n_parameters,), np.float64)
    tolerance = {np.float32: 1e-5, np.float64: 1e-12}[dtype]
    for direction in (theta, rng.standard_normal(n_parameters)):
        if getattr(mapping, "constraint", "") == "softmax":  # not linear in its parameters
            step = 1e-6
            change = np.subtract(
                *(mapping.forward(theta + s * direction, X)[0] for s in (step, -step))
            )
            change, tolerance = change / (2 * step), max(tolerance, 1e-8)
        else:
            change = mapping.forward(direction, X, dtype)[0].astype(np.float64)
        size = np.linalg.norm(change) * np.linalg.norm(dZ)
        assert abs(np.vdot(dZ.astype(np.float64), change) - dtheta @ direction) < tolerance * size


@each_matrix
@each_dtype
@pytest.mark.parametrize("kind", ["copied", "folded", "sparse"])
def test_forward_is_the_matrix_product(rng, monkeypatch, kind, dtype, mapping, n_parameters, d):
    X = table(rng, kind, "standard", np.float64, monkeypatch)
    theta = rng.standard_normal(n_parameters)
    before = theta.copy()
    A = mapping.components(theta)
    assert A.shape == (d, D)
    Z, _ = mapping.forward(theta, X, dtype)
    np.testing.assert_allclose(Z, dense(X) @ A.T, atol=1e-5 if dtype == np.float32 else 1e-12)
    np.testing.assert_array_equal(theta, before)


@each_matrix
def test_pull_matches_finite_differences(rng, monkeypatch, mapping, n_parameters, d):
    X = table(rng, "copied", "standard", np.float64, monkeypatch)
    target = rng.standard_normal((200, d))

    def loss(theta):
        return np.sum((mapping.forward(theta, X)[0] - target) ** 2) / 200

    theta = rng.standard_normal(n_parameters)
    Z, pull = mapping.forward(theta, X)
    numeric = finite_difference(loss, theta, 1e-5)
    np.testing.assert_allclose(pull(2 * (Z - target) / 200), numeric, atol=1e-8)


def change_along(mapping, theta, X, direction, step=1e-6):
    """The derivative of Z along a direction, and the rows in which relu has no kink on the way."""
    above, here, below = (mapping.forward(theta + s * direction, X)[0] for s in (step, 0, -step))
    bent = np.abs(above - 2 * here + below).max(axis=1) > 1e-9 * np.linalg.norm(direction)
    return (above - below) / (2 * step), ~bent


@each_nonlinear
@each_dtype
@pytest.mark.parametrize("kind", ["copied", "far away", "sparse"])
def test_pull_of_a_nonlinear_map_is_adjoint(
    rng, monkeypatch, kind, dtype, mapping, n_parameters, d
):
    X = table(rng, kind, "standard", dtype, monkeypatch, 90)
    monkeypatch.setattr(_layers, "_BLOCK", 32)
    theta = rng.standard_normal(n_parameters)
    Z, pull = mapping.forward(theta, X, dtype)
    assert (Z.shape, Z.dtype) == ((90, d), dtype)
    # the whole gradient in float64, otherwise along two directions
    directions = np.eye(n_parameters) if (kind, dtype) == ("copied", np.float64) else None
    constants = D * 5 if isinstance(mapping, Bins) else 0  # quantiles and factors, never learnt
    for direction in rng.standard_normal((2, n_parameters)) if directions is None else directions:
        if constants:
            direction[:constants] = 0.0
        change, smooth = change_along(mapping, theta, X, direction)
        assert smooth.mean() > 0.9
        dZ = (rng.standard_normal((90, d)) * smooth[:, None]).astype(dtype)
        dtheta = pull(dZ)
        assert (dtheta.shape, dtheta.dtype) == ((n_parameters,), np.float64)
        size = np.linalg.norm(change) * np.linalg.norm(dZ)
        tolerance = {np.float32: 1e-5, np.float64: 1e-8}[dtype]
        assert abs(np.vdot(dZ.astype(np.float64), change) - dtheta @ direction) <= tolerance * size


@each_matrix
def test_parameters_of_a_matrix_give_it_back(rng, mapping, n_parameters, d):
    theta = rng.standard_normal(n_parameters)
    if mapping.project is not None:
        theta = mapping.project(theta)
    A = mapping.components(theta)
    again = mapping.theta(A)
    np.testing.assert_allclose(mapping.components(again), A, rtol=1e-12, atol=1e-15)
    if getattr(mapping, "constraint", "") != "softmax":  # which a common shift does not change
        np.testing.assert_array_equal(again, theta)


def test_bins_are_positions_between_quantiles(rng):
    """The encoding is NumPy's interpolation, each column has variance one, two values stay."""
    X = np.column_stack([rng.exponential(size=300), rng.uniform(size=300) < 0.3])
    X = X.astype(np.float64)
    rows = Features.as_they_are(X)
    encoded, theta_of = Bins(4, n_components=1).start_from(rows, rng)
    E = encoded.dense(slice(None), np.float64)
    q = np.quantile(X[:, 0], np.linspace(0, 1, 5))
    plain = np.column_stack([np.interp(X[:, 0], q[[t, t + 1]], [0.0, 1.0]) for t in range(4)])
    np.testing.assert_allclose(E[:, :4], plain / np.sqrt(plain.var(axis=0).sum()), atol=1e-12)
    np.testing.assert_array_equal(E[:, 4], X[:, 1])
    assert not E[:, 5:].any()
    A = rng.standard_normal((1, 8))
    Z, pull = Bins(4, n_components=1).forward(theta_of(A), rows)
    np.testing.assert_allclose(Z, E @ A.T, atol=1e-12)
    assert not pull(np.ones_like(Z))[: 2 * 6].any()


@each_matrix
def test_theta_is_a_copy(rng, mapping, n_parameters, d):
    A = mapping.components(rng.standard_normal(n_parameters))
    before = A.copy()
    mapping.theta(A)[:] = 9.0
    np.testing.assert_array_equal(A, before)


@each_projecting
def test_projection_stays(rng, mapping, n_parameters, d):
    """A map whose parameters are not free projects them; what is allowed does not move."""
    theta = mapping.project(30 * rng.standard_normal(n_parameters))
    np.testing.assert_array_equal(mapping.project(theta), theta)
    L = mapping.components(theta)
    assert (L >= 0).all()
    np.testing.assert_allclose(L.sum(axis=0), 1.0, rtol=0, atol=1e-12)


@each_map
@each_dtype
@pytest.mark.parametrize("kind", ["copied", "folded", "sparse"])
def test_thread_count_agnosticism(rng, monkeypatch, kind, dtype, mapping, n_parameters, d):
    X = table(rng, kind, "standard", dtype, monkeypatch, 1500)
    monkeypatch.setattr(_layers, "_BLOCK", 64)
    theta, dZ = rng.standard_normal(n_parameters), rng.standard_normal((1500, d)).astype(dtype)
    answers = []
    for threads in (1, 2, 3):
        set_threads(monkeypatch, threads)
        with threadpool_limits(min(threads, 2)):
            Z, pull = mapping.forward(theta, X, dtype)
            answers.append((Z, pull(dZ)))
    assert_same_bits(answers[1], answers[0])
    assert_same_bits(answers[2], answers[0])


@each_map
def test_parts_clone_pickle_and_compare(mapping, n_parameters, d):
    assert isinstance(mapping, Map)
    assert clone(mapping, safe=False) == mapping
    assert pickle.loads(pickle.dumps(mapping)) == mapping
    assert resolve(mapping, 4) is mapping


def test_names():
    assert resolve("linear", 4) == Linear(4)
    assert resolve("diagonal", 4) == Diagonal()
    assert resolve("periodic", 4) == Periodic(n_components=4)
    assert resolve("bins", 4) == Bins(n_components=4)
    for wrong in ["cubic", None, 3, Linear]:
        with pytest.raises(
            ValueError, match=r"'mapping' parameter of RCA must be 'linear', .* Got"
        ):
            resolve(wrong, 4, "RCA")
