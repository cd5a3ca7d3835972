"""A function of matrices with columns on the simplex, and solver steps on any function."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from vicinal.maps import Simplex

__all__ = ["D", "OnSimplex", "R", "assert_allowed", "walk"]

R, D = 4, 3


class OnSimplex:
    """The function ``(x - c)^T Q (x - c) / 2``, times a factor."""

    project = staticmethod(Simplex(R).project)

    def __init__(self, rng, condition=100.0, spread=1.0, factor=1.0):
        basis = np.linalg.qr(rng.standard_normal((R * D, R * D)))[0]
        self.Q = (basis * np.logspace(0, np.log10(condition), R * D)) @ basis.T
        self.centre, self.factor = spread * rng.standard_normal(R * D), factor
        self.start = Simplex(R).project(rng.standard_normal(R * D))

    def __call__(self, theta, batch=None):
        away = self.Q @ (theta - self.centre)
        return self.factor * 0.5 * float((theta - self.centre) @ away), self.factor * away

    def minimum(self):
        """The minimum by SciPy, with the column sums as constraints."""
        sums, unit = np.tile(np.eye(D), R), self(self.start)[0]  # SLSQP depends on the scale
        solved = minimize(
            lambda x: tuple(part / unit for part in self(x)), self.start, jac=True,
            method="SLSQP", bounds=[(0, None)] * (R * D),
            constraints={"type": "eq", "fun": lambda x: sums @ x - 1, "jac": lambda x: sums},
            options={"ftol": 1e-13, "maxiter": 500},
        )  # fmt: skip
        assert solved.success, solved.message
        return solved.x


def assert_allowed(theta, r=R):
    """Check that all columns, of r entries, are on the simplex."""
    L = theta.reshape(r, -1)
    assert (L >= 0).all()
    np.testing.assert_allclose(L.sum(axis=0), 1.0, rtol=0, atol=1e-12)


def walk(solver, fun, theta, n_steps):
    """The states after each of n_steps steps."""
    states = [solver.init(fun, theta)]
    for _ in range(n_steps):
        theta, state = solver.step(fun, states[-1].theta, states[-1])
        np.testing.assert_array_equal(state.theta, theta)
        states.append(state)
    return states
