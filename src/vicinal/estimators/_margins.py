"""What LMNN and χ²-LMNN share: target neighbours, the loss over them, votes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from vicinal import solvers, starts
from vicinal._features import Features
from vicinal._validation import check_number, warn
from vicinal.core.problem import Problem
from vicinal.core.types import Array
from vicinal.estimators._base import NeighbourMetric
from vicinal.estimators._parts import SINGLE_FROM, Parts
from vicinal.estimators._plan import Plan
from vicinal.estimators._rounds import no_longer_falls
from vicinal.estimators._search import is_null
from vicinal.models.votes import NeighbourRules
from vicinal.neighbourhoods import target_neighbours
from vicinal.objectives import Candidates
from vicinal.objectives.lmnn import lmnn
from vicinal.targets import Labels, TargetNeighbours

__all__ = ["LargeMargin", "VotingRules", "kept_bytes", "rows_of"]

_COARSE_FROM, _COARSE_ROWS = 4000, 2000  # rows to begin with, where there are more than the first
_COARSE_STEPS, _COARSE_TOL = 30, 1e-2


class LargeMargin(NeighbourMetric):
    """Frame of the two estimators; not public."""

    k: int
    mu: float
    margin: Any
    refresh_targets: int | None

    #: what the objective measures by
    _distance: ClassVar[str] = "squared"
    #: what ``margin`` may be beside a number
    _margins: ClassVar[tuple[str, ...]] = ()
    _rule_names: ClassVar[tuple[str, ...]] = ("knn",)
    _voters: ClassVar[tuple[Any, ...]] = (None, "auto")
    _targets_are_rows: ClassVar[bool] = True
    # few will do: the scale is learnt as well, and far from it every pair is an impostor
    _start_rows: ClassVar[int] = 300
    # of the frame's parameters, those that have one value here
    rule: ClassVar[str] = "knn"  # type: ignore[misc]
    sampling: ClassVar[str] = "full"
    pairs: ClassVar[str] = "all"  # type: ignore[misc]

    @property
    def k_(self) -> int:
        """The most target neighbours that a row has: k, or fewer where all classes are small."""
        check_is_fitted(self, "components_")
        return self._rules.k  # type: ignore[attr-defined]

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number(self, "k", 1, integer=True)
        check_number(self, "mu", 0.0, open_ends=True)
        check_number(self, "margin", 0.0, open_ends=True, or_else=self._margins)
        check_number(self, "refresh_targets", 1, integer=True, or_else=(None,))

    def _objective(self) -> Callable[..., tuple[float, Array]]:
        return partial(lmnn, mu=float(self.mu), distance=self._distance)

    def _rows(self, X: Features) -> Callable[[Array], Any]:
        """Where target neighbours are before learning: the points of some rows."""
        return partial(rows_of, X, sparse=True)

    def _finder(self) -> Any:
        """A search for target neighbours; None for Euclidean distances."""
        return None

    def _aim(self, problem: Problem, theta: Array | None = None) -> Problem:
        labels = problem.targets
        points: Any = problem.embed(theta) if theta is not None else self._rows(problem.X)
        k = min(int(self.k), int(_counts(labels.take(problem.train)).max()) - 1)
        neighbours = target_neighbours(
            points, labels.codes, max(1, k), problem.train, self._finder()
        )
        targets = TargetNeighbours(labels.codes, neighbours, np.arange(len(labels.classes)))
        options = {**problem.options, "candidates": Candidates()}
        if theta is None:
            options["margin"] = self._settle_margin(problem, neighbours)
        return problem.replace(targets=targets, options=options)

    def _settle_margin(self, problem: Problem, neighbours: Array) -> float:
        """The margin in numbers."""
        return float(self.margin)

    def _unit(self, problem: Problem) -> float:
        return float(problem.options["margin"])  # the loss is one of distances

    def _reach(self, problem: Problem) -> float:
        return float(np.sqrt(problem.options["margin"]))

    def _slope_unit(self, problem: Problem, theta: Array) -> float:
        # a loss over a map: what the margin and the scale of the columns are does not matter then
        return self._unit(problem) / float(np.abs(theta).max(initial=0.0) or 1.0)

    def _pressed(self, problem: Problem) -> str | None:
        Z = self._rules.Z
        if self._distance == "chi2":
            Z = np.sqrt(Z)  # the squared distances of roots are χ² to 2 χ²
        if not is_null(Z, problem.options["margin"]):
            return None
        if self._distance == "chi2" and self.n_components_ == 1:
            return "The map has come to nothing: one bin holds all. Increase 'n_components'."
        also = "decrease 'alpha'" if self.alpha_ > 0 else "'margin'" if self._margins else ""
        return (
            "The map has come to nothing: all rows are far nearer to each other than the margin. "
            f"Increase 'mu'{also and ' or '}{also}."
        )

    def _first_theta(
        self,
        parts: Parts,
        problem: Problem,
        rng: np.random.RandomState,
        tell: Callable[[solvers.Iteration, Problem], bool],
        searching: bool = False,
        deadline: float | None = None,
    ) -> Array:
        rows = np.arange(len(problem.X)) if problem.train is None else problem.train
        given = isinstance(parts.start, starts.Given | starts.GivenBins)
        if len(rows) <= _COARSE_FROM or given:
            return self._start(parts, problem, rng, tell, searching)
        # At a start nearly all pairs may be impostors: among few rows they are soon dealt with.
        seconds = None if deadline is None else 0.3 * (deadline - perf_counter())
        some = np.sort(rng.permutation(rows)[:_COARSE_ROWS])
        few = problem.replace(
            X=problem.X.take(some), targets=problem.targets.take(some), train=None, held_out=None
        )
        few = self._aim(few).replace(dtype=np.float32)
        theta = self._start(parts, few, rng, tell, searching)
        assert parts.plan.solver is not None
        result = solvers.minimise(
            few, theta, parts.plan.solver, max_iter=_COARSE_STEPS, tol=_COARSE_TOL,
            unit=self._unit(problem), slope_unit=self._slope_unit(problem, theta),
            patient=self._patient, max_seconds=seconds, on_iteration=partial(_told, tell, few),
        )  # fmt: skip
        if self.verbose and not searching:
            print(
                f"[{type(self).__name__}] the start was improved on {len(some)} rows, in "
                f"{result.n_iter} iterations"
            )
        if result.reason == "interrupted":
            raise KeyboardInterrupt
        judges = some[:: max(1, len(some) // self._start_rows)]
        return result.theta * self._scale_of(
            problem.replace(dtype=np.float32), result.theta, judges
        )

    def _start(
        self,
        parts: Parts,
        problem: Problem,
        rng: np.random.RandomState,
        tell: Callable[[solvers.Iteration, Problem], bool],
        searching: bool,
    ) -> Array:
        """The first theta of a problem of few rows."""
        return super()._first_theta(parts, problem, rng, tell, searching)

    def _scale_of(self, problem: Problem, theta: Array, judges: Array) -> float:
        """What a map of few rows, which are farther apart, is best multiplied by."""
        return starts.repair_scale(lambda s: problem.value(s * theta, judges))

    def _rounds(self, plan: Plan, rng: np.random.RandomState) -> TargetRounds | None:
        if self.refresh_targets is None:
            return None
        return TargetRounds(self._aim, int(self.refresh_targets))

    def _make_rules(self, Z: Array, labels: Labels, options: Mapping[str, Any]) -> VotingRules:
        return VotingRules(Z, _without_targets(labels), self.n_neighbors, self._usable(labels))

    def _usable(self, labels: Labels) -> int:
        return max(1, min(int(self.k), int(_counts(labels).max()) - 1))

    def _warn_of(self, targets: Labels, plan: Plan) -> None:
        counts = _counts(targets)
        small = (counts > 1) & (counts <= self.k)
        if small.any():
            warn(
                f"The 'k' parameter of {type(self).__name__} is {self.k}, but these classes have "
                f"no more rows than that, and a row has all others of its class as targets: "
                f"{self._named(small)}."
            )
        if (counts == 1).any():
            warn(
                "These classes have a single row to learn from, which has no target neighbour and "
                f"is an impostor of others only: {self._named(counts == 1)}."
            )


@dataclass
class TargetRounds:
    """Chooses the target neighbours anew, at the map learnt so far, every few iterations.

    That never raises the loss, which falls with the distance of each target neighbour: so the
    losses of all rounds can be compared.
    """

    aim: Callable[[Problem, Array], Problem]
    length: int
    report: dict[str, list] = field(default_factory=dict)
    kept: Array | None = None  # the target neighbours of the last round
    losses: list[float] = field(default_factory=list)
    unit: float = 1.0

    def freeze(self, problem: Problem, theta: Array) -> tuple[Problem, Problem]:
        """The problem of a round; the first of a fit has the targets from before learning."""
        self.unit = float(problem.options["margin"])
        if self.kept is not None and len(self.kept) != len(problem.X):
            self.kept = None  # of the rows of a fit before
        if self.kept is not None:
            problem = self.aim(problem, theta)
        now = problem.targets.neighbours
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


class VotingRules(NeighbourRules):
    """Votes of the k nearest rows, unless told otherwise."""

    def __init__(self, Z: Array, labels: Labels, n_neighbors: Any, k: int) -> None:
        super().__init__(Z, labels, n_neighbors)
        self.k = k

    def _n_voters(self, asked: Any) -> int:
        return super()._n_voters(self.k if asked is None else asked)


def _told(
    tell: Callable[[solvers.Iteration, Problem], bool], at: Problem, info: solvers.Iteration
) -> bool:
    return tell(info, at)


def _without_targets(labels: Labels) -> Labels:
    """What votes need to know: a fitted estimator should not carry the rest about."""
    return Labels(labels.codes, classes=np.arange(len(labels.classes)))


def _counts(labels: Labels) -> Array:
    return np.bincount(labels.codes, minlength=len(labels.classes))


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
