"""The report on Goldberger et al. figure 2: pictures, accuracies, and the starts on the rings."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from reproduce.experiment import Done
from reproduce.protocol import Summary
from reproduce.report import lead, picture, table

__all__ = ["report"]

#: numbers of columns
FEATURES = {"rings": 3, "wine": 13, "faces": 256, "digits": 64}
METHODS = ("PCA", "LDA", "NCA", "NCA, defaults")
DEFAULTS = "defaults (log, α = 0.003)"
#: starts that are one start
SINGLE = ("auto", "pca", "lda", "random")
#: a map of the rings with a better score than this has found their plane
FOUND = 0.95


def report(done: list[Done], folder: Path) -> str:
    """Markdown; the picture goes beside it."""
    pictures = {each.job["data"]: each.result for each in done if each.job["part"] == "picture"}
    starts = [each.result for each in done if each.job["part"] == "starts"]
    splits: dict[str, list[Any]] = {name: [] for name in pictures}
    for each in done:
        if each.job["part"] == "held out":
            splits[each.job["data"]].append(each.result)
    parts = [
        _finding(splits, starts),
        _draw(pictures, folder),
        _accuracies(splits),
        _starts(starts),
        _PROTOCOL,
    ]
    return "\n\n".join(part for part in parts if part)


def _finding(splits: dict[str, list[Any]], starts: list[Any]) -> str:
    train, test = (_clearly_ahead(splits, where) for where in ("train", "test"))
    text = (
        "In two dimensions NCA with the paper's objective keeps the classes apart better than PCA "
        "and LDA, by more than 3 standard errors, on "
        + (f"{train} by the rows learnt from, and on " if train != test else "")
        + f"{test} by rows held out{' and by those learnt from' if train == test else ''}."
    )
    if starts:
        text += (
            f" From one start it finds the plane of the rings in {_found(starts, 'f, α = 0')} "
            f"fits, and with vicinal's defaults in {_found(starts, DEFAULTS)}."
        )
    return text


def _clearly_ahead(splits: dict[str, list[Any]], where: str) -> str:
    """Where NCA is ahead of both by more than three standard errors."""

    def errors(runs: list[Any], other: str) -> float:
        pairs = [(run[f"NCA, {where}"], run[f"{other}, {where}"]) for run in runs]
        return lead(*np.transpose(pairs))[1]

    level = [
        name for name, runs in splits.items() if min(errors(runs, m) for m in ("PCA", "LDA")) <= 3
    ]
    words = f"{len(splits) - len(level)} of {len(splits)} sets"
    return words + (f" (not on {' and '.join(level)})" if level else "")


def _found(starts: list[Any], setting: str) -> str:
    hits = [run[f"{setting}; {start}"]["score"] > FOUND for run in starts for start in SINGLE]
    return f"{sum(hits)} of {len(hits)}"


def _draw(pictures: dict[str, Any], folder: Path) -> str:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

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
    shown = picture(
        figure, folder, "goldberger-figure-2", "rings, wine, faces and digits in two dimensions"
    )
    plt.close(figure)
    return (
        f"{shown}\n\nAbove each panel: leave-one-out accuracy of 1-NN among the rows shown, which "
        "are also those learnt from."
    )


def _accuracies(splits: dict[str, list[Any]]) -> str:
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
                if errors > 3.0:
                    behind.append(
                        f"{other} is {100 * points:.1f} points ({errors:.1f} SE) ahead of {nca} on "
                        f"the rows of {name} {words}"
                    )
    return (
        "## The paper's claim\n\n"
        'The paper finds the classes "consistently much better separated" by NCA than by PCA or '
        "LDA. "
        + ("; ".join(behind) or "Neither is ahead of NCA anywhere by more than 3 standard errors")
        + ".\n\n"
        + table(["set", "rows", *METHODS], rows)
        + "\n\nPer cent right by 1-NN in two dimensions, mean ± standard error over "
        f"{max(map(len, splits.values()))} splits: 70 % of the rows learnt from (leave-one-out), "
        "30 % held out. Bold: the best and all within one standard error of the paired difference."
    )


def _starts(runs: list[Any]) -> str:
    if not runs:
        return ""
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
    return (
        "## The rings from many starts\n\n"
        "No start knows the plane: the classes have one mean, so that LDA and RCA (auto) see "
        "chance differences only, and the noise has the largest variance. "
        f"{len(runs)} draws of the rings, other ones than above; the plane is found when "
        f"leave-one-out 1-NN is above {100 * FOUND:g} %.\n\n"
        + table(header, rows)
        + "\n\nf is the paper's objective. Losses (−f or the mean of −log p, penalty included) "
        "are means over the draws, comparable within a setting only. Neighbours: how many a row "
        "consults at the start, in the mean; the log objective chooses the scale of every start, "
        "also for f, penalty included. Columns are standardised; seconds are of one core."
    )


_PROTOCOL = """\
## Protocol and assumptions

- *rings*: 500 rows, five circles of radius 0.2, 0.4, …, 1 (standard deviation across 0.02), and a
  third column of Gaussian noise of variance one. The paper gives no radii or variances.
- *wine*: all 178 rows. Its columns have units of their own and are standardised before PCA and NCA;
  those of the other sets share one factor.
- *faces*: the paper has 1800 images of 18 persons, 20 × 28 pixels, which we have not. Here: the
  first 18 persons of the Olivetti set, 10 images each, 64 × 64 pixels averaged down to 16 × 16.
- *digits*: USPS "one" to "five", 200 of each, averaged down to 8 × 8 pixels. (The caption of the
  paper's figure says D = 256, its text 64.)
- *PCA*: two orthonormal directions. *LDA*: two unit eigenvectors of S_W⁻¹ S_B in standardised
  columns, scikit-learn's.
- *NCA* maximises f (eq. 3) without a penalty: `NCA(2, objective="accuracy", alpha=0)`, one start,
  RCA. The paper does not name its own.
- *NCA, defaults* is `NCA(2)`: the log objective, α = 0.003, standardised columns.
- Axes have the same unit in both directions; a map's overall size is not shown."""
