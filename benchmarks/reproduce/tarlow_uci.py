"""Tarlow et al., supplement: kNCA on small sets, by training k, test k, vote and objective."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from reproduce.experiment import Experiment, Job
from reproduce.protocol import data as stored
from reproduce.protocol import rows_70_30
from reproduce.tarlow_common import (
    LEARNERS,
    PEERS,
    accuracies,
    grid,
    leave_one_out,
    same_start,
)
from reproduce.tarlow_uci_cells import SETS, SETTINGS, TEST_K
from reproduce.tarlow_uci_report import report

SPLITS = 10
TRAINING_K = range(1, 11)
PEERS_K = (1, 3, 5, 10)


def jobs(splits: int | None) -> Iterator[Job]:
    """A job for each fit; ``--where objective=log alpha=0.003 method=all k=5`` takes some."""
    for (objective, alpha), split in product(SETTINGS, range(splits or SPLITS)):
        for name, rank, method in product(SETS, ("2", "full"), grid(TRAINING_K)):
            setting = {"objective": objective, "alpha": alpha}
            yield {"data": name, "split": split, "rank": rank, **setting, **method}
    # once: they have no such settings
    cells = product(range(splits or SPLITS), SETS, ("2", "full"), PEERS, PEERS_K)
    for split, name, rank, method, k in cells:
        setting = {"objective": "margin", "alpha": 0.0}
        yield {"data": name, "split": split, "rank": rank, **setting, "method": method, "k": k}


def work(
    data: str, split: int, rank: str, objective: str, alpha: float, method: str, k: int
) -> dict[str, Any]:
    """Accuracies for test k = 1, ..., 15 on the test rows, and leave-one-out on the others."""
    X, y = stored(data)
    X = X.astype(float)
    train, test = rows_70_30(len(y), split)
    d = 2 if rank == "2" else X.shape[1]
    # all methods begin where NCA does
    objective, alpha = SETTINGS[0] if method in PEERS else (objective, alpha)
    setting = {"objective": objective, "alpha": alpha, "scaling": "standard"}
    start = same_start(X[train], y[train], d, "pca", split, **setting)
    model = LEARNERS[method](
        k, d, init=start, solver="lbfgs", sampling="full", max_iter=500, random_state=split,
        **setting,
    )  # fmt: skip
    A = model.fit(X[train], y[train]).components_
    Z = X @ A.T
    return {
        "test": accuracies(Z[train], y[train], Z[test], y[test], TEST_K),
        "train": leave_one_out(Z[train], y[train], y[train], TEST_K),
        "iterations": int(model.n_iter_),
        "loss": float(model.objective_),
    }


EXPERIMENTS = (
    Experiment(
        "tarlow-uci",
        "Tarlow et al., supplement: kNCA on small sets, by training k, test k, vote and objective",
        jobs,
        work,
        report,
    ),
)
