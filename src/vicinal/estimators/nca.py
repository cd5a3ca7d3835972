"""Neighbourhood components analysis as an estimator."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.metaestimators import available_if

from vicinal import densities, maps, neighbourhoods, solvers, starts
from vicinal._callback_support import with_callbacks
from vicinal._features import Features
from vicinal._plugins import load
from vicinal._validation import check_number, check_option, warn
from vicinal.core.method import Data, Method
from vicinal.core.stages import Refresh
from vicinal.core.types import Array, is_auto
from vicinal.densities import Kernel
from vicinal.estimators._consulted import ConsultedMixin
from vicinal.estimators._metric import LearntMetricMixin
from vicinal.estimators._partial_fit import StreamLearner
from vicinal.estimators._plan import Plan
from vicinal.estimators.search import ALPHAS, is_collapsed
from vicinal.estimators.stream import can_stream
from vicinal.models.posterior import NCAModel
from vicinal.neighbourhoods import mass_left_out
from vicinal.neighbourhoods.refresh import RefreshLists
from vicinal.objectives import NCALoss
from vicinal.targets import Labels
from vicinal.targets.masses import reference_masses

__all__ = ["NCA"]


class NCA(ConsultedMixin, LearntMetricMixin, StreamLearner):
    r"""Learn the linear map in which the right rows are near: a metric, a classifier, a picture.

    Each row picks a neighbour at random, the nearer the likelier, and takes over its label; the
    map A makes that right as often as possible, each row itself left out
    [Goldberger2005]_:

    .. math:: p_{ij} = \frac{e^{-\|Ax_i - Ax_j\|^2}}{\sum_{k \ne i} e^{-\|Ax_i - Ax_k\|^2}},
              \qquad p_i = \sum_{j : y_j = y_i} p_{ij},
              \qquad \min_A\ \mathrm{mean}_i\,(-\log p_i \text{ or } -p_i) + \alpha\|A\|_F^2 .

    Memory is O(n (D + d)), never n²; all cores are used, and their number does not change the
    result.  All rows are looked at while that is quick; of some 12,000 (d = 32) to 25,000 (d = 2)
    on, batches are (``plan_`` tells, and why).

    Parameters
    ----------
    n_components : int, "auto" or None, default=None
        Rank d of the map, at most the number of features D.  None: min(D, 32).  2 for a picture.
        "auto" grows it from 2, up to 32, until the accuracy on rows held out no longer improves,
        and takes the least rank within a standard error of the best ([Oneata2011]_ section 5.3).
        It does so at ``alpha=3e-3`` where that is "auto" too.
        A diagonal map has D components, and warns where asked for another number.
    mapping : {"linear", "diagonal"} or map, default="linear"
        A full matrix, or one weight for each feature ([Goldberger2005]_ section 4).
    objective : {"log", "accuracy"}, default="log"
        Mean log-probability of the right class (eq. 6) or expected accuracy (eq. 3).
    kernel : {"gaussian", "student", "compact"} or part, default="gaussian"
        What takes the place of :math:`e^{-d^2}`; parts from :mod:`vicinal.densities` take
        parameters.  "student" has a heavy tail; "compact" ends at distance one and has a normal
        distribution of each class behind it ([Oneata2011]_ sections 4.5, 4.6).
    init : {"auto", "identity", "random", "pca", "lda", "rca", "whiten", "annealing"}, part or \
            array, default="auto"
        The start.  A name, a part with its own parameters (``Random(n_init=10)`` restarts and
        keeps the best), or an array of shape (n_components, n_features) to start from as it is.
        The scale of all others is the best for "log" on a sample.  "auto" is RCA with a shrunk
        within-class scatter (identity for the diagonal map).  "annealing" begins with a map of
        many rows and fades them out one by one ([Oneata2011]_ section 3.3.6): slow, for small d.
    solver : {"auto", "lbfgs", "cg", "bold_driver", "sgd", "momentum", "adam"} or part, \
            default="auto"
        How to descend; parts from :mod:`vicinal.solvers` take parameters.  "auto" is L-BFGS on
        all rows, and on batches Adam, whose rate is set by the start and falls along a cosine.
        "sgd" has the rate :math:`\eta_0 / (t + t_0)`, with t0 searched for on rows held out
        ([Oneata2011]_ section 5.3.2).
    sampling : {"auto", "full", "subsample", "mini_batches", "stochastic"} or part, default="auto"
        Which rows an iteration sees; parts from :mod:`vicinal.samplers` take parameters.  All of
        them; one random subset for the whole fit; batches of rows among themselves, by clusters
        or at random; a few rows against all.  After a subset or batches the scale of the map is
        searched for anew on all rows, which lie denser.  "auto" is "full" as long as that takes
        some 20 s on two cores, and batches of 3,000 random rows beyond.
    pairs : {"auto", "all", "nearest", "random", "tree"} or part, default="auto"
        Which pairs of rows count; parts from :mod:`vicinal.neighbourhoods` take parameters.
        "nearest" and "random" are lists of candidates that are renewed every few iterations
        (``rounds_`` tells what they leave out), "tree" sums far groups of rows at once where that
        pays, within a relative error of each class density.  "auto" is all of them, but for those
        that cannot change a sum in its last bit: late in learning these are most.
    alpha : float, "scaled" or "auto", default=3e-3
        Weight of the squared norm of the map beside the *mean* loss, in scaled features.  It
        keeps the map from growing without end on classes that can be told apart.  "scaled" is
        0.4 D / n, at most 0.1: stronger for many features, weaker for many rows (and times their
        mean variance, where ``scaling`` is None).  "auto" goes down a path from 0.1 to 0, until
        three penalties in turn are clearly worse, and takes the strongest within a standard error
        of the best (after the rank, where that is "auto" too).  Each map goes on from the last or
        from the start, whichever ends lower, and so does the fit.
    scaling : {"standard", "global", None}, default="standard"
        Scaling of the columns before learning, folded into ``components_``.  A column that does
        not vary gets weight zero.
    priors : None, "uniform" or array of shape (n_classes,), default=None
        Class priors of the density view ([Oneata2011]_ section 3.2); None: as in the data.  They
        enter the objective and the posterior, not the votes of ``rule="knn"``.
    rule : {"posterior", "knn"}, default="posterior"
        How to classify: by the probabilities above, or by votes of the nearest training rows.
    n_neighbors : int, "auto" or "local", default=5
        Number of voters of ``rule="knn"``, no more than there are rows (a warning tells); "auto"
        chooses it, up to 50, by leave-one-out on the training rows.  "local" gives each query its
        own: its effective number of neighbours ([Goldberger2005]_ section 6), rounded, as
        :meth:`local_n_neighbors` tells; priors do not enter it.
    early_stopping : bool, default=False
        Hold rows out, score them against the training rows in each iteration, stop when that no
        longer improves, and go back to the best map.  All rows classify afterwards.
    validation_fraction : float, default=0.1
        Share of the rows held out, class by class; two of each class stay to learn from.  With
        batches, a subset, lists or trees 2,000 rows at most.
    n_iter_no_change : int, default=10
        Iterations without improvement before stopping; with batches, scores: held-out rows are
        scored every few steps only, so that this takes no more than a fourth of the time.
    cv : int, splitter or iterable, default=5
        What "auto" judges ``n_components`` and ``alpha`` on, by the accuracy of the ``rule`` on
        rows held out.  An int is a number of folds that take from each class in turn and leave two
        of it; other values are as in scikit-learn, and split the rows that are learnt from.  Each
        fold learns from one start and without early stopping, whose rows no fold sees.
    max_iter : int or "auto", default="auto"
        The most iterations; a `ConvergenceWarning` tells when they did not suffice.  With batches
        an iteration is one step, and so many are made, as with random lists of pairs, unless early
        stopping ends them.  "auto"
        is 200, and 300 with batches.
    tol : float, default=1e-5
        Stop when no entry of the gradient exceeds it, or when the loss falls by less than ``tol``
        times the larger of 1 and itself.
    time_budget : float or None, default=None
        Seconds that ``fit`` may take, roughly: "auto" plans for them, no iteration is begun that
        would end later, and a search gets half of them.  The result then depends on the machine.
    reservoir_size : int, default=10_000
        The most rows that ``partial_fit`` remembers, shared out evenly over the classes.
    warm_start : bool, default=False
        Let ``fit`` go on where the last one stopped, solver memory included: two fits of 50
        iterations end in the same bits as one of 100.  With another scale of the columns, solver
        or map the last ``components_`` are the start, and with another shape ``init`` is.  A search
        is not repeated as long as parameters (but those of stopping and printing), column scales
        and class counts are the same.  On batches a fit that was cut short goes on along its
        schedule, and one after its end begins a new one.
    random_state : int, RandomState or None, default=None
        For random starts, batches, lists, the held-out rows, the folds and the samples that set
        a scale.
    verbose : int, default=0
        Print the plan and its cost beforehand, a line for each iteration, and one for each
        candidate of a search (whose iterations are not printed).

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The map; ``transform(X) = X @ components_.T``.
    n_components_ : int
        Rank of the map.
    alpha_ : float
        The penalty it was learnt with.
    cv_results_ : dict of arrays
        Where something was "auto": all that was tried, in the columns of scikit-learn's searches
        (``params``, ``mean_test_score``, ``split0_test_score``, ...), and the ``stage`` of each,
        "n_components" or "alpha".
    classes_ : ndarray of shape (n_classes,)
        The labels.
    n_iter_ : int
        Iterations made by the last ``fit``, 1 at least; or steps of the stream so far.
    objective_ : float
        The loss at ``components_``, penalty included, of the rows learnt from; of 2,000 of them
        against all where the fit did not look at all pairs; of the last batch in a stream, before
        its step.
    plan_ : Plan
        ``solver`` (None for Adam with a rate set by the start), ``sampling``, ``pairs``,
        ``kernel`` and ``max_iter`` as they were settled, the ``cost`` of an evaluation, and the
        ``reason``.
    rounds_ : dict of lists
        Where something is renewed between rounds of the solver: for each round ``n_pairs``,
        ``mean_left_out`` and ``max_left_out`` (shares of a row's mass that the lists leave out, on
        a sample of rows), and ``beta``, the shares of the backgrounds.
    feature_importances_ : ndarray of shape (n_features,)
        Share of each feature in the metric.
    n_samples_seen_ : int
        Rows that ``partial_fit`` has seen.
    history_ : dict of lists
        ``iteration``, ``loss``, ``grad_norm``, ``validation_score`` (minus the loss of the held-out
        rows, NaN without early stopping), ``seconds``, ``n_evaluations``, ``share_of_pairs``
        (computed one by one).  Of a stream, the steps of the last call.
    effective_n_neighbors_ : ndarray of shape (n_samples,)
        exp of the entropy of each training row's choice: how many neighbours it consults.
        Computed when first asked for; rows of weight zero are left out.
    mean_effective_n_neighbors_ : float
        Their mean.
    n_neighbors_ : int
        Number of voters of ``rule="knn"``.  Computed when first asked for under another rule.
        Under "local", where each query has its own, the median of ``effective_n_neighbors_``,
        rounded.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, where X had string names.

    Notes
    -----
    A row that is the only one of its class has nobody to pick: "log" leaves it out, "accuracy"
    counts it as wrong, either with a warning; it still serves as a neighbour of others.

    References
    ----------
    .. [Goldberger2005] J. Goldberger, S. Roweis, G. Hinton, R. Salakhutdinov, "Neighbourhood
       components analysis", NIPS 17, 2005.
    .. [Oneata2011] D. Oneață, "Fast low-rank metric learning", MSc thesis, University of
       Edinburgh, 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import train_test_split
    >>> from vicinal import NCA
    >>> X, y = load_iris(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)
    >>> model = NCA(n_components=2, random_state=0).fit(X_train, y_train)
    >>> model.transform(X_test).shape
    (38, 2)
    >>> bool(model.score(X_test, y_test) > 0.9)
    True
    """

    _voters: ClassVar[tuple[str, ...]] = ("auto", "local")
    _settled: ClassVar[tuple[str, ...]] = ("objective", "kernel", "priors")

    def __init__(
        self,
        n_components: int | str | None = None,
        *,
        mapping: Any = "linear",
        objective: str = "log",
        kernel: Any = "gaussian",
        init: Any = "auto",
        solver: Any = "auto",
        sampling: Any = "auto",
        pairs: Any = "auto",
        alpha: float | str = 3e-3,
        scaling: str | None = "standard",
        priors: Any = None,
        rule: str = "posterior",
        n_neighbors: int | str = 5,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        cv: Any = 5,
        max_iter: int | str = "auto",
        tol: float = 1e-5,
        time_budget: float | None = None,
        reservoir_size: int = 10_000,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.mapping = mapping
        self.objective = objective
        self.kernel = kernel
        self.init = init
        self.solver = solver
        self.sampling = sampling
        self.pairs = pairs
        self.alpha = alpha
        self.scaling = scaling
        self.priors = priors
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
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> NCA:
        """Learn the map.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows; float32 stays float32.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Importance of each row, as a query and as a neighbour.  Not the same as repeating
            rows: a repeated row would be its own neighbour.  Rows of weight zero are left out.

        Returns
        -------
        self : NCA
        """
        return self._fit(X, y, sample_weight)

    @available_if(can_stream)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> NCA:
        """Learn from the next batch of a stream.

        Each row is a query once, against the rows that are remembered and those of its batch
        ([Oneata2011]_ section 4.3), in steps of at most 500 rows (or the size of a
        ``StochasticQueries``).  Of each class a uniform sample of ``reservoir_size / n_classes``
        rows of the stream so far is remembered; these classify.  The memory a stream takes does
        not grow with its length.

        The first call settles the scaling of the columns (one that does not vary in the first
        batch has weight zero from then on) and the start: let its batch be a large one.  It also
        settles the parameters of the map, the loss, the solver and the memory; changing one of them
        later is an error.  After ``fit`` a stream starts from the learnt map, with nothing
        remembered.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Their labels.
        classes : array-like of shape (n_classes,), default=None
            All classes that the stream may show; needed at the first call, unless they are those
            of a ``fit`` before.
        sample_weight : array-like of shape (n_samples,), default=None
            As in ``fit``.

        Returns
        -------
        self : NCA
        """
        return self._partial_fit(X, y, classes, sample_weight)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number(self, "reservoir_size", 2, integer=True)
        check_option(self, "objective", ("log", "accuracy"))

    def _needs_all_rows(self) -> list[tuple[str, bool, str]]:
        kernel = densities.resolve(self.kernel, type(self).__name__)
        why = "EM needs all rows; use beta='count' or a number"
        return [("kernel", not _learns_beta(kernel), why)]

    def _target(self, codes: Array, weight: Array | None, n_classes: int) -> Labels:
        return Labels(codes, weight, self.priors, classes=np.arange(n_classes))

    def _method(self, data: Data) -> Method:
        name = type(self).__name__
        kernel = densities.resolve(self.kernel, name)
        start = starts.resolve(self.init, name)
        mapping, d = maps.resolve_rank(self, data.n_features, start)
        pairs = None if is_auto(self.pairs) else neighbourhoods.resolve(self.pairs, name)
        _check_kernel(name, kernel, pairs, self.objective)
        return Method(
            name=name,
            objective=NCALoss(self.objective, kernel),
            mapping=mapping,
            n_components=d,
            start=starts.first_map(start, d, name, _scale_objective, _suit),
            features=partial(_features, self.scaling),
            make_model=partial(_make_model, self.n_neighbors),
            solver=solvers.LBFGS(),
            scale_objective=_scale_objective,
            suit=_suit,
            refresh=partial(_refresh, kernel),
            pairs=pairs,
            has_trees=True,
            kernel=kernel,
            n_starts=int(getattr(start, "n_init", 1)),
            alphas=ALPHAS,
            warn_unusable_rows=partial(_warn_unusable_rows, data),
            collapse_warning=collapse_warning,
        )


def _features(scaling: str | None, X: Any, labels: Labels, train: Array | None) -> Features:
    return Features(X, scaling, labels.sample_weight)


def _scale_objective(objective: NCALoss) -> NCALoss:
    """What judges the scale of a map.

    The accuracy of a start is best at a hard nearest neighbour, where its gradient is gone; but a
    kernel that does not reach everywhere has no other objective.
    """
    return replace(objective, kind="log" if _reaches(objective.kernel) else "accuracy")


def _suit(objective: NCALoss, labels: Labels) -> NCALoss:
    """The objective with the shares of the backgrounds for these rows."""
    kernel = objective.kernel
    if not kernel.background:
        return objective
    shares = load("vicinal.extras.background:background_weights")
    return replace(objective, background=shares(labels.counts, kernel.beta))


def _make_model(n_neighbors: Any, Z: Array, labels: Labels, objective: NCALoss) -> NCAModel:
    return NCAModel(Z, labels, n_neighbors, objective.kernel, objective.background)


def _reaches(kernel: Kernel) -> bool:
    """Whether every point has a density, however far it is."""
    return kernel.reaches_everywhere or kernel.background


def _learns_beta(kernel: Kernel) -> bool:
    """Whether the shares of the backgrounds are learnt between rounds of the solver."""
    return kernel.background and kernel.beta == "em"


def _refresh(kernel: Kernel, plan: Plan, rng: np.random.RandomState) -> Refresh | None:
    """Lists of pairs, and shares of the backgrounds, that are refreshed every few iterations."""
    lists = None
    if plan.has_lists:
        searches = plan.solver is not None and plan.solver.needs_fixed_batch
        lists = RefreshLists(plan.pairs, partial(_left_out, kernel), rng, searches)
    if not _learns_beta(kernel):
        return lists
    return load("vicinal.extras.em_refresh:RefreshBackground")(lists, plan.noisy)


def _left_out(
    kernel: Kernel, Z: Array, labels: Labels, pairs: Any, references: Array | None
) -> neighbourhoods.LeftOut:
    """What lists leave out of the sums."""
    mass = reference_masses(labels, references)
    rng = np.random.RandomState(0)
    return mass_left_out(Z, labels.codes, pairs, references, kernel, mass=mass, random_state=rng)


def _warn_unusable_rows(data: Data, labels: Labels, plan: Plan) -> None:
    lonely = np.bincount(labels.codes) < 2
    if labels.priors is not None:
        lonely |= labels.priors == 0.0
    if lonely.any():
        warn(
            "Rows of these classes have no other row of their class to pick, being the only "
            f"one or of prior zero: {data.names(lonely)}. As queries they add nothing to the "
            "objective."
        )


def collapse_warning(Z: Array, problem: Any) -> str | None:
    """A complaint where the penalty has pressed the map to nothing."""
    if not is_collapsed(Z):
        return None
    return (
        f"The penalty alpha={float(np.min(problem.alpha)):g} has pressed the map to nothing: all "
        "rows are in one place, and each consults all others. Decrease 'alpha'."
    )


def _check_kernel(name: str, kernel: Kernel, pairs: Any, objective: str) -> None:
    """Refuse a compact kernel where it does not reach far enough, or is cheap without a tree."""
    if not kernel.reaches_everywhere and pairs is not None and not pairs.makes_lists:
        raise ValueError(
            f"The 'pairs' parameter of {name} must be 'auto', 'all', 'nearest' or 'random' where "
            f"'kernel' is {kernel!r}, of which nothing is left far away. Got {pairs!r} instead."
        )
    if not _reaches(kernel) and objective == "log":
        raise ValueError(
            f"The 'kernel' parameter of {name} must reach everywhere, or have a background, where "
            "'objective' is 'log': a row with nothing in range has probability 0, which has no "
            f"logarithm. Got {kernel!r} instead; objective='accuracy' takes it."
        )
