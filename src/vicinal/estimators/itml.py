"""Information-theoretic metric learning from pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import LinAlgError, blas
from scipy.spatial.distance import pdist

from vicinal._threads import single_threaded_blas
from vicinal._validation import check_number, check_option, check_seed, warn
from vicinal.core.types import Array, Scaling, Seed
from vicinal.estimators._pairs import MatrixLearner, PairClassifierMixin, Preprocessor
from vicinal.fit.resume import unchanged_on_error
from vicinal.solvers.factored import barrier, minimise_factored, prior_factor

_PERCENTILES = (5, 95)  # [Davis2007] §5
_ALL_PAIRS_UP_TO = 2000  # points; of more, this many random pairs give the percentiles:
_SAMPLE = 2**18  # their standard error is below 0.05 points
# Up to this many pairs, or projections, NumPy suffices: a projection takes three microseconds, and
# compiling takes seconds.
_NUMPY_PAIRS, _NUMPY_PROJECTIONS = 500, 300_000


class ITML(PairClassifierMixin, MatrixLearner):
    r"""Information-theoretic metric learning (ITML): bounds on distances, near to a prior.

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
        prior: str | ArrayLike = "identity",
        bounds: Sequence[float] | Array | None = None,
        scaling: Scaling = "standard",
        solver: Literal["auto", "lbfgs", "projections"] = "auto",
        max_iter: int = 1000,
        tol: float = 1e-3,
        preprocessor: Preprocessor = None,
        random_state: Seed = None,
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
    def fit(self, pairs: ArrayLike, y: ArrayLike) -> Self:
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
        """The bounds u and l of squared distances; ``points`` are under the prior."""
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


class ITMLResult(NamedTuple):
    """A factor of M, the multiplier and the bound with slack of each pair, and how it ended."""

    L: Array
    multipliers: Array
    xi: Array
    objective: float
    n_iter: int
    converged: bool


def itml_by_lbfgs(
    X: Array, s: Array, xi0: Array, *, gamma: float, max_iter: int, tol: float
) -> ITMLResult:
    r"""Solve the problem of [Davis2007] in its primal form by L-BFGS.

    .. math::
        \min_{M \succ 0, \xi} D(M, I) + \gamma D(\mathrm{diag}\,\xi, \mathrm{diag}\,\xi^0)
        \quad\text{subject to}\quad s_c (\delta_c - \xi_c) \le 0, \quad \delta_c = x_c^\top M x_c,

    where D is the LogDet divergence.  It does not change under linear maps, so another prior
    :math:`M^0 = {L^0}^\top L^0` needs no code: the differences are mapped by :math:`L^0` first.
    The best slack is :math:`\xi_c = \delta_c` where the bound
    :math:`\xi^0_c` is violated and :math:`\xi^0_c` elsewhere, which leaves a smooth convex function
    of M alone (docs/theory/itml.md).

    Parameters
    ----------
    X : array of shape (n, D)
        Differences of the pairs; none is zero.
    s : array of shape (n,)
        +1 for similar pairs, whose squared distance is bounded from above, -1 for the others.
    xi0 : array of shape (n,)
        Positive bounds of the squared distances.
    gamma : float
        Weight of the slack, finite.
    max_iter, tol
        It ends when no entry of ``M^(1/2) (∂/∂M) M^(1/2)`` exceeds ``tol`` times the terms that
        it is the difference of.
    """

    def fun(L: Array) -> tuple[float, Array, float]:
        L, value, G = barrier(L)
        Z = X @ L.T
        ratio, slope = _violations(Z, s, xi0, gamma)
        value += gamma * float(np.sum(ratio - np.log(ratio) - 1.0))
        G += (Z.T * slope) @ X
        size = max(1.0, float(np.abs(slope) @ np.einsum("ij,ij->i", Z, Z)) / len(L))
        return value, 2.0 * G, float(np.abs(G @ L.T).max()) / size

    L, value, n_iter, converged = minimise_factored(fun, np.eye(X.shape[1]), max_iter, tol)
    ratio, slope = _violations(X @ L.T, s, xi0, gamma)
    return ITMLResult(L, s * slope, xi0 * ratio, value, n_iter, converged)


def _violations(Z: Array, s: Array, xi0: Array, gamma: float) -> tuple[Array, Array]:
    """ξ/ξ⁰ with the best slack, and the derivative s λ = γ(1/ξ⁰ - 1/ξ) of the penalty by δ."""
    ratio = np.einsum("ij,ij->i", Z, Z) / xi0
    ratio[s * (ratio - 1.0) <= 0.0] = 1.0
    return ratio, gamma * (1.0 - 1.0 / ratio) / xi0


def itml_by_projections(
    X: Array, s: Array, xi0: Array, *, gamma: float, max_iter: int, tol: float
) -> ITMLResult:
    """Solve the same problem by cyclic Bregman projections [Davis2007, algorithm 1].

    Parameters
    ----------
    X, s, xi0
        As in :func:`itml_by_lbfgs`.
    gamma : float
        Weight of the slack; inf: hard constraints.
    max_iter, tol
        It ends when a sweep changes the multipliers by less than ``tol`` times their sum.
    """
    state = _Projections(X, s, xi0, gamma)
    sweep, converged, n_iter = state.sweep, False, 0
    for n_iter in range(1, max_iter + 1):
        if len(X) > _NUMPY_PAIRS and n_iter * len(X) > _NUMPY_PROJECTIONS:
            sweep = state.sweep_compiled
        change = sweep()
        if change <= tol * state.lam.sum():
            converged = True
            break
    L, xi = state.factor(), 1.0 / state.inverse_xi
    objective = barrier(L)[1]
    if np.isfinite(gamma):
        objective += gamma * float(np.sum(xi / xi0 - np.log(xi / xi0) - 1.0))
    return ITMLResult(L, state.lam, xi, objective, n_iter, converged)


class _Projections:
    """M, multipliers and slack between projections.

    Each keeps to ``M⁻¹ = I + Σ s λ x xᵀ`` and ``1/ξ = 1/ξ⁰ - s λ/γ``.
    """

    def __init__(self, X: Array, s: Array, xi0: Array, gamma: float) -> None:
        self.X, self.s = np.ascontiguousarray(X), s.astype(np.float64)
        self.gamma, self.share = float(gamma), 1.0 if np.isinf(gamma) else gamma / (gamma + 1.0)
        self.M = np.eye(X.shape[1], order="F")  # lower triangle; BLAS updates it in place
        self.lam, self.inverse_xi = np.zeros(len(X)), 1.0 / xi0

    def sweep(self) -> float:
        """Project once onto each constraint; return the sum of the absolute changes of λ."""
        M, lam, inverse_xi = self.M, self.lam.tolist(), self.inverse_xi.tolist()
        share, gamma, change = self.share, self.gamma, 0.0
        for c, (x, s) in enumerate(zip(self.X, self.s.tolist(), strict=True)):
            v = blas.dsymv(1.0, M, x, lower=1)
            p = float(blas.ddot(x, v))
            # γ/(γ+1) where [Davis2007] has 1/2, which is right for γ = 1 only
            alpha = min(lam[c], s * share * (1.0 / p - inverse_xi[c]))
            if alpha == 0.0:
                continue
            lam[c] -= alpha
            inverse_xi[c] += s * alpha / gamma  # ξ ← γξ/(γ + sαξ)
            change += abs(alpha)
            M = blas.dsyr(s * alpha / (1.0 - s * alpha * p), v, lower=1, a=M, overwrite_a=1)
        self.M, self.lam, self.inverse_xi = M, np.array(lam), np.array(inverse_xi)
        return change

    def sweep_compiled(self) -> float:
        """The same, compiled."""
        from vicinal.kernels.itml import itml_sweep  # only now: it loads the compiler

        self.M = np.ascontiguousarray(self.M)
        return itml_sweep(
            self.X, self.s, self.gamma, self.share, self.M, self.lam, self.inverse_xi,
            np.empty(len(self.M)),
        )  # fmt: skip

    def factor(self) -> Array:
        """A factor of M, from the multipliers: this undoes the rounding of many updates."""
        inverse = np.eye(len(self.M)) + (self.X.T * (self.s * self.lam)) @ self.X
        try:
            return np.linalg.inv(np.linalg.cholesky(inverse))  # M⁻¹ = C Cᵀ, so M = C⁻ᵀ C⁻¹
        except LinAlgError:  # huge multipliers of contradictory hard constraints cancel
            return np.linalg.cholesky(np.tril(self.M) + np.tril(self.M, -1).T).T
