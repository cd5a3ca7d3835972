"""χ²-LMNN with defaults on image sets that the report does not have: amazon, dslr, caltech10."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np

from reproduce.framework.experiment import Job
from reproduce.framework.protocol import data as stored
from reproduce.framework.protocol import knn
from reproduce.olsen.common import (
    SPLITS,
    chi2_1nn,
    chosen_chi2,
    folds,
    histograms,
    prepared,
    reduced,
)
from vicinal import LMNN, Chi2LMNN

SETS = ("dslr", "amazon", "caltech10")


RANKS = (10, 20, 800)


#: where the margin is chosen as well, and on how many folds
CHOSEN_RANK, CHOSEN_SPLITS = 20, 10


#: preparations of rows for Euclidean distances
PREPARATIONS = ("sum", "root")


def jobs(splits: int | None) -> Iterator[Job]:
    """A job for each set, rank and family of methods; ``--where data=dslr rank=20`` takes some."""
    for split, name, rank, part in product(range(splits or SPLITS), SETS, RANKS, WORK):
        if part != "chosen" or (rank == CHOSEN_RANK and split < CHOSEN_SPLITS):
            yield {"data": name, "split": split, "rank": rank, "part": part}


def work(data: str, split: int, rank: int, part: str) -> dict[str, Any]:
    """Test accuracy of each method of a family."""
    X, y = stored(data)
    train, test = folds(y, split)
    return WORK[part](X, np.asarray(y), train, test, min(rank, X.shape[1]), split)


def _baselines(X: Any, y: Any, train: Any, test: Any, r: int, seed: int) -> dict[str, Any]:
    """χ² 1-NN on all bins; Euclidean 1-NN after PCA; LMNN after PCA of the square roots."""
    scores = {"χ², all bins": chi2_1nn(histograms(X), y, train, test)}
    for how in PREPARATIONS:
        Z = reduced(prepared(X, how, train), train, r)
        scores[f"Euclidean, {how}"] = knn(Z[train], y[train], Z[test], y[test])
    model = LMNN(random_state=seed).fit(Z[train], y[train])  # of the last, the square roots
    L = model.transform(Z)
    scores["LMNN, 1-NN"] = knn(L[train], y[train], L[test], y[test])
    scores["LMNN"] = float(model.score(Z[test], y[test]))
    return {"scores": scores, "iterations": int(model.n_iter_), "rows": len(y)}


def _defaults(X: Any, y: Any, train: Any, test: Any, r: int, seed: int) -> dict[str, Any]:
    """χ²-LMNN with defaults: its own voters, and 1-NN by the same map."""
    H = histograms(X)
    model = Chi2LMNN(r, random_state=seed).fit(H[train], y[train])
    scores = {
        "χ²-LMNN": float(model.score(H[test], y[test])),
        "χ²-LMNN, 1-NN": chi2_1nn(model.transform(H), y, train, test),
    }
    return {"scores": scores, "iterations": int(model.n_iter_), "margin": float(model.margin_)}


def _chosen(X: Any, y: Any, train: Any, test: Any, r: int, seed: int) -> dict[str, Any]:
    """χ²-LMNN with its margin chosen inside the training rows, as on webcam."""
    score, choice = chosen_chi2(histograms(X), y, train, test, r, seed, (1.0,))
    return {"scores": {"χ²-LMNN chosen, 1-NN": score}, "choice": choice}


WORK: dict[str, Callable[..., dict[str, Any]]] = {
    "baselines": _baselines,
    "defaults": _defaults,
    "chosen": _chosen,
}
