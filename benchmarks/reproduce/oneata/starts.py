"""Pictures of the starts: before and after learning (Oneață's figures 3.3, B.1, B.2 and B.3)."""

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
from reproduce.oneata.common import PLAIN, OwnScale, expected_accuracy, leave_one_out, random_start

FIGURES = {"wine": "3.3", "iris": "b.1", "balance": "b.2", "ecoli": "b.3"}


STARTS = {"random": "random", "pca": "PCA", "lda": "LDA", "rca": "RCA"}


SCALES = ("own", "chosen")


#: degrees; directions that turn by less stay
STILL = 0.1


#: draws of the random start; the first is shown
DRAWS = 10


def jobs(splits: int | None) -> Iterator[Job]:
    """Each start at the scale of its own formula and at the one vicinal chooses."""
    for name, start, scale in product(FIGURES, STARTS, SCALES):
        for seed in range(DRAWS if start == "random" and splits is None else 1):
            yield {"data": name, "init": start, "scale": scale, "seed": seed}


def work(data: str, init: str, scale: str, seed: int) -> dict[str, Any]:
    """Embedded rows and leave-one-out scores, before and after."""
    from vicinal import NCA

    X, y = protocol.data(data)
    start: Any = init
    if scale == "own":
        start = random_start(X, 2, seed, size=1.0) if init == "random" else OwnScale(init)
    parameters = {**PLAIN, "init": start, "solver": "cg", "random_state": seed, "max_iter": 1000}
    # any gradient is below this tolerance: the map is the start
    before = NCA(2, **parameters, tol=1e6).fit(X, y)
    after = NCA(2, **parameters).fit(X, y)
    result: dict[str, Any] = {
        "iterations": after.n_iter_,
        "angle": _angle(before.components_, after.components_),
    }
    for name, model in (("before", before), ("after", after)):
        Z = model.transform(X)
        result[name] = {
            "Z": np.round((Z - Z.mean(axis=0)) / Z.std(), 4).tolist(),
            "f": expected_accuracy(Z, y),
            "1-NN": leave_one_out(Z, y),
        }
    return result


def _angle(A: Any, B: Any) -> float:
    """The largest angle between the row spaces of two maps, in degrees."""
    from scipy.linalg import subspace_angles

    return float(np.degrees(subspace_angles(A.T, B.T)[0]))


def parts(done: list[Done]) -> dict[str, Any]:
    """Four pictures, and a table of their scores."""
    rows = []
    for each in done:
        result, (name, start, scale) = each.result, _place(each)
        if each.job["seed"] == 0:
            values = (*_scores(result["before"]), *_scores(result["after"]), result["iterations"])
            rows.append([name, STARTS[start], scale, *values])
    head = ["data", "start", "scale", "f before", "1-NN before", "f after", "1-NN after"]
    return {
        "finding": bullets(*(_ends(done, scale) for scale in SCALES)),
        "draws": max((each.job["seed"] + 1 for each in done), default=0),
        "table": table([*head, "iterations"], rows),
        "balance": _balance(done),
    }


def _balance(done: list[Done]) -> str:
    """That LDA and RCA keep their directions on balance, if they do."""
    found = [
        each.result
        for each in done
        if each.job["data"] == "balance" and each.job["init"] in ("lda", "rca")
    ]
    angles = [result.get("angle", 90.0) for result in found]
    rise = all(result["after"]["f"] > result["before"]["f"] for result in found)
    if not found or max(angles) > STILL or not rise:
        return ""
    return (
        "On balance LDA and RCA change the scales of their two directions only: f rises, and the "
        f"directions stay (to {STILL:g} degrees). The rows are a complete, symmetric grid, and "
        "their start is symmetric too, probably a saddle; on random parts of the rows (table B.3) "
        "they leave it."
    )


def _place(each: Done) -> tuple[str, str, str]:
    return each.job["data"], each.job["init"], each.job["scale"]


def _scores(result: dict[str, float]) -> list[str]:
    return [f"{100 * result['f']:.1f}", f"{100 * result['1-NN']:.1f}"]


def _f_after(done: list[Done], scale: str) -> dict[str, dict[str, list[float]]]:
    """By set and start, where the draws end: f(A) in per cent, to a tenth."""
    found: dict[str, dict[str, list[float]]] = {}
    for each in done:
        name, start, where = _place(each)
        if where == scale:
            end = round(100 * each.result["after"]["f"], 1)
            found.setdefault(name, {}).setdefault(start, []).append(end)
    return found


def _best_and_beaten(done: list[Done], scale: str) -> tuple[list[str], list[str], int, int]:
    """Sets on which RCA ends best and worst; draws of random that end above RCA, and all draws."""
    best, worst, above, draws = [], [], 0, 0
    for name, ends in _f_after(done, scale).items():
        if "rca" not in ends or len(ends) < len(STARTS):
            continue
        rca = ends["rca"][0]
        others = [ends[start][0] for start in ("pca", "lda")] + [float(np.median(ends["random"]))]
        best += [name] if rca >= max(others) else []
        worst += [name] if rca <= min(others) else []
        above, draws = above + sum(end > rca for end in ends["random"]), draws + len(ends["random"])
    return best, worst, above, draws


def _ends(done: list[Done], scale: str) -> str:
    best, worst, above, draws = _best_and_beaten(done, scale)
    return (
        f"at {'its own' if scale == 'own' else 'the chosen'} scale RCA ends best on "
        f"{' and '.join(best) or 'none'} and worst on {' and '.join(worst) or 'none'}, ties "
        f"included, against PCA, LDA and the median of the random draws; {above} of {draws} random "
        "draws end above RCA"
    )


def claims(done: list[Done]) -> Iterator[Claim]:
    """RCA is the best start; random is sometimes surprisingly good."""
    best, _, above, draws = _best_and_beaten(done, "own")
    if draws:
        n = len(_f_after(done, "own"))
        yield Claim(
            "RCA is the best of the starts (figures 3.3, B.1, B.2, B.3; f(A) at the end)",
            "seen" if len(best) == n else "partly" if best else "not seen",
            f"best on {len(best)} of {n} sets, ties included",
        )
        yield Claim(
            "A random start is sometimes surprisingly good",
            "seen" if above else "not seen",
            f"{above} of {draws} random draws end above RCA",
        )


def draw(done: list[Done], folder: Path) -> None:
    """A picture for each set."""
    found = {_place(each): each.result for each in done if each.job["seed"] == 0}
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
        claims=claims,
    ),
)
