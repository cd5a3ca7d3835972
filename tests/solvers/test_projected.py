"""Solvers on a set of allowed parameters: columns on the simplex, after every step."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from scipy.optimize import minimize

from vicinal.maps import Simplex
from vicinal.reference import lmnn
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

R, D = 4, 3
SOLVERS = {
    "bold": BoldDriver(),
    "adaptive": resolve("adaptive"),
    "projected": ProjectedGradient(),
    "monotone": ProjectedGradient(memory=1),
}
each_solver = pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)


class Quadratic:
    """``(x - c)^T Q (x - c) / 2`` over matrices (4, 3) with columns on the simplex."""

    project = staticmethod(Simplex(R).project)

    def __init__(self, rng, condition=100.0, spread=1.0):
        basis = np.linalg.qr(rng.standard_normal((R * D, R * D)))[0]
        self.Q = (basis * np.logspace(0, np.log10(condition), R * D)) @ basis.T
        self.centre = spread * rng.standard_normal(R * D)
        self.start = Simplex(R).project(rng.standard_normal(R * D))

    def __call__(self, theta, batch=None):
        away = self.Q @ (theta - self.centre)
        return 0.5 * float((theta - self.centre) @ away), away

    def minimum(self):
        """By SciPy, with the sums as constraints."""
        sums = np.tile(np.eye(D), R)
        unit = self(self.start)[0]  # SLSQP minds the scale
        solved = minimize(
            lambda x: tuple(part / unit for part in self(x)), self.start, jac=True,
            method="SLSQP", bounds=[(0, None)] * (R * D),
            constraints={"type": "eq", "fun": lambda x: sums @ x - 1, "jac": lambda x: sums},
            options={"ftol": 1e-13, "maxiter": 500},
        )  # fmt: skip
        assert solved.success, solved.message
        return solved.x


def assert_allowed(theta, r=R):
    L = theta.reshape(r, -1)
    assert (L >= 0).all()
    np.testing.assert_allclose(L.sum(axis=0), 1.0, rtol=0, atol=1e-12)


def walk(solver, fun, theta, n_steps):
    states = [solver.init(fun, theta)]
    for _ in range(n_steps):
        _, state = solver.step(fun, states[-1].theta, states[-1])
        states.append(state)
    return states


@each_solver
@pytest.mark.parametrize("spread", [0.1, 1.0, 10.0])
def test_same_minimum_as_a_quadratic_programme(rng, solver, spread):
    fun = Quadratic(rng, spread=spread)
    result = minimise(fun, fun.start, solver, max_iter=5000, tol=1e-10)
    assert result.converged
    lowest = fun.minimum()
    assert result.value - fun(lowest)[0] < 1e-8 * fun(fun.start)[0]
    np.testing.assert_allclose(result.theta, lowest, atol=2e-3)
    assert_allowed(result.theta)


def test_spectral_steps_are_fast(rng):
    """Fewer evaluations than the report's step to the same residual, at condition 1000."""
    fun = Quadratic(rng, condition=1e3, spread=0.3)
    count = {}
    for name in ("adaptive", "projected"):
        result = minimise(fun, fun.start, SOLVERS[name], max_iter=20_000, tol=0.0,
                          on_iteration=lambda info: info.grad_norm <= 1e-4)  # fmt: skip
        assert result.reason in ("callback", "gradient")
        count[name] = result.state.n_evaluations
    assert count["projected"] < 0.5 * count["adaptive"]


@each_solver
def test_every_step_is_allowed(rng, solver):
    fun = Quadratic(rng, condition=1e4, spread=3.0)
    for state in walk(solver, fun, fun.start, 300):
        assert_allowed(state.theta)
        np.testing.assert_array_equal(
            state.residual, fun.project(state.theta - state.grad) - state.theta
        )


@each_solver
def test_every_step_of_a_large_margin_is_allowed(rng, solver):
    y = np.arange(18) % 3
    X = rng.gamma(0.3 + rng.uniform(0, 2, (3, 6))[y])
    X /= X.sum(axis=1, keepdims=True)
    targets = np.array([[j for j in range(18) if y[j] == y[i] and j != i][:2] for i in range(18)])

    class Loss:
        project = staticmethod(Simplex(2).project)

        def __call__(self, theta, batch=None):
            L = theta.reshape(2, 6)
            value, dZ = lmnn(X @ L.T, y, targets, 0.7, 0.05, "chi2")
            return value, (dZ.T @ X).ravel()

    fun, start = Loss(), Simplex(2).project(rng.uniform(0, 1, 12))
    states = walk(solver, fun, start, 25)
    for state in states:
        assert_allowed(state.theta, 2)
    assert min(state.value for state in states) < states[0].value


@each_solver
def test_a_start_that_is_not_allowed_is_projected(rng, solver):
    fun = Quadratic(rng)
    far = fun.start + rng.standard_normal(R * D)
    result = minimise(fun, far, solver, max_iter=3)
    assert result.history["loss"][0] == fun(fun.project(far))[0]
    # one that is allowed is kept to the bit
    np.testing.assert_array_equal(solver.init(fun, fun.start).theta, fun.start)


@each_solver
def test_resumed_run_has_the_same_bits(rng, solver):
    fun = Quadratic(rng, condition=1e3)
    whole = minimise(fun, fun.start, solver, max_iter=30, tol=0.0)
    part = minimise(fun, fun.start, solver, max_iter=11, tol=0.0)
    state = pickle.loads(pickle.dumps(part.state))
    rest = minimise(
        fun, part.theta, solver, state=state, history=part.history, max_iter=19, tol=0.0
    )
    for one, other in zip(whole.state, rest.state, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(whole.theta, rest.theta)
    assert whole.history["loss"] == rest.history["loss"]
    assert whole.history["grad_norm"] == rest.history["grad_norm"]


@each_solver
def test_step_is_pure(rng, solver):
    fun = Quadratic(rng)
    state = walk(solver, fun, fun.start, 3)[-1]
    before = copy.deepcopy(state)
    solver.step(fun, state.theta, state)
    for kept, old in zip(state, before, strict=True):
        np.testing.assert_array_equal(kept, old)


@each_solver
def test_a_corner_is_a_minimum_though_the_gradient_is_large(solver):
    """Each column falls along its first entry: the corner is the end, and is found at once."""
    slope = np.zeros((R, D))
    slope[0] = -7.0

    class Linear:
        project = staticmethod(Simplex(R).project)

        def __call__(self, theta, batch=None):
            return float(slope.ravel() @ theta), slope.ravel()

    corner = np.zeros((R, D))
    corner[0] = 1.0
    result = minimise(Linear(), corner.ravel(), solver)
    assert (result.reason, result.converged, result.n_iter) == ("gradient", True, 0)
    assert result.history["grad_norm"] == [0.0]
    assert result.state.stalled
    theta, state = solver.step(Linear(), corner.ravel(), result.state)
    assert state.stalled
    np.testing.assert_array_equal(theta, corner.ravel())
    # and it is reached
    result = minimise(Linear(), np.full(R * D, 1 / R), solver, max_iter=500)
    np.testing.assert_allclose(result.theta, corner.ravel(), atol=1e-12)
    assert result.reason == "gradient"


@each_solver
def test_no_decrease_is_stalled(rng, solver):
    inner, values = Quadratic(rng), iter(range(1000))

    class Rising(Quadratic):
        def __call__(self, theta, batch=None):
            return float(next(values)), inner(theta)[1]

    fun = Rising(rng)
    result = minimise(fun, inner.start, solver)
    assert (result.reason, result.converged, result.n_iter) == ("stalled", False, 1)
    np.testing.assert_array_equal(result.theta, inner.start)


@each_solver
@pytest.mark.parametrize("wall", [np.nan, np.inf, -np.inf])
def test_walls_that_are_not_finite_are_walked_around(rng, solver, wall):
    class Walled(Quadratic):
        def __call__(self, theta, batch=None):
            if theta[0] < 0.1:
                return wall, np.full(theta.size, np.nan)
            value, grad = super().__call__(theta)
            grad = grad.copy()
            grad[0] -= 0.01 / (theta[0] - 0.1 + 1e-12)
            return value - 0.01 * np.log(theta[0] - 0.1 + 1e-12), grad

    fun = Walled(rng, condition=10.0)
    start = np.zeros((R, D))
    start[0] = 1.0
    result = minimise(fun, start.ravel(), solver, max_iter=1000, tol=1e-7)
    assert_allowed(result.theta)
    assert result.theta[0] >= 0.1
    assert min(result.history["grad_norm"]) < 0.1
    assert np.isfinite(result.history["loss"]).all()


@pytest.mark.parametrize("scale", [1e-300, 1e-170, 1e150, 1e300])
@each_solver
def test_extreme_gradients_neither_warn_nor_raise(rng, solver, scale):
    class Scaled(Quadratic):
        def __call__(self, theta, batch=None):
            value, grad = super().__call__(theta)
            return scale * value, scale * grad

    states = walk(solver, Scaled(rng), Quadratic(rng).start, 6)
    assert states[-1].value <= states[0].value
    for state in states:
        assert_allowed(state.theta)


@each_solver
def test_steps_out_of_the_range_of_floats_are_taken_back(rng, solver):
    fun = Quadratic(rng)
    state = solver.init(fun, fun.start)
    state = state._replace(rate=1e308, grad=1e3 * state.grad)
    solver = solver if isinstance(solver, ProjectedGradient) else BoldDriver(decrease=1e-9)
    theta, after = solver.step(fun, fun.start, state)
    assert after.value < state.value
    assert_allowed(theta)


@each_solver
def test_refresh_recomputes_the_residual(rng, solver):
    fun, other = Quadratic(rng, 2.0, 0.2), Quadratic(rng, 2.0, 0.2)
    state = walk(solver, fun, fun.start, 4)[-1]
    fresh = refresh(solver, other, state.theta, state)
    expected = other.project(state.theta - other(state.theta)[1]) - state.theta
    np.testing.assert_array_equal(fresh.residual, expected)
    assert np.abs(fresh.residual - state.residual).max() > 1e-6
    assert not fresh.stalled
    _, after = solver.step(other, fresh.theta, fresh)
    assert after.value < fresh.value
    # at a corner where the new function rests
    corner = np.zeros((R, D))
    corner[0] = 1.0

    class Falling(Quadratic):
        def __call__(self, theta, batch=None):
            return -float(theta @ corner.ravel()), -corner.ravel()

    assert refresh(solver, Falling(rng), corner.ravel(), state).stalled
    # a function of free parameters has no residual
    free = refresh(solver, lambda t, b: other(t), state.theta, state)
    assert free.residual is None


@pytest.mark.parametrize("memory", [1, 10])
def test_losses_of_another_function_do_not_count(rng, memory):
    """After a refresh a step must lower the loss, however high the losses before it were."""
    fun, solver = Quadratic(rng, condition=3.0, spread=0.05), ProjectedGradient(memory=memory)
    fun.centre += 1 / R
    middle = np.full(R * D, 1 / R)
    state = solver.init(fun, middle)._replace(rate=1e6, values=np.array([1e3]))
    corner = fun.project(middle - 1e6 * state.grad)
    assert fun(corner)[0] > state.value  # the whole step would raise the loss
    assert solver.step(fun, middle, state)[1].value < state.value


def test_a_run_that_may_rise_returns_the_lowest(rng):
    fun = Quadratic(rng, condition=1e4, spread=0.2)
    result = minimise(fun, fun.start, ProjectedGradient(), max_iter=200, tol=0.0)
    losses = np.array(result.history["loss"])
    assert (np.diff(losses) > 0).any()  # it does rise
    assert result.value == losses.min() == fun(result.theta)[0]
    monotone = minimise(fun, fun.start, ProjectedGradient(memory=1), max_iter=200, tol=0.0)
    assert (np.diff(monotone.history["loss"]) <= 0).all()


def test_history_tells_the_projected_gradient(rng):
    fun = Quadratic(rng)
    for solver in SOLVERS.values():
        result = minimise(fun, fun.start, solver, max_iter=5, tol=0.0)
        assert result.history["grad_norm"][-1] == np.abs(result.state.residual).max()
        free = minimise(lambda t, b: fun(t), fun.start, solver, max_iter=5, tol=0.0)
        assert free.history["grad_norm"][-1] == np.abs(free.state.grad).max()


@pytest.mark.parametrize("solver", [LBFGS(), ConjugateGradient(), Momentum(), Adam(), SGD()])
def test_solvers_that_would_leave_the_set_are_refused(rng, solver):
    fun = Quadratic(rng)
    assert not solver.projects
    name = type(solver).__name__
    with pytest.raises(ValueError, match=f"The solver {name} does not keep to the constraint"):
        minimise(fun, fun.start, solver)


def test_a_solver_that_does_not_say_is_refused(rng):
    class Own:
        needs_fixed_batch = True

        def init(self, fun, theta, batch=None): ...

        def step(self, fun, theta, state, batch=None): ...

    with pytest.raises(ValueError, match="The solver Own does not keep to the constraint"):
        minimise(Quadratic(rng), np.ones(R * D), Own())
