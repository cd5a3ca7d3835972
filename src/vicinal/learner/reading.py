"""What the texts of a table mean: missing values, numbers, lengths of time and dates."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
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
    r"(?P<sign>-?)(?:(?P<days>\d+)(?: ?days?|d(?= ?\d)),? ?)?"
    r"(?:(?P<hours>\d{1,3}):(?P<minutes>[0-5]?\d)(?::(?P<seconds>[0-5]?\d(?:\.\d+)?))?"
    r"|(?:(?P<h>\d+) ?h)? ?(?:(?P<min>\d+) ?m(?:in)?)? ?(?:(?P<s>\d+) ?s)?)"
)
_UNITS = {"days": 86400, "hours": 3600, "h": 3600, "minutes": 60, "min": 60, "seconds": 1, "s": 1}
_TAILED = re.compile(r"(?P<number>.*\d)\s?(?P<unit>[^\d\s.,][^\d]{0,11})")
_UNIT = 0.9  # share of the texts that end in a unit


def is_gap(value: Any, gaps: frozenset[str] = GAPS) -> bool:
    """Whether a value is a text that stands for a missing one."""
    return isinstance(value, str) and value.strip().casefold() in gaps


def number_of(text: str, written: str = ".") -> float | None:
    """The number that a text is, without signs of money and percent and groups of thousands.

    ``written`` is the sign before the decimals and, if the numbers have one, their unit: ",kg".
    A length of time, such as "1:30:00" or "2 days 04:00:00", is its number of seconds.
    """
    decimal, unit = written[0], written[1:]
    text = text.strip()
    text = text.removesuffix(unit).rstrip() if unit else text
    found = _WRITTEN[decimal].fullmatch(text)
    if found is None:
        return _seconds(text)
    if (found["open"] is None) != (found["close"] is None):
        return None
    negative = found["open"] or {"-", "−"} & {found["sign"], found["inner"]}
    digits = re.sub(_THOUSANDS[decimal], "", found["digits"]).replace(",", ".")
    return -float(digits) if negative else float(digits)


def written_of(texts: Iterable[str]) -> str:
    """How the numbers in some texts are written: the sign before the decimals, and a unit.

    The sign is a point unless a comma reads more; a unit, such as "kg", is in most of the texts.
    """
    texts = list(texts)
    units: Counter[str] = Counter()
    for text in texts:
        tailed = _TAILED.fullmatch(text.strip())
        if tailed and number_of(text, ".") is None and number_of(text, ",") is None:
            units[tailed["unit"]] += 1
    unit, often = units.most_common(1)[0] if units else ("", 0)
    unit = unit if often >= _UNIT * len(texts) else ""
    read = {mark: sum(number_of(text, mark + unit) is not None for text in texts) for mark in ".,"}
    return ("," if read[","] > read["."] else ".") + unit


def _seconds(text: str) -> float | None:
    """The seconds of a length of time; hours and minutes alone may be a time of the day."""
    found = _LENGTH.fullmatch(text)
    if found is None or not any(map(str.isdigit, text)):
        return None
    seconds = sum(float(found[name] or 0) * unit for name, unit in _UNITS.items())
    return -seconds if found["sign"] else seconds


_DAYS = (
    "%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%Y%m%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y",
    "%m-%d-%Y", "%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%d-%m-%y", "%m-%d-%y", "%d %b %Y",
    "%d-%b-%Y", "%d-%b-%y", "%d %b %y", "%b %d, %Y", "%b %d %Y", "%a, %d %b %Y", "%A, %d %b %Y",
    "%A, %b %d, %Y", "%a %b %d %Y", "%Y-%m", "%Y/%m", "%m/%Y", "%m-%Y", "%b %Y",
    "%b-%y",
)  # fmt: skip
_TIMES = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")
#: what reads ISO 8601 in all its forms
ISO = "ISO 8601"
_ALSO = ("%a %b %d %H:%M:%S %Y", "%a %b %d %H:%M:%S %Z %Y")
_ISO_DAY = re.compile(r"\d{4}-(?:\d{2}-\d{2}|W\d{2})")
_COMPACT = re.compile(r"(19|20)\d{6}")
# the zone after a time of the day: "GMT+1", "UTC", "-05:00"
_ZONE = re.compile(
    r"(:\d\d(?:\.\d+)?(?: ?[AaPp][Mm])?)"
    r" ?(?:UTC|GMT|Z|CES?T|[ECMP][SD]T)?(?:[+-]\d{1,2}:?(?:\d\d)?)?$"
)
_ORDINAL = re.compile(r"\b(\d{1,2})(?:st|nd|rd|th|er|º|\.(?= ))")
_WORD = re.compile(r"[^\W\d]{3,}\.?")
#: months as texts in English, German, French, Spanish, Italian, Dutch and Portuguese name them
_MONTHS = (
    "jan january januar jänner jän janvier janv enero ene gennaio gen januari janeiro",
    "feb february februar feber février févr febrero febbraio februari fevereiro fev",
    "mar march märz mär mars marzo maart mrt março",
    "apr april avril avr abril abr aprile",
    "may mai mayo maggio mag mei maio",
    "jun june juni juin junio giugno giu junho",
    "jul july juli juillet juil julio luglio lug julho",
    "aug august août agosto ago augustus",
    "sep september sept septembre septiembre settembre setembro",
    "oct october oktober okt octobre octubre ottobre ott outubro out",
    "nov november novembre noviembre novembro",
    "dec december dezember dez décembre déc diciembre dic dicembre dezembro",
)
_ENGLISH = {
    name: datetime(2000, month, 1).strftime("%b")
    for month, names in enumerate(_MONTHS, 1)
    for name in names.split()
}
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
    text = _plain(text)
    if fmt.startswith("%Y%m%d") and not _COMPACT.match(text):  # other numbers of some digits
        return None
    try:
        if fmt == ISO:
            return datetime.fromisoformat(text).replace(tzinfo=None)
        return datetime.strptime(text, fmt.replace("%B", "%b")).replace(tzinfo=None)
    except ValueError:
        return None


@lru_cache(4096)  # formats are tried one after the other
def _plain(text: str) -> str:
    """A date without a zone and the ending of "1st"; a month by the first letters of its name."""
    text = _ZONE.sub(r"\1", text.strip())
    known = [word for word in _WORD.findall(text) if word.rstrip(".").casefold() in _ENGLISH]
    if known:
        text = text.replace(" de ", " ")
        text = text.replace(known[0], _ENGLISH[known[0].rstrip(".").casefold()])
    return _ORDINAL.sub(r"\1", text)
