"""The numbers behind a page: one CSV file, with a line for each job.

A line holds the commit of the code, seconds, the processor, the job's parameters and its numbers.
Older files name no processor.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from reproduce.framework.experiment import Done, Experiment

__all__ = ["Numbers", "cells", "read", "table", "write_rows"]

_FIXED = ["kind", "commit", "seconds", "processor"]


class Numbers(NamedTuple):
    """What a CSV file holds: the commits of its code, finished jobs, and their processors."""

    commits: list[str]
    done: list[Done]

    @property
    def processors(self) -> list[str]:
        """Each processor once; an empty name where a line has none."""
        return list(dict.fromkeys(each.processor for each in self.done))


def read(path: Path) -> Numbers:
    """The content of a CSV file; empty where there is none."""
    if not path.exists():
        return Numbers([], [])
    with path.open(encoding="utf-8", newline="") as file:
        header, *lines = csv.reader(file)
    commits = list(dict.fromkeys(line[1] for line in lines))
    named = _FIXED[-1] in header
    if not named:
        header.insert(3, _FIXED[-1])
    n_job = header.index("|") - len(_FIXED)
    done = []
    for _, commit, seconds, *rest in lines:
        processor, *values = rest if named else ["", *rest]
        pairs = list(zip(header[len(_FIXED) :], values, strict=True))
        job, result = _decoded(pairs[:n_job]), _decoded(pairs[n_job + 1 :])
        done.append(Done(job, result, float(seconds), commit, processor))
    return Numbers(commits, done)


def write_rows(path: Path, experiment: Experiment, done: list[Done]) -> None:
    """A line for each job: its parameters left of the column ``|``, its numbers right of it."""
    results = [_without(each.result, experiment.drawn) for each in done]
    of_job = dict.fromkeys(key for each in done for key in each.job)
    of_result = dict.fromkeys(key for result in results for key in result)
    lines = []
    for each, result in zip(done, results, strict=True):
        line = ["row", each.commit, f"{each.seconds:.3g}", each.processor]
        line += [_encode(each.job, key) for key in of_job]
        lines.append([*line, "|", *(_encode(result, key) for key in of_result)])
    _write(path, [*_FIXED, *of_job, "|", *of_result], lines)


def cells(row: str) -> list[str]:
    """The cells of a line of a markdown table."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]


def table(header: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """A markdown table."""
    header = list(header)
    lines = [f"| {' | '.join(header)} |", f"|{'|'.join(['---'] * len(header))}|"]
    lines += [
        f"| {' | '.join('' if cell is None else str(cell) for cell in row)} |" for row in rows
    ]
    return "\n".join(lines)


def _write(path: Path, header: list[str], lines: list[list[str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *lines])


def _without(value: Any, keys: tuple[str, ...]) -> Any:
    """The same without some keys of its dicts."""
    if not isinstance(value, dict):
        return value
    return {key: _without(each, keys) for key, each in value.items() if key not in keys}


def _decoded(pairs: list[tuple[str, str]]) -> dict[str, Any]:
    return {key: _decode(text) for key, text in pairs if text}


def _encode(values: dict[str, Any], key: str) -> str:
    """Strings as they are unless they read as something else; others as JSON, 8 digits a number."""
    if key not in values:
        return ""
    value = values[key]
    if isinstance(value, str) and _decode(value) == value != "":
        return value
    return json.dumps(_rounded(value), ensure_ascii=False, separators=(",", ":"))


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.8g}")
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list | tuple) else value


def _decode(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
