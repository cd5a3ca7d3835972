"""Neighbourhood components analysis as an estimator."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from vicinal import densities
from vicinal._features import BENDING_SCALINGS
from vicinal._validation import check_number, check_option, check_weights, shaped
from vicinal.core.types import (
    Array,
    Auto,
    File,
    KernelName,
    ListsName,
    Map,
    MapName,
    MatrixLike,
    Penalty,
    Sampler,
    SamplerName,
    Scaling,
    Solver,
    SolverName,
    Weights,
)
from vicinal.densities import Kernel
from vicinal.estimators import _classifier
from vicinal.estimators._classifier import LabelledLearner
from vicinal.estimators._metric import LearntMetricMixin, feature_importances
from vicinal.estimators._nca import (
    check_labels,
    is_matrix,
    learns_beta,
    nca_method,
    soft_data,
    soft_rows,
    soft_scores,
)
from vicinal.fit.cost import Cost, Size
from vicinal.fit.method import Data, Method
from vicinal.fit.report import with_callbacks
from vicinal.fit.stream import StreamRules, can_stream, learn_batch
from vicinal.neighborhoods import Neighborhood
from vicinal.starts import Start
from vicinal.targets import Labels, Matches
from vicinal.targets.labels import check_priors


def _needs_all_rows(estimator: NCA) -> list[tuple[str, bool, str]]:
    kernel = densities.resolve(estimator.kernel, type(estimator).__name__)
    why = "learning 'beta' needs all rows; use beta='count' or a number"
    return [("kernel", not learns_beta(kernel), why)]


_STREAM = StreamRules(("objective", "kernel", "priors"), needs_all_rows=_needs_all_rows)


class NCA(LearntMetricMixin, LabelledLearner):
    r"""Neighbourhood components analysis (NCA): a metric, a classifier and a picture from labels.

    Each row picks another row at random, with nearer rows more likely, and takes its label.  The
    map A is learnt so that this label is right as often as possible [Goldberger2005]_:

    .. math:: p_{ij} = \frac{e^{-\|Ax_i - Ax_j\|^2}}{\sum_{k \ne i} e^{-\|Ax_i - Ax_k\|^2}},
              \qquad p_i = \sum_{j : y_j = y_i} p_{ij},
              \qquad \min_A\ \mathrm{mean}_i\,(-\log p_i \text{ or } -p_i) + \alpha\|A\|_F^2 .

    In place of labels, :meth:`fit` takes label distributions :math:`t_i`, or any degrees
    :math:`m_{ij}` to which rows match: then :math:`p_i = \sum_j m_{ij} p_{ij}`, with
    :math:`m_{ij} = \sum_c t_{ic} t_{jc}` for distributions ([Goldberger2005]_ section 5).

    Memory is O(n (D + d)); above 500 rows no n × n array is made.  All cores are used, and their
    number does not change the result.  Up to about 12,000 (d = 32) or 26,000 (d = 2) rows every
    iteration uses all rows; above that, and for nonlinear maps, batches are used (``plan_`` says
    which, and why).

    Parameters
    ----------
    n_components : int, "auto" or None, default=None
        Rank d of the map, at most the number of features D if it is linear.  None: min(D, 32), or
        the rank of ``init`` if that is an array.  Use 2 for a picture.  "auto" grows the rank from
        2, up to the default, until the accuracy on held-out rows no longer improves, and takes the
        lowest rank within a standard error of the best ([Oneata2011]_ section 5.3).
        If ``alpha`` is "auto" too, the rank of a matrix is chosen at ``alpha=3e-3``.  A diagonal
        map has D components; another number gives a warning.
    mapping : {"linear", "diagonal", "periodic"} or map, default="linear"
        A full matrix, or one weight for each feature ([Goldberger2005]_ section 4).  Or a map that
        bends ([Goldberger2005]_ section 5): "periodic" learns features of each column in front of
        a matrix; :class:`vicinal.maps.MLP` is a network, :class:`vicinal.maps.TorchMap` a module of
        torch.  A map of your own has ``forward(theta, X, dtype)``: see
        :class:`vicinal.core.types.Map`.
    objective : {"log", "accuracy"}, default="log"
        Mean log-probability of the right class (eq. 6) or expected accuracy (eq. 3).
    kernel : {"gaussian", "student", "laplace", "compact"} or part, default="gaussian"
        Replaces :math:`e^{-d^2}`; objects from :mod:`vicinal.densities` take parameters.
        "student" has a heavy tail; "laplace" is :math:`e^{-d}` ([Ye2024]_); "compact" ends at
        distance one and gives each class a normal distribution as background ([Oneata2011]_
        sections 4.5, 4.6).
    init : {"auto", "identity", "random", "pca", "lda", "rca", "whiten", "annealing"}, part or \
            array, default="auto"
        The start: a name, an object with parameters (``Random(n_init=10)`` restarts and keeps
        the best), or an array of shape (n_components, n_features), which is used as given.  The
        scale of all other starts is the best one for "log" on a sample.  With the kernel "compact"
        it is that of the Gaussian kernel times :math:`\sqrt{2 / (d + 6)}`; without backgrounds it
        is the best one for "accuracy".  "auto" is RCA with a shrunk within-class scatter (identity
        for the diagonal map).  A nonlinear map starts as the linear one; without a linear part, as
        a matrix of its last layer.  "annealing" begins with a map of many rows and fades them out
        one by one ([Oneata2011]_ section 3.3.6): slow, for small d and matrices only.
    solver : {"auto", "lbfgs", "cg", "bold_driver", "adaptive", "projected", "momentum", "adam", \
            "sgd"} or part, default="auto"
        The optimiser; objects from :mod:`vicinal.solvers` take parameters.  "auto" is L-BFGS on
        all rows, and Adam on batches, with a rate that is set by the start and falls along a
        cosine; on all rows, a nonlinear map gets Adam with a rate of 0.01.  "sgd" has the rate
        :math:`\eta_0 / (t + t_0)`, with t0 found on held-out rows ([Oneata2011]_ section 5.3.2).
    sampling : {"auto", "full", "subsample", "mini_batches", "stochastic"} or part, default="auto"
        Which rows an iteration uses; objects from :mod:`vicinal.samplers` take parameters.  "full":
        all rows.  "subsample": one random subset for the whole fit.  "mini_batches": batches,
        clustered or random, in which rows pick each other.  "stochastic": a few rows against all.
        After a subset or batches the scale of the map is searched for again on all rows, which are
        denser.  "auto" is "full" where that takes up to about 20 s on two cores, and batches of
        3,000 random rows otherwise; "stochastic" if these would hold fewer than two rows a class.
        Noisy tables get batches from 3,000 rows on, where others get all rows: see ``alpha``.
        For a nonlinear map, "auto" is batches of a quarter of the rows, from 64 to 1,024.
    neighborhood : {"auto", "all", "nearest", "random", "tree"} or part, default="auto"
        Which pairs of rows count; objects from :mod:`vicinal.neighborhoods` take parameters.
        "nearest" and "random" are lists of candidates, refreshed every few iterations (``rounds_``
        shows what they leave out).  "tree" sums far groups of rows at once where that is faster,
        within a relative error of each class density.  "auto" is "all", which skips pairs that
        cannot change the last bit of a sum; there are more of them as the map grows.
    alpha : float, "auto" or "scaled", default="auto"
        Weight of the squared norm of the map relative to the *mean* loss, in scaled features.  It
        keeps the map from growing without limit on separable classes, and from over-fitting.
        "scaled" is 0.4 D / n, at most 0.1: stronger for many features, weaker for many rows.
        "auto" is "scaled" for most tables, and four times that for noisy ones, with useless columns
        or wrong labels.  It learns from half of at most 2,000 rows, twice and coarsely, and takes
        the stronger penalty if the classes of the other half are more probable under it, or right
        more often, by more than a standard error; ``plan_`` says what it chose.  From 3,000 rows
        on, a noisy table is learnt on batches of 1,000.  With a ``cv``, with label distributions or
        matches, and with another kernel or objective than the default, "auto" is a search: it tries
        five penalties from 0.1 down to 0.001 by cross-validation (with the kernel "laplace" seven,
        down to 0.0001), stops when two in a row are clearly worse, and takes the strongest within
        half a standard error of the best.  The rank is chosen first, if that is "auto" too.  A
        stream and classes of fewer than three rows get 0.003, and a nonlinear map gets one over the
        number of rows, between 0.0001 and 0.01.  Penalties that are not numbers are multiplied by
        the mean variance of the features unless ``scaling`` is "standard".
    scaling : {"standard", "global", None}, default="standard"
        Scaling of the columns before learning, folded into ``components_``: each by its standard
        deviation, or all by one number.  Constant columns get weight zero.  If up to 5 % of the
        rows have nearly all (24/25) of the squared deviations of a column, they are outliers:
        they do not count in its deviation, and beyond six deviations they are moved to that limit
        for learning and prediction, but not in ``transform``.
    priors : None, "uniform" or array of shape (n_classes,), default=None
        Class priors of the density view ([Oneata2011]_ section 3.2); None: as in the data.  They
        enter the objective and the posterior, not the votes of ``rule="knn"``.
    rule : {"posterior", "knn", "draw"}, default="posterior"
        How to classify: by the probabilities above, or by a vote of the nearest training rows.
        "draw" is the stochastic rule that is learnt ([Goldberger2005]_ section 6): a row draws a
        training row, with the probabilities above and by ``random_state``, and takes its class; its
        expected accuracy is the mean probability of the right class.
    n_neighbors : int, "auto" or "local", default=5
        Number of voters of ``rule="knn"``, limited with a warning to the number of rows.  "auto"
        chooses it, up to 50, by leave-one-out on the training rows.  "local" gives each query its
        own k: its effective number of neighbours ([Goldberger2005]_ section 6), rounded, as
        returned by :meth:`local_n_neighbors`; priors have no influence on it.
    early_stopping : bool, default=False
        Hold rows out, score them against the training rows in each iteration, stop when the score
        no longer improves, and restore the best map.  Prediction then uses all rows.
    validation_fraction : float, default=0.1
        Share of the rows held out from each class; at least two rows of a class are kept for
        training.  At most 2,000 rows with batches, a subset, lists or trees.
    n_iter_no_change : int, default=10
        Number of iterations without improvement before stopping.  With batches, number of scores:
        held-out rows are then scored only every few steps, so that scoring takes at most a quarter
        of the time.
    cv : int, splitter, iterable or None, default=None
        Cross-validation by which "auto" chooses ``n_components`` and ``alpha``; the score is the
        accuracy of the ``rule`` on held-out rows.  An int is a number of stratified folds that
        leave at least two rows of each class for training; None: five, or fewer if there are
        not enough rows, but for ``alpha`` only one split of two halves, see there.  Other values
        are as in scikit-learn, and split all training rows, however many there are.  Each fold
        uses one start and no early stopping; rows held out for early stopping are in no fold.
    max_iter : int or "auto", default="auto"
        Maximum number of iterations; a `ConvergenceWarning` says if they were too few.  With
        batches an iteration is one step; then, as with random lists of pairs, all of them are made
        unless early stopping ends the fit.  "auto" is 200, 300 with batches, or 150 with those of
        a noisy table.
    tol : float or None, default=1e-5
        Stop when no entry of the gradient exceeds ``tol``, or when the loss falls by less than
        ``tol`` times the larger of 1 and the loss.  None: no tolerance; all iterations are made, as
        with scikit-learn's SGD, unless the solver finds no lower loss at all.
    time_budget : float or None, default=None
        Limit in seconds for ``fit`` as a whole, compilation, start and final loss included, kept
        to a tenth once the first evaluation is made: "auto" plans for it, no evaluation is begun
        that would end too late, and a search gets half of it.  If time is short, the scale and the
        final loss are computed from fewer rows, or a warning says what was left out.  The result
        then depends on the machine.
    reservoir_size : int, default=10_000
        Maximum number of rows that ``partial_fit`` remembers, divided evenly among the classes.
    warm_start : bool, default=False
        Let ``fit`` continue where the last one stopped, including the state of the solver.  A fit
        that was cut by a callback, Ctrl-C or a time budget, or that has left only a checkpoint,
        is completed, and ends in the same bits as if it had not been cut.  A fit that had ended
        makes another ``max_iter`` iterations: two fits of 50 end in the same bits as one of 100
        (on batches, a new schedule begins).  If the column scales, the solver or the map have
        changed, the fit starts from the last map; if its kind or shape has changed, from
        ``init``.  A search is not repeated while parameters (except those of stopping and
        printing), column scales and class counts are the same.
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
        Print the plan and its cost beforehand, a line for each iteration, and a line for each
        candidate of a search (but not its iterations).

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The map; ``transform(X) = X @ components_.T``.  Nonlinear maps have none.
    n_components_ : int
        Rank of the map.
    alpha_ : float
        The penalty that was used.
    cv_results_ : dict of arrays
        If a parameter was "auto": everything that was tried, and its accuracy on held-out rows, in
        the columns of scikit-learn's searches (``params``, ``mean_test_score``,
        ``split0_test_score``, ...), and the ``stage`` of each candidate, "n_components" or "alpha".
    classes_ : ndarray of shape (n_classes,)
        The labels; for label distributions, the numbers of their columns, or their names if y was a
        data frame.  Matches have no classes: after a fit to them there is neither this attribute
        nor ``predict``.
    n_iter_ : int
        Iterations of the last ``fit``, at least 1; or steps of the stream so far.
    loss_ : float
        The loss of the training rows at the learnt map, penalty included.  If the fit did not use
        all pairs, the loss of 2,000 rows against all, and of 100 or more if ``time_budget`` leaves
        no time for that; in a stream, that of the rows of the last step, before it was made.
    plan_ : Plan
        The chosen ``solver`` (None for Adam with a rate set by the start), ``sampling``,
        ``neighborhood``, ``kernel`` and ``max_iter``, the ``cost`` of an evaluation, and the
        ``reason``.
    rounds_ : dict of lists
        If lists or backgrounds are refreshed during the fit, one entry for each refresh:
        ``n_pairs``, ``mean_left_out`` and ``max_left_out`` (shares of a row's mass that the lists
        leave out, on a sample of rows), and ``beta``, the shares of the backgrounds.
    background_ : ndarray of shape (n_classes,) or None
        Share of the background in the density of each class; None for a kernel without one.
    feature_importances_ : ndarray of shape (n_features,)
        Share of each feature in the metric, for any map.
    n_samples_seen_ : int
        Number of rows that ``partial_fit`` has seen.
    history_ : dict of lists
        ``iteration``, ``loss``, ``grad_norm``, ``validation_score`` (minus the loss of the held-out
        rows, NaN without early stopping), ``seconds``, ``n_evaluations``, ``share_of_pairs``
        (share of pairs computed one by one).  For a stream, the steps of the last call.
    n_neighbors_ : int
        Number of voters of ``rule="knn"``.  If ``n_neighbors`` is "auto" it exists once it has been
        chosen, by a fit or a prediction under that rule; if "local", where each query has its own,
        it does not exist.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X had string names.

    Notes
    -----
    A row that is the only one of its class has no row to pick: "log" leaves it out, "accuracy"
    counts it as wrong, both with a warning; it still serves as a neighbour of other rows.  The same
    holds for a row without any match.

    Label distributions predict the mean distribution of a row's picks.  Compact kernels,
    backgrounds, ``priors``, trees, random lists and ``partial_fit`` are for class labels alone.

    References
    ----------
    .. [Goldberger2005] J. Goldberger, S. Roweis, G. Hinton, R. Salakhutdinov, "Neighbourhood
       components analysis", NIPS 17, 2005.
    .. [Oneata2011] D. Oneață, "Fast low-rank metric learning", MSc thesis, University of
       Edinburgh, 2011.
    .. [Ye2024] H.-J. Ye, H.-H. Yin, D.-C. Zhan, W.-L. Chao, "Revisiting nearest neighbor for
       tabular data: a deep tabular baseline two decades later", arXiv:2407.03257, 2024.

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
    _scalings = BENDING_SCALINGS
    _model: Any
    feature_importances_ = property(feature_importances)
    effective_n_neighbors = _classifier.effective_n_neighbors
    local_n_neighbors = _classifier.local_n_neighbors

    def __init__(
        self,
        n_components: int | Auto | None = None,
        *,
        mapping: MapName | Map = "linear",
        objective: Literal["log", "accuracy"] = "log",
        kernel: KernelName | Literal["compact"] | Kernel = "gaussian",
        init: str | Start | ArrayLike = "auto",
        solver: SolverName | Solver = "auto",
        sampling: SamplerName | Sampler = "auto",
        neighborhood: ListsName | Literal["tree"] | Neighborhood = "auto",
        alpha: Penalty = "auto",
        scaling: Scaling = "standard",
        priors: str | ArrayLike | None = None,
        rule: Literal["posterior", "knn", "draw"] = "posterior",
        n_neighbors: int | Literal["auto", "local"] = 5,
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
        self.mapping = mapping
        self.objective = objective
        self.kernel = kernel
        self.init = init
        self.solver = solver
        self.sampling = sampling
        self.neighborhood = neighborhood
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
        self.n_jobs = n_jobs
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    def fit(
        self,
        X: MatrixLike,
        y: ArrayLike | None = None,
        sample_weight: Weights = None,
        *,
        matches: MatrixLike | None = None,
        resume_from: File | None = None,
    ) -> Self:
        """Learn the map.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows; float32 stays float32.
        y : array-like of shape (n_samples,) or (n_samples, n_classes), default=None
            Class labels; or for each row the probabilities of two or more classes, not negative
            and summing to one.  Needed unless there are ``matches``.
        sample_weight : array-like of shape (n_samples,), default=None
            Importance of each row, as a query and as a neighbour.  This is not the same as
            repeating rows: a repeated row would be its own neighbour.  Rows of weight zero are left
            out.
        matches : {sparse matrix, array-like} of shape (n_samples, n_samples), default=None
            In place of y: how right it is that row i picks row j, from 0 to 1.  The diagonal is
            ignored; it need not be symmetric.  scikit-learn's cross-validation takes some rows of
            it, but not the same columns: use ``cv``, which takes both.
        resume_from : path, default=None
            A file of :class:`vicinal.callbacks.Checkpoint`: complete the fit that it holds.  Rows
            and parameters must be the same; only ``verbose``, ``time_budget`` and
            ``n_jobs`` may differ.

        Returns
        -------
        self : NCA
        """
        return self._fit(X, y, sample_weight, matches=matches, resume_from=resume_from)

    @available_if(partial(can_stream, _STREAM))
    def partial_fit(
        self,
        X: MatrixLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: Weights = None,
    ) -> Self:
        """Learn from the next batch of a stream.

        Each row is a query once, against the remembered rows and those of its step
        ([Oneata2011]_ section 4.3); a step has at most 200 rows (or the size of a
        ``StochasticQueries``).  For each class, a uniform sample of ``reservoir_size / n_classes``
        rows of the stream so far is remembered; prediction uses these rows.  Memory does not grow
        with the length of the stream.

        The first call fixes the scaling of the columns (a column that is constant in the first
        batch has weight zero from then on) and learns a first map by at most 50 iterations on up
        to 1,000 of its rows, unless ``init`` is an array or the map bends; so its batch should be
        large.  It also fixes the parameters of the map, the loss, the solver and the memory;
        changing one of them later is an error.  After ``fit`` a stream starts from the learnt map,
        with no rows remembered.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Class labels.
        classes : array-like of shape (n_classes,), default=None
            All classes that may occur in the stream; required at the first call, unless an earlier
            ``fit`` has set them.
        sample_weight : array-like of shape (n_samples,), default=None
            As in ``fit``.

        Returns
        -------
        self : NCA
        """
        check_labels(y, f"{type(self).__name__}.partial_fit")
        learn_batch(_STREAM, self, X, y, classes, sample_weight)
        return self

    def score(
        self,
        X: MatrixLike,
        y: ArrayLike | None = None,
        sample_weight: Weights = None,
        *,
        matches: MatrixLike | None = None,
    ) -> float:
        r"""The accuracy of ``predict``, or the share of matches.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, all treated as new: a training row may pick itself.
        y : array-like of shape (n_samples,) or (n_samples, n_classes), default=None
            Labels, or label distributions with columns in the order of ``classes_``.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row on average.
        matches : {sparse matrix, array-like} of shape (n_samples, n_training_samples), default=None
            After a fit to matches: how right it is that a row of X picks a row of the X of ``fit``.

        Returns
        -------
        score : float
            For labels, the mean accuracy; for distributions, the mean probability of the predicted
            class; for matches, the mean of :math:`\sum_j m_{ij} p_{ij}`, or under ``rule="knn"``
            that of the matches with the nearest training rows.
        """
        found = soft_scores(self, X, y, matches)
        if found is None:
            return float(super().score(X, y, sample_weight))
        return float(np.average(found, weights=check_weights(sample_weight, len(found))))

    def estimate_cost(
        self, X: MatrixLike, y: ArrayLike | None = None, *, matches: MatrixLike | None = None
    ) -> Cost:
        """Estimate the memory and time of a fit to X without starting it.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_classes), default=None
            Class labels or label distributions.  None stands for ten classes.
        matches : {sparse matrix, array-like} of shape (n_samples, n_samples), default=None
            In place of y.

        Returns
        -------
        cost : Cost
            ``memory_bytes`` beyond the input and approximate ``seconds_per_evaluation``; a fit
            needs one to two evaluations per iteration.

        Notes
        -----
        Memory is the peak, usually within a factor of two; time is rough.
        """
        if matches is None and not (y is not None and is_matrix(y)):
            return super().estimate_cost(X, y)
        return self._cost(soft_data(self, shaped(X), y, matches))

    @property
    def background_(self) -> Array | None:
        """Share of the background in the density of each class; None for a kernel without one."""
        check_is_fitted(self, "n_components_")
        return self._model.background

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number(self, "reservoir_size", 2, integer=True)
        check_option(self, "objective", ("log", "accuracy"))

    def _check_data(
        self,
        X: MatrixLike,
        y: ArrayLike | None,
        sample_weight: Weights,
        matches: MatrixLike | None = None,
    ) -> Data:
        if matches is None and not is_matrix(y):
            return super()._check_data(X, y, sample_weight)
        data, self._rows = soft_rows(self, X, y, sample_weight, matches)
        self._forget("classes_")
        if data.classes is not None:
            self.classes_ = data.classes
        return data

    def _size(self, data: Data, method: Method, given: MatrixLike) -> Size:
        size = super()._size(data, method, given)
        return size._replace(brings_matches=isinstance(data.target, Matches))

    def _target(self, codes: Array, weight: Array | None, n_classes: int) -> Labels:
        check_priors(self.priors, n_classes, type(self).__name__)
        return Labels(codes, weight, self.priors, classes=np.arange(n_classes))

    def _method(self, data: Data) -> Method:
        return nca_method(self, data)
