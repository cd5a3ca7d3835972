"""Gives an annealed start what it descends on: the problem, at the rank of the moment."""

from __future__ import annotations

from functools import partial

import numpy as np

from vicinal import solvers
from vicinal._types import Array
from vicinal.initialise import Annealing
from vicinal.maps import Linear
from vicinal.problem import Problem

__all__ = ["anneal", "descend"]


def anneal(
    start: Annealing,
    A: Array,
    n_components: int,
    problem: Problem,
    sample_weight: Array | None = None,
    printed_name: str | None = None,
) -> Array:
    """Reduce the map A to ``n_components`` rows by the loss of ``problem``.

    Parameters
    ----------
    start : Annealing
        Selects and fades the rows.
    A : ndarray of shape (k, D)
        The map of more rows, in the space the solver sees.
    n_components : int
        Rows d to keep.
    problem : Problem
        The loss, its penalty and its training rows; its map is not used.
    sample_weight : ndarray of shape (n,), optional
        Weights of the rows in variances, zero for those held out.
    printed_name : str, optional
        Print a line for each removed row, under this name.

    Returns
    -------
    A : ndarray of shape (d, D)
    """

    def tell(A: Array) -> None:
        loss = problem.replace(mapping=Linear(len(A))).value(A.ravel())
        print(f"[{printed_name}] annealing {len(A):5d} rows left {loss:14.8f}")

    return start.reduce(
        A,
        n_components,
        problem.X,
        partial(descend, problem),
        sample_weight,
        None if printed_name is None else tell,
    )


def descend(problem: Problem, A: Array, schedule: Array, n_iter: int) -> Array:
    """Make ``n_iter`` iterations with each row of ``schedule`` as the weights of the rows of A.

    Raises KeyboardInterrupt even where the loop would have kept what it had: the few iterations
    since the last removal are nothing to keep.
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
        result = solvers.minimise(fun, None, solver, state=state, max_iter=n_iter, tol=0.0)
        if result.reason == "interrupted":
            raise KeyboardInterrupt
        theta, state = result.theta, result.state
    return theta.reshape(A.shape)
