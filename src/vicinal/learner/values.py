"""The columns of a table as one array: numbers, texts or codes."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import validate_data

from vicinal._features import power_of_two
from vicinal.core.types import Array
from vicinal.learner.columns import (
    Column,
    as_array,
    is_frame,
    is_missing,
    numbers_of,
    read_columns,
    text_of,
)
from vicinal.learner.errors import TableNote, shown
from vicinal.learner.reading import is_gap, number_of


def _code_of(value: Any) -> Any:
    number = number_of(value) if isinstance(value, str) else None
    return value if number is None else number


#: what becomes of the values of each kind of array
_CHANGES: dict[str, Any] = {"strings": text_of, "codes": _code_of, "objects": None}


class ColumnValues(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """The columns of a table as one array, alike from pandas, polars and arrays.

    scikit-learn takes None, NaN and pandas.NA for different values, and each kind of table has its
    own; here whatever stands for a missing value becomes one and the same, in the fit and at
    prediction.  Texts such as "?" and "n/a" stand for one, too.

    Parameters
    ----------
    kind : {"numbers", "strings", "codes", "objects"}, default="numbers"
        What the array is to hold.  Numbers are read from text, such as "$7,954"; what is none is
        missing.  "strings" makes text of all values, "codes" numbers of the texts that are numbers,
        "objects" leaves values and texts as they are.
    missing : object, default=nan
        What missing values become in an array of objects; among numbers they are NaN.
    rescale : bool, default=False
        Divide columns of numbers of extreme size by a power of two, which changes no digit, so that
        a scaler after this step can square them.
    decimals : sequence of str, default=None
        How numbers in text are written in each column: the sign before the decimals, "." or ",",
        and after it a unit, as in ",kg"; None: a point everywhere, and no unit.

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
    >>> from vicinal.learner.values import ColumnValues
    >>> ColumnValues("strings", missing="none").fit_transform([["short"], [None]]).tolist()
    [['short'], ['none']]
    >>> ColumnValues().fit_transform([["$7,954"], ["n/a"]]).tolist()
    [[7954.0], [nan]]
    """

    def __init__(
        self,
        kind: str = "numbers",
        *,
        missing: Any = np.nan,
        rescale: bool = False,
        decimals: Sequence[str] | None = None,
    ) -> None:
        self.kind = kind
        self.missing = missing
        self.rescale = rescale
        self.decimals = decimals

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
        self.fit_transform(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Array:
        """Find the size of each column, and give the array; see `fit` and `transform`."""
        values, _ = self._values(X, reset=True)
        self.units_ = np.ones(values.shape[1])
        if self.rescale:
            self.units_ = power_of_two(np.fmax.reduce(np.abs(values), axis=0, initial=0.0))
        return self._in_units(values)

    def transform(self, X: Any) -> Array:
        """The columns as one array.

        Parameters
        ----------
        X : data frame or array of shape (n_samples, n_columns)

        Returns
        -------
        values : ndarray of shape (n_samples, n_columns)
        """
        values, columns = self._values(X, reset=False)
        if self.kind == "numbers":
            tell_unread(columns, np.isnan(values.T), "numbers")
        return self._in_units(values)

    def _in_units(self, values: Array) -> Array:
        return values if (self.units_ == 1.0).all() else values / self.units_

    def _values(self, X: Any, reset: bool) -> tuple[Array, list[Column]]:
        X = X if is_frame(X) else as_array(X)
        validate_data(self, X, reset=reset, skip_check_array=True)
        columns = read_columns(X)
        written = "." * len(columns) if self.decimals is None else self.decimals
        values = [self._read(*both) for both in zip(columns, written, strict=True)]
        if self.kind == "numbers":
            # NumPy's own array of the table has its order in memory, on which the last bits of an
            # estimator depend.  Other types than those of the columns: NumPy reads it differently.
            whole = np.asarray(X)
            same = all(a is column.values for a, column in zip(values, columns, strict=True))
            if same and whole.dtype == np.result_type(*{column.dtype for column in values}):
                return whole, columns
        return np.stack(values).T, columns

    def _read(self, column: Column, written: str) -> Array:
        if self.kind == "numbers":
            return numbers_of(column, written)
        column = column if self.kind == "objects" else column.without_gaps()
        values, change = column.filled(self.missing), _CHANGES[self.kind]
        if change is not None:
            for row in np.flatnonzero(~column.missing):
                values[row] = change(values[row])
        return values


def tell_unread(columns: Iterable[Column], empty: Iterable[Array], kind: str) -> None:
    """Warn of values that were read as missing, but are no texts that stand for a missing one."""
    for column, gone in zip(columns, empty, strict=True):
        if column.values.dtype.kind == "O":
            wrong = [v for v in column.values[gone] if not (is_missing(v) or is_gap(v))]
            if wrong:
                told = f"{shown(wrong[0])} among its {kind} is read as missing."
                warnings.warn(f"Column {column.name!r}: {told}", TableNote, stacklevel=4)
