"""Tarlow et al. figure 5: the objective of NCA that is reached by optimising that of kNCA."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from reproduce.framework.experiment import Experiment, Job
from reproduce.framework.protocol import data as stored
from reproduce.goldberger.figure2 import smaller
from reproduce.tarlow import figure5_report as report
from reproduce.tarlow.common import (
    LEARNERS,
    PASS,
    authors_descent,
    authors_rows,
    grid,
    iterations_to,
    orthonormal,
    same_start,
)
from vicinal.objectives import nca

FOLDS = 10


class Variant(NamedTuple):
    """Pixels on a side, the k learnt for, and the factor on starts of the scale that suits NCA.

    Without a factor: the start and the descent of the authors' program.
    """

    side: int
    ks: tuple[int, ...]
    factor: float | None


VARIANTS = {
    "8 x 8": Variant(8, (1, 3, 5, 10), 1.0),
    "8 x 8, large starts": Variant(8, (1, 3, 5, 10), 10.0),
    "8 x 8, authors' descent": Variant(8, (1, 10), None),
    "16 x 16": Variant(16, (1, 10), 1.0),
    "16 x 16, large starts": Variant(16, (1, 10), 10.0),
    "16 x 16, authors' descent": Variant(16, (1, 10), None),
}


#: iterations of L-BFGS at most, and steps of the authors' descent
MAX_ITER, STEPS = 1000, 500


def jobs(splits: int | None) -> Iterator[Job]:
    """A job for each fit; ``--splits`` are the folds, ``--where "variant=8 x 8"`` takes some."""
    own = {"objective": "accuracy", "method": "NCA", "k": 1}
    for name, variant in VARIANTS.items():
        methods = [{"objective": "log", **method} for method in grid(variant.ks)]
        for split, method in product(range(splits or FOLDS), (*methods, own)):
            yield {"data": "usps", "variant": name, "split": split, **method}


def work(
    data: str, variant: str, split: int, objective: str, method: str, k: int
) -> dict[str, Any]:
    """The objectives of NCA on the training rows, at the map learnt and at its best scale."""
    side, _, factor = VARIANTS[variant]
    X, y = stored(data)
    train, _ = authors_rows(y, split)
    X, y = smaller(X[train].astype(float), 16, 16 // side) / 255.0, y[train]
    if factor is None:
        first = orthonormal(X.shape[1], 2, split)
        model = authors_descent(method, k, first, STEPS, objective=objective, random_state=split)
    else:
        setting = {"alpha": 0.0, "scaling": "global"}
        first = factor * same_start(X, y, 2, "random", split, **setting)
        model = LEARNERS[method](
            k, 2, init=first, objective=objective, solver="lbfgs", sampling="full",
            max_iter=MAX_ITER, random_state=split, **setting,
        )  # fmt: skip
    Z = X @ model.fit(X, y).components_.T

    def right(log_scale: float) -> float:
        """Mean p_i, [Tarlow2013] eq. (2) over the number of rows, of the map times a factor."""
        return -float(nca(np.exp(log_scale) * Z, y, "accuracy", gradient=False)[0])

    best = minimize_scalar(lambda s: -right(s), bounds=(-2.0, 2.0), method="bounded")
    at_start = nca(X @ first.T, y, "accuracy", gradient=False)[0]
    return {
        "start": -float(at_start),
        "right": right(0.0),
        "right, best scale": max(right(0.0), -float(best.fun)),
        "log": -float(nca(Z, y, "log", gradient=False)[0]),
        "iterations": int(model.n_iter_),
        "to 99 %": iterations_to(model.history_["loss"], window=PASS if factor is None else 1),
        "rows": len(train),
    }


EXPERIMENTS = (
    Experiment(
        "tarlow-figure-5",
        "Tarlow et al. figure 5: the objective of NCA reached by optimising that of kNCA",
        jobs,
        work,
        report.parts,
        report.draw,
        claims=report.claims,
    ),
)
