"""Oneață's projections to two dimensions (figures 5.3 and 5.4)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from reproduce.experiment import Done, Experiment, Job
from reproduce.oneata_fast import rows_and_split, thesis
from reproduce.protocol import knn
from reproduce.report import picture, pyplot, square_frame, table

#: the figures by data set
FIGURES = {"usps": "5.3", "magic": "5.4"}
METHODS = {
    "SL": "stochastic learning",
    "SL CS": "stochastic learning, compact kernel",
    "defaults": "vicinal's defaults",
}


def jobs(splits: int | None) -> Iterator[Job]:
    """Both sets by three methods."""
    for name, method in product(FIGURES, METHODS):
        yield {"data": name, "method": method, "split": 0}


def work(data: str, method: str, split: int) -> dict[str, Any]:
    """Embedded test rows, and scores."""
    from vicinal import NCA

    X, y, train, test = rows_and_split(data, split)
    model = NCA(2, random_state=split) if method == "defaults" else thesis(method, 2, split)
    model.fit(X[train], y[train])
    Z, Z_test = model.transform(X[train]), model.transform(X[test])
    shown = (Z_test - np.median(Z_test, axis=0)) / np.std(Z_test)
    return {
        "Z": np.round(shown, 3).tolist(),
        "y": y[test].tolist(),
        "NCA": float(model.score(X[test], y[test])),
        "1-NN": knn(Z, y[train], Z_test, y[test]),
        "iterations": int(model.n_iter_),
        "seconds": model.history_["seconds"][-1],
    }


def report(done: list[Done], folder: Path) -> str:
    """Both pictures and a table."""
    found = {(each.job["data"], each.job["method"]): each.result for each in done}
    names = [name for name in FIGURES if any(name == data for data, _ in found)]
    rows = [
        [
            name,
            words,
            f"{100 * result['NCA']:.2f}",
            f"{100 * result['1-NN']:.2f}",
            result["iterations"],
        ]
        for name, (method, words) in product(names, METHODS.items())
        if (result := found.get((name, method))) is not None
    ]
    pictures = "\n\n".join(
        f"## {name} (figure {FIGURES[name]})\n\n{_draw(name, found, folder)}" for name in names
    )
    return f"""{_finding(names, found)}

{table(["set", "method", "NCA rule", "1-NN", "iterations"], rows)}

Accuracy in per cent on the test rows, one split; the standard error from their number is about 0.8
on usps and 0.5 on magic.

{pictures}

## Protocol and assumptions

Oneață 2011, figures 5.3 and 5.4. d = 2; 70 % of the rows learnt from, the others shown, brought to
the same spread (a few points may lie outside the frame). Stochastic learning: accuracy objective,
no penalty, standardised columns, 50 queries a step, RCA start at the scale of its own formula, rate
η/(t + t₀) with t₀ searched on held-out rows, early stopping (5 % held out, patience 25), at most
1,000 steps. The compact kernel has no background. "vicinal's defaults" is `NCA(2)`. The thesis does
not name the two variants it shows in each figure; we take those of sections 5.3.3 and 5.4.2."""


def _finding(names: list[str], found: dict[Any, Any]) -> str:
    parts, gaps = [], []
    for name in names:
        scores = {
            words: 100 * found[name, method]["NCA"]
            for method, words in METHODS.items()
            if (name, method) in found
        }
        gaps.append(f"{max(scores.values()) - min(scores.values()):.1f} points on {name}")
        each = ", ".join(f"{words} {score:.1f} %" for words, score in scores.items())
        parts.append(f"{name}: {each}")
    if not parts:
        return "Not run yet."
    return (
        f"In two dimensions the three maps differ by {' and '.join(gaps)} in test accuracy by the "
        f"NCA rule, and by little to the eye. {'; '.join(parts)}."
    )


def _draw(name: str, found: dict[Any, Any], folder: Path) -> str:
    from vicinal import plotting

    methods = [method for method in METHODS if (name, method) in found]
    plt = pyplot()
    figure, axes = plt.subplots(
        1,
        len(methods),
        figsize=(3.7 * len(methods) + 0.4, 4.0),
        layout="constrained",
        squeeze=False,
    )
    for ax, method in zip(axes[0], methods, strict=True):
        result = found[name, method]
        Z, y = np.array(result["Z"]), np.array(result["y"])
        title = f"{METHODS[method]}: {100 * result['NCA']:.1f} %"
        last = method == methods[-1]
        plotting.scatter(Z, y, ax, title=title, legend=last, size=4)
        ax.title.set_fontsize("medium")
        square_frame(ax, Z)
    words = f"Test rows of {name} in two dimensions by {', '.join(METHODS[m] for m in methods)}"
    shown = picture(figure, folder, f"oneata-figure-{FIGURES[name]}", words)
    plt.close(figure)
    return shown


EXPERIMENTS = (
    Experiment(
        "oneata-figures-5.3-5.4",
        "usps and magic in two dimensions (Oneață 2011, figures 5.3 and 5.4)",
        jobs,
        work,
        report,
    ),
)
