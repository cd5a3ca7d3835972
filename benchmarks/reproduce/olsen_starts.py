"""Where χ²-LMNN with fewer bins may begin, which Olsen & Petersen do not say: starts compared."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from reproduce.experiment import Experiment, Job
from reproduce.olsen_common import SPLITS, K, chi2_1nn, folds, histograms
from reproduce.olsen_starts_report import RANKS, SEEDS, report
from reproduce.protocol import data as stored
from vicinal import Chi2LMNN
from vicinal.initialise import BinGroups, BinIdentity, RandomBins

STARTS = {
    "groups": BinGroups(),
    "hard groups": BinGroups(sharpness=50.0),
    "identity, cut": BinIdentity(),
    "random": RandomBins(),
}


def jobs(splits: int | None) -> Iterator[Job]:
    """A job for each fit; ``--where rank=10 start=random`` takes some."""
    for split, rank, start in product(range(splits or SPLITS), RANKS, STARTS):
        for seed in range(SEEDS[start]):
            where = {"data": "webcam", "split": split, "rank": rank}
            yield {**where, "start": start, "seed": seed}


def work(data: str, split: int, rank: int, start: str, seed: int) -> dict[str, Any]:
    """Loss and held-out accuracy of 1-NN by χ², at the start and after learning."""
    X, y = stored(data)
    H, y = histograms(X), np.asarray(y)
    train, test = folds(y, split)
    setting = {"k": K, "init": STARTS[start], "random_state": 100 * split + seed}
    result: dict[str, Any] = {}
    for when, more in (("start", {"tol": 1e300}), ("end", {})):
        model = Chi2LMNN(min(rank, H.shape[1]), **setting, **more).fit(H[train], y[train])
        result[when] = {
            "loss": float(model.objective_),
            "held out": chi2_1nn(model.transform(H), y, train, test),
        }
    return {**result, "iterations": int(model.n_iter_), "margin": float(model.margin_)}


EXPERIMENTS = (
    Experiment(
        "olsen-petersen-starts",
        "Starts for χ²-LMNN with fewer bins than the data have, on webcam",
        jobs,
        work,
        report,
    ),
)
