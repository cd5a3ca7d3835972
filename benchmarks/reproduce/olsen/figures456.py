"""Olsen & Petersen, figures 4 to 6: the maps that χ²-LMNN learns on wine and on webcam."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from reproduce.framework.experiment import Done, Experiment, Job
from reproduce.framework.pages import table
from reproduce.framework.pictures import picture, pyplot
from reproduce.framework.protocol import data as stored
from reproduce.olsen.common import K, chi2_1nn, folds, histograms
from vicinal import Chi2LMNN
from vicinal.initialise import BinGroups, BinIdentity

#: number of the figure: data and bins of the map (None: as many as the data have)
FIGURES: dict[int, tuple[str, int | None]] = {
    4: ("wine", None),
    5: ("webcam", 10),
    6: ("webcam", 20),
}

#: the report's start, cut to r rows where r < D; and groups of bins, the default where r < D
STARTS = {"identity": BinIdentity(), "groups": BinGroups()}

SPLITS = 2

#: columns shown of the 800 of webcam, and the least entry with a colour
SHOWN, LEAST = 200, 1e-4


def jobs(splits: int | None) -> Iterator[Job]:
    """A job for each fold, figure and start; a square map has the report's start alone."""
    for split, figure, start in product(range(splits or SPLITS), FIGURES, STARTS):
        name, rank = FIGURES[figure]
        if rank is not None or start == "identity":
            yield {"data": name, "split": split, "figure": figure, "start": start}


def work(data: str, split: int, figure: int, start: str) -> dict[str, Any]:
    """The learnt map, how it spreads the bins, and the impostors on the way."""
    X, y = stored(data)
    H, y = histograms(X), np.asarray(y)
    train, test = folds(y, split)
    rank = min(FIGURES[figure][1] or H.shape[1], H.shape[1])
    model = Chi2LMNN(rank, k=K, init=STARTS[start], random_state=split).fit(H[train], y[train])
    L = model.components_
    impostors = [int(count) for count in model.history_["n_impostors"]]
    return {
        **_spread(L),
        "impostors at the start": impostors[0],
        "impostors after one step": impostors[min(1, len(impostors) - 1)],
        "impostors at the end": impostors[-1],
        "held out": chi2_1nn(model.transform(H), y, train, test),
        "margin": float(model.margin_),
        "matrix": [[float(f"{entry:.4g}") for entry in row] for row in L[:, :SHOWN]],
    }


def _spread(L: Any) -> dict[str, float]:
    """How many bins a column is spread over, what is zero, and what stays where it was."""
    log = np.log(np.where(L > 0, L, 1.0))
    diagonal = np.diag(L)
    return {
        "bins a column": float(np.mean(np.exp(-np.sum(L * log, axis=0)))),
        "zeros": float(np.mean(L <= 1e-12)),
        "kept": float(diagonal.mean()),
        "kept at least": float(diagonal.min()),
        "largest bin": float(L.sum(axis=1).max() / L.shape[1]),
    }


def _of(done: list[Done], figure: int, start: str) -> list[dict[str, Any]]:
    wanted = {"figure": figure, "start": start}.items()
    return [each.result for each in done if wanted <= each.job.items()]


def _cases(done: list[Done]) -> list[tuple[int, str, list[dict[str, Any]]]]:
    """Figures and starts of which something is done."""
    found = [(figure, start, _of(done, figure, start)) for figure in FIGURES for start in STARTS]
    return [case for case in found if case[2]]


def _words(figure: int, start: str) -> str:
    name, rank = FIGURES[figure]
    return f"{name}, {start}" if rank is None else f"{name}, r = {rank}, {start}"


def parts(done: list[Done]) -> dict[str, Any]:
    """What was found, a table of the maps, the impostors, and numbers of the protocol."""
    return {
        "finding": _finding(done),
        "table": _table(done),
        "impostors": _impostors(done),
        "splits": len({each.job["split"] for each in done}),
        "k": K,
        "shown": SHOWN,
        "least": f"{LEAST:g}",
    }


def _mean(results: list[dict[str, Any]], key: str) -> float:
    return float(np.mean([result[key] for result in results]))


def _finding(done: list[Done]) -> str:
    told = []
    wine = _of(done, 4, "identity")
    if wine:
        told.append(
            "The report finds the map of wine close to the identity; here a bin keeps "
            f"{100 * _mean(wine, 'kept'):.0f} % of itself in the mean over bins and folds, and "
            f"{100 * _mean(wine, 'kept at least'):.0f} % at least."
        )
    for figure in (5, 6):
        results = _of(done, figure, "groups") or _of(done, figure, "identity")
        if results:
            told.append(
                f"On webcam at r = {FIGURES[figure][1]} a column has "
                f"{100 * _mean(results, 'zeros'):.0f} % zeros and is spread over "
                f"{_mean(results, 'bins a column'):.1f} bins."
            )
    return " ".join(told)


def _table(done: list[Done]) -> str:
    header = ["figure", "data, bins and start", "zeros, %", "bins a column",
              "largest bin, %", "1-NN held out, %"]  # fmt: skip
    rows = [
        [figure, _words(figure, start), f"{100 * _mean(of, 'zeros'):.0f}",
         f"{_mean(of, 'bins a column'):.2f}",
         f"{100 * _mean(of, 'largest bin'):.0f}", f"{100 * _mean(of, 'held out'):.1f}"]
        for figure, start, of in _cases(done)
    ]  # fmt: skip
    return table(header, rows)


def _impostors(done: list[Done]) -> str:
    keys = ("impostors at the start", "impostors after one step", "impostors at the end")
    rows = [
        [_words(figure, start), *(f"{_mean(of, key):,.0f}" for key in keys)]
        for figure, start, of in _cases(done)
    ]
    return table(["", *keys], rows)


def draw(done: list[Done], folder: Path) -> None:
    """The maps of the first fold that is done, on a logarithmic scale; zeros are white."""
    from matplotlib.colors import LogNorm

    plt, found = pyplot(), {}
    for each in sorted(done, key=lambda each: each.job["split"]):
        found.setdefault((each.job["figure"], each.job["start"]), each.result)
    figure, axes = plt.subplots(
        len(found), 1, figsize=(9.6, 2.4 * len(found)), layout="constrained", squeeze=False
    )
    for ax, (number, start) in zip(axes[:, 0], sorted(found), strict=True):
        L = np.array(found[number, start]["matrix"])
        shown = np.ma.masked_less(L, LEAST)
        norm = LogNorm(LEAST, 1.0)
        image = ax.imshow(shown, norm=norm, cmap="viridis", aspect="auto", interpolation="nearest")
        ax.set(ylabel="bin of the map", title=f"figure {number}: {_words(number, start)}")
    axes[-1, 0].set_xlabel("bin of the data")
    figure.colorbar(image, ax=axes[:, 0].tolist(), shrink=0.6)
    picture(figure, folder, "olsen-petersen-figures-4-6")


EXPERIMENTS = (
    Experiment(
        "olsen-petersen-figures-4-6",
        "Olsen & Petersen figures 4 to 6: the maps learnt on wine and webcam",
        jobs,
        work,
        parts,
        draw,
        drawn=("matrix",),
    ),
)
