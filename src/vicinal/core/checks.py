"""Checks of values that may come from a file.

Compiled loops do not check the bounds of arrays, so everything that they index with is checked
when it is read.  A class says what must hold among its fields in ``check_fields``, which
`storage.codec` calls: an object that passes can be asked for predictions without harm.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from vicinal.core.types import Array

_FLOATS = (np.float32, np.float64)
_INTS = (np.int32, np.int64)
_LARGEST = 2**31 - 1


def need(holds: Any, what: str) -> None:
    """Refuse values unless something holds."""
    if not holds:
        raise ValueError(what)


def real(
    array: Any, ndim: int, what: str, shape: tuple[int | None, ...] = (), finite: bool = True
) -> None:
    """Refuse all but an array of float32 or float64 of this many axes; None is any length."""
    floats = type(array) is np.ndarray and array.dtype in _FLOATS
    need(floats, f"{what} must be an array of floats")
    _check_shape(array, ndim, what, shape)
    need(not finite or np.isfinite(array).all(), f"{what} must be finite")


def double(
    array: Any, ndim: int, what: str, shape: tuple[int | None, ...] = (), finite: bool = True
) -> None:
    """Refuse all but an array of float64."""
    real(array, ndim, what, shape, finite)
    need(array.dtype == np.float64, f"{what} must be float64")


def _check_shape(array: Array, ndim: int, what: str, shape: tuple[int | None, ...]) -> None:
    need(array.ndim == ndim, f"{what} must have {ndim} axes")
    for n, wanted in zip(array.shape, shape, strict=False):
        need(wanted is None or n == wanted, f"{what} must have shape {shape}, not {array.shape}")


def indices(array: Any, what: str, n: int, end: int, dtypes: Any = (np.int64,)) -> None:
    """Refuse all but n positions below ``end``."""
    need(type(array) is np.ndarray and array.dtype in dtypes, f"{what} must be an array of ints")
    _check_shape(array, 1, what, (n,))
    inside = len(array) == 0 or (int(array.min()) >= 0 and int(array.max()) < end)
    need(inside, f"{what} must be in [0, {end})")


def count(value: Any, what: str, low: int = 0, high: int = _LARGEST) -> None:
    """Refuse all but an int within limits."""
    need(isinstance(value, int | np.integer) and not isinstance(value, bool), f"{what}: not an int")
    need(low <= value <= high, f"{what} must be in [{low}, {high}]")


def within(array: Any, what: str, low: float = 0.0, high: float = np.inf) -> None:
    """Refuse numbers outside an interval, and NaN."""
    need(np.all((array >= low) & (array <= high)), f"{what} must be in [{low}, {high}]")


def weights(array: Any, n: int, what: str = "sample_weight") -> None:
    """Refuse all but None, and n weights that are not all zero."""
    if array is not None:
        double(array, 1, what, (n,))
        within(array, what)
        need(n == 0 or array.sum() > 0, f"{what} must not be all zero")


def table(X: Any, what: str = "X") -> None:
    """Refuse all but finite rows of floats, dense or sparse; `storage.codec` checks sparse ones."""
    if sp.issparse(X):
        need(X.dtype in _FLOATS, f"{what} must hold floats")
    else:
        real(X, 2, what)
    need(X.shape[1] >= 1, f"{what} must have columns")


def lists(indptr: Any, columns: Any, n: int, end: int, dtypes: Any = (_INTS, _INTS)) -> None:
    """Refuse lists of positions, in compressed rows, that leave their bounds."""
    need(type(indptr) is np.ndarray and indptr.dtype in dtypes[0], "indptr must hold ints")
    need(indptr.shape == (n + 1,), "indptr must have one entry more than there are rows")
    need(type(columns) is np.ndarray and columns.ndim == 1, "indices must have one axis")
    ordered = indptr[0] == 0 and (np.diff(indptr) >= 0).all() and indptr[-1] == len(columns)
    need(ordered, "indptr must rise from 0 to the number of indices")
    indices(columns, "indices", len(columns), end, dtypes[1])


def graph(indptr: Any, neighbours: Any) -> None:
    """Refuse lists of rows for each row that leave their bounds, or are of other types."""
    n = len(indptr) - 1
    lists(indptr, neighbours, n, n, ((np.int64,), (np.int32,)))


def columns(part: Any, n_columns: int) -> None:
    """Refuse a shift, a scale and limits of other columns."""
    double(part.shift, 1, "shift", (n_columns,))
    double(part.scale, 1, "scale", (n_columns,))
    alike = part.limits is None or len(part.limits.low) == n_columns
    need(alike, "limits must have one entry for each column")
