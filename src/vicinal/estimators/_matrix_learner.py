"""The base of the estimators that learn a matrix M from tuples of rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from vicinal._features import SCALINGS, check_varies, make_rows
from vicinal._validation import check_number, check_option, warn
from vicinal.core.types import Array
from vicinal.estimators._metric import MahalanobisMixin
from vicinal.maps.fitted import FittedLinear

__all__ = ["MatrixLearner", "ScaledTuples"]


class ScaledTuples(NamedTuple):
    """The different rows that occur in tuples, scaled, and how they were scaled."""

    points: Array
    shift: Array
    scale: Array

    def differences(self, tuples: Array, a: int = 0, b: int = 1) -> Array:
        """Scaled differences of the members a and b of each tuple, float64."""
        return (tuples[:, a].astype(np.float64) - tuples[:, b]) * self.scale


class MatrixLearner(MahalanobisMixin, BaseEstimator):
    """Scales columns, and stores a factor of M; not public.

    Subclasses have the parameters ``scaling``, ``max_iter`` and ``tol``.
    """

    scaling: str | None
    max_iter: int
    tol: float
    n_iter_: int

    def _check_shared(self) -> None:
        check_option(self, "scaling", SCALINGS)
        check_number(self, "max_iter", 1, integer=True)
        check_number(self, "tol", 0.0, open_ends=True)

    def _scaled(self, tuples: Array) -> ScaledTuples:
        """The scaling of the columns, by the rows in the tuples, each counted once."""
        rows = _distinct_rows(tuples.reshape(-1, tuples.shape[-1]))
        features = make_rows(rows, self.scaling, limit_outliers=False)
        check_varies(features)
        points = (rows - features.shift) * features.scale
        return ScaledTuples(points, features.shift, features.scale)

    def _store(self, L: Array, scaled: ScaledTuples, dtype: Any) -> None:
        """Set the learnt metric from a factor of M in scaled columns."""
        self._map = FittedLinear.of_scaled(L, scaled.shift, scaled.scale, dtype)
        self.components_ = self._map.components

    def _warn_unconverged(self, advice: str = "") -> None:
        """Warn that ``tol`` was not reached, and say what may help."""
        how = "increase 'max_iter' or 'tol'"
        if self.n_iter_ < self.max_iter:  # rounding hides all further progress
            how = "increase 'tol', which is below what rounding allows here"
        warn(
            f"{type(self).__name__} did not converge in {self.n_iter_} iterations: {how}{advice}.",
            ConvergenceWarning,
        )


def _distinct_rows(rows: Array) -> Array:
    """The different rows, in the order of their first occurrence; faster than by sorting."""
    rows = np.ascontiguousarray(rows + 0.0)  # -0 becomes 0: the bytes of equal rows are equal
    keys = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel().tolist()
    return rows[list(dict(zip(keys, range(len(keys)), strict=True)).values())]
