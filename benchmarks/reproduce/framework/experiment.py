"""What an experiment is: jobs that can run anywhere in any order, and a page made of their rows."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Claim", "Done", "Experiment", "Job"]

#: the parameters of one call of an experiment's ``work``: JSON values, so that they can be stored
Job = dict[str, Any]


class Done(NamedTuple):
    """A finished job: parameters, numbers, seconds, the commit of the code, and the processor.

    Numbers that were kept before files named their processor have an empty one.
    """

    job: Job
    result: dict[str, Any]
    seconds: float
    commit: str = ""
    processor: str = ""


class Claim(NamedTuple):
    """A line of the index.

    ``says`` is what the paper claims, or what we ask, in a line; ``outcome`` is "seen", "partly",
    "not seen", or "answer" for a question of our own; ``figure`` is ours, with its error.
    """

    says: str
    outcome: str
    figure: str


@dataclass(frozen=True)
class Experiment:
    """A table or figure.

    Parameters
    ----------
    name : str
        As on the command line; also the name of the page and of its CSV file.
    title : str
        One line: which table or figure of which paper.
    jobs : callable
        ``jobs(splits)`` lists all jobs; ``splits`` is None for the protocol's own number.
    work : callable
        ``work(**job)`` returns a dict of JSON values.  It must be a function of a module, since it
        runs in another process.
    parts : callable
        ``parts(done)`` returns what the rows say: a dict of tables and sentences, which fill the
        places of the same names in the page's template.
    draw : callable, optional
        ``draw(done, folder)`` writes the pictures.
    template : str, optional
        Name of the template in the folder ``pages`` next to the module; default: ``name``.
    drawn : tuple of str, default=()
        Keys of the results, at any depth, that only the pictures need: the CSV file has none.
    threads : int or None, default=1
        Threads of one job; None: all cores, and one job at a time.
    claims : callable, optional
        ``claims(done)`` returns the lines of the index, each a `Claim`.
    """

    name: str
    title: str
    jobs: Callable[[int | None], Iterable[Job]]
    work: Callable[..., dict[str, Any]]
    parts: Callable[[list[Done]], dict[str, Any]]
    draw: Callable[[list[Done], Path], Any] | None = None
    template: str | None = None
    drawn: tuple[str, ...] = ()
    threads: int | None = 1
    claims: Callable[[list[Done]], Iterable[Claim]] | None = None

    @property
    def paper(self) -> str:
        """The folder of the experiment's module."""
        return Path(inspect.getfile(self.work)).parent.name

    @property
    def page(self) -> Path:
        """The template of the page."""
        folder = Path(inspect.getfile(self.work)).parent / "pages"
        return folder / f"{self.template or self.name}.md"
