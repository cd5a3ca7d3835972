"""Metrics from covariances, in closed form: that of all rows, and RCA's within classes."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_consistent_length, column_or_1d

from vicinal import starts
from vicinal._features import check_varies, make_rows
from vicinal._threads import single_threaded_blas
from vicinal._validation import (
    check_discrete,
    check_label_types,
    check_number,
    check_option,
    check_rows,
    warn,
)
from vicinal.core.types import Array, Matrix, MatrixLike, Scaling
from vicinal.estimators._metric import LearntMetricMixin
from vicinal.fit.resume import unchanged_on_error
from vicinal.maps.fitted import FittedLinear
from vicinal.starts.spectral import RCOND, eigen, scatter


class Covariance(LearntMetricMixin, BaseEstimator):
    r"""Mahalanobis distance by the inverse covariance: the baseline that uses no labels.

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


class RCA(LearntMetricMixin, BaseEstimator):
    r"""Relevant component analysis (RCA): whiten the scatter within classes or chunklets.

    Let :math:`S_W` be the scatter around the means of the classes or chunklets and S the total
    scatter.  The rows of the map are the top generalised eigenvectors of :math:`(S, S_W)`, scaled
    so that the scatter within becomes the identity [BarHillel2003]_.  At full rank this is
    :math:`S_W^{-1/2}` up to a rotation, which does not change distances.

    Parameters
    ----------
    n_components : int, default=None
        Rank of the map; None: the number of features.
    shrinkage : None, "oas" or float in (0, 1], default=None
        Shrink :math:`S_W` towards a multiple of the identity.  None: only if it is singular, with a
        warning.
    scaling : {"standard", "global", None}, default="standard"
        Scaling of the columns beforehand, folded into ``components_``.  Without shrinkage it only
        affects rounding.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The map; ``transform(X) = X @ components_.T``.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X had string names.

    References
    ----------
    .. [BarHillel2003] A. Bar-Hillel, T. Hertz, N. Shental, D. Weinshall, "Learning distance
       functions using equivalence relations", ICML 2003.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from vicinal import RCA
    >>> X, y = load_wine(return_X_y=True)
    >>> RCA(n_components=2).fit(X, y).transform(X).shape
    (178, 2)
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        shrinkage: float | Literal["oas"] | None = None,
        scaling: Scaling = "standard",
    ) -> None:
        self.n_components = n_components
        self.shrinkage = shrinkage
        self.scaling = scaling

    @unchanged_on_error
    def fit(
        self, X: MatrixLike, y: ArrayLike | None = None, *, chunks: ArrayLike | None = None
    ) -> Self:
        """Compute the map.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), default=None
            Class labels.  Ints from -1 on, other than -1 and 1 alone, give a warning: other
            libraries take chunklets at this place.
        chunks : array-like of shape (n_samples,), default=None
            Instead of labels, the chunklet of each row as a non-negative int.  Rows in no chunklet
            have -1 and count only towards the total scatter.

        Returns
        -------
        self : RCA
        """
        check_option(self, "scaling", ("standard", "global", None))
        X, codes, share = self._check_data(X, y, chunks)
        check_number(self, "n_components", 1, X.shape[1], integer=True, or_else=(None,))
        d = self.n_components or X.shape[1]
        start = starts.RCA(self.shrinkage)
        with single_threaded_blas():
            features = make_rows(X, self.scaling, limit_outliers=False)
            check_varies(features)
            rng = np.random.RandomState(0)  # only used for more than 2,000 columns
            A, complaint = start.rows(features, codes, d, rng)
        if complaint:
            warn(f"{complaint} Set the 'shrinkage' parameter of RCA to choose the amount.")
        A = np.sqrt(share) * A
        self._map = FittedLinear.of_scaled(A, features.shift, features.scale, X.dtype)
        self.components_ = self._map.components
        return self

    def _check_data(
        self, X: MatrixLike, y: ArrayLike | None, chunks: ArrayLike | None
    ) -> tuple[Matrix, Array, float]:
        """The rows, the group of each row, and the share of rows that are in a group."""
        if chunks is None:
            if y is None:
                raise ValueError(
                    "RCA requires y to be passed, but the target y is None. Without labels, pass "
                    "'chunks'."
                )
            check_label_types(y)
            X, labels = check_rows(self, X, y, ensure_min_samples=2)
            check_discrete(labels)
            _warn_if_chunks(labels)
            return X, np.unique(labels, return_inverse=True)[1], 1.0
        if y is not None:
            raise ValueError("RCA.fit takes exactly one of y and 'chunks'. Got both instead.")
        X = check_rows(self, X, ensure_min_samples=2)
        groups = np.asarray(column_or_1d(chunks, warn=True))
        check_consistent_length(X, groups)
        if groups.dtype.kind not in "iu" or groups.min() < -1 or groups.max() < 0:
            raise ValueError(
                "The 'chunks' parameter of RCA.fit must hold ints of at least -1, and at least one "
                f"that is not negative. Got {np.unique(groups)[:5].tolist()!r}... instead."
            )
        # A row in no chunklet becomes its own chunklet: it adds nothing to the scatter within.
        codes = np.unique(groups, return_inverse=True)[1]
        alone = groups < 0
        codes[alone] = codes.max() + 1 + np.arange(alone.sum())
        return X, np.unique(codes, return_inverse=True)[1], float(np.mean(~alone))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


def _warn_if_chunks(y: Array) -> None:
    """Warn if labels look like metric-learn's chunklets, its second argument of ``RCA.fit``."""
    if y.dtype.kind != "i" or y.min() != -1 or set(np.unique(y)) == {-1, 1}:
        return
    warn(
        "The labels y of RCA.fit hold -1, which is taken as a class like any other. If they are "
        "chunklets, with -1 for rows in none, pass them as chunks=."
    )
