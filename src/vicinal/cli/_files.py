"""The files of a command line: a command never writes over what it reads, nor over other work."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple

import click

from vicinal._atomic import file_behind
from vicinal.cli._console import Failure
from vicinal.learner.errors import near

_START = 2**16  # bytes from which the kind of a file is told
_TEXT_TABLES = (".csv", ".tsv", ".tab")
#: the suffixes of tables
TABLES = (*_TEXT_TABLES, ".parquet", ".pq", ".npz")


class _Kind(NamedTuple):
    """What commands write: in words, by its suffixes, the usual one first, and by its content."""

    words: str
    suffixes: tuple[str, ...]
    holds: Callable[[Path], bool]


def _holds_state(path: Path) -> bool | None:
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
    start, suffix = _start(path), path.suffix.lower()
    if suffix == ".svg":
        return b"<svg" in start
    return start.startswith(b"\x89PNG" if suffix == ".png" else b"%PDF")


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
    "model": _Kind(
        "the model of a finished fit", (".vic",), lambda path: _holds_state(path) is False
    ),
    "checkpoint": _Kind(
        "a checkpoint", (".checkpoint", ".vic"), lambda path: _holds_state(path) is True
    ),
    "page": _Kind("an HTML page", (".html", ".htm"), _is_page),
    "picture": _Kind("a picture of this kind", (".png", ".svg", ".pdf"), _is_picture),
    "table": _Kind("a table of this kind", TABLES, _is_table),
}
_TABLE = _KINDS["table"]

#: what is said of a file that is to be read and does not exist
_ABSENT = {
    "table": "There is no file {path}.{near}",
    "model": "{path}: there is no such model file.{near} `vicinal fit` writes one.",
    "checkpoint": "{path}: there is no such checkpoint.{near}",
}


class File(click.Path):
    """A file that a command reads or writes.

    Parameters
    ----------
    writes : str, default=None
        What the command writes to it, a name in `_KINDS`; None: the command reads it.
    reads : str, default="table"
        What the command reads from it, a name in `_ABSENT`.
    continues : str, default=None
        The parameter that may name the same file: the command reads it, and writes a later state.
    folders : bool, default=False
        Whether it may be a folder of tables; what the command writes is a folder then, too.
    path_type : type, default=Path
    """

    def __init__(
        self, writes: str | None = None, *, reads: str = "table", continues: str | None = None,
        folders: bool = False, path_type: Any = Path,
    ) -> None:  # fmt: skip
        super().__init__(readable=False, path_type=path_type)
        self.name = "file"
        self.kind = None if writes is None else _KINDS[writes]
        self.reads, self.continues, self.folders = reads, continues, folders

    def path(self, value: Any) -> Path | None:
        """The file that a value names, if any."""
        return Path(value)

    def is_stream(self, value: Any) -> bool:
        """Whether a value stands for standard input or output."""
        return str(value) == "-" and self.kind in (None, _TABLE)

    def check_readable(self, path: Path) -> None:
        """Refuse a path that cannot be read as what the command needs."""
        if path.is_dir():
            if self.folders:
                return
            raise Failure(f"{path} is a folder. Name a file.")
        if self.reads == "table" and path.suffix == ".vic":
            raise Failure(
                f"{path}: this is a model file. Name a table here, such as a .csv file; plot, "
                f"report and embed take the model as --model {shlex.quote(str(path))}."
            )
        if not path.exists():
            others = [each.name for each in path.parent.iterdir()] if path.parent.is_dir() else []
            raise Failure(_ABSENT[self.reads].format(path=path, near=near(path.name, others)))


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
    kind : _Kind or None
        What is written to it; None: it is read.
    parameter, continues : str or None
        The name of the parameter, and of the one that may name the same file, as in `File`.
    """

    words: str
    option: str
    path: Path
    status: os.stat_result | None
    kind: Any = None  # a _Kind, or None
    parameter: str | None = None
    continues: str | None = None

    def goes_on(self, other: _Place) -> bool:
        """Whether this is a later state of what is read from the same file."""
        return bool(self.continues) and self.continues == other.parameter and self.same(other)

    def same(self, other: _Place) -> bool:
        """Whether two places are one file, through links and whatever the spelling."""
        if self.status is not None and other.status is not None:
            return os.path.samestat(self.status, other.status)
        if self.status is not other.status:
            return False
        first, second = (Path(os.path.realpath(place.path)) for place in (self, other))
        if first.name.casefold() != second.name.casefold():  # many file systems ignore the case
            return False
        folders = [_status(first.parent), _status(second.parent)]
        if None in folders:
            return first.parent == second.parent
        return os.path.samestat(*folders)  # type: ignore[arg-type]


def same_file(first: str, second: str) -> bool:
    """Whether two paths that can be read are one file."""
    return "-" not in (first, second) and os.path.samefile(first, second)


def check(context: click.Context, *, all_exist: bool = True) -> None:
    """Refuse files that a command cannot read or write or would destroy, before it imports much.

    These are an input that does not exist, unless ``all_exist`` is False; an output that is also an
    input or another output, however the paths are spelt; a place that cannot be written; and,
    without --force, a file of another kind than the output.
    """
    places = _places(context, all_exist)
    reads = [place for place in places if place.kind is None]
    writes = [place for place in places if place.kind is not None]
    for folder in (place for place in reads if place.path.is_dir()):
        _check_folder(context, folder, next((place for place in writes), None))
        return
    for place in writes:
        _check_writable(place, place.kind)
    outputs = [*writes, *_stream("standard output", ">", 1, _TABLE)]
    for at, place in enumerate(outputs):
        for other in [*reads, *outputs[:at]]:
            if place.same(other) and not place.goes_on(other):
                of = place if place.parameter is not None else other
                raise Failure(
                    f"{place.words}: this is the same file as {other.words}. Name another file, "
                    f"such as {place.option} {_free_name(of.path, place.kind, outputs)}."
                )
    if not context.obj.force:
        for place in writes:
            if not any(map(place.goes_on, reads)):
                _check_replaceable(place, place.kind, outputs)


def _places(context: click.Context, all_exist: bool) -> list[_Place]:
    """The files that a command reads and writes."""
    found: list[_Place] = []
    for parameter in context.command.params:
        file, value = parameter.type, context.params.get(str(parameter.name))
        if not isinstance(file, File) or value is None:
            continue
        if file.is_stream(value):
            found += _stream("standard input", "<", 0) if file.kind is None else []
            continue
        path = file.path(value)
        if path is not None and file.kind is None and all_exist:
            file.check_readable(path)
        if path is None or (file.kind is None and _status(path) is None):
            continue
        an_option = isinstance(parameter, click.Option)
        name = parameter.opts[0] if an_option else parameter.human_readable_name
        words = f"{name} {shlex.quote(str(path))}"
        found.append(
            _Place(words, name, path, _status(path), file.kind, parameter.name, file.continues)
        )
    return found


def _status(path: Path) -> os.stat_result | None:
    try:
        return os.stat(path)
    except (OSError, ValueError):
        return None


def _stream(words: str, option: str, number: int, kind: _Kind | None = None) -> list[_Place]:
    """The file that a standard stream was redirected to; none for terminals and pipes."""
    try:
        status = os.fstat(number)
    except OSError:  # it is closed
        return []
    is_file = stat.S_ISREG(status.st_mode)
    return [_Place(words, option, Path("-"), status, kind)] if is_file else []


def _check_folder(context: click.Context, read: _Place, write: _Place | None) -> None:
    """Refuse a place where the results for a folder of tables cannot be written."""
    if write is None:
        free = shlex.quote(f"{read.path.absolute().name}-result")
        raise Failure(f"{read.words} is a folder. Name one for the results: -o {free}.")
    path = Path(os.path.realpath(write.path))
    inside = Path(os.path.realpath(read.path))
    if path == inside or path in inside.parents or inside in path.parents:
        raise Failure(f"{write.words}: it must be apart from the folder {read.path}.")
    if write.status is None:
        if not path.parent.is_dir():
            raise Failure(f"{write.words}: the folder {path.parent} does not exist.")
    elif not path.is_dir():
        raise Failure(f"{write.words}: this is a file. {read.words} is a folder: name a folder.")
    elif any(path.iterdir()) and not context.obj.force:
        raise Failure(
            f"{write.words}: this folder is not empty. Name another one, or use --force to replace "
            "files in it that have the names of tables of DATA."
        )


def _check_writable(place: _Place, kind: _Kind) -> None:
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
        if kind is _TABLE:
            remedy = "Use -o - for standard output, or name a file."
        raise Failure(f"{words}: this is a device or a stream, which cannot be replaced. {remedy}")
    written = [folder] if status is None else [folder, path]
    if not all(os.access(each, os.W_OK) for each in written):
        raise Failure(f"{words}: it may not be written.")


def _is_device(path: Path) -> bool:
    """Whether a path names a stream, as the link /dev/stdout does, whatever that leads to."""
    folder = os.path.realpath(path.parent)
    return folder in ("/dev", "/dev/fd") or folder.startswith("/proc/")


def _check_replaceable(place: _Place, kind: _Kind, outputs: Sequence[_Place]) -> None:
    """Refuse to replace a file of another kind."""
    if place.status is None or not place.status.st_size:
        return
    try:
        alike = kind.holds(place.path)
    except OSError:  # it may not be read
        alike = False
    if not alike:
        raise Failure(
            f"{place.words}: this file exists, it is not {kind.words}, and it would be lost. Name "
            f"another file, such as {place.option} {_free_name(place.path, kind, outputs)}, or use "
            "--force to replace it."
        )


def _free_name(path: Path, kind: _Kind, outputs: Sequence[_Place]) -> str:
    """A file in the same folder that does not exist, with a suffix of the kind."""
    suffix = path.suffix if path.suffix.lower() in kind.suffixes else kind.suffixes[0]
    used = {str(place.path).casefold() for place in outputs}
    names = (
        path.with_name(f"{path.stem}{end}{suffix}")
        for end in chain([""], map("-{}".format, count(2)))
    )
    free = (name for name in names if not name.exists() and str(name).casefold() not in used)
    return shlex.quote(str(next(free)))
