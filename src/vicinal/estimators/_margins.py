"""What LMNN and χ²-LMNN share: target neighbours, the loss over them, votes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from vicinal import starts
from vicinal._features import Features
from vicinal._validation import check_number, warn
from vicinal.core.method import Coarse, Data
from vicinal.core.problem import Problem
from vicinal.core.types import Array
from vicinal.estimators._base import MetricLearner
from vicinal.estimators._learn import SINGLE_FROM
from vicinal.estimators._plan import Plan
from vicinal.models.votes import VotingModel
from vicinal.neighbourhoods import target_neighbours
from vicinal.neighbourhoods.refresh import no_longer_falls
from vicinal.objectives import Candidates
from vicinal.targets import Labels, TargetNeighbours

__all__ = [
    "FindTargets",
    "LargeMargin",
    "RefreshTargets",
    "coarse_start",
    "kept_bytes",
    "make_model",
    "rows_of",
    "warn_unusable_rows",
]

_COARSE_FROM, _COARSE_ROWS = 4000, 2000  # rows to begin with, where there are more than the first
_COARSE_STEPS, _COARSE_TOL = 30, 1e-2
START_ROWS = 300  # will do: the scale is learnt as well, and far from it every pair is an impostor


class LargeMargin(MetricLearner):
    """What the two estimators share; not public."""

    k: int
    mu: float
    margin: Any
    refresh_targets: int | None
    _model: VotingModel

    #: what ``margin`` may be beside a number
    _margins: ClassVar[tuple[str, ...]] = ()
    _rule_names: ClassVar[tuple[str, ...]] = ("knn",)
    _voters: ClassVar[tuple[Any, ...]] = (None, "auto")
    # of the parameters that all share, those that have one value here
    rule: ClassVar[str] = "knn"  # type: ignore[misc]
    sampling: ClassVar[str] = "full"
    pairs: ClassVar[str] = "all"

    @property
    def k_(self) -> int:
        """The most target neighbours that a row has: k, or fewer where all classes are small."""
        check_is_fitted(self, "n_components_")
        return self._model.k

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number(self, "k", 1, integer=True)
        check_number(self, "mu", 0.0, open_ends=True)
        check_number(self, "margin", 0.0, open_ends=True, or_else=self._margins)
        check_number(self, "refresh_targets", 1, integer=True, or_else=(None,))


@dataclass(frozen=True)
class FindTargets:
    """Finds the target neighbours of a problem's rows, and settles the margin.

    Parameters
    ----------
    k : int
        Target neighbours of each row.
    rows : callable
        ``points = rows(features, positions)``: where rows are before learning.
    margin : callable
        ``margin(problem, neighbours)``, settled before learning.
    finder : callable or None
        A search for neighbours; None for Euclidean distances.
    """

    k: int
    rows: Callable[[Features, Array], Any]
    margin: Callable[[Problem, Array], float]
    finder: Any = None

    def __call__(self, problem: Problem, theta: Array | None = None) -> Problem:
        """The problem with target neighbours as they are before learning, or at theta."""
        labels: Any = problem.target
        points: Any = partial(self.rows, problem.X) if theta is None else problem.embed(theta)
        k = min(self.k, int(labels.take(problem.train).counts.max()) - 1)
        neighbours = target_neighbours(points, labels.codes, max(1, k), problem.train, self.finder)
        target = TargetNeighbours(labels.codes, neighbours, np.arange(len(labels.classes)))
        objective: Any = replace(problem.objective, candidates=Candidates())  # type: ignore
        if theta is None:
            objective = replace(objective, margin=self.margin(problem, neighbours))
        return problem.replace(target=target, objective=objective)


@dataclass
class RefreshTargets:
    """Chooses the target neighbours anew, at the map learnt so far, every few iterations.

    That never raises the loss, which falls with the distance of each target neighbour: so the
    losses of all rounds can be compared.
    """

    find_targets: FindTargets
    length: int
    report: dict[str, list] = field(default_factory=dict)
    kept: Array | None = None  # the target neighbours of the last round
    losses: list[float] = field(default_factory=list)
    unit: float = 1.0

    def fix(self, problem: Problem, theta: Array) -> tuple[Problem, Problem]:
        """The problem of a round; the first of a fit has the targets from before learning."""
        self.unit = float(problem.objective.units.loss)
        if self.kept is not None and len(self.kept) != len(problem.X):
            self.kept = None  # of the rows of a fit before
        if self.kept is not None:
            problem = self.find_targets(problem, theta)
        now = problem.target.neighbours  # type: ignore[attr-defined]
        before = now if self.kept is None else self.kept
        new = (now[:, :, None] != before[:, None, :]).all(axis=2)
        self.report.setdefault("share_of_new_targets", []).append(float(new.mean()))
        self.kept = now
        return problem, problem

    def settled(self, loss: float, tol: float) -> bool:
        """Whether the loss, with targets just chosen, no longer falls."""
        self.losses.append(loss)
        return no_longer_falls(self.losses, tol, self.unit)

    def complaint(self) -> str | None:
        """There is nothing to complain of."""
        return None


def refresh_every(
    length: int | None, find_targets: FindTargets, plan: Plan, rng: np.random.RandomState
) -> RefreshTargets | None:
    """What chooses target neighbours anew, where that is asked for."""
    return None if length is None else RefreshTargets(find_targets, int(length))


def coarse_start(
    find_targets: FindTargets, rescale: bool, problem: Problem, rng: np.random.RandomState
) -> Coarse | None:
    """A start on few rows, where there are many.

    At a start nearly all pairs may be impostors: among few rows they are soon dealt with.  With
    ``rescale`` the map of few rows, which are farther apart, gets the best scale for all.
    """
    rows = problem.rows
    if len(rows) <= _COARSE_FROM:
        return None
    some = np.sort(rng.permutation(rows)[:_COARSE_ROWS])
    few = problem.replace(
        X=problem.X.take(some), target=problem.target.take(some), train=None, held_out=None
    )
    few = find_targets(few).replace(dtype=np.float32)

    def finish(theta: Array) -> Array:
        if not rescale:
            return theta
        fun = problem.replace(dtype=np.float32)
        scored = some[:: max(1, len(some) // START_ROWS)]
        return theta * starts.repair_scale(lambda s: fun.value(s * theta, scored))

    return Coarse(few, finish, _COARSE_STEPS, _COARSE_TOL)


def make_model(
    model: type[VotingModel], n_neighbors: Any, k: int, Z: Array, labels: Labels, objective: Any
) -> VotingModel:
    """Votes of the k nearest rows, unless told otherwise."""
    # what votes need to know: a fitted estimator should not carry the rest about
    plain = Labels(labels.codes, classes=np.arange(len(labels.classes)))
    usable = max(1, min(k, int(labels.counts.max()) - 1))
    return model(Z, plain, n_neighbors, usable)


def warn_unusable_rows(data: Data, name: str, k: int, labels: Labels, plan: Plan) -> None:
    """Warn of classes with too few rows."""
    counts = labels.counts
    small = (counts > 1) & (counts <= k)
    if small.any():
        warn(
            f"The 'k' parameter of {name} is {k}, but these classes have "
            f"no more rows than that, and a row has all others of its class as targets: "
            f"{data.names(small)}."
        )
    if (counts == 1).any():
        warn(
            "These classes have a single row to learn from, which has no target neighbour and "
            f"is an impostor of others only: {data.names(counts == 1)}."
        )


def rows_of(X: Features, rows: Array, sparse: bool = False) -> Any:
    """Some rows as the solver sees them; with ``sparse`` a sparse table stays so, not centred."""
    if sparse and sp.issparse(X.X):
        part = X.take(rows).X.astype(np.float64)
        part.data *= X.scale[part.indices]
        return part
    dtype = np.float32 if len(X) >= SINGLE_FROM else np.float64
    return X.take(rows).columns_times(np.ones(X.shape[1]), dtype)


def kept_bytes(n: int, n_features: int, n_components: int, itemsize: int) -> float:
    """Memory of a fit beside the points: lists while they are made, places, the search of targets.

    Half as much again as the lists that are kept, up to 2 % of all pairs and to 16 million; three
    copies of the points; and of the columns what a class of a fourth of the rows takes.
    """
    lists = 6 * min(0.02 * n**2, 2**24)
    return lists + 3 * n * n_components * itemsize + n * n_features * itemsize / 4


VotingRules = VotingModel  #: under the name that pickles of vicinal 0.1 have
