"""The columns of a table, read alike from pandas, polars and arrays."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import validate_data

from vicinal._features import power_of_two
from vicinal.core.types import Array
from vicinal.learner.errors import ColumnError

#: types of Python, NumPy and pandas
_DATES = ("date", "datetime", "Timestamp", "time", "timedelta", "Timedelta", "Period")


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

    def refuse(self, wrong: Any, problem: str, remedies: list[tuple[str, str]]) -> NoReturn:
        """Raise a `ColumnError` that shows the first of the present values that is wrong."""
        row = np.flatnonzero(~self.missing)[np.argmax(wrong)]
        raise ColumnError(self.name, problem, remedies, int(row), self.values[row])


class ColumnValues(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """The columns of a table as one array, alike from pandas, polars and arrays.

    scikit-learn takes None, NaN and pandas.NA for different values, and each kind of table has its
    own; here whatever stands for a missing value becomes one and the same, in the fit and at
    prediction.

    Parameters
    ----------
    numbers : bool, default=True
        Whether the array is to hold numbers; otherwise it holds objects.
    missing : object, default=nan
        What missing values become in an array of objects; among numbers they are NaN.
    rescale : bool, default=False
        Divide columns of numbers of extreme size by a power of two, which changes no digit, so that
        a scaler after this step can square them.

    Attributes
    ----------
    units_ : ndarray of shape (n_features_in_,)
        What columns are divided by; 1 unless ``rescale`` is True and a column is of extreme size.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X had string names.

    Examples
    --------
    >>> from vicinal.learner.columns import ColumnValues
    >>> ColumnValues(numbers=False, missing="?").fit_transform([["short"], [None]]).tolist()
    [['short'], ['?']]
    """

    def __init__(
        self, numbers: bool = True, *, missing: Any = np.nan, rescale: bool = False
    ) -> None:
        self.numbers = numbers
        self.missing = missing
        self.rescale = rescale

    def fit(self, X: Any, y: Any = None) -> ColumnValues:
        """Find the size of each column.

        Parameters
        ----------
        X : data frame or array of shape (n_samples, n_columns)
        y : ignored

        Returns
        -------
        self : ColumnValues
        """
        values = self._values(X, reset=True)
        self.units_ = np.ones(values.shape[1])
        if self.rescale:
            self.units_ = power_of_two(np.fmax.reduce(np.abs(values), axis=0, initial=0.0))
        return self

    def transform(self, X: Any) -> Array:
        """The columns as one array.

        Parameters
        ----------
        X : data frame or array of shape (n_samples, n_columns)

        Returns
        -------
        values : ndarray of shape (n_samples, n_columns)
        """
        values = self._values(X, reset=False)
        return values if (self.units_ == 1.0).all() else values / self.units_

    def _values(self, X: Any, reset: bool) -> Array:
        X = X if is_frame(X) else as_array(X)
        validate_data(self, X, reset=reset, skip_check_array=True)
        columns = [self._read(column) for column in read_columns(X)]
        if self.numbers:
            # NumPy's own array of the table has its order in memory, on which the last bits of an
            # estimator depend.  Other types than those of the columns: NumPy reads it differently.
            whole = np.asarray(X)
            if whole.dtype == np.result_type(*{column.dtype for column in columns}):
                return whole
        return np.stack(columns).T

    def _read(self, column: Column) -> Array:
        if not self.numbers:
            return column.filled(self.missing)
        stored = column.values.dtype.kind in "biuf"
        return column.values if stored else column.filled(np.nan).astype(np.float64)


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


def n_rows(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def read_columns(X: Any) -> list[Column]:
    """The columns of a data frame or of an array; of a sparse matrix none."""
    if sp.issparse(X):
        return []
    if is_polars(X):
        return [_from_polars(X[name]) for name in X.columns]
    if is_frame(X):
        twice = [name for name, count in Counter(X.columns).items() if count > 1]
        if twice:
            raise ValueError(f"X has several columns named {twice[0]!r}. Rename them.")
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
    if kind in "mM":
        return Column(name, "date", _objects(list(values)))
    stored = {"b": "bool", "i": "number", "u": "number", "f": "number"}
    return Column(name, stored.get(kind, "other"), values)


def _from_objects(name: Any, values: Array) -> Column:
    """Objects of Python: numbers, truth values, strings, dates or anything else."""
    column = Column(name, "object", values)
    kinds = {type(value) for value in column.present}
    numbers = (int, float, Decimal, np.number)
    if kinds and all(issubclass(kind, bool | np.bool_) for kind in kinds):
        return _numbers(column, "bool")
    if kinds and all(issubclass(kind, numbers) and kind is not bool for kind in kinds):
        return _numbers(column, "number")
    if kinds and all(kind.__name__ in _DATES for kind in kinds):
        return Column(name, "date", values)
    known = all(issubclass(kind, (str, bool, *numbers)) for kind in kinds)
    return column if known else Column(name, "other", values)


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
    if kind in "mM" or type(dtype).__name__ in ("DatetimeTZDtype", "PeriodDtype"):
        return Column(name, "date", series.to_numpy(object))
    if kind not in "biuf":
        return _from_objects(name, series.to_numpy(object))
    if isinstance(dtype, np.dtype):
        numbers = series.to_numpy()
    else:
        numbers = series.to_numpy(na_value=np.nan)
        if numbers.dtype.kind not in "biuf":  # truth values with gaps
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
    if dtype.is_temporal():
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
