"""The page of tables_accuracy.py: means, ranks, wins and losses, groups, times, and the goals."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np

#: the methods of scikit-learn that every table needs
THEIRS = ("forest", "boosted trees", "linear", "SVM", "MLP")
FIRST = {"classes": "vote", "numbers": "vote-regressor"}
MADE = "made-"  # tables whose fits are timed and whose scores do not count
GROUPS = (
    "fewer than 200 rows to learn from",
    "a column for every ten rows, or more",
    "gaps",
    "the rest",
)
_LEAST = -100.0  # R² of one table, in percent: what is far below says nothing of the others
_FAR = 2.0  # points behind the best other method that are listed, table by table
_ONE_SPLIT = 1.0  # points by which a table is won or lost if there is one split

Line = dict[str, str]


class Scores(NamedTuple):
    """Scores of one task in percent: on the same splits of each table for all main methods.

    ``by_split[method][table][split]`` has what was run, and ``tables`` are those on which the main
    methods have a split in common.
    """

    task: str
    by_split: dict[str, dict[str, dict[int, float]]]
    tables: list[str]
    groups: dict[str, list[str]]

    @property
    def first(self) -> str:
        """The method that the others are compared with."""
        return FIRST[self.task]

    def mean(self, method: str, table: str) -> float:
        """The mean over splits."""
        return max(float(np.mean(list(self.by_split[method][table].values()))), _LEAST)

    def means(self, method: str) -> np.ndarray:
        """The mean of each table."""
        return np.array([self.mean(method, t) for t in self.tables])

    def covers(self, method: str) -> list[str]:
        """The tables on which a method has the splits that count."""
        found = self.by_split[method]
        return [t for t in self.tables if found[t].keys() == self.by_split[self.first][t].keys()]


def groups_of(line: Line) -> list[str]:
    """The groups that a table belongs to."""
    n, D, gaps = int(line["n_train"]), int(line["columns"]), int(line["gaps"])
    few, wide, holes, rest = GROUPS
    found = [few] * (n < 200) + [wide] * (D > n / 10) + [holes] * (gaps > 0)
    return found or [rest]


def collect(lines: list[Line], task: str) -> Scores:
    """The scores of one task."""
    scores: dict[str, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    groups: dict[str, list[str]] = {}
    for line in lines:
        if line["task"] == task and not line["table"].startswith(MADE):
            score = 100 * float(line["score"])
            scores[line["method"]][line["table"]][int(line["split"])] = score
            groups[line["table"]] = groups_of(line)
    main = [FIRST[task], *(m for m in THEIRS if m in scores)]
    tables = []
    for table in sorted(groups):
        both = set.intersection(*(set(scores[m][table]) for m in main))
        for found in scores.values():
            found[table] = {s: v for s, v in sorted(found[table].items()) if s in both}
        if both:
            tables.append(table)
    return Scores(task, scores, tables, groups)


def page(lines: list[Line], head: str) -> str:
    """The whole page; ``head`` is what stands above the tables."""
    done = [line for line in lines if line["score"]]
    parts = [head]
    for task in FIRST:
        found = collect(done, task) if any(line["task"] == task for line in done) else None
        if found is not None and found.tables:
            parts += _sections(found)
    parts += _times(done)
    failed = [line for line in lines if not line["score"]]
    if failed:
        parts.append("## Jobs that failed\n")
        parts += [f"- {f['table']}, {f['method']}: {f['note']}" for f in failed]
    return "\n".join(parts).rstrip() + "\n"


def _sections(scores: Scores) -> list[str]:
    whole = [m for m in scores.by_split if len(scores.covers(m)) == len(scores.tables)]
    order = sorted(whole, key=lambda m: -scores.means(m).mean())
    n_splits = sorted({len(scores.by_split[scores.first][t]) for t in scores.tables})
    what = "classes: accuracy" if scores.task == "classes" else "numbers: R²"
    splits = " or ".join(map(str, n_splits)) + f" split{'s' if n_splits != [1] else ''}"
    return [
        f"## {len(scores.tables)} tables of {what} in percent, {splits} of each\n",
        *_goals(scores),
        *_ranking(scores, order),
        *_partial(scores, [m for m in scores.by_split if m not in whole]),
        *_groups(scores, order),
        *_behind(scores, order),
        *_tables(scores, order),
    ]


def _decided(scores: Scores, method: str, tables: list[str]) -> tuple[int, int]:
    """Tables that were won and lost by more than the corrected error and 0.3 points."""
    wins = losses = 0
    ours, theirs = scores.by_split[scores.first], scores.by_split[method]
    for t in tables:
        d = np.array([ours[t][s] - theirs[t][s] for s in ours[t]])
        limit = _ONE_SPLIT
        if len(d) > 1:
            limit = max(float(np.sqrt(d.var(ddof=1) * (1 / len(d) + 0.3 / 0.7))), 0.3)
        wins += d.mean() > limit
        losses += d.mean() < -limit
    return wins, losses


def _ahead(scores: Scores, method: str, tables: list[str]) -> tuple[float, float, float]:
    """By how much the first method is ahead: mean, standard error over tables, and median."""
    d = np.array([scores.mean(scores.first, t) - scores.mean(method, t) for t in tables])
    error = d.std(ddof=1) / len(d) ** 0.5 if len(d) > 1 else np.nan
    return float(d.mean()), float(error), float(np.median(d))


def _goals(scores: Scores) -> list[str]:
    """What was to be reached, and whether it was."""
    told = []
    for method in ("forest", "boosted trees"):
        if method not in scores.by_split:
            continue
        mean, error, _ = _ahead(scores, method, scores.tables)
        wins, losses = _decided(scores, method, scores.tables)
        told.append(
            f"- A point ahead of {method}, with twice as many wins as losses: {mean:+.2f} ± "
            f"{error:.2f} points, {wins} wins, {losses} losses: "
            f"**{'reached' if mean >= 1.0 and wins >= 2 * losses else 'missed'}**."
        )
    for group in GROUPS:
        chosen = [t for t in scores.tables if group in scores.groups[t]]
        known = [m for m in THEIRS if m in scores.by_split]
        if not chosen or not known:
            continue
        mean = {m: np.mean([scores.mean(m, t) for t in chosen]) for m in (scores.first, *known)}
        best = max(known, key=lambda m: mean[m])
        behind = mean[best] - mean[scores.first]
        told.append(
            f"- At most 2 points behind the best of scikit-learn's, {group} ({len(chosen)}): "
            f"{best} {mean[best]:.1f}, {scores.first} {mean[scores.first]:.1f}: "
            f"**{'reached' if behind <= 2.0 else 'missed'}**."
        )
    return [*told, ""]


def _ranking(scores: Scores, order: list[str]) -> list[str]:
    means = {m: scores.means(m) for m in order}
    ranks = (-np.array(list(means.values()))).argsort(axis=0).argsort(axis=0).mean(axis=1) + 1
    parts = [
        f"| method | mean | mean rank | {scores.first} is ahead by | wins / losses | median |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for m, rank in zip(order, ranks, strict=True):
        found = "– | – | –"
        if m != scores.first:
            mean, error, median = _ahead(scores, m, scores.tables)
            wins, losses = _decided(scores, m, scores.tables)
            found = f"{mean:+.2f} ± {error:.2f} | {wins} / {losses} | {median:+.2f}"
        parts.append(f"| {m} | {means[m].mean():.2f} | {rank:.2f} | {found} |")
    parts.append(
        "\nThe error is the standard error over the tables. Wins and losses count tables on which "
        "the difference of the means is larger than 0.3 points and than its standard error over "
        "the splits, corrected for splits that share rows (Nadeau and Bengio); where there is one "
        f"split, larger than {_ONE_SPLIT:g} point.\n"
    )
    return parts


def _partial(scores: Scores, methods: list[str]) -> list[str]:
    """Methods that were run on some of the tables."""
    parts = []
    for m in methods:
        tables = scores.covers(m)
        if len(tables) > 1:
            mean, error, _ = _ahead(scores, m, tables)
            wins, losses = _decided(scores, m, tables)
            parts.append(
                f"{m} was run on {len(tables)} of these tables: {scores.first} is {mean:+.2f} ± "
                f"{error:.2f} points ahead, with {wins} wins and {losses} losses.\n"
            )
    return parts


def _groups(scores: Scores, order: list[str]) -> list[str]:
    parts = [f"| group | tables | {' | '.join(order)} |", "| --- " * (len(order) + 2) + "|"]
    for name in GROUPS:
        chosen = [t for t in scores.tables if name in scores.groups[t]]
        if chosen:
            row = [f"{np.mean([scores.mean(m, t) for t in chosen]):.1f}" for m in order]
            parts.append(f"| {name} | {len(chosen)} | {' | '.join(row)} |")
    return [*parts, ""]


def _behind(scores: Scores, order: list[str]) -> list[str]:
    """Where some other method is clearly better."""
    told = []
    for t in scores.tables:
        best = max((m for m in order if m != scores.first), key=lambda m: scores.mean(m, t))
        behind = scores.mean(best, t) - scores.mean(scores.first, t)
        if behind > _FAR:
            told.append(f"{t} ({behind:.1f}, {best})")
    words = "; ".join(told) or "on no table"
    return [f"More than {_FAR:g} points behind the best other method: {words}.\n"]


def _tables(scores: Scores, order: list[str]) -> list[str]:
    parts = [f"| table | {' | '.join(order)} |", "| --- " * (len(order) + 1) + "|"]
    for t in scores.tables:
        parts.append(f"| {t} | {' | '.join(f'{scores.mean(m, t):.1f}' for m in order)} |")
    return [*parts, ""]


def _times(lines: list[Line]) -> list[str]:
    """Seconds of fits and predictions on made tables, which an idle machine measured."""
    some: list[Any] = [line for line in lines if line["table"].startswith(MADE)]
    if not some:
        return []
    parts = [
        "## Seconds on made tables, on two idle cores\n",
        "| rows × columns | task | method | fit | predict, 1,000 rows |",
        "| --- | --- | --- | --- | --- |",
    ]
    for line in some:
        size = f"{int(line['n_train']):,} × {line['columns']}"
        seconds = f"{float(line['fit']):.2g} | {float(line['predict']):.2g}"
        parts.append(f"| {size} | {line['task']} | {line['method']} | {seconds} |")
    return [*parts, ""]
