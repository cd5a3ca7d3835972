"""Oneață's figures: early stopping (3.2) and dimensionality annealing (3.4)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from reproduce.framework import protocol
from reproduce.framework.experiment import Done, Experiment, Job
from reproduce.framework.pages import table
from reproduce.framework.pictures import picture, plain_frame, pyplot
from reproduce.oneata.common import (
    EARLY,
    PLAIN,
    OwnScale,
    expected_accuracy,
    leave_one_out,
    random_start,
    scores,
)

#: figure 3.4: plain starts (random ones by seed), and what annealing calls the row to remove
PLAIN_STARTS = (("auto", 0), ("pca", 0), *(("random", seed) for seed in range(5)))


ANNEALED = ("data", "projected", "norm")


def stopping_jobs(splits: int | None) -> Iterator[Job]:
    """A single one; change ``rows`` here for a quick look."""
    yield {"data": "mnist", "rows": 60000, "max_iter": 180}


def stopping_work(data: str, rows: int, max_iter: int) -> dict[str, Any]:
    """Errors per iteration, and the test scores of the map that was kept."""
    from vicinal import NCA

    X, y = protocol.data(data)
    train, test = protocol.official(data)
    train = np.sort(np.random.RandomState(0).permutation(train)[:rows])
    X = X.astype(np.float32)
    # L-BFGS: one evaluation an iteration, where conjugate gradients take two
    model = NCA(5, **PLAIN, **EARLY, init=OwnScale("rca"), max_iter=max_iter, random_state=0)
    model.fit(X[train], y[train])
    history = {key: model.history_[key] for key in ("iteration", "loss", "validation_score")}
    kept = scores(model, X, y, train, test)
    return {**kept, **history, "seconds": model.history_["seconds"][-1]}


def _errors(result: dict[str, Any]) -> tuple[Any, Any, int]:
    """Training and held-out errors in per cent, and where the latter is least."""
    train = 100 * (1 + np.asarray(result["loss"]))
    held_out = 100 * (1 - np.asarray(result["validation_score"], dtype=float))
    return train, held_out, int(np.argmin(held_out))


def stopping_draw(done: list[Done], folder: Path) -> None:
    """The curve with its best point."""
    result = done[0].result
    train, held_out, best = _errors(result)
    plt = pyplot()
    figure, ax = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    ax.plot(result["iteration"], train, color="#0072B2", label="training rows")
    ax.plot(result["iteration"], held_out, color="#E69F00", label="held-out rows")
    at = result["iteration"][best]
    ax.plot(at, held_out[best], "o", color="#D55E00", label=f"best: iteration {at}")
    ax.set(xlabel="iteration", ylabel="error 1 − f(A)/N, per cent", ylim=(0, None))
    plain_frame(ax)
    picture(figure, folder, "oneata-figure-3.2")


def stopping_parts(done: list[Done]) -> dict[str, Any]:
    """The best iteration, and its test scores."""
    job, result = done[0].job, done[0].result
    train, held_out, best = _errors(result)
    at = result["iteration"][best]
    return {
        "best": at,
        "last": result["iteration"][-1],
        "held_out": f"{held_out[best]:.2f}",
        "train_at_last": f"{train[-1]:.2f}",
        "train_at_best": f"{train[best]:.2f}",
        "one_nn": f"{100 * result['1-NN']:.2f}",
        "nca": f"{100 * result['NCA']:.2f}",
        "rows": f"{job['rows']:,}",
        "max_iter": job["max_iter"],
        "seconds": f"{result['seconds']:.0f}",
    }


def annealing_jobs(splits: int | None) -> Iterator[Job]:
    """Plain starts at their own scale and at vicinal's, and the three rules of section 3.3.6."""
    for kind, (init, seed) in product(("plain", "chosen scale"), PLAIN_STARTS):
        yield {"data": "ionosphere", "kind": kind, "init": init, "seed": seed}
    for select in ANNEALED:
        yield {"data": "ionosphere", "kind": "annealing", "init": select, "seed": 0}


def annealing_work(data: str, kind: str, init: str, seed: int) -> dict[str, Any]:
    """Embedded rows, and their leave-one-out scores."""
    from vicinal import NCA, initialise

    X, y = protocol.data(data)
    start: Any = init
    if kind == "annealing":
        start = initialise.Annealing(select=init)
    elif kind == "plain":
        start = random_start(X, 2, seed, 1.0) if init == "random" else OwnScale(init)
    model = NCA(2, **PLAIN, init=start, max_iter=1000, random_state=seed).fit(X, y)
    Z = model.transform(X)
    return {
        "Z": np.round((Z - Z.mean(axis=0)) / Z.std(), 4).tolist(),
        "f": expected_accuracy(Z, y),
        "1-NN": leave_one_out(Z, y),
        "iterations": model.n_iter_,
    }


RULES = {
    "data": "least variance in the data",
    "projected": "least projected variance",
    "norm": "least norm of the row",
}


def annealing_draw(done: list[Done], folder: Path) -> None:
    """The best plain picture beside the annealed ones."""
    from vicinal import plotting

    plain = [each for each in done if each.job["kind"] == "plain"]
    annealed = [each for each in done if each.job["kind"] == "annealing"]
    panels = [(f"start: {each.job['init']}", each) for each in plain if each.job["seed"] == 0]
    panels += [(f"annealed: {RULES[each.job['init']]}", each) for each in annealed]
    y = protocol.data("ionosphere")[1]
    plt = pyplot()
    lines = -(-len(panels) // 3)
    figure, axes = plt.subplots(
        lines, 3, figsize=(9.6, 3.2 * lines), layout="constrained", squeeze=False
    )
    for ax, (words, each) in zip(axes.flat, panels, strict=False):
        title = f"{words}\nf(A) {100 * each.result['f']:.1f}, 1-NN {100 * each.result['1-NN']:.1f}"
        plotting.scatter(each.result["Z"], y, ax, title=title, legend=False, size=12)
        ax.title.set_fontsize("medium")
    for ax in axes.flat[len(panels) :]:
        ax.axis("off")
    picture(figure, folder, "oneata-figure-3.4")


def annealing_parts(done: list[Done]) -> dict[str, Any]:
    """The range of f(A) of each kind of start, and a table of all."""
    y = protocol.data("ionosphere")[1]
    rows = [
        [each.job["kind"], RULES.get(each.job["init"], each.job["init"]), each.job["seed"]]
        + [f"{100 * each.result[key]:.1f}" for key in ("f", "1-NN")]
        + [each.result["iterations"]]
        for each in done
    ]

    def ends(kind: str) -> str:
        found = [100 * each.result["f"] for each in done if each.job["kind"] == kind]
        return f"{min(found):.1f}–{max(found):.1f} %" if found else "not run yet"

    return {
        "ends_annealing": ends("annealing"),
        "ends_plain": ends("plain"),
        "ends_chosen_scale": ends("chosen scale"),
        "one_row": f"{100 / len(y):.2f}",
        "table": table(["kind", "start", "seed", "f(A)", "1-NN", "iterations"], rows),
    }


EXPERIMENTS = (
    Experiment(
        "oneata-figure-3.2",
        "Early stopping on mnist (Oneață 2011, figure 3.2)",
        stopping_jobs,
        stopping_work,
        stopping_parts,
        stopping_draw,
        threads=None,
    ),
    Experiment(
        "oneata-figure-3.4",
        "Dimensionality annealing on ionosphere (Oneață 2011, figure 3.4)",
        annealing_jobs,
        annealing_work,
        annealing_parts,
        annealing_draw,
        drawn=("Z",),
    ),
)
