"""Olsen & Petersen, figure 2: how the loss falls by projection and by softmax, at several rates."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from reproduce.experiment import Experiment, Job
from reproduce.olsen_common import K, chi2_1nn, folds, histograms
from reproduce.olsen_figure2_report import ITERATIONS, LINES, OWN, RANK, STARTS, report
from reproduce.protocol import data as stored
from vicinal import Chi2LMNN
from vicinal.initialise import BinGroups, BinIdentity
from vicinal.solvers import BoldDriver

FOLDS = 5
#: by their names in the report
_INIT = dict(zip(STARTS, (BinIdentity(), BinGroups()), strict=True))


def jobs(splits: int | None) -> Iterator[Job]:
    """A job for each line and fold; ``--where constraint=softmax`` takes some."""
    for split, start, (constraint, rate) in product(range(splits or FOLDS), STARTS, LINES):
        where = {"data": "webcam", "split": split, "start": start}
        yield {**where, "constraint": constraint, "rate": rate}


def work(data: str, split: int, start: str, constraint: str, rate: float | str) -> dict[str, Any]:
    """The loss at each iteration, summed over the rows as the report has it."""
    X, y = stored(data)
    H, y = histograms(X), np.asarray(y)
    train, test = folds(y, split)
    # [OlsenPetersen] section 3
    adaptive = {"increase": 1.01, "decrease": 0.5, "max_failures": 20}
    solver = "auto" if rate == OWN else BoldDriver(learning_rate=float(rate), **adaptive)
    model = Chi2LMNN(
        min(RANK, H.shape[1]), k=K, constraint=constraint, init=_INIT[start], solver=solver,
        max_iter=ITERATIONS, tol=0.0, random_state=split,
    ).fit(H[train], y[train])  # fmt: skip
    return {
        "loss": [float(f"{len(train) * loss:.6g}") for loss in model.history_["loss"]],
        "evaluations": int(model.history_["n_evaluations"][-1]),
        "held out": chi2_1nn(model.transform(H), y, train, test),
        "margin": float(model.margin_),
        "rows": len(train),
    }


EXPERIMENTS = (
    Experiment(
        "olsen-petersen-figure-2",
        "Olsen & Petersen figure 2: projection and softmax as the loss falls, webcam, r = 10",
        jobs,
        work,
        report,
    ),
)
