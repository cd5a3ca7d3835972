"""Dimensionality annealing beside other starts, at d = 2: where the descent ends, and its worth."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from reproduce.framework import protocol
from reproduce.framework.experiment import Done, Experiment, Job
from reproduce.framework.pages import table
from reproduce.framework.protocol import learn_and_judge
from reproduce.framework.statistics import Summary

#: of the small sets those of more than two columns that are quick to anneal
SETS = ("iris", "wine", "balance", "glass", "ionosphere", "ecoli", "pima", "spectf")


SETTINGS = tuple(product(("log", "accuracy"), (0.0, 3e-3)))


STARTS = {
    "auto": "auto",
    "pca": "pca",
    "random": "random",
    "best of 10 random": "ten",
    "annealing, least projected variance": "projected",
    "annealing, least variance in the data": "data",
    "annealing, least norm of the row": "norm",
}


def jobs(splits: int | None) -> Iterator[Job]:
    """Every set, split and start; the settings within the job."""
    for split, name, start in product(range(splits or 4), SETS, STARTS):
        yield {"data": name, "split": split, "start": start}


def work(data: str, split: int, start: str) -> dict[str, Any]:
    """Final training loss, held-out accuracy and seconds, for both objectives and penalties."""
    from vicinal import NCA
    from vicinal.initialise import Annealing, Random

    kind = STARTS[start]
    init: Any = kind
    if kind == "ten":
        init = Random(n_init=10)
    elif kind in ("projected", "data", "norm"):
        init = Annealing(kind)
    X, y = protocol.data(data)
    learn, judge = learn_and_judge(y, split)
    result = {}
    for objective, alpha in SETTINGS:
        began = time.perf_counter()
        model = NCA(2, objective=objective, alpha=alpha, init=init, random_state=split)
        model.fit(X[learn], y[learn])
        result[f"{objective} {alpha}"] = {
            "loss": model.objective_,
            "posterior": float(model.score(X[judge], y[judge])),
            "seconds": time.perf_counter() - began,
        }
    return result


def parts(done: list[Done]) -> dict[str, Any]:
    """Differences to "auto", set by set, and the seconds."""
    names = [name for name in SETS if any(d.job["data"] == name for d in done)]
    rows = []
    for start in STARTS:
        row: list[Any] = [start]
        for objective, alpha in SETTINGS:
            for key, factor in (("loss", 0.01), ("posterior", 1.0)):
                gap = Summary(
                    [
                        factor * (_mean(done, name, start, f"{objective} {alpha}", key)
                                  - _mean(done, name, "auto", f"{objective} {alpha}", key))
                        for name in names
                    ]
                )  # fmt: skip
                digits = 3 if key == "loss" else 1
                row.append(
                    "–" if start == "auto" else f"{gap.mean:+.{digits}f} ± {gap.error:.{digits}f}"
                )
        seconds = np.mean(
            [d.result[k]["seconds"] for d in done if d.job["start"] == start for k in d.result]
        )
        rows.append([*row, f"{seconds:.2f}"])
    header = ["start"]
    for objective, alpha in SETTINGS:
        header += [f"{objective}, alpha = {alpha:g}: loss", "accuracy"]
    wins = _wins(done, names)
    n_splits = len({d.job["split"] for d in done})
    return {
        "auto_wins": wins["auto"],
        "n_cases": wins["of"],
        "best_of_10_wins": wins["best of 10 random"],
        "worth": _worth(done, names),
        "table": table([*header, "seconds"], rows),
        "n_sets": len(names),
        "n_splits": n_splits,
    }


def _mean(done: list[Done], name: str, start: str, setting: str, key: str) -> float:
    return float(
        np.mean(
            [
                d.result[setting][key]
                for d in done
                if (d.job["data"], d.job["start"]) == (name, start)
            ]
        )
    )


def _worth(done: list[Done], names: list[str]) -> str:
    first = "annealing, least projected variance"
    gap = Summary(
        [
            _mean(done, name, first, "log 0.003", "posterior")
            - _mean(done, name, "auto", "log 0.003", "posterior")
            for name in names
        ]
    )
    return f"{gap:+.1f}"


def _wins(done: list[Done], names: list[str]) -> dict[str, int]:
    """In how many cases (sets times settings) annealing ends lower by more than 1e-4."""
    cases = [(name, f"{objective} {alpha}") for name in names for objective, alpha in SETTINGS]
    first = "annealing, least projected variance"
    wins = {
        other: sum(
            _mean(done, name, first, setting, "loss")
            < _mean(done, name, other, setting, "loss") - 1e-4
            for name, setting in cases
        )
        for other in ("auto", "best of 10 random")
    }
    return {**wins, "of": len(cases)}


EXPERIMENTS = (
    Experiment(
        "annealing", "Dimensionality annealing beside other starts, at d = 2", jobs, work, parts
    ),
)
