"""χ²-LMNN as an estimator: large margins for histograms."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_X_y

from vicinal import maps, solvers, starts
from vicinal._features import Features
from vicinal._validation import (
    check_bool,
    check_classes,
    check_label_types,
    check_number,
    check_option,
    histograms,
    merged_duplicates,
)
from vicinal.core.problem import Problem
from vicinal.core.types import (
    Array,
    Auto,
    EvaluationSize,
    Matrix,
    MatrixLike,
    PairCost,
    Sampler,
    SamplerName,
    Solver,
    SolverName,
    Voters,
    Weights,
)
from vicinal.engines.choose import few_terms
from vicinal.engines.cpu.impostors import KEPT
from vicinal.estimators._classifier import LabelledLearner, learnt_k
from vicinal.estimators._margins import (
    BATCH_ROWS,
    FindTargets,
    check_margins,
    coarse_start,
    kept_bytes,
    largest_k,
    make_model,
    no_coarse,
    refresh_every,
    rows_of,
    warn_unusable_rows,
)
from vicinal.estimators._metric import HistogramMixin, chi2
from vicinal.fit.method import Data, Method, is_collapsed
from vicinal.metrics import Chi2Index
from vicinal.models.votes import Chi2VotingModel
from vicinal.neighborhoods import target_neighbors
from vicinal.objectives import LMNNLoss
from vicinal.starts import BinStart
from vicinal.storage.model import SaveMixin
from vicinal.targets import Labels

_SHARE = 1 / 6  # margin="auto", as a share of the distance to the nearest row of the same class
_MARGIN_ROWS = 1000  # about how many rows that distance is measured on


class Chi2LMNN(SaveMixin, HistogramMixin, LabelledLearner):
    r"""χ²-LMNN: large margins for histograms, under the χ² distance of merged bins.

    Rows are histograms: non-negative, and summing to one.  The map L distributes the mass of each
    of the D bins over r new ones, so its columns lie on the probability simplex.  Distances are

    .. math:: \chi^2(u, v) = \tfrac12 \sum_f \frac{(u_f - v_f)^2}{u_f + v_f}

    [Kedem2012]_, [OlsenPetersen]_ eqs (6) to (8):

    .. math:: \min_L\ \mathrm{mean}_i \sum_{j \rightsquigarrow i} \Bigl( D_{ij}
              + \mu \sum_{l : y_l \ne y_i} \bigl[\ell + D_{ij} - D_{il}\bigr]_+ \Bigr),
              \qquad D_{ij} = \chi^2(L x_i, L x_j).

    Everything else is as in :class:`LMNN`; parameters with the same name mean the same.

    Parameters
    ----------
    n_components : int or None, default=None
        r, the number of new bins.  None: as many as before, or as an array ``init`` has.  With one
        bin all rows are mapped to the same point, with a warning.
    k : int or None, default=None
        Target neighbours of each row, the nearest of its class by χ² before learning.  None:
        ``n_neighbors`` if that is a number, else 3.
    mu : float, default=1.0
        Weight of the hinges relative to the pull of the target neighbours.
    margin : float or "auto", default="auto"
        :math:`\ell`, in units of χ², which is at most 1.  Unlike that of :class:`LMNN` it is not
        just a scale of the map.  "auto" is a sixth of the median distance from a row to the nearest
        row of its class, before learning.  No share was the best on all of five tables
        (docs/results/chi2-margin.md), so it pays to try several:
        :func:`vicinal.model_selection.margin_search`.
    constraint : {"projection", "softmax"}, default="projection"
        How columns are kept on the simplex: by projection after each step, or as the softmax of
        free parameters, eq. (9), which learns more slowly and reaches higher losses.
    normalize : bool, default=True
        Divide rows by their sums; a row of zeros becomes uniform.  False: a row that does not sum
        to one is an error.  Negative values are always an error.
    refresh_targets : int or None, default=None
        Choose the target neighbours again after this many iterations.  None: once, before learning.
    init : {"auto", "groups", "identity", "random"}, part or array, default="auto"
        The start; objects from :mod:`vicinal.starts` take parameters, and the columns of an array
        must lie on the simplex.  "identity" is that of the report, ``softmax(10 I + 0.01)``;
        "groups" merges bins of the same classes (``BinGroups``).  "auto" is "identity" if r = D,
        and "groups" otherwise.
    solver : {"auto", "lbfgs", "cg", "bold_driver", "adaptive", "projected", "momentum", "adam", \
            "sgd"} or part, default="auto"
        The optimiser; every step ends on the simplex.  "auto" is "projected", spectral projected
        gradients, on all rows, and Adam on batches; "adaptive" is the step of the report.  With
        ``constraint="softmax"`` all solvers of :class:`LMNN` work, and "auto" is L-BFGS on all
        rows.
    sampling : {"auto", "full", "subsample", "mini_batches", "stochastic"} or part, default="auto"
        Which rows an iteration uses, as in :class:`LMNN`.
    n_neighbors : int, "auto" or None, default=None
        Number of voters at prediction, the nearest by χ² of the mapped rows.  None: ``k_``; "auto"
        chooses it by leave-one-out.
    early_stopping : bool, default=False
        Hold rows out, stop when their loss no longer improves, and restore the best map.
    validation_fraction : float, default=0.1
        Share of the rows held out.
    n_iter_no_change : int, default=10
        Iterations without improvement before stopping.
    max_iter : int or "auto", default="auto"
        Maximum number of iterations; "auto" is 200, or 300 with batches.
    tol : float or None, default=1e-2
        Stop when no entry of the (projected) gradient exceeds ``tol`` times the margin, or when the
        loss falls in ``n_iter_no_change`` iterations by less than ``tol`` times the larger of the
        loss and the margin.  With ``constraint="softmax"``, whose gradients are small, the limit of
        the gradient is exp(-10) times as large.  None: no tolerance.
    time_budget : float or None, default=None
        Limit in seconds for ``fit`` as a whole, kept to a tenth once the first evaluation is made;
        see :class:`NCA`.
    warm_start : bool, default=False
        Let ``fit`` continue where the last one stopped, including the state of the solver; a fit
        that was cut ends in the same bits as if it had not been.
    random_state : int, RandomState or None, default=None
        For starts, held-out rows and samples.
    verbose : int, default=0
        Print the plan and its cost, and a line for each iteration.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        L; ``transform(X) = H @ components_.T``, where H holds the rows of X as histograms.
    margin_ : float
        The margin that was used.
    k_, n_components_, classes_, n_iter_, loss_, plan_, history_, rounds_, n_neighbors_, \
            n_features_in_, feature_names_in_
        As in :class:`LMNN`.

    Notes
    -----
    To find neighbours by χ² without a map, use :class:`vicinal.metrics.Chi2Index` or
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
    >>> words = [[8, 1, 1, 1], [1, 8, 1, 1]]  # two kinds of text; the last two words are noise
    >>> X = np.vstack([rng.dirichlet(w, 30) for w in words])
    >>> y = np.repeat(["novel", "manual"], 30)
    >>> model = Chi2LMNN(n_components=2, random_state=0).fit(X, y)
    >>> model.components_.sum(axis=0).round(12)
    array([1., 1., 1., 1.])
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    _default_k: ClassVar[int] = 3
    _rule_names: ClassVar[tuple[str, ...]] = ("knn",)
    _voters: ClassVar[tuple[str | None, ...]] = (None, "auto")
    rule: ClassVar[str] = "knn"  # type: ignore[misc]
    neighborhood: ClassVar[str] = "all"
    _model: Chi2VotingModel
    k_ = property(largest_k)
    _stored: ClassVar[tuple[str, ...]] = ("margin_",)
    margin_: float
    # shared parameters that are fixed here: bins are not scaled, and a penalty on columns that sum
    # to one would only spread them
    scaling: ClassVar[None] = None
    alpha: ClassVar[float] = 0.0
    cv: ClassVar[None] = None

    def __init__(
        self,
        n_components: int | None = None,
        *,
        k: int | None = None,
        mu: float = 1.0,
        margin: float | Auto = "auto",
        constraint: Literal["projection", "softmax"] = "projection",
        normalize: bool = True,
        refresh_targets: int | None = None,
        init: str | BinStart | ArrayLike = "auto",
        solver: SolverName | Solver = "auto",
        sampling: SamplerName | Sampler = "auto",
        n_neighbors: Voters = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        max_iter: int | Auto = "auto",
        tol: float | None = 1e-2,
        time_budget: float | None = None,
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = None,
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
        self.sampling = sampling
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

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_margins(self, ("auto",))
        check_option(self, "constraint", ("projection", "softmax"))
        check_bool(self, "normalize")

    def _check_data(self, X: MatrixLike, y: ArrayLike | None, sample_weight: Weights) -> Data:
        data = super()._check_data(X, y, sample_weight)
        return data._replace(X=histograms(data.X, self.normalize))

    def _method(self, data: Data) -> Method:
        name, k, D = type(self).__name__, learnt_k(self), data.n_features
        check_number(self, "n_components", 1, D, integer=True, or_else=(None,))
        start = starts.resolve_bins(self.init, name)
        r = int(self.n_components or maps.given_rank(start, D) or D)
        mapping = maps.Simplex(r, self.constraint)
        find_targets = FindTargets(k, rows_of, partial(_settled_margin, self.margin), _chi2_finder)
        given = isinstance(start, starts.GivenBins)
        return Method(
            name=name,
            objective=LMNNLoss(float(self.mu), distance="chi2"),
            mapping=mapping,
            n_components=r,
            start=partial(_first_theta, start, r),
            features=_features,
            make_model=partial(make_model, Chi2VotingModel, self.n_neighbors, k),
            solver=solvers.ProjectedGradient() if mapping.constrained else solvers.LBFGS(),
            find_targets=find_targets,
            refresh=partial(refresh_every, self.refresh_targets, find_targets),
            coarse=no_coarse if given else partial(coarse_start, find_targets, False),
            # the search, as in LMNN, and the divisions for the pairs it finds
            cost=PairCost(
                (1.0, 0.06),
                (1.0, 0.06),
                company=k,
                # the terms of few histograms are divided in whole arrays
                pair_bytes=min(80.0 + 16.0 * r, 200.0) if few_terms(data.n, r) else 0.0,
                more=_kept_bytes,
            ),
            batch_size=BATCH_ROWS,
            batches_keep_scale=True,
            n_starts=starts.n_starts(start),
            warn_unusable_rows=partial(warn_unusable_rows, data, name, k),
            collapse_warning=_collapse_warning,
        )

    def _store(self, X: Matrix, method: Method, problem: Problem, theta: Array) -> None:
        super()._store(X, method, problem, theta)
        self.margin_ = float(problem.objective.margin)  # type: ignore[attr-defined]


def _features(X: Matrix, labels: Labels, train: Array | None) -> Features:
    return Features.as_they_are(X)  # bins are neither shifted nor scaled


def _settled_margin(margin: float | str, problem: Problem, neighbours: Array) -> float:
    """The margin as a number."""
    if margin != "auto":
        return float(margin)
    return _SHARE * _typical(problem.X, neighbours[:, 0], problem.train)


def _first_theta(
    start: Any, r: int, problem: Problem, rng: np.random.RandomState, reporter: object = None
) -> Array:
    rows = problem.rows
    codes = problem.target.strata[rows]  # type: ignore[index]
    mapping: Any = problem.mapping
    return mapping.theta(start(problem.X.take(rows), codes, r, rng))


def _collapse_warning(Z: Array, problem: Problem) -> str | None:
    # squared distances between square roots are between χ² and 2 χ²
    if not is_collapsed(np.sqrt(Z), problem.objective.units.loss):
        return None
    if Z.shape[1] == 1:
        return "The map has collapsed: there is only one bin. Increase 'n_components'."
    return (
        "The map has collapsed: the distances between rows are far smaller than the margin. "
        "Increase 'mu' or 'margin'."
    )


def _kept_bytes(size: EvaluationSize) -> float:
    """As for LMNN, with longer lists, and copies of the normalised rows and some of their roots."""
    return kept_bytes(size, KEPT // 2) + 2.5 * size.n * size.n_features * size.itemsize


def own_class_distance(X: MatrixLike, y: ArrayLike, normalize: bool = True) -> float:
    """The median χ² distance from a row to the nearest of its class: the unit of margins.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Histograms.
    y : array-like of shape (n_samples,)
        Class labels.
    normalize : bool, default=True
        As in `Chi2LMNN`.

    Returns
    -------
    distance : float
        The median over all rows except duplicates; 1 if all rows are duplicates.
    """
    check_label_types(y)
    X, labels = check_X_y(X, y, accept_sparse="csr", dtype=[np.float64, np.float32])
    _, codes = check_classes(labels, Chi2LMNN.__name__)
    rows = Features.as_they_are(histograms(merged_duplicates(X), normalize))
    near = target_neighbors(partial(rows_of, rows), codes, 1, finder=_chi2_finder)
    return _typical(rows, near[:, 0])


def _typical(X: Features, nearest: Array, rows: Array | None = None) -> float:
    """The median χ² distance of some rows to their ``nearest`` (-1: none); 1 if there is none."""
    rows = np.arange(len(X)) if rows is None else rows
    rows = rows[nearest[rows] >= 0]
    rows = rows[:: 1 + len(rows) // _MARGIN_ROWS]
    near = chi2(rows_of(X, rows), rows_of(X, nearest[rows]))
    near = near[near > 0]  # duplicates say nothing about the scale
    return float(np.median(near)) if len(near) else 1.0


def _chi2_finder(points: Array) -> Callable[..., tuple[Array, Array]]:
    index = Chi2Index(points)

    def find(queries: Array, k: int) -> tuple[Array, Array]:
        distances, near = index.kneighbors(queries, k)
        return near, distances

    return find
