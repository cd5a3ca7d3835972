"""Text files with one row to a line: find the separator and the header, and read them."""

from __future__ import annotations

import csv
import gzip
import io
import re
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count, islice

import pandas as pd

from vicinal.learner.errors import TableNote

_OF_WINDOWS = "cp1252"  # what spreadsheets write in Western Europe and America
_GZIP, _UTF_16 = b"\x1f\x8b", (b"\xff\xfe", b"\xfe\xff")  # first bytes of files
_SEPARATORS = ",;\t|"
_SAMPLE = 100  # lines that are looked at to find the separator and the header
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")
_SPACES, _MARGINS = re.compile(r"[ \t]+"), re.compile(r"^[ \t]+|[ \t]+$", re.MULTILINE)
_CODE = re.compile(r"\s*0\d+\s*$")
_DECIMAL_POINT = re.compile(r"[+-]?\d*\.\d+")
#: texts that spreadsheets run as formulas, unless they are numbers
_FORMULA = re.compile(r"'*[=+\-@\t\r\n]")
_NUMBER = re.compile(r"[+-]?([0-9]+[.,]?[0-9]*|[.,][0-9]+)([eE][+-]?[0-9]+)?")


class NoRows(ValueError):
    """A table without rows."""


@dataclass(frozen=True)
class Lines:
    """Where the rows of a text file are: a row may take several lines, and lines may be empty."""

    text: str
    sep: str
    header: bool

    def of(self, row: int) -> int:
        """The line, counted from one, on which a row begins."""
        return next(islice(self.rows(), row, None))[0]

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """The first line of each row, and its cells."""
        reader, begins = csv.reader(io.StringIO(self.text), delimiter=self.sep), 1
        skip = self.header
        for cells in reader:
            if cells and not skip:
                yield begins, cells
            skip = skip and not cells
            begins = reader.line_num + 1


def read_csv(
    content: bytes, name: str, *, sep: str | None, na: Sequence[str], header: bool | None,
    encoding: str | None, safe: bool,
) -> tuple[pd.DataFrame, Lines]:  # fmt: skip
    """The table as a data frame, and where its rows are; if safe, texts as `csv_text` got them."""
    text = _decoded(content, name, encoding)
    if not text.strip():
        raise NoRows(f"{name} is empty.")
    if sep is None and _is_spaced(text):
        text, sep = _SPACES.sub(" ", _MARGINS.sub("", text)), " "
    sep = _separator(text) if sep is None else _checked(sep)
    text = text if sep == " " else _without_titles(text, sep, name)
    sample = _cells(text, sep, _SAMPLE)
    header = _has_header(sample) if header is None else header
    if header and len(sample) == 1:
        raise NoRows(f"{name} has a header and no rows.")
    names = sample[0] if header else [f"c{j + 1}" for j in range(len(sample[0]))]
    if safe:  # names alone: the values are texts only once the table has been read
        names, na = [_unguarded(part) for part in names], [*na, *map(_guarded, na)]
    quotes = '"'
    if header and all(len(part) > 1 and part[0] == part[-1] == "'" for part in names):
        quotes, names = "'", [part[1:-1] for part in names]
    names = _different([part.strip() or f"unnamed {j + 1}" for j, part in enumerate(names)], name)
    lines = Lines(text, sep, header)
    try:
        frame = pd.read_csv(
            io.StringIO(text), sep=sep, header=0 if header else None, index_col=False,
            names=names, quotechar=quotes, na_values=list(na), decimal=_decimal(sample, sep),
            skipinitialspace=True, low_memory=False, dtype=_codes(lines, names),
        )  # fmt: skip
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        _check_lengths(lines, name, len(names))
        raise ValueError(f"{name} cannot be read as a table: {error}") from error
    if frame.iloc[:, -1].isna().any():
        _check_lengths(lines, name, len(names))
    if safe:
        frame, n = _with_texts(frame, _unguarded)
        if n:
            warnings.warn(
                f"{name}: {n} values begin with an apostrophe before =, +, - or @. It is left out; "
                "--no-safe-cells keeps it.",
                stacklevel=2,
            )
    return frame, lines


def csv_text(frame: pd.DataFrame, sep: str, safe: bool) -> str:
    """A data frame as CSV; if safe, texts that a spreadsheet would run begin with an apostrophe."""
    if safe:
        frame, n = _with_texts(frame, _guarded)
        names = [str(name) for name in frame.columns]
        frame.columns = [_guarded(name) for name in names]
        n += sum(map(_is_formula, names))
        if n:
            warnings.warn(
                f"{n} values begin with =, +, - or @. They are written with an apostrophe before "
                "it, so that no spreadsheet runs them; --no-safe-cells leaves it out.",
                stacklevel=2,
            )
    text: str = frame.to_csv(sep=sep, index=False, lineterminator="\n")
    if "\r" in text:  # pandas puts no quotes around it, but readers end the line there
        text = frame.to_csv(sep=sep, index=False, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    return text


def is_csv(start: bytes, named: bool) -> bool:
    """Whether a file that begins so is a table; ``named``: its name says that it is one."""
    if start.startswith(_GZIP):
        return named
    if b"\0" in start and not start.startswith(_UTF_16):
        return False
    text = start.decode("utf-16" if start.startswith(_UTF_16) else "latin-1", errors="ignore")
    if named:
        other = ("<!doctype", "<html", "<?xml", "<svg", "%pdf")
        return not text.lstrip("\xef\xbb\xbf \t\r\n").lower().startswith(other)
    text = text[: text.rfind("\n") + 1]  # without a line that is cut off
    try:
        rows = _cells(text, _separator(text), _SAMPLE)
    except csv.Error:
        return False
    same = len(rows) > 1 and {len(row) for row in rows} == {max(len(rows[0]), 2)}
    return same and all(any(map(_is_number, row)) for row in rows[1:])


def _guarded(text: str) -> str:
    return f"'{text}" if _is_formula(text) else text


def _unguarded(text: str) -> str:
    """The inverse of `_guarded`; other texts stay as they are."""
    return text[1:] if text.startswith("'") and _is_formula(text[1:]) else text


def _is_formula(text: str) -> bool:
    """Whether a spreadsheet may run a text, or `_guarded` may have written it."""
    return _FORMULA.match(text) is not None and _NUMBER.fullmatch(text) is None


def _with_texts(frame: pd.DataFrame, change: Callable[[str], str]) -> tuple[pd.DataFrame, int]:
    """The frame with its texts changed, and how many of them differ."""
    made, n = frame.copy(deep=False), 0
    for j, dtype in enumerate(frame.dtypes):
        before = [] if dtype.kind in "biufcmM" else list(frame.iloc[:, j])
        after = [change(value) if isinstance(value, str) else value for value in before]
        differ = sum(a is not b for a, b in zip(before, after, strict=True))
        if differ:
            dtype = object if isinstance(dtype, pd.CategoricalDtype) else dtype
            made.isetitem(j, pd.Series(after, index=frame.index, dtype=dtype))
        n += differ
    return made, n


def _decoded(content: bytes, name: str, encoding: str | None) -> str:
    if content.startswith(_GZIP):
        try:
            content = gzip.decompress(content)
        except EOFError:
            raise ValueError(
                f"{name} is cut off: its compressed data have no end. Copy or download it again."
            ) from None
        except (OSError, zlib.error) as error:
            raise ValueError(f"{name} is broken: {error}. Copy or download it again.") from error
    if encoding is None and content.startswith(_UTF_16):
        encoding = "utf-16"
    try:
        return content.decode(encoding or "utf-8-sig")
    except LookupError:
        raise ValueError(f"--encoding: there is no encoding {encoding!r}.") from None
    except UnicodeDecodeError as error:
        if encoding is None and b"\0" not in content:
            with suppress(UnicodeDecodeError):
                text = content.decode(_OF_WINDOWS)
                warnings.warn(
                    f"{name} is not UTF-8 and is read as {_OF_WINDOWS}; --encoding says otherwise.",
                    TableNote,
                    stacklevel=3,
                )
                return text
        line = content[: error.start].count(b"\n") + 1
        raise ValueError(
            f"{name} is not {encoding or 'UTF-8'}: byte 0x{content[error.start]:02x} in line {line}"
            ". Use --encoding to say what it is, such as --encoding latin-1."
        ) from None


def _cells(text: str, sep: str, n: int) -> list[list[str]]:
    """The cells of the first rows that are not empty."""
    return list(islice(filter(None, csv.reader(io.StringIO(text), delimiter=sep)), n))


def _without_titles(text: str, sep: str, name: str) -> str:
    """The text with empty lines in place of titles above the table and sources below it."""
    sample = _cells(text, sep, _SAMPLE)
    width = Counter(map(len, sample)).most_common(1)[0][0]

    def is_title(cells: list[str]) -> bool:
        some = sum(bool(cell.strip()) for cell in cells)
        if len(cells) == width:
            return some <= 1 and width > 2
        return some <= 1 or cells[0].lstrip().startswith("#")

    lines = text.splitlines(keepends=True)
    first = last = 0
    while first < len(lines) and is_title(next(csv.reader([lines[first]], delimiter=sep), [])):
        first += 1
    while last < min(_SAMPLE, len(lines)) and '"' not in lines[-1 - last]:
        cells = next(csv.reader([lines[-1 - last]], delimiter=sep), [])
        if len(cells) == width or not is_title(cells):
            break
        last += 1
    end = len(lines) - last
    below = "".join(lines[end:])
    if below[:1].strip() or not any(map(str.isalpha, below)):  # the table is cut off
        end = len(lines)
    if width < 2 or first >= end:
        return text
    titles = [i for i in (*range(first), *range(end, len(lines))) if lines[i].strip(sep + " \r\n")]
    if titles:
        shown = f"line{'s' * (len(titles) > 1)} {', '.join(str(i + 1) for i in titles[:5])}"
        warnings.warn(
            f"{name}: {shown}{', …' if len(titles) > 5 else ''} above or below the table "
            f"{'are' if len(titles) > 1 else 'is'} left out.",
            TableNote,
            stacklevel=3,
        )
        for i in titles:
            lines[i] = "\n"
    return "".join(lines)


def _codes(lines: Lines, names: list[str]) -> dict[str, type]:
    """The columns with values such as 02139, which are no numbers: the zero would be lost."""
    mark = re.escape(lines.sep)
    if re.search(rf'(?:^|{mark})\s*"?0\d+"?\s*(?:{mark}|$)', lines.text, re.MULTILINE) is None:
        return {}
    found = {j for _, cells in lines.rows() for j, cell in enumerate(cells) if _CODE.match(cell)}
    return {names[j]: str for j in found if j < len(names)}


def _is_spaced(text: str) -> bool:
    """Whether there are numbers with nothing but spaces between them, any number of spaces."""
    rows = [line.split() for line in text[:100_000].splitlines()[:_SAMPLE] if line.strip()]
    numbers = [_is_number(cell) for row in rows[1:] or rows for cell in row]
    same = len({len(row) for row in rows}) == 1 and len(rows[0]) > 1
    return same and all(numbers) and not any("," in cell or ";" in cell for cell in rows[-1])


def _separator(text: str) -> str:
    """The separator by which most rows have the same number of cells, and more than one."""
    best, most = ",", (0.0, 0)
    for sep in _SEPARATORS:
        lengths = Counter(len(cells) for cells in _cells(text, sep, _SAMPLE))
        length, count = max(lengths.items(), key=lambda item: (item[1], item[0]))
        found = (count / lengths.total(), length)
        if length > 1 and found > most:
            best, most = sep, found
    return best


def _checked(sep: str) -> str:
    sep = {"\\t": "\t", "tab": "\t", "space": " "}.get(sep, sep)
    if len(sep) != 1:
        raise ValueError(f"--sep must be one character, 'tab' or 'space'. Got {sep!r} instead.")
    return sep


def _decimal(sample: list[list[str]], sep: str) -> str:
    """The sign before the decimals: a comma if numbers are written so, and never with a point."""
    cells = [cell.strip() for row in sample for cell in row]
    commas = sep != "," and any(_DECIMAL_COMMA.fullmatch(cell) for cell in cells)
    return "," if commas and not any(_DECIMAL_POINT.fullmatch(cell) for cell in cells) else "."


def _has_header(sample: list[list[str]]) -> bool:
    """Whether the first row names the columns: no, if it has numbers where the others have."""
    first, others = sample[0], sample[1:]
    if not others:
        return not any(map(_is_number, first))
    numeric = []
    for j, cell in enumerate(first):
        below = [row[j] for row in others if j < len(row) and row[j].strip()]
        if below and sum(map(_is_number, below)) > len(below) / 2:
            numeric.append(_is_number(cell) or not cell.strip())
    return not numeric or sum(numeric) < len(numeric) / 2


def _is_number(cell: str) -> bool:
    try:
        float(cell.strip().replace(",", "."))
    except ValueError:
        return False
    return True


def _different(names: list[str], table: str) -> list[str]:
    """The names of columns, with a number where one occurs again."""
    made: list[str] = []
    for j, name in enumerate(names):
        free = (f"{name} {number}" for number in count(2))
        made.append(name if name not in made else next(new for new in free if new not in names))
        if made[-1] != name:
            warnings.warn(
                f"{table} has several columns named {name!r}: column {j + 1} is called "
                f"{made[-1]!r}.",
                TableNote,
                stacklevel=3,
            )
    return made


def _check_lengths(lines: Lines, name: str, n_columns: int) -> None:
    """Refuse rows with too few or too many cells."""
    for line, cells in lines.rows():
        if len(cells) != n_columns:
            raise ValueError(
                f"{name}: line {line} has {len(cells)} values, but there are {n_columns} columns. "
                "Put values that hold the separator into quotes, or use --sep."
            )
