"""What figure 2 says: accuracies, the rings from many starts, the picture."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from reproduce.framework.experiment import Claim, Done
from reproduce.framework.pages import table
from reproduce.framework.pictures import picture, pyplot
from reproduce.framework.statistics import TESTED, Summary, lead

#: numbers of columns
FEATURES = {"rings": 3, "wine": 13, "faces": 256, "digits": 64}


METHODS = ("PCA", "LDA", "NCA", "NCA, defaults")


PAPER, DEFAULTS = "f, α = 0", "defaults (log, chosen α)"


#: starts that are one start
SINGLE = ("auto", "pca", "random")


#: a map of the rings with a better score than this has found their plane
FOUND = 0.95
#: the paper's claim is seen if this many of the fits find it, and in part if this many
SEEN, PARTLY = 0.9, 0.5


def parts(done: list[Done]) -> dict[str, Any]:
    """What was found, accuracies, and the rings from many starts."""
    starts = [each.result for each in done if each.job["part"] == "starts"]
    splits = _splits(done)
    return {"finding": _finding(splits, starts), **_accuracies(splits), **_starts(starts)}


def _splits(done: list[Done]) -> dict[str, list[Any]]:
    """Results on rows held out, by set."""
    found: dict[str, list[Any]] = {}
    for each in done:
        if each.job["part"] == "held out":
            found.setdefault(each.job["data"], []).append(each.result)
    return found


def _finding(splits: dict[str, list[Any]], starts: list[Any]) -> str:
    train, test = (_clearly_ahead(splits, where) for where in ("train", "test"))
    text = (
        "In two dimensions NCA with the paper's objective keeps the classes apart better than PCA "
        "and LDA, by more than 2 corrected errors, on "
        + (f"{train} by the rows learnt from, and on " if train != test else "")
        + f"{test} by rows held out{' and by those learnt from' if train == test else ''}."
    )
    if starts:
        text += (
            f" From one start it finds the plane of the rings in {_found(starts, PAPER)} "
            f"fits, and with vicinal's defaults in {_found(starts, DEFAULTS)}."
        )
    return text


def _clearly_ahead(splits: dict[str, list[Any]], where: str) -> str:
    """Where NCA is ahead of both by more than two corrected errors."""

    def errors(runs: list[Any], other: str) -> float:
        pairs = [(run[f"NCA, {where}"], run[f"{other}, {where}"]) for run in runs]
        return lead(*np.transpose(pairs))[1]

    level = [
        name for name, runs in splits.items() if min(errors(runs, m) for m in ("PCA", "LDA")) <= 2
    ]
    words = f"{len(splits) - len(level)} of {len(splits)} sets"
    return words + (f" (not on {' and '.join(level)})" if level else "")


def _found(starts: list[Any], setting: str) -> str:
    hits = _hits(starts, setting)
    return f"{sum(hits)} of {len(hits)}"


def _hits(starts: list[Any], setting: str) -> list[bool]:
    """Whether each fit from one start found the plane."""
    return [run[f"{setting}; {start}"]["score"] > FOUND for run in starts for start in SINGLE]


def draw(done: list[Done], folder: Path) -> None:
    """The picture."""
    plt = pyplot()
    pictures = {each.job["data"]: each.result for each in done if each.job["part"] == "picture"}
    from vicinal.plotting import scatter

    figure, axes = plt.subplots(
        len(pictures),
        len(METHODS),
        figsize=(2.75 * len(METHODS), 2.75 * len(pictures)),
        layout="constrained",
        squeeze=False,
    )
    for row, (name, result) in zip(axes, pictures.items(), strict=True):
        for ax, method in zip(row, METHODS, strict=True):
            Z = np.array(result["Z"][method])
            title = f"{method}: {100 * result['score'][method]:.1f} %"
            scatter(Z, result["y"], ax, title=title, legend=False, size=9.0)
            ax.title.set_fontsize(11)
        row[0].set_ylabel(f"{name} (D = {FEATURES[name]})", fontsize=12)
    picture(figure, folder, "goldberger-figure-2")


def _accuracies(splits: dict[str, list[Any]]) -> dict[str, Any]:
    rows, behind = [], []
    for name, runs in splits.items():
        for where, words in (("train", "learnt from"), ("test", "held out")):
            scores = {m: np.array([run[f"{m}, {where}"] for run in runs]) for m in METHODS}
            best = max(scores, key=lambda m: scores[m].mean())
            cells = []
            for each in scores.values():
                points, errors = lead(scores[best], each)
                text = f"{Summary(each).mean:.1f} ± {Summary(each).error:.1f}"
                cells.append(f"**{text}**" if points == 0.0 or errors <= 1.0 else text)
            rows.append([name if where == "train" else "", words, *cells])
            for other, nca in product(("PCA", "LDA"), ("NCA", "NCA, defaults")):
                points, errors = lead(scores[other], scores[nca])
                if errors > 2.0:
                    behind.append(
                        f"{other} is {100 * points:.1f} points ({errors:.1f} SE) ahead of {nca} on "
                        f"the rows of {name} {words}"
                    )
    return {
        "behind": "; ".join(behind)
        or "Neither is ahead of NCA anywhere by more than 2 corrected errors",
        "table": table(["set", "rows", *METHODS], rows),
        "n_splits": max(map(len, splits.values()), default=0),
    }


def _starts(runs: list[Any]) -> dict[str, Any]:
    if not runs:
        return {}
    rows = []
    for key in runs[0]:
        found = sum(run[key]["score"] > FOUND for run in runs)
        loss, seconds = (np.mean([run[key][what] for run in runs]) for what in ("loss", "seconds"))
        neighbours = [run[key]["neighbours"] for run in runs]
        rows.append(
            [*key.split("; "), f"{found}/{len(runs)}", f"{loss:.3f}",
             "" if None in neighbours else f"{np.mean(neighbours):.0f}", f"{seconds:.2f}"]
        )  # fmt: skip
    header = ["setting", "start", "plane found", "loss", "neighbours at the start", "seconds"]
    return {
        "n_draws": len(runs),
        "threshold": f"{100 * FOUND:g}",
        "seen": f"{100 * SEEN:g}",
        "partly": f"{100 * PARTLY:g}",
        "starts": table(header, rows),
    }


def claims(done: list[Done]) -> Iterator[Claim]:
    """Whether NCA separates the classes better, and whether it finds the plane of the rings."""
    splits = _splits(done)
    if splits:
        gaps = {name: _over_the_better(runs) for name, runs in splits.items()}
        clear = {name for name, gap in gaps.items() if gap.mean > 2 * gap.error > 0}
        rest = [f"{name} {gap:+.1f}" for name, gap in gaps.items() if name not in clear]
        outcome = "seen" if len(clear) == len(gaps) else "partly" if clear else "not seen"
        yield Claim(
            "In 2-D, classes are consistently much better separated by NCA than by PCA or LDA",
            outcome,
            "; ".join([f"{len(clear)} of {len(gaps)} sets", *rest[:2]]),
        )
    starts = [each.result for each in done if each.job["part"] == "starts"]
    if starts:
        hits = _hits(starts, PAPER)
        share = sum(hits) / len(hits)
        yield Claim(
            "NCA finds the plane of the rings, which PCA and LDA miss",
            "seen" if share >= SEEN else "partly" if share >= PARTLY else "not seen",
            f"{sum(hits)} of {len(hits)} fits; NCA() {_found(starts, DEFAULTS)}",
        )


def _over_the_better(runs: list[Any]) -> Summary:
    """NCA on held-out rows against PCA or LDA, whichever has the higher mean there."""
    scores = {m: np.array([run[f"{m}, test"] for run in runs]) for m in ("NCA", "PCA", "LDA")}
    other = max(("PCA", "LDA"), key=lambda m: scores[m].mean())
    return Summary(scores["NCA"] - scores[other], TESTED)
