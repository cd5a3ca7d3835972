"""Neighbourhood components analysis for numbers as an estimator."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import KDTree
from scipy.spatial.distance import pdist
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils.validation import check_is_fitted

from vicinal._validation import check_number, check_option, warn
from vicinal.core.types import (
    Array,
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
    is_auto,
)
from vicinal.densities import Kernel
from vicinal.estimators._regressor import RegressionLearner
from vicinal.fit.method import Data, Method
from vicinal.fit.plan import Plan
from vicinal.neighborhoods import Neighborhood
from vicinal.objectives import MatchLoss
from vicinal.starts import Start
from vicinal.targets import NearNumbers

_NEAR = 0.2  # share of all pairs of rows that are nearer than width="auto"
_SAMPLE = 1000  # rows that choose it


class NCARegressor(RegressionLearner):
    r"""NCA for numbers: near rows have near numbers, as :class:`NCA` learns with labels.

    Each row picks another row at random, with nearer rows more likely.  The map A is learnt so that
    the picked row matches, that is, has nearly the same number, as often as possible
    ([Goldberger2005]_ section 5):

    .. math:: p_{ij} = \frac{e^{-\|Ax_i - Ax_j\|^2}}{\sum_{k \ne i} e^{-\|Ax_i - Ax_k\|^2}},
              \qquad p_i = \sum_j m_{ij} p_{ij},
              \qquad \min_A\ \mathrm{mean}_i\,(-\log p_i \text{ or } -p_i) + \alpha\|A\|_F^2,

    with matches :math:`m_{ij}` by the distance of the numbers :math:`y_i` and :math:`y_j`.
    Predictions are means of the training rows' numbers, weighted by :math:`p_{ij}`, or those of the
    nearest rows.  :class:`MLKR` learns the squared error of that prediction instead.

    Parameters and attributes that :class:`MLKR` has too are described there in more detail.

    Parameters
    ----------
    n_components : int, "auto" or None, default=None
        Rank of the map.
    mapping : {"linear", "diagonal", "periodic"} or map, default="linear"
        A full matrix, one weight for each feature, or a nonlinear map, as in :class:`NCA`.
    matching : {"soft", "hard"}, default="soft"
        How rows match: :math:`m_{ij} = e^{-\|y_i - y_j\|^2 / 2 s^2}`, or 1 where
        :math:`\|y_i - y_j\| \le s` and 0 elsewhere.
    width : float or "auto", default="auto"
        The width s, in units of y if that has one output; several outputs are divided by their
        standard deviations first.  "auto": a fifth of all pairs of rows have nearer numbers.
    objective : {"log", "accuracy"}, default="log"
        Mean log-probability of a match, or expected number of matches.
    kernel : {"gaussian", "student", "laplace"} or part, default="gaussian"
        Replaces :math:`e^{-d^2}`; "student" has a heavy tail, "laplace" is :math:`e^{-d}`.
    init : {"auto", "identity", "random", "pca", "whiten"}, part or array, default="auto"
        The start of the map.
    solver : {"auto", "lbfgs", "cg", "bold_driver", "adaptive", "projected", "momentum", "adam", \
            "sgd"} or part, default="auto"
        The optimiser, as in :class:`NCA`: L-BFGS on all rows, and Adam on batches.
    sampling : {"auto", "full", "subsample", "mini_batches", "stochastic"} or part, default="auto"
        Which rows an iteration uses.
    neighborhood : {"auto", "all", "nearest", "random"} or part, default="auto"
        Which pairs of rows count: all, or lists of candidates.
    alpha : float, "auto" or "scaled", default="auto"
        Weight of the squared norm of the map relative to the *mean* loss.
    scaling : {"standard", "global", None}, default="standard"
        Scaling of the columns before learning, folded into ``components_``, as in :class:`NCA`.
    rule : {"kernel", "knn"}, default="kernel"
        How to predict: from all training rows by the kernel, or from the nearest ones.
    n_neighbors : int or "auto", default=5
        Number of neighbours of ``rule="knn"``.
    early_stopping : bool, default=False
        Stop by the score of held-out rows, and restore the best map.
    validation_fraction : float, default=0.1
        Share of the rows held out.  At most 2,000 rows with batches, a subset or lists.
    n_iter_no_change : int, default=10
        Number of iterations without improvement before stopping.  With batches, number of scores.
    cv : int, splitter, iterable or None, default=None
        Cross-validation by which "auto" chooses ``n_components`` and ``alpha``.
    max_iter : int or "auto", default="auto"
        Maximum number of iterations.
    tol : float or None, default=1e-5
        Tolerance for the gradient, and for the fall of the loss.
    time_budget : float or None, default=None
        Limit in seconds for ``fit`` as a whole, as in :class:`NCA`.
    warm_start : bool, default=False
        Let ``fit`` continue where the last one stopped.
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
        Print the plan, each iteration, and each candidate of a search.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The map; ``transform(X) = X @ components_.T``.  Nonlinear maps have none.
    width_ : float
        The width that was used, in the units of ``width``.
    n_components_, alpha_, cv_results_, n_iter_, loss_, plan_, rounds_, feature_importances_, \
            history_, n_neighbors_, n_features_in_, feature_names_in_
        As in :class:`MLKR`.

    References
    ----------
    .. [Goldberger2005] J. Goldberger, S. Roweis, G. Hinton, R. Salakhutdinov, "Neighbourhood
       components analysis", NIPS 17, 2005.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from sklearn.model_selection import train_test_split
    >>> from vicinal import NCARegressor
    >>> X, y = make_friedman1(n_samples=200, random_state=0)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> model = NCARegressor(alpha=3e-3, random_state=0).fit(X_train, y_train)
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
        matching: Literal["soft", "hard"] = "soft",
        width: float | Auto = "auto",
        objective: Literal["log", "accuracy"] = "log",
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
        self.matching = matching
        self.width = width
        self.objective = objective
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

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_option(self, "matching", ("soft", "hard"))
        check_option(self, "objective", ("log", "accuracy"))
        check_number(self, "width", 0.0, open_ends=True, or_else=("auto",))

    def _objective(self, kernel: Kernel) -> MatchLoss:
        return MatchLoss(self.objective, kernel)

    def _target(self, values: Array, weight: Array | None) -> NearNumbers:
        if is_auto(self.width):
            width = _nearness(values)
        else:
            width = float(self.width) / self._width_unit
        return NearNumbers(values, width, self.matching == "hard", weight)

    def _method(self, data: Data) -> Method:
        return replace(super()._method(data), warn_unusable_rows=self._warn_unmatched)

    def _warn_unmatched(self, target: NearNumbers, plan: Plan) -> None:
        """Warn of rows that match no other row under ``matching="hard"``."""
        if not target.hard:
            return
        nearest = KDTree(target.values).query(target.values, 2)[0][:, 1]
        alone = int(np.count_nonzero(nearest > target.width))
        if alone:
            warn(
                f"{alone} of {len(target)} rows match no other row: none has a number within the "
                f"width {target.width * self._width_unit:.4g}. As queries they add nothing to the "
                "objective. Increase 'width', or use matching='soft'."
            )

    @property
    def _width_unit(self) -> float:
        """One width of the standardised numbers in the units of ``width``."""
        scale = self._outputs.scale
        return float(scale[0]) if len(scale) == 1 else float(np.sqrt(len(scale)))

    @property
    def width_(self) -> float:
        """The width that was used, in the units of ``width``."""
        check_is_fitted(self, "n_components_")
        target: Any = self._model.numbers
        return target.width * self._width_unit


def _nearness(values: Array) -> float:
    """The distance of numbers within which `_NEAR` of all pairs of rows lie, on a sample of rows.

    If this many pairs have equal numbers that it is zero, the least distance that is not.
    """
    sample = values[:: 1 + len(values) // _SAMPLE]
    distances = pdist(sample)
    width = float(np.quantile(distances, _NEAR))
    return width if width > 0 else float(distances[distances > 0].min(initial=np.inf))
