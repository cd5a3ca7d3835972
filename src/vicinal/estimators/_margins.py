"""What LMNN and χ²-LMNN share: target neighbours, their refreshes, coarse starts, votes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from vicinal import starts
from vicinal._validation import check_number, warn
from vicinal.core.problem import Problem
from vicinal.core.types import Array, EvaluationSize, Matrix, Objective, Rows
from vicinal.engines.cpu.impostors import KEPT, KEPT_SHARE, ONCE
from vicinal.estimators._classifier import check_k
from vicinal.fit.method import Coarse, Data
from vicinal.fit.plan import Plan, is_large
from vicinal.models.votes import VotingModel
from vicinal.neighborhoods import target_neighbors
from vicinal.neighborhoods.refresh import copied, no_longer_falls
from vicinal.objectives import Candidates
from vicinal.targets import Labels, TargetNeighbors

_COARSE_FROM, _COARSE_ROWS = 4000, 2000  # above the first number, start on the second
_COARSE_STEPS, _COARSE_TOL = 30, 1e-2
BATCH_ROWS = 1000  # of a batch, which embeds their target neighbours too
START_ROWS = 300  # suffice: the scale is learnt too, and far from it every pair is an impostor


def check_margins(estimator: BaseEstimator, margins: tuple[str, ...] = ()) -> None:
    """Check the parameters of large margins; ``margins`` are the names that ``margin`` may have."""
    check_k(estimator)
    check_number(estimator, "mu", 0.0, open_ends=True)
    check_number(estimator, "margin", 0.0, open_ends=True, or_else=margins)
    check_number(estimator, "refresh_targets", 1, integer=True, or_else=(None,))


def largest_k(estimator: BaseEstimator) -> int:
    """Largest number of target neighbours of a row: k, or fewer if all classes are small."""
    check_is_fitted(estimator, "n_components_")
    return estimator._model.k


@dataclass(frozen=True)
class FindTargets:
    """Finds the target neighbours of a problem's rows, and sets the margin.

    Parameters
    ----------
    k : int
        Number of target neighbours of each row.
    rows : callable
        ``points = rows(features, positions)``: rows as points in the input.
    margin : callable
        ``margin(problem, neighbours)``, called before learning.
    finder : callable or None
        A search for neighbours; None for Euclidean distances.
    """

    k: int
    rows: Callable[[Rows, Array], Matrix]
    margin: Callable[[Problem, Array], float]
    finder: Callable[[Array], Callable[..., tuple[Array, Array]]] | None = None

    def __call__(self, problem: Problem, theta: Array | None = None) -> Problem:
        """The problem with target neighbours found in the input, or at theta."""
        labels: Any = problem.target
        points: Any = partial(self.rows, problem.X) if theta is None else problem.embed(theta)
        k = min(self.k, int(labels.take(problem.train).counts.max()) - 1)
        neighbours = target_neighbors(points, labels.codes, max(1, k), problem.train, self.finder)
        target = TargetNeighbors(labels.codes, neighbours, np.arange(len(labels.classes)))
        objective: Any = replace(problem.objective, candidates=Candidates())  # type: ignore
        if theta is None:
            objective = replace(objective, margin=self.margin(problem, neighbours))
        return problem.replace(target=target, objective=objective)


@dataclass
class RefreshTargets:
    """Finds the target neighbours again, at the current map, every few iterations.

    This never raises the loss, which falls with the distance of each target neighbour, so the
    losses after all refreshes can be compared.
    """

    find_targets: FindTargets
    length: int
    report: dict[str, list] = field(default_factory=dict)
    kept: Array | None = None  # the target neighbours of the last refresh
    losses: list[float] = field(default_factory=list)
    unit: float = 1.0

    def fix(self, problem: Problem, theta: Array) -> tuple[Problem, Problem]:
        """The problem with new target neighbours; the first time, those in the input."""
        self.unit = float(problem.objective.units.loss)
        if self.kept is not None and len(self.kept) != len(problem.X):
            self.kept = None  # they belong to the rows of an earlier fit
        if self.kept is not None:
            problem = self.find_targets(problem, theta)
        now = problem.target.neighbors  # type: ignore[attr-defined]
        before = now if self.kept is None else self.kept
        new = (now[:, :, None] != before[:, None, :]).all(axis=2)
        self.report.setdefault("share_of_new_targets", []).append(float(new.mean()))
        self.kept = now
        return problem, problem

    def settled(self, loss: float, tol: float) -> bool:
        """Whether the loss right after each refresh no longer falls."""
        self.losses.append(loss)
        return no_longer_falls(self.losses, tol, self.unit)

    def complaint(self) -> str | None:
        """No warning."""
        return None

    def memory(self) -> dict[str, Any]:
        """The target neighbours, the losses after each refresh, and the report."""
        return {"kept": self.kept, "losses": list(self.losses), "report": copied(self.report)}

    def restore(self, memory: dict[str, Any]) -> None:
        """Continue from the memory of an earlier run."""
        self.kept, self.losses = memory["kept"], list(memory["losses"])
        self.report = copied(memory["report"])


def refresh_every(
    length: int | None, find_targets: FindTargets, plan: Plan, seed: int
) -> RefreshTargets | None:
    """The refresh of the target neighbours, or None if ``length`` is None."""
    return None if length is None else RefreshTargets(find_targets, int(length))


def coarse_start(
    find_targets: FindTargets, rescale: bool, problem: Problem, rng: np.random.RandomState
) -> Coarse | None:
    """A start on a few rows, if there are many.

    At the start nearly all pairs may be impostors; on a few rows these iterations are cheap.  With
    ``rescale`` the map learnt on a few rows, which are farther apart, gets the best scale for all.
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
        factor = starts.repair_scale(lambda s: fun.value(fun.scaled(theta, s), scored))
        return fun.scaled(theta, factor)

    return Coarse(few, finish, _COARSE_STEPS, _COARSE_TOL)


def no_coarse(problem: Problem, rng: np.random.RandomState) -> None:
    """A map given by the user is used as the start, for any number of rows."""


def make_model(
    model: type[VotingModel],
    n_neighbors: int | str | None,
    k: int,
    Z: Array,
    labels: Labels,
    objective: Objective,
) -> VotingModel:
    """A model that votes with the k nearest rows, unless ``n_neighbors`` says otherwise."""
    # votes need the classes only: a fitted estimator should not hold the target neighbours
    plain = Labels(labels.codes, classes=np.arange(len(labels.classes)))
    usable = max(1, min(k, int(labels.counts.max()) - 1))
    return model(Z, plain, n_neighbors, usable)


def warn_unusable_rows(data: Data, name: str, k: int, labels: Labels, plan: Plan) -> None:
    """Warn about classes with too few rows."""
    counts = labels.counts
    small = (counts > 1) & (counts <= k)
    if small.any():
        warn(
            f"The 'k' parameter of {name} is {k}, but these classes have "
            f"no more rows than that, so that a row has all others of its class as targets: "
            f"{data.names(small)}."
        )
    if (counts == 1).any():
        warn(
            "These classes have a single row to learn from, which has no target neighbour and "
            f"serves only as an impostor of others: {data.names(counts == 1)}."
        )


def rows_of(X: Any, rows: Array, sparse: bool = False) -> Matrix:
    """Some rows, scaled; with ``sparse`` a sparse table stays sparse and is not centred."""
    if sparse and sp.issparse(X.X):
        part = X.take(rows).X.astype(np.float64)
        part.data *= X.scale[part.indices]
        return part
    dtype = np.float32 if is_large(len(X)) else np.float64
    return X.take(rows).columns_times(np.ones(X.shape[1]), dtype)


def kept_bytes(size: EvaluationSize, most_once: int = ONCE) -> float:
    """Memory of an evaluation besides the points: lists of candidates, and copies of the rows.

    The lists may be empty or as long as they are allowed to be, because how many impostors there
    are is not known beforehand.
    """
    n = size.n
    pairs = min(n**2, max(KEPT_SHARE * n**2, most_once), KEPT)
    return 6 * pairs + n * (3 * size.n_components + size.n_features / 4) * size.itemsize
