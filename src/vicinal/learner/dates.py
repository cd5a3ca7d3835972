"""Columns of dates as numbers: the parts of the calendar that differ, and the days between them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from vicinal.core.types import Array
from vicinal.learner.columns import Column, as_array, is_frame, is_missing, read_columns
from vicinal.learner.reading import date_of
from vicinal.learner.values import tell_unread

_DAY = np.timedelta64(1, "D")


class DateColumns(TransformerMixin, BaseEstimator):
    """Columns of dates as numbers: year, month, weekday, hour, and days since the earliest.

    A missing date, and a text in another format, gives missing numbers.

    Parameters
    ----------
    formats : sequence of str
        The format of the texts in each column, as for :meth:`datetime.datetime.strptime`, or
        "ISO 8601".  Dates that are stored as such need none.
    parts : sequence of sequences of str
        What each column becomes: some of "year", "month" (1 to 12), "weekday" (Monday is 0),
        "hour" (with fractions) and "days" (since the earliest date, with fractions).

    Attributes
    ----------
    origins_ : ndarray of shape (n_features_in_,)
        The earliest date of each column, in days since 1970.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X had string names.

    Examples
    --------
    >>> from vicinal.learner.dates import DateColumns
    >>> columns = DateColumns(["%d.%m.%Y"], [["month", "days"]])
    >>> columns.fit_transform([["30.12.2023"], ["2.1.2024"], [None]]).tolist()
    [[12.0, 0.0], [1.0, 3.0], [nan, nan]]
    """

    def __init__(self, formats: Sequence[str] = (), parts: Sequence[Sequence[str]] = ()) -> None:
        self.formats = formats
        self.parts = parts

    def fit(self, X: Any, y: Any = None) -> DateColumns:
        """Find the earliest date of each column.

        Parameters
        ----------
        X : data frame or array of shape (n_samples, n_columns)
        y : ignored

        Returns
        -------
        self : DateColumns
        """
        self.fit_transform(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Array:
        """Find the earliest dates, and give the numbers; see `fit` and `transform`."""
        _, days = self._days(X, reset=True)
        self.origins_ = np.array([min(each[~np.isnan(each)], default=0.0) for each in days])
        return self._numbers(days)

    def transform(self, X: Any) -> Array:
        """The columns as numbers.

        Parameters
        ----------
        X : data frame or array of shape (n_samples, n_columns)

        Returns
        -------
        Z : ndarray of shape (n_samples, n_features_out)
        """
        check_is_fitted(self, "origins_")
        columns, days = self._days(X, reset=False)
        tell_unread(columns, map(np.isnan, days), "dates")
        return self._numbers(days)

    def _numbers(self, days: list[Array]) -> Array:
        columns = zip(days, self.origins_, self.parts, strict=True)
        return np.column_stack(
            [calendar(each, origin)[part] for each, origin, parts in columns for part in parts]
        )

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names of the numbers: column and part."""
        check_is_fitted(self, "origins_")
        numbered = [f"x{j}" for j in range(self.n_features_in_)]
        names = getattr(self, "feature_names_in_", numbered)
        both = zip(names, self.parts, strict=True)
        return np.array([f"{name}_{part}" for name, parts in both for part in parts], dtype=object)

    def _days(self, X: Any, reset: bool) -> tuple[list[Column], list[Array]]:
        X = X if is_frame(X) else as_array(X)
        validate_data(self, X, reset=reset, skip_check_array=True)
        columns = read_columns(X)
        both = zip(columns, self.formats, strict=True)
        return columns, [days_of(column.values, fmt) for column, fmt in both]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.allow_nan = True
        return tags


def days_of(values: Sequence[Any] | Array, fmt: str) -> Array:
    """Dates, as such or as texts or whole numbers in a format, in days since 1970; NaN for none."""
    known: dict[Any, float] = {}
    for value in values:
        if value not in known:
            known[value] = np.nan if is_missing(value) else _days(value, fmt)
    return np.array([known[value] for value in values], np.float64)


def _days(value: Any, fmt: str) -> float:
    if isinstance(value, int | float | np.number):
        value = str(int(value)) if np.isfinite(value) else ""
    value = date_of(value, fmt) if isinstance(value, str) else getattr(value, "start_time", value)
    if isinstance(value, datetime):
        value = value.replace(tzinfo=None)
    moment = np.datetime64("NaT") if value is None else np.datetime64(value)
    return float((moment.astype("M8[us]") - np.datetime64(0, "us")) / _DAY)


def calendar(days: Array, origin: float) -> dict[str, Array]:
    """What days since 1970 are in the calendar, with the days since an origin."""
    gone = np.isnan(days)
    moments = np.round(np.where(gone, 0, days) * 86_400e6).astype("M8[us]")
    months = moments.astype("M8[M]").astype(int)
    found = {
        "year": months // 12 + 1970,
        "month": months % 12 + 1,
        "weekday": (moments.astype("M8[D]").astype(int) + 3) % 7,  # 1970 began on a Thursday
        "hour": (moments - moments.astype("M8[D]")) / np.timedelta64(1, "h"),
        "days": days - origin,
    }
    return {part: np.where(gone, np.nan, values) for part, values in found.items()}
