"""Mahalanobis metric for clustering: similar pairs near, dissimilar pairs far on the mean."""

from __future__ import annotations

from typing import Any

import numpy as np

from vicinal._threads import single_threaded_blas
from vicinal._validation import check_bool, check_number, warn
from vicinal.convex.mmc import mmc, mmc_diagonal
from vicinal.core.types import Array
from vicinal.estimators._pairs import MatrixLearner, PairClassifierMixin
from vicinal.fit.resume import unchanged_on_error

_SINGULAR = 1e-10  # ratio of eigenvalues below which the scatter of similar pairs is singular
_SHRINKAGE = 1e-3  # of a singular one


class MMC(PairClassifierMixin, MatrixLearner):
    r"""Mahalanobis metric for clustering: similar pairs near, dissimilar pairs not.

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
        scaling: str | None = "standard",
        max_iter: int = 1000,
        tol: float = 1e-4,
        preprocessor: Any = None,
    ) -> None:
        self.diagonal = diagonal
        self.shrinkage = shrinkage
        self.scaling = scaling
        self.max_iter = max_iter
        self.tol = tol
        self.preprocessor = preprocessor

    @unchanged_on_error
    def fit(self, pairs: Any, y: Any) -> MMC:
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
            usable = dissimilar.any(axis=1)
            if not usable.all():
                if not usable.any():
                    raise ValueError("MMC needs a dissimilar pair of two different rows. Got none.")
                warn(
                    f"{np.sum(~usable)} of the {len(usable)} dissimilar pairs of MMC hold two "
                    "equal rows: their distance is 0 under every metric, and counts in the mean."
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
