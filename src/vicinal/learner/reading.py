"""What the texts of a table mean: missing values, numbers, lengths of time and dates."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any

#: texts that stand for a missing value, among numbers and categories
GAPS = frozenset(
    "? ?? - -- --- – — . .. n/a #n/a na #na <na> n.a. nan #nan null #null! none nil nat (null) "
    "#value! #div/0! #ref! missing".split()
) | {""}
#: the same for labels: there "-", "none" and "missing" may be a class
LABEL_GAPS = frozenset("? n/a #n/a na <na> nan null nat (null)".split()) | {""}

_MONEY = r"(?:[$€£¥₹]|USD|EUR|GBP|CHF)"
_THOUSANDS = {".": r"[, \u00a0\u202f'’]", ",": r"[. \u00a0\u202f'’]"}


def _written(decimal: str) -> re.Pattern[str]:
    """Numbers as people write them, with one sign before the decimals and others in thousands."""
    whole = rf"(?:[1-9]\d{{0,2}}(?:{_THOUSANDS[decimal]}\d{{3}})+|\d+)"
    digits = rf"(?:{whole}(?:[{decimal}]\d*)?|[{decimal}]\d+)(?:[eE][+-]?\d+)?"
    return re.compile(
        rf"(?P<open>\()?(?P<sign>[+\-−]?)\s?{_MONEY}?\s?(?P<inner>[+\-−]?)(?P<digits>{digits})"
        rf"\s?(?:{_MONEY}|%)?(?P<close>\))?"
    )


_WRITTEN = {decimal: _written(decimal) for decimal in _THOUSANDS}
_LENGTH = re.compile(
    r"(?P<sign>-?)(?:(?P<days>\d+) days?,? ?)?"
    r"(?:(?P<hours>\d{1,3}):(?P<minutes>[0-5]?\d)(?::(?P<seconds>[0-5]?\d(?:\.\d+)?))?)?"
)


def is_gap(value: Any, gaps: frozenset[str] = GAPS) -> bool:
    """Whether a value is a text that stands for a missing one."""
    return isinstance(value, str) and value.strip().casefold() in gaps


def number_of(text: str, decimal: str = ".") -> float | None:
    """The number that a text is, without signs of money and percent and groups of thousands.

    A length of time, such as "1:30:00" or "2 days 04:00:00", is its number of seconds.
    """
    text = text.strip()
    found = _WRITTEN[decimal].fullmatch(text)
    if found is None:
        return _seconds(text)
    if (found["open"] is None) != (found["close"] is None):
        return None
    negative = found["open"] or {"-", "−"} & {found["sign"], found["inner"]}
    digits = re.sub(_THOUSANDS[decimal], "", found["digits"]).replace(",", ".")
    return -float(digits) if negative else float(digits)


def decimal_of(texts: Iterable[str]) -> str:
    """The sign before the decimals in most of some texts: a point, unless a comma reads more."""
    texts = list(texts)
    read = {mark: sum(number_of(text, mark) is not None for text in texts) for mark in ".,"}
    return "," if read[","] > read["."] else "."


def _seconds(text: str) -> float | None:
    """The seconds of a length of time; hours and minutes alone may be a time of the day."""
    found = _LENGTH.fullmatch(text)
    if found is None or not (found["days"] or found["hours"]):
        return None
    units = {"days": 86400, "hours": 3600, "minutes": 60, "seconds": 1}
    seconds = sum(float(found[name] or 0) * unit for name, unit in units.items())
    return -seconds if found["sign"] else seconds


_DAYS = (
    "%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%Y%m%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y",
    "%m-%d-%Y", "%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%d-%m-%y", "%m-%d-%y", "%d %b %Y",
    "%d %B %Y", "%d-%b-%Y", "%d-%b-%y", "%d %b %y", "%b %d, %Y", "%B %d, %Y", "%b %d %Y",
    "%B %d %Y", "%a, %d %b %Y", "%A, %d %B %Y", "%A, %B %d, %Y", "%a %b %d %Y", "%Y-%m", "%Y/%m",
    "%b %Y", "%B %Y", "%b-%y",
)  # fmt: skip
_TIMES = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")
#: what reads ISO 8601 in all its forms
ISO = "ISO 8601"
_ALSO = ("%a %b %d %H:%M:%S %Y", "%a %b %d %H:%M:%S %Z %Y", "%a, %d %b %Y %H:%M:%S %Z")
_ISO_DAY, _COMPACT = re.compile(r"\d{4}-\d{2}-\d{2}"), re.compile(r"(19|20)\d{6}")
_FIRST, _TRIED = 5, 50  # texts that a format is tried with before it is tried with all
_MOST = 0.9  # share of the texts that are dates in a column of dates


def date_format(texts: Iterable[str]) -> str | None:
    """The format that reads most of some texts as dates; None if none reads nine tenths.

    Where day and month could be either, the day is first, unless another text says otherwise.
    """
    texts = list(dict.fromkeys(text.strip() for text in texts))
    if sum(any(map(str.isdigit, text)) for text in texts[:_TRIED]) < _MOST * len(texts[:_TRIED]):
        return None
    formats = [ISO] if any(_ISO_DAY.match(text) for text in texts[:_FIRST]) else []
    formats += [day + time for day in _DAYS for time in _TIMES] + list(_ALSO)
    best, most = None, 0.0
    for fmt in formats:
        if not _share(texts[:_FIRST], fmt) or _share(texts[:_TRIED], fmt) < _MOST:
            continue
        share = _share(texts, fmt)
        if share >= _MOST and share > most:
            best, most = fmt, share
        if most == 1.0:
            break
    return best


def day_could_be_month(texts: Iterable[str], fmt: str) -> bool:
    """Whether the format with day and month exchanged reads all the texts, too."""
    other = fmt.replace("%d", "%\0").replace("%m", "%d").replace("%\0", "%m")
    return "%m" in fmt and not fmt.startswith("%Y") and _share(list(texts), other) == 1.0


def _share(texts: list[str], fmt: str) -> float:
    return sum(date_of(text, fmt) is not None for text in texts) / max(len(texts), 1)


def date_of(text: str, fmt: str) -> datetime | None:
    """The date that a text is in a format; the time of a zone as a clock there shows it."""
    text = text.strip()
    if fmt.startswith("%Y%m%d") and not _COMPACT.match(text):  # other numbers of some digits
        return None
    try:
        if fmt == ISO:
            return datetime.fromisoformat(text).replace(tzinfo=None)
        return datetime.strptime(text, fmt).replace(tzinfo=None)
    except ValueError:
        return None
