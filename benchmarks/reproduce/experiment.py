"""What an experiment is: jobs that can run anywhere in any order, and a report on their results."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Done", "Experiment", "Job"]

#: what one call of an experiment's ``work`` is told: JSON values only, so that it can be stored
Job = dict[str, Any]


class Done(NamedTuple):
    """A finished job: what it was told, what it found, and how long it took."""

    job: Job
    result: dict[str, Any]
    seconds: float


@dataclass(frozen=True)
class Experiment:
    """A table or figure.

    Parameters
    ----------
    name : str
        As on the command line, and of the files it writes.
    title : str
        One line: which table or figure of which paper.
    jobs : callable
        ``jobs(splits)`` lists all jobs; ``splits`` is None for the protocol's own number.
    work : callable
        ``work(**job)`` gives a dict of JSON values.  A function of a module, since it runs in
        another process.
    report : callable
        ``report(done, folder)`` gives the markdown beneath the title; pictures go into ``folder``.
    threads : int or None, default=1
        Threads of one job; None: all cores, and one job at a time.
    """

    name: str
    title: str
    jobs: Callable[[int | None], Iterable[Job]]
    work: Callable[..., dict[str, Any]]
    report: Callable[[list[Done], Path], str]
    threads: int | None = 1
