"""``fit``, ``score`` and costs for labels, label distributions or matches."""

from __future__ import annotations

from typing import Any

import numpy as np

from vicinal._threads import single_threaded_blas
from vicinal._validation import check_weights
from vicinal.core.types import Array
from vicinal.estimators._labelled import LabelledLearner
from vicinal.estimators._soft_targets import (
    distributed_rows,
    distributions_of,
    is_matrix,
    matched_rows,
    matches_of,
)
from vicinal.fit.cost import Cost, Size
from vicinal.fit.method import Data, Method
from vicinal.models.soft import MatchModel
from vicinal.targets import Matches

__all__ = ["SoftTargetsMixin"]


class SoftTargetsMixin(LabelledLearner):
    """Learns from labels, or from soft targets in their place; not public."""

    def _check_data(self, X: Any, y: Any, sample_weight: Any, matches: Any = None) -> Data:
        if matches is not None:
            data, self._rows = matched_rows(self, X, y, sample_weight, matches)
            self._forget("classes_")
        elif is_matrix(y):
            data, self._rows = distributed_rows(self, X, y, sample_weight)
            assert data.classes is not None
            self.classes_ = data.classes
        else:
            data = super()._check_data(X, y, sample_weight)
        return data

    def _size(self, data: Data, method: Method, given: Any) -> Size:
        return (
            super()
            ._size(data, method, given)
            ._replace(brings_matches=isinstance(data.target, Matches))
        )

    def score(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, matches: Any = None
    ) -> float:
        r"""The accuracy of ``predict``, or the share of matches.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, all treated as new: a training row may pick itself.
        y : array-like of shape (n_samples,) or (n_samples, n_classes), default=None
            Labels, or label distributions with columns in the order of ``classes_``.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row in the mean.
        matches : {sparse matrix, array-like} of shape (n_samples, n_training_samples), default=None
            After a fit to matches: how right it is that a row of X picks a row of the X of ``fit``.

        Returns
        -------
        score : float
            For labels, the mean accuracy; for distributions, the mean probability of the predicted
            class; for matches, the mean of :math:`\sum_j m_{ij} p_{ij}`, or under ``rule="knn"``
            that of the matches with the nearest training rows.
        """
        name = type(self).__name__
        Z = self._embedded(X)
        by_matches = isinstance(self._model, MatchModel)
        if by_matches != (matches is not None) or by_matches == (y is not None):
            wanted = "'matches' and no y" if by_matches else "y and no 'matches'"
            raise ValueError(
                f"{name}.score takes {wanted} after a fit to "
                f"{'matches' if by_matches else 'classes'}."
            )
        if not by_matches and not is_matrix(y):
            return float(super().score(X, y, sample_weight))
        if by_matches:
            M = matches_of(matches, (len(Z), self._rows.total), f"{name}.score")
            numbers = self._rows.numbers
            with single_threaded_blas():
                found = self._model.scores(Z, M if numbers is None else M[:, numbers], self.rule)
        else:
            found = self._expected(X, y, len(Z))
        return float(np.average(found, weights=check_weights(sample_weight, len(Z))))

    def _expected(self, X: Any, y: Any, n: int) -> Array:
        """The probability of the class that is predicted for each row, by its distribution."""
        owner = f"{type(self).__name__}.score"
        T = distributions_of(y, owner).values
        if T.shape != (n, len(self.classes_)):
            raise ValueError(
                f"The matrix y of {owner} must have shape {(n, len(self.classes_))}. "
                f"Got {T.shape} instead."
            )
        return T[np.arange(n), self._predicted(X)]

    def estimate_cost(self, X: Any, y: Any = None, *, matches: Any = None) -> Cost:
        """Estimate the memory and time of a fit to X without starting it.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_classes), default=None
            Class labels or label distributions.  None stands for ten classes.
        matches : {sparse matrix, array-like} of shape (n_samples, n_samples), default=None
            In place of y.

        Returns
        -------
        cost : Cost
            ``memory_bytes`` beyond the input and approximate ``seconds_per_evaluation``; a fit
            needs one to two evaluations per iteration.

        Notes
        -----
        Memory is the peak, usually within a factor of two; time is rough.
        """
        name, rows = type(self).__name__, X if hasattr(X, "shape") else np.asarray(X)
        if matches is not None:
            M = matches_of(matches, (rows.shape[0],) * 2, f"{name}.estimate_cost")
            return self._cost(Data(rows, Matches(M)))
        if y is not None and is_matrix(y):
            target = distributions_of(y, f"{name}.estimate_cost")
            return self._cost(Data(rows, target, np.arange(target.values.shape[1])))
        return super().estimate_cost(X, y)
