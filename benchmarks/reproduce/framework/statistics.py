"""Means with standard errors, paired differences, and verdicts against published figures."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np

__all__ = [
    "Published", "Summary", "correction", "distance", "lead", "summary", "verdict", "with_minus",
]  # fmt: skip

#: the sign of a number, not the hyphen of a word or of a range
_SIGN = re.compile(r"(?<![\w.])[-−](?=\d)")
_NO_SIGN = re.compile(r"(?<![\w.])[-−](?=0(\.0+)?(?![.\d]))")


class Summary:
    """Mean and standard error of some scores, in per cent."""

    def __init__(self, scores: Any) -> None:
        scores = 100.0 * np.asarray(scores, dtype=float)
        self.mean = float(scores.mean())
        self.error = float(scores.std(ddof=1) / np.sqrt(len(scores))) if len(scores) > 1 else 0.0

    def corrected(self, n_splits: int, test_share: float = 0.3) -> Summary:
        """The same mean, with an error that allows for the rows that its splits share."""
        copy = object.__new__(Summary)
        copy.mean, copy.error = self.mean, self.error * correction(n_splits, test_share)
        return copy

    def __str__(self) -> str:
        # what would be printed as 0.00 is the rounding of scores that are all the same
        return f"{self:.2f}" if self.error > 5e-3 else f"{self.mean:.2f}"

    def __format__(self, spec: str) -> str:
        """Mean ± error with the digits of the mean; always with the error where a spec is given."""
        if not spec:
            return str(self)
        sign, digits = ("+", spec[1:]) if spec.startswith("+") else ("", spec)
        return f"{self.mean:{sign}z{digits}} ± {self.error:{digits}}"  # z: zero has no minus sign


def correction(n_splits: int, test_share: float = 0.3) -> float:
    """By what the error over splits grows if the rows that they share are allowed for.

    Nadeau and Bengio (2003); ``test_share`` of the rows of a split are tested on.
    """
    return (1 + n_splits * test_share / (1 - test_share)) ** 0.5


def summary(done: list[Any], key: str, **where: Any) -> Summary | None:
    """Of one score over the jobs that match; None where there is none."""
    scores = [
        each.result[key]
        for each in done
        if all(each.job.get(name) == value for name, value in where.items())
    ]
    return Summary(scores) if scores else None


class Published(NamedTuple):
    """A figure of a paper, in per cent, and its standard error (0 where none is given)."""

    mean: float
    error: float = 0.0

    def __str__(self) -> str:
        return (
            f"{_decimal(self.mean)} ± {_decimal(self.error)}" if self.error else _decimal(self.mean)
        )


def _decimal(value: float) -> str:
    """With one decimal at least, and with more where there are more."""
    shown = f"{value:g}"
    return shown if "." in shown or "e" in shown else f"{value:.1f}"


def distance(ours: Summary, paper: Published) -> float:
    """Standard errors of the difference by which we are above the paper; nan without any."""
    error = (ours.error**2 + paper.error**2) ** 0.5
    return (ours.mean - paper.mean) / error if error else float("nan")


def verdict(ours: Summary | None, paper: Published) -> str:
    """The distance in words: bold below -3, points where there is no error, empty without ours."""
    if ours is None:
        return ""
    z = distance(ours, paper)
    if z != z:
        return f"{ours.mean - paper.mean:+.1f} points"
    if round(z, 1) == 0.0:
        return "0.0 SE"
    return f"**{z:+.1f} SE**" if z < -3.0 else f"{z:+.1f} SE"


def lead(first: Any, second: Any) -> tuple[float, float]:
    """By how much the first is ahead on average over common splits, and in standard errors.

    The errors are 0 for one split, of which nothing can be said.
    """
    gap = np.asarray(first, dtype=float) - np.asarray(second, dtype=float)
    points = float(gap.mean())
    if len(gap) < 2 or points == 0.0:
        return points, 0.0
    error = float(gap.std(ddof=1) / np.sqrt(len(gap)))
    return points, points / error if error else float(np.copysign(np.inf, points))


def with_minus(text: str) -> str:
    """The same text with one minus sign before all numbers, and none before a zero."""
    return _SIGN.sub("−", _NO_SIGN.sub("", text))
