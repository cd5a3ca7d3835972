"""Mahalanobis metric for clustering: similar pairs near, dissimilar pairs far on average."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import OptimizeResult, minimize

from vicinal._threads import single_threaded_blas
from vicinal._validation import check_bool, check_number, warn
from vicinal.core.types import Array, Scaling
from vicinal.estimators._pairs import MatrixLearner, PairClassifierMixin, Preprocessor
from vicinal.fit.resume import unchanged_on_error
from vicinal.solvers.factored import Factored, minimise_factored

_SINGULAR = 1e-10  # ratio of eigenvalues below which the scatter of similar pairs is singular
_SHRINKAGE = 1e-3  # of a singular one
_SMALLEST = 1e-200  # squared distances below have slopes that overflow; no minimum is there


class MMC(PairClassifierMixin, MatrixLearner):
    r"""Mahalanobis metric for clustering (MMC): similar pairs near, dissimilar pairs not.

    .. math::
        \min_{M \succeq 0} \operatorname{mean}_{(a, b)\ \text{similar}} d_M(a, b)^2
        \quad\text{subject to}\quad
        \operatorname{mean}_{(a, b)\ \text{dissimilar}} d_M(a, b) \ge 1,

    [Xing2002]_ with means in place of sums, which only scales M.  The problem is convex, and its
    solution often has low rank.  It is solved up to a known duality gap, without a start.
    Dissimilar pairs of two equal rows have a distance of zero under every M.  They count in the
    mean, which scales M, and do not change its shape.

    Parameters
    ----------
    diagonal : bool, default=False
        Learn a diagonal M: weights of the features.
    shrinkage : None or float in [0, 1], default=None
        Shrink the mean :math:`S` of :math:`(a - b)(a - b)^\top` over similar pairs towards a
        multiple of the identity: if S is singular, some directions cost nothing and the problem
        has no solution.  None: 0, or 0.001 with a warning if S is singular.
    scaling : {"standard", "global", None}, default="standard"
        Scaling of the columns beforehand, by the rows in the pairs; folded into ``components_``.
        Without shrinkage it only affects rounding.
    max_iter : int, default=1000
        Largest number of iterations of L-BFGS.
    tol : float, default=1e-4
        The fit ends when the value is known to be within this share of the minimum.
    preprocessor : array-like, sparse matrix or callable, default=None
        What pairs of indices refer to: an array of rows, or a function from indices to rows.

    Attributes
    ----------
    components_ : ndarray of shape (n_features, n_features)
        A factor of M; ``transform(X) = X @ components_.T``.
    loss_ : float
        Mean squared distance of the similar pairs, shrinkage included, where dissimilar pairs
        have a mean distance of one.
    n_iter_ : int
        Iterations.
    threshold_ : float
        Largest distance of pairs that are predicted to be similar.
    classes_ : ndarray of shape (2,)
        -1 and 1.
    n_features_in_ : int
        Number of features.

    References
    ----------
    .. [Xing2002] E. P. Xing, A. Y. Ng, M. I. Jordan, S. Russell, "Distance metric learning, with
       application to clustering with side-information", NIPS 2002.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from vicinal import MMC
    >>> from vicinal.targets import pairs_from_labels
    >>> X, y = load_wine(return_X_y=True)
    >>> pairs, labels = pairs_from_labels(y, random_state=0)
    >>> MMC(preprocessor=X).fit(pairs, labels).transform(X).shape
    (178, 13)
    """

    def __init__(
        self,
        diagonal: bool = False,
        *,
        shrinkage: float | None = None,
        scaling: Scaling = "standard",
        max_iter: int = 1000,
        tol: float = 1e-4,
        preprocessor: Preprocessor = None,
    ) -> None:
        self.diagonal = diagonal
        self.shrinkage = shrinkage
        self.scaling = scaling
        self.max_iter = max_iter
        self.tol = tol
        self.preprocessor = preprocessor

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
        self : MMC
        """
        self._check_shared()
        check_bool(self, "diagonal")
        check_number(self, "shrinkage", 0.0, 1.0, or_else=(None,))
        pairs, y = self._check_labelled_pairs(pairs, y)
        with single_threaded_blas():
            scaled = self._scaled(pairs)
            X = scaled.differences(pairs)
            similar, dissimilar = X[y > 0], X[y < 0]
            usable = np.any(dissimilar, axis=1)
            if not usable.all():
                if not usable.any():
                    raise ValueError("MMC needs a dissimilar pair of two different rows. Got none.")
                warn(
                    f"{np.sum(~usable)} of the {len(usable)} dissimilar pairs of MMC hold two "
                    "equal rows: their distance is 0 under every metric, and counts on average."
                )
            varies = scaled.scale > 0.0
            S = self._scatter(similar[:, varies])
            solve = mmc_diagonal if self.diagonal else mmc
            far = dissimilar[np.ix_(usable, varies)]
            result = solve(S, far, max_iter=self.max_iter, tol=self.tol)
            share = usable.mean()  # both sides of the problem are homogeneous: zeros only scale M
            L = np.zeros((len(varies), len(varies)))
            L[np.ix_(varies, varies)] = result.L / share
            self.n_iter_, self.loss_ = result.n_iter, result.value / share**2
            self._store(L, scaled, pairs.dtype)
        if not result.converged:
            self._warn_unconverged()
        self._calibrate_on_training_pairs(pairs, y)
        return self

    def _scatter(self, X: Array) -> Array:
        """The scatter of the similar pairs, shrunk until it is positive definite."""
        S = X.T @ X / len(X)
        if self.diagonal:
            S = np.diag(np.diag(S))
        size = np.trace(S) / len(S)
        if size == 0.0:
            raise ValueError(
                "MMC needs a similar pair of two different rows: those that it got are all equal, "
                "so that no metric is better than another."
            )
        amount = self.shrinkage or 0.0
        shrunk = (1.0 - amount) * S + amount * size * np.eye(len(S))
        eigenvalues = np.linalg.eigvalsh(shrunk)
        if eigenvalues[0] > _SINGULAR * eigenvalues[-1]:
            return shrunk
        if self.shrinkage is not None:
            raise ValueError(
                f"The 'shrinkage' parameter of MMC is {self.shrinkage!r}, but the scatter of the "
                "similar pairs is singular, so that the problem has no solution. Use a larger "
                "shrinkage or more pairs."
            )
        warn(
            "The scatter of the similar pairs is singular: it is shrunk by "
            f"{_SHRINKAGE}. Set the 'shrinkage' parameter of MMC to choose the amount."
        )
        return (1.0 - _SHRINKAGE) * S + _SHRINKAGE * size * np.eye(len(S))


def mmc(S: Array, Y: Array, *, max_iter: int, tol: float) -> Factored:
    r"""Solve MMC's problem [Xing2002, eqs. (3)-(5)] for a full matrix.

    .. math::
        \min_{M \succeq 0} \langle S, M \rangle
        \quad\text{subject to}\quad \operatorname{mean}_c (y_c^\top M y_c)^{1/2} \ge 1

    Both sides are homogeneous in M.  With ``M = Wᵀ N W``, ``W S Wᵀ = I``, it is therefore the same
    to maximise the mean distance over the matrices N of trace one, and N is found through a factor.

    Parameters
    ----------
    S : array of shape (D, D)
        Mean of ``x xᵀ`` over the differences of similar pairs, positive definite.
    Y : array of shape (n, D)
        Differences of the dissimilar pairs; none is zero.
    max_iter, tol
        It ends when the duality gap, relative to the value, is at most ``tol``.
    """
    W = np.linalg.inv(np.linalg.cholesky(S))
    Z = Y @ W.T

    def fun(L: Array) -> tuple[float, Array, float]:
        size = float(np.sum(L * L))
        P = Z @ L.T
        distance = np.sqrt(np.maximum(np.einsum("ij,ij->i", P, P), _SMALLEST))
        mean = float(np.mean(distance))
        slope = (P.T / distance) @ Z / (len(Z) * mean)
        # By concavity no N of trace one has a mean distance above mean (1 + gap/2).
        B = (Z.T / distance) @ Z * (size / (len(Z) * mean))
        gap = float(np.linalg.eigvalsh(B)[-1]) - 1.0
        return np.log(size) - 2.0 * np.log(mean), 2.0 * (L / size - slope), gap

    L, value, n_iter, converged = minimise_factored(fun, np.eye(len(S)), max_iter, tol)
    scale = np.mean(np.linalg.norm(Z @ L.T, axis=1))
    return Factored(L @ W / scale, float(np.exp(value)), n_iter, converged)


def mmc_diagonal(S: Array, Y: Array, *, max_iter: int, tol: float) -> Factored:
    r"""Solve the same problem for a diagonal matrix, in its form without constraint.

    .. math::
        \min_{w \ge 0} \langle s, w \rangle - 2 \log \operatorname{mean}_c
        \Big(\sum_j y_{cj}^2 w_j\Big)^{1/2}

    [Xing2002, §2.1], where s is the diagonal of S.  Its minimum is one of the problem above up
    to a factor.

    Parameters
    ----------
    S : array of shape (D, D)
        As in :func:`mmc`; only its diagonal, which is positive, counts.
    Y : array of shape (n, D)
        Differences of the dissimilar pairs; none is zero.
    max_iter, tol
        It ends when the duality gap, relative to the value, is at most ``tol``.
    """
    squares = Y * Y / np.diag(S)  # in the unit of s, so that the steps do not depend on it

    def fun(w: Array) -> tuple[float, Array]:
        distance = np.sqrt(np.maximum(squares @ w, _SMALLEST))
        total = float(np.sum(distance))
        return float(w.sum()) - 2.0 * np.log(total), 1.0 - (1.0 / distance) @ squares / total

    def gap(w: Array) -> float:
        return float(np.max(1.0 - fun(w)[1]) * w.sum()) - 1.0

    def stop(intermediate_result: OptimizeResult) -> None:
        if gap(intermediate_result.x) <= tol:
            raise StopIteration

    D = squares.shape[1]
    options = {"maxiter": max_iter, "maxfun": 20 * max_iter, "ftol": 0.0, "gtol": 0.0}
    found = minimize(
        fun, np.full(D, 1.0 / D), jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * D,
        callback=stop, options=options,
    )  # fmt: skip
    w = found.x
    mean = float(np.mean(np.sqrt(squares @ w)))
    L = np.diag(np.sqrt(w / np.diag(S)) / mean)
    return Factored(L, float(w.sum()) / mean**2, max(1, int(found.nit)), gap(w) <= tol)
