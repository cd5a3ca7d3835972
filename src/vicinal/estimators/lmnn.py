"""LMNN as an estimator: target neighbours near, impostors beyond a margin."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.model_selection import BaseCrossValidator

from vicinal import _search, maps, solvers, starts
from vicinal._features import make_rows
from vicinal.core.problem import Problem
from vicinal.core.types import (
    Array,
    Auto,
    Map,
    MapName,
    Matrix,
    PairCost,
    Penalty,
    Rows,
    Sampler,
    SamplerName,
    Scaling,
    Solver,
    SolverName,
    Voters,
)
from vicinal.estimators._classifier import LabelledLearner, learnt_k
from vicinal.estimators._margins import (
    BATCH_ROWS,
    START_ROWS,
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
from vicinal.estimators._metric import LearntMetricMixin, feature_importances
from vicinal.fit.method import Data, Method, is_collapsed
from vicinal.models.votes import VotingModel
from vicinal.objectives import LMNNLoss
from vicinal.starts import Start
from vicinal.targets import Labels

_ALPHAS = (300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.0)
# Loss after 300 batches of 7,500 digits: 16.8 at 0.05, 14.0 at 0.1, 12.8 at 0.2; all rows: 11.2.
_RATE = 0.2
_SCALING_ROWS = 1000  # rows used to choose between scalings
_SPARSE_UP_TO = 0.1  # share of entries other than zero up to which these rows are sparse


class LMNN(LearntMetricMixin, LabelledLearner):
    r"""Large margin nearest neighbours (LMNN): other classes are kept beyond a margin.

    Each row should be near its k target neighbours, rows of its own class, and farther by a margin
    from all rows of other classes.  Rows of other classes that come nearer are its impostors
    [Weinberger2009]_, [OlsenPetersen]_ eq. (5):

    .. math:: \min_A\ \mathrm{mean}_i \sum_{j \rightsquigarrow i} \Bigl( D_{ij}
              + \mu \sum_{l : y_l \ne y_i} \bigl[\ell + D_{ij} - D_{il}\bigr]_+ \Bigr)
              + \alpha \|A\|_F^2, \qquad D_{ij} = \|A x_i - A x_j\|^2 .

    Every step searches for impostors, exactly and in blocks: memory is O(n (D + d)) and at most
    about 100 MB, however many impostors there are.  Lists of them are reused for as long as they
    are certain to be complete.  All cores are used, and their number does not change the result.
    Up to about 24,000 (d = 32) or 35,000 (d = 2) rows every step sees all rows; above that, batches
    are used (``plan_`` says which, and why).

    Parameters with the same name as those of :class:`NCA` mean the same; its docstring explains
    them in full.

    Parameters
    ----------
    n_components : int, "auto" or None, default=None
        Rank d of the map.  None: min(D, 32), or the rank of an array ``init``.  "auto" grows it
        from 2 while that helps.
    k : int or None, default=None
        Number of target neighbours of each row; rows of a class of k rows or fewer have fewer, with
        a warning.  None: ``n_neighbors`` if that is a number, else 5.  Many papers and packages use
        3; on small tables no difference between three and five could be told
        (docs/results/lmnn-defaults.md).
    mu : float, default=1.0
        Weight of the hinges relative to the pull of the target neighbours.  For packages that weigh
        the pull by 1 - c and the push by c, :math:`\mu = c / (1 - c)`.
        :func:`vicinal.model_selection.margin_search` tries several values.
    margin : float, default=1.0
        :math:`\ell`, in units of D.  It only sets the scale of the map: s times the margin gives
        :math:`\sqrt s` times the map, also with a penalty.
    refresh_targets : int or None, default=None
        Choose the target neighbours again after this many iterations, as the nearest rows under
        the map learnt so far; ``rounds_`` shows how many were new.  None: once, before learning, in
        the scaled columns.  Refreshing every 20 iterations was ahead on balance, ionosphere and
        segment, behind on wine and yeast, and level on average over eleven small tables
        (docs/results/lmnn-defaults.md).
    mapping : {"linear", "diagonal", "periodic"} or map, default="linear"
        A full matrix, one weight for each feature, or a nonlinear map, as in :class:`NCA`.
    init : {"auto", "identity", "random", "pca", "lda", "rca", "whiten", "annealing"}, part or \
            array, default="pca"
        The start.  "auto" is RCA, as in NCA; PCA is as good (docs/results/lmnn-defaults.md).  The
        scale, unless it is an array, is the best one for the loss of some rows.  With more than
        4,000 rows, up to 30 iterations on 2,000 of them come first, because at the start most pairs
        may be impostors.
    solver : {"auto", "lbfgs", "cg", "bold_driver", "adaptive", "projected", "momentum", "adam", \
            "sgd"} or part, default="auto"
        The optimiser; "auto" is L-BFGS on all rows, and Adam on batches, as in :class:`NCA`.
        "adaptive" is the step of [OlsenPetersen]_: 1.01 times as long after each success, half as
        long after a failure, at most 20 times in a row.
    sampling : {"auto", "full", "subsample", "mini_batches", "stochastic"} or part, default="auto"
        Which rows an iteration uses; objects from :mod:`vicinal.samplers` take parameters.  Target
        neighbours are always those among all rows.  "full": all rows.  "stochastic": a few rows,
        with their impostors among all.  "mini_batches": a few rows with their target neighbours,
        and impostors among these.  If the rows are drawn at random (``clusters="random"``, or a
        "subsample" for the whole fit), impostors are weighted so that the loss is an unbiased
        estimate of that of all rows; in clusters each counts once, and those beyond the cluster
        are missed.  ``mu``, ``margin`` and ``alpha`` mean the same in all of them, and no scale is
        corrected at the end.  "auto" is "full" where that takes up to about 20 s on two cores, and
        random batches of 1,000 rows otherwise.
    alpha : float, "scaled" or "auto", default="scaled"
        Weight of the squared norm of the map relative to the mean loss.  "scaled" is ``mu`` times
        100 D / n, at most 300 and n k / 2; and 0 for a diagonal map or more than ten rows a column:
        there the pull of the targets is enough, while with fewer rows LMNN over-fits without a
        penalty (docs/results/lmnn-columns.md).
        "auto" tries penalties from 300 down to 0 by cross-validation.  Penalties that are not
        numbers are multiplied by the mean variance of the features unless ``scaling_`` is
        "standard".
    scaling : {"auto", "standard", "global", None}, default="auto"
        Scaling of the columns before learning, folded into ``components_``: each column by its
        standard deviation, or all by one number, without outliers, as in NCA.  Target neighbours
        are chosen in these columns, so it matters more than for NCA.  "auto" takes "global" if
        votes of k neighbours are right more often there than in standardised columns, by
        leave-one-out on up to 1,000 rows; see ``scaling_``.
    n_neighbors : int, "auto" or None, default=None
        Number of voters at prediction.  None: ``k_``; "auto" chooses it by leave-one-out.
    early_stopping : bool, default=False
        Hold rows out, stop when their loss no longer improves, and restore the best map.
    validation_fraction : float, default=0.1
        Share of the rows held out.
    n_iter_no_change : int, default=10
        Iterations without improvement before stopping.
    cv : int, splitter, iterable or None, default=None
        Cross-validation by which "auto" chooses ``n_components`` and ``alpha``.
    max_iter : int or "auto", default="auto"
        Maximum number of iterations; "auto" is 200, or 300 with batches.
    tol : float or None, default=1e-4
        Stop when no entry of the gradient, times the largest entry of the map, exceeds ``tol``
        times the margin, or when the loss falls by less than ``tol`` times the larger of the loss
        and the margin.  None: no tolerance.  The default ended within 0.5 % of the optimum on
        nine of ten tables, and 1.5 % above it on glass; 3e-5 ended within 0.1 %, with up to twice
        as many evaluations.
    time_budget : float or None, default=None
        Limit in seconds for ``fit`` as a whole, kept to a tenth once the first evaluation is made;
        see :class:`NCA`.
    warm_start : bool, default=False
        Let ``fit`` continue where the last one stopped, including the state of the solver; a fit
        that was cut ends in the same bits as if it had not been.
    n_jobs : int or None, default=None
        How many candidates of a search are learnt at once, in threads that share those of the
        library; None and -1: as many as there are folds, if there are threads for them.  The
        result is the same for any number.
    random_state : int, RandomState or None, default=None
        For random starts, held-out rows, folds and samples.
    verbose : int, default=0
        Print the plan and its cost, and a line for each iteration.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The map; ``transform(X) = X @ components_.T``.  Nonlinear maps have none.
    scaling_ : {"standard", "global", None}
        The scaling that was used.
    k_ : int
        Largest number of target neighbours of a row: ``k``, or fewer if all classes are small.
    n_components_, alpha_, cv_results_, classes_, n_iter_, loss_, plan_, \
            feature_importances_, n_features_in_, feature_names_in_
        As in :class:`NCA`.
    history_ : dict of lists
        As in :class:`NCA`, and ``n_impostors``: the number of triples of a row, a target neighbour
        of it and an impostor inside the margin, for the rows of the iteration (for random batches
        an estimate, as the loss is).
    rounds_ : dict of lists
        With ``refresh_targets``: ``share_of_new_targets`` for each refresh.
    n_neighbors_ : int
        Number of voters.  If ``n_neighbors`` is "auto" it exists once it has been
        chosen, by a fit or a prediction.

    Notes
    -----
    There are no sample weights.  A row that is the only one of its class has no target neighbour:
    it contributes to the loss only as an impostor of other rows.

    References
    ----------
    .. [Weinberger2009] K. Q. Weinberger, L. K. Saul, "Distance metric learning for large margin
       nearest neighbor classification", JMLR 10, 2009.
    .. [OlsenPetersen] J. J. W. Olsen, C. Petersen, "Non-linear metric learning", Technical
       University of Denmark.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import train_test_split
    >>> from vicinal import LMNN
    >>> X, y = load_wine(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)
    >>> model = LMNN(random_state=0).fit(X_train, y_train)
    >>> model.transform(X_test).shape
    (45, 13)
    >>> bool(model.score(X_test, y_test) > 0.9)
    True
    """

    _rule_names: ClassVar[tuple[str, ...]] = ("knn",)
    _voters: ClassVar[tuple[str | None, ...]] = (None, "auto")
    _default_k: ClassVar[int] = 5
    # shared parameters that have a single value here
    rule: ClassVar[str] = "knn"  # type: ignore[misc]
    neighborhood: ClassVar[str] = "all"
    _model: VotingModel
    k_ = property(largest_k)
    feature_importances_ = property(feature_importances)
    _stored: ClassVar[tuple[str, ...]] = ("scaling_",)
    _scalings: ClassVar[tuple[str | None, ...]] = ("auto", "standard", "global", None)

    def __init__(
        self,
        n_components: int | Auto | None = None,
        *,
        k: int | None = None,
        mu: float = 1.0,
        margin: float = 1.0,
        refresh_targets: int | None = None,
        mapping: MapName | Map = "linear",
        init: str | Start | ArrayLike = "pca",
        solver: SolverName | Solver = "auto",
        sampling: SamplerName | Sampler = "auto",
        alpha: Penalty = "scaled",
        scaling: Scaling | Auto = "auto",
        n_neighbors: Voters = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        cv: int | BaseCrossValidator | Iterable | None = None,
        max_iter: int | Auto = "auto",
        tol: float | None = 1e-4,
        time_budget: float | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.k = k
        self.mu = mu
        self.margin = margin
        self.refresh_targets = refresh_targets
        self.mapping = mapping
        self.init = init
        self.solver = solver
        self.sampling = sampling
        self.alpha = alpha
        self.scaling = scaling
        self.n_neighbors = n_neighbors
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.cv = cv
        self.max_iter = max_iter
        self.tol = tol
        self.time_budget = time_budget
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_margins(self)

    def _method(self, data: Data) -> Method:
        name, k = type(self).__name__, learnt_k(self)
        start: Any = starts.resolve(self.init, name)
        mapping, d = maps.resolve_rank(self, data.n_features, start)
        margin = partial(_fixed_margin, float(self.margin))
        find_targets = FindTargets(k, partial(rows_of, sparse=True), margin)
        given = isinstance(start, starts.Given)
        return Method(
            name=name,
            objective=LMNNLoss(float(self.mu), float(self.margin)),
            mapping=mapping,
            n_components=d,
            start=starts.first_map(start, d, name, START_ROWS),
            features=self._scaled,
            make_model=partial(make_model, VotingModel, self.n_neighbors, k),
            solver=solvers.LBFGS(),
            find_targets=find_targets,
            refresh=partial(refresh_every, self.refresh_targets, find_targets),
            coarse=no_coarse if given else partial(coarse_start, find_targets, True),
            # the search computes an inner product in float32 for each pair
            cost=PairCost((1.0, 0.04), (1.0, 0.04), company=k, more=kept_bytes),
            batch_size=BATCH_ROWS,
            relative_rate=_RATE,
            batches_keep_scale=True,
            n_starts=starts.n_starts(start),
            alphas=_ALPHAS,
            scaled_alpha=partial(_scaled_alpha, self.mu, k, mapping),
            warn_unusable_rows=partial(warn_unusable_rows, data, name, k),
            collapse_warning=_collapse_warning,
        )

    def _scaled(self, X: Matrix, labels: Labels, train: Array | None) -> Rows:
        """The rows in the requested scaling; for "auto", the one with the better neighbours."""
        if self.scaling != "auto":
            return make_rows(X, self.scaling)
        # its own RNG: a resumed fit must make the same choice
        rows = np.random.RandomState(0).permutation(
            np.arange(len(labels)) if train is None else train
        )
        rows = np.sort(rows[:_SCALING_ROWS])
        some = _in_one_form(X[rows])
        right = {
            scaling: _votes_right(make_rows(some, scaling), labels.codes[rows], learnt_k(self))
            for scaling in ("standard", "global")
        }
        best = max(right, key=lambda scaling: right[scaling])  # ties: the first
        if self.verbose:
            shares = ", ".join(f"{scaling} {right[scaling]:.3f}" for scaling in right)
            print(f"[{type(self).__name__}] share of right votes of k neighbours: {shares}")
        return make_rows(X, best)

    def _store(self, X: Matrix, method: Method, problem: Problem, theta: Array) -> None:
        super()._store(X, method, problem, theta)
        self.scaling_ = problem.X.scaling


def _scaled_alpha(mu: float, k: int, mapping: Map, n_columns: int, n: int) -> float:
    """The penalty for ``alpha="scaled"``.

    The best penalties of docs/results/lmnn-columns.md are 10 to 30 at four rows a column; at one
    and fewer they are anything from 10 to 300, set by set.  Near zero all rows of other classes are
    impostors, so that the loss has a curvature of several ``mu k n``: a penalty must be well below
    that, or the map collapses.
    """
    # a diagonal map has too few parameters to over-fit so, as other maps have on many rows
    if mapping.weights_columns or n > 10 * n_columns:
        return 0.0
    return mu * min(100.0 * n_columns / n, 300.0, 0.5 * k * n)


def _fixed_margin(margin: float, problem: Problem, neighbours: Array) -> float:
    return margin


def _collapse_warning(Z: Array, problem: Problem) -> str | None:
    if not is_collapsed(Z, problem.objective.units.loss):
        return None
    also = " or decrease 'alpha'" if float(np.min(problem.alpha)) > 0 else ""
    return (
        "The map has collapsed: the distances between rows are far smaller than the margin. "
        f"Increase 'mu'{also}."
    )


def _in_one_form(X: Matrix) -> Any:
    """Rows in float64, sparse if few entries differ from zero, however they were stored.

    Searches of sparse and of dense rows round differently, which decides between neighbours at the
    same distance.
    """
    filled = X.count_nonzero() if sp.issparse(X) else np.count_nonzero(X)
    if filled > _SPARSE_UP_TO * X.shape[0] * X.shape[1]:
        return (X.toarray() if sp.issparse(X) else X).astype(np.float64)
    X = sp.csr_array(X, dtype=np.float64, copy=True)
    X.eliminate_zeros()
    return X


def _votes_right(features: Rows, codes: Array, k: int) -> float:
    """Share of the rows for which the vote of the k nearest others is right."""
    rows = np.arange(len(features))
    points = rows_of(features, rows, sparse=True)
    k = min(k, len(rows) - 1)
    near = _search.finder("exact", points)(points, k + 1)[0]
    # with duplicates, a row need not be its own nearest neighbour
    others = np.argsort(near == rows[:, None], axis=1, kind="stable")[:, :k]
    ballots = codes[np.take_along_axis(near, others, axis=1)]
    votes = np.zeros((len(rows), int(codes.max()) + 1))
    np.add.at(votes, (rows[:, None], ballots), 1.0)
    return float(np.mean(votes.argmax(axis=1) == codes))
