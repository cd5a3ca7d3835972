"""Oneață's dimensionality annealing on ionosphere (figure 3.4)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from reproduce.framework import protocol
from reproduce.framework.experiment import Claim, Done, Experiment, Job
from reproduce.framework.pages import bullets, table
from reproduce.framework.pictures import picture, pyplot
from reproduce.framework.protocol import knn, rows_70_30
from reproduce.framework.statistics import summary
from reproduce.oneata.common import (
    PLAIN,
    OwnScale,
    expected_accuracy,
    leave_one_out,
    random_start,
)
from reproduce.oneata.judging import CLEAR, claim, gap, n_splits, outcome, seen_means, words

#: which row annealing removes: three rules of section 3.3.6
RULES = {
    "data": "least variance in the data",
    "projected": "least projected variance",
    "norm": "least norm of the row",
}


#: fits: kind and start
FITS = {
    "RCA": ("plain", "auto"),
    "PCA": ("plain", "pca"),
    "random": ("plain", "random"),
    "RCA, chosen scale": ("chosen scale", "auto"),
    **{f"annealed: {words}": ("annealing", rule) for rule, words in RULES.items()},
}


#: plain NCA, from either start: the thesis does not say which it has
BASES, ANNEALED = ("random", "RCA"), [fit for fit in FITS if fit.startswith("annealed")]


WORDS = {"random": "a random start", "RCA": "RCA"}


#: random splits next to the picture, which has all rows
SPLITS, ALL_ROWS = 10, "all rows"


def jobs(splits: int | None) -> Iterator[Job]:
    """All rows, for the picture and its scores; and random splits, for test scores."""
    for split, fit in product((ALL_ROWS, *range(splits or SPLITS)), FITS):
        yield {"data": "ionosphere", "fit": fit, "split": split}


def work(data: str, fit: str, split: int | str) -> dict[str, Any]:
    """Leave-one-out scores of the rows learnt from, test scores, and the embedded rows."""
    from vicinal import NCA, starts

    X, y = protocol.data(data)
    whole = split == ALL_ROWS
    train, test = (np.arange(len(y)), None) if whole else rows_70_30(len(y), int(split))
    seed = 0 if whole else int(split)
    kind, start = FITS[fit]
    init: Any = start
    if kind == "annealing":
        init = starts.Annealing(select=start)
    elif kind == "plain":
        init = random_start(X[train], 2, seed, 1.0) if start == "random" else OwnScale(start)
    model = NCA(2, **PLAIN, init=init, max_iter=1000, random_state=seed).fit(X[train], y[train])
    Z = model.transform(X[train])
    found = {
        "f": expected_accuracy(Z, y[train]),
        "leave-one-out": leave_one_out(Z, y[train]),
        "iterations": model.n_iter_,
    }
    if test is None:
        return {**found, "Z": np.round((Z - Z.mean(axis=0)) / Z.std(), 4).tolist()}
    found["1-NN"] = knn(Z, y[train], model.transform(X[test]), y[test])
    return {**found, "NCA": float(model.score(X[test], y[test]))}


def draw(done: list[Done], folder: Path) -> None:
    """The plain pictures against the annealed ones."""
    from vicinal import plotting

    panels = [each for each in done if each.job["split"] == ALL_ROWS]
    if not panels:
        return
    y = protocol.data("ionosphere")[1]
    plt = pyplot()
    lines = -(-len(panels) // 4)
    figure, axes = plt.subplots(
        lines, 4, figsize=(12.0, 3.1 * lines), layout="constrained", squeeze=False
    )
    for ax, each in zip(axes.flat, panels, strict=False):
        first = "start: " if not each.job["fit"].startswith("annealed") else ""
        scores = (100 * each.result[key] for key in ("f", "leave-one-out"))
        title = "{}{}\nf(A) {:.1f}, 1-NN {:.1f}".format(first, each.job["fit"], *scores)
        plotting.scatter(each.result["Z"], y, ax, title=title, legend=False, size=12)
        ax.title.set_fontsize("small")
    for ax in axes.flat[len(panels) :]:
        ax.axis("off")
    picture(figure, folder, "oneata-figure-3.4")


def parts(done: list[Done]) -> dict[str, Any]:
    """Where annealing ends against plain starts, on all rows and on splits."""
    whole = {e.job["fit"]: e.result for e in done if e.job["split"] == ALL_ROWS}
    on_splits = _on_splits(done)
    rows = []
    for fit in FITS:
        here = whole.get(fit)
        cells = [f"{100 * here[key]:.1f}" if here else None for key in ("f", "leave-one-out")]
        rows.append([fit, *cells, *(summary(on_splits, k, fit=fit) for k in ("f", "1-NN", "NCA"))])
    head = ["fit", "f(A), all rows", "1-NN, all rows", "f(A), splits", "1-NN, test", "NCA, test"]
    return {
        "gains": "\n\n".join(
            f"Beside plain NCA from {WORDS[base]}:\n\n"
            + bullets(*(_gain(on_splits, fit, base) for fit in ANNEALED))
            for base in BASES
        ),
        "seen": seen_means(
            f"a difference if it is on the thesis's side by more than {CLEAR:g} standard errors "
            'for all three rules of annealing and both starts of plain NCA ("partly": for some)'
        ),
        "splits": n_splits(on_splits),
        "table": table(head, rows),
    }


def _on_splits(done: list[Done]) -> list[Done]:
    return [each for each in done if each.job["split"] != ALL_ROWS]


def _gain(on_splits: list[Done], fit: str, base: str) -> str:
    told = [
        f"{words(gap(on_splits, fit, base, score))} {name}"
        for score, name in (("f", "of f(A)"), ("1-NN", "of 1-NN"), ("NCA", "of the NCA rule"))
    ]
    return f"{fit}: {', '.join(told)}"


def claims(done: list[Done]) -> Iterator[Claim]:
    """Annealing avoids local optima, and its projection is better."""
    on_splits = _on_splits(done)
    for says, score in (
        (
            "Annealing avoids local optima: higher f(A) than from a random start and from RCA "
            "(ionosphere)",
            "f",
        ),
        (
            "Annealing gives a better projection than a random start and RCA (ionosphere, test "
            "1-NN)",
            "1-NN",
        ),
    ):
        found, told = [], []
        for base in BASES:
            gaps = [gap(on_splits, fit, base, score) for fit in ANNEALED]
            known = sorted(each for each in gaps if each is not None)
            if known:
                found += known
                told.append(f"{base} {known[0]} to {known[-1]}")
        yield from claim(says, outcome(found), "; ".join(told))


EXPERIMENTS = (
    Experiment(
        "oneata-figure-3.4",
        "Dimensionality annealing on ionosphere (Oneață 2011, figure 3.4)",
        jobs,
        work,
        parts,
        draw,
        drawn=("Z",),
        claims=claims,
    ),
)
