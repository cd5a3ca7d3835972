"""χ²-LMNN as an estimator: large margins for histograms."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from vicinal import initialise, maps, solvers
from vicinal._callback_support import with_callbacks
from vicinal._features import Features
from vicinal._types import Array, Solver
from vicinal._validation import check_bool, check_number, check_option
from vicinal.estimators._cost import Size, Work
from vicinal.estimators._histograms import HistogramMixin, chi2, histograms
from vicinal.estimators._margins import LargeMargin, VotingRules, rows_of
from vicinal.estimators._parts import SINGLE_FROM, Parts
from vicinal.estimators._plan import make_plan
from vicinal.metrics import Chi2Index
from vicinal.problem import Problem

__all__ = ["Chi2LMNN"]

_SHARE = 1 / 6  # of the distance to the nearest row of the own class: margin="auto"
_JUDGES = 1000  # rows that tell that distance


class Chi2LMNN(HistogramMixin, LargeMargin):
    _distance: ClassVar[str] = "chi2"
    _margins: ClassVar[tuple[str, ...]] = ("auto",)
    margin_: float
    # of the frame's parameters, those that have one value here: bins are not scaled, and a penalty
    # on columns that sum to one would only spread them
    scaling: ClassVar[None] = None
    alpha: ClassVar[float] = 0.0
    cv: ClassVar[int] = 5

    def __init__(
        self,
        n_components: int | None = None,
        *,
        k: int = 3,
        mu: float = 1.0,
        margin: float | str = "auto",
        constraint: str = "projection",
        normalize: bool = True,
        refresh_targets: int | None = None,
        init: Any = "auto",
        solver: Any = "auto",
        n_neighbors: int | str | None = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        max_iter: int | str = "auto",
        tol: float = 1e-3,
        time_budget: float | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.k = k
        self.mu = mu
        self.margin = margin
        self.constraint = constraint
        self.normalize = normalize
        self.refresh_targets = refresh_targets
        self.init = init
        self.solver = solver
        self.n_neighbors = n_neighbors
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.max_iter = max_iter
        self.tol = tol
        self.time_budget = time_budget
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    def fit(self, X: Any, y: Any) -> Chi2LMNN:
        """Learn the map.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Histograms, none negative; float32 stays float32.
        y : array-like of shape (n_samples,)
            Class labels.

        Returns
        -------
        self : Chi2LMNN
        """
        return self._fit(X, y)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_option(self, "constraint", ("projection", "softmax"))
        check_bool(self, "normalize")

    @property
    def _constrained(self) -> bool:  # type: ignore[override]
        return self.constraint == "projection"

    def _check_data(self, X: Any, y: Any, sample_weight: Any) -> Any:
        X, labels = super()._check_data(X, y, sample_weight)
        return histograms(X, self.normalize), labels

    def _features(self, X: Any, labels: Any) -> Features:
        return Features.as_they_are(X)

    def _parts(self, n: int, n_features: int, sparse: bool) -> Parts:
        check_number(self, "n_components", 1, n_features, integer=True, or_else=(None,))
        r = n_features if self.n_components is None else int(self.n_components)
        start = initialise.resolve_bins(self.init, type(self).__name__)
        itemsize = 4 if n >= SINGLE_FROM else 8
        size = Size(n, n_features, r, itemsize, not sparse, self._work())
        return Parts(maps.Simplex(r, self.constraint), r, start, make_plan(self, None, size))

    def _first_theta(
        self,
        parts: Parts,
        problem: Problem,
        rng: np.random.RandomState,
        tell: Callable[[solvers.Iteration, Problem], bool],
        searching: bool = False,
    ) -> Array:
        rows = np.arange(len(problem.X)) if problem.train is None else problem.train
        data = problem.X.take(rows), problem.targets.codes[rows], parts.d, rng
        if not isinstance(parts.start, initialise.SeveralBins):
            return problem.mapping.theta(parts.start(*data))
        thetas = [problem.mapping.theta(L) for L in parts.start.candidates(*data)]
        if len(thetas) == 1:
            return thetas[0]
        # the loss at the start says little: what is left after some steps decides
        steps, solver = parts.start.n_iter, parts.plan.solver
        assert solver is not None
        unit = self._unit(problem)
        runs = [
            solvers.minimise(problem, theta, solver, max_iter=steps, unit=unit) for theta in thetas
        ]
        return thetas[int(np.argmin([run.value for run in runs]))]

    def _settle_margin(self, problem: Problem, neighbours: Array) -> float:
        if self.margin != "auto":
            return float(self.margin)
        rows = np.arange(len(problem.X)) if problem.train is None else problem.train
        rows = rows[:: 1 + len(rows) // _JUDGES]
        rows = rows[neighbours[rows, 0] >= 0]
        near = chi2(rows_of(problem, rows), rows_of(problem, neighbours[rows, 0]))
        return _SHARE * float(np.median(near)) or _SHARE

    def _store(self, X: Any, problem: Problem, theta: Array) -> None:
        super()._store(X, problem, theta)
        self.margin_ = float(problem.options["margin"])

    def _solver(self) -> Solver:
        return solvers.ProjectedGradient() if self._constrained else solvers.LBFGS()

    def _finder(self) -> Any:
        return _chi2_finder

    def _make_rules(self, Z: Array, labels: Any, options: Any) -> Chi2Rules:
        return Chi2Rules(Z, labels, self.n_neighbors, self._usable(labels))

    def _work(self) -> Work:
        # the search, as of LMNN, and the divisions of what it finds
        return Work((1.0, 0.06), (1.0, 0.06), kept=2**26 + 2**25)


class Chi2Rules(VotingRules):
    """Votes of the nearest rows by χ²."""

    @cached_property
    def index(self) -> Chi2Index:
        """A search over the mapped histograms."""
        return Chi2Index(self.Z)


def _chi2_finder(points: Array) -> Any:
    index = Chi2Index(points)

    def find(queries: Array, k: int) -> tuple[Array, Array]:
        distances, near = index.kneighbors(queries, k)
        return near, distances

    return find
