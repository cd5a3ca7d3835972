"""Tarlow et al., supplement: kNCA on small sets, by training k, test k, vote and objective."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from reproduce.framework.experiment import Experiment, Job
from reproduce.framework.protocol import data as stored
from reproduce.framework.protocol import rows_70_30
from reproduce.tarlow import uci_report as report
from reproduce.tarlow.common import (
    LEARNERS,
    PEERS,
    WITHOUT_K,
    accuracies,
    grid,
    iterations_to,
    leave_one_out,
    same_start,
)
from reproduce.tarlow.uci_cells import RANKS, SETS, SETTINGS, TEST_K

SPLITS = 10


#: of the first setting, and of the others
TRAINING_K = (1, 5, 10)
FEWER_K = (1, 5)


MAX_ITER = 300


def jobs(splits: int | None) -> Iterator[Job]:
    """A job for each fit; ``--where objective=log alpha=0.003 method=all k=5`` takes some."""
    cells = list(product(range(splits or SPLITS), SETS, RANKS))
    for (objective, alpha), (split, name, rank) in product(SETTINGS, cells):
        for method in grid(TRAINING_K if (objective, alpha) == SETTINGS[0] else FEWER_K):
            setting = {"objective": objective, "alpha": alpha}
            yield {"data": name, "split": split, "rank": rank, **setting, **method}
    # once: they have no such settings
    for split, name, rank in cells:
        others = [("margin", method, k) for method, k in product(PEERS, TRAINING_K[1:])]
        # ITML cannot reduce
        others += [("convex", m, 1) for m in (WITHOUT_K if rank == "full" else WITHOUT_K[:1])]
        for objective, method, k in others:
            setting = {"objective": objective, "alpha": 0.0, "method": method, "k": k}
            yield {"data": name, "split": split, "rank": rank, **setting}


def work(
    data: str, split: int, rank: str, objective: str, alpha: float, method: str, k: int
) -> dict[str, Any]:
    """Accuracies for test k = 1, ..., 15 on the test rows, and leave-one-out on the others."""
    X, y = stored(data)
    X = X.astype(float)
    train, test = rows_70_30(len(y), split)
    d = 2 if rank == "2" else X.shape[1]
    # all methods begin where NCA does
    objective, alpha = SETTINGS[0] if method in report.SETTLED else (objective, alpha)
    setting = {"objective": objective, "alpha": alpha, "scaling": "standard"}
    start = same_start(X[train], y[train], d, "pca", split, **setting)
    model = LEARNERS[method](
        k, d, init=start, solver="lbfgs", sampling="full", max_iter=MAX_ITER, random_state=split,
        **setting,
    )  # fmt: skip
    model.fit(X[train], y[train])
    Z = X @ model.components_.T
    run = getattr(model, "learner_", model)  # that of FromLabels
    result = {
        "test": accuracies(Z[train], y[train], Z[test], y[test], TEST_K),
        "train": leave_one_out(Z[train], y[train], y[train], TEST_K),
        "iterations": int(run.n_iter_),
        "loss": float(run.loss_),
    }
    if method != "ITML":
        result["to 99 %"] = iterations_to(model.history_["loss"])
    return result


EXPERIMENTS = (
    Experiment(
        "tarlow-uci",
        "Tarlow et al., supplement: kNCA on small sets, by training k, test k, vote and objective",
        jobs,
        work,
        report.parts,
        report.draw,
        claims=report.claims,
    ),
)
