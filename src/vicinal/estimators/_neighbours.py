"""Classification in the embedded space: the posterior rule, or k-NN votes."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn import get_config
from sklearn.base import ClassifierMixin
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import gen_batches
from sklearn.utils.validation import check_is_fitted, validate_data

from vicinal._threads import single_threaded_blas
from vicinal._types import Array
from vicinal._validation import check_option, warn
from vicinal.objectives.nca import nca_posterior
from vicinal.targets import Labels

__all__ = ["NeighbourClassifierMixin", "NeighbourRules"]

_LARGEST_AUTO = 50  # neighbours tried by n_neighbors="auto"
_BLOCK = 1024  # rows projected at a time


class NeighbourRules:
    """Stored projections of the training rows, and what can be asked of them.

    Parameters
    ----------
    Z : array of shape (n, d)
        Projections.
    labels : Labels
        Their classes, weights and priors.
    n_neighbors : int or "auto"
        k of the vote; "auto" chooses it by leave-one-out.
    """

    def __init__(self, Z: Array, labels: Labels, n_neighbors: int | str) -> None:
        self.Z, self.labels, self.asked = Z, labels, n_neighbors

    # Trees and k are for votes alone: made when first asked for.
    @cached_property
    def index(self) -> NearestNeighbors:
        """A search tree over the projections."""
        return NearestNeighbors().fit(self.Z)

    @cached_property
    def n_neighbors(self) -> int:
        """Number of voters, no more than there are rows."""
        n = len(self.Z)
        if self.asked == "auto":
            return self._leave_one_out(min(_LARGEST_AUTO, n - 1))
        if int(self.asked) > n:
            warn(
                f"n_neighbors={self.asked} is more than the {n} training rows; "
                f"n_neighbors={n} is used."
            )
        return min(int(self.asked), n)

    def posterior(self, Z: Array) -> Array:
        """Class probabilities by the stochastic neighbours, [Oneata2011] eq. (3.25)."""
        n_classes = len(self.labels.classes)
        return self._in_chunks(
            Z, 24 * n_classes, lambda part: nca_posterior(part, self.Z, self.labels)
        )

    def votes(self, Z: Array) -> Array:
        """Shares of the weighted votes of the nearest training rows."""
        k = self.n_neighbors
        n_classes = len(self.labels.classes)
        return self._in_chunks(
            Z,
            24 * k + 8 * n_classes,
            lambda part: self._shares(self.index.kneighbors(part, k, return_distance=False)),
        )

    def _in_chunks(self, Z: Array, row_bytes: int, function: Any) -> Array:
        """Answer for as many rows at a time as scikit-learn's ``working_memory`` allows."""
        size = max(1, int(get_config()["working_memory"] * 2**20 // row_bytes))
        return np.concatenate([function(Z[rows]) for rows in gen_batches(len(Z), size)])

    def _shares(self, neighbours: Array) -> Array:
        codes = self.labels.codes[neighbours]
        weight = self.labels.sample_weight
        ballots = np.ones(codes.shape) if weight is None else weight[neighbours]
        shares = np.zeros((len(codes), len(self.labels.classes)))
        np.add.at(shares, (np.arange(len(codes))[:, None], codes), ballots)
        return shares / shares.sum(axis=1, keepdims=True)

    def _leave_one_out(self, largest: int) -> int:
        """The k with the best vote of each training row's other neighbours; small k wins ties."""
        neighbours = self.index.kneighbors(n_neighbors=largest, return_distance=False)
        codes = self.labels.codes
        votes = np.zeros((len(codes), len(self.labels.classes)))
        right = np.empty(largest)
        weight = self.labels.sample_weight
        rows = np.arange(len(codes))
        for k in range(largest):
            column = neighbours[:, k]
            votes[rows, codes[column]] += 1.0 if weight is None else weight[column]
            right[k] = np.average(votes.argmax(axis=1) == codes, weights=weight)
        return int(right.argmax()) + 1


class NeighbourClassifierMixin(ClassifierMixin):
    """Classify by a rule over the stored projections of the training rows."""

    rule: str
    classes_: Array
    components_: Array
    _shift: Array
    _rules: NeighbourRules

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
        return self._rules.n_neighbors

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
        check_is_fitted(self, "components_")
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        check_option(self, "rule", ("posterior", "knn"))
        with single_threaded_blas():
            Z = self._project(X)
            return self._rules.posterior(Z) if self.rule == "posterior" else self._rules.votes(Z)

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
