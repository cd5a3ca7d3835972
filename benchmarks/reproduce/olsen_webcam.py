"""Olsen & Petersen, table 2: χ²-LMNN on webcam at r = 10, 20 and 800."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np

from reproduce.experiment import Experiment, Job
from reproduce.olsen_common import (
    PREPARED,
    SPLITS,
    K,
    chi2_1nn,
    choose,
    chosen_chi2,
    folds,
    histograms,
    prepared,
    reduced,
    reduced_1nn,
)
from reproduce.olsen_webcam_report import FULL, FULL_ITERATIONS, MU_SPLITS, MUS, RANKS, report
from reproduce.protocol import data as stored
from vicinal import LMNN, Chi2LMNN
from vicinal.initialise import BinIdentity


def jobs(splits: int | None) -> Iterator[Job]:
    """A job for each rank and family of methods; ``--where part=lmnn rank=10`` takes some."""
    for split, rank, part in product(range(splits or SPLITS), RANKS, WORK):
        # how little μ matters is shown on the first folds, and in figure 3
        if part != "mu" or (rank != FULL and split < MU_SPLITS):
            yield {"data": "webcam", "split": split, "rank": rank, "part": part}


def work(data: str, split: int, rank: int, part: str) -> dict[str, Any]:
    """Test accuracy of each method of a family, and what was chosen."""
    X, y = stored(data)
    train, test = folds(y, split)
    return WORK[part](X, np.asarray(y), train, test, min(rank, X.shape[1]), split)


def _distances(X: Any, y: Any, train: Any, test: Any, r: int, seed: int) -> dict[str, Any]:
    """1-NN without learning: Euclidean after PCA, and χ²."""
    scores = {
        f"Euclidean, {how}": reduced_1nn(prepared(X, how, train), y, train, test, r)
        for how in PREPARED
    }
    H = histograms(X)
    if r < X.shape[1]:
        H = H @ BinIdentity()(H, y, r, np.random.RandomState(seed)).T
    return {"scores": {**scores, "χ²": chi2_1nn(H, y, train, test)}}


def _lmnn(X: Any, y: Any, train: Any, test: Any, r: int, seed: int) -> dict[str, Any]:
    """LMNN after PCA: as it comes, and with μ and the scaling of columns chosen."""
    scores, choices = {}, {}
    for how in PREPARED:
        Z = reduced(prepared(X, how, train), train, r)
        plain = LMNN(n_neighbors=1, random_state=seed).fit(Z[train], y[train])
        scores[f"LMNN as it comes, 1-NN, {how}"] = plain.score(Z[test], y[test])
        if how == "unit":
            voted = LMNN(random_state=seed).fit(Z[train], y[train])
            scores[f"LMNN as it comes, {how}"] = voted.score(Z[test], y[test])
        grid = {"scaling": [None, "standard"], "mu": list(MUS)}
        model = LMNN(k=K, n_neighbors=1, random_state=seed)
        if how != "z":  # whose columns are scaled already
            search = choose(model, grid, Z[train], y[train], seed)
            scores[f"LMNN chosen, {how}"] = search.score(Z[test], y[test])
            choices[how] = search.best_params_
    return {"scores": scores, "choices": choices}


def _limit(X: Any, r: int) -> dict[str, Any]:
    """At full rank fits are cut short, to keep the choice among them cheap."""
    return {"max_iter": FULL_ITERATIONS} if r == X.shape[1] else {}


def _chi2_lmnn(X: Any, y: Any, train: Any, test: Any, r: int, seed: int) -> dict[str, Any]:
    """χ²-LMNN with its margin chosen."""
    score, choice = chosen_chi2(histograms(X), y, train, test, r, seed, (1.0,), **_limit(X, r))
    return {"scores": {"χ²-LMNN chosen": score}, "choice": choice}


def _mu(X: Any, y: Any, train: Any, test: Any, r: int, seed: int) -> dict[str, Any]:
    """χ²-LMNN with both its margin and μ chosen."""
    score, choice = chosen_chi2(histograms(X), y, train, test, r, seed, MUS, **_limit(X, r))
    return {"scores": {"χ²-LMNN chosen, also μ": score}, "choice": choice}


def _defaults(X: Any, y: Any, train: Any, test: Any, r: int, seed: int) -> dict[str, Any]:
    """χ²-LMNN as it comes: its own voters, and 1-NN by the same map."""
    H = histograms(X)
    model = Chi2LMNN(r, random_state=seed).fit(H[train], y[train])
    scores = {
        "χ²-LMNN as it comes": float(model.score(H[test], y[test])),
        "χ²-LMNN as it comes, 1-NN": chi2_1nn(model.transform(H), y, train, test),
    }
    return {"scores": scores, "iterations": int(model.n_iter_), "margin": model.margin_}


WORK: dict[str, Callable[..., dict[str, Any]]] = {
    "distances": _distances,
    "lmnn": _lmnn,
    "chi2-lmnn": _chi2_lmnn,
    "defaults": _defaults,
    "mu": _mu,
}

EXPERIMENTS = (
    Experiment(
        "olsen-petersen-table-2",
        "Olsen & Petersen table 2: χ²-LMNN on webcam, r = 10, 20 and 800",
        jobs,
        work,
        report,
    ),
)
