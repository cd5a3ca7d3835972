"""Classification in the embedded space: the posterior rule, or k-NN votes."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from vicinal._threads import single_threaded_blas
from vicinal._validation import check_number, check_option
from vicinal.core.types import Array
from vicinal.models.votes import NeighbourModel

__all__ = ["NeighbourClassifierMixin"]


class NeighbourClassifierMixin(ClassifierMixin):
    """Classify by a rule over the stored projections of the training rows."""

    rule: str
    n_neighbors: Any
    #: what ``rule`` may be: the model of the method, where it has one, or votes
    _rule_names: ClassVar[tuple[str, ...]] = ("posterior", "knn")
    #: what ``n_neighbors`` may be beside a number
    _voters: ClassVar[tuple[Any, ...]] = ("auto",)
    classes_: Array
    _map: Any
    _model: NeighbourModel

    def _check_rows(self, X: Any) -> Any:
        check_is_fitted(self, "n_components_")
        dtypes = [np.float64, np.float32]
        return validate_data(self, X, accept_sparse="csr", dtype=dtypes, reset=False)

    @property
    def n_neighbors_(self) -> int:
        """Number of voters of ``rule="knn"``."""
        check_is_fitted(self, "n_components_")
        self._set_voters()
        return self._model.n_neighbors

    def _set_voters(self) -> None:
        """Let ``set_params(n_neighbors=...)`` count after a fit too, like ``rule``."""
        check_number(self, "n_neighbors", 1, integer=True, or_else=self._voters)
        self._model.set_voters(self.n_neighbors)

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
        self._set_voters()
        with single_threaded_blas():
            return self._model.probabilities(self._map.embed(X), self.rule)

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
