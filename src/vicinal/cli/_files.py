"""The files of a command line: a command never writes over what it reads, nor over other work."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

import click

from vicinal._atomic import file_behind
from vicinal.cli._exit import Failure

_START = 2**16  # bytes from which the kind of a file is told
_TEXT_TABLES = (".csv", ".tsv", ".tab")


@dataclass(frozen=True)
class _Kind:
    """What commands write.

    Parameters
    ----------
    words : str
        What it is, for messages.
    suffixes : tuple of str
        How its files are called; the first is the usual one.
    holds : callable
        ``holds(path)`` says whether a file is of this kind.
    """

    words: str
    suffixes: tuple[str, ...]
    holds: Callable[[Path], bool]


def _is_model(path: Path) -> bool:
    return _state_in(path) is False


def _is_checkpoint(path: Path) -> bool:
    return _state_in(path) is True


def _state_in(path: Path) -> bool | None:
    """Whether a model file holds the state of a fit; None if it is no model file."""
    from vicinal.fit.resume import is_checkpoint
    from vicinal.storage import FileError

    try:
        return is_checkpoint(path)
    except FileError:
        return None


def _is_page(path: Path) -> bool:
    start = _start(path).lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    return start.startswith((b"<!doctype html", b"<html"))


def _is_picture(path: Path) -> bool:
    start = _start(path)
    if path.suffix.lower() == ".svg":
        return b"<svg" in start
    return start.startswith(b"\x89PNG" if path.suffix.lower() == ".png" else b"%PDF")


def _is_table(path: Path) -> bool:
    from vicinal.cli._csv import is_csv

    start, suffix = _start(path), path.suffix.lower()
    if suffix == ".npz":
        return start.startswith(b"PK\x03\x04")
    if suffix in (".parquet", ".pq"):
        return start.startswith(b"PAR1")
    return is_csv(start, named=any(each.lower() in _TEXT_TABLES for each in path.suffixes))


def _start(path: Path) -> bytes:
    with open(path, "rb") as file:
        return file.read(_START)


_KINDS = {
    "model": _Kind("the model of a finished fit", (".vic",), _is_model),
    "checkpoint": _Kind("a checkpoint", (".checkpoint", ".vic"), _is_checkpoint),
    "page": _Kind("an HTML page", (".html", ".htm"), _is_page),
    "picture": _Kind("a picture of this kind", (".png", ".svg", ".pdf"), _is_picture),
    "table": _Kind("a table of this kind", (*_TEXT_TABLES, ".parquet", ".pq", ".npz"), _is_table),
}


class File(click.Path):
    """A file that a command reads or writes.

    Parameters
    ----------
    writes : str, default=None
        What the command writes to it, a name in `_KINDS`; None: the command reads it.
    continues : str, default=None
        The parameter that may name the same file: the command reads it, and writes a later state.
    path_type : type, default=Path
    """

    def __init__(
        self, writes: str | None = None, *, continues: str | None = None, path_type: Any = Path
    ) -> None:
        super().__init__(readable=False, path_type=path_type)
        self.kind = None if writes is None else _KINDS[writes]
        self.continues = continues

    def path(self, value: Any) -> Path | None:
        """The file that a value names, if any."""
        return Path(value)

    def is_stream(self, value: Any) -> bool:
        """Whether a value stands for standard input or output."""
        return str(value) == "-" and self.kind in (None, _KINDS["table"])


@dataclass(frozen=True)
class _Place:
    """A file of a command line.

    Parameters
    ----------
    words : str
        How the command line names it: "-o t.csv".
    option : str
        What comes before the path: "-o".
    path : Path
    status : os.stat_result or None
        None if there is no such file.
    parameter : str or None
    continues : str or None
        As in `File`.
    """

    words: str
    option: str
    path: Path
    status: os.stat_result | None
    parameter: str | None = None
    continues: str | None = None


def check(context: click.Context) -> None:
    """Refuse files that a command would destroy or cannot write, before it computes anything.

    These are an output that is also an input or another output, however the paths are spelt, a
    place that cannot be written, and, without --force, a file of another kind than the output.
    """
    reads, writes = _places(context)
    for place, kind in writes:
        _check_place(place, kind)
    outputs = [*writes, *((place, _KINDS["table"]) for place in _stream("standard output", ">", 1))]
    places = [place for place, _ in outputs]
    for at, (place, kind) in enumerate(outputs):
        _check_overlap(place, kind, [*reads, *places[:at]], places)
    if not context.obj.force:
        for place, kind in writes:
            _check_kind(place, kind, reads, places)


def _places(context: click.Context) -> tuple[list[_Place], list[tuple[_Place, _Kind]]]:
    """The files that a command reads, and those that it writes, with their kinds."""
    reads: list[_Place] = []
    writes: list[tuple[_Place, _Kind]] = []
    for parameter in context.command.params:
        file, value = parameter.type, context.params.get(str(parameter.name))
        if not isinstance(file, File) or value is None:
            continue
        if file.is_stream(value):
            if file.kind is None:
                reads += _stream("standard input", "<", 0)
            continue
        path = file.path(value)
        if path is None:
            continue
        an_option = isinstance(parameter, click.Option)
        name = parameter.opts[0] if an_option else parameter.human_readable_name
        words = f"{name} {shlex.quote(str(path))}"
        place = _Place(words, name, path, _status(path), parameter.name, file.continues)
        if file.kind is not None:
            writes.append((place, file.kind))
        elif place.status is not None:
            reads.append(place)
    return reads, writes


def _status(path: Path) -> os.stat_result | None:
    try:
        return os.stat(path)
    except (OSError, ValueError):
        return None


def _stream(words: str, option: str, number: int) -> list[_Place]:
    """The file that a standard stream was redirected to; none for terminals and pipes."""
    try:
        status = os.fstat(number)
    except OSError:  # it is closed
        return []
    return [_Place(words, option, Path("-"), status)] if stat.S_ISREG(status.st_mode) else []


def _check_place(place: _Place, kind: _Kind) -> None:
    """Refuse a place that cannot be written."""
    path, status, words = place.path, place.status, place.words
    remedy = f"Name a file, such as {place.option} result{kind.suffixes[0]}."
    if str(path) == "-":
        raise Failure(f"{words}: only tables go to standard output. {remedy}")
    if path.is_dir():
        raise Failure(f"{words}: this is a folder. {remedy}")
    if kind is _KINDS["picture"] and path.suffix.lower() not in kind.suffixes:
        raise Failure(f"{words}: a picture is a .png, .svg or .pdf file.")
    try:
        folder = file_behind(path).parent
    except OSError as error:  # a circle of links
        raise Failure(f"{words}: {error.strerror}.") from None
    if not folder.is_dir():
        if kind is _KINDS["checkpoint"]:  # its folder is made
            return
        raise Failure(f"{words}: the folder {folder} does not exist.")
    if _is_device(path) or (status is not None and not stat.S_ISREG(status.st_mode)):
        if kind is _KINDS["table"]:
            remedy = "Use -o - for standard output, or name a file."
        raise Failure(f"{words}: this is a device or a stream, which cannot be replaced. {remedy}")
    written = [folder] if status is None else [folder, path]
    if not all(os.access(each, os.W_OK) for each in written):
        raise Failure(f"{words}: it may not be written.")


def _is_device(path: Path) -> bool:
    """Whether a path names a stream, as the link /dev/stdout does, whatever that leads to."""
    folder = os.path.realpath(path.parent)
    return folder in ("/dev", "/dev/fd") or folder.startswith("/proc/")


def _check_overlap(
    place: _Place, kind: _Kind, others: Sequence[_Place], taken: Sequence[_Place]
) -> None:
    """Refuse an output that is also an input, or another output."""
    for other in others:
        if _same(place, other) and not _goes_on(place, other):
            of = place if place.parameter is not None else other
            raise Failure(
                f"{place.words}: this is the same file as {other.words}. Name another file, such "
                f"as {place.option} {_free_name(of.path, kind, taken)}."
            )


def _goes_on(place: _Place, other: _Place) -> bool:
    return place.continues is not None and place.continues == other.parameter


def _same(a: _Place, b: _Place) -> bool:
    """Whether two places are one file, through links and whatever the spelling."""
    if a.status is not None and b.status is not None:
        return os.path.samestat(a.status, b.status)
    if a.status is not b.status:
        return False
    first, second = (Path(os.path.realpath(place.path)) for place in (a, b))
    if first.name.casefold() != second.name.casefold():  # many file systems ignore the case
        return False
    a_folder, b_folder = _status(first.parent), _status(second.parent)
    if a_folder is None or b_folder is None:
        return first.parent == second.parent
    return os.path.samestat(a_folder, b_folder)


def _check_kind(
    place: _Place, kind: _Kind, reads: Sequence[_Place], taken: Sequence[_Place]
) -> None:
    """Refuse to replace a file of another kind."""
    if place.status is None or not place.status.st_size:
        return
    if any(_same(place, other) and _goes_on(place, other) for other in reads):
        return
    try:
        alike = kind.holds(place.path)
    except OSError:  # it may not be read
        alike = False
    if not alike:
        raise Failure(
            f"{place.words}: this file exists, it is not {kind.words}, and it would be lost. Name "
            f"another file, such as {place.option} {_free_name(place.path, kind, taken)}, or use "
            "--force to replace it."
        )


def _free_name(path: Path, kind: _Kind, taken: Sequence[_Place]) -> str:
    """A file in the same folder that does not exist, with a suffix of the kind."""
    suffix = path.suffix if path.suffix.lower() in kind.suffixes else kind.suffixes[0]
    used = {str(place.path).casefold() for place in taken}
    for end in chain([""], (f"-{n}" for n in count(2))):
        found = path.with_name(f"{path.stem}{end}{suffix}")
        if not found.exists() and str(found).casefold() not in used:
            break
    return shlex.quote(str(found))
