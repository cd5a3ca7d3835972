"""``transform`` and the learnt metric: of linear and other maps, and of histograms."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array, check_is_fitted

from vicinal._features import unscaled
from vicinal._validation import check_pairs, check_rows, histograms, one_row, refuse_elsewhere
from vicinal.core.points import like
from vicinal.core.types import Array, Matrix, MatrixLike
from vicinal.engines import cuda
from vicinal.maps.fitted import FittedLinear
from vicinal.storage.model import SaveMixin


def _can_invert(estimator: BaseEstimator) -> bool:
    """True, or an error that says why the learnt map has no inverse; unknown before a fit."""
    fitted = estimator._map
    if fitted is None or isinstance(fitted, FittedLinear):
        return True
    raise AttributeError(only_linear("inverse_transform", fitted))


def rows_of(estimator: Any, X: MatrixLike) -> Any:
    """Checked rows for a fitted estimator, on a device if they lie there or it asks for one."""
    table = cuda.of_tensor(X, estimator)
    if table is X:
        return cuda.on_device(check_rows(estimator, X, reset=False), estimator)
    if table.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {table.shape[1]} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )
    return table


class OnlyLinear:
    """An attribute that is set where the learnt map is linear; elsewhere the error says so."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, estimator: BaseEstimator, owner: type) -> Any:
        if estimator is None:
            return self
        learnt = vars(estimator).get("_map")
        if learnt is None:
            raise AttributeError(f"{owner.__name__!r} object has no attribute {self.name!r}")
        raise AttributeError(only_linear(self.name, learnt))


def only_linear(name: str, learnt: Any) -> str:
    """The message that an attribute or a method exists for linear maps only."""
    return f"{name} exists for linear maps only. The map is {learnt.mapping!r}."


class LearntMetricMixin(SaveMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Transform and distances by the learnt map, with the method names of metric-learn.

    A fit sets ``_map``, and ``components_`` (d, D) if the map is linear.
    """

    components_: Any = OnlyLinear()
    _map: Any = None
    _importances: Array | None = None

    def __sklearn_is_fitted__(self) -> bool:
        return self._map is not None

    @property
    def _n_features_out(self) -> int:
        return self._map.n_components

    def transform(self, X: MatrixLike) -> Array:
        """Embed rows: ``X @ components_.T`` where the map is linear.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows in the original features; they are not centred.

        Returns
        -------
        Z : ndarray of shape (n_samples, n_components)
        """
        check_is_fitted(self)
        return like(X, self._map.transform(rows_of(self, X)))

    @available_if(_can_invert)
    def inverse_transform(self, X: MatrixLike) -> Array:
        """Rows that are embedded at given points; of all such rows, those nearest to the mean.

        A map of fewer components than features forgets directions: what comes back has the mean of
        the training rows in them, measured in the scaled columns (the pseudo-inverse).  So has a
        column that did not vary.  ``transform(inverse_transform(Z))`` is Z if the components are
        linearly independent.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Embedded points, as ``transform`` returns them.

        Returns
        -------
        rows : ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        refuse_elsewhere(self, X, "X")
        Z = check_array(X, dtype=[np.float64, np.float32])
        d = self._n_features_out
        if Z.shape[1] != d:
            raise ValueError(f"X must have {d} columns, one per component. Got {Z.shape[1]}.")
        return self._map.inverse(Z)

    def get_mahalanobis_matrix(self) -> Array:
        """The matrix M = components_.T @ components_ of d²(x, x') = (x - x')' M (x - x').

        It is float64 if float32 cannot hold it.
        """
        check_is_fitted(self)
        if not isinstance(self._map, FittedLinear):
            raise AttributeError(only_linear("get_mahalanobis_matrix", self._map))
        with np.errstate(over="ignore", invalid="ignore"):
            M = self.components_.T @ self.components_
            if not np.isfinite(M).all():
                A = self.components_.astype(np.float64)
                M = A.T @ A
        if not np.isfinite(M).all():
            raise ValueError(
                f"The matrix of this {type(self).__name__} is beyond float64: the entries of "
                f"'components_' must be below {np.finfo(float).max ** 0.5:.2g} for their products. "
                f"Got {np.abs(self.components_).max():.2g} instead. Use transform or get_metric()."
            )
        return M

    def get_metric(self) -> Callable[..., float]:
        """A function of two vectors, usable as ``metric`` in scikit-learn.

        Returns
        -------
        metric : callable
            ``metric(u, v, squared=False)``: the learnt distance of two rows, of shape
            (n_features,) or (1, n_features).  It holds a copy of the map and does not change with
            later fits.
        """
        check_is_fitted(self)
        if not isinstance(self._map, FittedLinear):
            return _metric_of(copy.deepcopy(self._map), self.n_features_in_)
        A = self.components_.copy()

        def metric(u: ArrayLike, v: ArrayLike, squared: bool = False) -> float:
            difference = A @ (one_row(u, A.shape[1], A.dtype) - one_row(v, A.shape[1], A.dtype))
            d2 = float(difference @ difference)
            return d2 if squared else d2**0.5

        return metric

    def pair_distance(self, pairs: ArrayLike) -> Array:
        """Learnt distance of each pair.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features)

        Returns
        -------
        distances : ndarray of shape (n_pairs,)
        """
        check_is_fitted(self)
        if isinstance(self._map, FittedLinear):
            pairs = check_pairs(pairs, self.components_.shape[1])
            Z = (pairs[:, 1] - pairs[:, 0]) @ self.components_.T
        else:
            pairs = check_pairs(pairs, self.n_features_in_)
            Z = self._map.transform(pairs[:, 1]) - self._map.transform(pairs[:, 0])
        return np.sqrt(np.einsum("ij,ij->i", Z, Z))

    def pair_score(self, pairs: ArrayLike) -> Array:
        """Minus the learnt distance of each pair: the higher, the more alike."""
        return -self.pair_distance(pairs)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _metric_of(fitted: Any, n_features: int) -> Callable[..., float]:
    """The distance after a map that is not linear."""

    def metric(u: ArrayLike, v: ArrayLike, squared: bool = False) -> float:
        Z = fitted.transform(np.stack([one_row(x, n_features, np.float64) for x in (u, v)]))
        d2 = float(np.sum((Z[0] - Z[1]) ** 2))
        return d2 if squared else d2**0.5

    return metric


def feature_importances(estimator: BaseEstimator) -> Array:
    r"""Share of each feature in the learnt metric; the shares add up to one.

    What the feature adds to the squared distance of two rows that differ by one deviation in
    it: :math:`\sum_k A_{kj}^2` in the scaled features if the map is linear.  For any other map
    :math:`\varphi` single entries are exchanged between rows i and i' of a sample of the
    training rows,

    .. math:: \frac{\sum_i \|\varphi(x_i) - \varphi(x_i + (x_{i'j} - x_{ij})\, e_j)\|^2}
                   {\sum_i (x_{i'j} - x_{ij})^2},

    which is the same for a linear map.  This is computed at the end of a fit, in a tenth of a
    second or some hundredths of the time of the fit; a checkpoint does not have it, nor a fit
    whose ``time_budget`` leaves no time for it.

    With ``mapping="diagonal"`` the shares can select features for a second, low-rank map
    ([Oneata2011]_ section 6.1), for example with
    :class:`sklearn.feature_selection.SelectFromModel`.
    """
    check_is_fitted(estimator)
    if isinstance(estimator._map, FittedLinear):
        A = unscaled(estimator.components_.astype(np.float64), estimator._map.scale)
        share = np.sum(A**2, axis=0)
        return share / (share.sum() or 1.0)
    if estimator._importances is None:
        raise AttributeError(
            "feature_importances_ of a nonlinear map is computed at the end of a fit: a "
            "checkpoint does not have it, nor a fit whose 'time_budget' left no time for it."
        )
    return estimator._importances.copy()


class HistogramMixin(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Transform and χ² distances by ``components_`` (r, D), whose columns sum to one."""

    components_: Array
    normalize: bool

    @property
    def _n_features_out(self) -> int:
        return self.components_.shape[0]

    def _check_rows(self, X: MatrixLike) -> Matrix:
        check_is_fitted(self, "components_")
        return histograms(check_rows(self, X, reset=False), self.normalize)

    def transform(self, X: MatrixLike) -> Array:
        """Map histograms to histograms of r bins: ``H @ components_.T``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Histograms; H is X, with rows divided by their sums if ``normalize``.

        Returns
        -------
        Z : ndarray of shape (n_samples, n_components)
            Rows sum to one.
        """
        H = self._check_rows(X)
        return safe_sparse_dot(H, self.components_.T, dense_output=True)

    def get_metric(self) -> Callable[..., float]:
        """A function of two histograms, usable as ``metric`` in scikit-learn.

        Returns
        -------
        metric : callable
            ``metric(u, v, squared=False)``: the square root of χ² after the map, which satisfies
            the triangle inequality, or χ² itself.  It holds a copy of the map and does not change
            with later fits.
        """
        check_is_fitted(self, "components_")
        A, normalize = self.components_.copy(), bool(self.normalize)

        def metric(u: ArrayLike, v: ArrayLike, squared: bool = False) -> float:
            rows = np.stack([one_row(x, A.shape[1], A.dtype) for x in (u, v)])
            pair = histograms(rows, normalize) @ A.T
            d = float(chi2(pair[0], pair[1]))
            return d if squared else d**0.5

        return metric

    def pair_distance(self, pairs: ArrayLike) -> Array:
        """Learnt distance of each pair: the square root of χ² after the map, a metric.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features)
            Pairs of histograms.

        Returns
        -------
        distances : ndarray of shape (n_pairs,)
        """
        check_is_fitted(self, "components_")
        D = self.components_.shape[1]
        pairs = check_pairs(pairs, D)
        H = histograms(pairs.reshape(-1, D), self.normalize) @ self.components_.T
        return np.sqrt(chi2(H[::2], H[1::2]))

    def pair_score(self, pairs: ArrayLike) -> Array:
        """Minus the learnt distance of each pair: the higher, the more alike."""
        return -self.pair_distance(pairs)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def chi2(u: Array, v: Array) -> Array:
    """The χ² distances of corresponding rows of u and v."""
    total = u + v
    return 0.5 * np.sum((u - v) ** 2 / np.where(total > 0, total, 1.0), axis=-1)
