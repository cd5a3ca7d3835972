"""ITML's problem: conditions of optimality, closed forms, and two solvers that agree."""

import numpy as np
import pytest

from vicinal.estimators import itml as module
from vicinal.estimators.itml import itml_by_lbfgs, itml_by_projections
from vicinal.solvers.factored import barrier

_TIGHT = {"max_iter": 20_000, "tol": 1e-10}


def _pairs(rng, n=24, D=3):
    """Pairs whose bounds cannot all hold: similar ones are about as long as dissimilar ones."""
    s = np.where(rng.random(n) < 0.5, 1, -1)
    X = rng.normal(size=(n, D)) * [1.0, 2.0, 0.5]
    return X, s, np.where(s > 0, 0.7, 4.3)


def check_optimal(result, X, s, xi0, gamma, tol=1e-6):
    """The conditions of Karush, Kuhn and Tucker (docs/theory/itml.md)."""
    L, lam, xi = result.L, result.multipliers, result.xi
    M = L.T @ L
    assert np.linalg.eigvalsh(M)[0] > 0
    inverse = np.eye(len(M)) + (X.T * (s * lam)) @ X
    np.testing.assert_allclose(M @ inverse, np.eye(len(M)), atol=tol)  # stationary in M
    inverse_xi = 1 / xi0 - (0.0 if np.isinf(gamma) else s * lam / gamma)
    np.testing.assert_allclose(inverse_xi, 1 / xi, rtol=tol)  # stationary in the slack
    assert (lam >= 0).all()
    excess = s * (np.einsum("ij,jk,ik->i", X, M, X) - xi)
    assert excess.max() < tol * xi0.max()  # feasible
    assert np.abs(lam * excess).max() < tol * max(1.0, lam.max())  # complementary


@pytest.mark.parametrize("gamma", [0.03, 0.4, 1.0, 7.0])
@pytest.mark.parametrize("solve", [itml_by_lbfgs, itml_by_projections])
def test_conditions_of_optimality(rng, solve, gamma):
    X, s, xi0 = _pairs(rng)
    result = solve(X, s, xi0, gamma=gamma, **_TIGHT)
    check_optimal(result, X, s, xi0, gamma)
    assert 0 < np.mean(result.multipliers > 0) < 1  # some bounds matter, some do not


def test_conditions_of_optimality_with_hard_constraints(rng):
    X = rng.normal(size=(6, 4))
    s = np.array([1, 1, 1, -1, -1, -1])
    A = rng.normal(size=(4, 4))
    possible = np.sum((X @ A) ** 2, axis=1)  # the squared distances of some metric
    xi0 = possible * np.where(s > 0, 1.1, 0.9)
    result = itml_by_projections(X, s, xi0, gamma=np.inf, **_TIGHT)
    assert result.converged
    check_optimal(result, X, s, xi0, np.inf)
    np.testing.assert_allclose(result.xi, xi0, rtol=1e-14)


def test_the_two_solvers_agree(rng):
    X, s, xi0 = _pairs(rng, 60)
    direct = itml_by_lbfgs(X, s, xi0, gamma=0.6, **_TIGHT)
    cyclic = itml_by_projections(X, s, xi0, gamma=0.6, **_TIGHT)
    np.testing.assert_allclose(direct.L.T @ direct.L, cyclic.L.T @ cyclic.L, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(direct.multipliers, cyclic.multipliers, atol=1e-6)
    assert direct.objective == pytest.approx(cyclic.objective, rel=1e-8)


@pytest.mark.parametrize(
    "direction", [[1.0], [0.0, 1.0], [-0.276, 1.304], [1.0, 1.0, 1.0, 1.0], [3.0, -1.0, 2.0]]
)
@pytest.mark.parametrize("s", [[1] * 8, [1, -1] * 4])
def test_the_two_solvers_agree_on_parallel_differences(rng, direction, s):
    X, s = rng.normal(size=(8, 1)) * np.array(direction), np.array(s)
    xi0 = np.where(s > 0, 0.05, 0.2)
    direct = itml_by_lbfgs(X, s, xi0, gamma=0.6, **_TIGHT)
    cyclic = itml_by_projections(X, s, xi0, gamma=0.6, **_TIGHT)
    assert direct.objective == pytest.approx(cyclic.objective, rel=1e-8)
    np.testing.assert_allclose(direct.L.T @ direct.L, cyclic.L.T @ cyclic.L, rtol=1e-5, atol=1e-7)


def test_a_singular_factor_has_the_value_of_a_regular_one_next_to_it():
    for singular in (np.zeros((1, 1)), np.diag([3.0, 0.0]), np.ones((3, 3))):
        L, value, half = barrier(singular)
        np.testing.assert_allclose(L, singular, atol=1e-8)
        assert value == pytest.approx(np.sum(L * L) - 2 * np.linalg.slogdet(L)[1] - len(L))
        np.testing.assert_allclose((L - half).T @ L, np.eye(len(L)), atol=1e-6)


def test_the_order_of_pairs_does_not_matter(rng):
    X, s, xi0 = _pairs(rng)
    p = rng.permutation(len(X))
    a = itml_by_projections(X, s, xi0, gamma=0.6, **_TIGHT)
    b = itml_by_projections(X[p], s[p], xi0[p], gamma=0.6, **_TIGHT)
    np.testing.assert_allclose(a.L.T @ a.L, b.L.T @ b.L, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(a.multipliers[p], b.multipliers, atol=1e-6)


@pytest.mark.parametrize("gamma", [0.3, 1.0, 5.0, np.inf])
@pytest.mark.parametrize("s", [1, -1])
def test_one_pair_has_a_closed_form(gamma, s):
    x, xi0 = np.array([[1.2, -0.7]]), np.array([0.9 if s > 0 else 4.0])
    share = 1.0 if np.isinf(gamma) else gamma / (gamma + 1)
    p = float(x[0] @ x[0])
    lam = s * share * (1 / xi0[0] - 1 / p)
    M = np.linalg.inv(np.eye(2) + s * lam * x.T @ x)
    solvers = [itml_by_projections] if np.isinf(gamma) else [itml_by_projections, itml_by_lbfgs]
    for solve in solvers:
        result = solve(x, np.array([s]), xi0, gamma=gamma, **_TIGHT)
        np.testing.assert_allclose(result.L.T @ result.L, M, rtol=1e-6)
        np.testing.assert_allclose(result.multipliers, lam, rtol=1e-6)
    if np.isinf(gamma):
        np.testing.assert_allclose(x[0] @ M @ x[0], xi0[0], rtol=1e-12)


def test_the_step_of_the_paper_misses_the_optimum_unless_gamma_is_one():
    # α = ½ (1/p - γ/ξ) [Davis2007, algorithm 1] on one similar pair, until nothing changes
    x, xi0, gamma = np.array([1.2, -0.7]), 0.9, 0.3
    M, lam, xi = np.eye(2), 0.0, xi0
    for _ in range(10_000):
        p = x @ M @ x
        alpha = min(lam, 0.5 * (1 / p - gamma / xi))
        lam, xi = lam - alpha, gamma * xi / (gamma + alpha * xi)
        M += alpha / (1 - alpha * p) * np.outer(M @ x, M @ x)
    best = itml_by_lbfgs(x[None], np.array([1]), np.array([xi0]), gamma=gamma, **_TIGHT)

    def value(M):
        ratio = max(1.0, x @ M @ x / xi0)
        return np.trace(M) - np.linalg.slogdet(M)[1] - 2 + gamma * (ratio - np.log(ratio) - 1)

    assert best.objective == pytest.approx(value(best.L.T @ best.L))
    assert value(M) > best.objective + 0.01


@pytest.mark.nojit
def test_compiled_sweeps_equal_those_of_numpy(rng, monkeypatch):
    X, s, xi0 = _pairs(rng, 40)
    plain = itml_by_projections(X, s, xi0, gamma=0.6, max_iter=30, tol=1e-12)
    monkeypatch.setattr(module, "_NUMPY_PAIRS", 0)
    monkeypatch.setattr(module, "_NUMPY_PROJECTIONS", 40 * 7)  # some sweeps by each
    mixed = itml_by_projections(X, s, xi0, gamma=0.6, max_iter=30, tol=1e-12)
    np.testing.assert_allclose(mixed.L, plain.L, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(mixed.multipliers, plain.multipliers, rtol=1e-10, atol=1e-12)


def test_contradictory_hard_constraints_do_not_converge():
    x = np.array([[1.0, 0.5], [1.0, 0.5]])
    result = itml_by_projections(
        x, np.array([1, -1]), np.array([0.5, 2.0]), gamma=np.inf, max_iter=50, tol=1e-3
    )
    assert not result.converged
    assert np.isfinite(result.L).all()
