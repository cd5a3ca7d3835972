"""Olsen & Petersen, figure 3: accuracy of χ²-LMNN on webcam by μ and by the margin."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from reproduce.experiment import Experiment, Job
from reproduce.olsen_common import SPLITS, K, chi2_1nn, folds, histograms, typical_distance
from reproduce.olsen_figure3_report import AUTO, MUS, RANKS, SHARES, report
from reproduce.protocol import data as stored
from vicinal import Chi2LMNN


def jobs(splits: int | None) -> Iterator[Job]:
    """A job for each fit: μ at the default margin, then margins at μ = 1."""
    values = [(mu, AUTO) for mu in MUS] + [(1.0, share) for share in SHARES]
    for split, rank, (mu, share) in product(range(splits or SPLITS), RANKS, values):
        yield {"data": "webcam", "split": split, "rank": rank, "mu": mu, "share": share}


def work(data: str, split: int, rank: int, mu: float, share: float | str) -> dict[str, Any]:
    """Held-out accuracy of 1-NN, and of three voters."""
    X, y = stored(data)
    H, y = histograms(X), np.asarray(y)
    train, test = folds(y, split)
    typical = typical_distance(H[train], y[train])
    margin = AUTO if share == AUTO else float(share) * typical
    model = Chi2LMNN(min(rank, H.shape[1]), k=K, mu=mu, margin=margin, random_state=split)
    model.fit(H[train], y[train])
    return {
        "held out": chi2_1nn(model.transform(H), y, train, test),
        "held out, votes": float(model.score(H[test], y[test])),
        "typical": typical,
        "margin": float(model.margin_),
        "iterations": int(model.n_iter_),
    }


EXPERIMENTS = (
    Experiment(
        "olsen-petersen-figure-3",
        "Olsen & Petersen figure 3: χ²-LMNN on webcam by μ and by the margin",
        jobs,
        work,
        report,
    ),
)
