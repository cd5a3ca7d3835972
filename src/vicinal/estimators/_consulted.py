"""Effective numbers of neighbours, for estimators with stochastic neighbours."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from vicinal._threads import single_threaded_blas
from vicinal.core.types import Array

__all__ = ["ConsultedMixin"]


class ConsultedMixin:
    """Effective numbers of neighbours, for estimators with the model of NCA."""

    _on_demand: ClassVar[tuple[str, ...]] = ("effective_n_neighbors_",)
    _model: Any
    _check_rows: Any
    _map: Any

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

    @cached_property
    def effective_n_neighbors_(self) -> Array:
        """Effective number of neighbours of each training row, [Goldberger2005] section 2."""
        check_is_fitted(self, "n_components_")
        return self._model.effective_n_neighbors

    @property
    def mean_effective_n_neighbors_(self) -> float:
        """Mean of ``effective_n_neighbors_``."""
        return float(np.mean(self.effective_n_neighbors_))
