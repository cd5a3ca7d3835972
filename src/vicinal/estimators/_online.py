"""Learning from a stream: one batch at a time, against a bounded memory of earlier rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import gen_batches

from vicinal import samplers, solvers
from vicinal._features import Features
from vicinal._types import Array, Batch, Solver
from vicinal.estimators._parts import leaves_open
from vicinal.estimators._plan import rate_for
from vicinal.estimators._reservoir import Reservoir
from vicinal.problem import Problem
from vicinal.targets import Labels

__all__ = ["Stream", "begin", "check_online"]

_QUERIES = 500  # rows to a step, where no sampling says otherwise


def check_online(owner: Any) -> None:
    """Refuse parameters that a stream cannot honour."""
    name = type(owner).__name__
    for parameter, allowed, why in (
        ("n_components", not leaves_open(owner, "n_components"), "a search needs all rows"),
        ("alpha", not leaves_open(owner, "alpha"), "a search needs all rows"),
        ("early_stopping", not owner.early_stopping, "a stream has no end to stop before"),
        ("time_budget", owner.time_budget is None, "each call takes its own time"),
        ("pairs", owner.pairs in ("auto", "all"), "the reservoir bounds their number"),
        (
            "sampling",
            leaves_open(owner, "sampling")
            or owner.sampling == "stochastic"
            or isinstance(owner.sampling, samplers.StochasticQueries),
            "new rows are the queries, against all that is remembered",
        ),
    ):
        if not allowed:
            raise ValueError(
                f"The {parameter!r} parameter of {name} must be left alone for partial_fit: {why}. "
                f"Got {getattr(owner, parameter)!r} instead."
            )


def begin(owner: Any, problem: Problem, theta: Array, rng: np.random.RandomState) -> Stream:
    """A stream whose scaling and map begin as those of a problem."""
    if leaves_open(owner, "solver"):  # no schedule: a stream has no end to fall towards
        solver: Solver = solvers.Adam(rate_for(problem, theta))
    else:
        solver = solvers.resolve(owner.solver, type(owner).__name__)
    if solver.needs_fixed_batch or (
        isinstance(solver, solvers.SGD) and solver.learning_rate is None
    ):
        raise ValueError(
            f"The 'solver' parameter of {type(owner).__name__} must be 'auto', 'momentum', 'adam' "
            "or an SGD with a learning rate for partial_fit, whose batches change and are seen "
            f"once. Got {owner.solver!r} instead."
        )
    n_classes = len(problem.targets.classes)
    reservoir = Reservoir(max(2, owner.reservoir_size // n_classes))
    n_queries = getattr(owner.sampling, "size", _QUERIES)
    return Stream(problem, theta, solver, n_queries, reservoir, rng)


class Stream:
    """A map that moves with each batch, and what it needs to go on.

    Every row is a query once, when it comes, against the rows of the reservoir and of its own
    batch ([Oneata2011] section 4.3: the derivative of p_{N+1} alone).  Afterwards it may stay as
    a reference for rows to come.

    Parameters
    ----------
    problem : Problem
        Of the first batch: its features hold the scaling that all later ones share.
    theta : array
        Where the map starts.
    solver : Solver
        One that works with changing batches.
    n_queries : int
        The most rows to one step.
    reservoir : Reservoir
    random_state : RandomState
    """

    def __init__(
        self,
        problem: Problem,
        theta: Array,
        solver: Solver,
        n_queries: int,
        reservoir: Reservoir,
        random_state: np.random.RandomState,
    ) -> None:
        # the rows of the first batch come again, with learn()
        self.problem = problem.replace(X=problem.X.take(np.empty(0, dtype=int)))
        self.theta, self.solver, self.n_queries = theta, solver, n_queries
        self.reservoir, self.random_state = reservoir, random_state
        self.state: Any = None
        self.n_steps = 0
        self.n_seen = np.zeros(len(problem.targets.classes), dtype=np.int64)

    def learn(self, X: Any, codes: Array, weight: Array) -> list[float]:
        """Take a step for each ``n_queries`` rows; the loss of each before it was made."""
        losses = []
        for rows in gen_batches(len(codes), self.n_queries):
            problem = self._against(X[rows], codes[rows], weight[rows])
            queries = np.arange(len(self.reservoir), len(problem.X))
            losses.append(self._step(problem, Batch(queries=queries)))
            self.reservoir.add(X[rows], codes[rows], weight[rows], self.random_state)
            np.add.at(self.n_seen, codes[rows], 1)
        return losses

    def _against(self, X: Any, codes: Array, weight: Array) -> Problem:
        """The problem of some rows and all that is remembered."""
        X, codes, weight = self.reservoir.with_rows(X, codes, weight)
        targets = self.problem.targets
        labels = Labels(codes, weight, targets.priors, classes=targets.classes)
        return self.problem.replace(X=self.features(X), targets=labels)

    def remembered(self) -> Problem:
        """The problem of all that is remembered."""
        none = np.empty(0, dtype=int)
        rows = self.reservoir.X[:0]
        return self._against(rows, none, np.empty(0))

    def features(self, X: Any) -> Features:
        """Rows in the scaling that was settled by the first batch."""
        return Features.scaled_as(self.problem.X, X)

    def _step(self, problem: Problem, batch: Batch) -> float:
        if self.state is None:
            self.state = self.solver.init(problem, self.theta, batch)
        else:
            self.state = solvers.refresh(self.solver, problem, self.theta, self.state, batch)
        here = self.state
        if not (np.isfinite(here.value) and np.isfinite(here.grad).all()):
            raise ValueError(
                "The loss of this batch is not finite: decrease the learning rate of 'solver' or "
                "check that the features are on the scale of the first batch."
            )
        # A step moves along the gradient it was given and evaluates where it arrives; there is no
        # batch for that yet, so the evaluation is put off to the next call.
        self.theta, self.state = self.solver.step(
            lambda theta, batch: (here.value, here.grad), self.theta, here
        )
        self.state = self.state._replace(n_evaluations=here.n_evaluations)
        self.n_steps += 1
        return float(here.value)
