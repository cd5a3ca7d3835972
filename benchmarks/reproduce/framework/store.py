"""Finished jobs on this machine: one line of JSON each, with all that the pictures need.

A change of the library's code or of the module that does the work (comments and docstrings aside)
makes old lines invalid.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from pathlib import Path

from reproduce.framework import protocol
from reproduce.framework.code import ROOT, bare
from reproduce.framework.experiment import Done, Experiment, Job

__all__ = ["Store", "code_of"]


class Store:
    """Finished jobs, one a line; the last line of a job counts."""

    def __init__(self, path: Path, code: str, reuse: bool) -> None:
        self.path, self.code = path, code
        self.lines: dict[str, Done] = {}
        if not path.exists():
            return
        text = path.read_text("utf-8")
        if text and not text.endswith("\n"):  # cut short: the next line must not join this one
            with path.open("a", encoding="utf-8") as file:
                file.write("\n")
        for line in text.splitlines():
            try:
                entry = json.loads(line)
            except json.JSONDecodeError:  # cut short by a kill
                continue
            if reuse or entry["code"] == code:
                del entry["code"]
                self.lines[_key(entry["job"])] = Done(**entry)

    def get(self, job: Job) -> Done | None:
        return self.lines.get(_key(job))

    def add(self, done: Done) -> None:
        self.lines[_key(done.job)] = done
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"code": self.code, **done._asdict()}) + "\n")


def _key(job: Job) -> str:
    return json.dumps(job, sort_keys=True)


def code_of(experiment: Experiment) -> str:
    """A digest of all that decides about a result: the library, and the module of the work."""
    sources = sorted((ROOT / "src" / "vicinal").rglob("*.py"))
    sources += [Path(inspect.getfile(experiment.work)), Path(protocol.__file__)]
    digest = hashlib.sha256()
    for path in sources:
        digest.update(bare(path.read_text("utf-8")).encode())
    return digest.hexdigest()[:12]
