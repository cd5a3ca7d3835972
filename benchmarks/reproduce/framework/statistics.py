"""Means with standard errors, paired differences, and verdicts against published figures."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np

__all__ = [
    "TESTED", "Published", "Summary", "correction", "distance", "lead", "summary", "verdict",
    "with_minus",
]  # fmt: skip

#: the sign of a number, not the hyphen of a word or of a range
_SIGN = re.compile(r"(?<![\w.])[-−](?=\d)")
_NO_SIGN = re.compile(r"(?<![\w.])[-−](?=0(\.0+)?(?![.\d]))")


#: of the rows of a split, those that are tested on: of most splits of the papers and ours
TESTED = 0.3


class Summary:
    """Mean and standard error of some scores, in per cent.

    ``tested`` says that the scores are differences over splits which share rows, and what share of
    the rows of each is tested on: the error then allows for that (`correction`).
    """

    def __init__(self, scores: Any, tested: float = 0.0) -> None:
        scores = 100.0 * np.asarray(scores, dtype=float)
        n = len(scores)
        self.mean = float(scores.mean())
        plain = float(scores.std(ddof=1) / np.sqrt(n)) if n > 1 else 0.0
        self.error = plain * correction(n, tested)

    def __str__(self) -> str:
        # what would be printed as 0.00 is the rounding of scores that are all the same
        return f"{self:.2f}" if self.error > 5e-3 else f"{self.mean:.2f}"

    def __format__(self, spec: str) -> str:
        """Mean ± error with the digits of the mean; always with the error where a spec is given."""
        if not spec:
            return str(self)
        sign, digits = ("+", spec[1:]) if spec.startswith("+") else ("", spec)
        return f"{self.mean:{sign}z{digits}} ± {self.error:{digits}}"  # z: zero has no minus sign


def correction(n_splits: int, tested: float = TESTED) -> float:
    """By what the error over splits grows if the rows that they share are allowed for.

    Nadeau and Bengio (2003); ``tested`` is the share of the rows of a split that is tested on.
    """
    return (1 + n_splits * tested / (1 - tested)) ** 0.5


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


def lead(first: Any, second: Any, tested: float = TESTED) -> tuple[float, float]:
    """By how much the first is ahead on average over common splits, and in corrected errors.

    The errors are 0 for one split, of which nothing can be said.
    """
    gap = Summary(np.asarray(first, dtype=float) - np.asarray(second, dtype=float), tested)
    points = gap.mean / 100.0
    if gap.error:
        return points, gap.mean / gap.error
    single = len(first) < 2 or points == 0.0
    return points, 0.0 if single else float(np.copysign(np.inf, points))


def with_minus(text: str) -> str:
    """The same text with one minus sign before all numbers, and none before a zero."""
    return _SIGN.sub("−", _NO_SIGN.sub("", text))
