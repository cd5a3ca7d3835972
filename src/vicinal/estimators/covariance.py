"""The Mahalanobis distance of statistics: the inverse of the covariance as a metric."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import Tags

from vicinal._features import check_varies, make_rows
from vicinal._threads import single_threaded_blas
from vicinal._validation import check_rows, warn
from vicinal.core.types import Array, MatrixLike
from vicinal.estimators._metric import LearntMetricMixin
from vicinal.fit.resume import unchanged_on_error
from vicinal.maps.fitted import FittedLinear
from vicinal.starts.spectral import RCOND, eigen, scatter


class Covariance(LearntMetricMixin, BaseEstimator):
    r"""Measure distances by the inverse of the covariance: the baseline that uses no labels.

    .. math:: M = C^{-1}, \qquad
              C = \tfrac{1}{n-1} \sum_i (x_i - \bar x)(x_i - \bar x)^\top .

    The embedded rows are uncorrelated, with variance one.  If C is singular, M is its
    pseudo-inverse in standardised columns, with a warning: directions in which the rows do not vary
    get weight zero, also for new rows.

    Attributes
    ----------
    components_ : ndarray of shape (n_features, n_features)
        A root of M, ``components_.T @ components_``; ``transform(X) = X @ components_.T``.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X had string names.

    See Also
    --------
    RCA : The same from the covariance within classes.

    References
    ----------
    .. [Mahalanobis1936] P. C. Mahalanobis, "On the generalised distance in statistics", Proceedings
       of the National Institute of Sciences of India 2, 1936.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from vicinal import Covariance
    >>> X, _ = load_wine(return_X_y=True)
    >>> Covariance().fit(X).transform(X).var(axis=0, ddof=1).round(6).tolist()[:2]
    [1.0, 1.0]
    """

    @unchanged_on_error
    def fit(self, X: MatrixLike, y: ArrayLike | None = None) -> Self:
        """Compute the covariance and the root of its inverse.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        self : Covariance
        """
        X = check_rows(self, X, ensure_min_samples=2)
        n, D = X.shape
        with single_threaded_blas():
            features = make_rows(X, "standard", limit_outliers=False)
            check_varies(features)
            S = scatter(features, np.zeros(n, dtype=np.intp), 1).total * (n / (n - 1))
            root, rank = _root_of_inverse(S)
        if rank < D:
            warn(
                f"The covariance of the rows is singular (rank {rank} of {D}): its pseudo-inverse "
                "is used, and directions in which the rows do not vary get zero weight."
            )
        self._map = FittedLinear.of_scaled(root, features.shift, features.scale, X.dtype)
        self.components_ = self._map.components
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _root_of_inverse(S: Array) -> tuple[Array, int]:
    """A with A'A the pseudo-inverse of S, and the rank."""
    variance, V = eigen(S)
    live = variance > RCOND * variance[-1]
    return (V[:, live] / np.sqrt(variance[live])) @ V[:, live].T, int(live.sum())
