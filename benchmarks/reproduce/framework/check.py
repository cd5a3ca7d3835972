"""Recompute a few jobs of every page on the present code, and name the pages that do not hold.

A job must give the numbers that are committed, if they are of this processor or name none.
"""

from __future__ import annotations

import multiprocessing
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from _common import processor_name

from reproduce.framework.experiment import Done, Experiment, Job
from reproduce.framework.numbers import read, table
from reproduce.framework.runner import RESULTS, set_threads, timed

__all__ = ["HOLDS", "LOST", "OPEN", "Finding", "check", "compare_rows", "main"]

HOLDS, LOST, OPEN = "holds", "no longer holds", "not checkable"
#: said where a page is lost
ROUNDING = (
    "If the page names no processor and this is another one, rounding differs, and a long fit may "
    "end elsewhere: compute the page again and compare its means."
)

#: jobs drawn for a page
_DRAWN = 3
#: numbers that depend on the machine, texts, and lists of single rows, whose number is compared;
#: whole words, since "scores" are no "cores"
_SKIPPED = re.compile(
    r"\b(?:seconds|cpu|cores|memory|mib)\b|(?:^|, )(?:search|plan|steps|wrong rows)(?:,|$)", re.I
)
#: two results agree within half a point of a score, or within a share of a number that is larger
#: than one or so small that half a point says nothing
_ABSOLUTE, _RELATIVE, _SMALL = 0.005, 0.02, 0.05


class Finding(NamedTuple):
    """What the check of a page found."""

    page: str
    commits: str
    checked: str
    outcome: str
    details: list[str]


def main(experiments: list[Experiment], options: Any) -> int:
    """Check all these pages and print a table; 1 if a page no longer holds."""
    findings = []
    for each in experiments:
        findings.append(check(each, options.output or RESULTS, options.seed, options.seconds))
        print(" | ".join(findings[-1][:4]), flush=True)
    lost = [each for each in findings if each.outcome == LOST]
    print("\n" + table(["page", "commit", "checked", "outcome"], (each[:4] for each in findings)))
    for each in lost:
        print(f"\n{each.page} no longer holds:\n  " + "\n  ".join(each.details))
    if lost:
        print(f"\n{ROUNDING}")
    return 1 if lost else 0


def check(experiment: Experiment, folder: Path, seed: int, seconds: float) -> Finding:
    """Recompute jobs drawn by the seed for at most this many seconds, and compare."""
    numbers = read(folder / "data" / f"{experiment.name}.csv")
    commits = ", ".join(numbers.commits)

    def found(checked: str, outcome: str, details: list[str] | None = None) -> Finding:
        return Finding(experiment.name, commits, checked, outcome, details or [])

    others = set(numbers.processors) - {"", processor_name()}
    if others:  # it rounds otherwise: only means could be compared
        return found("", f"{OPEN}: computed on {' and '.join(sorted(others))}")
    jobs = _draw(experiment, numbers.done, seed, seconds)
    if not jobs:
        return found("", f"{OPEN}: no job is short enough")
    try:
        done = list(_recompute(experiment, jobs, seconds))
    except RuntimeError as error:
        return found("", LOST, [str(error)])
    if not done:
        return found("", f"{OPEN}: no job ended within {seconds:g} s")
    differences = compare_rows(numbers.done, done)
    return found(f"jobs: {len(done)}", LOST if differences else HOLDS, differences)


def compare_rows(committed: list[Done], done: list[Done]) -> list[str]:
    """The numbers of recomputed jobs that differ from the committed ones."""
    found = []
    for each in done:
        (before,) = [old.result for old in committed if old.job == each.job]
        now = dict(_flat(each.result))
        for key, value in _flat(before):
            if not _SKIPPED.search(key) and not _same(value, now.get(key)):
                found.append(f"{each.job}: {key} is {now.get(key)}, was {value}")
    return found


def _draw(experiment: Experiment, done: list[Done], seed: int, seconds: float) -> list[Job]:
    """A few of the short jobs at random."""
    short = [each.job for each in done if each.seconds <= 0.5 * seconds]
    return random.Random(f"{seed} {experiment.name}").sample(short, min(_DRAWN, len(short)))


def _recompute(experiment: Experiment, jobs: list[Job], seconds: float) -> Iterator[Done]:
    """The jobs that end in time, each in a process of its own."""
    until = time.monotonic() + seconds
    set_threads(experiment)
    context = multiprocessing.get_context("spawn")
    for job in jobs:
        receiver, sender = context.Pipe(duplex=False)
        child = context.Process(target=_work, args=(sender, experiment.work, job))
        child.start()
        sender.close()
        try:
            if receiver.poll(max(0.0, until - time.monotonic())):
                yield Done(job, *receiver.recv())
        except EOFError as error:
            raise RuntimeError(f"{experiment.name} fails on {job}") from error
        finally:
            child.kill()
            child.join()


def _work(sender: Any, work: Any, job: Job) -> None:
    sender.send(timed(work, job))


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, each in pairs:
            yield from _flat(each, f"{name}, {key}" if name else str(key))
    else:
        yield name, value


def _same(old: Any, new: Any) -> bool:
    if isinstance(old, int | float) and isinstance(new, int | float):
        both_nan = old != old and new != new
        is_score = _SMALL <= abs(old) <= 1.0
        return both_nan or abs(old - new) <= (_ABSOLUTE if is_score else _RELATIVE * abs(old))
    return bool(old == new)
