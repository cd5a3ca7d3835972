"""How each column of a table is to be used, or why it is left out."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from vicinal.core.types import Array
from vicinal.learner.columns import Column, is_missing, numbers_of, text_of
from vicinal.learner.dates import calendar, days_of
from vicinal.learner.errors import ColumnError, shown
from vicinal.learner.kinds import Uses, Wishes
from vicinal.learner.reading import (
    ISO,
    date_format,
    date_of,
    day_could_be_month,
    is_gap,
    number_of,
    written_of,
)

_FEW = 20  # this many different strings are categories, however few rows there are
_SHARE = 0.5  # categories repeat: columns with a larger share of different values are no categories
_WORDS = 3.0  # words of a value of a column of text, on average
_DENSE = 0.6  # share of the integers of a range that row numbers fill, after a split
_AT_LEAST = 20  # rows from which on row numbers and copies are told from chance
_COUNTS = 0.95  # share of the rows with one more than the row before
_YEARS = 1500, 2100  # whole numbers between these may be years
_GAPS = 0.01, 5  # share and number of missing values from which on a column says where they are
_ID = re.compile(
    r"(?:^|[\W_])(?:id|ID|Id)(?:$|[\W_])|(?<=[a-z])I[dD]$"
)  # as in "user_id", "PassengerId"
_CODE = re.compile(r"0\d+")  # digits that are no number

_DROP = ("drop", "to leave it out")
_AS_CATEGORY = ("categorical", "to take each value as a category")
_AS_NUMBERS = ("numeric", "to read them as numbers")
_AS_TEXT = ("text", "to use its words")
_GAP = ("na", "to read that value as missing")
_KEEP = ("numeric", "if it does mean something")


def _advice(text: str) -> tuple[str, str]:
    return f"={text}", ""


class _Column(NamedTuple):
    """A column with its use, and its values as they are used, to find copies."""

    column: Column
    use: str
    values: Array
    more: Any = None  # the levels, the format and parts, or how numbers are written


def sort_columns(columns: list[Column], wishes: Wishes, named: bool, strict: bool = False) -> Uses:
    """The use of each column, or why it is left out; a `ColumnError` about those of a strict table.

    ``named`` is False for arrays, where whole columns of numbers are all used as they are.
    """
    wishes.check([column.name for column in columns])
    if columns and len(wishes.drop) == len(columns):
        raise ValueError("The 'drop' parameter of make_learner leaves no column to learn from.")
    sorting = _Sorting(wishes, named, strict)
    kept = [column for column in columns if column.name not in wishes.drop]
    ColumnError.collect(sorting.add, kept)
    uses = sorting.uses
    if kept and len(uses.left_out) == len(kept):
        listed = ", ".join(f"{name!r} ({why})" for name, why in list(uses.left_out.items())[:8])
        raise ValueError(f"No column is left to learn from. Left out: {listed}.")
    return uses


class _Sorting:
    """Finds the use of one column after the other."""

    def __init__(self, wishes: Wishes, named: bool, strict: bool) -> None:
        self.wishes, self.named, self.strict = wishes, named, strict
        self.uses = Uses()
        self._seen: dict[Any, Any] = {}  # columns by a hash of their values

    def add(self, column: Column) -> None:
        """Add a column to those of its use."""
        read = self._read(column)
        if read is None:
            return
        name, uses = column.name, self.uses
        if read.use == "number":
            numbers = read.values
            gaps = np.isnan(numbers) if numbers.dtype.kind == "f" else np.zeros(1, bool)
            uses.complete &= not gaps.any() and numbers is column.values
            often = gaps.mean() >= _GAPS[0] and gaps.sum() >= _GAPS[1]
            (uses.gaps if often else uses.numbers).append(name)
            if read.more != ".":
                uses.written[name] = read.more
        elif read.use in ("ordinal", "date"):
            (uses.ordinal if read.use == "ordinal" else uses.dates)[name] = read.more
        else:
            {"text": uses.text, "string": uses.categories, "code": uses.codes}[read.use].append(
                name
            )

    def _read(self, column: Column) -> _Column | None:
        wishes, name = self.wishes, column.name
        given = column
        column = column.without_gaps()
        if not len(column.present) and len(column.values):
            return self._leave_out(given, "no values", "has no value in any row", [_DROP])
        if name in wishes.numeric:
            return self._number(given, column, wished=True)
        if name in wishes.categorical:
            return self._category(column)
        if name in wishes.ordinal:
            order = wishes.ordinal[name]
            if order is None and column.storage in ("number", "bool"):
                return self._number(given, column, wished=True)
            return _Column(given, "ordinal", given.values, _levels(given, order))
        if name in wishes.text:
            return _Column(column, "text", column.values)
        read = self._unspoken(given, column)
        if read is None or not (self.named or given.values.dtype.kind == "O"):
            return read
        return self._told_apart(read)

    def _unspoken(self, given: Column, column: Column) -> _Column | None:
        """The use of a column about which nothing was said."""
        if column.storage == "other":
            kind = type(column.present[0]).__name__ if column.values.dtype == object else "complex"
            problem = f"holds values of type {kind}, which no rule can use"
            return self._leave_out(column, f"values of type {kind}", problem, [_DROP])
        if column.storage == "date":
            return self._date(column)
        if column.storage == "category":
            if column.ordered:
                return _Column(column, "ordinal", column.values, _levels(column, None))
            return self._category(column)
        if column.storage in ("number", "bool"):
            if column.storage == "number" and self._are_compact_dates(column):
                return self._date(column)
            return self._number(given, column)
        return self._strings(given, column)

    def _strings(self, given: Column, column: Column) -> _Column | None:
        values = column.present
        texts = [value for value in values if isinstance(value, str)]
        distinct = set(map(text_of, values))
        n_read = len(values) - len(texts)
        written = written_of(set(texts))
        known = {text: number_of(text, written) is not None for text in set(texts)}
        n_read += sum(known[text] for text in texts)
        codes = any(map(_CODE.fullmatch, set(texts)))
        many = sum(known.get(text, True) for text in distinct) > _FEW
        if not codes and (n_read == len(values) or (2 * n_read > len(values) and many)):
            if n_read == len(values) and self._are_compact_dates(column):
                return self._date(column)
            return self._number(given, column, written)
        fmt = date_format(distinct)
        if fmt is not None:
            return self._date(column)
        if len(texts) < len(values):
            strings = np.array([isinstance(value, str) for value in values])
            advice = _advice("values of one type (X[...].astype(str))")
            problem = "holds both strings and other values"
            self._act(
                column,
                "all values are taken as text",
                problem,
                [advice, _DROP],
                strings != strings[0],
            )
        self._tell_gaps(given)
        all_differ = len(distinct) == len(values) >= 5
        if not all_differ and (len(distinct) <= _FEW or len(distinct) <= _SHARE * len(values)):
            return _Column(column, "string", column.values)
        if np.mean([len(text.split()) for text in texts[:1000]]) >= _WORDS:
            return self._text(column)
        counted = f"{len(distinct)} different values in {len(values)} rows"
        remedies = [_DROP, _AS_CATEGORY, _AS_TEXT]
        problem = f"looks like an identifier: {counted}"
        return self._leave_out(column, f"an identifier, {counted}", problem, remedies)

    def _number(
        self, given: Column, column: Column, written: str = ".", wished: bool = False
    ) -> _Column | None:
        """A column as numbers; what is none in it is missing."""
        name = given.name
        if wished and given.values.dtype == object:
            written = written_of({value for value in given.present if isinstance(value, str)})
        numbers = numbers_of(given, written)
        if column.values.dtype == object:
            self._tell_words(given, numbers, wished)
        elif given.values.dtype.kind == "f" and np.isinf(given.present).any():
            infinite, advice = (
                np.isinf(given.present),
                _advice("a missing value (NaN) in its place"),
            )
            done = "infinite numbers are read as missing"
            self._act(given, done, "holds infinite numbers", [advice, _DROP], infinite)
        self._tell_gaps(given)
        present = numbers[~np.isnan(numbers)] if numbers.dtype.kind == "f" else numbers
        if not len(present) and len(numbers):
            return self._leave_out(given, "no values", "has no number in any row", [_DROP])
        if self.named and not wished and column.storage != "bool" and _counts_rows(present):
            return self._leave_out(given, "row numbers", "looks like row numbers", [_DROP, _KEEP])
        if self.named and not wished and _is_id(name, present):
            reason = "an identifier by its name, with as many values as rows"
            return self._leave_out(given, reason, "looks like an identifier", [_DROP, _KEEP])
        if self.named and not wished and _counts_in_groups(present):
            self.uses.tell(name, "counts up from row to row, as a number within a group does")
        return _Column(given, "number", numbers, written)

    def _tell_words(self, given: Column, numbers: Array, wished: bool) -> None:
        """Tell which texts are read as numbers, and which are not."""
        at = ~given.missing
        values, empty = given.values[at], np.isnan(numbers[at])
        texts = np.array([isinstance(value, str) for value in values])
        written = texts & ~empty & np.array([not _is_float(value) for value in values])
        if wished:
            pass
        elif written.any():
            words = f"text such as {shown(values[written][0])} is read as numbers"
            problem = "holds numbers as text"
            self._act(given, words, problem, [_AS_NUMBERS, _AS_CATEGORY, _DROP], written)
        elif self.strict and texts.any() and not empty.any():
            given.refuse(texts, "holds numbers as text", [_AS_NUMBERS, _AS_CATEGORY, _DROP])
        wrong = empty & np.array([self.strict or not is_gap(value) for value in values])
        if wrong.any():
            words = f"{shown(values[wrong][0])} among its numbers is read as missing"
            problem = "holds numbers, but not in every row"
            if wished:
                problem = "was called numeric and is not"
            self._act(given, words, problem, [_GAP, _AS_CATEGORY, _DROP], wrong)

    def _tell_gaps(self, given: Column) -> None:
        """Tell which texts are read as missing values."""
        if given.values.dtype == object:
            gaps = dict.fromkeys(value for value in given.values if is_gap(value))
            if gaps:
                listed = " and ".join(map(repr, list(gaps)[:3]))
                verb = "is read as a missing value" if len(gaps) == 1 else "are missing values"
                self.uses.tell(given.name, f"{listed} {verb}")

    def _category(self, column: Column) -> _Column:
        strings = np.array([isinstance(value, str) for value in column.present])
        if strings.any() and not strings.all() and self.strict:
            advice = _advice("values of one type (X[...].astype(str))")
            problem = "holds both strings and other values"
            column.refuse(strings != strings[0], problem, [advice, _DROP])
        return _Column(column, "string" if strings.any() else "code", column.values)

    def _text(self, column: Column) -> _Column | None:
        try:
            TfidfVectorizer(min_df=2).fit(map(str, column.filled("")))
        except ValueError:
            why = "text in which no word occurs twice"
            return self._leave_out(column, why, f"holds {why}", [_DROP, _AS_CATEGORY])
        return _Column(column, "text", column.values)

    def _date(self, column: Column) -> _Column | None:
        """A column of dates by those parts of the calendar that differ."""
        texts = {
            value if isinstance(value, str) else text_of(value)
            for value in column.present
            if isinstance(value, str | int | float | np.number)
        }
        fmt = (date_format(texts) or ISO) if texts else ISO
        days = days_of(column.values, fmt)
        found = days[~np.isnan(days)]
        parts = [part for part, v in calendar(found, 0.0).items() if (v != v[:1]).any()]
        if not parts:
            return self._constant(column)
        first = column.values[np.flatnonzero(~np.isnan(days))[0]]
        words = f"dates such as {shown(str(first))}, used as {_listed(parts)}"
        if texts and day_could_be_month(texts, fmt):
            words += ", the day before the month"
        year = _advice("numbers in its place, such as the year")
        self._act(column, words, "holds dates", [_DROP, year, _AS_CATEGORY], None)
        wrong = [v for v, day in zip(column.values, days, strict=True) if np.isnan(day)]
        wrong = [value for value in wrong if not is_missing(value)]
        if wrong:
            self.uses.tell(column.name, f"{shown(wrong[0])} among its dates is read as missing")
        return _Column(column, "date", days, (fmt, parts))

    def _are_compact_dates(self, column: Column) -> bool:
        """Whether all are whole numbers such as 20240131."""
        values = column.present
        if values.dtype.kind == "f" and not (values == np.floor(values)).all():
            return False
        distinct = {text_of(value) for value in values}
        return len(distinct) >= 5 and all(date_of(text, "%Y%m%d") for text in distinct)

    def _told_apart(self, read: _Column) -> _Column | None:
        """The column, unless it has one value only, or those of an earlier one."""
        column, values = read.column, read.values
        floats = values.astype(np.float64) if read.use in ("number", "date") else None
        if floats is None:
            texts = [None if is_missing(value) else text_of(value) for value in values]
            content, n_distinct = repr(texts).encode(), len(set(texts))
        else:
            content, n_distinct = floats.tobytes(), 1 + bool((floats != floats[:1]).any())
        if n_distinct == 1 and len(values) > 1:
            return self._constant(column)
        key = (floats is None, hashlib.blake2b(content).digest())
        first = self._seen.setdefault(key, column.name)
        if first == column.name or len(values) < _AT_LEAST:
            return read
        problem = f"holds the same values as column {first!r}"
        return self._leave_out(column, f"the same as {first!r}", problem, [_DROP])

    def _constant(self, column: Column) -> _Column | None:
        return self._leave_out(column, "one value only", "has one value only", [_DROP])

    def _leave_out(
        self, column: Column, reason: str, problem: str, remedies: list[tuple[str, str]]
    ) -> _Column | None:
        for names in self.uses.told.values():  # nothing else matters then
            names[:] = [name for name in names if name != column.name]
        self._act(column, f"left out, {reason}", problem, remedies, None)
        self.uses.left_out[column.name] = reason
        return None

    def _act(
        self, column: Column, words: str, problem: str, remedies: list[tuple[str, str]], wrong: Any
    ) -> None:
        """Tell what is done with a column; a strict table is refused instead.

        ``wrong`` says which of the present values show it; None: the first.
        """
        if not self.strict:
            self.uses.tell(column.name, words)
        elif len(column.present):
            column.refuse([True] if wrong is None else wrong, problem, remedies)
        else:
            raise ColumnError(column.name, problem, remedies)


def _listed(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _is_float(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


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


def _counts_rows(values: Array) -> bool:
    """Whether values are most integers of a range, each once: 1, 2, 3, …, in any order."""
    n = len(values)
    if n < _AT_LEAST:
        return False
    low, high = float(values.min()), float(values.max())
    if not 0 <= low or high - low + 1 > n / _DENSE or _YEARS[0] <= low <= high <= _YEARS[1]:
        return False
    return bool((values == np.floor(values)).all()) and len(np.unique(values)) == n


def _is_id(name: Any, values: Array) -> bool:
    """Whether whole numbers that all differ are in a column that calls itself an identifier."""
    if len(values) < _AT_LEAST or not isinstance(name, str) or not _ID.search(name):
        return False
    return bool((values == np.floor(values)).all()) and len(np.unique(values)) == len(values)


def _counts_in_groups(values: Array) -> bool:
    """Whether values count from 0 or 1 on in the order of the rows, and begin again a few times."""
    if len(values) < _AT_LEAST or values.dtype.kind not in "iuf" or not 0 <= values.min() <= 1:
        return False
    return bool(np.mean(np.diff(values) == 1) >= _COUNTS)
