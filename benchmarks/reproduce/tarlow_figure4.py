"""Tarlow et al. figure 4: usps in two dimensions, with some of the training labels resampled."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from reproduce.experiment import Experiment, Job
from reproduce.protocol import data as stored
from reproduce.protocol import rows_70_30
from reproduce.tarlow_common import LEARNERS, accuracies, grid, leave_one_out, same_start
from reproduce.tarlow_figure4_report import ALPHA, NOISES, TEST_K, report

SPLITS = 3  # the paper: 10
#: the training k of the paper's kind first, so that a run cut short has whole panels
TRAINING_K = ((1, 5, 10), (3, 15))


def jobs(splits: int | None) -> Iterator[Job]:
    """A job for each fit; ``--where noise=0.5 method=all alpha=None`` takes some."""
    for ks, split in product(TRAINING_K, range(splits or SPLITS)):
        for noise, method in product(NOISES, grid(ks)):
            if method["k"] in ks:
                yield {"data": "usps9298", "split": split, "noise": noise, **method}
    # is it the penalty that keeps NCA from learning the noise?
    for split, method in product(range(splits or SPLITS), grid(TRAINING_K[0])):
        where = {"data": "usps9298", "split": split, "noise": max(NOISES)}
        yield {**where, **method, "alpha": 0.0}


def work(
    data: str,
    split: int,
    noise: float,
    method: str,
    k: int,
    alpha: float = ALPHA,
    rows: int | None = None,
) -> dict[str, Any]:
    """Accuracies against the true labels, of votes by the labels that were learnt from."""
    X, y = stored(data)
    X = X.astype(np.float32)
    train, test = rows_70_30(len(y), split)
    train, test = train[:rows], test[:rows]
    labels = resampled(y[train], noise, split)
    # pixels share a unit; start and penalty were chosen for NCA on training rows of mnist
    setting = {"alpha": alpha, "scaling": "global"}
    start = same_start(X[train], labels, 2, "pca", split, **setting)
    model = LEARNERS[method](
        k, 2, init=start, solver="lbfgs", sampling="full", random_state=split, **setting
    )
    A = model.fit(X[train], labels).components_
    Z = X @ A.T
    return {
        "test": accuracies(Z[train], labels, Z[test], y[test], TEST_K),
        "train": leave_one_out(Z[train], labels, y[train], TEST_K),
        "iterations": int(model.n_iter_),
        "loss": float(model.objective_),
        "rows": len(train),
    }


def resampled(y: Any, share: float, seed: int) -> Any:
    """Labels of which a share is drawn anew, uniformly: one in ten of those stays as it was."""
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
        report,
    ),
)
