"""How each column of a table is to be used, or why it cannot be."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vicinal.core.types import Array
from vicinal.learner.columns import Column, is_missing
from vicinal.learner.errors import ColumnError

_FEW = 20  # so many different strings are categories, however few rows there are
_SHARE = 0.5  # categories repeat: columns with a larger share of different values are no categories
_WORDS = 3.0  # words in the mean value of a column of text
_DENSE = 0.6  # share of the integers of a range that row numbers fill, after a split
_AT_LEAST = 20  # rows from which on row numbers are told from other integers
_GAPS = 0.01, 5  # share and number of missing values from which on a column says where they are
_DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}")

_DROP = ("drop", "to leave it out")
_AS_CATEGORY = ("categorical", "to take each value as a category")
_AS_TEXT = ("text", "to use its words")
_GAP = ("na", "to read that value as missing")
_YEAR = ("=numbers in its place, such as the year", "")


@dataclass(frozen=True)
class Wishes:
    """What the caller said about single columns; the rest is decided by the values."""

    numeric: tuple[Any, ...] = ()
    categorical: tuple[Any, ...] = ()
    ordinal: Mapping[Any, Sequence[Any] | None] = field(default_factory=dict)
    text: tuple[Any, ...] = ()
    drop: tuple[Any, ...] = ()

    def check(self, names: list[Any]) -> None:
        """Refuse columns that are not there, and those with two uses."""
        uses: dict[Any, str] = {}
        for option in ("numeric", "categorical", "ordinal", "text", "drop"):
            for name in getattr(self, option):
                if name not in names:
                    listed = ", ".join(map(repr, names[:10])) + (", …" if len(names) > 10 else "")
                    raise ValueError(
                        f"The {option!r} parameter of make_learner must name columns of X: "
                        f"{listed}. Got {name!r} instead."
                    )
                if name in uses:
                    raise ValueError(
                        f"Column {name!r} must have one use. Got {uses[name]!r} and {option!r}."
                    )
                uses[name] = option


@dataclass
class Uses:
    """Columns by their use, in the order of the table."""

    numbers: list[Any] = field(default_factory=list)
    gaps: list[Any] = field(default_factory=list)  # numbers of which some are missing
    categories: list[Any] = field(default_factory=list)  # strings
    codes: list[Any] = field(default_factory=list)  # categories that are numbers
    ordinal: dict[Any, list[Any]] = field(default_factory=dict)  # with their levels in order
    text: list[Any] = field(default_factory=list)
    complete: bool = True  # whether no number is missing

    @property
    def only_numbers(self) -> bool:
        return not (self.categories or self.codes or self.ordinal or self.text)

    def add(self, column: Column, use: str, levels: Sequence[Any] | None = None) -> None:
        if use == "ordinal":
            self.ordinal[column.name] = list(levels or ())
        elif use == "number":
            self.complete &= not column.missing.any()
            often = column.missing.mean() >= _GAPS[0] and column.missing.sum() >= _GAPS[1]
            (self.gaps if often else self.numbers).append(column.name)
        elif use == "text":
            self.text.append(column.name)
        else:
            strings = all(isinstance(value, str) for value in column.present)
            (self.categories if strings else self.codes).append(column.name)


def sort_columns(columns: list[Column], wishes: Wishes, named: bool) -> Uses:
    """The use of each column; a `ColumnError` about all columns that have none.

    ``named`` is False for arrays, whose integers are never taken for row numbers.
    """
    wishes.check([column.name for column in columns])
    uses = Uses()
    kept = [column for column in columns if column.name not in wishes.drop]
    ColumnError.collect(lambda column: _sort(column, uses, wishes, named), kept)
    if columns and len(wishes.drop) == len(columns):
        raise ValueError("The 'drop' parameter of make_learner leaves no column to learn from.")
    return uses


def _sort(column: Column, uses: Uses, wishes: Wishes, named: bool) -> None:
    """Add a column to those of its use."""
    if len(column.present) == 0 and len(column.values):
        raise ColumnError(column.name, "has no value in any row", [_DROP])
    if column.name in wishes.numeric:
        uses.add(_number(column), "number")
    elif column.name in wishes.categorical:
        uses.add(_one_type(column), "category")
    elif column.name in wishes.ordinal:
        order = wishes.ordinal[column.name]
        in_order = order is None and column.storage in ("number", "bool")
        uses.add(column, *(("number",) if in_order else ("ordinal", _levels(column, order))))
    elif column.name in wishes.text:
        uses.add(column, "text")
    else:
        use = _use(column, named)
        uses.add(column, use, _levels(column, None) if use == "ordinal" else None)


def _use(column: Column, named: bool) -> str:
    """The use of a column about which nothing was said."""
    if column.storage == "date":
        column.refuse(0, "holds dates", [_DROP, _YEAR])
    if column.storage == "other":
        kind = type(column.present[0]).__name__
        column.refuse(0, f"holds values of type {kind}, which no rule can use", [_DROP])
    if column.storage == "category":
        _one_type(column)
        return "ordinal" if column.ordered else "category"
    if column.storage == "bool":
        return "number"
    if column.storage == "number":
        infinite = np.isinf(column.present.astype(np.float64))
        if infinite.any():
            advice = ("=a missing value (NaN) in its place", "")
            column.refuse(infinite, "holds infinite numbers", [advice, _DROP])
        if named and _counts_rows(column):
            keep = ("numeric", "if it does mean something")
            column.refuse(0, "looks like row numbers", [_DROP, keep])
        return "number"
    return _use_of_strings(column)


def _use_of_strings(column: Column) -> str:
    _refuse_mixed(column)
    values = column.present
    distinct = len(set(values))
    all_differ = distinct == len(values) >= 5
    if not all_differ and (distinct <= _FEW or distinct <= _SHARE * len(values)):
        return "category"
    if all(_DATE.fullmatch(value.strip()) for value in values[:100]):
        column.refuse(0, "holds dates", [_DROP, _YEAR, _AS_CATEGORY])
    if np.mean([len(value.split()) for value in values[:1000]]) >= _WORDS:
        return "text"
    problem = f"looks like an identifier: {distinct} different values in {len(values)} rows"
    column.refuse(0, problem, [_DROP, _AS_CATEGORY, _AS_TEXT])


def _refuse_mixed(column: Column) -> None:
    """Refuse numbers with a few words among them, and numbers that are stored as text."""
    values, words = column.present, _words(column)
    share = words.mean()
    if share == 0.0 and len(set(values)) > _FEW:
        advice = ("=numbers in its place (X[...].astype(float))", "")
        column.refuse(0, "holds numbers as text", [advice, _AS_CATEGORY, _DROP])
    if 0.0 < share <= 0.5 and len({str(value) for value in values}) > 2:
        column.refuse(words, "holds numbers, but not in every row", [_GAP, _AS_CATEGORY, _DROP])
    _one_type(column)


def _one_type(column: Column) -> Column:
    """Refuse categories of which some are strings and some are not: they cannot be sorted."""
    strings = np.array([isinstance(value, str) for value in column.present])
    if strings.any() and not strings.all():
        advice = ("=values of one type (X[...].astype(str))", "")
        problem = "holds both strings and other values"
        column.refuse(strings != strings[0], problem, [advice, _DROP])
    return column


def _number(column: Column) -> Column:
    """Refuse a column that was called numeric and has values that are none."""
    words = _words(column)
    if words.any():
        column.refuse(words, "was called numeric and is not", [_GAP, _AS_CATEGORY, _DROP])
    return column


def _levels(column: Column, given: Sequence[Any] | None) -> list[Any]:
    """The levels of an ordinal column, from the lowest to the highest."""
    levels = column.levels if given is None else list(given)
    if levels is None:
        seen = sorted({str(value) for value in column.present})
        shown = ", ".join(map(repr, seen[:5])) + (", …" if len(seen) > 5 else "")
        raise ValueError(
            f"Column {column.name!r} is to be ordinal, but the order of its values is not known: "
            f"{shown}. Use ordinal={{{column.name!r}: [...]}}, from the lowest to the highest."
        )
    if not isinstance(levels[0], str) and levels != sorted(levels):
        raise ValueError(
            f"Column {column.name!r} holds numbers, which have an order of their own. Levels in "
            f"another order must be strings. Got {levels!r}."
        )
    others = [value not in levels for value in column.present]
    if any(others):
        advice = f"=a list of levels in ordinal that has this value, {column.name!r}: [...]"
        problem = "has a value that is none of the levels in 'ordinal'"
        column.refuse(others, problem, [(advice, ""), _DROP])
    return levels


def _counts_rows(column: Column) -> bool:
    """Whether the values are most integers of a range, each once: 1, 2, 3, …, in any order."""
    values = column.present
    n = len(values)
    if n < _AT_LEAST or values.dtype.kind not in "iuf":
        return False
    low, high = float(values.min()), float(values.max())
    if not 0 <= low or high - low + 1 > n / _DENSE:
        return False
    return bool((values == np.floor(values)).all()) and len(np.unique(values)) == n


def check_numbers(column: Column) -> None:
    """Refuse a column of new rows that has words where the model needs numbers."""
    words = _words(column)
    if words.any():
        column.refuse(words, "must hold numbers for this model", [_GAP])


def _words(column: Column) -> Array:
    """Which of the present values are not numbers, nor strings that can be read as one."""
    if column.storage in ("number", "bool"):
        return np.zeros(len(column.present), dtype=bool)
    return np.array([not _is_number(value) for value in column.present], dtype=bool)


def _is_number(value: Any) -> bool:
    if not isinstance(value, str):
        return not is_missing(value)
    try:
        float(value)
    except ValueError:
        return False
    return True
