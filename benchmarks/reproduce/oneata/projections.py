"""Oneață's projections to two dimensions (figures 5.3 and 5.4)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from reproduce.framework.experiment import Done, Experiment, Job
from reproduce.framework.pages import table
from reproduce.framework.pictures import picture, pyplot, square_frame
from reproduce.framework.protocol import knn
from reproduce.oneata.fast import rows_and_split, thesis

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


def parts(done: list[Done]) -> dict[str, Any]:
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
    return {
        "finding": _finding(names, found),
        "table": table(["set", "method", "NCA rule", "1-NN", "iterations"], rows),
    }


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


def draw(done: list[Done], folder: Path) -> None:
    """A picture for each set."""
    found = {(each.job["data"], each.job["method"]): each.result for each in done}
    for name in FIGURES:
        if any(name == data for data, _ in found):
            _draw(name, found, folder)


def _draw(name: str, found: dict[Any, Any], folder: Path) -> None:
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
    picture(figure, folder, f"oneata-figure-{FIGURES[name]}")


EXPERIMENTS = (
    Experiment(
        "oneata-figures-5.3-5.4",
        "usps and magic in two dimensions (Oneață 2011, figures 5.3 and 5.4)",
        jobs,
        work,
        parts,
        draw,
        drawn=("Z", "y"),
    ),
)
