"""Effective numbers of neighbours, for estimators with stochastic neighbours."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from vicinal._threads import single_threaded_blas
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
