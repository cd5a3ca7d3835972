"""Folders of tables: read, predicted and written part by part, here or on a cluster.

A file is a part of its own, and a Parquet file is read and written in blocks of rows, so that
memory does not grow with the number of rows.  A worker of a cluster reads and writes the files
itself: only the model goes to it, and only numbers come back.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from vicinal._atomic import replace_file
from vicinal.cli import _neighbours, _work
from vicinal.cli._console import Console, Failure
from vicinal.cli._csv import NoRows
from vicinal.cli._files import TABLES
from vicinal.cli._tables import PARQUET, Table, with_label, without_index, write_table
from vicinal.cli._work import Tally
from vicinal.estimators._classifier import settle

_CELLS = 2**20  # of a block of a Parquet file: 8 MiB of float64
_BUFFER = 2**20  # bytes that are read of a column at a time
_PATIENCE = 10  # seconds until a scheduler answers
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


class Part(NamedTuple):
    """A file to read, the file to write, and the columns that the names of its folders hold."""

    source: Path
    target: Path
    values: dict[str, Any]


@dataclass(frozen=True)
class Job:
    """What is done with each part.

    Parameters
    ----------
    method : str
        "transform" or "predict".
    keep : list of str or None
        Columns to put next to the result; None: all.
    proba : bool
        Whether predictions come with probabilities.
    options : dict
        The options of the command about tables.
    """

    method: str
    keep: list[str] | None
    proba: bool
    options: dict[str, Any]

    def of(self, model: Any, table: Table) -> tuple[Any, int, Done]:
        """The result for some rows, how many of its columns are new, and the facts about it."""
        if self.method == "transform":
            with _work.spoken_columns(table):
                Z = model.transform(_work.known_columns(model, table))
            return _work.places(model, Z, table, self.keep or []), Z.shape[1], Done(len(Z))
        frame, tally = _work.predicted(model, table, self.proba, self.keep)
        n_new = 1 + len(model.classes_) if self.proba else 1
        if tally is None:
            return frame, n_new, Done(len(frame))
        with _work.spoken_columns(table):
            seen = _neighbours.share_learnt(model, table) * len(frame)
        return frame, n_new, Done(len(frame), seen, tally)


class Done(NamedTuple):
    """The facts about a part: rows, those that were learnt from, the score, and notes."""

    n_rows: int
    seen: float = 0.0
    tally: Tally | None = None
    notes: tuple[str, ...] = ()

    def plus(self, other: Done) -> Done:
        """The facts about both."""
        tally = self.tally or other.tally
        if self.tally and other.tally:
            tally = self.tally.plus(other.tally)
        return Done(self.n_rows + other.n_rows, self.seen + other.seen, tally)


def run(
    console: Console, model: Any, data: str, output: str, job: Job, scheduler: str | None
) -> tuple[Done, int]:
    """Write a folder with the result for each table of a folder; the facts, and how many files."""
    settle(model)
    parts, total, written = _parts_of(Path(data), Path(output)), Done(0), 0
    if scheduler is None:
        every: Iterator[Done] = (_write(model, part, job) for part in parts)
    else:
        every = _on_cluster(scheduler, model, parts, job)
    with console.status() as show:
        for number, done in enumerate(every, 1):
            total, written = total.plus(done), written + (done.n_rows > 0)
            for note in done.notes:
                console.note(note)
            show(f"{number} of {len(parts)} files, {total.n_rows:,} rows")
    if not written:
        raise Failure(f"{data}: its {len(parts)} tables have no rows.")
    return total, written


def _parts_of(folder: Path, output: Path) -> list[Part]:
    """The tables of a folder and of the folders in it, in the order of their names."""
    parts, others = [], []
    for where, folders, files in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        for name in sorted(files):
            inner = Path(where, name).relative_to(folder)
            if name.startswith((".", "_")):  # what writers of parts leave next to them
                continue
            if not set(map(str.lower, inner.suffixes)) & set(TABLES):
                others.append(str(inner))
                continue
            target = inner.with_suffix("") if inner.suffix == ".gz" else inner
            source = Path(where, name).absolute()
            parts.append(Part(source, (output / target).absolute(), _values(inner)))
    if not parts:
        raise Failure(f"{folder} has no tables: no files named {', '.join(TABLES)}.")
    if others:
        left = _work.listed(others, 3)
        warnings.warn(f"{folder}: left out, since they are no tables: {left}.", stacklevel=2)
    return parts


def _values(inner: Path) -> dict[str, Any]:
    """The columns that folders such as ``year=2026`` stand for."""
    pairs = (name.partition("=") for name in inner.parts[:-1] if "=" in name)
    return {unquote(name): _value(unquote(text)) for name, _, text in pairs}


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None if text == _NO_VALUE else text


def _write(model: Any, part: Part, job: Job) -> Done:
    """Write the result for one file; nothing for a file without rows."""
    part.target.parent.mkdir(parents=True, exist_ok=True)
    try:
        if part.source.suffix.lower() in PARQUET:
            return _write_parquet(model, part, job)
        frame, _, done = job.of(model, _read(part, job.options))
    except NoRows as error:
        return Done(0, notes=(f"{str(error).rstrip('.')}: it is left out.",))
    frame = frame.drop(columns=list(part.values), errors="ignore")
    write_table(part.target, frame, safe=job.options["safe_cells"])
    return done


def _read(part: Part, options: dict[str, Any]) -> Table:
    """A whole file, with the columns of its folders."""
    label = options.get("label")
    apart = label in part.values
    table = _work.read(str(part.source), {**options, "label": None} if apart else options)
    new = {name: each for name, each in part.values.items() if name not in table.whole.columns}
    table = replace(table, X=table.X.assign(**new))
    return with_label(table.X, label, table.name, table.lines) if apart else table


def _write_parquet(model: Any, part: Part, job: Job) -> Done:
    """The result for a Parquet file, block by block; columns that are kept keep their types."""
    total = Done(0)

    def write(target: Any) -> None:
        nonlocal total
        with ExitStack() as stack:
            writer = None
            for block in _blocks(part.source):
                table = _table(block, total.n_rows, part, job.options)
                frame, n_new, done = job.of(model, table)
                new = list(frame.columns[len(frame.columns) - n_new :])
                frame = frame.drop(columns=list(part.values), errors="ignore")
                if writer is None:
                    schema = _schema(frame, block.schema, new)
                    writer = stack.enter_context(pq.ParquetWriter(target, schema))
                writer.write_table(pa.Table.from_pandas(frame, writer.schema, preserve_index=False))
                total = total.plus(done)
            if writer is None:
                raise NoRows(f"{part.source} has no rows.")

    replace_file(part.target, write)
    return total


def _blocks(source: Path) -> Iterator[pa.RecordBatch]:
    """The rows of a Parquet file, some at a time."""
    try:
        with pq.ParquetFile(source, buffer_size=_BUFFER, pre_buffer=False) as file:
            n = max(1, _CELLS // max(1, len(file.schema_arrow)))
            yield from (block for block in file.iter_batches(n) if len(block))
    except (ValueError, OSError) as error:
        raise ValueError(f"{source} cannot be read as Parquet: {error}") from error


def _table(block: pa.RecordBatch, first: int, part: Part, options: dict[str, Any]) -> Table:
    frame = without_index(block.to_pandas())
    new = {name: value for name, value in part.values.items() if name not in frame.columns}
    table = with_label(frame.assign(**new), options.get("label"), str(part.source))
    return replace(table, rows=np.arange(first, first + len(frame)))


def _schema(frame: Any, known: pa.Schema, new: list[str]) -> pa.Schema:
    """The types of a result: those of the file for columns that were kept."""
    schema = pa.Schema.from_pandas(frame, preserve_index=False).remove_metadata()
    fields = [
        known.field(field.name) if field.name in known.names and field.name not in new else field
        for field in schema
    ]
    return pa.schema(fields)


def _on_cluster(address: str, model: Any, parts: list[Part], job: Job) -> Iterator[Done]:
    """As `_write` for each part, by the workers of a cluster, in the order of the parts."""
    try:
        from distributed import Client

        from vicinal.dask._cluster import Cluster, ClusterLostError
    except ImportError as error:
        raise Failure("--scheduler needs dask: pip install 'vicinal[dask]'.") from error
    try:
        client = Client(address, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise Failure(f"--scheduler {address}: no scheduler answers there: {error}.") from error
    lost = (
        "Files that were written are whole. Run the command again with --force and another "
        "--scheduler, or without one."
    )
    with client, Cluster(client, "", lost) as cluster:
        try:
            held = cluster.put(model)
            for future in [cluster.submit(_write_there, held, part, job) for part in parts]:
                yield cluster.gather([future])[0]
        except ClusterLostError as error:
            raise Failure(str(error)) from error
        except OSError as error:
            raise Failure(
                f"{error}. The workers of --scheduler {address} must see the folders under the "
                "same paths."
            ) from error


def _write_there(model: Any, part: Part, job: Job) -> Done:
    """On a worker, whose warnings the user does not see."""
    with warnings.catch_warnings(record=True) as caught:
        done = _write(model, part, job)
    return done._replace(notes=(*done.notes, *(str(each.message) for each in caught)))
