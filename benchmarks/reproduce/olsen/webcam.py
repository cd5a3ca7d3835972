"""Olsen & Petersen, table 2: χ²-LMNN on webcam at r = 10, 20 and 800."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np

from reproduce.framework.experiment import Job
from reproduce.framework.protocol import data as stored
from reproduce.framework.protocol import knn
from reproduce.olsen.common import (
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
from vicinal import LMNN, Chi2LMNN
from vicinal.starts import BinIdentity

RANKS = (10, 20, 800)


FULL = 800


#: of the fits at full rank that the choice of the margin compares
FULL_ITERATIONS = 30


#: of LMNN; χ²-LMNN has 1, since figure 3 shows how little it matters
MUS = (0.3, 1.0, 3.0)


#: folds of LMNN at full rank
FULL_LMNN = 10


def jobs(splits: int | None) -> Iterator[Job]:
    """A job for each rank and family of methods; ``--where part=lmnn rank=10`` takes some."""
    for split, rank, part in product(range(splits or SPLITS), RANKS, WORK):
        if part != "lmnn" or rank != FULL or split < FULL_LMNN:
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
    """LMNN after PCA: with defaults, and with μ and the scaling of columns chosen."""
    scores, choices = {}, {}
    for how in PREPARED:
        Z = reduced(prepared(X, how, train), train, r)
        plain = LMNN(random_state=seed).fit(Z[train], y[train])
        L = plain.transform(Z)
        scores[f"LMNN with defaults, 1-NN, {how}"] = knn(L[train], y[train], L[test], y[test])
        scores[f"LMNN with defaults, {how}"] = float(plain.score(Z[test], y[test]))
        grid = {"scaling": [None, "standard"], "mu": list(MUS)}
        model = LMNN(k=K, alpha=0.0, n_neighbors=1, random_state=seed)
        if how != "z":  # whose columns are scaled already
            search = choose(model, grid, Z[train], y[train], seed)
            scores[f"LMNN chosen, {how}"] = float(search.score(Z[test], y[test]))
            choices[how] = search.best_params_
    return {"scores": scores, "choices": choices}


def _chi2_lmnn(X: Any, y: Any, train: Any, test: Any, r: int, seed: int) -> dict[str, Any]:
    """χ²-LMNN with its margin chosen, at full rank by fits that are cut short."""
    cheap = {"max_iter": FULL_ITERATIONS} if r == X.shape[1] else {}
    score, choice = chosen_chi2(histograms(X), y, train, test, r, seed, (1.0,), **cheap)
    return {"scores": {"χ²-LMNN chosen": score}, "choice": choice}


def _defaults(X: Any, y: Any, train: Any, test: Any, r: int, seed: int) -> dict[str, Any]:
    """χ²-LMNN with defaults: its own voters, and 1-NN by the same map."""
    H = histograms(X)
    model = Chi2LMNN(r, random_state=seed).fit(H[train], y[train])
    scores = {
        "χ²-LMNN with defaults": float(model.score(H[test], y[test])),
        "χ²-LMNN with defaults, 1-NN": chi2_1nn(model.transform(H), y, train, test),
    }
    return {"scores": scores, "iterations": int(model.n_iter_), "margin": model.margin_}


WORK: dict[str, Callable[..., dict[str, Any]]] = {
    "distances": _distances,
    "lmnn": _lmnn,
    "chi2-lmnn": _chi2_lmnn,
    "defaults": _defaults,
}
