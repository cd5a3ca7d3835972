"""Maximally collapsing metric learning as an estimator."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.model_selection import BaseCrossValidator

from vicinal import neighborhoods
from vicinal.core.types import (
    Array,
    Auto,
    File,
    ListsName,
    Map,
    MapName,
    MatrixLike,
    Pairs,
    Penalty,
    Sampler,
    SamplerName,
    Scaling,
    Solver,
    SolverName,
    Weights,
    is_auto,
)
from vicinal.estimators import _classifier
from vicinal.estimators._classifier import LabelledLearner
from vicinal.estimators._metric import LearntMetricMixin, feature_importances
from vicinal.fit.method import ALPHAS, Data, Method, method_of, warn_single_rows
from vicinal.fit.report import with_callbacks
from vicinal.models.posterior import NCAModel
from vicinal.neighborhoods import LeftOut, Neighborhood, mass_left_out
from vicinal.neighborhoods.refresh import refresh_lists
from vicinal.objectives import MCMLLoss
from vicinal.starts import Start
from vicinal.targets import Labels
from vicinal.targets.labels import reference_masses


class MCML(LearntMetricMixin, LabelledLearner):
    r"""Maximally collapsing metric learning (MCML): each class at a point, far from the others.

    Each row picks another row at random, with nearer rows more likely.  If all rows of a class were
    at one point, and the classes infinitely far apart, it would pick each of the :math:`N_c - 1`
    other rows of its class with the same probability :math:`p^0_{ij}`, and no other row.  The map A
    is learnt so that the choices come near to that ideal [Globerson2005]_:

    .. math:: p_{ij} = \frac{e^{-\|Ax_i - Ax_j\|^2}}{\sum_{k \ne i} e^{-\|Ax_i - Ax_k\|^2}},
              \qquad \min_A\ \mathrm{mean}_i\, \mathrm{KL}(p^0_i \| p_i) + \alpha\|A\|_F^2 .

    At full rank, ``n_components`` = D, this is a convex problem in the metric
    :math:`M = A^\top A`, penalty included: every start leads to the same metric.  A map of lower
    rank is learnt directly, and may depend on the start.

    :class:`NCA` only asks that some rows of the own class be near, MCML that all of them are: it
    suits classes of one mode, and has little to gain for classes of several.

    Parameters with the same name as those of :class:`NCA` mean the same; its docstring explains
    them in full.  Memory is O(n (D + d)); above 500 rows no n × n array is made.

    Parameters
    ----------
    n_components : int, "auto" or None, default=None
        Rank d of the map.  None: min(D, 32), or the rank of an array ``init``.  "auto" grows it
        from 2 while that helps.
    mapping : {"linear", "diagonal", "periodic"} or map, default="linear"
        A full matrix, one weight for each feature, or a nonlinear map, as in :class:`NCA`.
    init : {"auto", "identity", "random", "pca", "lda", "rca", "whiten", "annealing"}, part or \
            array, default="auto"
        The start; its scale, unless it is an array, is the best one on a sample.
    solver : {"auto", "lbfgs", "cg", "bold_driver", "adaptive", "projected", "momentum", "adam", \
            "sgd"} or part, default="auto"
        The optimiser: "auto" is L-BFGS on all rows, Adam on batches.
    sampling : {"auto", "full", "subsample", "mini_batches", "stochastic"} or part, default="auto"
        Which rows an iteration uses.  "auto" is "full" where that takes up to about 20 s on two
        cores, and batches of 3,000 random rows otherwise.
    neighborhood : {"auto", "all", "nearest", "random", "tree"} or part, default="auto"
        Which rows each row may pick, for the sum over all classes; the attraction within the class
        needs no pairs and is always exact.  Lists of near rows have to be long: until the classes
        are apart, far rows have most of the probability (``rounds_`` shows what is left out).
    alpha : float, "auto" or "scaled", default=0.0
        Weight of the squared norm of the map relative to the mean loss.  The loss itself keeps the
        map bounded unless some direction does not vary within any class, as when there are fewer
        rows than features; then use "auto", which chooses a penalty by cross-validation.
    scaling : {"standard", "global", None}, default="standard"
        Scaling of the columns before learning, folded into ``components_``, without outliers.
        Without a penalty it changes neither the loss nor the best full-rank metric.
    rule : {"posterior", "knn", "draw"}, default="knn"
        How to classify: by a vote of the nearest training rows, by the total probability
        (posterior) of each class among the rows that may be picked, or at random with those
        probabilities, as in :class:`NCA`.  The probabilities of MCML are spread over whole classes,
        so that a vote of the nearest rows is usually better.
    n_neighbors : int, "auto" or "local", default=5
        Number of voters of ``rule="knn"``, as in :class:`NCA`.
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
    loss_ : float
        The mean divergence of the training rows at the learnt map, penalty included; of a sample of
        them if the fit did not use all pairs.
    n_components_, alpha_, cv_results_, classes_, n_iter_, plan_, rounds_, history_, \
            feature_importances_, n_neighbors_, n_features_in_, feature_names_in_
        As in :class:`NCA`.

    Notes
    -----
    A row that is the only one of its class has no ideal to come near to: it is left out of the
    loss, with a warning, but other rows may still pick it.

    References
    ----------
    .. [Globerson2005] A. Globerson, S. Roweis, "Metric learning by collapsing classes", NIPS 18,
       2005.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import train_test_split
    >>> from vicinal import MCML
    >>> X, y = load_wine(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)
    >>> model = MCML(n_components=2).fit(X_train, y_train)
    >>> model.transform(X_test).shape
    (45, 2)
    >>> bool(model.score(X_test, y_test) > 0.9)
    True
    """

    _voters: ClassVar[tuple[str, ...]] = ("auto", "local")
    _model: NCAModel
    feature_importances_ = property(feature_importances)
    effective_n_neighbors = _classifier.effective_n_neighbors
    local_n_neighbors = _classifier.local_n_neighbors

    def __init__(
        self,
        n_components: int | Auto | None = None,
        *,
        mapping: MapName | Map = "linear",
        init: str | Start | ArrayLike = "auto",
        solver: SolverName | Solver = "auto",
        sampling: SamplerName | Sampler = "auto",
        neighborhood: ListsName | Literal["tree"] | Neighborhood = "auto",
        alpha: Penalty = 0.0,
        scaling: Scaling = "standard",
        rule: Literal["posterior", "knn", "draw"] = "knn",
        n_neighbors: int | Literal["auto", "local"] = 5,
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

    @with_callbacks
    def fit(
        self,
        X: MatrixLike,
        y: ArrayLike,
        sample_weight: Weights = None,
        *,
        resume_from: File | None = None,
    ) -> Self:
        """Learn the map.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows; float32 stays float32.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Importance of each row, as a query and as a neighbour.  This is not the same as
            repeating rows: a repeated row would be its own neighbour.  Rows of weight zero are left
            out.
        resume_from : path, default=None
            A file of :class:`vicinal.callbacks.Checkpoint`: complete the fit that it holds.  Rows
            and parameters must be the same; only ``verbose``, ``time_budget`` and
            ``n_jobs`` may differ.

        Returns
        -------
        self : MCML
        """
        return self._fit(X, y, sample_weight, resume_from=resume_from)

    def _method(self, data: Data) -> Method:
        name = type(self).__name__
        return method_of(
            self,
            data,
            MCMLLoss(),
            make_model=partial(_make_model, self.n_neighbors),
            refresh=partial(refresh_lists, _left_out),
            neighborhood=(
                None
                if is_auto(self.neighborhood)
                else neighborhoods.resolve(self.neighborhood, name)
            ),
            has_trees=True,
            alphas=ALPHAS,
            warn_unusable_rows=partial(warn_single_rows, data),
        )


def _make_model(
    n_neighbors: int | str | None, Z: Array, labels: Labels, objective: MCMLLoss
) -> NCAModel:
    return NCAModel(Z, labels, n_neighbors)


def _left_out(Z: Array, labels: Labels, pairs: Pairs, references: Array | None) -> LeftOut:
    """The share of the sums that the lists leave out."""
    mass = reference_masses(labels, references)
    rng = np.random.RandomState(0)
    return mass_left_out(Z, labels.codes, pairs, references, mass=mass, random_state=rng)
