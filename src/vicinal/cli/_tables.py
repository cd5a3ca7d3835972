"""Tables of the command line: CSV, TSV, Parquet and NPZ, from files and standard input."""

from __future__ import annotations

import csv
import io
import sys
import warnings
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from vicinal._atomic import replace_file
from vicinal.cli._csv import Lines, NoRows, csv_text, read_csv
from vicinal.core.types import Array
from vicinal.learner.errors import TableNote, near
from vicinal.learner.targets import left_out_note, rows_without_label

#: what readers say about files that are cut off, damaged, encrypted or of another kind
_BROKEN = (
    EOFError, KeyError, NotImplementedError, OSError, RuntimeError, ValueError, zipfile.BadZipFile,
    zlib.error,
)  # fmt: skip
PARQUET = (".parquet", ".pq")
_MANY = 50  # this many classes are believed, however few rows there are


@dataclass(frozen=True)
class Table:
    """A table as a command reads it.

    Parameters
    ----------
    X : pandas.DataFrame
        All columns but the label.
    y : array or None
        The label column.
    label : str or None
        Its name.
    name : str
        Where the table is from, for messages.
    lines : Lines or None
        Where its rows are in a text file.
    rows : int array or None
        The numbers of its rows in the file, if some were left out.
    at : int
        The position of the label among all columns.
    """

    X: pd.DataFrame
    y: Array | None
    label: str | None
    name: str
    lines: Lines | None = None
    rows: Array | None = None
    at: int = 0

    def place(self, row: int) -> str:
        """Where a row is: "line 3" of a text file, else "row 1", counted from zero."""
        row = row if self.rows is None else int(self.rows[row])
        return f"row {row}" if self.lines is None else f"line {self.lines.of(row)}"

    @property
    def truth(self) -> pd.Series | None:
        """The label column with its name."""
        return None if self.y is None else pd.Series(self.y, name=self.label)

    def by_model(self, model: Any) -> Table:
        """With the label that a model learnt, if no other was named and the table has it."""
        name = getattr(model, "target_name_", None)
        if self.y is not None or name not in self.X.columns:
            return self
        return with_label(self.X, name, self.name, self.lines)

    @property
    def n_different(self) -> int:
        """The number of different labels."""
        return 0 if self.y is None else len(set(self.y.tolist()))

    @property
    def colours(self) -> Array | None:
        """The labels for a picture: texts in place of those that are missing."""
        if self.y is None or self.y.dtype.kind == "f":
            return self.y
        empty = rows_without_label(self.y)
        return np.where(empty, "no label", self.y.astype(str)) if empty.any() else self.y

    @property
    def whole(self) -> pd.DataFrame:
        """All columns, the label in its place."""
        if self.y is None or self.label is None:
            return self.X
        whole = self.X.copy()
        whole.insert(min(self.at, whole.shape[1]), self.label, self.y)
        return whole

    def labelled(self, strict: bool, classes: bool = False) -> Table:
        """The rows that have a label; with ``strict`` others are refused."""
        if self.y is None:
            return self
        empty = rows_without_label(self.y, classes)
        n, rows = int(empty.sum()), np.flatnonzero(~empty)
        if not n:
            return self
        where = f"--label: column {self.label!r} of {self.name}"
        if strict or not len(rows):
            places = ", ".join(map(self.place, np.flatnonzero(empty)[:5])) + (
                ", …" if n > 5 else ""
            )
            told = f"{where} has no label in {n} of {len(empty)} rows: {places}."
            more = " Without --strict-columns these rows are left out." if len(rows) else ""
            raise ValueError(told + more)
        warnings.warn(left_out_note(self.y, empty), TableNote, stacklevel=2)
        y = self.y[rows]
        if y.dtype.kind == "f" and (y == np.floor(y)).all() and (abs(y) < 2**53).all():
            y = y.astype(np.int64)  # as pandas would have read them, but for the gaps
        return replace(self, X=self.X.iloc[rows].reset_index(drop=True), y=y, rows=rows)

    def check_classes(self) -> None:
        """Refuse a label column that holds no classes to learn."""
        assert self.y is not None
        classes = np.unique(self.y.astype(str))
        label = f"--label: column {self.label!r} of {self.name}"
        if len(classes) < 2:
            raise ValueError(
                f"{label} has one class only, {str(classes[0])!r}. Choose another column."
            )
        if len(classes) > _MANY and 2 * len(classes) > len(self.y):
            raise ValueError(
                f"{label} looks like identifiers, not classes: {len(classes)} different values in "
                f"{len(self.y)} rows. Choose another column."
            )


def read_table(
    source: str | Path,
    label: str | int | None = None,
    *,
    sep: str | None = None,
    na: Sequence[str] = (),
    header: bool | None = None,
    encoding: str | None = None,
    safe: bool = True,
) -> Table:
    """Read a table.

    Parameters
    ----------
    source : str or Path
        A file: Parquet (.parquet, .pq), NPZ (.npz, with arrays X and perhaps y, feature_names and
        class_names), or text with separators; "-" is standard input.
    label : str or int, default=None
        The label column: its name, or its position, 1 for the first and -1 for the last.  None: no
        label, except that an NPZ file brings its y.
    sep : str, default=None
        The separator of a text file; None: found from its first lines.
    na : sequence of str, default=()
        Texts that stand for missing values, besides the usual ones such as "NA".
    header : bool, default=None
        Whether the first line names the columns; None: found from the first lines.
    encoding : str, default=None
        The encoding of a text file; None: UTF-8, or UTF-16 if the file begins with its mark.
    safe : bool, default=True
        Whether the apostrophe that `write_table` puts before some texts is left out again.

    Returns
    -------
    table : Table
    """
    name = "standard input" if str(source) == "-" else str(source)
    content = _content(source)
    if not content:
        raise NoRows(f"{name} is empty.")
    suffix = Path(source).suffix.lower()
    if suffix == ".npz" or content[:4] == b"PK\x03\x04":
        return _from_npz(content, name, label)
    if suffix in PARQUET or content[:4] == b"PAR1":
        return with_label(_from_parquet(content, name), label, name)
    try:
        frame, lines = read_csv(
            content, name, sep=sep, na=na, header=header, encoding=encoding, safe=safe
        )
    except csv.Error as error:
        raise ValueError(f"{name} cannot be read as a table: {error}.") from error
    return with_label(frame, label, name, lines)


def _content(source: str | Path) -> bytes:
    if str(source) == "-":
        return sys.stdin.buffer.read()
    return Path(source).read_bytes()


def _from_parquet(content: bytes, name: str) -> pd.DataFrame:
    try:
        frame = pd.read_parquet(io.BytesIO(content))
    except ImportError:
        raise ImportError(
            "Parquet files need the package pyarrow: pip install 'vicinal[cli]'."
        ) from None
    except _BROKEN as error:
        raise ValueError(f"{name} cannot be read as Parquet: {error}") from error
    frame = without_index(frame)
    if not len(frame):
        raise NoRows(f"{name} has no rows.")
    return frame


def without_index(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with row numbers: an index with a name is a column that pandas has put aside."""
    return frame.reset_index(drop=all(name is None for name in frame.index.names))


def _from_npz(content: bytes, name: str, label: str | int | None) -> Table:
    try:
        with zipfile.ZipFile(io.BytesIO(content)):  # np.load takes any other file for a pickle
            pass
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            found = {key: file[key] for key in file.files}  # bytes, if they are no array
    except _BROKEN as error:
        raise ValueError(
            f"{name} is broken, or it is no NPZ file of plain arrays: {str(error).rstrip('.')}. "
            "Copy or write it again."
        ) from error
    arrays = {key: array for key, array in found.items() if isinstance(array, np.ndarray)}
    X = arrays.get("X")
    if X is None or X.ndim != 2 or not len(X):
        listed = ", ".join(f"{key} {array.shape}" for key, array in arrays.items()) or "none"
        raise ValueError(f"{name} must have an array X with rows and columns. It has {listed}.")
    names = arrays.get("feature_names", np.array([f"x{j}" for j in range(X.shape[1])]))
    if names.shape != (X.shape[1],):
        raise ValueError(
            f"{name}: feature_names must have shape ({X.shape[1]},). It has {names.shape}."
        )
    frame = pd.DataFrame(X, columns=[str(column) for column in names])
    key = "y" if label is None and "y" in arrays else label
    target = arrays.get(str(key))
    if key is None or target is None:
        return with_label(frame, label, name)
    if target.shape != (len(X),):
        raise ValueError(f"{name}: {key} must have shape ({len(X)},). It has {target.shape}.")
    codes = arrays.get("class_names", np.array([]))
    if len(codes) and target.dtype.kind in "iu" and 0 <= target.min() <= target.max() < len(codes):
        target = codes[target].astype(object)
    return Table(frame, target, str(key), name, at=X.shape[1])


def with_label(
    frame: pd.DataFrame, label: str | int | None, name: str, lines: Lines | None = None
) -> Table:
    """The table of a data frame, with one of its columns as the label."""
    frame.columns = [str(column) for column in frame.columns]
    if label is None:
        return Table(frame, None, None, name, lines)
    target = _find(frame.columns.tolist(), label, name)
    rest = frame.drop(columns=target)
    if not rest.shape[1]:
        raise ValueError(
            f"{name} has one column only, {target!r}. Use --sep if something else separates them."
        )
    values = frame[target]
    if values.dtype.kind not in "biuf" or not isinstance(values.dtype, np.dtype):
        values = values.astype(object)
    at = frame.columns.tolist().index(target)
    return Table(rest, values.to_numpy(), target, name, lines, at=at)


def _find(columns: list[str], label: str | int, name: str) -> str:
    """The name of the label column."""
    text, n = str(label), len(columns)
    if label in columns:
        return text
    if text.lstrip("-").isdigit() and 1 <= abs(int(text)) <= n:
        return columns[int(text) - (int(text) > 0)]
    listed = ", ".join(columns[:12]) + (f" and {n - 12} more" if n > 12 else "")
    one = " Use --sep if something else separates the columns." if n == 1 else ""
    raise ValueError(
        f"--label: {name} has no column {text!r}.{near(text, columns)} It has {n} columns: "
        f"{listed}; a number is a position, from 1 to {n}, or -1 for the last.{one}"
    )


def write_table(target: str | Path, frame: pd.DataFrame, *, safe: bool = True) -> None:
    """Write a data frame as CSV, TSV, Parquet or NPZ, by the name of the file, in one step.

    NPZ gets the columns of numbers as the array X, with feature_names, and an array for each other
    column.  "-" is standard output, as CSV.

    If ``safe``, texts that a spreadsheet would run get an apostrophe in CSV and TSV files.
    """
    suffix = Path(target).suffix.lower()
    if str(target) == "-":
        # Line by line: a reader that goes away is not noticed within one write.
        sys.stdout.writelines(io.StringIO(csv_text(frame, ",", safe)))
    elif suffix == ".npz":
        replace_file(Path(target), lambda file: _write_npz(file, frame))
    elif suffix in PARQUET:
        replace_file(Path(target), lambda file: frame.to_parquet(file, index=False))
    else:
        text = csv_text(frame, "\t" if suffix in (".tsv", ".tab") else ",", safe).encode()
        replace_file(Path(target), lambda file: file.writelines([text]))


def _write_npz(file: Any, frame: pd.DataFrame) -> None:
    numbers, texts = frame.select_dtypes("number"), frame.select_dtypes(exclude="number")
    others = {str(name): texts[name].astype(str).to_numpy(str) for name in texts.columns}
    for name in ("X", "feature_names", "file", "allow_pickle"):
        if name in others:
            raise ValueError(f"NPZ cannot hold a column named {name!r}. Write CSV or Parquet.")
    arrays = {"X": numbers.to_numpy(), "feature_names": np.array(numbers.columns, dtype=str)}
    np.savez(file, **arrays, **others)
