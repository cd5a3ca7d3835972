"""Pictures of the starts: before and after learning (Oneață's figures 3.3, B.1, B.2 and B.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from reproduce.framework import protocol
from reproduce.framework.experiment import Done, Experiment, Job
from reproduce.framework.pages import table
from reproduce.framework.pictures import picture, pyplot
from reproduce.oneata.common import PLAIN, OwnScale, expected_accuracy, leave_one_out, random_start

FIGURES = {"wine": "3.3", "iris": "b.1", "balance": "b.2", "ecoli": "b.3"}


STARTS = {"random": "random", "pca": "PCA", "lda": "LDA", "rca": "RCA"}


SCALES = ("own", "chosen")


def jobs(splits: int | None) -> Iterator[Job]:
    """Each start at the scale of its own formula and at the one vicinal chooses."""
    for name, start, scale in product(FIGURES, STARTS, SCALES):
        yield {"data": name, "init": start, "scale": scale}


def work(data: str, init: str, scale: str) -> dict[str, Any]:
    """Embedded rows and leave-one-out scores, before and after."""
    from vicinal import NCA

    X, y = protocol.data(data)
    start: Any = init
    if scale == "own":
        start = random_start(X, 2, seed=0, size=1.0) if init == "random" else OwnScale(init)
    parameters = {**PLAIN, "init": start, "solver": "cg", "random_state": 0, "max_iter": 1000}
    # any gradient is below this tolerance: the map is the start
    before = NCA(2, **parameters, tol=1e6).fit(X, y)
    after = NCA(2, **parameters).fit(X, y)
    result: dict[str, Any] = {"iterations": after.n_iter_}
    for name, model in (("before", before), ("after", after)):
        Z = model.transform(X)
        result[name] = {
            "Z": np.round((Z - Z.mean(axis=0)) / Z.std(), 4).tolist(),
            "f": expected_accuracy(Z, y),
            "1-NN": leave_one_out(Z, y),
        }
    return result


def parts(done: list[Done]) -> dict[str, Any]:
    """Four pictures, and a table of their scores."""
    found = {(each.job["data"], each.job["init"], each.job["scale"]): each.result for each in done}
    rows = []
    for (name, start, scale), result in found.items():
        values = (*_scores(result["before"]), *_scores(result["after"]), result["iterations"])
        rows.append([name, STARTS[start], scale, *values])
    head = ["data", "start", "scale", "f before", "1-NN before", "f after", "1-NN after"]
    return {"finding": _finding(found), "table": table([*head, "iterations"], rows)}


def _scores(result: dict[str, float]) -> list[str]:
    return [f"{100 * result['f']:.1f}", f"{100 * result['1-NN']:.1f}"]


def _finding(found: dict[tuple[str, str, str], dict[str, Any]]) -> str:
    """The thesis's claims about RCA and random starts beside where they end, ties included."""

    def where(start: str, place: Callable[..., float]) -> str:
        words = []
        for scale in SCALES:
            names = []
            for name in FIGURES:
                ends = {s: round(found[name, s, scale]["after"]["f"], 3) for s in STARTS
                        if (name, s, scale) in found}  # fmt: skip
                if start in ends and len(set(ends.values())) > 1:
                    names += [name] if ends[start] == place(ends.values()) else []
            words.append(f"on {' and '.join(names) or 'none'} at its {scale} scale")
        return " and ".join(words).replace("its chosen", "the chosen")

    return (
        'The thesis: "RCA seems to be the best option for initialization". Here RCA, which is LDA '
        "in these figures, ends with the worst f(A) of the starts, ties included, "
        f"{where('rca', min)}, and with the best {where('rca', max)}. Random, in the thesis "
        f'"sometimes surprisingly good", ends best {where("random", max)}; it is one draw (seed 0) '
        "each."
    )


def draw(done: list[Done], folder: Path) -> None:
    """A picture for each set."""
    found = {(each.job["data"], each.job["init"], each.job["scale"]): each.result for each in done}
    for name, figure in FIGURES.items():
        if any(key[0] == name for key in found):
            _picture(found, name, figure, folder)


def _picture(found: dict[Any, Any], name: str, figure: str, folder: Path) -> None:
    from vicinal import plotting

    y, plt = protocol.data(name)[1], pyplot()
    starts = [start for start in STARTS if (name, start, "own") in found]
    drawing, axes = plt.subplots(
        2, len(starts), figsize=(2.9 * len(starts), 5.6), layout="constrained", squeeze=False
    )
    for column, start in zip(axes.T, starts, strict=True):
        for ax, when in zip(column, ("before", "after"), strict=True):
            result = found[name, start, "own"][when]
            words = STARTS[start] if when == "before" else "after learning"
            title = f"{words}: {100 * result['f']:.1f}"
            plotting.scatter(result["Z"], y, ax, title=title, legend=False, size=12)
            ax.title.set_fontsize("medium")
    drawing.suptitle(f"{name}: start (top) and result (bottom), with f(A) in per cent")
    picture(drawing, folder, f"oneata-figure-{figure}")


EXPERIMENTS = (
    Experiment(
        "oneata-figures-starts",
        "Starts and where they end (Oneață 2011, figures 3.3, B.1, B.2, B.3)",
        jobs,
        work,
        parts,
        draw,
        drawn=("Z",),
    ),
)
