"""Dimensionality annealing and other starts, at d = 2: where the descent ends, its worth."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import product
from typing import Any

from reproduce.framework import protocol
from reproduce.framework.experiment import Experiment, Job
from reproduce.framework.protocol import learn_and_judge
from reproduce.own.annealing_report import SETS, SETTINGS, STARTS, claims, parts

SPLITS = 10


def jobs(splits: int | None) -> Iterator[Job]:
    """Every set, split and start; both settings within the job."""
    for split, name, start in product(range(splits or SPLITS), SETS, STARTS):
        yield {"data": name, "split": split, "start": start}


def work(data: str, split: int, start: str) -> dict[str, Any]:
    """Final training loss, held-out accuracy and core seconds of each setting."""
    from vicinal import NCA
    from vicinal.starts import Annealing, Random

    init: Any = {"best of 10 random": Random(n_init=10), "annealing": Annealing()}.get(start, start)
    X, y = protocol.data(data)
    learn, judge = learn_and_judge(y, split)
    result = {}
    for setting, parameters in SETTINGS.items():
        began = time.process_time()
        model = NCA(2, init=init, random_state=split, **parameters).fit(X[learn], y[learn])
        result[setting] = {
            "loss": float(model.loss_),
            "posterior": float(model.score(X[judge], y[judge])),
            "core seconds": time.process_time() - began,
        }
    return result


EXPERIMENTS = (
    Experiment(
        "annealing",
        "Dimensionality annealing against other starts, at d = 2",
        jobs,
        work,
        parts,
        claims=claims,
    ),
)
