"""``transform`` and the learnt metric, for linear and other maps."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array, check_is_fitted

from vicinal._features import unscaled
from vicinal._validation import check_rows, refuse_elsewhere
from vicinal.core.types import Array
from vicinal.storage.model import SaveMixin

__all__ = ["LearntMetricMixin", "MahalanobisMixin", "check_pairs", "one_row"]


def _can_invert(estimator: Any) -> bool:
    """True, or an error that says why the learnt map has no inverse; unknown before a fit."""
    fitted = getattr(estimator, "_map", None)
    if fitted is None or hasattr(fitted, "inverse"):
        return True
    raise AttributeError(only_linear("inverse_transform", fitted))


class MahalanobisMixin(SaveMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Transform and distances by ``components_`` (d, D); with the method names of metric-learn."""

    components_: Array
    _map: Any

    @property
    def _n_features_out(self) -> int:
        return self.components_.shape[0]

    def transform(self, X: Any) -> Array:
        """Embed rows: ``X @ components_.T``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows in the original features; they are not centred.

        Returns
        -------
        Z : ndarray of shape (n_samples, n_components)
        """
        check_is_fitted(self, "components_")
        X = check_rows(self, X, reset=False)
        return safe_sparse_dot(X, self.components_.T, dense_output=True)

    @available_if(_can_invert)
    def inverse_transform(self, X: Any) -> Array:
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
        check_is_fitted(self, "components_")
        refuse_elsewhere(self, X, "X")
        Z = check_array(X, dtype=[np.float64, np.float32])
        d = self.components_.shape[0]
        if Z.shape[1] != d:
            raise ValueError(f"X must have {d} columns, one per component. Got {Z.shape[1]}.")
        return self._map.inverse(Z)

    def get_mahalanobis_matrix(self) -> Array:
        """The matrix M = components_.T @ components_ of d²(x, x') = (x - x')' M (x - x').

        It is float64 if float32 cannot hold it.
        """
        check_is_fitted(self, "components_")
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
        check_is_fitted(self, "components_")
        A = self.components_.copy()

        def metric(u: Any, v: Any, squared: bool = False) -> float:
            difference = A @ (one_row(u, A.shape[1], A.dtype) - one_row(v, A.shape[1], A.dtype))
            d2 = float(difference @ difference)
            return d2 if squared else d2**0.5

        return metric

    def pair_distance(self, pairs: Any) -> Array:
        """Learnt distance of each pair.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features)

        Returns
        -------
        distances : ndarray of shape (n_pairs,)
        """
        check_is_fitted(self, "components_")
        pairs = check_pairs(pairs, self.components_.shape[1])
        Z = (pairs[:, 1] - pairs[:, 0]) @ self.components_.T
        return np.sqrt(np.einsum("ij,ij->i", Z, Z))

    def pair_score(self, pairs: Any) -> Array:
        """Minus the learnt distance of each pair: the higher, the more alike."""
        return -self.pair_distance(pairs)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def check_pairs(pairs: Any, n_features: int) -> Array:
    """Pairs of rows as numbers, (n_pairs, 2, n_features)."""
    refuse_elsewhere("the metric", pairs, "pairs")
    pairs = check_array(pairs, allow_nd=True, dtype=[np.float64, np.float32])
    if pairs.ndim != 3 or pairs.shape[1:] != (2, n_features):
        raise ValueError(
            f"pairs must have shape (n_pairs, 2, {n_features}). Got {pairs.shape} instead."
        )
    return pairs


def one_row(x: Any, n_features: int, dtype: Any) -> Array:
    """A row, dense or sparse, of shape (n_features,) or (1, n_features), as a vector."""
    x = np.asarray(x.toarray() if sp.issparse(x) else x, dtype=dtype)
    if x.shape not in ((n_features,), (1, n_features)):
        raise ValueError(
            f"The metric takes rows of shape ({n_features},) or (1, {n_features}). "
            f"Got {x.shape} instead."
        )
    return x.reshape(n_features)


class OnlyLinear:
    """An attribute that is set where the learnt map is linear; elsewhere the error says so."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, estimator: Any, owner: type) -> Any:
        if estimator is None:
            return self
        learnt = vars(estimator).get("_map")
        if learnt is None:
            raise AttributeError(f"{owner.__name__!r} object has no attribute {self.name!r}")
        raise AttributeError(only_linear(self.name, learnt))


def only_linear(name: str, learnt: Any) -> str:
    """The message that an attribute or a method exists for linear maps only."""
    return f"{name} exists for linear maps only. The map is {learnt.mapping!r}."


class LearntMetricMixin(MahalanobisMixin):
    """The same for any learnt map, linear or not."""

    components_: Any = OnlyLinear()
    _map: Any
    _importances: Array
    n_components_: int

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def transform(self, X: Any) -> Array:
        """Embed rows: ``X @ components_.T`` where the map is linear.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows in the original features; they are not centred.

        Returns
        -------
        Z : ndarray of shape (n_samples, n_components)
        """
        check_is_fitted(self, "n_components_")
        X = check_rows(self, X, reset=False)
        return self._map.transform(X)

    def get_mahalanobis_matrix(self) -> Array:
        """The matrix M = components_.T @ components_ of d²(x, x') = (x - x')' M (x - x')."""
        check_is_fitted(self, "n_components_")
        self._need_linear("get_mahalanobis_matrix")
        return super().get_mahalanobis_matrix()

    def get_metric(self) -> Callable[..., float]:
        """A function of two vectors, usable as ``metric`` in scikit-learn.

        Returns
        -------
        metric : callable
            ``metric(u, v, squared=False)``: the learnt distance of two rows, of shape
            (n_features,) or (1, n_features).  It holds a copy of the map and does not change with
            later fits.
        """
        check_is_fitted(self, "n_components_")
        if hasattr(self, "components_"):
            return super().get_metric()
        fitted, n_features = copy.deepcopy(self._map), self.n_features_in_

        def metric(u: Any, v: Any, squared: bool = False) -> float:
            Z = fitted.transform(np.stack([one_row(x, n_features, np.float64) for x in (u, v)]))
            d2 = float(np.sum((Z[0] - Z[1]) ** 2))
            return d2 if squared else d2**0.5

        return metric

    def pair_distance(self, pairs: Any) -> Array:
        """Learnt distance of each pair.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features)

        Returns
        -------
        distances : ndarray of shape (n_pairs,)
        """
        check_is_fitted(self, "n_components_")
        if hasattr(self, "components_"):
            return super().pair_distance(pairs)
        pairs = check_pairs(pairs, self.n_features_in_)
        Z = self._map.transform(pairs[:, 1]) - self._map.transform(pairs[:, 0])
        return np.sqrt(np.einsum("ij,ij->i", Z, Z))

    @property
    def feature_importances_(self) -> Array:
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
        check_is_fitted(self, "n_components_")
        if hasattr(self, "components_"):
            A = unscaled(self.components_.astype(np.float64), self._map.scale)
            share = np.sum(A**2, axis=0)
            return share / (share.sum() or 1.0)
        if not hasattr(self, "_importances"):
            raise AttributeError(
                "feature_importances_ of a nonlinear map is computed at the end of a fit: a "
                "checkpoint does not have it, nor a fit whose 'time_budget' left no time for it."
            )
        return self._importances.copy()

    def _need_linear(self, name: str) -> None:
        if not hasattr(self, "components_"):
            raise AttributeError(only_linear(name, self._map))
