"""The one thing an estimator hands over to a fit, and the parameters that all fits share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Protocol

from vicinal.core.problem import Problem
from vicinal.core.stages import Refresh
from vicinal.core.types import Array, Map, Objective, PairCost, Solver

__all__ = ["Coarse", "Config", "Data", "Method", "Model", "Teller"]


class Model(Protocol):
    """What predicts, from the embedded training rows; it knows nothing of learning."""

    Z: Array

    def probabilities(self, Z: Array, rule: str) -> Array: ...

    def set_voters(self, n_neighbors: Any) -> None: ...


@dataclass(frozen=True)
class Config:
    """The parameters that all estimators share, with the meanings they have there."""

    solver: Any = "auto"
    sampling: Any = "auto"
    pairs: Any = "auto"
    alpha: Any = 0.0
    max_iter: Any = "auto"
    tol: float = 1e-5
    n_iter_no_change: int = 10
    early_stopping: bool = False
    validation_fraction: float = 0.1
    time_budget: float | None = None
    n_components: Any = None
    cv: Any = 5
    rule: str = "knn"
    warm_start: bool = False
    verbose: int = 0

    @classmethod
    def of(cls, estimator: Any) -> Config:
        """The parameters of an estimator, which need not have all of them."""
        names = [field.name for field in fields(cls) if hasattr(estimator, field.name)]
        return cls(**{name: getattr(estimator, name) for name in names})


class Data(NamedTuple):
    """Checked rows, what is known of them, and the names of their classes, if they have any."""

    X: Any
    target: Any = None
    classes: Array | None = None

    @property
    def n(self) -> int:
        return self.X.shape[0]

    @property
    def n_features(self) -> int:
        return self.X.shape[1]

    def names(self, chosen: Array) -> str:
        """Some of the classes, given by a mask, for a message."""
        assert self.classes is not None
        names = self.classes[chosen].tolist()
        return ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "")


class Coarse(NamedTuple):
    """A start that is improved on few rows first.

    Parameters
    ----------
    problem : Problem
        Of few rows.
    finish : callable
        ``theta = finish(theta)``: what the map of few rows becomes for all of them.
    max_iter : int
    tol : float
    """

    problem: Problem
    finish: Callable[[Array], Array]
    max_iter: int
    tol: float


class Teller(Protocol):
    """Hears of the iterations that a start makes; a true answer means stop."""

    searching: bool
    talks: bool

    def __call__(self, info: Any, problem: Problem) -> bool: ...

    def say(self, words: str) -> None: ...


_COST = PairCost()


def _same(objective: Any, *_: Any) -> Any:
    return objective


def _nothing(*_: Any) -> None:
    return None


@dataclass(frozen=True)
class Method:
    """What is learnt, from what, and what is made of it: all that a fit asks of an estimator.

    Parameters
    ----------
    name : str
        Of the estimator, for messages.
    objective : Objective
        What is minimised.
    mapping : Map
        From rows to embedded points.
    n_components : int
        Dimensions of the embedded points (the largest to be tried, where a search chooses).
    start : callable
        ``theta = start(problem, rng, teller)``: the first parameters of the map of the problem.
    features : callable
        ``features(X, target, train)``: the rows as the solver sees them.
    make_model : callable
        ``model = make_model(Z, target, objective)``: what predicts, from embedded rows.
    solver : Solver
        What "auto" is where every step sees all rows.
    scale_objective : callable
        ``objective = scale_objective(objective)``: what chooses the scale of a map.
    suit : callable
        ``objective = suit(objective, target)``: what depends on the rows to learn from is settled.
    find_targets : callable or None
        ``problem = find_targets(problem, theta=None)``: for targets that are found among the rows,
        before learning or at theta.
    refresh : callable
        ``refresh(plan, rng)``: what is fixed for some iterations at a time, or None.
    coarse : callable
        ``coarse(problem, rng)``: a `Coarse` start for many rows, or None.
    pairs : Neighbourhood or None
        Lists or trees; None for all pairs.
    has_trees : bool
        Whether the objective can sum by trees.
    kernel : Kernel or None
        Of the objective, where the method has a choice of them.
    cost : PairCost
        What a pair of rows costs.
    n_starts : int
        How many starts are tried; the best result is kept.
    alphas : tuple of float
        The path along which ``alpha="auto"`` looks.
    warn_unusable_rows : callable
        ``warn_unusable_rows(target, plan)``: of rows that nothing can be learnt from.
    collapse_warning : callable
        ``collapse_warning(Z, problem)``: a complaint where the map has come to nothing, or None.
    """

    name: str
    objective: Objective
    mapping: Map
    n_components: int
    start: Callable[..., Array]
    features: Callable[[Any, Any, Any], Any]
    make_model: Callable[[Array, Any, Any], Any]
    solver: Solver
    scale_objective: Callable[[Any], Any] = _same
    suit: Callable[[Any, Any], Any] = _same
    find_targets: Callable[..., Problem] | None = None
    refresh: Callable[[Any, Any], Refresh | None] = _nothing
    coarse: Callable[[Problem, Any], Coarse | None] = _nothing
    pairs: Any = None
    has_trees: bool = False
    kernel: Any = None
    cost: PairCost = _COST
    n_starts: int = 1
    alphas: tuple[float, ...] = ()
    warn_unusable_rows: Callable[[Any, Any], None] = _nothing
    collapse_warning: Callable[[Array, Problem], str | None] = _nothing

    def suited(self, problem: Problem) -> Problem:
        """The problem with all that depends on the rows learnt from settled."""
        objective = self.suit(problem.objective, problem.target.take(problem.train))
        problem = problem.replace(objective=objective)
        return problem if self.find_targets is None else self.find_targets(problem)
