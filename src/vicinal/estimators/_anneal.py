"""Gives an annealed start what it descends on: the problem, at the rank of the moment."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from vicinal import solvers
from vicinal.core.problem import Problem
from vicinal.core.types import Array
from vicinal.maps import Linear

__all__ = ["descend"]


def descend(
    problem: Problem,
    tell: Callable[[solvers.Iteration, Problem], bool],
    A: Array,
    schedule: Array,
    n_iter: int,
) -> Array:
    """Make ``n_iter`` iterations with each row of ``schedule`` as the weights of the rows of A.

    Raises KeyboardInterrupt even where the loop would have kept what it had, or where ``tell``,
    which hears of each iteration, wants it to stop: the few iterations since the last removal are
    nothing to keep.
    """
    # L-BFGS whatever the solver of the fit: of so few iterations, each must count.
    solver, state, theta = solvers.resolve("lbfgs"), None, A.ravel()
    for row_weights in schedule:
        fun = problem.replace(
            mapping=Linear(len(A)),
            # [Oneata2011] eqs (3.26), (3.27): all entries of a row share its weight
            alpha=problem.alpha + np.repeat(row_weights, A.shape[1]),
        )
        if state is None:
            state = solver.init(fun, theta)
        else:  # the pairs stay: the penalty they are of differs by one step
            state = solvers.refresh(solver, fun, theta, state)
        result = solvers.minimise(
            fun,
            None,
            solver,
            state=state,
            max_iter=n_iter,
            tol=0.0,
            on_iteration=partial(_tell, tell, fun),
        )
        if result.reason in ("interrupted", "callback"):
            raise KeyboardInterrupt(result.reason)
        theta, state = result.theta, result.state
    return theta.reshape(A.shape)


def _tell(
    tell: Callable[[solvers.Iteration, Problem], bool], at: Problem, info: solvers.Iteration
) -> bool:
    return tell(info, at)
