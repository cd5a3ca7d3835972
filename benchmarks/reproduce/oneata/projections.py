"""Oneață's projections to two dimensions (figures 5.3 and 5.4)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from reproduce.framework.experiment import Claim, Done, Experiment, Job
from reproduce.framework.pages import table
from reproduce.framework.pictures import picture, pyplot, square_frame
from reproduce.framework.protocol import knn
from reproduce.framework.statistics import summary
from reproduce.oneata.fast import rows_and_split, thesis
from reproduce.oneata.judging import (
    SLIGHT,
    SLIGHTLY,
    claim,
    gap,
    n_splits,
    outcome,
    seen_means,
    slight_loss,
    words,
)
from reproduce.oneata.large import in_short

#: the figures by data set
FIGURES = {"usps": "5.3", "magic": "5.4"}


#: random splits; the first is shown
SPLITS = 10


#: ten colours that can be told apart (those of Tableau), for the classes in order
COLOURS = (
    "#1f77b4",
    "#ff7f0e",
    "#2ca02c",
    "#d62728",
    "#9467bd",
    "#8c564b",
    "#e377c2",
    "#7f7f7f",
    "#bcbd22",
    "#17becf",
)


METHODS = {
    "SL": "stochastic learning",
    "SL CS": "stochastic learning, compact kernel",
    "defaults": "vicinal's defaults",
}


def jobs(splits: int | None) -> Iterator[Job]:
    """Both sets by three methods."""
    for split, name, method in product(range(splits or SPLITS), FIGURES, METHODS):
        yield {"data": name, "method": method, "split": split}


def work(data: str, method: str, split: int) -> dict[str, Any]:
    """Embedded test rows, and scores."""
    from vicinal import NCA

    X, y, train, test = rows_and_split(data, split)
    model = NCA(2, random_state=split) if method == "defaults" else thesis(method, 2, split)
    model.fit(X[train], y[train])
    Z, Z_test = model.transform(X[train]), model.transform(X[test])
    shown = (Z_test - np.median(Z_test, axis=0)) / np.std(Z_test)
    drawn = {"Z": np.round(shown, 3).tolist(), "y": y[test].tolist()} if split == 0 else {}
    return {
        **drawn,
        "alpha": float(model.alpha_),
        "NCA": float(model.score(X[test], y[test])),
        "1-NN": knn(Z, y[train], Z_test, y[test]),
        "iterations": int(model.n_iter_),
    }


def parts(done: list[Done]) -> dict[str, Any]:
    """Both pictures and a table."""
    rows = [
        [name, words, *(summary(done, key, data=name, method=method) for key in ("NCA", "1-NN"))]
        for name, (method, words) in product(FIGURES, METHODS.items())
        if summary(done, "NCA", data=name, method=method) is not None
    ]
    alphas = [each.result["alpha"] for each in done if each.job["method"] == "defaults"]
    return {
        "kernel": _by_set(done, "SL CS", "SL"),
        "defaults": _by_set(done, "defaults", "SL"),
        "splits": n_splits(done),
        "seen": seen_means(SLIGHTLY),
        "alphas": f"{min(alphas):.2g} to {max(alphas):.2g}" if alphas else "(not run yet)",
        "table": table(["set", "method", "NCA rule", "1-NN"], rows),
    }


def _by_set(done: list[Done], first: str, second: str) -> str:
    return " and ".join(
        f"{words(gap(done, first, second, key='method', data=name))} points on {name}"
        for name in FIGURES
    )


def claims(done: list[Done]) -> Iterator[Claim]:
    """How far apart the two maps of each figure are."""
    gaps = {name: gap(done, "SL CS", "SL", key="method", data=name) for name in FIGURES}
    known = {name: each for name, each in gaps.items() if each is not None}
    yield from claim(
        "The compact kernel is slightly less accurate than the Gaussian one (d = 2)",
        outcome(known.values(), slight_loss(SLIGHT)),
        in_short(known),
    )


def draw(done: list[Done], folder: Path) -> None:
    """A picture for each set."""
    found = {
        (each.job["data"], each.job["method"]): each.result
        for each in done
        if each.job["split"] == 0
    }
    for name in FIGURES:
        if any(name == data for data, _ in found):
            _draw(name, found, folder)


def _draw(name: str, found: dict[Any, Any], folder: Path) -> None:
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
        coloured(ax, Z, y, title, legend=last)
        square_frame(ax, Z)
    picture(figure, folder, f"oneata-figure-{FIGURES[name]}")


def coloured(ax: Any, Z: Any, y: Any, title: str, size: float = 4, legend: bool = False) -> None:
    """Rows in two dimensions in the colours of their classes, in a random order."""
    classes, codes = np.unique(y, return_inverse=True)
    order = np.random.RandomState(0).permutation(len(Z))
    ax.scatter(*Z[order].T, s=size, lw=0, c=np.array(COLOURS)[codes[order]])
    ax.set(xticks=(), yticks=())
    ax.set_title(title, fontsize="medium")
    if legend:
        for label, colour in zip(classes, COLOURS, strict=False):
            ax.scatter([], [], s=30, color=colour, label=str(label))
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize="small")


EXPERIMENTS = (
    Experiment(
        "oneata-figures-5.3-5.4",
        "usps and magic in two dimensions (Oneață 2011, figures 5.3 and 5.4)",
        jobs,
        work,
        parts,
        draw,
        drawn=("Z", "y"),
        claims=claims,
    ),
)
