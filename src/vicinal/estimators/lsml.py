"""Least squared-residual metric learning from quadruplets."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from vicinal._threads import single_threaded_blas
from vicinal._validation import check_seed, check_weights, warn
from vicinal.core.types import Array, Scaling, Seed, Weights
from vicinal.estimators._pairs import MatrixLearner, Preprocessor, TupleLearnerMixin
from vicinal.fit.resume import unchanged_on_error
from vicinal.solvers.factored import Factored, barrier, minimise_factored, prior_factor


class LSML(TupleLearnerMixin, MatrixLearner):
    r"""Least squared-residual metric learning (LSML): relative comparisons of distances.

    A quadruplet (a, b, c, d) says that a and b should be nearer to each other than c and d.  LSML
    minimises the squared residuals of the comparisons that do not hold, and stays near to a prior
    :math:`M^0` in LogDet divergence [Liu2012]_:

    .. math::
        \min_{M \succ 0} \operatorname{tr} M (M^0)^{-1} - \log\det M (M^0)^{-1}
        + \sum_q w_q [d_M(a_q, b_q) - d_M(c_q, d_q)]_+^2,

    with distances :math:`d_M` that are not squared, and weights :math:`w_q` that add up to one.
    The problem is convex.

    Parameters
    ----------
    prior : {"identity", "covariance", "random"} or array of shape (n_features, n_features), \
            default="identity"
        :math:`M^0`.  "identity": of the scaled columns.  "covariance": inverse covariance of the
        rows in the quadruplets.  "random": drawn by ``random_state``.  An array, positive
        definite, is a matrix for the original columns.
    scaling : {"standard", "global", None}, default="standard"
        Scaling of the columns beforehand, by the rows in the quadruplets; folded into
        ``components_``.  Without it "identity" and "random" refer to the columns as they are; for
        the other priors it only affects rounding.
    max_iter : int, default=1000
        Largest number of iterations of L-BFGS.
    tol : float, default=1e-3
        It ends when no entry of the scaled gradient :math:`M^{1/2} (\partial/\partial M) M^{1/2}`
        exceeds this.
    preprocessor : array-like, sparse matrix or callable, default=None
        What quadruplets of indices refer to: an array of rows, or a function from indices to rows.
    random_state : int, RandomState or None, default=None
        For ``prior="random"``.

    Attributes
    ----------
    components_ : ndarray of shape (n_features, n_features)
        A factor of M; ``transform(X) = X @ components_.T``.
    loss_ : float
        Value of the objective, less the number of features: zero at the prior if all comparisons
        hold.
    n_iter_ : int
        Iterations.
    n_features_in_ : int
        Number of features.

    References
    ----------
    .. [Liu2012] E. Y. Liu, Z. Guo, X. Zhang, V. Jojic, W. Wang, "Metric learning from relative
       comparisons by minimizing squared residual", ICDM 2012.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from vicinal import LSML
    >>> from vicinal.targets import quadruplets_from_labels
    >>> X, y = load_wine(return_X_y=True)
    >>> quadruplets = quadruplets_from_labels(y, random_state=0)
    >>> LSML(preprocessor=X).fit(quadruplets).transform(X).shape
    (178, 13)
    """

    #: rows in a tuple, for what makes tuples
    tuple_size: ClassVar[int] = 4

    def __init__(
        self,
        *,
        prior: str | ArrayLike = "identity",
        scaling: Scaling = "standard",
        max_iter: int = 1000,
        tol: float = 1e-3,
        preprocessor: Preprocessor = None,
        random_state: Seed = None,
    ) -> None:
        self.prior = prior
        self.scaling = scaling
        self.max_iter = max_iter
        self.tol = tol
        self.preprocessor = preprocessor
        self.random_state = random_state

    @unchanged_on_error
    def fit(self, quadruplets: ArrayLike, sample_weight: Weights = None) -> Self:
        """Learn the metric.

        Parameters
        ----------
        quadruplets : array-like of shape (n_quadruplets, 4, n_features) or (n_quadruplets, 4)
            Rows (a, b, c, d), or indices into the ``preprocessor``; a and b should be nearer to
            each other than c and d.
        sample_weight : array-like of shape (n_quadruplets,), default=None
            Weights of the quadruplets; only their ratios matter.

        Returns
        -------
        self : LSML
        """
        self._check_shared()
        rng = check_seed(self)
        quadruplets = self._tuples(quadruplets, 4, reset=True)
        n = len(quadruplets)
        w = np.ones(n)
        if sample_weight is not None:
            w = np.asarray(check_weights(sample_weight, n))
        with single_threaded_blas():
            scaled = self._scaled(quadruplets)
            L0 = prior_factor("LSML", self.prior, scaled.points, scaled.scale, rng)
            near = scaled.differences(quadruplets, 0, 1) @ L0.T
            far = scaled.differences(quadruplets, 2, 3) @ L0.T
            impossible = np.sum(near.any(axis=1) & ~far.any(axis=1))
            if impossible:
                warn(
                    f"{impossible} quadruplets of LSML ask for two rows to be nearer than two "
                    "equal rows, which no metric can do; they only pull the first two together."
                )
            result = lsml(near, far, w / w.sum(), max_iter=self.max_iter, tol=self.tol)
            self.n_iter_, self.loss_ = result.n_iter, result.value
            self._store(result.L @ L0, scaled, quadruplets.dtype)
        if not result.converged:
            self._warn_unconverged()
        return self

    def decision_function(self, quadruplets: ArrayLike) -> Array:
        """By how much the learnt distance of c and d exceeds that of a and b.

        Parameters
        ----------
        quadruplets : array-like of shape (n_quadruplets, 4, n_features) or (n_quadruplets, 4)
            Rows (a, b, c, d), or indices into the ``preprocessor``.

        Returns
        -------
        differences : ndarray of shape (n_quadruplets,)
        """
        check_is_fitted(self, "components_")
        quadruplets = self._tuples(quadruplets, 4)
        return self.pair_distance(quadruplets[:, 2:]) - self.pair_distance(quadruplets[:, :2])

    def predict(self, quadruplets: ArrayLike) -> Array:
        """+1 for quadruplets in which a and b are nearer to each other than c and d, -1 for others.

        Parameters
        ----------
        quadruplets : array-like of shape (n_quadruplets, 4, n_features) or (n_quadruplets, 4)
            Rows (a, b, c, d), or indices into the ``preprocessor``.

        Returns
        -------
        y : int ndarray of shape (n_quadruplets,)
        """
        return np.where(self.decision_function(quadruplets) > 0.0, 1, -1)

    def score(self, quadruplets: ArrayLike) -> float:
        """The share of quadruplets in which a and b are nearer to each other than c and d.

        Parameters
        ----------
        quadruplets : array-like of shape (n_quadruplets, 4, n_features) or (n_quadruplets, 4)
            Rows (a, b, c, d), or indices into the ``preprocessor``.

        Returns
        -------
        score : float
        """
        return float(np.mean(self.predict(quadruplets) > 0))


def lsml(X: Array, Y: Array, weights: Array, *, max_iter: int, tol: float) -> Factored:
    r"""Minimise squared residuals of comparisons [Liu2012].

    .. math::
        \min_{M \succ 0} D(M, I) + \sum_c w_c [d_M(x_c) - d_M(y_c)]_+^2,
        \quad d_M(x) = (x^\top M x)^{1/2}

    Parameters
    ----------
    X, Y : arrays of shape (n, D)
        Differences of the pairs that should be nearer, and of those that should be farther.
    weights : array of shape (n,)
        Not negative.
    max_iter, tol
        It ends when no entry of ``M^(1/2) (∂/∂M) M^(1/2)`` exceeds ``tol``.
    """

    def fun(L: Array) -> tuple[float, Array, float]:
        L, value, G = barrier(L)
        near, far = X @ L.T, Y @ L.T
        d_near, d_far = np.linalg.norm(near, axis=1), np.linalg.norm(far, axis=1)
        residual = np.maximum(d_near - d_far, 0.0)
        value += float(weights @ residual**2)
        # ∂/∂M of a squared residual r²: r/d_near x xᵀ - r/d_far y yᵀ.  Where y is zero, so is y yᵀ.
        pull = weights * residual
        G += (near.T * _ratio(pull, d_near)) @ X - (far.T * _ratio(pull, d_far)) @ Y
        return value, 2.0 * G, float(np.abs(G @ L.T).max())

    return minimise_factored(fun, np.eye(X.shape[1]), max_iter, tol)


def _ratio(a: Array, b: Array) -> Array:
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0.0)
