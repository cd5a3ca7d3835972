"""What the comparison of the defaults says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from reproduce.framework.experiment import Claim, Done
from reproduce.framework.pages import table
from reproduce.framework.protocol import SMALL
from reproduce.framework.statistics import TESTED, Summary
from reproduce.own.paired import decides, fitting

#: columns of the table, in order; the first is the bar to clear, the second the peer to pass
METHODS = {
    "5-NN": "5-NN on standardised columns",
    "scikit-learn": "scikit-learn's NCA, then 5-NN",
    "NCA": "`NCA()`",
    "NCA 5-NN": "`NCA()`, then 5-NN",
    "NCA auto": '`NCA(rule="knn", n_neighbors="auto")`',
    "NCA local": '`NCA(rule="knn", n_neighbors="local")`',
    "NCA fixed": "`NCA(alpha=3e-3)`",
    "NCA periodic": '`NCA(mapping="periodic")`',
    "KNCA": "`KNCA()`",
    "LMNN": "`LMNN()`",
}


#: a search, on the first splits alone
SEARCHES = {"NCA rank": '`NCA("auto")`'}


SEARCHED_SPLITS = 5


#: standard errors of a clear difference on a set
CLEAR = 2.0


class _Scores:
    """Accuracies over sets and splits."""

    def __init__(self, done: list[Done]) -> None:
        self.done = done
        self.names = [name for name in SMALL if any(each.job["data"] == name for each in done)]

    def of(self, name: str, method: str) -> Any:
        """On a set, split by split."""
        return np.array([d.result[method] for d in self.done if d.job["data"] == name])

    def mean(self, method: str) -> Any:
        """Over the sets, split by split: the splits of the sets are independent of each other."""
        return np.mean([self.of(name, method) for name in self.names], axis=0)

    def gap(self, one: str, other: str, without: str | None = None) -> Summary:
        """Mean difference over the sets, and its corrected error over the splits."""
        names = [name for name in self.names if name != without] or self.names
        gaps = [self.of(n, one) - self.of(n, other) for n in names]
        return Summary(np.mean(gaps, axis=0), TESTED)

    def gaps(self, one: str, other: str) -> dict[str, Summary]:
        """The differences set by set."""
        return {
            name: Summary(self.of(name, one) - self.of(name, other), TESTED) for name in self.names
        }

    def counts(self, one: str, other: str) -> tuple[int, int]:
        """On how many sets the first is clearly ahead, and clearly behind."""
        gaps = self.gaps(one, other).values()
        ahead = sum(gap.mean > CLEAR * gap.error > 0 for gap in gaps)
        return ahead, sum(-gap.mean > CLEAR * gap.error > 0 for gap in gaps)


def parts(done: list[Done]) -> dict[str, Any]:
    """The tables, and the two conditions that the defaults must meet."""
    scores = _Scores(done)
    ahead = scores.gap("NCA", "scikit-learn")
    ahead_votes = scores.gap("NCA 5-NN", "scikit-learn")
    timed = [method for method in METHODS if f"seconds of {method}" in done[0].result]
    seconds = {who: np.mean([d.result[f"seconds of {who}"] for d in done]) for who in timed}
    means = [f"{Summary(scores.mean(method)):.1f}" for method in METHODS]
    n_splits = len({each.job["split"] for each in done})
    return {
        "ahead": f"{ahead.mean:.1f}",
        "ahead_error": f"{ahead.error:.1f}",
        "lead": f"{ahead:+.1f}",
        "n_sets": len(scores.names),
        "ahead_by_votes": f"{ahead_votes.mean:.1f}",
        "ahead_by_votes_error": f"{ahead_votes.error:.1f}",
        "worse": _worse(scores),
        "without": _without(scores),
        "table": _table(scores),
        "means": table(METHODS.values(), [means]),
        "beside": _beside(scores),
        "clear": f"{CLEAR:g}",
        "n_splits": n_splits,
        "seconds": ", ".join(f"{METHODS[who]} {value:.2f} s" for who, value in seconds.items()),
        "fixed": f"{scores.gap('NCA', 'NCA fixed'):+.1f}",
        "periodic": _standing(scores, "NCA periodic"),
        "lmnn": _standing(scores, "LMNN"),
        "auto_rank": _rank_gap([d for d in done if "NCA rank" in d.result]),
        "alphas": _alphas(done, scores.names),
        "searched_splits": SEARCHED_SPLITS,
        "searches": _searches([d for d in done if "NCA rank" in d.result]),
    }


def _table(scores: _Scores) -> str:
    rows: list[list[Any]] = []
    for name, gain in scores.gaps("NCA", "5-NN").items():
        cells = [Summary(scores.of(name, method)) for method in METHODS]
        rows.append([name, *cells, f"{gain:+.1f}"])
    means = [Summary(scores.mean(method)) for method in METHODS]
    rows.append(["**mean**", *means, f"{scores.gap('NCA', '5-NN'):+.1f}"])
    return table(["set", *METHODS.values(), "`NCA()` − 5-NN"], rows)


def _worse(scores: _Scores) -> str:
    """Where `NCA()` is behind 5-NN by more than two corrected errors."""
    gaps = scores.gaps("NCA", "5-NN")
    behind = [name for name, gap in gaps.items() if -gap.mean > CLEAR * gap.error > 0]
    return f"on {', '.join(behind) or 'none of them'}"


def _largest(scores: _Scores) -> str:
    """The set that adds most to the lead over scikit-learn's NCA."""
    gaps = scores.gaps("NCA", "scikit-learn")
    return max(gaps, key=lambda name: gaps[name].mean)


def _without(scores: _Scores) -> str:
    """The lead over scikit-learn's NCA without the set that adds most to it."""
    most = _largest(scores)
    own, votes = (scores.gap(ours, "scikit-learn", without=most) for ours in ("NCA", "NCA 5-NN"))
    return (
        f"The set that adds most to the lead over scikit-learn's NCA is {most} "
        f"({scores.gaps('NCA', 'scikit-learn')[most]:+.1f} points); without it the lead is "
        f"{own:+.1f} points, and {votes:+.1f} with 5-NN after both."
    )


def _standing(scores: _Scores, one: str, other: str = "NCA") -> str:
    """A mean difference and on how many sets it is clear, for other pages to quote."""
    ahead, behind = scores.counts(one, other)
    rests = decides(scores.done, one, other, scores.names)
    rest = f" (without the set {rests[0]} {rests[1]:+.1f})" if rests else ""
    return (
        f"{scores.gap(one, other):+.1f} points on average{rest}, clearly ahead on {ahead} sets "
        f"and behind on {behind}"
    )


def _rank_gap(done: list[Done]) -> str:
    """The rank by cross-validation less the default one, ± its error over the sets."""
    if not done:
        return "(not run yet)"
    gaps = _Scores(done).gaps("NCA rank", "NCA").values()
    return f"{Summary([gap.mean / 100 for gap in gaps]):+.1f}"


def _beside(scores: _Scores) -> str:
    """Each method against `NCA()`."""
    rows = []
    for method, words in METHODS.items():
        if method != "NCA":
            ahead, behind = scores.counts(method, "NCA")
            over_sets = Summary([gap.mean / 100 for gap in scores.gaps(method, "NCA").values()])
            gap = scores.gap(method, "NCA")
            rows.append([words, f"{gap:+.2f}", f"± {over_sets.error:.2f}", ahead, behind])
    heads = ["method", "to `NCA()`", "over the sets", "clearly ahead", "clearly behind"]
    return table(heads, rows)


def claims(done: list[Done]) -> Iterator[Claim]:
    """The answers of the index."""
    scores = _Scores(done)
    asked = {
        "NCA() − scikit-learn's NCA, then 5-NN": ("NCA", "scikit-learn"),
        "NCA() − 5-NN on standardised columns": ("NCA", "5-NN"),
        "NCA() with the penalty it chooses − NCA(alpha=0.003)": ("NCA", "NCA fixed"),
        'NCA(mapping="periodic") − NCA()': ("NCA periodic", "NCA"),
        "KNCA() − NCA()": ("KNCA", "NCA"),
        "LMNN() − NCA()": ("LMNN", "NCA"),
    }
    for says, (one, other) in asked.items():
        yield Claim(
            f"{says}: test accuracy on {len(scores.names)} small sets",
            "answer",
            _figure(scores, one, other),
        )


def _figure(scores: _Scores, one: str, other: str) -> str:
    """A mean difference, without the set on which it rests, and on how many sets it is clear."""
    rests = decides(scores.done, one, other, scores.names)
    if other == "scikit-learn":  # always told: one set adds most of the lead
        most = _largest(scores)
        rests = most, scores.gap(one, other, without=most)
    rest = f" ({rests[1]:+.1f} without the set {rests[0]})" if rests else ""
    ahead, behind = scores.counts(one, other)
    gap, counts = f"{scores.gap(one, other):+.1f}", f"; ahead on {ahead}, behind on {behind}"
    return fitting(f"{gap} points{rest}{counts}", f"{gap}{rest}{counts}", f"{gap} points{rest}")


def _alphas(done: list[Done], names: list[str]) -> str:
    """The penalties that `NCA()` chose: their median and range on each set."""
    rows = []
    for name in names:
        chosen = [d.result["alpha"] for d in done if d.job["data"] == name]
        rows.append([name, *(f"{value:.2g}" for value in np.percentile(chosen, (50, 0, 100)))])
    return table(["set", "median alpha", "least", "largest"], rows)


def _searches(done: list[Done]) -> str:
    """Accuracy with the rank on "auto", and what was chosen."""
    names = _Scores(done).names
    rows: list[list[Any]] = []
    methods = ("NCA", *SEARCHES)
    for name in names:
        here = [d.result for d in done if d.job["data"] == name]
        row: list[Any] = [name]
        for method in methods:
            row.append(Summary([result[method] for result in here]))
            if method in SEARCHES:
                values = [result[f"chosen {method.removeprefix('NCA ')}"] for result in here]
                counted = zip(*np.unique(values, return_counts=True), strict=True)
                row.append(", ".join(f"{value:g} ({count})" for value, count in counted))
        rows.append(row)
    means: list[Any] = ["**mean**"]
    for method in methods:
        means.append(f"{np.mean([100 * d.result[method] for d in done]):.2f}")
        if method in SEARCHES:
            gap = Summary(
                [
                    np.mean([d.result[method] - d.result["NCA"] for d in done
                             if d.job["data"] == name])
                    for name in names
                ]
            )  # fmt: skip
            means.append(f"{gap:+.2f} to `NCA()`, over the sets")
    titles = ["set", "`NCA()`"]
    for title in SEARCHES.values():
        titles += [title, "chose"]
    return table(titles, [*rows, means])
