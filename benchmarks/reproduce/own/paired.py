"""Differences of two scores on the same rows: set by set, and over the sets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from reproduce.framework.experiment import Done
from reproduce.framework.statistics import Summary

__all__ = [
    "figure", "gain", "over_sets", "present", "scores", "subsample", "told", "told_over_sets",
]  # fmt: skip

#: a difference below so many standard errors is none that we can tell
ERRORS = 2.0


def present(names: Iterable[str], done: list[Done]) -> list[str]:
    """Those of the sets that have a finished job."""
    known = {each.job["data"] for each in done}
    return [name for name in names if name in known]


def scores(done: list[Done], key: str, **where: Any) -> dict[int, float]:
    """One number of the matching jobs, by split."""
    return {
        each.job["split"]: each.result[key]
        for each in done
        if key in each.result and where.items() <= each.job.items()
    }


def gain(done: list[Done], one: str, other: str, **where: Any) -> Summary | None:
    """By how much one score exceeds the other, paired over the splits that have both."""
    first, second = scores(done, one, **where), scores(done, other, **where)
    common = sorted(first.keys() & second.keys())
    return Summary([first[split] - second[split] for split in common]) if common else None


def over_sets(
    done: list[Done], one: str, other: str, names: Sequence[str], **where: Any
) -> Summary | None:
    """The same on the mean over the sets, whose splits are independent of each other."""
    by_set = []
    for name in names:
        first = scores(done, one, data=name, **where)
        second = scores(done, other, data=name, **where)
        if gaps := {split: first[split] - second[split] for split in first.keys() & second.keys()}:
            by_set.append(gaps)
    if not by_set:
        return None
    common = sorted(set.intersection(*(set(gaps) for gaps in by_set)))
    means = [float(np.mean([gaps[split] for gaps in by_set])) for split in common]
    return Summary(means) if means else None


def told(found: Summary | None, n_splits: int) -> str:
    """A difference in words: ahead, behind, or level within the error."""
    if found is None:
        return "not computed"
    if n_splits < 2:
        return f"{found.mean:+.1f} points (one split)"
    if abs(found.mean) < ERRORS * found.error or abs(found.mean) < 5e-3:
        return f"level within the error ({found:+.2f} points)"
    word = "ahead" if found.mean > 0 else "behind"
    return f"{word} by {abs(found.mean):.2f} ± {found.error:.2f} points"


def told_over_sets(
    done: list[Done], one: str, other: str, names: Sequence[str], **where: Any
) -> str:
    """The difference over the sets in words, and without the one set on which the words rest."""
    found = over_sets(done, one, other, names, **where)
    words = told(found, _n_splits(done))
    decides = _decides(done, one, other, names, **where)
    if decides is None:
        return words
    name, rest = decides
    return f"{words}; without {name} {told(rest, _n_splits(done))}"


def figure(done: list[Done], one: str, other: str, names: Sequence[str], **where: Any) -> str:
    """The same in the few letters that a cell of the index has; empty if there is nothing."""
    found = over_sets(done, one, other, names, **where)
    if found is None:
        return ""
    decides = _decides(done, one, other, names, **where)
    rest = "" if decides is None else f"; without {decides[0]} {decides[1]:+.1f}"
    return f"{found:+.1f} points{rest}"


def _n_splits(done: list[Done]) -> int:
    return len({each.job["split"] for each in done})


def _sign(found: Summary) -> int:
    """1 or -1 where a difference is clear."""
    clear = found.error > 0.0 and abs(found.mean) >= max(ERRORS * found.error, 5e-3)
    return int(np.sign(found.mean)) if clear else 0


def _decides(
    done: list[Done], one: str, other: str, names: Sequence[str], **where: Any
) -> tuple[str, Summary] | None:
    """The set without which the difference would be told in other words, and what it is then."""
    whole = over_sets(done, one, other, names, **where)
    if whole is None or len(names) < 3 or _n_splits(done) < 2:
        return None
    without = {
        name: over_sets(done, one, other, [each for each in names if each != name], **where)
        for name in names
    }
    changed = {name: rest for name, rest in without.items() if rest and _sign(rest) != _sign(whole)}
    if not changed:
        return None
    name = max(changed, key=lambda each: abs(changed[each].mean - whole.mean))
    return name, changed[name]


def subsample(n: int, most: int) -> Any:
    """At most so many of n rows, the same in every split."""
    return np.sort(np.random.RandomState(0).permutation(n)[:most])
