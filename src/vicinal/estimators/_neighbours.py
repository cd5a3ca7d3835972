"""Classification in the embedded space: the posterior rule, or k-NN votes."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassifierMixin
from sklearn.utils import gen_batches
from sklearn.utils.validation import check_is_fitted, validate_data

from vicinal._threads import single_threaded_blas
from vicinal._validation import check_number, check_option
from vicinal.core.types import Array
from vicinal.models.votes import NeighbourRules

__all__ = ["NeighbourClassifierMixin"]

_BLOCK = 1024  # rows projected at a time


class NeighbourClassifierMixin(ClassifierMixin):
    """Classify by a rule over the stored projections of the training rows."""

    rule: str
    n_neighbors: Any
    #: what ``rule`` may be: the model of the method, where it has one, or votes
    _rule_names: ClassVar[tuple[str, ...]] = ("posterior", "knn")
    #: what ``n_neighbors`` may be beside a number
    _voters: ClassVar[tuple[Any, ...]] = ("auto",)
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
        """Number of voters of ``rule="knn"``."""
        check_is_fitted(self, "components_")
        self._ask()
        return self._rules.n_neighbors

    def _ask(self) -> None:
        """Let ``set_params(n_neighbors=...)`` count after a fit too, like ``rule``."""
        check_number(self, "n_neighbors", 1, integer=True, or_else=self._voters)
        self._rules.ask(self.n_neighbors)

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
        check_option(self, "rule", self._rule_names)
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
