"""MMC, SDML and LSML: conditions of optimality, and minima found by brute force."""

import numpy as np
import pytest
from scipy.optimize import minimize

from vicinal.estimators.lsml import lsml
from vicinal.estimators.mmc import mmc, mmc_diagonal
from vicinal.estimators.sdml import largest_balance, sdml


def _minimum(value, D):
    """The minimum over M by a simplex search over triangular factors, from several starts."""
    at = np.tril_indices(D)

    def of(theta):
        C = np.zeros((D, D))
        C[at] = theta
        return value(C @ C.T)

    found = np.inf
    for seed in range(3):
        theta = np.eye(D)[at] + 0.3 * np.random.RandomState(seed).randn(len(at[0]))
        for _ in range(4):  # restarts of a simplex that has become flat
            best = minimize(of, theta, method="Nelder-Mead",
                            options={"maxiter": 2000, "xatol": 1e-9, "fatol": 1e-12})  # fmt: skip
            theta = best.x
        found = min(found, best.fun)
    return found


def _lsml_value(M, X, Y, w):
    def d(V):
        return np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", V, M, V), 0))

    sign, log_det = np.linalg.slogdet(M)
    return np.trace(M) - log_det - len(M) + w @ np.maximum(d(X) - d(Y), 0) ** 2


def _comparisons(rng, n=12, D=2):
    X, Y = rng.normal(size=(n, D)) * 2, rng.normal(size=(n, D))
    w = rng.random(n) * 3
    return X, Y, w


def test_lsml_finds_the_minimum(rng):
    X, Y, w = _comparisons(rng)
    result = lsml(X, Y, w, max_iter=1000, tol=1e-8)
    assert result.converged
    M = result.L.T @ result.L
    assert result.value == pytest.approx(_lsml_value(M, X, Y, w), rel=1e-12)
    assert result.value == pytest.approx(_minimum(lambda M: _lsml_value(M, X, Y, w), 2), rel=1e-7)
    assert result.value < _lsml_value(np.eye(2), X, Y, w) - 0.1


def test_the_gradient_of_lsml_vanishes_at_its_end(rng):
    X, Y, w = _comparisons(rng, 40, 4)
    M = (lambda L: L.T @ L)(lsml(X, Y, w, max_iter=1000, tol=1e-9).L)
    for _ in range(10):
        step = rng.normal(size=(4, 4)) * 1e-5
        step = (step + step.T) @ M
        step = 0.5 * (step + step.T)
        up, down = (_lsml_value(M + sign * step, X, Y, w) for sign in (1, -1))
        assert abs(up - down) / 2 < 1e-6 * np.linalg.norm(step)


def test_comparisons_that_hold_leave_the_prior_as_it_is(rng):
    X = rng.normal(size=(5, 3))
    result = lsml(X, 2 * X, np.ones(5), max_iter=10, tol=1e-6)
    np.testing.assert_array_equal(result.L, np.eye(3))
    assert result.value == pytest.approx(0, abs=1e-12)


def _groups(rng, D=3, n=30):
    X = rng.normal(size=(n, D)) * np.array([0.5, 1.0, 2.0])[:D]
    Y = rng.normal(size=(n, D)) * np.array([2.0, 1.5, 1.0])[:D]
    return X.T @ X / n, Y


def _mmc_value(M, S, Y):
    """Mean squared distance of similar pairs where dissimilar pairs have a mean of one."""
    return np.sum(S * M) / np.mean(np.sqrt(np.einsum("ij,jk,ik->i", Y, M, Y))) ** 2


def test_mmc_finds_the_minimum(rng):
    S, Y = _groups(rng, 2)
    result = mmc(S, Y, max_iter=1000, tol=1e-9)
    assert result.converged
    M = result.L.T @ result.L
    assert result.value == pytest.approx(np.sum(S * M), rel=1e-9)
    assert np.mean(np.linalg.norm(Y @ result.L.T, axis=1)) == pytest.approx(1, rel=1e-12)
    assert result.value == pytest.approx(_minimum(lambda M: _mmc_value(M, S, Y), 2), rel=1e-6)


@pytest.mark.parametrize("solve", [mmc, mmc_diagonal])
def test_mmc_of_a_difference_without_a_square(rng, solve):
    S, Y = _groups(rng)
    Y[0] = 1e-170
    found = solve(S, Y, max_iter=1000, tol=1e-9)
    assert found.converged
    np.testing.assert_allclose(
        found.value, solve(S, Y[1:], max_iter=1000, tol=1e-9).value * (30 / 29) ** 2, rtol=1e-8
    )


def test_mmc_keeps_to_its_conditions_of_optimality(rng):
    S, Y = _groups(rng)
    L = mmc(S, Y, max_iter=1000, tol=1e-9).L
    M, d = L.T @ L, np.linalg.norm(Y @ L.T, axis=1)
    # S - 2μ G is positive semidefinite and orthogonal to M, G the slope of the mean distance
    G = (Y.T / (2 * d)) @ Y / len(Y)
    rest = S - 2 * np.sum(S * M) * G
    assert np.linalg.eigvalsh(rest)[0] > -1e-7 * np.trace(S)
    assert abs(np.sum(rest * M)) < 1e-7 * np.sum(S * M)


def test_mmc_does_not_depend_on_the_units_of_columns(rng):
    S, Y = _groups(rng)
    a = np.array([3.0, 0.01, 50.0])
    L = mmc(S, Y, max_iter=1000, tol=1e-9).L
    scaled = mmc(S * np.outer(a, a), Y * a, max_iter=1000, tol=1e-9).L * a
    np.testing.assert_allclose(scaled.T @ scaled, L.T @ L, rtol=1e-3, atol=1e-6)


def test_mmc_with_weights_of_features(rng):
    S, Y = _groups(rng)
    result = mmc_diagonal(S, Y, max_iter=1000, tol=1e-9)
    assert result.converged
    w = np.diag(result.L) ** 2
    np.testing.assert_array_equal(result.L, np.diag(np.diag(result.L)))
    s, squares = np.diag(S), Y * Y
    assert np.mean(np.sqrt(squares @ w)) == pytest.approx(1, rel=1e-12)
    assert result.value == pytest.approx(s @ w, rel=1e-9)
    # no derivative is negative, and it is zero where a weight is not
    rest = s - result.value * (1 / np.sqrt(squares @ w)) @ squares / len(Y)
    assert rest.min() > -1e-6 * s.max()
    assert np.abs(rest * w).max() < 1e-6 * (s @ w)
    full = mmc(S, Y, max_iter=1000, tol=1e-9)
    assert full.value <= result.value * (1 + 1e-9)


def test_mmc_may_drop_a_feature(rng):
    S, Y = _groups(rng)
    Y[:, 2] *= 1e-3  # the similar pairs differ in it, the dissimilar ones do not
    w = np.diag(mmc_diagonal(S, Y, max_iter=1000, tol=1e-8).L) ** 2
    assert w[2] == 0
    assert w.max() > 0


def _sdml_value(M, P, rho):
    off = np.abs(M).sum() - np.abs(np.diag(M)).sum()
    return np.sum(P * M) - np.linalg.slogdet(M)[1] + rho * off


def test_sdml_finds_the_minimum(rng):
    A = rng.normal(size=(2, 6))
    P = A @ A.T / 6 + 0.3 * np.eye(2)
    result = sdml(P, 0.05, max_iter=200, tol=1e-8)
    assert result.gap < 1e-6
    assert result.objective == pytest.approx(_sdml_value(result.M, P, 0.05), rel=1e-12)
    brute = _minimum(lambda M: _sdml_value(M, P, 0.05), 2)
    assert result.objective == pytest.approx(brute, rel=1e-6)


def test_sdml_keeps_to_its_conditions_of_optimality(rng):
    A = rng.normal(size=(5, 12))
    P, rho = A @ A.T / 12 + 0.3 * np.eye(5), 0.15
    M = sdml(P, rho, max_iter=500, tol=1e-9).M
    rest = np.linalg.inv(M) - P  # ρ sign(M) off the diagonal
    np.testing.assert_allclose(np.diag(rest), 0, atol=1e-5)
    off = ~np.eye(5, dtype=bool)
    assert np.abs(rest[off]).max() < rho + 1e-5
    used = off & (np.abs(M) > 1e-8)
    assert 0 < used.sum() < off.sum()
    np.testing.assert_allclose(rest[used], rho * np.sign(M[used]), atol=1e-4)


def test_sdml_without_penalty_is_an_inverse(rng):
    A = rng.normal(size=(3, 9))
    result = sdml(A @ A.T, 0.0, max_iter=1, tol=1e-6)
    np.testing.assert_allclose(result.M @ (A @ A.T), np.eye(3), atol=1e-10)
    assert abs(result.gap) < 1e-12


def test_sdml_has_no_minimum_beyond_the_largest_balance():
    K = np.array([[1.0, 2.0], [2.0, -3.0]])
    prior_inverse = np.diag([0.5, 2.0])
    largest = largest_balance(prior_inverse, K)
    assert np.linalg.eigvalsh(prior_inverse + 0.999 * largest * K)[0] > 0
    assert np.linalg.eigvalsh(prior_inverse + 1.001 * largest * K)[0] < 0
    assert largest_balance(prior_inverse, np.eye(2)) == np.inf
    assert sdml(prior_inverse + 2 * largest * K, 0.0, max_iter=10, tol=1e-6) is None
    assert sdml(prior_inverse + 2 * largest * K, 0.01, max_iter=10, tol=1e-6) is None
