"""Information-theoretic metric learning from pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.distance import pdist

from vicinal._threads import single_threaded_blas
from vicinal._validation import check_number, check_option, check_seed, warn
from vicinal.convex.itml import itml_by_lbfgs, itml_by_projections
from vicinal.convex.prior import prior_factor
from vicinal.core.types import Array
from vicinal.estimators._pairs import MatrixLearner, PairClassifierMixin
from vicinal.fit.resume import unchanged_on_error

_PERCENTILES = (5, 95)  # [Davis2007] §5
_ALL_PAIRS_UP_TO = 2000  # points; of more, this many random pairs give the percentiles:
_SAMPLE = 2**18  # their standard error is below 0.05 points


class ITML(PairClassifierMixin, MatrixLearner):
    r"""Information-theoretic metric learning: bounds on distances, as near as possible to a prior.

    Similar pairs should have a squared distance of at most u, dissimilar pairs of at least l.  Of
    all matrices M, ITML finds the one nearest to the prior :math:`M^0` in LogDet divergence
    :math:`D(M, M^0) = \operatorname{tr} M (M^0)^{-1} - \log\det M (M^0)^{-1} - D` [Davis2007]_:

    .. math::
        \min_{M \succ 0, \xi} D(M, M^0) + \gamma D(\mathrm{diag}\,\xi, \mathrm{diag}\,\xi^0)
        \quad\text{subject to}\quad
        \delta_c \le \xi_c \text{ (similar)}, \; \delta_c \ge \xi_c \text{ (dissimilar)},

    where :math:`\delta_c` is the squared distance of a pair, :math:`\xi^0_c` is u or l, and the
    slack :math:`\xi` costs :math:`\gamma`.  The problem is convex.

    Parameters
    ----------
    gamma : float, default=1.0
        Weight of the slack: the larger, the better the bounds are met.  ``inf``: hard constraints,
        which pairs may contradict.
    prior : {"identity", "covariance", "random"} or array of shape (n_features, n_features), \
            default="identity"
        :math:`M^0`.  "identity": of the scaled columns.  "covariance": inverse covariance of the
        rows in the pairs.  "random": drawn by ``random_state``.  An array, positive definite, is
        a matrix for the original columns.
    bounds : None or (float, float), default=None
        The bounds (u, l) of *squared* distances.  None: the 5th and 95th percentiles of the
        squared distances, under the prior, between all rows in the pairs.
    scaling : {"standard", "global", None}, default="standard"
        Scaling of the columns beforehand, by the rows in the pairs; folded into ``components_``.
        Without it "identity" and "random" refer to the columns as they are; for the other priors
        it only affects rounding.
    solver : {"auto", "lbfgs", "projections"}, default="auto"
        "lbfgs": the slack is eliminated, and what is left is minimised by L-BFGS; it needs a
        finite ``gamma``.  "projections": cyclic Bregman projections as in [Davis2007]_, with
        their step corrected for ``gamma`` other than 1; slower by orders of magnitude.  "auto":
        "lbfgs" unless ``gamma`` is infinite.
    max_iter : int, default=1000
        Largest number of iterations, or sweeps of projections.
    tol : float, default=1e-3
        L-BFGS ends when no entry of the scaled gradient :math:`M^{1/2} (\partial/\partial M)
        M^{1/2}` exceeds this share of its terms; projections, when a sweep changes the
        multipliers by less than this share of their sum.
    preprocessor : array-like, sparse matrix or callable, default=None
        What pairs of indices refer to: an array of rows, or a function from indices to rows.
    random_state : int, RandomState or None, default=None
        For ``prior="random"``, and for the percentiles if there are more than 2,000 rows.

    Attributes
    ----------
    components_ : ndarray of shape (n_features, n_features)
        A factor of M; ``transform(X) = X @ components_.T``.
    bounds_ : (float, float)
        The bounds u and l.
    multipliers_ : ndarray of shape (n_pairs,)
        Lagrange multiplier of each pair; zero: its bound did not matter.
    loss_ : float
        Value of the objective.
    n_iter_ : int
        Iterations, or sweeps of projections.
    threshold_ : float
        Largest distance of pairs that are predicted to be similar.
    classes_ : ndarray of shape (2,)
        -1 and 1.
    n_features_in_ : int
        Number of features.

    References
    ----------
    .. [Davis2007] J. V. Davis, B. Kulis, P. Jain, S. Sra, I. S. Dhillon, "Information-theoretic
       metric learning", ICML 2007.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from vicinal import ITML
    >>> from vicinal.targets import pairs_from_labels
    >>> X, y = load_wine(return_X_y=True)
    >>> pairs, labels = pairs_from_labels(y, random_state=0)
    >>> itml = ITML(preprocessor=X).fit(pairs, labels)
    >>> itml.transform(X).shape
    (178, 13)
    """

    def __init__(
        self,
        gamma: float = 1.0,
        *,
        prior: Any = "identity",
        bounds: Any = None,
        scaling: str | None = "standard",
        solver: str = "auto",
        max_iter: int = 1000,
        tol: float = 1e-3,
        preprocessor: Any = None,
        random_state: Any = None,
    ) -> None:
        self.gamma = gamma
        self.prior = prior
        self.bounds = bounds
        self.scaling = scaling
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.preprocessor = preprocessor
        self.random_state = random_state

    @unchanged_on_error
    def fit(self, pairs: Any, y: Any) -> ITML:
        """Learn the metric, and choose ``threshold_`` on the same pairs.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features) or (n_pairs, 2)
            Pairs of rows, or of indices into the ``preprocessor``.
        y : array-like of shape (n_pairs,)
            +1 for similar and -1 for dissimilar pairs; both must occur.

        Returns
        -------
        self : ITML
        """
        self._check_shared()
        check_option(self, "solver", ("auto", "lbfgs", "projections"))
        if self.gamma != np.inf:
            check_number(self, "gamma", 0.0, open_ends=True)
        elif self.solver == "lbfgs":
            raise ValueError(
                "The 'gamma' parameter of ITML must be finite for solver='lbfgs'. Got inf instead."
            )
        rng = check_seed(self)
        pairs, y = self._check_labelled_pairs(pairs, y)
        with single_threaded_blas():
            scaled = self._scaled(pairs)
            L0 = prior_factor("ITML", self.prior, scaled.points, scaled.scale, rng)
            X = scaled.differences(pairs) @ L0.T
            self.bounds_ = self._bounds(scaled.points @ L0.T, rng)
            usable = X.any(axis=1)
            if (~usable & (y < 0)).any():
                warn(
                    f"{np.sum(~usable & (y < 0))} dissimilar pairs of ITML hold two equal rows, "
                    "which no metric separates: they are left out."
                )
            solve = itml_by_lbfgs
            if self.solver == "projections" or self.gamma == np.inf:
                solve = itml_by_projections
            bounds = np.where(y > 0, *self.bounds_)
            result = solve(
                X[usable], y[usable], bounds[usable], gamma=self.gamma,
                max_iter=self.max_iter, tol=self.tol,
            )  # fmt: skip
            self.n_iter_, self.loss_ = result.n_iter, result.objective
            self.multipliers_ = np.zeros(len(pairs))
            self.multipliers_[usable] = result.multipliers
            self._store(result.L @ L0, scaled, pairs.dtype)
        if not result.converged:
            hard = self.gamma == np.inf
            self._warn_unconverged(
                ", or use a finite 'gamma' if the pairs contradict each other" if hard else ""
            )
        self._calibrate_on_training_pairs(pairs, y)
        return self

    def _bounds(self, points: Array, rng: np.random.RandomState) -> tuple[float, float]:
        """The bounds u and l of squared distances; those of ``points`` are under the prior."""
        if self.bounds is None:
            u, l = np.percentile(_squared_distances(points, rng), _PERCENTILES)
            return float(u), float(l)
        try:
            u, l = (float(bound) for bound in self.bounds)
        except (TypeError, ValueError):
            u, l = np.nan, np.nan
        if not 0.0 < u <= l < np.inf:
            raise ValueError(
                "The 'bounds' parameter of ITML must be two numbers 0 < u <= l of squared "
                f"distances, or None. Got {self.bounds!r} instead."
            )
        return u, l


def _squared_distances(points: Array, rng: np.random.RandomState) -> Array:
    """Positive squared distances between points; the points differ, but may be too close."""
    n = len(points)
    if n <= _ALL_PAIRS_UP_TO:
        squares = pdist(points, "sqeuclidean")
    else:
        a = rng.randint(n, size=_SAMPLE)
        b = (a + rng.randint(1, n, size=len(a))) % n
        squares = np.empty(len(a))
        for part in np.array_split(np.arange(len(a)), 100):  # not all differences at once
            squares[part] = np.sum((points[a[part]] - points[b[part]]) ** 2, axis=1)
    return squares[squares > 0.0]
