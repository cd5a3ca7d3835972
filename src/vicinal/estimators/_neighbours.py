"""Classification in the embedded space: the posterior rule, or k-NN votes."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassifierMixin
from sklearn.utils import gen_batches
from sklearn.utils.validation import check_is_fitted, validate_data

from vicinal._threads import single_threaded_blas
from vicinal._types import Array
from vicinal._validation import check_number, check_option
from vicinal.estimators._rules import NeighbourRules

__all__ = ["NeighbourClassifierMixin", "NeighbourRules"]

_BLOCK = 1024  # rows projected at a time


class NeighbourClassifierMixin(ClassifierMixin):
    """Classify by a rule over the stored projections of the training rows."""

    rule: str
    n_neighbors: int | str
    classes_: Array
    components_: Array
    _shift: Array
    _rules: NeighbourRules

    def _check_rows(self, X: Any) -> Any:
        check_is_fitted(self, "components_")
        dtypes = [np.float64, np.float32]
        return validate_data(self, X, accept_sparse="csr", dtype=dtypes, reset=False)

    def _project(self, X: Any) -> Array:
        """``(X - shift) @ components_.T``: around the origin, since an offset costs digits."""
        A = self.components_.astype(np.float64)
        if sp.issparse(X):
            Z = X @ A.T - self._shift @ A.T
        else:
            Z = np.empty((X.shape[0], len(A)))
            for rows in gen_batches(len(Z), _BLOCK):
                Z[rows] = (X[rows] - self._shift) @ A.T
        return Z.astype(self.components_.dtype, copy=False)

    @property
    def n_neighbors_(self) -> int:
        """Number of voters of ``rule="knn"``; under "local" the training rows' median."""
        check_is_fitted(self, "components_")
        self._ask()
        return self._rules.n_neighbors

    def _ask(self) -> None:
        """Let ``set_params(n_neighbors=...)`` count after a fit too, like ``rule``."""
        check_number(self, "n_neighbors", 1, integer=True, or_else=("auto", "local"))
        self._rules.ask(self.n_neighbors)

    def local_n_neighbors(self, X: Any) -> Array:
        """How many training rows vote on each row of X under ``n_neighbors="local"``.

        The effective number of neighbours at test time ([Goldberger2005]_ section 6): exp of the
        entropy of the row's choice among all training rows, rounded, and 1 at least.  It tells
        how local the decision is under any rule: few where some training rows are much nearer
        than the rest, many where none stands out.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.  All are taken as new: a training row may choose itself, as in ``predict``.

        Returns
        -------
        k : ndarray of int of shape (n_samples,)
            Between 1 and the number of training rows.
        """
        X = self._check_rows(X)
        with single_threaded_blas():
            return self._rules.local_n_neighbors(self._project(X))

    def predict_proba(self, X: Any) -> Array:
        """Class probabilities by the ``rule``: posterior of the model, or shares of the votes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        P : ndarray of shape (n_samples, n_classes)
            Columns in the order of ``classes_``; rows sum to one.
        """
        X = self._check_rows(X)
        check_option(self, "rule", ("posterior", "knn"))
        self._ask()
        with single_threaded_blas():
            return self._rules.probabilities(self._project(X), self.rule)

    def predict(self, X: Any) -> Array:
        """The class of highest probability under the ``rule``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]
