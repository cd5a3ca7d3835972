"""Recompute a few jobs of every page on the present code, and name the pages that do not hold.

A job whose numbers are committed must give the same numbers again.  Where only the printed tables
are left, the tables of the recomputed jobs are compared with them cell by cell: one split may
differ from a mean over many by up to four standard deviations of a split.
"""

from __future__ import annotations

import math
import multiprocessing
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from reproduce.framework.experiment import Done, Experiment, Job
from reproduce.framework.numbers import Numbers, cells, read, table
from reproduce.framework.runner import RESULTS, set_threads, timed

__all__ = ["HOLDS", "LOST", "OPEN", "Finding", "check", "compare_rows", "compare_tables", "main"]

HOLDS, LOST, OPEN = "holds", "no longer holds", "not checkable"

#: jobs drawn for a page; where only tables are left, the jobs of one split of one set
_DRAWN, _OF_A_SPLIT = 3, 8
#: sets whose jobs take seconds; and those of which no job ends in a minute
_SMALL = ("iris", "wine", "balance", "glass", "ionosphere", "ecoli", "transfusion", "rings")
_LARGE = ("mnist",)
#: numbers that depend on the machine, texts, and lists of single rows, whose number is compared
_SKIPPED = re.compile(r"second|cpu|cores|memory|mib|search|plan|steps|wrong rows", re.I)
#: two results agree within half a point of a score in [0, 1], or within a share of a larger number
_ABSOLUTE, _RELATIVE = 0.005, 0.02
#: standard deviations of a split by which it may differ from the mean, and the least one in points
_DEVIATIONS, _LEAST = 4.0, 0.5
_MEAN = re.compile(r"^\**([+−-]?[\d.]+) ± ([\d.]+)\**")
_SINGLE = re.compile(r"^\**([+−-]?[\d.]+)(?: ± 0\.?0*)?\**(?: \(.*\))?$")
#: rows and columns over several sets, of which one is recomputed
_OVER_SETS = re.compile(r"\b(mean|all sets)\b")


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
    return 1 if lost else 0


def check(experiment: Experiment, folder: Path, seed: int, seconds: float) -> Finding:
    """Recompute jobs drawn by the seed for at most so many seconds, and compare."""
    numbers = read(folder / "data" / f"{experiment.name}.csv")
    commits = ", ".join(numbers.commits)

    def found(checked: str, outcome: str, details: list[str] | None = None) -> Finding:
        return Finding(experiment.name, commits, checked, outcome, details or [])

    jobs = _draw(experiment, numbers, seed, seconds)
    if not jobs:
        return found("", f"{OPEN}: no job is short enough")
    done = list(_recompute(experiment, jobs, seconds))
    if not done:
        return found("", f"{OPEN}: no job ended within {seconds:g} s")
    if numbers.done:
        differences = compare_rows(numbers.done, done)
        return found(f"jobs: {len(done)}", LOST if differences else HOLDS, differences)
    try:
        parts = experiment.parts(done)
    except (IndexError, KeyError, TypeError, ValueError, ZeroDivisionError):
        return found("", f"{OPEN}: printed table only, which takes all jobs")
    count, differences = compare_tables(numbers.printed, parts, _splits(experiment))
    if not count:
        return found("", f"{OPEN}: printed table only")
    return found(f"cells: {count}", LOST if differences else HOLDS, differences)


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


def compare_tables(printed: dict[str, str], parts: dict[str, Any], n: int) -> tuple[int, list[str]]:
    """How many printed means have a recomputed value beside them, and which are too far from it."""
    count, found = 0, []
    for name, text in printed.items():
        old, new = _tables(text), _tables(str(parts.get(name, "")))
        for before, now in zip(old, new, strict=False):
            for where, mean, single in _pairs(before, now):
                count += 1
                deviation = max(_number(mean[2]) * math.sqrt(n), _LEAST)
                if abs(_number(single[1]) - _number(mean[1])) > _DEVIATIONS * deviation:
                    found.append(f"{name}, {where}: {single[0]}, printed {mean[0]}")
    return count, found


def _pairs(before: list[list[str]], now: list[list[str]]) -> Iterator[tuple[str, Any, Any]]:
    """Printed means and the recomputed values of the same row and column."""
    columns = _columns(before[0], now[0])
    for row in now[1:]:
        match = _matching(row, [[each[at] for at in columns] for each in before[1:]])
        for title, cell, other in zip(now[0], row, match or (), strict=False):
            mean, single, where = _MEAN.match(other), _SINGLE.match(cell), f"{row[0]}, {title}"
            if mean and single and not _OVER_SETS.search(where):
                yield where, mean, single


def _columns(before: list[str], now: list[str]) -> list[int]:
    """Where the columns of the new table stand in the printed one; none if that is not clear."""
    if len(before) == len(now):
        return list(range(len(now)))
    return [before.index(title) for title in now] if set(now) <= set(before) else []


def _draw(experiment: Experiment, numbers: Numbers, seed: int, seconds: float) -> list[Job]:
    """A few jobs at random: those known to be short, or those of small sets."""
    draw = random.Random(f"{seed} {experiment.name}")
    if numbers.done:
        short = [each.job for each in numbers.done if each.seconds <= 0.5 * seconds]
        return draw.sample(short, min(_DRAWN, len(short)))
    jobs = [job for job in experiment.jobs(None) if job.get("data") not in _LARGE]
    jobs = [job for job in jobs if job.get("data") in _SMALL] or jobs
    if not jobs:
        return []
    first = draw.choice(jobs)
    same = [job for job in jobs if all(job.get(k) == first.get(k) for k in ("data", "split"))]
    return draw.sample(same, min(_OF_A_SPLIT, len(same)))


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


def _splits(experiment: Experiment) -> int:
    """Over how many values a printed mean may go: splits, or sets."""
    jobs = list(experiment.jobs(None))
    return max(len({str(job.get(key)) for job in jobs}) for key in ("split", "data", "seed"))


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
        return both_nan or abs(old - new) <= (_RELATIVE * abs(old) if abs(old) > 1 else _ABSOLUTE)
    return bool(old == new)


def _tables(text: str) -> list[list[list[str]]]:
    """The cells of all markdown tables, headers first."""
    found = []
    for block in re.findall(r"(?:^\|.*\|$\n?)+", text, re.M):
        head, _, *rows = block.strip().split("\n")
        found.append([cells(head), *map(cells, rows)])
    return found


def _matching(row: list[str], candidates: list[list[str]]) -> list[str] | None:
    """The row that begins as this one does, if there is only one of them."""

    def common(other: list[str]) -> int:
        pairs = enumerate(zip(row, other, strict=False))
        return next((at for at, (one, two) in pairs if one != two), len(row))

    known = [(common(each), each) for each in candidates if each]
    longest = max((length for length, _ in known), default=0)
    best = [each for length, each in known if length == longest]
    return best[0] if longest and len(best) == 1 else None


def _number(text: str) -> float:
    return float(text.replace("−", "-"))
