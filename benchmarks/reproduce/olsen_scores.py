"""Scores of Olsen & Petersen's tables as found here: means, paired gains, and words for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from reproduce.experiment import Done
from reproduce.protocol import Summary

__all__ = ["Gain", "Scores", "choices", "gain_words", "judged", "shown"]


class Scores:
    """Test accuracies by column (a rank, a scaling), method and split."""

    def __init__(self, done: list[Done], column: str) -> None:
        self.found: dict[Any, dict[str, dict[int, float]]] = {}
        for each in done:
            methods = self.found.setdefault(each.job[column], {})
            for method, score in each.result["scores"].items():
                methods.setdefault(method, {})[each.job["split"]] = score

    def of(self, column: Any, method: str) -> dict[int, float]:
        """Accuracy of each split; empty where there is none."""
        return self.found.get(column, {}).get(method, {})

    def mean(self, column: Any, method: str) -> Summary | None:
        """Mean and error of the mean, in per cent."""
        scores = list(self.of(column, method).values())
        return Summary(scores) if scores else None

    def splits(self, column: Any, method: str) -> int:
        """On how many folds the method was run."""
        return len(self.of(column, method))

    def gain(self, column: Any, method: str, over: Any, other: str) -> Gain | None:
        """Of a method over another one, maybe of another column, on the folds of both."""
        one, two = self.of(column, method), self.of(over, other)
        common = sorted(set(one) & set(two))
        return Gain([one[split] - two[split] for split in common]) if common else None


class Gain(Summary):
    """Paired differences in points."""

    def __init__(self, gaps: Any) -> None:
        super().__init__(gaps)
        self.splits = len(gaps)

    def __str__(self) -> str:
        return f"{self.mean:+.1f} ± {self.error:.1f}" if self.error > 5e-3 else f"{self.mean:+.1f}"


def shown(each: Summary | None) -> str | None:
    """With one decimal, as the report has it."""
    if each is None:
        return None
    return f"{each.mean:.1f} ± {each.error:.1f}" if each.error > 5e-3 else f"{each.mean:.1f}"


def judged(found: Summary, target: float) -> str:
    """Whether a figure of the report is reached, and how clearly beside our error."""
    gap = found.mean - target
    if not found.error:
        return "reached" if gap >= 0 else "not reached"
    errors = abs(gap) / found.error
    if gap >= 0:
        return "reached, clearly" if errors > 2 else "reached, within two errors"
    return "**not reached**" if errors > 2 else "not reached, within two errors"


def gain_words(gain: Gain | None, target: float, over: str = "") -> str | None:
    """A gain, what it is over, the report's and the verdict."""
    if gain is None:
        return None
    return f"{gain}{over} (report {target:+.1f}: {judged(gain, target)})"


def choices(done: list[Done], key: str) -> str:
    """How often each value was chosen, in words."""
    values = [each.result["choice"][key] for each in done if "choice" in each.result]
    rounded, counts = np.unique([f"{value:.3g}" for value in values], return_counts=True)
    pairs = sorted(zip(map(float, rounded), counts, strict=True))
    return ", ".join(f"{value:g} ({count}×)" for value, count in pairs)
