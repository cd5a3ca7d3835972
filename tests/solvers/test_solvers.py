"""Solvers by hand: directions, rates and line searches; what all keep to is in contracts."""

import numpy as np
import pytest
from common.descents import walk

from vicinal.solvers import (
    LBFGS,
    Adam,
    BoldDriver,
    ConjugateGradient,
    Momentum,
    ProjectedGradient,
)
from vicinal.solvers._line_search import Trial, first_rate, wolfe_search

CURVATURES = np.logspace(0, 3, 12)


# a rate that falls with the time is for noisy gradients, not for long valleys


def quadratic(theta, batch=None):
    """Condition number 1000, minimum 0.25 at (1, ..., 1)."""
    away = theta - 1.0
    return 0.25 + 0.5 * float(CURVATURES @ away**2), CURVATURES * away


START = np.linspace(2.0, 4.0, 12)


@pytest.mark.parametrize("n_steps", [1, 3, 12])
def test_lbfgs_direction_is_that_of_the_dense_update(n_steps):
    # [NocedalWright2006] eq. (6.17), started from gamma * I, over the pairs kept.
    solver = LBFGS(memory=3)
    state = walk(solver, quadratic, START, n_steps)[-1]
    s, y = state.s, state.y
    assert len(s) == min(n_steps, 3)
    H = np.eye(START.size) * (s[-1] @ y[-1]) / (y[-1] @ y[-1])
    for a, b in zip(s, y, strict=True):
        V = np.eye(START.size) - np.outer(b, a) / (a @ b)
        H = V.T @ H @ V + np.outer(a, a) / (a @ b)
    np.testing.assert_allclose(solver._direction(state), -H @ state.grad, rtol=1e-7, atol=1e-12)


def test_adam_by_hand():
    # After the first step m/sqrt(v) = sign(g); the second is worked from the formula.
    theta, g0 = np.array([2.0]), 4.0
    first, second = (
        state.theta[0] for state in walk(Adam(0.1), lambda t, b: (t @ t, 2 * t), theta, 2)[1:]
    )
    assert first == pytest.approx(2.0 - 0.1)
    g1 = 2 * first
    m = (0.9 * 0.1 * g0 + 0.1 * g1) / (1 - 0.9**2)
    v = (0.999 * 0.001 * g0**2 + 0.001 * g1**2) / (1 - 0.999**2)
    assert second == pytest.approx(first - 0.1 * m / np.sqrt(v), rel=1e-9)


def test_momentum_gains_by_hand():
    states = walk(Momentum(0.3, momentum=0.5), lambda t, b: (t @ t, 2 * t), np.array([1.0]), 4)
    thetas = [state.theta[0] for state in states]
    gains = [state.gains[0] for state in states]
    # 1: v = -0.6; downhill, so the gain is 1.2; v = -0.3 - 0.3*1.2*0.8 overshoots to -0.188;
    # now uphill: the gain is 0.96, and so on.
    assert thetas[:3] == pytest.approx([1.0, 0.4, -0.188])
    assert gains[:4] == pytest.approx([1.0, 1.0, 1.2, 0.96])


def test_momentum_uses_the_rate_it_is_given_from_any_state():
    """A second stage may have a rate of its own; without one it keeps that of the first."""
    state = walk(Momentum(1e-3), quadratic, START, 3)[-1]
    faster, kept = (Momentum(rate).step(quadratic, state.theta, state)[1] for rate in (3e-3, None))
    same = Momentum(1e-3).step(quadratic, state.theta, state)[1]
    np.testing.assert_array_equal(kept.theta, same.theta)
    assert faster.rate == 3e-3
    moved = faster.velocity - 0.8 * state.velocity
    np.testing.assert_allclose(moved, 3 * (same.velocity - 0.8 * state.velocity), rtol=1e-12)


def test_momentum_gains_have_a_floor():
    # A gradient that always points along the velocity is impossible to reach by descent; fake it.
    state = Momentum(0.1).init(quadratic, START)
    state = state._replace(velocity=state.grad, gains=np.full(START.size, 0.011))
    _, state = Momentum(0.1).step(quadratic, START, state)
    np.testing.assert_allclose(state.gains, 0.01)


def test_bold_driver_rates():
    solver = BoldDriver(learning_rate=3.0)  # f = t^2: any rate of 1 or more fails
    state = solver.init(lambda t, b: (t @ t, 2 * t), np.array([1.0]))
    theta, state = solver.step(lambda t, b: (t @ t, 2 * t), np.array([1.0]), state)
    assert theta[0] == pytest.approx(1.0 - 0.75 * 2.0)
    assert state.rate == pytest.approx(0.75 * 1.1)
    assert state.n_evaluations == 1 + 3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LBFGS(memory=0), r"'memory' parameter of LBFGS must be an int in \[1, inf\)"),
        (lambda: LBFGS(memory=2.5), r"Got 2.5 instead"),
        (lambda: LBFGS(c_1=0.5, c_2=0.3), r"'c_2' parameter of LBFGS must be .* \(0.5, 1\)"),
        (lambda: ConjugateGradient(max_line_search=0), "'max_line_search' parameter of Conj"),
        (lambda: BoldDriver(learning_rate=0.0), r"'learning_rate' parameter of BoldDriver"),
        (lambda: BoldDriver(increase=0.9), r"'increase' .* \(1, inf\)"),
        (lambda: ProjectedGradient(memory=0), r"'memory' parameter of ProjectedGradient"),
        (lambda: ProjectedGradient(c_1=1.0), r"'c_1' .* \(0, 1\). Got 1.0"),
        (lambda: ProjectedGradient(max_line_search=0), r"'max_line_search' .* Got 0"),
        (lambda: Momentum(momentum=1.0), r"'momentum' .* in \[0, 1\). Got 1.0"),
        (lambda: Adam(learning_rate="fast"), r"'learning_rate' .* Got 'fast' instead"),
        (lambda: Adam(epsilon=np.nan), r"'epsilon' .* Got nan instead"),
    ],
)
def test_bad_parameters(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_edges_of_parameters_are_allowed():
    Momentum(momentum=0)
    Adam(beta_1=0.0)
    LBFGS(memory=np.int64(1))


def test_first_rate():
    assert first_rate(np.array([3.0, 4.0]), np.array([0.0, 2.0]), 0.1) == pytest.approx(0.25)
    assert first_rate(np.zeros(2), np.array([0.0, 2.0]), 0.1) == pytest.approx(0.05)
    assert first_rate(np.ones(1), np.array([1e-200]), 0.1) == pytest.approx(1e199)
    assert first_rate(np.ones(2), np.zeros(2), 0.1) == 0.0


@pytest.mark.parametrize("step", [1e-7, 1e-2, 1.0, 30.0, 1e6])
@pytest.mark.parametrize(
    ("phi", "dphi", "most"),
    [
        # [MoreThuente1994] eq. (5.1) with beta = 2, and (5.2), whose slope at 0 is 5e-7: the
        # second condition asks for a slope not far above what rounding leaves of the loss.
        (lambda a: -a / (a * a + 2), lambda a: (a * a - 2) / (a * a + 2) ** 2, 25),
        (lambda a: (a + 0.004) ** 5 - 2 * (a + 0.004) ** 4,
         lambda a: 5 * (a + 0.004) ** 4 - 8 * (a + 0.004) ** 3, 25),
        # finite on [0, 3) alone
        (lambda a: -a - np.log(3 - a) if a < 3 else np.nan,
         lambda a: -1 + 1 / (3 - a) if a < 3 else np.nan, 16),
    ],
    ids=["rational", "quintic", "barrier"],
)  # fmt: skip
def test_line_search_satisfies_strong_wolfe(phi, dphi, most, step):
    def fun(theta, batch):
        return phi(theta[0]), np.array([dphi(theta[0])])

    slope = dphi(0.0)
    assert slope < 0
    start = Trial(0.0, phi(0.0), slope, np.zeros(1), np.array([slope]))
    trial, n = wolfe_search(
        fun, start, np.ones(1), step, None, c_1=1e-3, c_2=0.3, max_evaluations=40
    )
    assert phi(trial.step) <= phi(0.0) + 1e-3 * trial.step * slope
    assert abs(dphi(trial.step)) <= 0.3 * abs(slope)
    assert trial.value == phi(trial.step)
    assert n <= most


@pytest.mark.parametrize("step", [1e-3, 1.0, 50.0])
def test_line_search_at_a_wall_ends_soon(step):
    """The loss falls as steeply right before the wall: no step has a small slope."""

    def fun(theta, batch):
        return (-theta[0] if theta[0] < 3.0 else np.inf), np.array([-1.0])

    start = Trial(0.0, 0.0, -1.0, np.zeros(1), np.array([-1.0]))
    trial, n = wolfe_search(
        fun, start, np.ones(1), step, None, c_1=1e-3, c_2=0.3, max_evaluations=40
    )
    assert 1.0 < trial.step < 3.0
    assert n <= 10


def test_weight_decay_of_adam_is_not_scaled_by_the_moments(rng):
    """[LoshchilovHutter2019] alg. 2; the map says which parameters decay."""
    theta, weights = rng.normal(size=4), np.array([1.0, 0.0, 2.0, 1.0])

    def fun(theta, batch=None):
        return float(np.sum(theta**4)), 4 * theta**3

    plain, decaying = Adam(0.01), Adam(0.01, weight_decay=3.0)
    first, _ = plain.step(fun, theta, plain.init(fun, theta))
    second, _ = decaying.step(fun, theta, decaying.init(fun, theta))
    np.testing.assert_allclose(second, first - 0.01 * 3.0 * theta, rtol=1e-14)
    fun.penalty_weights = lambda theta: weights
    third, _ = decaying.step(fun, theta, decaying.init(fun, theta))
    np.testing.assert_allclose(third, first - 0.01 * 3.0 * weights * theta, rtol=1e-14)
    with pytest.raises(ValueError, match=r"'weight_decay' parameter of Adam must be a number in"):
        Adam(weight_decay=-1.0)
