"""χ²-LMNN as an estimator: large margins for histograms."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_X_y

from vicinal import maps, solvers, starts
from vicinal._callback_support import with_callbacks
from vicinal._features import Features
from vicinal._validation import (
    check_bool,
    check_classes,
    check_label_types,
    check_number,
    check_option,
)
from vicinal.core.cost import Size, Work
from vicinal.core.problem import Problem
from vicinal.core.types import Array, Solver
from vicinal.estimators._histograms import HistogramMixin, chi2, histograms
from vicinal.estimators._margins import LargeMargin, VotingRules, kept_bytes, rows_of
from vicinal.estimators._parts import SINGLE_FROM, Parts
from vicinal.estimators._plan import make_plan
from vicinal.metrics import Chi2Index
from vicinal.neighbourhoods import target_neighbours

__all__ = ["Chi2LMNN", "own_class_distance"]

_SHARE = 1 / 6  # of the distance to the nearest row of the own class: margin="auto"
_JUDGES = 1000  # rows, at most, that tell that distance


class Chi2LMNN(HistogramMixin, LargeMargin):
    r"""Learn a map of histograms to histograms that keeps other classes beyond a margin.

    Rows are histograms: not negative, and summing to one.  The map L shares the mass of each of D
    bins out over r new ones, so that its columns lie on the probability simplex, and distances are
    those of

    .. math:: \chi^2(u, v) = \tfrac12 \sum_f \frac{(u_f - v_f)^2}{u_f + v_f}

    [Kedem2012]_, [OlsenPetersen]_ eqs (6) to (8):

    .. math:: \min_L\ \mathrm{mean}_i \sum_{j \rightsquigarrow i} \Bigl( D_{ij}
              + \mu \sum_{l : y_l \ne y_i} \bigl[\ell + D_{ij} - D_{il}\bigr]_+ \Bigr),
              \qquad D_{ij} = \chi^2(L x_i, L x_j).

    The rest is as in :class:`LMNN`, whose parameters mean the same.

    Parameters
    ----------
    n_components : int or None, default=None
        r, the number of new bins.  None: as many as before.  One bin holds all, and makes no
        difference between rows: a warning tells.
    k : int, default=3
        Target neighbours of each row, the nearest of its class by χ² before learning.
    mu : float, default=1.0
        Weight of the hinges beside the pull of the target neighbours.
    margin : float or "auto", default="auto"
        :math:`\ell`, in units of χ², which is 1 at most.  It cannot be traded for the scale of the
        map, as that of :class:`LMNN` can.  "auto" is a sixth of the median distance of the rows to
        the nearest of their class, before learning.
        :func:`vicinal.model_selection.margin_search` tries several.
    constraint : {"projection", "softmax"}, default="projection"
        How columns are kept on the simplex: by projection after each step, or as the softmax of
        free parameters, eq. (9), which is slower to learn and ends in higher losses.
    normalize : bool, default=True
        Divide rows by their sums; one without any mass becomes uniform.  False: a row that does
        not sum to one is an error.  Negative values always are.
    refresh_targets : int or None, default=None
        Iterations after which the target neighbours are chosen anew.  None: once, before learning.
    init : {"auto", "groups", "identity", "random"}, part or array, default="auto"
        The start; parts from :mod:`vicinal.starts` take parameters, an array has columns on
        the simplex.  "identity" is the report's, ``softmax(10 I + 0.01)``; "groups" puts bins of
        the same classes together (``BinGroups``).  "auto" is the first where r = D and else the
        second.
    solver : {"auto", "projected", "adaptive", "bold_driver"} or part, default="auto"
        How to descend.  "auto" is "projected", spectral projected gradients; "adaptive" is the step
        of the report.  Under ``constraint="softmax"`` all solvers of :class:`LMNN`, and "auto" is
        L-BFGS.
    n_neighbors : int, "auto" or None, default=None
        Number of voters at prediction, by χ² of the mapped rows.  None: ``k_``; "auto" chooses it
        by leave-one-out.
    early_stopping : bool, default=False
        Hold rows out, stop when their loss no longer improves, and go back to the best map.
    validation_fraction : float, default=0.1
        Share of the rows held out.
    n_iter_no_change : int, default=10
        Iterations without improvement before stopping.
    max_iter : int or "auto", default="auto"
        The most iterations; "auto" is 200.
    tol : float, default=1e-2
        Stop when no entry of the (projected) gradient exceeds it times the margin, or the loss
        falls by less in ``n_iter_no_change`` iterations, relative to the larger of the loss and
        the margin.  Under ``constraint="softmax"``, whose gradients are small, read exp(-10) times
        the margin.
    time_budget : float or None, default=None
        Seconds that ``fit`` may take, roughly.
    warm_start : bool, default=False
        Let ``fit`` go on where the last one stopped, solver memory included.
    random_state : int, RandomState or None, default=None
        For starts, held-out rows and samples.
    verbose : int, default=0
        Print the plan and its cost, and a line for each iteration.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        L; ``transform(X) = H @ components_.T``, where H are the rows of X as histograms.
    margin_ : float
        The margin that was used.
    k_, n_components_, classes_, n_iter_, objective_, plan_, history_, rounds_, n_neighbors_, \
            n_features_in_, feature_names_in_
        As of :class:`LMNN`.

    Notes
    -----
    Without a map, neighbours by χ² are those of :class:`vicinal.metrics.Chi2Index` and
    :func:`vicinal.metrics.chi2_distances`.  The square root of χ² is a metric, χ² itself is not.

    References
    ----------
    .. [Kedem2012] D. Kedem, S. Tyree, F. Sha, G. R. Lanckriet, K. Q. Weinberger, "Non-linear metric
       learning", NIPS 25, 2012.
    .. [OlsenPetersen] J. J. W. Olsen, C. Petersen, "Non-linear metric learning", Technical
       University of Denmark.

    Examples
    --------
    >>> import numpy as np
    >>> from vicinal import Chi2LMNN
    >>> rng = np.random.default_rng(0)
    >>> words = [[8, 1, 1, 1], [1, 8, 1, 1]]  # of two kinds of text; two words tell nothing
    >>> X = np.vstack([rng.dirichlet(w, 30) for w in words])
    >>> y = np.repeat(["novel", "manual"], 30)
    >>> model = Chi2LMNN(n_components=2, random_state=0).fit(X, y)
    >>> model.components_.sum(axis=0).round(12)
    array([1., 1., 1., 1.])
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    _distance: ClassVar[str] = "chi2"
    _margins: ClassVar[tuple[str, ...]] = ("auto",)
    _stored: ClassVar[tuple[str, ...]] = ("margin_",)
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
        tol: float = 1e-2,
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

    @property
    def _patient(self) -> bool:  # type: ignore[override]
        return self.constraint == "softmax"

    def _unit(self, problem: Problem) -> float:
        # The gradient of the softmax is that of L times L, and where bins hardly mix nearly zero.
        floor = maps.Simplex.floor if self.constraint == "softmax" else 1.0
        return floor * super()._unit(problem)

    def _check_data(self, X: Any, y: Any, sample_weight: Any) -> Any:
        X, labels = super()._check_data(X, y, sample_weight)
        return histograms(X, self.normalize), labels

    def _features(self, X: Any, labels: Any, train: Array | None) -> Features:
        return Features.as_they_are(X)

    def _parts(self, n: int, n_features: int, sparse: bool) -> Parts:
        check_number(self, "n_components", 1, n_features, integer=True, or_else=(None,))
        r = n_features if self.n_components is None else int(self.n_components)
        start = starts.resolve_bins(self.init, type(self).__name__)
        itemsize = 4 if n >= SINGLE_FROM else 8
        size = Size(n, n_features, r, itemsize, not sparse, self._work())
        return Parts(maps.Simplex(r, self.constraint), r, start, make_plan(self, None, size))

    def _start(
        self,
        parts: Parts,
        problem: Problem,
        rng: np.random.RandomState,
        tell: Callable[[solvers.Iteration, Problem], bool],
        searching: bool,
    ) -> Array:
        rows = np.arange(len(problem.X)) if problem.train is None else problem.train
        data = problem.X.take(rows), problem.targets.codes[rows], parts.d, rng
        return problem.mapping.theta(parts.start(*data))

    def _scale_of(self, problem: Problem, theta: Array, judges: Array) -> float:
        return 1.0  # columns sum to one

    def _settle_margin(self, problem: Problem, neighbours: Array) -> float:
        if self.margin != "auto":
            return float(self.margin)
        return _SHARE * _typical(problem.X, neighbours[:, 0], problem.train)

    def _store(self, X: Any, problem: Problem, theta: Array) -> None:
        super()._store(X, problem, theta)
        self.margin_ = float(problem.options["margin"])

    def _solver(self) -> Solver:
        return solvers.ProjectedGradient() if self._constrained else solvers.LBFGS()

    def _rows(self, X: Features) -> Callable[[Array], Any]:
        return partial(rows_of, X)

    def _finder(self) -> Any:
        return _chi2_finder

    def _make_rules(self, Z: Array, labels: Any, options: Any) -> Chi2Rules:
        rules = super()._make_rules(Z, labels, options)
        return Chi2Rules(Z, rules.labels, self.n_neighbors, rules.k)

    def _work(self) -> Work:
        # the search, as of LMNN, and the divisions of what it finds
        return Work((1.0, 0.06), (1.0, 0.06), more=_kept_bytes)


def _kept_bytes(n: int, n_features: int, n_components: int, itemsize: int) -> float:
    """As of LMNN, and the rows divided by their sums: two copies for a while, and some roots."""
    return kept_bytes(n, n_features, n_components, itemsize) + 2.5 * n * n_features * itemsize


class Chi2Rules(VotingRules):
    """Votes of the nearest rows by χ²."""

    @cached_property
    def index(self) -> Chi2Index:
        """A search over the mapped histograms."""
        return Chi2Index(self.Z)


def own_class_distance(X: Any, y: Any, normalize: bool = True) -> float:
    """The typical χ² distance of a row to the nearest of its class: what margins are a share of.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Histograms.
    y : array-like of shape (n_samples,)
        Class labels.
    normalize : bool, default=True
        As of `Chi2LMNN`.

    Returns
    -------
    distance : float
        The median over the rows, copies of others left out; 1 where all are copies.
    """
    check_label_types(y)
    X, y = check_X_y(X, y, accept_sparse="csr", dtype=[np.float64, np.float32])
    _, codes = check_classes(y, Chi2LMNN.__name__)
    rows = Features.as_they_are(histograms(X, normalize))
    near = target_neighbours(partial(rows_of, rows), codes, 1, finder=_chi2_finder)
    return _typical(rows, near[:, 0])


def _typical(X: Features, nearest: Array, rows: Array | None = None) -> float:
    """The median χ² distance of some rows to the one named for each (-1: none), 1 for nothing."""
    rows = np.arange(len(X)) if rows is None else rows
    rows = rows[nearest[rows] >= 0]
    rows = rows[:: 1 + len(rows) // _JUDGES]
    near = chi2(rows_of(X, rows), rows_of(X, nearest[rows]))
    near = near[near > 0]  # the distance of copies is no scale
    return float(np.median(near)) if len(near) else 1.0


def _chi2_finder(points: Array) -> Any:
    index = Chi2Index(points)

    def find(queries: Array, k: int) -> tuple[Array, Array]:
        distances, near = index.kneighbors(queries, k)
        return near, distances

    return find
