"""The columns of a table, read alike from pandas, polars and arrays."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp

from vicinal.core.types import Array
from vicinal.learner.errors import ColumnError
from vicinal.learner.reading import is_gap, number_of

#: types of Python, NumPy and pandas
_DATES = ("date", "datetime", "Timestamp", "Period", "datetime64")
_LENGTHS = ("time", "timedelta", "Timedelta", "timedelta64")


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Parameters
    ----------
    name : str or int
        Its name, or its position in an array.
    storage : {"number", "bool", "category", "object", "date", "other"}
        How it is stored.
    values : array
        Its values, as they are: objects, unless they are stored as numbers.
    levels : list or None
        The categories in their order, if the type has them.
    ordered : bool
        Whether the type says that this order has a meaning.
    """

    name: Any
    storage: str
    values: Array
    levels: list[Any] | None = None
    ordered: bool = False

    @cached_property
    def missing(self) -> Array:
        """Which rows have no value."""
        if self.values.dtype.kind == "f":
            return np.isnan(self.values)
        if self.values.dtype.kind in "biu":
            return np.zeros(len(self.values), dtype=bool)
        return np.array([is_missing(value) for value in self.values], dtype=bool)

    @cached_property
    def present(self) -> Array:
        """The values that are not missing."""
        return self.values[~self.missing]

    def filled(self, missing: Any) -> Array:
        """The values as objects, with one and the same for all that are missing."""
        values = self.values.astype(object)
        values[self.missing] = missing
        return values

    def without_gaps(self) -> Column:
        """The column with missing values in place of the texts that stand for one, as "?" does."""
        if self.storage not in ("object", "category") or self.ordered:
            return self
        gaps = np.array([is_gap(value) for value in self.values], dtype=bool)
        if not gaps.any():
            return self
        values = self.values.copy()
        values[gaps] = None
        if self.storage == "category":
            return Column(self.name, self.storage, values, self.levels)
        return _from_objects(self.name, values)

    def refuse(self, wrong: Any, problem: str, remedies: list[tuple[str, str]]) -> NoReturn:
        """Raise a `ColumnError` that shows the first of the present values that is wrong."""
        row = np.flatnonzero(~self.missing)[np.argmax(wrong)]
        raise ColumnError(self.name, problem, remedies, int(row), self.values[row])


def numbers_of(column: Column, written: str = ".") -> Array:
    """The values as numbers: texts are read, and what is no finite number is NaN."""
    values = column.values
    if values.dtype.kind == "f":
        infinite = np.isinf(values)
        return np.where(infinite, np.nan, values) if infinite.any() else values
    if values.dtype.kind in "biu":
        return values
    known = {text: number_of(text, written) for text in values if isinstance(text, str)}
    found = [known[value] if isinstance(value, str) else value for value in values]
    read: Array = np.array([np.nan if is_missing(v) or is_date(v) else v for v in found], float)
    return np.where(np.isinf(read), np.nan, read)


def text_of(value: Any) -> str:
    """A value as text; a whole number as such, however it is stored."""
    whole = isinstance(value, float | np.floating) and value == np.floor(value)
    return value if isinstance(value, str) else str(int(value) if whole else value)


def is_polars(X: Any) -> bool:
    return type(X).__module__.partition(".")[0] == "polars"


def is_frame(X: Any) -> bool:
    """Whether X is a data frame, of pandas or polars."""
    return hasattr(X, "columns") and (is_polars(X) or hasattr(X, "iloc"))


def is_missing(value: Any) -> bool:
    """None, NaN, NaT, pandas.NA and the masked value of NumPy."""
    if value is None or value is np.ma.masked:
        return True
    different = value != value
    try:
        return bool(different)
    except (TypeError, ValueError):  # pandas.NA has no truth, and an array has many
        return type(different).__name__ == "NAType"


def is_date(value: Any) -> bool:
    return type(value).__name__ in _DATES


def n_rows(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def read_columns(X: Any) -> list[Column]:
    """The columns of a data frame or of an array; of a sparse matrix none."""
    if sp.issparse(X):
        return []
    if is_polars(X):
        return [_from_polars(X[name]) for name in X.columns]
    if is_frame(X):
        return [_from_pandas(X.columns[j], X.iloc[:, j]) for j in range(X.shape[1])]
    X = as_array(X)
    if X.ndim != 2:
        raise ValueError(f"X must be a table, with rows and columns. Got shape {X.shape} instead.")
    return [_from_array(j, X[:, j]) for j in range(X.shape[1])]


def as_array(X: Any) -> Array:
    """An array as it is; a list of rows as objects, since NumPy would make strings of numbers.

    Masked values become missing ones: NumPy shows what is under the mask to whoever ignores it.
    """
    if not isinstance(X, np.ma.MaskedArray):
        return X if isinstance(X, np.ndarray) else np.asarray(X, dtype=object)
    if not np.ma.getmaskarray(X).any():
        return np.asarray(X)
    values: Array = X.astype(X.dtype if X.dtype.kind in "fcmM" else object)  # with room for gaps
    values[np.ma.getmaskarray(X)] = "NaT" if X.dtype.kind in "mM" else np.nan
    return np.asarray(values)


def _from_array(name: Any, values: Array) -> Column:
    kind = values.dtype.kind
    if kind == "O":
        return _from_objects(name, values)
    if kind in "US":
        return Column(name, "object", values.astype(object))
    if kind == "M":
        return Column(name, "date", _objects(list(values)))
    if kind == "m":
        return Column(name, "number", values / np.timedelta64(1, "s"))
    stored = {"b": "bool", "i": "number", "u": "number", "f": "number"}
    return Column(name, stored.get(kind, "other"), values)


def _from_objects(name: Any, values: Array) -> Column:
    """Objects of Python: numbers, booleans, strings, dates, lengths or anything else."""
    column = Column(name, "object", values)
    kinds = {type(value) for value in column.present}
    numbers = (int, float, Decimal, np.number)
    if kinds and all(issubclass(kind, bool | np.bool_) for kind in kinds):
        return _numbers(column, "bool")
    if kinds and all(issubclass(kind, numbers) and kind is not bool for kind in kinds):
        return _numbers(column, "number")
    names = {kind.__name__ for kind in kinds}
    if names and names <= {*_DATES, "str"} and names != {"str"}:
        return Column(name, "date", values)
    if names and names <= set(_LENGTHS):
        lengths = [np.nan if is_missing(value) else _seconds(value) for value in values]
        return Column(name, "number", np.array(lengths))
    known = all(issubclass(kind, (str, bool, *numbers)) for kind in kinds)
    return column if known else Column(name, "other", values)


def _seconds(value: Any) -> float:
    """A length of time, or a time of the day, in seconds."""
    if isinstance(value, np.timedelta64):
        return float(value / np.timedelta64(1, "s"))
    if not isinstance(value, timedelta):
        value = timedelta(0, value.second, value.microsecond, 0, value.minute, value.hour)
    return float(value.total_seconds())


def _numbers(column: Column, storage: str) -> Column:
    """Objects as numbers of NumPy: NaN where one is missing, otherwise of the type they have."""
    numbers = np.array(column.present.tolist())
    if numbers.dtype.kind not in "biuf" or column.missing.any():
        numbers = column.filled(np.nan).astype(np.float64)
    return Column(column.name, storage, numbers)


def _from_pandas(name: Any, series: Any) -> Column:
    dtype = series.dtype
    if hasattr(dtype, "categories") and hasattr(dtype, "ordered"):
        levels = list(dtype.categories)
        return Column(name, "category", series.to_numpy(object), levels, bool(dtype.ordered))
    kind = getattr(dtype, "kind", "O")
    if kind == "m":
        return Column(
            name, "number", series.astype("timedelta64[ns]").dt.total_seconds().to_numpy()
        )
    if kind == "M" or type(dtype).__name__ in ("DatetimeTZDtype", "PeriodDtype"):
        return Column(name, "date", series.to_numpy(object))
    if kind not in "biuf":
        return _from_objects(name, series.to_numpy(object))
    if isinstance(dtype, np.dtype):
        numbers = series.to_numpy()
    else:
        numbers = series.to_numpy(na_value=np.nan)
        if numbers.dtype.kind not in "biuf":  # booleans with gaps
            numbers = series.to_numpy(np.float64, na_value=np.nan)
    return Column(name, "bool" if kind == "b" else "number", numbers)


def _from_polars(series: Any) -> Column:
    import polars

    name, dtype = series.name, series.dtype
    if dtype.is_numeric():
        whole = dtype.is_integer() and not series.null_count() and "128" not in str(dtype)
        stored = series if whole or dtype.is_float() else series.cast(polars.Float64)
        return Column(name, "number", stored.to_numpy())
    if dtype == polars.Boolean:
        stored = series.cast(polars.Float64) if series.null_count() else series
        return Column(name, "bool", stored.to_numpy())
    values = _objects(series.to_list())
    if dtype in (polars.Date, polars.Datetime):
        return Column(name, "date", values)
    if dtype == polars.Enum:
        return Column(name, "category", values, list(dtype.categories))
    if dtype == polars.Categorical:
        return Column(name, "category", values, sorted(series.drop_nulls().unique().to_list()))
    return _from_objects(name, values)


def _objects(items: list[Any]) -> Array:
    """Objects as an array of one dimension, whatever they are."""
    values = np.empty(len(items), dtype=object)
    for i, item in enumerate(items):
        values[i] = item
    return values
