"""Which targets on mnist, usps and magic are reached, and which are missed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from reproduce.framework.experiment import Claim, Done
from reproduce.framework.machine import machine_words
from reproduce.framework.pages import bullets, table
from reproduce.framework.statistics import Summary

#: for pixels, which share a unit: one scale for all, and a start that does not favour rare ones
PIXELS: dict[str, Any] = {"scaling": "global", "init": "pca", "alpha": 1e-3}

#: way: parameters of NCA
WAYS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "stochastic": {"sampling": "stochastic"},
    "pixels": PIXELS,
    "pixels, exact": {**PIXELS, "sampling": "full", "max_iter": 30},
    "pixels, alpha = 0.0001": {**PIXELS, "alpha": 1e-4},
    "pixels, chosen alpha": {**PIXELS, "alpha": "auto"},
}

#: test accuracy to be reached
TARGETS = {("mnist", 5): 91.5, ("mnist", 10): 95.7, ("mnist", 32): 96.9, ("usps", 5): 92.7,
           ("magic", 5): 84.5}  # fmt: skip
#: seconds of a fit to mnist at d = 5, on two cores
TIMES = {"pixels, exact": 60.0, "stochastic": 20.0}

ROWS = (
    ("mnist", 5, "defaults"),
    ("mnist", 10, "defaults"),
    ("mnist", 32, "defaults"),
    ("mnist", 5, "pixels"),
    ("mnist", 10, "pixels"),
    ("mnist", 32, "pixels"),
    ("mnist", 5, "stochastic"),
    ("mnist", 5, "pixels, exact"),
    ("usps", 5, "defaults"),
    ("magic", 5, "defaults"),
)

#: what is compared on held-out training rows of mnist, at d = 5, and by how many rows
HELD_OUT = (
    "defaults", "pixels", "pixels, alpha = 0.0001", "pixels, chosen alpha"
)  # fmt: skip
JUDGED = 5_000

K = 15


class Score(NamedTuple):
    """Accuracy in per cent, its standard error, and the number of splits.

    Of one split the error is that of a share of this many rows.
    """

    mean: float
    error: float
    splits: int

    def __str__(self) -> str:
        return f"{self.mean:.2f} ± {self.error:.2f}"

    def verdict(self, target: float) -> str:
        """Whether a target is reached; and whether that could be chance."""
        gap = self.mean - target
        word = "reached" if gap >= 0 else f"missed by {-gap:.2f}"
        return word if abs(gap) > 2 * self.error else f"{word}, within 2 errors"


def score(done: list[Done], key: str, **where: Any) -> Score | None:
    """Of the jobs that match; None without any."""
    found = [each.result for each in done if where.items() <= each.job.items()]
    if not found:
        return None
    values = [result[key] for result in found]
    if len(values) > 1:
        several = Summary(values)
        return Score(several.mean, several.error, len(values))
    p, n = values[0], found[0]["rows judged"]
    return Score(100 * p, 100 * float(np.sqrt(p * (1 - p) / n)), 1)


def _mean(done: list[Done], key: str, **where: Any) -> float:
    found = [each.result[key] for each in done if where.items() <= each.job.items()]
    return float(np.mean(found)) if found else float("nan")


def parts(done: list[Done]) -> dict[str, Any]:
    """Finding, table, times, what was compared on held-out rows, plans."""
    test = [each for each in done if each.job["kind"] == "test"]
    return {
        "finding": _finding(test),
        "main": _main(test),
        "times": _times(test),
        "splits": max((_n_splits(test, name) for name in ("usps", "magic")), default=0),
        "k": K,
        "machine": machine_words(done),
        "plans": _plans(test),
        "choice": _choice([each for each in done if each.job["kind"] == "held out"]),
        "judged": f"{JUDGED:,}",
    }


def _n_splits(test: list[Done], name: str) -> int:
    return len({each.job["split"] for each in test if each.job["data"] == name})


def _run(test: list[Done]) -> list[tuple[str, int, str]]:
    """The rows of the table that have been run."""
    there = {(each.job["data"], each.job["d"], each.job["way"]) for each in test}
    return [row for row in ROWS if row in there]


def _main(test: list[Done]) -> str:
    rows = []
    for data, d, way in _run(test):
        where = {"data": data, "d": d, "way": way}
        rule, votes = (score(test, key, **where) for key in ("rule", "k-NN"))
        assert rule is not None
        rows.append(
            [data, d, way, f"{TARGETS[data, d]:g}", rule, rule.verdict(TARGETS[data, d]), votes,
             f"{_mean(test, 'alpha', **where):.2g}",
             *(f"{_mean(test, key, **where):.1f}" for key in ("seconds", "core seconds")),
             f"{_mean(test, 'iterations', **where):.0f}"]
        )  # fmt: skip
    heads = ["data", "d", "way", "target", "NCA rule", "verdict", f"{K}-NN", "alpha",
             "seconds", "core seconds", "iterations"]  # fmt: skip
    return table(heads, rows)


def _times(test: list[Done]) -> str:
    """The targets of time, by the clock."""
    lines = []
    for way, target in TIMES.items():
        where = {"data": "mnist", "d": 5, "way": way}
        seconds, core = (_mean(test, key, **where) for key in ("seconds", "core seconds"))
        if np.isfinite(seconds):
            word = "reached" if seconds < target else "**missed**"
            lines.append(
                f"{way} (one run): {seconds:.0f} s by the clock ({core:.0f} core seconds), "
                f"target {target:.0f} s: {word}. {_cut(way)}{_beside_target(test, way)}."
            )
    return bullets(*lines)


def _cut(way: str) -> str:
    """Whether the fits of a way are stopped early."""
    most = WAYS[way].get("max_iter")
    return f"The fit is cut off at {most} iterations. " if most else ""


def _beside_target(test: list[Done], way: str) -> str:
    """The accuracy of a fit that is timed, against its target."""
    target, found = TARGETS["mnist", 5], score(test, "rule", data="mnist", d=5, way=way)
    assert found is not None
    return f"Its accuracy is {found} %, target {target:g} %: {found.verdict(target)}"


def _plans(test: list[Done]) -> str:
    lines = []
    for data, d, way in _run(test):
        where = {"data": data, "d": d, "way": way}
        plan = next(e.result["plan"] for e in test if where.items() <= e.job.items())
        lines.append(f"{data}, d = {d}, {way}: {plan}")
    return bullets(*lines)


def _choice(held: list[Done]) -> str:
    rows = []
    for way in HELD_OUT:
        rule = score(held, "rule", way=way)
        if rule is not None:
            rows.append([way, rule, score(held, "k-NN", way=way), rule.splits,
                         f"{_mean(held, 'alpha', way=way):.2g}",
                         f"{_mean(held, 'core seconds', way=way):.0f}"])  # fmt: skip
    return table(["way", "NCA rule", f"{K}-NN", "splits", "alpha", "core seconds"], rows)


def _finding(test: list[Done]) -> str:
    """How many targets are reached by the rule, and which are missed."""
    rows, missed = _run(test), []
    for data, d, way in rows:
        found, target = score(test, "rule", data=data, d=d, way=way), TARGETS[data, d]
        assert found is not None
        if found.mean < target:
            missed.append(f"{data} at d = {d} ({way}: {found} %, target {target:g} %)")
    return (
        f"**Targets reached by the NCA rule: {len(rows) - len(missed)} of {len(rows)}.** Missed: "
        f"{', '.join(missed) or 'none'}. The table has the others. On mnist each figure is one "
        "run on the official split."
    )


def _near(found: Score, target: float) -> bool:
    """Whether a score is less than two standard errors from its target."""
    return abs(found.mean - target) < 2 * found.error


def claims(done: list[Done]) -> Iterator[Claim]:
    """The answers of the index: accuracies by target, then the times."""
    test = [each for each in done if each.job["kind"] == "test"]
    for (data, d), target in TARGETS.items():
        told, near = [], []
        for way in ("defaults", "pixels"):
            found = score(test, "rule", data=data, d=d, way=way)
            if found is not None:
                word = "reached" if found.mean >= target else "missed"
                told.append(f"{way} {found.mean:.1f} ± {found.error:.1f}: {word}")
                near.append(_near(found, target))
        both = len(told) > 1 and all(near)  # once, or the line would be too long
        told = [
            f"{each} (< 2 SE)" if by and not both else each
            for each, by in zip(told, near, strict=True)
        ]
        if told:
            run = " (one run)" if data == "mnist" else ""
            says = f"Target of {target:g} % on the test rows of {data} at d = {d}{run}"
            yield Claim(says, "answer", "; ".join(told) + "; both < 2 SE" * both)
    for way, target in TIMES.items():
        seconds = _mean(test, "seconds", data="mnist", d=5, way=way)
        if np.isfinite(seconds):
            word = "reached" if seconds < target else "missed"
            most = WAYS[way].get("max_iter")
            cut = f", cut off at {most} iterations" if most else ""
            says = f"Target of {target:.0f} s for a fit to mnist at d = 5 ({way}{cut}), two cores"
            found, wanted = score(test, "rule", data="mnist", d=5, way=way), TARGETS["mnist", 5]
            rule = "" if found is None else f"; {found.mean:.1f} ± {found.error:.1f} %"
            if found is not None:
                rule += f", target {wanted:g} {'reached' if found.mean >= wanted else 'missed'}"
                rule += ", < 2 SE" * _near(found, wanted)
            yield Claim(says, "answer", f"{seconds:.0f} s: {word}{rule} (one run)")
