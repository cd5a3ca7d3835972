"""What vicinal reaches on mnist, usps and magic, and in which time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from reproduce.framework import protocol
from reproduce.framework.experiment import Experiment, Job
from reproduce.framework.machine import cores_and_others
from reproduce.framework.protocol import knn
from reproduce.oneata.large import large
from reproduce.own.mnist_targets_report import HELD_OUT, JUDGED, ROWS, WAYS, K, claims, parts

#: random splits of usps and magic, and of the training rows of mnist to choose on
SPLITS, HELD_OUT_SPLITS = 4, 3


def jobs(splits: int | None) -> Iterator[Job]:
    """The fits to test rows, one run each on mnist; then those to held-out rows."""
    for data, d, way in ROWS:
        for split in range(1 if data == "mnist" else splits or SPLITS):
            yield {"data": data, "split": split, "d": d, "way": way, "kind": "test"}
    for way in HELD_OUT:
        for split in range(splits or HELD_OUT_SPLITS):
            yield {"data": "mnist", "split": split, "d": 5, "way": way, "kind": "held out"}


def work(data: str, split: int, d: int, way: str, kind: str) -> dict[str, Any]:
    """Scores by the NCA rule and by k-NN, and the time of the fit."""
    from vicinal import NCA

    machine = cores_and_others()
    X, y, train, test = large(data, split)
    options = WAYS[way]
    if kind == "held out":
        train, test = protocol.stratified(y, split, train)
        test = test[:JUDGED]
    # compiled code is part of an installation, not of a fit
    NCA(d, **{**options, "max_iter": 1}, random_state=0).fit(X[train[:4000]], y[train[:4000]])
    X_train, y_train, X_test = X[train], y[train], X[test]
    wall, core = time.perf_counter(), time.process_time()
    model = NCA(d, **options, random_state=split).fit(X_train, y_train)
    wall, core = time.perf_counter() - wall, time.process_time() - core
    return {
        "rule": float(model.score(X_test, y[test])),
        "k-NN": knn(model.transform(X_train), y_train, model.transform(X_test), y[test], K),
        "rows judged": len(test),
        "seconds": wall,
        "core seconds": core,
        "alpha": float(model.alpha_),
        "iterations": float(model.n_iter_),
        "plan": str(model.plan_),
        **machine,
    }


EXPERIMENTS = (
    Experiment(
        "mnist-targets",
        "The targets: mnist, usps and magic by the default, exact and stochastic paths",
        jobs,
        work,
        parts,
        threads=None,
        claims=claims,
    ),
)
