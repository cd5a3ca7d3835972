"""Tarlow et al. figure 4: usps in two dimensions, with some of the training labels resampled."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from reproduce.framework.experiment import Experiment, Job
from reproduce.framework.protocol import data as stored
from reproduce.goldberger.figure2 import smaller
from reproduce.tarlow import figure4_report as report
from reproduce.tarlow.common import (
    LEARNERS,
    PASS,
    accuracies,
    authors_descent,
    authors_rows,
    grid,
    iterations_to,
    leave_one_out,
    orthonormal,
    same_start,
)

SPLITS = 10


NOISES = (0.0, 0.25, 0.5)


#: kNCA and NCA, and what the paper sets against them: ITML at full rank only, as it cannot reduce
OURS, WITH_5, WITH_10 = (tuple(grid(ks)) for ks in ((1, 5, 10), (1, 5), (1, 10)))
PEERS = ({"method": "LMNN", "k": 5}, {"method": "MCML", "k": 1})
ITML = {"method": "ITML", "k": 1}


class Setting(NamedTuple):
    """The rank of the map (None: full), the penalty, methods, and shares of labels resampled.

    ``share`` is that of the authors' training rows, ``max_iter`` the iterations of L-BFGS at most.
    """

    d: int | None
    alpha: float
    methods: tuple[Job, ...]
    noises: tuple[float, ...] = (0.0, 0.5)
    authors: bool = False
    share: float = 1.0
    max_iter: int = 200


#: the first is the paper's figure; the others: with a penalty, by the authors' descent, full rank
SETTINGS = {
    "plane": Setting(2, 0.0, (*OURS, *PEERS), NOISES),
    "penalty": Setting(2, 1e-3, OURS),
    "authors": Setting(2, 0.0, WITH_10, authors=True),
    "full rank": Setting(None, 0.0, (*WITH_5, *PEERS, ITML), share=0.5, max_iter=50),
}


#: steps of the authors' descent
STEPS = 500


def jobs(splits: int | None) -> Iterator[Job]:
    """A job for each fit; ``--where setting=plane noise=0.5 method=all`` takes some."""
    for name, setting in SETTINGS.items():
        cells = product(range(splits or SPLITS), setting.noises, setting.methods)
        for split, noise, method in cells:
            yield {"data": "usps", "setting": name, "split": split, "noise": noise, **method}


def work(data: str, setting: str, split: int, noise: float, method: str, k: int) -> dict[str, Any]:
    """Accuracies against the true labels, of votes by the labels that were learnt from."""
    X, y = stored(data)
    train, test = authors_rows(y, split, SETTINGS[setting].share)
    X = smaller(X.astype(np.float32), 16, 2) / 255.0
    labels = resampled(y[train], noise, split)
    model = learner(SETTINGS[setting], method, k, X[train], labels, split)
    Z = X @ model.fit(X[train], labels).components_.T
    run = getattr(model, "learner_", model)  # that of FromLabels
    result = {
        "test": accuracies(Z[train], labels, Z[test], y[test], report.TEST_K),
        "train": leave_one_out(Z[train], labels, y[train], report.TEST_K),
        "iterations": int(run.n_iter_),
        "rows": [len(train), len(test)],
    }
    if method != "ITML":
        window = PASS if SETTINGS[setting].authors else 1
        result["to 99 %"] = iterations_to(model.history_["loss"], window=window)
    return result


def learner(setting: Setting, method: str, k: int, X: Any, y: Any, seed: int) -> Any:
    """A method with the start that all methods of the split have."""
    d = setting.d or X.shape[1]
    if setting.authors:
        start = orthonormal(X.shape[1], d, seed)
        return authors_descent(method, k, start, STEPS, random_state=seed)
    # pixels share a unit
    shared = {"alpha": setting.alpha, "scaling": "global", "random_state": seed}
    start = same_start(X, y, d, "pca", seed, **shared)
    solver = {"solver": "lbfgs", "sampling": "full", "max_iter": setting.max_iter}
    return LEARNERS[method](k, d, init=start, **solver, **shared)


def resampled(y: Any, share: float, seed: int) -> Any:
    """Labels of which a share is drawn again, uniformly: one in ten of those stays as it was."""
    rng = np.random.RandomState(1000 + seed)
    rows = rng.permutation(len(y))[: round(share * len(y))]
    labels = np.array(y)
    labels[rows] = rng.choice(np.unique(y), len(rows))
    return labels


EXPERIMENTS = (
    Experiment(
        "tarlow-figure-4",
        "Tarlow et al. figure 4: usps in two dimensions, with some training labels resampled",
        jobs,
        work,
        report.parts,
        report.draw,
        claims=report.claims,
    ),
)
