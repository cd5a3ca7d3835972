"""Effective numbers of neighbours, for estimators with stochastic neighbours."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from sklearn.utils.validation import check_is_fitted

from vicinal._threads import single_threaded_blas
from vicinal._validation import warn
from vicinal.core.types import Array

__all__ = ["ConsultedMixin"]


class ConsultedMixin:
    """Effective numbers of neighbours, for estimators with the model of NCA."""

    _model: Any
    _check_rows: Any
    _map: Any

    def effective_n_neighbors(self, X: Any = None) -> Array:
        """Effective number of neighbours: exp of the entropy of a row's choice.

        It compares all pairs of rows, so it takes long if there are many: as long as a few
        evaluations of the loss.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Rows, all treated as new: a training row may choose itself, as in ``predict``.  None:
            the training rows, which do not choose themselves ([Goldberger2005]_ section 2); those
            of weight zero are left out.

        Returns
        -------
        n : ndarray of shape (n_samples,)
            Between 1 and the number of training rows.  Those of the training rows are kept once
            they are computed.
        """
        if X is None:
            check_is_fitted(self, "n_components_")
            return self._model.effective_n_neighbors
        X = self._check_rows(X)
        with single_threaded_blas():
            return self._model.effective_n_neighbors_of(self._map.embed(X))

    def local_n_neighbors(self, X: Any) -> Array:
        """Number of training rows that vote on each row of X under ``n_neighbors="local"``.

        The effective number of neighbours at test time ([Goldberger2005]_ section 6): exp of the
        entropy of the row's choice among all training rows, rounded, at least 1.  It shows how
        local the decision is under any rule: small if some training rows are much nearer than the
        rest, large if none stands out.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.  All are treated as new: a training row may choose itself, as in ``predict``.

        Returns
        -------
        k : ndarray of int of shape (n_samples,)
            Between 1 and the number of training rows.
        """
        X = self._check_rows(X)
        with single_threaded_blas():
            return self._model.local_n_neighbors(self._map.embed(X))

    @property
    def effective_n_neighbors_(self) -> Any:
        """Deprecated: call `effective_n_neighbors`."""
        check_is_fitted(self, "n_components_")
        return _Later("effective_n_neighbors_", self.effective_n_neighbors)

    @property
    def mean_effective_n_neighbors_(self) -> Any:
        """Deprecated: take the mean of `effective_n_neighbors`."""
        check_is_fitted(self, "n_components_")
        return _Later("mean_effective_n_neighbors_", lambda: np.mean(self.effective_n_neighbors()))

    def __dir__(self) -> list[str]:
        """All names except the deprecated ones."""
        return [name for name in super().__dir__() if name not in _DEPRECATED]


_DEPRECATED = ("effective_n_neighbors_", "mean_effective_n_neighbors_")


class _Later(NDArrayOperatorsMixin):
    """An array that is computed when it is used, so that ``hasattr`` costs nothing."""

    def __init__(self, name: str, compute: Callable[[], Any]) -> None:
        self._name, self._compute = name, compute

    @cached_property
    def _array(self) -> Array:
        warn(
            f"{self._name} will be removed in vicinal 0.3: all pairs of rows are compared for it. "
            "Call effective_n_neighbors() instead.",
            FutureWarning,
        )
        return np.asarray(self._compute())

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        return np.array(self._array, dtype=dtype, copy=True if copy is None else copy)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        plain = (part._array if isinstance(part, _Later) else part for part in inputs)
        return getattr(ufunc, method)(*plain, **kwargs)

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, key: Any) -> Any:
        return self._array[key]

    def __float__(self) -> float:
        return float(self._array)

    def __format__(self, spec: str) -> str:
        return format(self._array[()], spec)

    def __repr__(self) -> str:
        return f"<{self._name}: call effective_n_neighbors() instead>"
