"""Every solver, one step at a time: same minimum as SciPy, pure steps, sane failure."""

import copy
import pickle

import numpy as np
import pytest
from scipy.optimize import minimize, rosen, rosen_der
from sklearn.base import clone

from vicinal.core.types import Batch, Solver
from vicinal.solvers import (
    LBFGS,
    SGD,
    Adam,
    BoldDriver,
    ConjugateGradient,
    Momentum,
    ProjectedGradient,
    minimise,
    refresh,
    resolve,
)
from vicinal.solvers._line_search import Trial, first_rate, wolfe_search

SOLVERS = [
    LBFGS(),
    ConjugateGradient(),
    BoldDriver(),
    ProjectedGradient(),
    Momentum(),
    Adam(),
    SGD(),
]
LINE_SEARCHERS = [(LBFGS(), "L-BFGS-B", {"ftol": 1e-12}), (ConjugateGradient(), "CG", {})]
CURVATURES = np.logspace(0, 3, 12)


def named(solvers):
    return [pytest.param(solver, id=type(solver).__name__) for solver in solvers]


every_solver = pytest.mark.parametrize("solver", named(SOLVERS))
# a rate that falls with the time is for noisy gradients, not for long valleys
all_but_sgd = pytest.mark.parametrize("solver", named(SOLVERS[:6]))
every_descent = pytest.mark.parametrize(
    "solver", named([*SOLVERS[:3], ProjectedGradient(memory=1)])
)


def quadratic(theta, batch=None):
    """Condition number 1000, minimum 0.25 at (1, ..., 1)."""
    away = theta - 1.0
    return 0.25 + 0.5 * float(CURVATURES @ away**2), CURVATURES * away


def rosenbrock(theta, batch=None):
    """Two parameters, minimum 0 at (1, 1)."""
    x, y = theta
    fall = y - x * x
    return (1 - x) ** 2 + 100 * fall**2, np.array([2 * (x - 1) - 400 * x * fall, 200 * fall])


START = np.linspace(2.0, 4.0, 12)


def walk(solver, fun, theta, n_steps):
    state = solver.init(fun, theta)
    states = [state]
    for _ in range(n_steps):
        theta, state = solver.step(fun, theta, state)
        states.append(state)
    return states


@all_but_sgd
def test_ill_conditioned_quadratic(solver):
    result = minimise(quadratic, START, solver, max_iter=3000, tol=1e-9)
    np.testing.assert_allclose(result.value, 0.25, atol=1e-5)
    np.testing.assert_allclose(result.theta, 1.0, atol=5e-3)


@all_but_sgd
def test_rosenbrock(solver):
    result = minimise(rosenbrock, np.array([-1.2, 1.0]), solver, max_iter=2000, tol=1e-9)
    assert result.value < 1e-2  # the valley floor near the start is at 4


@pytest.mark.parametrize("theta", [np.array([-1.2, 1.0]), np.full(10, 0.5)], ids=["2", "10"])
@pytest.mark.parametrize(("solver", "method", "options"), LINE_SEARCHERS)
def test_same_minimum_as_scipy_at_similar_cost(solver, method, options, theta):
    theirs = minimize(rosen, theta, jac=rosen_der, method=method, options=options)
    ours = minimise(lambda t, b: (rosen(t), rosen_der(t)), theta, solver, max_iter=2000, tol=1e-10)
    assert abs(ours.value - theirs.fun) < 1e-6
    np.testing.assert_allclose(ours.theta, theirs.x, atol=1e-3)
    assert ours.state.n_evaluations <= 2 * theirs.nfev


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


@pytest.mark.parametrize("scale", [2.0**-20, 2.0**20])
@every_descent
def test_path_does_not_depend_on_the_scale_of_the_loss(solver, scale):
    def scaled(theta, batch=None):
        value, grad = quadratic(theta)
        return scale * value, scale * grad

    plain, other = walk(solver, quadratic, START, 8), walk(solver, scaled, START, 8)
    np.testing.assert_array_equal([s.theta for s in plain], [s.theta for s in other])


@pytest.mark.parametrize("theta_scale", [1e-6, 1e6])
@pytest.mark.parametrize("grad_scale", [1e-6, 1e6])
@every_descent
def test_badly_scaled_problem_still_descends(solver, theta_scale, grad_scale):
    def fun(theta, batch=None):
        value, grad = quadratic(theta / theta_scale)
        return grad_scale * theta_scale * value, grad_scale * grad

    result = minimise(fun, START * theta_scale, solver, max_iter=200, tol=0.0)
    start = fun(START * theta_scale)[0]
    lowest = fun(np.full(12, theta_scale))[0]
    assert result.value - lowest < 1e-2 * (start - lowest)


@every_descent
def test_start_at_zero(solver):
    result = minimise(quadratic, np.zeros(12), solver, max_iter=3000, tol=1e-8)
    np.testing.assert_allclose(result.value, 0.25, atol=1e-4)


@every_solver
def test_step_is_pure(solver):
    theta, batch = START.copy(), Batch()
    state = solver.init(quadratic, theta, batch)
    for _ in range(4):
        before = copy.deepcopy((theta, state))
        new, after = solver.step(quadratic, theta, state, batch)
        again, after_again = solver.step(quadratic, theta, state, batch)
        for kept, old in zip((theta, *state), (before[0], *before[1]), strict=True):
            np.testing.assert_array_equal(kept, old)
        for one, other in zip((new, *after), (again, *after_again), strict=True):
            np.testing.assert_array_equal(one, other)
        assert not np.array_equal(new, theta)
        np.testing.assert_array_equal(after.theta, new)
        theta, state = new, after


@every_solver
def test_state_survives_a_gradient_buffer_that_is_reused(solver):
    buffer = np.empty(12)

    def fun(theta, batch=None):
        value, buffer[:] = quadratic(theta)
        return value, buffer

    np.testing.assert_array_equal(
        walk(solver, fun, START, 5)[-1].theta, walk(solver, quadratic, START, 5)[-1].theta
    )


@every_solver
def test_counts_every_evaluation(solver):
    calls = []

    def fun(theta, batch=None):
        calls.append(theta)
        return quadratic(theta)

    state = walk(solver, fun, START, 5)[-1]
    assert state.n_evaluations == len(calls)
    # From a value it cannot undercut, a line searcher tries its own line, then the gradient's.
    _, state = solver.step(fun, state.theta, state._replace(value=-1.0))
    assert state.n_evaluations == len(calls)


@every_solver
def test_zero_gradient_is_stalled(solver):
    state = solver.init(quadratic, np.ones(12))
    assert state.stalled
    theta, state = solver.step(quadratic, np.ones(12), state)
    assert state.stalled
    np.testing.assert_array_equal(theta, 1.0)


@every_descent
def test_no_decrease_is_stalled_not_an_error(solver):
    values = iter(range(10_000))

    def rising(theta, batch=None):
        return float(next(values)), quadratic(theta)[1]

    state = solver.init(rising, START)
    theta, after = solver.step(rising, START, state)
    assert after.stalled
    np.testing.assert_array_equal(theta, START)
    assert after.value == state.value == 0.0
    assert after.n_evaluations > state.n_evaluations


@every_descent
def test_float32_noise_ends_quietly_near_the_minimum(solver):
    def noisy(theta, batch=None):
        value, grad = quadratic(theta.astype(np.float32).astype(np.float64))
        return float(np.float32(value)), grad.astype(np.float32)

    result = minimise(noisy, START, solver, max_iter=5000, tol=0.0)
    assert result.reason in ("stalled", "loss", "gradient")
    np.testing.assert_allclose(result.value, 0.25, atol=1e-4)
    assert np.all(np.diff(result.history["loss"]) <= 0)


@pytest.mark.parametrize("wall", [np.nan, np.inf, -np.inf, -1e9])
@every_descent
def test_walls_that_are_not_finite_are_walked_around(solver, wall):
    def walled(theta, batch=None):
        if theta[0] <= 0.5:
            return wall, np.full(2, np.nan)
        return theta @ theta - np.log(theta[0] - 0.5), np.array(
            [2 * theta[0] - 1 / (theta[0] - 0.5), 2 * theta[1]]
        )

    # A first step of a tenth of |theta| = 1e4 leads far behind the wall.
    result = minimise(walled, np.array([0.6, 1e4]), solver, max_iter=500, tol=1e-10)
    # 2a(a - 1/2) = 1
    np.testing.assert_allclose(result.theta, [(0.5 + np.sqrt(2.25)) / 2, 0.0], atol=1e-3)


@every_solver
def test_refresh_keeps_the_memory(solver):
    theta, fun = START, quadratic
    state = walk(solver, fun, theta, 3)[-1]

    def moved(theta, batch=None):
        value, grad = quadratic(theta)
        return value + 1.0 + 1e-3 * float(theta.sum()), grad + 1e-3

    before = copy.deepcopy(state)
    fresh = refresh(solver, moved, state.theta, state._replace(stalled=True))
    value, grad = moved(state.theta)
    assert fresh.value == value
    np.testing.assert_array_equal(fresh.grad, grad)
    assert fresh.n_evaluations == state.n_evaluations + 1
    assert not fresh.stalled
    changed = {"value", "grad", "n_evaluations"}
    for name in set(fresh._fields) - changed:
        np.testing.assert_array_equal(getattr(fresh, name), getattr(state, name))
    np.testing.assert_array_equal(state.grad, before.grad)
    _, after = solver.step(moved, fresh.theta, fresh)
    assert after.value < fresh.value


@every_solver
def test_refresh_after_a_zero_gradient_moves_again(solver):
    state = solver.init(quadratic, np.ones(12))
    fresh = refresh(solver, lambda t, b: (t @ t, 2 * t), np.ones(12), state)
    _, after = solver.step(lambda t, b: (t @ t, 2 * t), np.ones(12), fresh)
    assert after.value < fresh.value


@pytest.mark.parametrize("scale", [1e-300, 1e-170, 1e150, 1e300])
@every_solver
def test_extreme_gradients_neither_warn_nor_raise(solver, scale):
    # Squares of these under- or overflow; warnings of ours are errors here.
    states = walk(solver, lambda t, b: (scale * (t @ t), scale * 2 * t), np.ones(2), 4)
    assert states[-1].value <= states[0].value
    assert np.isfinite(states[-1].theta).all()


@every_solver
def test_parts_clone_pickle_print_and_compare(solver):
    assert isinstance(solver, Solver)
    assert clone(solver, safe=False) == solver
    assert pickle.loads(pickle.dumps(solver)) == solver
    assert eval(repr(solver)) == solver
    assert hash(solver) == hash(type(solver)())
    state = pickle.loads(pickle.dumps(solver.init(quadratic, START)))
    assert type(state) is type(solver.init(quadratic, START))
    with pytest.raises(AttributeError):
        solver.learning_rate = 3.0


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


def test_resolve():
    names = ["lbfgs", "cg", "bold_driver", "projected", "momentum", "adam", "sgd"]
    assert [resolve(name) for name in names] == SOLVERS
    assert resolve("adaptive") == BoldDriver(increase=1.01, decrease=0.5, max_failures=20)
    part = Adam(learning_rate=0.5)
    assert resolve(part) is part
    with pytest.raises(
        ValueError, match=r"The 'solver' parameter of LMNN must be .*'rmsprop' instead"
    ):
        resolve("rmsprop", owner="LMNN")
    for wrong in (3, None, LBFGS):
        with pytest.raises(TypeError, match=r"The 'solver' parameter of NCA must be"):
            resolve(wrong)


def test_gradient_of_the_wrong_shape():
    with pytest.raises(ValueError, match=r"shape of theta, \(2,\). Got \(3,\) instead"):
        LBFGS().init(lambda t, b: (0.0, np.zeros(3)), np.ones(2))


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
