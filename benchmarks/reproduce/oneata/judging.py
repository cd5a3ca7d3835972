"""Differences paired over splits, in words, and what they say of a claim of the thesis."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from reproduce.framework.experiment import Claim, Done
from reproduce.framework.statistics import TESTED, Published, Summary, distance, summary

#: what is clear: two corrected errors of a paired difference, three of a published figure
CLEAR, APART = 2.0, 3.0
#: said of what has no error
ONE = " (one split)"
#: points by which one split may miss a published figure before it counts as missed
NEAR = 1.0
#: points that are a slight loss
SLIGHT = 3.0
#: what "seen" means for two kinds of claims, for ``seen_means``
FIGURE = (
    f"a published figure if our mean is at most {APART:g} standard errors below it "
    f"(one split: {NEAR:g} point)"
)
SLIGHTLY = (
    f'"slightly less accurate" if the loss is above 0 and below {SLIGHT:g} points, both by more '
    f"than {CLEAR:g} corrected errors (limits that were set with the results known)"
)
SCALE = (
    "too small a scale if the factor that is best for all rows is above one in every fit, by f(A) "
    "and by the log loss"
)
DIFFERENCE = f"a difference if it is on the thesis's side by more than {CLEAR:g} corrected errors"


class Gap(NamedTuple):
    """A mean difference in points, its corrected error over the splits, and their number."""

    points: float
    error: float
    n: int

    def __str__(self) -> str:
        if self.n < 2:
            return f"{_signed(self.points, 1)}{ONE}"
        digits = 1 if self.error >= 0.05 else 2
        return f"{_signed(self.points, digits)} ± {self.error:.{digits}f}"

    def sign(self) -> int:
        """1 or -1 where the difference is clear, else 0; one split is never clear."""
        if self.n < 2 or abs(self.points) <= CLEAR * self.error:
            return 0
        return 1 if self.points > 0 else -1


def gap(
    done: list[Done],
    first: str,
    second: str,
    score: str = "NCA",
    other: str | None = None,
    *,
    key: str = "fit",
    tested: float = TESTED,
    **where: Any,
) -> Gap | None:
    """Score of the first fit less that of the second (of ``other``, if given), in points.

    Paired over the rows of a table and the splits that both have.  The error is over the splits, of
    each of which the mean over the rows is taken: scores of the same split are not independent.
    """
    scores: tuple[dict[Any, float], dict[Any, float]] = ({}, {})
    for each in done:
        if not where.items() <= each.job.items():
            continue
        at = (each.job.get("split"), each.job.get("data"), each.job.get("d"))
        for some, fit, rule in zip(scores, (first, second), (score, other or score), strict=True):
            if each.job[key] == fit and rule in each.result:
                some[at] = each.result[rule]
    by_split: dict[Any, list[float]] = {}
    for at in scores[0].keys() & scores[1].keys():
        by_split.setdefault(at[0], []).append(scores[0][at] - scores[1][at])
    means = [float(np.mean(gaps)) for gaps in by_split.values()]
    return gap_of(means, tested) if means else None


def gap_of(gaps: Iterable[float], tested: float = TESTED) -> Gap:
    """The mean of differences over splits, given as shares."""
    gaps = list(gaps)
    found = Summary(gaps, tested)
    return Gap(found.mean, found.error, len(gaps))


def words(difference: Gap | None) -> str:
    """The difference, or that there is none yet."""
    return "(not run yet)" if difference is None else str(difference)


def outcome(gaps: Iterable[Gap | None], says: Callable[[Gap], int] = Gap.sign) -> str | None:
    """What some differences say of a claim: each speaks for it (1), against it (-1) or neither.

    "Partly" needs one that clearly speaks for it; of a claim that two are alike, which a large
    error neither shows nor refutes, one that does not speak against it.  A single split, which has
    no error, does not decide; alone it cannot show a claim.
    """
    found = [each for each in gaps if each is not None]
    if not found:
        return None
    votes = [says(each) for each in found if each.n > 1]
    if votes and all(vote > 0 for vote in votes):
        return "seen"
    enough = 0 if isinstance(says, NoLoss | Level) else 1
    return "partly" if not votes or any(vote >= enough for vote in votes) else "not seen"


class NoLoss(NamedTuple):
    """Speaks for a claim that nothing is lost: less than this many points, beyond two errors."""

    allowed: float

    def __call__(self, difference: Gap) -> int:
        points, error, _ = difference
        if points - CLEAR * error > -self.allowed:
            return 1
        return -1 if points + CLEAR * error < -self.allowed else 0


class Level(NamedTuple):
    """Speaks for a claim that two are alike: nearer than this many points, beyond two errors."""

    allowed: float

    def __call__(self, difference: Gap) -> int:
        points, error, _ = difference
        if abs(points) + CLEAR * error < self.allowed:
            return 1
        return -1 if abs(points) - CLEAR * error > self.allowed else 0


def slight_loss(allowed: float) -> Callable[[Gap], int]:
    """Speaks for a claim of a slight loss: a clear one, but less than this many points."""

    def says(difference: Gap) -> int:
        if difference.sign() > 0:
            return -1
        return min(-difference.sign(), NoLoss(allowed)(difference))

    return says


def together(outcomes: Iterable[str | None]) -> str | None:
    """One outcome of several, of those that are known: theirs where they agree."""
    found = {each for each in outcomes if each is not None}
    if not found:
        return None
    return found.pop() if len(found) == 1 else "partly"


def seen_means(*rules: str) -> str:
    """What "seen" means on a page, in a sentence: the rule of each kind of claim it has."""
    return f'The [index](README.md) says "seen" of {"; of ".join(rules)}.'


def claim(says: str, told: str | None, figure: str) -> Iterator[Claim]:
    """A line of the index, if there is something to tell."""
    if told is not None:
        yield Claim(says, told, figure)


def reached(pairs: Iterable[tuple[int, Summary | None, Published]]) -> str | None:
    """Whether published figures are reached, of (number of splits, ours, theirs).

    A mean that is more than three errors below does not reach its figure.  A single split has no
    error: it may be a point below.
    """
    votes = []
    for n, ours, theirs in pairs:
        if ours is not None:
            low = ours.mean - theirs.mean < -NEAR if n < 2 else distance(ours, theirs) < -APART
            votes.append(not low)
    if not votes:
        return None
    return "seen" if all(votes) else "partly" if any(votes) else "not seen"


def reach(known: int, low: int, high: int) -> str:
    """How many of the known scores reach the thesis's figures, for a cell of the index."""
    above = f"; {high} more than three above" if high else ""
    return f"{known - low} of {known} at most three errors below{above}"


def n_splits(done: list[Done], **where: Any) -> int:
    """How many splits some jobs have."""
    return len({each.job["split"] for each in done if where.items() <= each.job.items()})


def score_words(done: list[Done], score: str, **where: Any) -> str:
    """A mean with its error, or one split's score and the words that it is one."""
    ours = summary(done, score, **where)
    if ours is None:
        return "(not run yet)"
    return f"{ours:.1f}" if n_splits(done, **where) > 1 else f"{ours.mean:.1f}{ONE}"


def penalty_range(done: list[Done], fit: str, **where: Any) -> str:
    """Which penalties a search has chosen: the median and the range."""
    found = [
        each.result["alpha"]
        for each in done
        if each.job["fit"] == fit and where.items() <= each.job.items()
    ]
    if not found:
        return "(not run yet)"
    low, middle, high = np.quantile(found, [0.0, 0.5, 1.0], method="nearest")
    return f"{middle:.2g}" + ("" if low == high else f" ({low:.2g} to {high:.2g})")


def _signed(points: float, digits: int) -> str:
    """With its sign, which zero has not."""
    rounded = round(points, digits)
    return f"{rounded:+.{digits}f}" if rounded else f"{0:.{digits}f}"
