"""Columns on the simplex: the exact projection, and the map of histograms to histograms."""

from __future__ import annotations

import numpy as np
import pytest
from common.engines import engine  # noqa: F401
from formulas import simplex_projection
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy import optimize

from vicinal._features import Features
from vicinal.core.problem import Problem
from vicinal.core.types import Map
from vicinal.maps import Linear, Simplex, project_columns
from vicinal.objectives import NCALoss
from vicinal.solvers import LBFGS, ProjectedGradient, minimize
from vicinal.targets import Labels

nojit = pytest.mark.nojit
both = pytest.mark.parametrize("constraint", ["projection", "softmax"])


def assert_on_simplex(L):
    assert (L >= 0).all()
    np.testing.assert_allclose(L.sum(axis=0), 1.0, rtol=0, atol=1e-12)


def assert_nearest(L, P):
    """The conditions of the minimum of |P - L|² / 2 over the simplex, column by column.

    With one multiplier tau a column: x = y - tau where x > 0, and y - tau <= 0 where x = 0.
    """
    assert_on_simplex(P)
    top = L.max(axis=0)
    with np.errstate(over="ignore"):
        L = L - top  # tau moves along
    stays = P > 0
    slack = 1e-12
    for y, x, s in zip(L.T, P.T, stays.T, strict=True):
        tau = y[s] - x[s]
        assert np.ptp(tau) <= slack
        assert (y[~s] <= tau.min() + slack).all()


def test_equals_a_quadratic_programme(rng):
    for r in [2, 3, 7]:
        for scale in [0.1, 1.0, 5.0]:
            y = scale * rng.standard_normal(r)
            unit = 1 + y @ y  # SLSQP minds the scale
            solved = optimize.minimize(
                lambda x: 0.5 * np.sum((x - y) ** 2) / unit,  # noqa: B023
                np.full(r, 1 / r),
                jac=lambda x: (x - y) / unit,  # noqa: B023
                method="SLSQP",
                bounds=[(0, None)] * r,
                constraints={"type": "eq", "fun": lambda x: x.sum() - 1, "jac": np.ones_like},
                options={"ftol": 1e-14},
            )
            assert solved.success, solved.message
            np.testing.assert_allclose(project_columns(y[:, None])[:, 0], solved.x, atol=1e-6)


@nojit
@pytest.mark.parametrize("scale", [1e-3, 0.3, 30.0])
@pytest.mark.parametrize(("r", "D"), [(1, 3), (2, 5), (9, 20)])
def test_matches_reference(rng, r, D, scale):
    L = 0.2 + scale * rng.standard_normal((r, D))
    P = project_columns(L)
    assert P.dtype == np.float64
    assert_nearest(L, P)
    np.testing.assert_allclose(P.T, [simplex_projection(y) for y in L.T], atol=1e-14)


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1.0])
@pytest.mark.parametrize("r", [300, 2000])
def test_many_rows(rng, r, scale):
    L = np.ascontiguousarray(rng.dirichlet(np.ones(r), 37).T) + scale * rng.standard_normal((r, 37))
    P = project_columns(L)
    assert_nearest(L, P)
    np.testing.assert_array_equal(project_columns(P), P)


@nojit
def test_one_entry_a_sweep(rng):
    """The worst case: y_m = tau_(m-1) - e_m, with e_m growing so that each sweep drops one."""
    tau, e, y = -0.5, 1e-14, [0.0, 0.0]
    for m in range(3, 17):
        e *= 1.01 * m * (m - 2) / (m - 1)
        y.append(tau - e)
        tau -= e / m
    y, kept, sweeps = np.array(y), np.array(y), 0
    while (dropped := kept <= (kept.sum() - 1) / len(kept)).any():
        kept, sweeps = kept[~dropped], sweeps + 1
    assert sweeps > 10
    assert y.min() > -1
    for column in (y, y[::-1], rng.permutation(y)):
        P = project_columns(column[:, None])
        assert_nearest(column[:, None], P)
        np.testing.assert_allclose(P[:, 0], simplex_projection(column), atol=1e-14)


@nojit
def test_special_columns():
    L = np.array(
        [
            # equal, tied at the top, one far above, on it, a corner, negative, opposite, all tiny
            [0.3, 1.0, 1e200, 0.25, 0.0, -3.0, 1e200, 1e-200],
            [0.3, 1.0, 1.0, 0.50, 1.0, -3.0, -1e200, 2e-200],
            [0.3, -7.0, 1e-200, 0.25, 0.0, -2.0, 1e200, -1e-200],
        ]
    )
    third = 1 / 3
    expected = np.array(
        [
            [third, 0.5, 1, 0.25, 0, 0, 0.5, third],
            [third, 0.5, 0, 0.50, 1, 0, 0.0, third],
            [third, 0.0, 0, 0.25, 0, 1, 0.5, third],
        ]
    )
    np.testing.assert_allclose(project_columns(L), expected, rtol=1e-15)
    np.testing.assert_array_equal(project_columns(L[:1]), 1.0)  # r = 1


def test_digits_of_large_entries_are_kept():
    """At 1e8 a float has 8 digits behind the point; none of them is lost."""
    y = np.array([0.125, 0.5, 0.25, -0.75])
    np.testing.assert_array_equal(
        project_columns((y + 2.0**27)[:, None]), project_columns(y[:, None])
    )


@nojit
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_stays_so(rng, bad):
    L = rng.standard_normal((4, 10))
    expected = project_columns(L)
    expected[:, 3] = np.nan
    L[1, 3] = bad
    np.testing.assert_array_equal(project_columns(L), expected)


@nojit
def test_layout_and_type_do_not_matter(rng):
    L = rng.standard_normal((5, 11))
    before = L.copy()
    expected = project_columns(L)
    np.testing.assert_array_equal(L, before)
    np.testing.assert_array_equal(project_columns(np.asfortranarray(L)), expected)
    np.testing.assert_array_equal(project_columns(L[:, ::2]), expected[:, ::2])
    single = project_columns(L.astype(np.float32))
    np.testing.assert_allclose(single, expected, atol=1e-6)
    assert single.dtype == np.float64
    assert project_columns(np.empty((3, 0))).shape == (3, 0)


numbers = st.floats(-10, 10) | st.floats(-1e200, 1e200) | st.sampled_from([0.0, 0.5, 1.0])


@given(arrays(np.float64, array_shapes(min_dims=2, max_dims=2, max_side=12), elements=numbers))
def test_projection_is_the_nearest_and_stays(L):
    P = project_columns(L)
    assert_nearest(L, P)
    np.testing.assert_array_equal(project_columns(P), P)
    # the order of the rows does not matter, but for the rounding of sums
    np.testing.assert_allclose(project_columns(L[::-1])[::-1], P, atol=1e-14)


# The map.


def rows_of(rng, n=40, D=6):
    return Features(rng.dirichlet(np.ones(D), n), None)


def test_softmax_by_hand():
    mapping = Simplex(2, "softmax")
    theta = np.log([[3.0, 1.0], [1.0, 1.0]]).ravel()
    np.testing.assert_allclose(mapping.components(theta), [[0.75, 0.5], [0.25, 0.5]])
    np.testing.assert_allclose(mapping.components(theta + 1000.0), mapping.components(theta))
    # dA = L * (dL - sum_p L_p dL_p): L of (0.75, 0.25) and dL of (1, 5) give 0.75 * (1 - 2)
    X = Features(np.eye(2), None)
    X.X, X.shift, X.scale = np.eye(2), np.zeros(2), np.ones(2)  # as they are
    _, pull = mapping.forward(theta, X)
    dA = pull(np.array([[1.0, 5.0], [0.0, 2.0]])).reshape(2, 2)
    np.testing.assert_allclose(dA, [[-0.75, -0.5], [0.75, 0.5]])


def test_theta_of_the_softmax(rng):
    mapping = Simplex(4, "softmax")
    L = rng.dirichlet(np.ones(4), 9).T
    A = mapping.theta(L).reshape(4, 9)
    np.testing.assert_allclose(A.mean(axis=0), 0, atol=1e-14)
    np.testing.assert_allclose(mapping.components(A.ravel()), L, rtol=1e-13)
    # the identity becomes the report's start, whose zeros can grow
    start = mapping.components(mapping.theta(np.eye(4)))
    report = np.exp(10 * np.eye(4) + 0.01)
    np.testing.assert_allclose(start, report / report.sum(axis=0), rtol=1e-13)
    X = Features(rng.dirichlet(np.ones(4), 20), None)
    _, pull = mapping.forward(mapping.theta(np.eye(4)), X)
    assert (pull(rng.standard_normal((20, 4))) != 0).all()


def test_bad_parameters():
    assert isinstance(Simplex(2), Map)
    with pytest.raises(ValueError, match=r"'n_components' .* Simplex .*\[1, inf\). Got 0"):
        Simplex(0)
    with pytest.raises(ValueError, match=r"'constraint' .* 'projection', 'softmax'. Got 'l'"):
        Simplex(2, "l")


def test_problem_knows_the_projection(rng):
    X, labels = rows_of(rng), Labels(np.arange(40) % 2)
    problem = Problem(X, labels, NCALoss(), Simplex(3))
    theta = rng.standard_normal(18)
    np.testing.assert_array_equal(problem.project(theta), Simplex(3).project(theta))
    assert problem.replace(mapping=Simplex(3, "softmax")).project is None
    assert problem.replace(mapping=Linear(3)).project is None


@both
def test_a_problem_is_solved_on_the_simplex(rng, constraint):
    mapping = Simplex(3, constraint)
    problem = Problem(rows_of(rng), Labels(np.arange(40) % 2), NCALoss(), mapping)
    theta = mapping.theta(rng.dirichlet(np.ones(3), 6).T)
    solver = ProjectedGradient() if mapping.constrained else LBFGS()
    result = minimize(problem, theta, solver, max_iter=30)
    assert_on_simplex(mapping.components(result.theta))
    assert result.value < result.history["loss"][0]
    if mapping.constrained:
        with pytest.raises(ValueError, match="The solver LBFGS does not keep to the constraint"):
            minimize(problem, theta, LBFGS())
