"""Columns with gross outliers: how to find them, their moments without them, and limits for rows.

A column has gross outliers if a few rows, at most 5 % of those that differ from its median m, have
nearly all of its squared deviations,

.. math:: \\sum_i a_i^2 > 25 \\sum_i \\min(a_i, t)^2, \\qquad a_i = |x_i - m|,

with t the largest deviation of the other rows.  Ordinary columns, heavy tails and rare ones among
zeros are far from that, and keep their mean and standard deviation to the last bit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from vicinal.core import checks
from vicinal.core.types import Array

_SHARE = 0.05  # largest share of rows that can be outliers of a column
_INFLATED = 25.0  # least factor by which they raise the sum of squares: 5 in the deviation
_REACH = 6.0  # rows farther from the median than this many deviations of the others are outliers
#: columns of lower kurtosis need not be looked at: 5 % of the rows with 24/25 of the sum of squares
#: have one of 18 or more
KURTOSIS = 15.0
_ENTRIES = 2**22  # entries of a sparse table that are made dense at a time


class Limits(NamedTuple):
    """Smallest and largest value of each column; infinite for columns without outliers."""

    low: Array
    high: Array

    def check_fields(self) -> None:
        """Refuse limits that do not fit together."""
        for array in self:
            checks.double(array, 1, "limits", (len(self.low),), finite=False)
            checks.need(not np.isnan(array).any(), "limits must not be NaN")


class Inner(NamedTuple):
    """Mean and deviation of a column without its outliers, and the limits of its values."""

    mean: float
    deviation: float
    low: float
    high: float


def limited(X: Any, limits: Limits | None) -> Any:
    """Rows with the values of each column moved to its limits; X itself if that changes nothing."""
    if limits is None:
        return X
    columns = np.flatnonzero(np.isfinite(limits.high))
    step = max(1, _ENTRIES // max(1, X.shape[0]))
    for first in range(0, len(columns), step):
        some = columns[first : first + step]
        part = X[:, some].toarray() if sp.issparse(X) else X[:, some]
        low, high = (limit[some].astype(X.dtype) for limit in limits)
        rows, places = np.nonzero((part < low) | (part > high))
        if len(rows):
            old, new = part[rows, places], np.clip(part, low, high)[rows, places]
            X = _replaced(X, (rows, some[places]), old, new)
    return X


def _replaced(X: Any, where: tuple[Array, Array], old: Array, new: Array) -> Any:
    """A copy of X with other values in some places."""
    if sp.issparse(X):
        old, new = (sp.csr_array((values, where), shape=X.shape) for values in (old, new))
        return type(X)((X - old) + new)  # x - x is zero, so the new values are exact
    X = X.copy()
    X[where] = new
    return X


def without_outliers(X: Any, column: int, weight: Array) -> Inner | None:
    """The moments of a column without its outliers; None if it has none.

    X is dense or CSC; both give the same bits, and the order of the rows changes but the last ones.
    """
    x, w = _entries(X, column, weight)
    n_zeros, zero_weight = len(weight) - len(x), max(0.0, float(weight.sum() - w.sum()))
    m = 0.0
    if 2 * n_zeros <= len(weight):
        x, w = (
            np.append(x, np.zeros(n_zeros)),
            np.append(w, np.full(n_zeros, zero_weight / max(1, n_zeros))),
        )
        zero_weight, m = 0.0, float(np.median(x))
    a = np.abs(x - m)
    differ = int(np.count_nonzero(a))
    k = int(_SHARE * differ)
    if k == 0:
        return None
    t = float(np.partition(a, len(a) - 1 - k)[len(a) - 1 - k])
    unit = 2.0 ** np.frexp(t)[1]  # so that no square over- or underflows where it matters
    with np.errstate(over="ignore"):
        whole = float(np.sum(w * (a / unit) ** 2))
    most = np.minimum(a, t) / unit
    inner = float(np.sum(w * most**2))
    if not whole > _INFLATED * inner:
        return None
    reach = _REACH * unit * np.sqrt(inner / np.sum(w[a > 0]))
    kept = a <= reach
    x, w = (x[kept] - m) / unit, w[kept]
    total = float(w.sum()) + zero_weight
    mean = float(np.sum(w * x)) / total
    variance = (float(np.sum(w * (x - mean) ** 2)) + zero_weight * mean**2) / total
    return Inner(m + unit * mean, unit * float(np.sqrt(variance)), m - reach, m + reach)


def _entries(X: Any, column: int, weight: Array) -> tuple[Array, Array]:
    """The entries of a column that are not zero, in float64, and the weights of their rows."""
    if sp.issparse(X):
        part = slice(X.indptr[column], X.indptr[column + 1])
        values, rows = X.data[part], X.indices[part]
        values, rows = values[values != 0], rows[values != 0]
    else:
        rows = np.flatnonzero(X[:, column])
        values = X[rows, column]
    return values.astype(np.float64), weight[rows]
