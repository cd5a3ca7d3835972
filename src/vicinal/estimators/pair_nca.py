"""Neighbourhood components of pairs as an estimator."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import Tags

from vicinal._validation import check_pair_labels, check_rows, refuse_elsewhere, warn
from vicinal.core.types import (
    Array,
    Auto,
    File,
    Map,
    MapName,
    MatrixLike,
    Scaling,
    Solver,
    SolverName,
    Weights,
)
from vicinal.estimators._base import MetricLearner
from vicinal.estimators._metric import LearntMetricMixin, feature_importances
from vicinal.estimators._pairs import PairClassifierMixin, Preprocessor, check_tuples
from vicinal.fit.cost import Cost
from vicinal.fit.method import Data, Method, method_of
from vicinal.fit.report import with_callbacks
from vicinal.models.soft import PartnerModel
from vicinal.objectives.pair_nca import PairNCALoss
from vicinal.starts import Start
from vicinal.targets.pairs import PairWeights, check_pair_weights

#: the values of alpha="auto", from a strong penalty to a weak one, for columns of variance one
_ALPHAS = (10.0, 3.0, 1.0, 0.3, 0.1)


class PairNCA(PairClassifierMixin, LearntMetricMixin, MetricLearner):
    r"""NCA from pairs of rows that belong together, without any classes.

    All pairs of rows compete in one softmax, in which nearer pairs are more likely.  The map is
    learnt so that the given pairs are as likely as possible, [Goldberger2005]_ eq. (8):

    .. math:: \min_A\ -\frac{1}{\sum_{ab} w_{ab}} \sum_{ab} w_{ab} \log
              \frac{e^{-\|Ax_a - Ax_b\|^2}}{\sum_{c \ne d} e^{-\|Ax_c - Ax_d\|^2}}
              + \alpha\|A\|_F^2 .

    The normaliser sums over all ordered pairs of two different rows (c = d is left out), so rows
    without any partner count too: they are what the pairs are told apart from.  It is one sum for
    all pairs, so that every iteration uses all rows: there are no batches, and the time grows with
    the square of the number of rows.  Memory is O(n (D + d)) above 500 rows.

    Parameters
    ----------
    n_components : int, "auto" or None, default=None
        Rank d of the map, at most the number of features D if it is linear.  None: min(D, 32), or
        the rank of ``init`` if that is an array.  "auto" chooses it as :class:`NCA` does, by the
        score that ``cv`` describes.
    mapping : {"linear", "diagonal", "periodic"} or map, default="linear"
        A full matrix, one weight for each feature, or a nonlinear map, as in :class:`NCA`.
    init : {"auto", "identity", "random", "pca", "whiten"}, part or array, default="auto"
        The start: a name, an object with parameters, or an array of shape (n_components,
        n_features), which is used as given.  The scale of all other starts is the best one on a
        sample.  "auto" is PCA (identity for the diagonal map).
    solver : {"auto", "lbfgs", "cg", "bold_driver", "adaptive", "projected", "momentum", "adam", \
            "sgd"} or part, default="auto"
        The optimiser; objects from :mod:`vicinal.solvers` take parameters.  "auto" is L-BFGS.
    alpha : float or "auto", default=1.0
        Weight of the squared norm of the map relative to the *mean* loss, in scaled features.
        Pairs tell less than classes: the best is much larger than that of :class:`NCA`.  "auto"
        tries five penalties from 10 down to 0.1 by cross-validation, see ``cv``, stops when two in
        a row are clearly worse, and takes the strongest within half a standard error of the best.
        Its penalties are multiplied by the mean variance of the features unless ``scaling`` is
        "standard".
    scaling : {"standard", "global", None}, default="standard"
        Scaling of the columns before learning, folded into ``components_``: each by its standard
        deviation, or all by one number.  Constant columns get weight zero.
    preprocessor : array-like, sparse matrix, callable or None, default=None
        What indices of rows refer to: rows, or a function from a vector of indices to an array of
        rows.  With it, ``fit`` takes pairs only.
    cv : int, splitter, iterable or None, default=None
        Cross-validation by which "auto" chooses ``n_components`` and ``alpha``.  Some of the *rows*
        are held out in turn; the score of such a row is the share of the training rows that are
        farther away from it than its partners among them.  None: five folds.
    max_iter : int or "auto", default="auto"
        Maximum number of iterations; a `ConvergenceWarning` says if they were too few.  "auto" is
        200.
    tol : float or None, default=1e-5
        Stop when no entry of the gradient exceeds ``tol``, or when the loss falls by less than
        ``tol`` times the larger of 1 and the loss.  None: no tolerance; all iterations are made
        unless the solver finds no lower loss at all.
    time_budget : float or None, default=None
        Limit in seconds for ``fit`` as a whole.  The result then depends on the machine.
    warm_start : bool, default=False
        Let ``fit`` continue where the last one stopped, including the state of the solver.  A fit
        that was cut by a callback, Ctrl-C or a time budget is completed, and ends in the same bits
        as if it had not been cut.
    n_jobs : int or None, default=None
        How many candidates of a search are learnt at once, in threads that share those of the
        library; None and -1: as many as there are folds, if there are threads for them.  The
        result is the same for any number.
    random_state : int, RandomState or None, default=None
        For random starts, folds and the samples that set a scale.
    verbose : int, default=0
        Print the plan and its cost beforehand, a line for each iteration, and a line for each
        candidate of a search.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The map; ``transform(X) = X @ components_.T``.  Nonlinear maps have none.
    threshold_ : float
        The largest distance of pairs that ``predict`` calls similar: the one of highest accuracy
        on the training pairs.  It exists if these had labels of both kinds, or after
        ``set_threshold`` or ``calibrate_threshold``.
    classes_ : ndarray of shape (2,)
        -1 and 1.
    n_components_, alpha_, cv_results_, n_iter_, loss_, plan_, history_, rounds_, \
            feature_importances_, n_features_in_, feature_names_in_
        As in :class:`NCA`; ``rounds_`` is empty.

    See Also
    --------
    NCA : Learns from class labels.

    References
    ----------
    .. [Goldberger2005] J. Goldberger, S. Roweis, G. Hinton, R. Salakhutdinov, "Neighbourhood
       components analysis", NIPS 17, 2005.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from vicinal import PairNCA
    >>> X, y = load_iris(return_X_y=True)
    >>> pairs = np.random.RandomState(0).randint(0, len(X), (300, 2))
    >>> pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    >>> same = y[pairs[:, 0]] == y[pairs[:, 1]]
    >>> model = PairNCA(n_components=2).fit(X, pairs[same])
    >>> model.transform(X).shape
    (150, 2)

    Pairs of rows with labels make a pair classifier:

    >>> model.fit(X[pairs], np.where(same, 1, -1)).predict(X[[[0, 1], [0, 100]]])
    array([ 1, -1])
    """

    #: every step needs all rows: see the normaliser
    sampling = "full"
    feature_importances_ = property(feature_importances)
    _named_alphas: ClassVar[tuple[str, ...]] = ("auto",)

    def __init__(
        self,
        n_components: int | Auto | None = None,
        *,
        mapping: MapName | Map = "linear",
        init: str | Start | ArrayLike = "auto",
        solver: SolverName | Solver = "auto",
        alpha: float | Auto = 1.0,
        scaling: Scaling = "standard",
        preprocessor: Preprocessor = None,
        cv: int | BaseCrossValidator | Iterable | None = None,
        max_iter: int | Auto = "auto",
        tol: float | None = 1e-5,
        time_budget: float | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.mapping = mapping
        self.init = init
        self.solver = solver
        self.alpha = alpha
        self.scaling = scaling
        self.preprocessor = preprocessor
        self.cv = cv
        self.max_iter = max_iter
        self.tol = tol
        self.time_budget = time_budget
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    def fit(
        self,
        X: MatrixLike,
        y: ArrayLike | None = None,
        sample_weight: Weights = None,
        *,
        resume_from: File | None = None,
    ) -> Self:
        """Learn the map.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or array-like of shape \
                (n_pairs, 2, n_features) or (n_pairs, 2)
            Rows, whose pairs are named by ``y``; float32 stays float32.  Or the pairs
            themselves, as in other learners from pairs: arrays of two rows, or with a
            ``preprocessor`` indices of two rows.  Equal rows in such pairs are one point.
        y : array-like of shape (n_pairs, 2) or (n_pairs,), default=None
            With rows, the positions of the two rows of each pair.  With pairs, their labels: +1 for
            pairs that belong together, -1 for pairs that do not; None: all belong together.  A pair
            with label -1 has weight zero: its rows are among those of the normaliser, and nothing
            else is learnt from it, but ``threshold_`` is chosen with its help.
        sample_weight : array-like of shape (n_pairs,), default=None
            Weight of each pair; None: ones.  Those of pairs with label -1 are ignored.
        resume_from : path, default=None
            A file of :class:`vicinal.callbacks.Checkpoint`: complete the fit that it holds.  Rows
            and parameters must be the same; only ``verbose``, ``time_budget`` and
            ``n_jobs`` may differ.

        Returns
        -------
        self : PairNCA
        """
        self._fit(X, y, sample_weight, resume_from=resume_from)
        self._forget("threshold_")
        if y is not None and self._is_pairs(X) and len(np.unique(y)) == 2:
            self._calibrate_on_training_pairs(X, np.asarray(y))
        return self

    def _is_pairs(self, X: MatrixLike) -> bool:
        """Whether X holds pairs, and not rows."""
        refuse_elsewhere(self, X, "X")
        return self.preprocessor is not None or np.ndim(X) == 3

    def _check_data(self, X: MatrixLike, y: ArrayLike | None, sample_weight: Weights) -> Data:
        name = type(self).__name__
        if not self._is_pairs(X):
            if y is None:
                raise ValueError(
                    f"{name}.fit needs the positions of the pairs if X has shape (n_samples, "
                    "n_features). Got y=None instead."
                )
            X = check_rows(self, X, ensure_min_samples=2)
            if np.ndim(y) == 1:
                raise ValueError(
                    f"The y of {name}.fit must have shape (n_pairs, 2), the positions of similar "
                    f"rows, if X has shape (n_samples, n_features). Got {np.shape(y)} instead. "
                    f"Rows with class labels are learnt by FromLabels({name}()).fit(X, y)."
                )
            target = PairWeights(X.shape[0], y, sample_weight)
        else:
            formed = self._tuples(X, reset=True)
            X, target = _distinct(name, formed, y, sample_weight)
        if not target.weights.any():
            raise ValueError(f"{name} needs a pair of two different rows and of positive weight.")
        self.classes_ = np.array([-1, 1])
        return Data(X, target)

    def _method(self, data: Data) -> Method:
        return method_of(self, data, PairNCALoss(), make_model=_make_model, alphas=_ALPHAS)

    def estimate_cost(self, X: MatrixLike, y: ArrayLike | None = None) -> Cost:
        """Estimate the memory and time of a fit to X without starting it.

        Parameters
        ----------
        X : as in ``fit``
            Rows in pairs are counted as if all were different.
        y : ignored
            The number of pairs hardly matters.

        Returns
        -------
        cost : Cost
            ``memory_bytes`` beyond the input and approximate ``seconds_per_evaluation``; a fit
            needs one to two evaluations per iteration.
        """
        if self._is_pairs(X):
            formed = check_tuples(type(self).__name__, X, 2, self.preprocessor)
            X = formed.reshape(-1, formed.shape[2])
        return super().estimate_cost(X)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags


def _distinct(
    name: str, formed: Array, y: ArrayLike | None, weights: Weights
) -> tuple[Array, PairWeights]:
    """The different rows in pairs of rows, and their pairs."""
    rows, places = np.unique(formed.reshape(-1, formed.shape[2]), axis=0, return_inverse=True)
    pairs = places.reshape(-1, 2)
    weight = check_pair_weights(weights, len(pairs))
    if y is not None:
        weight = np.where(check_pair_labels(name, y, len(pairs)) == 1, weight, 0.0)
    alike = pairs[:, 0] == pairs[:, 1]
    if np.any(alike & (weight > 0)):
        warn(f"Pairs of two equal rows are left out: nothing is learnt from these {alike.sum()}.")
    return rows, PairWeights(len(rows), pairs[~alike], weight[~alike])


def _make_model(Z: Array, target: PairWeights, objective: PairNCALoss) -> PartnerModel:
    return PartnerModel(Z)
