"""What figure 1 says: tables, the picture, and whether the paper's claim holds."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from reproduce.framework.experiment import Claim, Done
from reproduce.framework.pages import table
from reproduce.framework.pictures import picture, pyplot
from reproduce.framework.statistics import Summary, lead

SETS = ("balance", "ionosphere", "iris", "wine", "housing", "usps")


RANKS = {"square": "square A", "2": "d = 2"}


#: what NCA is compared with
OTHERS = {
    "square": ("Euclidean", "Euclidean, standardised", "whitened", "RCA"),
    "2": ("PCA", "PCA, standardised", "LDA", "LDA + RCA", "RCA"),
}


#: the rivals that the paper names at d = 2
NAMED = ("PCA", "LDA", "LDA + RCA")
#: corrected errors that count
CLEAR = 2.0


FULL = ("NCA", "NCA, defaults")
#: rank, rows and k of the tables of the test rows
TEST_TABLES = (("square", "test", 1), ("2", "test", 1), ("square", "test", 5))


LEARNT = {"square": ("diagonal NCA", "NCA", "NCA, defaults"), "2": ("NCA", "NCA, defaults")}


COLOURS = {
    "Euclidean": "#999999", "Euclidean, standardised": "#000000", "whitened": "#56B4E9",
    "PCA": "#999999", "PCA, standardised": "#000000", "LDA": "#56B4E9", "LDA + RCA": "#6A3D9A",
    "RCA": "#CC79A7", "diagonal NCA": "#E69F00", "NCA": "#D55E00", "NCA, defaults": "#009E73",
}  # fmt: skip


class Behind(NamedTuple):
    """A panel in which a rival beats NCA on the test rows by more than two corrected errors."""

    method: str
    rank: str
    name: str
    other: str
    points: float
    errors: float
    train_points: float
    train_errors: float

    @property
    def with_error(self) -> str:
        """The points, and their standard error."""
        return f"{self.points:.1f} ± {self.points / self.errors:.1f}"

    @property
    def over_fits(self) -> bool:
        """Whether NCA is as clearly ahead on the training rows."""
        return self.train_errors > CLEAR


class _Scores:
    """Scores in per cent, in the order of the splits, which all methods share."""

    def __init__(self, done: list[Done]) -> None:
        self.found: dict[tuple[str, str], list[Any]] = {}
        for each in sorted(done, key=lambda each: each.job["split"]):
            self.found.setdefault((each.job["data"], each.job["rank"]), []).append(each.result)
        self.sets = [name for name in SETS if all((name, rank) in self.found for rank in RANKS)]

    def __call__(self, key: str, rank: str, name: str) -> Any:
        return 100.0 * np.array([result[key] for result in self.found[name, rank]])

    def lead(self, first: str, second: str, rank: str, name: str) -> tuple[float, float]:
        """By how many points, and standard errors of it, the first score is ahead."""
        return lead(self(first, rank, name), self(second, rank, name))

    def best(self, rank: str, name: str, key: str) -> str:
        """The method without NCA that has the highest mean."""
        return max(OTHERS[rank], key=lambda other: self(key.format(other), rank, name).mean())


def parts(done: list[Done]) -> dict[str, Any]:
    """What was found, tables of test and training rows, and numbers of the protocol."""
    scores = _Scores(done)
    behind = [b for each in product(FULL, RANKS, scores.sets)
              if (b := _behind(scores, *each, OTHERS[each[1]]))]  # fmt: skip
    return {
        "finding": _finding(scores, behind),
        "claim": _claim(scores, behind),
        "test_tables": "\n\n".join(_table(scores, *which) for which in TEST_TABLES),
        "training_tables": "\n\n".join(_table(scores, rank, "train", 1) for rank in RANKS),
        **_protocol(scores, done),
    }


def _behind(
    scores: _Scores,
    method: str,
    rank: str,
    name: str,
    rivals: tuple[str, ...],
    errors: float = CLEAR,
) -> Behind | None:
    """The rival furthest ahead, of those ahead by more than this many corrected errors."""
    ahead = {m: scores.lead(f"{m}, test 1-NN", f"{method}, test 1-NN", rank, name) for m in rivals}
    ahead = {m: found for m, found in ahead.items() if found[1] > errors}
    if not ahead:
        return None
    other = max(ahead, key=lambda m: ahead[m][0])
    train = scores.lead(f"{method}, train 1-NN", f"{other}, train 1-NN", rank, name)
    return Behind(method, rank, name, other, *ahead[other], *train)


def _finding(scores: _Scores, behind: list[Behind]) -> str:
    def level(method: str, rank: str) -> str:
        lost = sum((each.method, each.rank) == (method, rank) for each in behind)
        return f"{len(scores.sets) - lost} of {len(scores.sets)}"

    text = (
        "By 1-NN on test rows, NCA as in the paper is ahead of every method other than NCA, or "
        "behind by at most 2 corrected errors, on "
        f"{level('NCA', 'square')} sets with a square map and on {level('NCA', '2')} at d = 2; "
        f"`NCA(d)` with vicinal's defaults likewise on {level('NCA, defaults', 'square')} and "
        f"{level('NCA, defaults', '2')}."
    )
    over = [each for each in behind if each.over_fits]
    if behind:
        one, all_over = len(behind) == 1, len(over) == len(behind)
        cases = "one case" if one else f"{len(behind)} cases"
        text += f" In {cases} NCA is further behind (table below)."
        if over:
            where = "There" if one else "In all of them" if all_over else f"In {len(over)} of them"
            text += f" {where} it is clearly ahead on the training rows: it over-fits."
    return text + _diagonal(scores)


def _diagonal(scores: _Scores) -> str:
    """Where diagonal NCA is ahead of the square maps, by the same threshold."""
    found: dict[str, list[str]] = {}
    for name, method in product(scores.sets, FULL):
        each = _behind(scores, method, "square", name, ("diagonal NCA",))
        if each:
            whom = "the paper's NCA" if method == "NCA" else "the defaults"
            found.setdefault(name, []).append(f"{whom} by {each.with_error} points")
    words = "; ".join(f"on {name} ahead of {' and of '.join(each)}" for name, each in found.items())
    return f" Diagonal NCA, counted apart, is {words}." if words else ""


def _claim(scores: _Scores, behind: list[Behind]) -> str:
    panels = list(product(RANKS, scores.sets))
    led = [_training_lead(scores, *panel) >= 0 for panel in panels]
    text = (
        "## The paper's claim\n\n"
        'The paper finds a square NCA "consistently the same as or better than" other metrics, in '
        'training and in test, and at d = 2 a "superior performance" against PCA, LDA and LDA '
        f"followed by RCA. On training rows it is at least level in {sum(led)} of {len(panels)} "
        f"cases (sets times ranks), by the means. {_superior_words(scores)} On test rows "
    )
    if not behind:
        return f"{text}no method other than NCA is ahead by more than 2 corrected errors."
    rows = [
        [each.method, RANKS[each.rank], each.name, each.other,
         f"{each.points:.1f} ({each.errors:.1f} SE)", _training(each)]
        for each in behind
    ]  # fmt: skip
    header = ["of", "map", "set", "ahead", "points on test rows", "training rows"]
    return (
        f"{text}a method other than NCA, the best of them named here, is ahead by more than 2 "
        f"corrected errors in {len([b for b in behind if b.method == 'NCA'])} of "
        f"{len(panels)} (and in {len([b for b in behind if b.method != 'NCA'])} of NCA with our "
        "defaults):\n\n" + table(header, rows)
    )


def _superior(scores: _Scores) -> dict[str, tuple[float, float]]:
    """By set, the lead over the paper's best rival at d = 2 on test rows, and its errors."""
    found = {}
    for name in scores.sets:
        leads = [scores.lead("NCA, test 1-NN", f"{m}, test 1-NN", "2", name) for m in NAMED]
        found[name] = min(leads)
    return found


def _superior_words(scores: _Scores) -> str:
    found = _superior(scores)
    ahead = [
        f"{name} (+{points:.1f} ± {points / errors:.1f})"
        for name, (points, errors) in found.items()
        if errors > CLEAR
    ]
    return (
        "At d = 2 it is ahead of all three rivals on test rows, by more than 2 corrected "
        f"errors, on {len(ahead)} of {len(found)} sets: {', '.join(ahead) or 'none'}."
    )


def _training(each: Behind) -> str:
    if abs(each.train_errors) <= CLEAR:
        return f"level ({each.train_points:+.1f}, {abs(each.train_errors):.1f} SE)"
    who = "NCA behind" if each.train_points < 0 else "NCA ahead"
    over = ": over-fitting" if each.over_fits else ""
    return f"{who} by {abs(each.train_points):.1f}{over}"


def _table(scores: _Scores, rank: str, where: str, k: int) -> str:
    """Methods by sets; bold: the best and those within one standard error of it."""
    keys = {method: f"{method}, {where} {k}-NN" for method in (*OTHERS[rank], *LEARNT[rank])}
    if where == "test" and k == 1:
        keys["NCA, defaults, its posterior rule"] = "NCA, defaults, test posterior"
    rows = [[method] for method in keys]
    for name in scores.sets:
        best = max(keys.values(), key=lambda key: scores(key, rank, name).mean())
        for row, key in zip(rows, keys.values(), strict=True):
            each = Summary(scores(key, rank, name) / 100.0)
            text = f"{each:.1f}"
            points, errors = scores.lead(best, key, rank, name)
            row.append(f"**{text}**" if points == 0.0 or errors <= 1.0 else text)
    title = f"{RANKS[rank]}, {k}-NN, {'test' if where == 'test' else 'training'} rows"
    return f"**{title}**\n\n{table(['method', *scores.sets], rows)}"


def draw(done: list[Done], folder: Path) -> None:
    """The picture."""
    plt, scores = pyplot(), _Scores(done)
    figure, axes = plt.subplots(
        2, 2, figsize=(12.5, 7.0), layout="constrained", sharex=True, sharey="row"
    )
    for row, rank in zip(axes, RANKS, strict=True):
        methods = (*OTHERS[rank], *LEARNT[rank])
        for ax, where in zip(row, ("train", "test"), strict=True):
            for position, method in enumerate(methods):
                key = f"{method}, {where} 1-NN"
                each = [Summary(scores(key, rank, name) / 100.0) for name in scores.sets]
                ax.errorbar(
                    np.arange(len(each)) + 0.12 * (position - (len(methods) - 1) / 2),
                    [one.mean for one in each],
                    [one.error for one in each],
                    fmt="s" if method in LEARNT[rank] else "o",
                    color=COLOURS[method],
                    markersize=5,
                    label=method,
                )
            ax.set_title(f"{RANKS[rank]}, {'training' if where == 'train' else 'test'} rows")
            ax.set_xticks(range(len(scores.sets)), scores.sets, fontsize=9)
            for edge in range(1, len(scores.sets)):
                ax.axvline(edge - 0.5, color="0.9", linewidth=0.8, zorder=0)
            ax.spines[["top", "right"]].set_visible(False)
            ax.grid(axis="y", color="0.93")
        row[0].set_ylabel("1-NN, per cent right")
        row[1].legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    picture(figure, folder, "goldberger-figure-1")


def _protocol(scores: _Scores, done: list[Done]) -> dict[str, Any]:
    counts = {name: len(scores.found[name, rank]) for name, rank in scores.found}
    most = max(counts.values())
    fewer = ", ".join(f"{count} of {name}" for name, count in counts.items() if count < most)
    splits = f"{most} ({fewer})" if fewer else str(most)
    fits = [(d.job["data"], n) for d in done for key, n in d.result.items() if "iterations" in key]
    cut = [name for name, n in fits if n >= 200]
    where = f" ({', '.join(sorted(set(cut)))})" if cut else ""
    return {
        "splits": splits,
        "most": most,
        "n_fits": len(fits),
        "n_cut": len(cut),
        "where": where,
    }


def claims(done: list[Done]) -> Iterator[Claim]:
    """The paper's claim by rank and rows, of its own NCA."""
    scores = _Scores(done)
    if not scores.sets:
        return
    rank, n = "square", len(scores.sets)
    # a claim of "the same" needs more than a difference that the errors hide
    asked = [_behind(scores, "NCA", rank, name, OTHERS[rank], errors=1.0) for name in scores.sets]
    behind = [each for each in asked if each is not None]
    lost = [f"{b.name} −{b.points:.1f} ± {b.points / b.errors:.1f}" for b in behind]
    yield Claim(
        f"NCA is consistently the same as or better than other metrics ({RANKS[rank]}, test rows)",
        _outcome(len(behind), n),
        "; ".join([f"{n - len(behind)} of {n} sets", *lost[:3]]),
    )
    leads = _superior(scores)
    ahead = [name for name in leads if leads[name][1] > CLEAR]
    worst = min(leads, key=lambda name: leads[name][0])
    points, errors = leads[worst]
    error = abs(points / errors) if errors else 0.0
    yield Claim(
        "NCA's projection to d = 2 is consistently superior to PCA, LDA and LDA + RCA (test rows)",
        "seen" if len(ahead) == n else "partly" if ahead else "not seen",
        f"clearly ahead on {len(ahead)} of {n} sets; least on {worst}: {points:+.1f} ± {error:.1f}",
    )
    panels = list(product(RANKS, scores.sets))
    held = [_training_lead(scores, *panel) >= 0 for panel in panels]
    yield Claim(
        "NCA is the same as or better than other metrics on the training rows",
        _outcome(len(held) - sum(held), len(held)),
        f"{sum(held)} of {len(held)} cases, by the means",
    )


def _outcome(n_lost: int, n: int) -> str:
    """Seen everywhere, in most cases, or not."""
    if not n_lost:
        return "seen"
    return "partly" if 2 * n_lost <= n else "not seen"


def _training_lead(scores: _Scores, rank: str, name: str) -> float:
    """By how many points NCA leads the best other method on the training rows."""
    key = "{}, train 1-NN"
    other = scores.best(rank, name, key)
    return scores.lead(key.format("NCA"), key.format(other), rank, name)[0]
