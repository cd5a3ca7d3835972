"""The report on Goldberger et al. figure 1: a finding, the picture, tables and the protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from reproduce import goldberger_figure1_words as words
from reproduce.experiment import Done
from reproduce.protocol import Summary, summary
from reproduce.report import picture, table

__all__ = ["report"]

SETS = ("balance", "ionosphere", "iris", "wine", "housing", "usps")
RANKS = {"square": "square A", "2": "d = 2"}
#: splits before this one were looked at when the size of NCA's starts was chosen
CHOSEN_ON = 6
#: what NCA is compared with
RIVALS = {
    "square": ("Euclidean", "Euclidean, standardised", "whitened", "RCA"),
    "2": ("PCA", "PCA, standardised", "LDA", "LDA + RCA", "RCA"),
}
LEARNT = {
    "square": ("diagonal NCA", "NCA", "NCA, start scaled by f", "NCA, defaults"),
    "2": ("NCA", "NCA, start scaled by f", "NCA, defaults"),
}
COLOURS = {
    "Euclidean": "#999999", "Euclidean, standardised": "#000000", "whitened": "#56B4E9",
    "PCA": "#999999", "PCA, standardised": "#000000", "LDA": "#56B4E9", "LDA + RCA": "#6A3D9A",
    "RCA": "#CC79A7", "diagonal NCA": "#E69F00", "NCA": "#D55E00", "NCA, defaults": "#009E73",
}  # fmt: skip


class Behind(NamedTuple):
    """A set on which some other method does better than NCA, beyond chance."""

    name: str
    rank: str
    method: str
    rival: str
    points: float
    errors: float
    train_points: float


def report(done: list[Done], folder: Path) -> str:
    """Markdown; the picture goes beside it."""
    shown = [name for name in SETS if summary(done, "RCA, test 1-NN", data=name, rank="2")]
    counts = _counts(done, shown)
    # usps had no part in the choice of the size of the starts
    unseen = [d for d in done if d.job["split"] >= CHOSEN_ON or d.job["data"] == "usps"]
    known = [name for name in shown if summary(unseen, "RCA, test 1-NN", data=name, rank="2")]
    behind = [
        each
        for method in words.NAMES
        for rank in RANKS
        for name in shown
        if (each := _behind(done, name, rank, method)) is not None
    ]
    return "\n\n".join(
        [
            words.finding(counts, len(shown)),
            _draw(done, shown, folder),
            words.claim(behind, _led_in_training(done, shown), 2 * len(shown)),
            "## Test rows",
            *(_table(done, shown, rank, "test", 1) for rank in RANKS),
            "## Training rows, leave-one-out",
            *(_table(done, shown, rank, "train", 1) for rank in RANKS),
            "## Five neighbours",
            *(_table(done, shown, "square", where, 5) for where in ("test", "train")),
            _scales(done, shown, _counts(unseen, known), len(known)),
            words.protocol({name: _splits(done, name) for name in shown}),
        ]
    )


def _counts(done: list[Done], shown: list[str]) -> dict[tuple[str, str], int]:
    """On how many sets the best rival is not ahead by more than two standard errors."""
    return {
        (method, rank): sum(_deficit(done, name, rank, method)[1] <= 2.0 for name in shown)
        for method in words.NAMES
        for rank in RANKS
    }


def _led_in_training(done: list[Done], shown: list[str]) -> int:
    """In how many panels no rival has a higher mean on the training rows than NCA has."""
    key = "{}, train 1-NN".format
    return sum(
        all(_difference(done, name, rank, key("NCA"), key(rival))[0] >= 0 for rival in RIVALS[rank])
        for rank in RANKS
        for name in shown
    )


def _splits(done: list[Done], name: str) -> int:
    return sum(each.job["data"] == name and each.job["rank"] == "2" for each in done)


def _scores(done: list[Done], key: str, name: str, rank: str) -> Any:
    """In per cent, in the order of the splits, which all methods share."""
    found = [each for each in done if each.job["data"] == name and each.job["rank"] == rank]
    found.sort(key=lambda each: each.job["split"])
    return 100.0 * np.array([each.result[key] for each in found])


def _difference(done: list[Done], name: str, rank: str, better: str, other: str) -> Any:
    """Mean and standard error of the paired difference of two scores."""
    gap = _scores(done, better, name, rank) - _scores(done, other, name, rank)
    error = gap.std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else 0.0
    return float(gap.mean()), float(error)


def _deficit(done: list[Done], name: str, rank: str, method: str) -> tuple[str, float, float]:
    """The best rival, and by how many standard errors and points it is ahead on the test rows."""
    best = max(
        RIVALS[rank], key=lambda rival: _scores(done, f"{rival}, test 1-NN", name, rank).mean()
    )
    points, error = _difference(done, name, rank, f"{best}, test 1-NN", f"{method}, test 1-NN")
    errors = points / error if error else float(np.sign(points)) * np.inf if points else 0.0
    return best, errors, points


def _behind(done: list[Done], name: str, rank: str, method: str) -> Behind | None:
    rival, errors, points = _deficit(done, name, rank, method)
    if errors <= 3.0:
        return None
    train, _ = _difference(done, name, rank, f"{method}, train 1-NN", f"{rival}, train 1-NN")
    return Behind(name, rank, method, rival, points, errors, train)


def _table(done: list[Done], shown: list[str], rank: str, where: str, k: int) -> str:
    """Methods by sets; bold: the best and those within one standard error of it."""
    methods = [*RIVALS[rank], *LEARNT[rank]]
    keys = {method: f"{method}, {where} {k}-NN" for method in methods}
    if where == "test" and k == 1:
        keys["NCA, defaults, its posterior rule"] = "NCA, defaults, test posterior"
    cells: dict[str, list[str]] = {method: [] for method in keys}
    for name in shown:
        means = {m: _scores(done, key, name, rank).mean() for m, key in keys.items()}
        best = max(means, key=lambda m: means[m])
        for method, key in keys.items():
            points, error = _difference(done, name, rank, keys[best], key)
            text = _words(_scores(done, key, name, rank))
            cells[method].append(f"**{text}**" if points <= error else text)
    rows = [[method, *row] for method, row in cells.items()]
    title = f"{RANKS[rank]}, {k}-NN, {'test' if where == 'test' else 'training'} rows"
    return f"**{title}**\n\n{table(['method', *shown], rows)}"


def _words(scores: Any) -> str:
    each = Summary(scores / 100.0)
    return f"{each.mean:.1f} ± {each.error:.1f}"


def _scales(done: list[Done], shown: list[str], unseen: Any, n_unseen: int) -> str:
    """What the scale of the start does to f."""
    lower = {
        (rank, where): sum(
            _difference(done, name, rank, f"NCA, {where}", f"NCA, start scaled by f, {where}")[0]
            > 0
            for name in shown
        )
        for rank in RANKS
        for where in ("train 1-NN", "test 1-NN")
    }
    return words.scales(lower, len(shown), unseen, n_unseen)


def _draw(done: list[Done], shown: list[str], folder: Path) -> str:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        2, 2, figsize=(12.5, 7.0), layout="constrained", sharex=True, sharey="row"
    )
    for row, rank in zip(axes, RANKS, strict=True):
        methods = [m for m in (*RIVALS[rank], *LEARNT[rank]) if m in COLOURS]
        for ax, where in zip(row, ("train", "test"), strict=True):
            for position, method in enumerate(methods):
                runs = [_scores(done, f"{method}, {where} 1-NN", name, rank) for name in shown]
                each = [Summary(run / 100.0) for run in runs]
                ax.errorbar(
                    np.arange(len(shown)) + 0.1 * (position - (len(methods) - 1) / 2),
                    [one.mean for one in each],
                    [one.error for one in each],
                    fmt="s" if method in LEARNT[rank] else "o",
                    color=COLOURS[method],
                    markersize=5,
                    label=method,
                )
            ax.set_title(f"{RANKS[rank]}, {'training' if where == 'train' else 'test'} rows")
            ax.set_xticks(range(len(shown)), shown, fontsize=9)
            for edge in range(1, len(shown)):
                ax.axvline(edge - 0.5, color="0.9", linewidth=0.8, zorder=0)
            ax.spines[["top", "right"]].set_visible(False)
            ax.grid(axis="y", color="0.93")
        row[0].set_ylabel("1-NN, per cent right")
        row[1].legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    markdown = picture(
        figure,
        folder,
        "goldberger-figure-1",
        "accuracy of 1-NN after square maps and after maps to two dimensions",
    )
    plt.close(figure)
    return f"{markdown}\n\nMeans over the splits; bars are ± one standard error."
