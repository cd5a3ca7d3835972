"""kNCA as an estimator: neighbourhood components analysis for a vote of k neighbours."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from vicinal import neighborhoods
from vicinal._validation import check_number, check_option, warn
from vicinal.core.types import (
    Array,
    Auto,
    EvaluationSize,
    ListsName,
    Map,
    MapName,
    MatrixLike,
    PairCost,
    Pairs,
    Penalty,
    Sampler,
    SamplerName,
    Scaling,
    Solver,
    SolverName,
    Voters,
    is_auto,
)
from vicinal.engines import cuda
from vicinal.estimators._classifier import LabelledLearner, check_k, learnt_k
from vicinal.estimators._metric import LearntMetricMixin, feature_importances
from vicinal.fit.method import ALPHAS, Data, Method, method_of
from vicinal.fit.plan import Plan
from vicinal.fit.stream import StreamRules, can_stream, learn_batch
from vicinal.models.posterior import KNCAModel
from vicinal.neighborhoods import LeftOut, Nearest, Neighborhood, sets_left_out
from vicinal.neighborhoods.refresh import refresh_lists
from vicinal.objectives import KNCALoss
from vicinal.objectives._votes import SAFE_K, can_win, large_k, usable_votes
from vicinal.starts import Start
from vicinal.targets import Labels

_GPU_TIMES = 4.0  # the time of NCA there, at k = 5: an estimate
_LISTED = 10  # lists requested by name hold at least this many times k rows


def _check_reservoir(estimator: KNCA) -> None:
    """Refuse a memory too small for a vote of k."""
    if estimator.reservoir_size <= learnt_k(estimator):
        raise ValueError(
            f"The 'reservoir_size' parameter of {type(estimator).__name__} must be more than "
            f"k={learnt_k(estimator)}, because k of the remembered rows vote. "
            f"Got {estimator.reservoir_size!r} instead."
        )


_STREAM = StreamRules(("objective", "k", "vote"), False, check_first=_check_reservoir)


class KNCA(LearntMetricMixin, LabelledLearner):
    r"""k-neighbourhood components analysis (kNCA): NCA for a vote of k neighbours.

    Each row picks a set of k other rows at once, with nearer rows more likely, and these vote on
    its label.  The map A is learnt so that the vote is right as often as possible [Tarlow2013]_:

    .. math:: p_i(s) = \frac{\prod_{j \in s} e^{-\|Ax_i - Ax_j\|^2}}
              {\sum_{|t| = k} \prod_{j \in t} e^{-\|Ax_i - Ax_j\|^2}},
              \qquad p_i = \sum_{s\ \text{right}} p_i(s),
              \qquad \min_A\ \mathrm{mean}_i\,(-\log p_i \text{ or } -p_i) + \alpha\|A\|_F^2 .

    A set is right if the class of row i has more of its votes than any other class ("majority"), or
    all of them ("all").  For k = 1 this is :class:`NCA`; parameters with the same name mean the
    same, and its docstring explains them in full.  The sums over all sets are exact and take
    O(n k) time per row; memory is O(n (D + d)).

    Parameters
    ----------
    n_components : int, "auto" or None, default=None
        Rank d of the map.  None: min(D, 32), or the rank of an array ``init``.  "auto" grows it
        from 2 while that helps.
    k : int or None, default=None
        Number of rows that vote in learning.  None: ``n_neighbors`` if that is a number, else 5.
        If there are too few training rows for any of them to win a vote of k, ``k_`` is the largest
        number with which one can, with a warning.
    vote : {"majority", "all"}, default="majority"
        A vote is won by more votes than any other class has (a tie is lost), or only by all k.
        "all" is stricter.
    objective : {"log", "accuracy"}, default="log"
        Mean log-probability of winning the vote, or expected share of votes won.
    mapping : {"linear", "diagonal", "periodic"} or map, default="linear"
        A full matrix, one weight for each feature, or a nonlinear map, as in :class:`NCA`.
    init : {"auto", "identity", "random", "pca", "lda", "rca", "whiten", "annealing"}, part or \
            array, default="auto"
        The start; its scale, unless it is an array, is the best one for "log" at this k on a
        sample.
    solver : {"auto", "lbfgs", "cg", "bold_driver", "adaptive", "projected", "momentum", "adam", \
            "sgd"} or part, default="auto"
        The optimiser: "auto" is L-BFGS on all rows, Adam on batches.
    sampling : {"auto", "full", "subsample", "mini_batches", "stochastic"} or part, default="auto"
        Which rows an iteration uses.  The paper used "stochastic", a few rows against all.  In
        batches and subsets rows pick each other: a class needs more than k rows in each, and a
        warning names classes that have fewer.  "auto" is "full" where that takes up to about 20 s
        on two cores, and batches of 3,000 random rows otherwise.
    neighborhood : {"auto", "all", "nearest", "random"} or part, default="auto"
        Which rows each row may pick.  "nearest" and "random" are lists of 100 rows (or 10 k, if
        that is more), refreshed every few iterations.  Lists of nearest rows always hold at least k
        rows of the row's own class, even if ``own`` of the part is smaller.  Half of a random list
        is of the row's own class, so it must be longer than 2 k.
    alpha : float, "scaled" or "auto", default=3e-3
        Weight of the squared norm of the map relative to the mean loss.
    scaling : {"standard", "global", None}, default="standard"
        Scaling of the columns before learning, folded into ``components_``, without outliers.
    rule : {"posterior", "knn", "draw"}, default="posterior"
        How to classify: by the probability that each class wins the vote, normalised to sum to one
        (a tie counts for no class), by a vote of the nearest training rows, or, as in
        :class:`NCA`, at random with those probabilities.
    n_neighbors : int, "auto" or None, default=None
        Number of voters of ``rule="knn"``.  None: ``k_``; "auto" chooses it by leave-one-out.
    early_stopping : bool, default=False
        Hold rows out, stop when their score no longer improves, and restore the best map.
    validation_fraction : float, default=0.1
        Share of the rows held out.
    n_iter_no_change : int, default=10
        Iterations (with batches: scores) without improvement before stopping.
    cv : int, splitter, iterable or None, default=None
        Cross-validation by which "auto" chooses ``n_components`` and ``alpha``.
    max_iter : int or "auto", default="auto"
        Maximum number of iterations; "auto" is 200, or 300 with batches.
    tol : float or None, default=1e-5
        Stop when no entry of the gradient exceeds it, or the loss falls by less; None: never.
    time_budget : float or None, default=None
        Limit in seconds for ``fit`` as a whole, kept to a tenth once the first evaluation is made;
        see :class:`NCA`.
    reservoir_size : int, default=10_000
        Maximum number of rows that ``partial_fit`` remembers.
    warm_start : bool, default=False
        Let ``fit`` continue where the last one stopped, including the state of the solver; a fit
        that was cut ends in the same bits as if it had not been.
    n_jobs : int or None, default=None
        How many candidates of a search are learnt at once, in threads that share those of the
        library; None and -1: as many as there are folds, if there are threads for them.  The
        result is the same for any number.
    device : {None, "cpu", "cuda", "cuda:N"}, default=None
        Where the fit and the predictions run.  None and "cpu" are the CPU.  A tensor on a GPU as X
        stays there in any case, and predictions for it are tensors there.  docs/howto/gpu.md says
        what runs on a GPU.
    random_state : int, RandomState or None, default=None
        For random starts, batches, lists, held-out rows, folds and the samples that set a scale.
    verbose : int, default=0
        Print the plan and its cost, and a line for each iteration.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The map; ``transform(X) = X @ components_.T``.  Nonlinear maps have none.
    k_ : int
        Number of rows that vote: ``k``, or fewer if there are too few rows.
    n_components_, alpha_, cv_results_, classes_, n_iter_, loss_, plan_, history_, \
            feature_importances_, n_samples_seen_, n_features_in_, feature_names_in_
        As in :class:`NCA`; ``plan_.kernel`` is None.
    rounds_ : dict of lists
        With lists, for each refresh: ``n_pairs``, and ``mean_left_out`` and ``max_left_out``, the
        share of the total weight of sets of k that are not fully inside a row's list
        (:func:`vicinal.neighborhoods.sets_left_out`), on a sample of rows.
    n_neighbors_ : int
        Number of voters of ``rule="knn"``.  If ``n_neighbors`` is "auto" it exists once it has been
        chosen, by a fit or a prediction under that rule.

    Notes
    -----
    There are no sample weights and no priors: a vote of k weighted rows would be another model.  A
    row that can never win (with "all", one of a class of k rows or fewer) is left out of "log" and
    counts as lost for "accuracy", with a warning that names its class; it still votes on others.

    References
    ----------
    .. [Tarlow2013] D. Tarlow, K. Swersky, L. Charlin, I. Sutskever, R. Zemel, "Stochastic
       k-neighborhood selection for supervised and unsupervised learning", ICML 2013.
    .. [Oneata2011] D. Oneață, "Fast low-rank metric learning", MSc thesis, University of
       Edinburgh, 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import train_test_split
    >>> from vicinal import KNCA
    >>> X, y = load_iris(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)
    >>> model = KNCA(n_components=2, k=5, rule="knn", random_state=0).fit(X_train, y_train)
    >>> model.n_neighbors_
    5
    >>> bool(model.score(X_test, y_test) > 0.9)
    True
    """

    _voters: ClassVar[tuple[str | None, ...]] = (None, "auto")
    _default_k: ClassVar[int] = 5
    _model: KNCAModel
    feature_importances_ = property(feature_importances)

    def __init__(
        self,
        n_components: int | Auto | None = None,
        *,
        k: int | None = None,
        vote: Literal["majority", "all"] = "majority",
        objective: Literal["log", "accuracy"] = "log",
        mapping: MapName | Map = "linear",
        init: str | Start | ArrayLike = "auto",
        solver: SolverName | Solver = "auto",
        sampling: SamplerName | Sampler = "auto",
        neighborhood: ListsName | Neighborhood = "auto",
        alpha: Penalty = 3e-3,
        scaling: Scaling = "standard",
        rule: Literal["posterior", "knn", "draw"] = "posterior",
        n_neighbors: Voters = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        cv: int | BaseCrossValidator | Iterable | None = None,
        max_iter: int | Auto = "auto",
        tol: float | None = 1e-5,
        time_budget: float | None = None,
        reservoir_size: int = 10_000,
        warm_start: bool = False,
        n_jobs: int | None = None,
        device: str | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.k = k
        self.vote = vote
        self.objective = objective
        self.mapping = mapping
        self.init = init
        self.solver = solver
        self.sampling = sampling
        self.neighborhood = neighborhood
        self.alpha = alpha
        self.scaling = scaling
        self.rule = rule
        self.n_neighbors = n_neighbors
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.cv = cv
        self.max_iter = max_iter
        self.tol = tol
        self.time_budget = time_budget
        self.reservoir_size = reservoir_size
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    @available_if(partial(can_stream, _STREAM))
    def partial_fit(self, X: MatrixLike, y: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Learn from the next batch of a stream, as :meth:`NCA.partial_fit` does.

        A uniform sample of ``reservoir_size`` rows of the stream so far is remembered, with the
        classes in the proportions of the stream: a vote of k has no weights, so a remembered row
        cannot stand for others.  While there are too few remembered rows for a vote of k, fewer
        vote (``k_``).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Class labels.
        classes : array-like of shape (n_classes,), default=None
            All classes that may occur in the stream; required at the first call, unless an earlier
            ``fit`` has set them.

        Returns
        -------
        self : KNCA
        """
        learn_batch(_STREAM, self, X, y, classes)
        return self

    @property
    def k_(self) -> int:
        """Number of rows that vote: k, or fewer if there are too few rows."""
        check_is_fitted(self, "n_components_")
        return self._model.k

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number(self, "reservoir_size", 2, integer=True)
        check_k(self)
        check_option(self, "vote", ("majority", "all"))
        check_option(self, "objective", ("log", "accuracy"))

    def _method(self, data: Data) -> Method:
        name, k = type(self).__name__, learnt_k(self)
        return method_of(
            self,
            data,
            KNCALoss(k, self.vote, self.objective),
            make_model=partial(_make_model, self.n_neighbors),
            refresh=partial(refresh_lists, partial(_left_out, k)),
            neighborhood=_neighbourhood(name, self.neighborhood, k),
            cost=_cost(k),
            alphas=ALPHAS,
            warn_unusable_rows=partial(warn_no_voters, data, name, k, self.vote),
        )


def _make_model(
    n_neighbors: int | str | None, Z: Array, labels: Labels, objective: KNCALoss
) -> KNCAModel:
    return KNCAModel(Z, labels, n_neighbors, objective.k, objective.vote)


def _neighbourhood(name: str, asked: Any, k: int) -> Any:
    """The lists requested by ``neighborhood``, long enough for votes of k; None for all pairs."""
    if is_auto(asked):
        return None
    part: Any = neighborhoods.resolve(asked, name, trees=False)
    if part is None:
        return None
    if isinstance(asked, str):
        part = replace(part, m=max(part.m, _LISTED * k))
    least = 2 * k if part.draws else k
    if getattr(part, "m", least + 1) <= least:
        raise ValueError(
            f"The 'neighborhood' parameter of {name} must list more than {least} rows "
            f"where k={k}. Got {part!r} instead."
        )
    # otherwise truncation alone could decide votes, and -log p_i would be infinite
    return replace(part, own=max(part.own, k)) if isinstance(part, Nearest) else part


def _left_out(k: int, Z: Array, labels: Labels, pairs: Pairs, references: Array | None) -> LeftOut:
    return sets_left_out(Z, pairs, k, references, random_state=np.random.RandomState(0))


def _cost(k: int) -> PairCost:
    # Nanoseconds, on the scale of NCA's: k steps of the chain forwards and k of Horner's rule
    # back, and the votes of ten classes.  A pair serves one row only.
    single, double = (1.5 + 0.3 * k, 0.27), (3.2 + 0.95 * k, 0.65)
    listed = (45.0 + 8.0 * k, 5.0)
    pair_bytes, more = 24.0 + 5.6 * k, partial(_votes_bytes, k)
    return PairCost(
        single, double, listed, both_ways=False, pair_bytes=pair_bytes, more=more,
        gpu_times=_GPU_TIMES, gpu_more=partial(_gpu_bytes, k),
    )  # fmt: skip


def _gpu_bytes(k: int, size: EvaluationSize) -> float:
    """Memory on a GPU: the summaries and slopes of all queries and classes, and their votes."""
    return cuda.vote_bytes(size.n, size.n_classes, k, size.itemsize)


def _votes_bytes(k: int, size: EvaluationSize) -> float:
    """Memory of the votes of the queries that are counted at a time, and of their pull."""
    votes = (40.0 if size.listed else 20.0) * (k + 1) * size.n_classes
    pull = 0.0 if size.listed else 130.0 * size.n_components
    return min(min(max(size.n, 1024), 8192) * (votes + pull), 1e8)


def warn_no_voters(
    data: Data, name: str, asked: int, vote: str, labels: Labels, plan: Plan
) -> None:
    """Warn of classes whose rows cannot win a vote of k."""
    counts = labels.counts
    k = usable_votes(counts, asked, vote)
    if k < asked:
        others = len(labels) - 1
        why = "no row could win a vote of that many"
        if others < asked:
            why = f"a row has only {others} others to pick"
        warn(f"The 'k' parameter of {name} is {asked}, but {why}: k={k} is used.")
    if k > SAFE_K:
        warn(large_k(k))
    able = can_win(counts, k, vote)
    if not able.all():
        warn(
            f"Rows of these classes have too few others of their class to win any vote of "
            f"k={k} by vote={vote!r}: {data.names(~able)}. As queries they add nothing "
            "to the objective."
        )
    rows = plan.rows_together(len(labels))
    thin = able & ~can_win(counts * rows // len(labels), k, vote)
    if thin.any():
        warn(
            f"Of {rows} rows at a time, as drawn by {plan.sampling!r}, these classes usually have "
            f"too few rows to win a vote of k={k}, so that little is learnt about them: "
            f"{data.names(thin)}. Use larger batches, or sampling='stochastic', in which all rows "
            "may be picked."
        )
