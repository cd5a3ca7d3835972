"""What every solver keeps to, free or on a set of allowed parameters; one line for each."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from common.descents import D, OnSimplex, R, assert_allowed, walk
from scipy import optimize
from scipy.optimize import rosen, rosen_der
from sklearn.base import clone

from vicinal.core.types import Batch, Solver
from vicinal.maps import Simplex
from vicinal.solvers import (  # noqa: F401 (names that `repr` uses)
    LBFGS,
    SGD,
    Adam,
    BoldDriver,
    ConjugateGradient,
    Constant,
    Cosine,
    InverseTime,
    Momentum,
    ProjectedGradient,
    minimize,
    refresh,
    resolve,
)

SOLVERS = {
    "lbfgs": LBFGS(),
    "lbfgs of 3": LBFGS(memory=3),
    "cg": ConjugateGradient(),
    "bold_driver": BoldDriver(),
    "adaptive": BoldDriver(increase=1.01, decrease=0.5, max_failures=20),
    "projected": ProjectedGradient(),
    "projected monotone": ProjectedGradient(memory=1),
    "momentum": Momentum(),
    "adam": Adam(),
    "adam cosine": Adam(Cosine(0.1, 30)),
    "sgd": SGD(),
    "sgd with momentum": SGD(InverseTime(1e-3, 5.0), momentum=0.5),
}
LINE_SEARCHERS = {"lbfgs": ("L-BFGS-B", {"ftol": 1e-12}), "cg": ("CG", {})}
# every step lowers the loss; "projected" does so over several steps
DESCENTS = ["lbfgs", "cg", "bold_driver", "adaptive", "projected monotone"]
# a rate that falls with the time is for noisy gradients, not for long valleys
PATIENT = [*DESCENTS, "projected", "momentum", "adam"]
PROJECTING = [name for name, solver in SOLVERS.items() if solver.projects]
# of these, the ones that compare losses: they reach a minimum, and walk around walls
COMPARING = [name for name in PROJECTING if SOLVERS[name].needs_fixed_batch]
# and those with rates for few steps, on gradients of order one
ON_THE_SIMPLEX = {
    "momentum": Momentum(0.02),
    "adam": Adam(Cosine(0.05, 400)),
    "sgd": SGD(InverseTime(20.0, 40.0)),
    "sgd with momentum": SGD(InverseTime(10.0, 40.0), momentum=0.5),
}


def each(names=tuple(SOLVERS)):
    return pytest.mark.parametrize("solver", [SOLVERS[name] for name in names], ids=list(names))


# A function of free parameters; `OnSimplex` is over matrices whose columns are on the simplex

CURVATURES = np.logspace(0, 3, 12)
START = np.linspace(2.0, 4.0, 12)


def quadratic(theta, batch=None):
    """Condition number 1000, minimum 0.25 at (1, ..., 1)."""
    away = theta - 1.0
    return 0.25 + 0.5 * float(CURVATURES @ away**2), CURVATURES * away


def rosenbrock(theta, batch=None):
    return rosen(theta), rosen_der(theta)


def assert_same_states(one, other, but=()):
    assert type(one) is type(other)
    for name in set(one._fields) - set(but):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


# Minima


@each(PATIENT)
def test_same_minimum_of_an_ill_conditioned_quadratic(solver):
    result = minimize(quadratic, START, solver, max_iter=3000, tol=1e-9)
    np.testing.assert_allclose(result.value, 0.25, atol=1e-5)
    np.testing.assert_allclose(result.theta, 1.0, atol=5e-3)


@each(PATIENT)
def test_descends_a_curved_valley(solver):
    result = minimize(rosenbrock, np.array([-1.2, 1.0]), solver, max_iter=2000, tol=1e-9)
    assert result.value < 1e-2  # the valley floor near the start is at 4


@pytest.mark.parametrize("theta", [np.array([-1.2, 1.0]), np.full(10, 0.5)], ids=["2", "10"])
@pytest.mark.parametrize("name", LINE_SEARCHERS)
def test_same_minimum_as_scipy_at_similar_cost(name, theta):
    method, options = LINE_SEARCHERS[name]
    theirs = optimize.minimize(rosen, theta, jac=rosen_der, method=method, options=options)
    ours = minimize(rosenbrock, theta, SOLVERS[name], max_iter=2000, tol=1e-10)
    assert abs(ours.value - theirs.fun) < 1e-6
    np.testing.assert_allclose(ours.theta, theirs.x, atol=1e-3)
    assert ours.state.n_evaluations <= 2 * theirs.nfev


@each(COMPARING)
@pytest.mark.parametrize("spread", [0.1, 1.0, 10.0])
def test_same_minimum_as_scipy_on_the_simplex(rng, solver, spread):
    fun = OnSimplex(rng, spread=spread)
    result = minimize(fun, fun.start, solver, max_iter=5000, tol=1e-10)
    assert result.converged
    lowest = fun.minimum()
    assert result.value - fun(lowest)[0] < 1e-8 * fun(fun.start)[0]
    np.testing.assert_allclose(result.theta, lowest, atol=2e-3)
    assert_allowed(result.theta)


@pytest.mark.parametrize("name", ON_THE_SIMPLEX)
def test_noisy_gradients_on_the_simplex(rng, name):
    """Solvers for batches come near the minimum, however large the part that P takes away."""
    fun = OnSimplex(rng)

    class Noisy:
        project = staticmethod(fun.project)

        def __call__(self, theta, batch=None):
            value, grad = fun(theta)
            columns = 100.0 * np.ones((R, 1)) * rng.uniform(0.9, 1.1, D)
            noise = 0.1 * np.abs(grad).max() * rng.standard_normal(theta.size)
            return value, grad + columns.ravel() + noise

    result = minimize(Noisy(), fun.start, ON_THE_SIMPLEX[name], max_iter=400, tol=0.0)
    lowest, start = fun(fun.minimum())[0], fun(fun.start)[0]
    assert fun(result.state.theta)[0] - lowest < 0.05 * (start - lowest)
    assert_allowed(result.state.theta)


# Steps


@each()
def test_resumed_run_has_the_same_bits(rng, solver):
    on_simplex = OnSimplex(rng, condition=1e3)
    problems = [(quadratic, START)]
    if solver.projects:
        problems.append((on_simplex, on_simplex.start))
    for fun, start in problems:
        for cut in (1, 11):
            whole = minimize(fun, start, solver, max_iter=25, tol=0.0)
            first = minimize(fun, start, solver, max_iter=cut, tol=0.0)
            state, history = pickle.loads(pickle.dumps((first.state, first.history)))
            rest = minimize(
                fun, None, solver, state=state, history=history, max_iter=25 - cut, tol=0.0
            )
            assert_same_states(rest.state, whole.state)
            np.testing.assert_array_equal(rest.theta, whole.theta)
            assert rest.history["loss"] == whole.history["loss"]
            assert rest.history["grad_norm"] == whole.history["grad_norm"]


@each()
def test_step_is_pure(rng, solver):
    on_simplex = OnSimplex(rng)
    for fun, theta in [(quadratic, START.copy()), (on_simplex, on_simplex.start)]:
        if fun is on_simplex and not solver.projects:
            continue
        state = solver.init(fun, theta, Batch())
        for _ in range(4):
            before = copy.deepcopy((theta, state))
            new, after = solver.step(fun, theta, state, Batch())
            again, after_again = solver.step(fun, theta, state, Batch())
            np.testing.assert_array_equal(theta, before[0])
            assert_same_states(state, before[1])
            assert_same_states(after, after_again)
            np.testing.assert_array_equal(new, again)
            np.testing.assert_array_equal(after.theta, new)
            assert not np.array_equal(new, theta)
            theta, state = new, after


@each()
def test_state_survives_a_gradient_buffer_that_is_reused(solver):
    buffer = np.empty(12)

    def fun(theta, batch=None):
        value, buffer[:] = quadratic(theta)
        return value, buffer

    np.testing.assert_array_equal(
        walk(solver, fun, START, 5)[-1].theta, walk(solver, quadratic, START, 5)[-1].theta
    )


@each()
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


@each(PROJECTING)
def test_every_step_is_allowed(rng, solver):
    fun = OnSimplex(rng, condition=1e4, spread=3.0)
    for state in walk(solver, fun, fun.start, 200):
        assert_allowed(state.theta)
        np.testing.assert_array_equal(
            state.residual, fun.project(state.theta - state.grad) - state.theta
        )


@each()
def test_a_set_of_allowed_parameters_is_kept_to_or_refused(rng, solver):
    fun = OnSimplex(rng)
    far = fun.start + rng.standard_normal(R * D)
    if not solver.projects:
        name = type(solver).__name__
        with pytest.raises(ValueError, match=f"The solver {name} does not keep to the constraint"):
            minimize(fun, fun.start, solver)
        return
    # a start that is not allowed is projected, one that is allowed is kept to the bit
    result = minimize(fun, far, solver, max_iter=3)
    assert result.history["loss"][0] == fun(fun.project(far))[0]
    np.testing.assert_array_equal(solver.init(fun, fun.start).theta, fun.start)


@each(DESCENTS)
@pytest.mark.parametrize("scale", [2.0**-20, 2.0**20])
def test_path_does_not_depend_on_the_scale_of_the_loss(solver, scale):
    def scaled(theta, batch=None):
        value, grad = quadratic(theta)
        return scale * value, scale * grad

    plain, other = walk(solver, quadratic, START, 8), walk(solver, scaled, START, 8)
    np.testing.assert_array_equal([s.theta for s in plain], [s.theta for s in other])


@each(DESCENTS)
@pytest.mark.parametrize("theta_scale", [1e-6, 1e6])
@pytest.mark.parametrize("grad_scale", [1e-6, 1e6])
def test_badly_scaled_problem_still_descends(solver, theta_scale, grad_scale):
    def fun(theta, batch=None):
        value, grad = quadratic(theta / theta_scale)
        return grad_scale * theta_scale * value, grad_scale * grad

    result = minimize(fun, START * theta_scale, solver, max_iter=200, tol=0.0)
    start = fun(START * theta_scale)[0]
    lowest = fun(np.full(12, theta_scale))[0]
    assert result.value - lowest < 1e-2 * (start - lowest)


@each(DESCENTS)
def test_start_at_zero(solver):
    result = minimize(quadratic, np.zeros(12), solver, max_iter=3000, tol=1e-8)
    np.testing.assert_allclose(result.value, 0.25, atol=1e-4)


# Ends


@each()
def test_zero_gradient_is_stalled(solver):
    state = solver.init(quadratic, np.ones(12))
    assert state.stalled
    theta, state = solver.step(quadratic, np.ones(12), state)
    assert state.stalled
    np.testing.assert_array_equal(theta, 1.0)


class Downhill:
    """Each column falls along its first entry: the minimum is a corner."""

    slope = np.repeat([-7.0, *[0.0] * (R - 1)], D)
    corner = slope / -7.0
    project = staticmethod(Simplex(R).project)

    def __call__(self, theta, batch=None):
        return float(self.slope @ theta), self.slope


@each(PROJECTING)
def test_a_corner_is_a_minimum_though_the_gradient_is_large(solver):
    """It is the end, and is found at once."""
    fun, corner = Downhill(), Downhill.corner
    result = minimize(fun, corner, solver)
    assert (result.reason, result.converged, result.n_iter) == ("gradient", True, 0)
    assert result.history["grad_norm"] == [0.0]
    assert result.state.stalled
    theta, state = solver.step(fun, corner, result.state)
    assert state.stalled
    np.testing.assert_array_equal(theta, corner)


# the rates of SGD fall too fast
@each([name for name in PROJECTING if not isinstance(SOLVERS[name], SGD)])
def test_a_corner_is_reached(solver):
    result = minimize(Downhill(), np.full(R * D, 1 / R), solver, max_iter=500)
    np.testing.assert_allclose(result.theta, Downhill.corner, atol=1e-12)
    assert result.reason == "gradient"


@each([*DESCENTS, "projected"])
def test_no_decrease_is_stalled_not_an_error(rng, solver):
    on_simplex = OnSimplex(rng)
    for inner, start in [(quadratic, START), (on_simplex, on_simplex.start)]:
        values = iter(range(10_000))

        def rising(theta, batch=None, inner=inner, values=values):
            return float(next(values)), inner(theta)[1]

        if inner is on_simplex:
            if not solver.projects:
                continue
            rising.project = on_simplex.project
        elif solver == ProjectedGradient():
            continue  # which may rise for a while
        state = solver.init(rising, start)
        theta, after = solver.step(rising, start, state)
        assert after.stalled
        np.testing.assert_array_equal(theta, start)
        assert after.value == state.value == 0.0
        assert after.n_evaluations > state.n_evaluations
        result = minimize(rising, start, solver)
        assert (result.reason, result.converged, result.n_iter) == ("stalled", False, 1)
        np.testing.assert_array_equal(result.theta, start)


@each(DESCENTS)
def test_float32_noise_ends_quietly_near_the_minimum(solver):
    def noisy(theta, batch=None):
        value, grad = quadratic(theta.astype(np.float32).astype(np.float64))
        return float(np.float32(value)), grad.astype(np.float32)

    result = minimize(noisy, START, solver, max_iter=5000, tol=0.0)
    assert result.reason in ("stalled", "loss", "gradient")
    np.testing.assert_allclose(result.value, 0.25, atol=1e-4)
    assert np.all(np.diff(result.history["loss"]) <= 0)


@each(DESCENTS)
@pytest.mark.parametrize("wall", [np.nan, np.inf, -np.inf, -1e9])
def test_walls_that_are_not_finite_are_walked_around(solver, wall):
    def walled(theta, batch=None):
        if theta[0] <= 0.5:
            return wall, np.full(2, np.nan)
        return theta @ theta - np.log(theta[0] - 0.5), np.array(
            [2 * theta[0] - 1 / (theta[0] - 0.5), 2 * theta[1]]
        )

    # A first step of a tenth of |theta| = 1e4 leads far behind the wall.
    result = minimize(walled, np.array([0.6, 1e4]), solver, max_iter=500, tol=1e-10)
    # 2a(a - 1/2) = 1
    np.testing.assert_allclose(result.theta, [(0.5 + np.sqrt(2.25)) / 2, 0.0], atol=1e-3)


@each(COMPARING)
@pytest.mark.parametrize("wall", [np.nan, np.inf, -np.inf])
def test_walls_on_the_simplex_are_walked_around(rng, solver, wall):
    class Walled(OnSimplex):
        def __call__(self, theta, batch=None):
            if theta[0] < 0.1:
                return wall, np.full(theta.size, np.nan)
            value, grad = super().__call__(theta)
            grad = grad.copy()
            grad[0] -= 0.01 / (theta[0] - 0.1 + 1e-12)
            return value - 0.01 * np.log(theta[0] - 0.1 + 1e-12), grad

    start = np.zeros((R, D))
    start[0] = 1.0
    result = minimize(Walled(rng, 10.0), start.ravel(), solver, max_iter=1000, tol=1e-7)
    assert_allowed(result.theta)
    assert result.theta[0] >= 0.1
    assert min(result.history["grad_norm"]) < 0.1
    assert np.isfinite(result.history["loss"]).all()


@each([name for name in SOLVERS if name != "sgd with momentum"])  # whose rate is given
@pytest.mark.parametrize("scale", [1e-300, 1e-170, 1e150, 1e300])
def test_extreme_gradients_neither_warn_nor_raise(rng, solver, scale):
    # Squares of these under- or overflow; warnings of ours are errors here.
    states = walk(solver, lambda t, b: (scale * (t @ t), scale * 2 * t), np.ones(2), 4)
    assert states[-1].value <= states[0].value
    assert np.isfinite(states[-1].theta).all()
    if solver.projects:
        fun = OnSimplex(rng, factor=scale)
        states = walk(solver, fun, fun.start, 6)
        assert states[-1].value <= states[0].value
        for state in states:
            assert_allowed(state.theta)


# Another function


@each()
def test_refresh_keeps_the_memory(solver):
    state = walk(solver, quadratic, START, 3)[-1]

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
    assert_same_states(fresh, state, but=("value", "grad", "n_evaluations"))
    np.testing.assert_array_equal(state.grad, before.grad)
    _, after = solver.step(moved, fresh.theta, fresh)
    assert after.value < fresh.value


@each()
def test_refresh_after_a_zero_gradient_moves_again(solver):
    state = solver.init(quadratic, np.ones(12))
    fresh = refresh(solver, lambda t, b: (t @ t, 2 * t), np.ones(12), state)
    _, after = solver.step(lambda t, b: (t @ t, 2 * t), np.ones(12), fresh)
    assert after.value < fresh.value


@each(PROJECTING)
def test_refresh_recomputes_the_residual(rng, solver):
    fun, other = OnSimplex(rng, 2.0, 0.2), OnSimplex(rng, 2.0, 0.2)
    state = walk(solver, fun, fun.start, 4)[-1]
    fresh = refresh(solver, other, state.theta, state)
    expected = other.project(state.theta - other(state.theta)[1]) - state.theta
    np.testing.assert_array_equal(fresh.residual, expected)
    assert np.abs(fresh.residual - state.residual).max() > 1e-6
    assert not fresh.stalled
    _, after = solver.step(other, fresh.theta, fresh)
    assert after.value < fresh.value or not solver.needs_fixed_batch
    # at a corner where the new function rests
    corner = np.zeros((R, D))
    corner[0] = 1.0

    class Falling(OnSimplex):
        def __call__(self, theta, batch=None):
            return -float(theta @ corner.ravel()), -corner.ravel()

    assert refresh(solver, Falling(rng), corner.ravel(), state).stalled
    # a function of free parameters has no residual
    free = refresh(solver, lambda t, b: other(t), state.theta, state)
    assert free.residual is None


@each()
def test_history_tells_the_norm_of_the_gradient(rng, solver):
    fun = OnSimplex(rng)
    free = minimize(lambda t, b: fun(t), fun.start, solver, max_iter=5, tol=0.0)
    assert free.history["grad_norm"][-1] == np.abs(free.state.grad).max()
    if solver.projects:
        result = minimize(fun, fun.start, solver, max_iter=5, tol=0.0)
        assert result.history["grad_norm"][-1] == np.abs(result.state.residual).max()


# The part itself


@each()
def test_parts_clone_pickle_print_and_compare(solver):
    assert isinstance(solver, Solver)
    assert clone(solver, safe=False) == solver
    assert pickle.loads(pickle.dumps(solver)) == solver
    assert eval(repr(solver)) == solver
    assert hash(solver) == hash(eval(repr(solver)))
    state = solver.init(quadratic, START)
    assert_same_states(pickle.loads(pickle.dumps(state)), state)
    with pytest.raises(AttributeError):
        solver.learning_rate = 3.0


@each()
def test_gradient_of_the_wrong_shape_is_named(solver):
    with pytest.raises(ValueError, match=r"shape of theta, \(2,\). Got \(3,\) instead"):
        solver.init(lambda t, b: (0.0, np.zeros(3)), np.ones(2))


def test_names():
    names = ["lbfgs", "cg", "bold_driver", "adaptive", "projected", "momentum", "adam", "sgd"]
    assert [resolve(name) for name in names] == [SOLVERS[name] for name in names]
    part = Adam(learning_rate=0.5)
    assert resolve(part) is part
    with pytest.raises(
        ValueError, match=r"The 'solver' parameter of LMNN must be .*'rmsprop' instead"
    ):
        resolve("rmsprop", owner="LMNN")
    for wrong in (3, None, LBFGS):
        with pytest.raises(TypeError, match=r"The 'solver' parameter of NCA must be"):
            resolve(wrong)
