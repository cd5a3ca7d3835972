"""Solvers on a set of allowed parameters: columns on the simplex, after every step."""

from __future__ import annotations

import numpy as np
import pytest
from common.descents import D, OnSimplex, R, assert_allowed, walk
from formulas import lmnn

from vicinal.core.types import Solver
from vicinal.maps import Simplex
from vicinal.solvers import (
    BoldDriver,
    ProjectedGradient,
    minimize,
    resolve,
)

SOLVERS = {
    "bold": BoldDriver(),
    "adaptive": resolve("adaptive"),
    "projected": ProjectedGradient(),
    "monotone": ProjectedGradient(memory=1),
}
each_solver = pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)


def test_spectral_steps_are_fast(rng):
    """Fewer evaluations than the report's step to the same residual, at condition 1000."""
    fun = OnSimplex(rng, condition=1e3, spread=0.3)
    count = {}
    for name in ("adaptive", "projected"):
        result = minimize(fun, fun.start, SOLVERS[name], max_iter=20_000, tol=0.0,
                          on_iteration=lambda info: info.grad_norm <= 1e-4)  # fmt: skip
        assert result.reason in ("callback", "gradient")
        count[name] = result.state.n_evaluations
    assert count["projected"] < 0.5 * count["adaptive"]


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
def test_steps_out_of_the_range_of_floats_are_taken_back(rng, solver):
    fun = OnSimplex(rng)
    state = solver.init(fun, fun.start)
    state = state._replace(rate=1e308, grad=1e3 * state.grad)
    solver = solver if isinstance(solver, ProjectedGradient) else BoldDriver(decrease=1e-9)
    theta, after = solver.step(fun, fun.start, state)
    assert after.value < state.value
    assert_allowed(theta)


@pytest.mark.parametrize("memory", [1, 10])
def test_losses_of_another_function_do_not_count(rng, memory):
    """After a refresh a step must lower the loss, however high the losses before it were."""
    fun, solver = OnSimplex(rng, condition=3.0, spread=0.05), ProjectedGradient(memory=memory)
    fun.centre += 1 / R
    middle = np.full(R * D, 1 / R)
    state = solver.init(fun, middle)._replace(rate=1e6, values=np.array([1e3]))
    corner = fun.project(middle - 1e6 * state.grad)
    assert fun(corner)[0] > state.value  # the whole step would raise the loss
    assert solver.step(fun, middle, state)[1].value < state.value


def test_a_run_that_may_rise_returns_the_lowest(rng):
    fun = OnSimplex(rng, condition=1e4, spread=0.2)
    result = minimize(fun, fun.start, ProjectedGradient(), max_iter=200, tol=0.0)
    losses = np.array(result.history["loss"])
    assert (np.diff(losses) > 0).any()  # it does rise
    assert result.value == losses.min() == fun(result.theta)[0]
    monotone = minimize(fun, fun.start, ProjectedGradient(memory=1), max_iter=200, tol=0.0)
    assert (np.diff(monotone.history["loss"]) <= 0).all()


def test_a_solver_that_does_not_say_is_refused(rng):
    class Own(Solver):
        needs_fixed_batch = True

        def init(self, fun, theta, batch=None): ...

        def step(self, fun, theta, state, batch=None): ...

    with pytest.raises(ValueError, match="The solver Own does not keep to the constraint"):
        minimize(OnSimplex(rng), np.ones(R * D), Own())
