"""Sparse distance metric learning from pairs."""

from __future__ import annotations

import warnings
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh
from sklearn.covariance import graphical_lasso
from sklearn.exceptions import ConvergenceWarning

from vicinal._threads import single_threaded_blas
from vicinal._validation import check_number, check_seed
from vicinal.core.types import Array, Auto, Scaling, Seed
from vicinal.estimators._pairs import MatrixLearner, PairClassifierMixin, Preprocessor
from vicinal.fit.resume import unchanged_on_error
from vicinal.solvers.factored import prior_factor

_AUTO_MOST, _AUTO_SHARE = 0.5, 0.5  # the usual balance, and a safe share of the largest
_STEPS = 15  # of the first method; from then on the other one is faster
_SHARES = (1.0, 1e-2, 1e-4)  # of the wanted gap, that the solver is asked for in turn


class SDML(PairClassifierMixin, MatrixLearner):
    r"""Sparse distance metric learning (SDML): few entries of M off the diagonal.

    .. math::
        \min_{M \succ 0} \operatorname{tr} M (M^0)^{-1} - \log\det M
        + \eta \sum_c s_c\, \delta_c + \rho \sum_{i \ne j} |M_{ij}|,

    where :math:`\delta_c` is the squared distance of a pair and :math:`s_c` is +1 for similar and
    -1 for dissimilar pairs [Qi2009]_.  With
    :math:`P = (M^0)^{-1} + \eta \sum_c s_c x_c x_c^\top` it is the graphical lasso, which
    scikit-learn solves.  If P is not positive definite, because dissimilar pairs outweigh the
    prior, there may be no minimum.

    Parameters
    ----------
    balance : "auto" or float, default="auto"
        The weight :math:`\eta` of the pairs.  "auto": 0.5, or half of the largest value for which
        P is positive definite if that is less.
    sparsity : float, default=0.01
        The penalty :math:`\rho`, on M of the scaled columns.
    prior : {"identity", "covariance", "random"} or array of shape (n_features, n_features), \
            default="identity"
        :math:`M^0`.  "identity": of the scaled columns.  "covariance": inverse covariance of the
        rows in the pairs.  "random": drawn by ``random_state``.  An array, positive definite, is
        a matrix for the original columns.
    scaling : {"standard", "global", None}, default="standard"
        Scaling of the columns beforehand, by the rows in the pairs; folded into ``components_``.
    max_iter : int, default=100
        Largest number of steps, and of sweeps of the graphical lasso where a few steps do not do.
    tol : float, default=1e-4
        The duality gap, divided by the number of features, at which it ends.
    preprocessor : array-like, sparse matrix or callable, default=None
        What pairs of indices refer to: an array of rows, or a function from indices to rows.
    random_state : int, RandomState or None, default=None
        For ``prior="random"``.

    Attributes
    ----------
    components_ : ndarray of shape (n_features, n_features)
        A factor of M; ``transform(X) = X @ components_.T``.
    balance_ : float
        The weight of the pairs.
    loss_ : float
        Value of the objective, in scaled columns.
    n_iter_ : int
        Sweeps of the graphical lasso, or the few steps that made them unnecessary.
    threshold_ : float
        Largest distance of pairs that are predicted to be similar.
    classes_ : ndarray of shape (2,)
        -1 and 1.
    n_features_in_ : int
        Number of features.

    References
    ----------
    .. [Qi2009] G.-J. Qi, J. Tang, Z.-J. Zha, T.-S. Chua, H.-J. Zhang, "An efficient sparse metric
       learning in high-dimensional space via l1-penalized log-determinant regularization",
       ICML 2009.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from vicinal import SDML
    >>> from vicinal.targets import pairs_from_labels
    >>> X, y = load_wine(return_X_y=True)
    >>> pairs, labels = pairs_from_labels(y, random_state=0)
    >>> SDML(preprocessor=X).fit(pairs, labels).transform(X).shape
    (178, 13)
    """

    def __init__(
        self,
        balance: float | Auto = "auto",
        sparsity: float = 0.01,
        *,
        prior: str | ArrayLike = "identity",
        scaling: Scaling = "standard",
        max_iter: int = 100,
        tol: float = 1e-4,
        preprocessor: Preprocessor = None,
        random_state: Seed = None,
    ) -> None:
        self.balance = balance
        self.sparsity = sparsity
        self.prior = prior
        self.scaling = scaling
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
        self : SDML
        """
        self._check_shared()
        check_number(self, "balance", 0.0, or_else=("auto",))
        check_number(self, "sparsity", 0.0)
        rng = check_seed(self)
        pairs, y = self._check_labelled_pairs(pairs, y)
        with single_threaded_blas():
            scaled = self._scaled(pairs)
            X = scaled.differences(pairs)
            L0 = np.linalg.inv(prior_factor("SDML", self.prior, scaled.points, scaled.scale, rng))
            prior_inverse, K = L0 @ L0.T, (X.T * y) @ X
            largest = largest_balance(prior_inverse, K)
            self.balance_ = min(_AUTO_MOST, _AUTO_SHARE * largest)
            if not isinstance(self.balance, str):
                self.balance_ = float(self.balance)
            P = prior_inverse + self.balance_ * K
            result = sdml(P, self.sparsity, max_iter=self.max_iter, tol=self.tol)
            if result is None:
                raise ValueError(_no_solution(self, largest))
            self.n_iter_, self.loss_ = result.n_iter, result.objective
            self._store(np.linalg.cholesky(result.M).T, scaled, pairs.dtype)
        if result.gap > self.tol:
            advice = ""
            if self.balance_ >= largest:
                advice = f", or decrease 'balance' below {largest:.3g}"
            self._warn_unconverged(advice)
        self._calibrate_on_training_pairs(pairs, y)
        return self


def _no_solution(estimator: SDML, largest: float) -> str:
    return (
        f"The 'balance' parameter of SDML must be less than {largest:.3g} for these pairs, or the "
        "'sparsity' larger: the graphical lasso found no positive definite matrix, since "
        "dissimilar pairs outweigh the prior. Use balance='auto' for a value that is small enough. "
        f"Got balance={estimator.balance!r} and sparsity={estimator.sparsity!r} instead."
    )


class SDMLResult(NamedTuple):
    """The matrix, the value there, the duality gap per feature (inf: unknown), the iterations."""

    M: Array
    objective: float
    gap: float
    n_iter: int


def largest_balance(prior_inverse: Array, K: Array) -> float:
    """The largest η up to which ``prior_inverse + η K`` is positive definite; inf: any."""
    lowest = float(eigh(K, prior_inverse, eigvals_only=True, subset_by_index=(0, 0))[0])
    return -1.0 / lowest if lowest < 0.0 else np.inf


def sdml(P: Array, sparsity: float, *, max_iter: int, tol: float) -> SDMLResult | None:
    r"""Minimise the graphical lasso's objective, to which [Qi2009] comes down.

    .. math::
        \min_{M \succ 0} \langle P, M \rangle - \log\det M + \rho \sum_{i \ne j} |M_{ij}|

    Parameters
    ----------
    P : array of shape (D, D)
        Inverse of the prior plus the weighted pairs.
    sparsity : float
        The penalty ρ.
    max_iter, tol
        Of scikit-learn's ``graphical_lasso``; ``tol`` bounds the duality gap per feature.

    Returns
    -------
    SDMLResult, or None if the solver found no positive definite matrix
    """
    if sparsity == 0.0 or len(P) == 1:
        try:
            np.linalg.cholesky(P)
        except np.linalg.LinAlgError:
            return None
        return _result(np.linalg.inv(P), P, 0.0, 1)
    result, n_iter = _steps(P, sparsity, max_iter, _SHARES[1] * tol), 0
    if result is not None:
        return result
    # The solver measures its gap at two matrices that are not quite inverse to each other.  It is
    # asked for more where the gap of the result, which is the one we promise, is too large.
    for share in _SHARES:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                _, M, n = graphical_lasso(
                    P, sparsity, max_iter=max_iter - n_iter, tol=share * tol * len(P),
                    enet_tol=min(1e-4, share * tol), return_n_iter=True,
                )  # fmt: skip
            n_iter += n
            result = _result(0.5 * (M + M.T), P, sparsity, n_iter)
        except (FloatingPointError, np.linalg.LinAlgError):
            break
        if result.gap <= tol or n_iter >= max_iter:
            break
    return result


def _steps(P: Array, sparsity: float, max_iter: int, tol: float) -> SDMLResult | None:
    """The result of a few proximal gradient steps, with columns scaled so that P has ones.

    Where P is near its diagonal they are all it takes, and a step takes as long as a few columns
    of a sweep.  None where ``tol`` is not reached: nothing is lost but some milliseconds.
    """
    if not (np.diag(P) > 0.0).all():
        return None
    unit = 1.0 / np.sqrt(np.diag(P))
    units = np.outer(unit, unit)
    shrinkage = sparsity * units
    np.fill_diagonal(shrinkage, 0.0)
    M, W, step = np.eye(len(P)), np.eye(len(P)), 1.0  # W is the inverse of M
    for n_iter in range(1, min(max_iter, _STEPS) + 1):
        moved = M - step * (P * units - W)
        new = np.sign(moved) * np.maximum(np.abs(moved) - step * shrinkage, 0.0)
        try:
            result = _result(new * units, P, sparsity, n_iter)
        except np.linalg.LinAlgError:  # too long a step
            return None
        if result.gap <= tol:
            return result
        inverse = np.linalg.inv(new)
        change, curvature = new - M, W - inverse
        # the step of Barzilai and Borwein; the curvature is positive, for -log det is convex
        step = float(np.sum(change**2) / np.sum(change * curvature))
        M, W = new, inverse
    return None


def _result(M: Array, P: Array, sparsity: float, n_iter: int) -> SDMLResult:
    np.linalg.cholesky(M)  # fails unless M is positive definite
    value = float(np.sum(P * M) - np.linalg.slogdet(M)[1] + sparsity * _off_diagonal(M))
    return SDMLResult(M, value, _gap(M, P, sparsity, value), n_iter)


def _off_diagonal(M: Array) -> float:
    return float(np.abs(M).sum() - np.abs(np.diag(M)).sum())


def _gap(M: Array, P: Array, sparsity: float, value: float) -> float:
    """Bound per feature of how far the value is above the minimum.

    The dual problem is to maximise ``log det W + D`` where W has the diagonal of P and differs from
    it by at most ρ elsewhere.  M⁻¹, moved into these limits, is such a W if it is positive
    definite.
    """
    W = P + np.clip(np.linalg.inv(M) - P, -sparsity, sparsity)
    np.fill_diagonal(W, np.diag(P))
    sign, log_det = np.linalg.slogdet(W)
    if sign <= 0 or np.linalg.eigvalsh(W)[0] <= 0.0:
        return np.inf
    return (value - float(log_det) - len(P)) / len(P)
