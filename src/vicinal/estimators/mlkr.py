"""Metric learning for kernel regression as an estimator."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.model_selection import BaseCrossValidator

from vicinal.core.types import (
    Auto,
    KernelName,
    ListsName,
    Map,
    MapName,
    Penalty,
    Sampler,
    SamplerName,
    Scaling,
    Solver,
    SolverName,
)
from vicinal.densities import Kernel
from vicinal.estimators._regressor import RegressionLearner
from vicinal.neighborhoods import Neighborhood
from vicinal.objectives import MLKRLoss
from vicinal.starts import Start


class MLKR(RegressionLearner):
    r"""Metric learning for kernel regression (MLKR): near rows have near numbers.

    Each row is predicted by the mean of all others, nearer ones with more weight.  The map A is
    learnt so that the squared error of this prediction is as small as possible [Weinberger2007]_:

    .. math:: p_{ij} = \frac{e^{-\|Ax_i - Ax_j\|^2}}{\sum_{k \ne i} e^{-\|Ax_i - Ax_k\|^2}},
              \qquad \hat y_i = \sum_j p_{ij} y_j,
              \qquad \min_A\ \mathrm{mean}_i\,\|y_i - \hat y_i\|^2 + \alpha\|A\|_F^2 .

    During the fit each output of y is centred and divided by its standard deviation and by the root
    of the number of outputs: they count alike, and the loss of the training rows is 1 - R² of each
    row predicted by the others.  Predictions are in the units of y.

    Memory is O(n (D + d)); above 500 rows no n × n array is made.  All cores are used, and their
    number does not change the result.  Parameters that :class:`NCA` has too mean the same there.

    Parameters
    ----------
    n_components : int, "auto" or None, default=None
        Rank d of the map, at most the number of features D if it is linear.  None: min(D, 32), or
        the rank of ``init`` if that is an array.  Use 2 for a picture.  "auto" grows the rank from
        2, up to the default, until R² on held-out rows no longer improves, and takes the lowest
        rank within a standard error of the best.
    mapping : {"linear", "diagonal", "periodic"} or map, default="linear"
        A full matrix, one weight for each feature, or a nonlinear map, as in :class:`NCA`.
    kernel : {"gaussian", "student", "laplace"} or part, default="gaussian"
        Replaces :math:`e^{-d^2}`; "student" has a heavy tail, "laplace" is :math:`e^{-d}`.
    init : {"auto", "identity", "random", "pca", "whiten"}, part or array, default="auto"
        The start: a name, an object with parameters (``Random(n_init=10)`` restarts and keeps the
        best), or an array of shape (n_components, n_features), which is used as given.  The scale
        of all other starts is the best one on a sample.  "auto" is PCA without whitening
        (identity for the diagonal map).
    solver : {"auto", "lbfgs", "cg", "bold_driver", "adaptive", "projected", "momentum", "adam", \
            "sgd"} or part, default="auto"
        The optimiser, as in :class:`NCA`: L-BFGS on all rows, and Adam on batches.
    sampling : {"auto", "full", "subsample", "mini_batches", "stochastic"} or part, default="auto"
        Which rows an iteration uses, as in :class:`NCA`: all, one random subset, batches in which
        rows pick each other, or a few rows against all.  "auto" is "full" where that takes up to
        about 20 s on two cores, and batches of 3,000 random rows otherwise.
    neighborhood : {"auto", "all", "nearest", "random"} or part, default="auto"
        Which pairs of rows count, as in :class:`NCA`: all ("auto"), or lists of candidates that are
        refreshed every few iterations.
    alpha : float, "auto" or "scaled", default="auto"
        Weight of the squared norm of the map relative to the *mean* loss, in scaled features.
        "auto" tries seven penalties from 0.1 down to 0.0001 by cross-validation, as :class:`NCA`.
        "scaled" is 0.4 D / n, at most 0.1.  Penalties that are not numbers are multiplied by the
        mean variance of the features unless ``scaling`` is "standard".
    scaling : {"standard", "global", None}, default="standard"
        Scaling of the columns before learning, folded into ``components_``, as in :class:`NCA`.
    rule : {"kernel", "knn"}, default="kernel"
        How to predict: by the mean of all training rows, weighted by the kernel, or by the mean of
        the nearest ones.
    n_neighbors : int or "auto", default=5
        Number of neighbours of ``rule="knn"``, limited with a warning to the number of rows.
        "auto" chooses it, up to 50, by the squared error of each training row as predicted by the
        others.
    early_stopping : bool, default=False
        Hold rows out, score them against the training rows in each iteration, stop when the score
        no longer improves, and restore the best map.  Prediction then uses all rows.
    validation_fraction : float, default=0.1
        Share of the rows held out.  At most 2,000 rows with batches, a subset or lists.
    n_iter_no_change : int, default=10
        Number of iterations without improvement before stopping.  With batches, number of scores.
    cv : int, splitter, iterable or None, default=None
        Cross-validation by which "auto" chooses ``n_components`` and ``alpha``; the score is R² of
        the ``rule`` on held-out rows.  None is five folds.  As in :class:`NCA`.
    max_iter : int or "auto", default="auto"
        Maximum number of iterations; a `ConvergenceWarning` says if they were too few.  With
        batches an iteration is one step.  "auto" is 200, or 300 with batches.
    tol : float or None, default=1e-5
        Stop when no entry of the gradient exceeds ``tol``, or when the loss falls by less than
        ``tol``.  None: no tolerance; all iterations are made.
    time_budget : float or None, default=None
        Limit in seconds for ``fit`` as a whole, as in :class:`NCA`.
    warm_start : bool, default=False
        Let ``fit`` continue where the last one stopped, including the state of the solver, as in
        :class:`NCA`: a fit that was cut ends in the same bits as if it had not been cut.
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
        candidate of a search.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The map; ``transform(X) = X @ components_.T``.  Nonlinear maps have none.
    n_components_ : int
        Rank of the map.
    alpha_ : float
        The penalty that was used.
    cv_results_ : dict of arrays
        If a parameter was "auto": everything that was tried, in the columns of scikit-learn's
        searches, and the ``stage`` of each candidate, "n_components" or "alpha".
    n_iter_ : int
        Iterations of the last ``fit``, at least 1.
    loss_ : float
        The loss of the training rows at the learnt map, penalty included.  If the fit did not use
        all pairs, the loss of 2,000 rows against all.
    plan_ : Plan
        The chosen ``solver``, ``sampling``, ``neighborhood``, ``kernel`` and ``max_iter``, the
        ``cost`` of an evaluation, and the ``reason``.
    rounds_ : dict of lists
        If lists are refreshed during the fit, one entry for each refresh: ``n_pairs``,
        ``mean_left_out`` and ``max_left_out``.
    feature_importances_ : ndarray of shape (n_features,)
        Share of each feature in the metric, for any map.
    history_ : dict of lists
        ``iteration``, ``loss``, ``grad_norm``, ``validation_score`` (minus the loss of the held-out
        rows, NaN without early stopping), ``seconds``, ``n_evaluations``, ``share_of_pairs``.
    n_neighbors_ : int
        Number of neighbours of ``rule="knn"``.  If ``n_neighbors`` is "auto" it exists once it has
        been chosen, by a fit or a prediction under that rule.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X had string names.

    References
    ----------
    .. [Weinberger2007] K. Q. Weinberger, G. Tesauro, "Metric learning for kernel regression",
       AISTATS, 2007.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from sklearn.model_selection import train_test_split
    >>> from vicinal import MLKR
    >>> X, y = make_friedman1(n_samples=200, random_state=0)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> model = MLKR(alpha=1e-3, random_state=0).fit(X_train, y_train)
    >>> model.predict(X_test).shape
    (50,)
    >>> bool(model.score(X_test, y_test) > 0.6)
    True
    """

    def __init__(
        self,
        n_components: int | Auto | None = None,
        *,
        mapping: MapName | Map = "linear",
        kernel: KernelName | Kernel = "gaussian",
        init: str | Start | ArrayLike = "auto",
        solver: SolverName | Solver = "auto",
        sampling: SamplerName | Sampler = "auto",
        neighborhood: ListsName | Neighborhood = "auto",
        alpha: Penalty = "auto",
        scaling: Scaling = "standard",
        rule: Literal["kernel", "knn"] = "kernel",
        n_neighbors: int | Auto = 5,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        cv: int | BaseCrossValidator | Iterable | None = None,
        max_iter: int | Auto = "auto",
        tol: float | None = 1e-5,
        time_budget: float | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        device: str | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.mapping = mapping
        self.kernel = kernel
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
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def _objective(self, kernel: Kernel) -> MLKRLoss:
        return MLKRLoss(kernel=kernel)
