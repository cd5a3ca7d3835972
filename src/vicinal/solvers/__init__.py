"""Solvers, which minimise step by step, and the loop that drives all of them.

Every solver is a frozen dataclass: its fields are its parameters, and all its memory is in the
named tuple that ``init`` returns and ``step`` replaces.

>>> import numpy as np
>>> from vicinal.solvers import LBFGS, minimize
>>> result = minimize(lambda theta, batch: (theta @ theta, 2 * theta), np.ones(3), LBFGS())
>>> result.converged, result.reason
(True, 'gradient')
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from vicinal._public import listing as _listing
from vicinal._validation import part_of
from vicinal.core.batches import fixed_batch
from vicinal.core.evaluation import refresh
from vicinal.core.loop import Iteration
from vicinal.core.types import Solver
from vicinal.solvers.descent import SGD, Adam, BoldDriver, Momentum
from vicinal.solvers.minimising import minimize
from vicinal.solvers.projected import ProjectedGradient
from vicinal.solvers.quasi_newton import LBFGS, ConjugateGradient
from vicinal.solvers.schedules import Constant, Cosine, InverseTime
from vicinal.solvers.tuning import tune_t0

__all__ = [
    "LBFGS",
    "SGD",
    "Adam",
    "BoldDriver",
    "ConjugateGradient",
    "Constant",
    "Cosine",
    "InverseTime",
    "Iteration",
    "Momentum",
    "ProjectedGradient",
    "fixed_batch",
    "minimize",
    "refresh",
    "resolve",
    "tune_t0",
]
__dir__ = _listing(__name__)

_BY_NAME: dict[str, Callable[[], Any]] = {
    "lbfgs": LBFGS,
    "cg": ConjugateGradient,
    "bold_driver": BoldDriver,
    # [OlsenPetersen] section 3
    "adaptive": partial(BoldDriver, increase=1.01, decrease=0.5, max_failures=20),
    "projected": ProjectedGradient,
    "momentum": Momentum,
    "adam": Adam,
    "sgd": SGD,
}


def resolve(solver: str | Solver, owner: str = "NCA") -> Solver:
    """Turn a name into the solver with its default parameters; return a solver as it is.

    Parameters
    ----------
    solver : str or Solver
        One of "lbfgs", "cg", "bold_driver", "adaptive" (the bold driver with the rates of
        [OlsenPetersen] section 3), "projected", "momentum", "adam", "sgd", or an object with
        ``init`` and ``step``, such as ``Adam(learning_rate=0.1)``.
    owner : str
        The estimator named in the error message.

    Returns
    -------
    Solver

    Raises
    ------
    ValueError
        If ``solver`` is an unknown name.
    TypeError
        If ``solver`` is neither a name nor a solver (call a class to make one).
    """
    example = "solver such as LBFGS(memory=20)"
    return part_of(solver, _BY_NAME, Solver, "solver", owner, example)
