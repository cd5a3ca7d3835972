"""Backgrounds of degenerate classes: how far to shrink covariances, how to set their share."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any
from unittest import mock

import numpy as np

from reproduce.framework import protocol
from reproduce.framework.experiment import Experiment, Job
from reproduce.framework.protocol import knn, rows_70_30
from reproduce.oneata.common import PLAIN, OwnScale
from reproduce.own.background_report import FITS, MOST, OBJECTIVES, SETS, claims, parts

SPLITS = 10


def jobs(splits: int | None) -> Iterator[Job]:
    """Every set, split and objective; all fits within the job, on the same rows."""
    for split, (name, d), objective in product(range(splits or SPLITS), SETS, OBJECTIVES):
        yield {"data": name, "split": split, "d": d, "objective": objective}


def work(data: str, split: int, d: int, objective: str) -> dict[str, Any]:
    """Accuracy on rows held out of the training rows of a split of table B.5."""
    X, y = protocol.data(data)
    keep = np.random.RandomState(0).permutation(len(y))[:MOST]
    X, y = X[keep], y[keep]
    train, _ = rows_70_30(len(y), split)
    learn, judge = (train[rows] for rows in rows_70_30(len(train), 100 + split))
    # as in the thesis, or as NCA comes, with the penalty that it has without a search
    options: dict[str, Any] = {"alpha": 3e-3}
    if objective == "accuracy":
        options = {**PLAIN, "init": OwnScale("rca"), "solver": "cg", "max_iter": 200}
    rows = X[learn], y[learn], X[judge], y[judge]
    return {fit: _scores(d, fit, options, split, *rows) for fit in FITS}


def _scores(
    d: int, fit: str, options: dict[str, Any], seed: int, X: Any, y: Any, X_judge: Any, y_judge: Any
) -> dict[str, float]:
    from vicinal import NCA
    from vicinal.densities import Compact
    from vicinal.objectives import background

    beta, rows = FITS[fit]
    with mock.patch.object(background, "PRIOR_ROWS", rows or 1e-9):
        model = NCA(d, **options, kernel=Compact(beta=beta), random_state=seed).fit(X, y)
        score = float(model.score(X_judge, y_judge))
    Z, Z_judge = model.transform(X), model.transform(X_judge)
    return {
        "NCA": score,
        "1-NN": knn(Z, y, Z_judge, y_judge),
        "share": float(np.mean(model.background_)),
    }


EXPERIMENTS = (
    Experiment(
        "background",
        "The background of classes with few rows or constant columns: shrinkage and share",
        jobs,
        work,
        parts,
        claims=claims,
    ),
)
