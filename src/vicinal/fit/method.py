"""What an estimator passes to a fit: its method, its data and the shared parameters.

A nonlinear map can fit any training rows, and L-BFGS on all rows does so.  The noise of small
batches keeps it from that, and the number of rows sets its penalty.  docs/results/maps.md compares
maps that are learnt on batches.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from sklearn.base import BaseEstimator

from vicinal import maps, solvers, starts
from vicinal._features import make_rows
from vicinal._validation import warn
from vicinal.core import checks
from vicinal.core.problem import Problem
from vicinal.core.stages import Refresh
from vicinal.core.types import (
    Array,
    Map,
    Matrix,
    Objective,
    PairCost,
    Rows,
    Solver,
    Target,
    is_auto,
)
from vicinal.targets import LabelDistributions, Labels, Matches

if TYPE_CHECKING:
    from vicinal.fit.plan import Plan

#: the values of alpha="auto", from a strong penalty to a weak one, for columns of variance one
ALPHAS = (0.1, 0.03, 0.01, 3e-3, 1e-3)
#: the same down to weaker ones, for losses on which a penalty weighs more
MORE_ALPHAS = (*ALPHAS, 3e-4, 1e-4)
DEFAULT_ALPHA = 3e-3  # used if a search has no result
BY_ROWS = "by rows"  #: ``alpha="auto"`` where the number of rows decides
_ALPHA = (1e-4, 1e-2)  # penalties of nonlinear maps
_PENALTY_ROWS = 850  # up to which they take the strongest
_BATCH = (64, 1024)  # rows: a quarter of all, within these limits
_RATE = 0.01  # of Adam on all rows, for columns of variance one
_COLLAPSED = 0.05  # extent of all embedded rows below which all neighbours are about equal


class Model(Protocol):
    """Predicts from the embedded training rows, whichever way the map was learnt.

    What it predicts depends on the target: classes, numbers, matching rows.
    """

    Z: Array

    def scores(self, Z: Array, target: Target, rule: str) -> Array:
        """How well each embedded query is predicted, given what is right for it.

        Higher is better; 1 is perfect.
        """
        ...


@dataclass(frozen=True)
class Config:
    """The parameters that all estimators share; the estimators document them."""

    solver: Any = "auto"
    sampling: Any = "auto"
    neighborhood: Any = "auto"
    alpha: Any = 0.0
    max_iter: Any = "auto"
    tol: float | None = 1e-5
    n_iter_no_change: int = 10
    early_stopping: bool = False
    validation_fraction: float = 0.1
    time_budget: float | None = None
    n_components: Any = None
    cv: Any = None
    rule: str = "knn"
    warm_start: bool = False
    device: str | None = None
    verbose: int = 0

    @property
    def tolerance(self) -> float:
        """``tol`` as a number; None becomes minus infinity, which no change is below."""
        return -math.inf if self.tol is None else self.tol

    @property
    def searches(self) -> bool:
        """Whether a rank or a penalty is chosen by a search."""
        return is_auto(self.alpha) or is_auto(self.n_components)

    @classmethod
    def of(cls, estimator: BaseEstimator) -> Config:
        """The shared parameters of an estimator; those it lacks keep their defaults."""
        names = [field.name for field in fields(cls) if hasattr(estimator, field.name)]
        return cls(**{name: getattr(estimator, name) for name in names})


class Data(NamedTuple):
    """Validated rows, their target, and the names of their classes, if they have classes."""

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
        """The names of the classes in a mask, for a message."""
        assert self.classes is not None
        names = self.classes[chosen].tolist()
        return ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "")


class RowNumbers(NamedTuple):
    """The numbers of the training rows that a model holds.

    Parameters
    ----------
    numbers : array of shape (n,) or None
        Number of each row among those the user gave; None if the model holds all of them.
    total : int
        How many rows the user gave.
    """

    numbers: Array | None
    total: int

    def check_fields(self) -> None:
        """Refuse numbers of rows that were not given."""
        if self.numbers is not None:
            checks.indices(self.numbers, "numbers", len(self.numbers), self.total)


def drop_weightless_rows(
    X: Matrix, y: Array, weight: Array | None
) -> tuple[RowNumbers, Matrix, Array, Array | None]:
    """The rows of positive weight, with what they are to reach, and their numbers."""
    if weight is None or weight.all():
        return RowNumbers(None, X.shape[0]), X, y, weight
    numbers = np.flatnonzero(weight)
    return RowNumbers(numbers, X.shape[0]), X[numbers], y[numbers], weight[numbers]


class Coarse(NamedTuple):
    """A start that is first improved on a few rows.

    Parameters
    ----------
    problem : Problem
        The problem on a few rows.
    finish : callable
        ``theta = finish(theta)``: adapts the map learnt on a few rows to all rows.
    max_iter : int
    tol : float
    """

    problem: Problem
    finish: Callable[[Array], Array]
    max_iter: int
    tol: float


_COST = PairCost()


def _nothing(*_: object) -> None:
    return None


def _per_column(n_columns: int, n: int) -> float:
    # a stronger penalty would collapse the map of NCA if there are more columns than rows
    return min(0.4 * n_columns / n, 0.1)


@dataclass(frozen=True)
class Method:
    """All that a fit needs to know about the method of an estimator.

    Parameters
    ----------
    name : str
        Name of the estimator, for messages.
    objective : Objective
        The loss to minimise.
    mapping : Map
        From rows to embedded points.
    n_components : int
        Dimensions of the embedded points (if a search chooses them: the largest candidate).
    start : callable
        ``theta = start(problem, rng, reporter)``: the first parameters of the problem's map.
    features : callable
        ``features(X, target, train)``: the rows as the solver sees them.
    make_model : callable
        ``model = make_model(Z, target, objective)``: the predictor, from embedded rows.
    solver : Solver
        The meaning of "auto" if every step sees all rows.
    find_targets : callable or None
        ``problem = find_targets(problem, theta=None)``: for targets that are rows themselves;
        finds them in the input, or at theta.
    refresh : callable
        ``refresh(plan, seed)``: a `Refresh`, or None.
    coarse : callable
        ``coarse(problem, rng)``: a `Coarse` start for many rows, or None.
    neighborhood : Neighborhood or None
        Lists or trees; None for all pairs.
    has_trees : bool
        Whether the objective can be summed by trees.
    kernel : Kernel or None
        Kernel of the objective, if the method offers a choice of kernels.
    cost : PairCost
        The cost of a pair of rows.
    batch_size : int or None
        Rows of a batch, if "auto" chooses batches; None: as many as NCA takes.
    relative_rate : float or None
        Rate of Adam on batches, relative to the entries of a map as large as the start; None: that
        of NCA.
    batches_keep_scale : bool
        Whether batches lead to the same scale of the map as all rows: nothing is to be corrected.
    n_starts : int
        Number of starts; the best result is kept.
    alphas : tuple of float
        The values that ``alpha="auto"`` tries, in this order.
    asks : bool
        Whether ``alpha="auto"`` is "scaled" or four times that, by the log-probabilities of rows
        held out, unless a ``cv`` asks for a search.
    scaled_alpha : callable
        ``alpha = scaled_alpha(D, n)``: the meaning of "scaled", for D columns of variance one.
    warn_unusable_rows : callable
        ``warn_unusable_rows(target, plan)``: warns about rows that contribute nothing.
    collapse_warning : callable
        ``collapse_warning(Z, problem)``: a message if the map has collapsed, or None.
    """

    name: str
    objective: Objective
    mapping: Map
    n_components: int
    start: Callable[..., Array]
    features: Callable[[Any, Any, Any], Any]
    make_model: Callable[[Array, Any, Any], Model]
    solver: Solver
    find_targets: Callable[..., Problem] | None = None
    refresh: Callable[[Any, Any], Refresh | None] = _nothing
    coarse: Callable[[Problem, Any], Coarse | None] = _nothing
    neighborhood: Any = None
    has_trees: bool = False
    kernel: Any = None
    cost: PairCost = _COST
    batch_size: int | None = None
    relative_rate: float | None = None
    batches_keep_scale: bool = False
    n_starts: int = 1
    alphas: tuple[float, ...] = ()
    asks: bool = False
    scaled_alpha: Callable[[int, int], float] = _per_column
    warn_unusable_rows: Callable[[Any, Any], None] = _nothing
    collapse_warning: Callable[[Array, Problem], str | None] = _nothing

    def suited(self, problem: Problem) -> Problem:
        """The problem with its objective and its targets adapted to the training rows."""
        target = problem.target.take(problem.train)
        problem = problem.replace(objective=problem.objective.suited_to(target))
        return problem if self.find_targets is None else self.find_targets(problem)


def method_of(estimator: BaseEstimator, data: Data, objective: Objective, **parts: Any) -> Method:
    """The method of an estimator with ``init``, ``mapping`` and ``scaling``.

    ``parts`` are its other fields.  On all rows it learns with L-BFGS, and a map to a single point
    is reported as one that the penalty has shrunk, unless the parts have another warning.
    """
    name = type(estimator).__name__
    start = starts.resolve(estimator.init, name)
    mapping, d = maps.resolve_rank(estimator, data.n_features, start)
    parts.setdefault("collapse_warning", collapse_warning)
    return Method(
        name=name,
        objective=objective,
        mapping=mapping,
        n_components=d,
        start=starts.first_map(start, d, name),
        n_starts=starts.n_starts(start),
        features=partial(_scaled_rows, estimator.scaling),
        solver=solvers.LBFGS(),
        **parts,
    )


def _scaled_rows(scaling: str | None, X: Matrix, target: Target, train: Array | None) -> Rows:
    return make_rows(X, scaling, target.sample_weight)


def for_nonlinear_maps(method: Method, n_rows: int) -> Method:
    """The method with Adam on small batches, if its map is nonlinear; otherwise as it is."""
    if not maps.bends(method.mapping):
        return method
    batch = int(np.clip(n_rows // 4, *_BATCH))
    return replace(method, solver=solvers.Adam(_RATE), batch_size=batch)


def without_search(config: Config, method: Method) -> Config:
    """The parameters of a fit: a nonlinear map needs no search for a penalty."""
    if is_auto(config.alpha) and isinstance(method.solver, solvers.Adam):
        return replace(config, alpha=BY_ROWS)
    return config


def penalty_by_rows(n_rows: int) -> float:
    """``0.01 min(1, 850 / n)^1.3``, within limits.

    Up to about 1,000 rows 0.01 is the best fixed penalty on tables of all kinds; more rows need
    weaker ones.  Both were chosen on the tables for choices in benchmarks/_tables_list.py.
    """
    return float(np.clip(_ALPHA[1] * (_PENALTY_ROWS / n_rows) ** 1.3, *_ALPHA))


def default_alpha(method: Method) -> float:
    """The penalty used if a search has no result, for columns of variance one."""
    alphas = method.alphas
    return DEFAULT_ALPHA if not alphas or DEFAULT_ALPHA in alphas else alphas[len(alphas) // 2]


def scaled_alpha(method: Method, features: Rows, n: int) -> float:
    """The penalty for ``alpha="scaled"``, which grows with the number of columns per row."""
    n_columns = int(np.count_nonzero(features.scale))
    return method.scaled_alpha(n_columns, n) * alpha_unit(features)


def alpha_unit(features: Rows) -> float:
    """The unit of penalties: one, or the mean variance of columns that are not scaled."""
    if features.scaling in ("standard", "robust") or not np.isfinite(features.total_variance):
        return 1.0
    return float(features.total_variance / np.count_nonzero(features.scale))


def is_collapsed(Z: Array, unit: float = 1.0) -> bool:
    """Whether all embedded rows are equal on the scale of the kernel or the margin.

    ``unit`` is the unit of squared distances.
    """
    return bool(np.ptp(Z, axis=0).max(initial=0.0) < _COLLAPSED * np.sqrt(unit))


def collapse_warning(Z: Array, problem: Problem) -> str | None:
    """The warning for a map that the penalty has shrunk to zero, or None."""
    if not is_collapsed(Z):
        return None
    return (
        f"The map has collapsed under the penalty alpha={float(np.min(problem.alpha)):g}: all rows "
        "are mapped to nearly the same point. Decrease 'alpha'."
    )


def warn_single_rows(data: Data, labels: Labels, plan: Plan) -> None:
    """Warn of classes whose rows have no other row of their class to pick."""
    lonely = np.bincount(labels.codes) < 2
    if labels.priors is not None:
        lonely |= labels.priors == 0.0
    if lonely.any():
        warn(
            "Rows of these classes have no other row of their class to pick, because they are the "
            f"only one or their prior is zero: {data.names(lonely)}. As queries they add nothing "
            "to the objective."
        )


def warn_unmatched_rows(target: LabelDistributions | Matches, plan: Plan) -> None:
    """Warn of rows that match no other row."""
    if isinstance(target, Matches):
        alone = target.counts == 0
    else:  # all classes that are possible for such a row are impossible for all others
        possible = target.values > 0
        alone = ~(possible & (np.count_nonzero(possible, axis=0) > 1)).any(axis=1)
    if alone.any():
        warn(
            f"{alone.sum()} of {len(alone)} rows match no other row. As queries they add nothing "
            "to the objective."
        )
