"""Differences of two scores on the same rows: set by set, and over the sets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from reproduce.framework.experiment import Done
from reproduce.framework.index import LONGEST
from reproduce.framework.statistics import TESTED, Summary

__all__ = [
    "clear", "decides", "figure", "fitting", "gain", "over_sets", "present", "scores", "subsample",
    "told", "told_over_sets",
]  # fmt: skip

#: a difference below this many corrected standard errors is none that we can tell
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


def gain(
    done: list[Done], one: str, other: str, tested: float = TESTED, **where: Any
) -> Summary | None:
    """By how much one score exceeds the other, paired over the splits that have both."""
    first, second = scores(done, one, **where), scores(done, other, **where)
    common = sorted(first.keys() & second.keys())
    gaps = [first[split] - second[split] for split in common]
    return Summary(gaps, tested) if gaps else None


def over_sets(
    done: list[Done],
    one: str,
    other: str,
    names: Sequence[str],
    tested: float = TESTED,
    **where: Any,
) -> Summary | None:
    """The same on average over the sets, whose splits are independent of each other."""
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
    return Summary(means, tested) if means else None


def told(found: Summary | None, n_splits: int) -> str:
    """A difference in words: ahead, behind, or not clear."""
    if found is None:
        return "not computed"
    if n_splits < 2:
        return f"{found.mean:+.1f} points (one split)"
    if abs(found.mean) < ERRORS * found.error or abs(found.mean) < 5e-3:
        return f"no clear difference ({found:+.2f} points)"
    word = "ahead" if found.mean > 0 else "behind"
    return f"{word} by {abs(found.mean):.2f} ± {found.error:.2f} points"


def told_over_sets(
    done: list[Done], one: str, other: str, names: Sequence[str], **where: Any
) -> str:
    """The difference over the sets in words, and what the mean hides.

    That is one set on which the words rest, sets that cancel each other out, or, of two sets, both.
    """
    found = over_sets(done, one, other, names, **where)
    words = told(found, _n_splits(done))
    if apart := _apart(done, one, other, names, **where):
        both = len(apart) == len(_known(done, one, other, names, **where))
        sets = ", ".join(f"{name} {gap:+.2f}" for name, gap in apart.items())
        return f"{words}: {sets}" if both else f"{words}; signs cancel: {sets}"
    if rests := decides(done, one, other, names, **where):
        name, rest = rests
        return f"{words}; without the set {name} {told(rest, _n_splits(done))}"
    return words


def figure(
    done: list[Done],
    one: str,
    other: str,
    names: Sequence[str],
    unit: str = " points",
    **where: Any,
) -> str:
    """The same in the few letters that a cell of the index has; empty if there is nothing."""
    found = over_sets(done, one, other, names, **where)
    if found is None:
        return ""
    rest = ""
    if apart := _apart(done, one, other, names, **where):
        rest = f"; {', '.join(f'{name} {gap:+.1f}' for name, gap in apart.items())}"
    elif rests := decides(done, one, other, names, **where):
        rest = f"; without the set {rests[0]} {rests[1]:+.1f}"
    plain = f"{found:+.1f}{unit}"
    return fitting(f"{plain}{rest}", plain)


def fitting(*texts: str) -> str:
    """The first of some texts that a cell of the index has room for; else the last."""
    return next((text for text in texts if len(text) <= LONGEST["figure"]), texts[-1])


def _n_splits(done: list[Done]) -> int:
    return len({each.job["split"] for each in done})


def clear(found: Summary) -> bool:
    """Whether a difference is more than two standard errors."""
    return found.error > 0.0 and abs(found.mean) >= max(ERRORS * found.error, 5e-3)


def _sign(found: Summary) -> int:
    """1 or -1 where a difference is clear."""
    return int(np.sign(found.mean)) if clear(found) else 0


def _known(
    done: list[Done], one: str, other: str, names: Sequence[str], **where: Any
) -> dict[str, Summary]:
    """The differences on the sets that have both scores."""
    found = {name: gain(done, one, other, data=name, **where) for name in names}
    return {name: gap for name, gap in found.items() if gap is not None}


def _apart(
    done: list[Done], one: str, other: str, names: Sequence[str], **where: Any
) -> dict[str, Summary]:
    """Sets whose differences the mean hides: of two sets both, of more those that cancel out."""
    gaps = _known(done, one, other, names, **where)
    whole = over_sets(done, one, other, names, **where)
    if whole is None or len(gaps) < 2:
        return {}
    if len(gaps) == 2:
        return gaps
    if _sign(whole):
        return {}
    best, worst = max(gaps, key=lambda n: gaps[n].mean), min(gaps, key=lambda n: gaps[n].mean)
    if not (_sign(gaps[best]) > 0 > _sign(gaps[worst])):
        return {}
    return {name: gaps[name] for name in (best, worst)}


def decides(
    done: list[Done], one: str, other: str, names: Sequence[str], **where: Any
) -> tuple[str, Summary] | None:
    """The set without which the difference would be told in other words, and what it is then."""
    known = list(_known(done, one, other, names, **where))
    whole = over_sets(done, one, other, known, **where)
    if whole is None or len(known) < 3 or _n_splits(done) < 2:
        return None
    without = {
        name: over_sets(done, one, other, [each for each in known if each != name], **where)
        for name in known
    }
    changed = {name: rest for name, rest in without.items() if rest and _sign(rest) != _sign(whole)}
    if not changed:
        return None
    name = max(changed, key=lambda each: abs(changed[each].mean - whole.mean))
    return name, changed[name]


def subsample(n: int, most: int) -> Any:
    """At most this many of n rows, the same in every split."""
    return np.sort(np.random.RandomState(0).permutation(n)[:most])
