"""Olsen & Petersen, table 1: χ²-LMNN on wine, by ways to make histograms of it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from reproduce.experiment import Experiment, Job
from reproduce.olsen_common import (
    SPLITS,
    K,
    chi2_1nn,
    choose,
    chosen_chi2,
    folds,
    histograms,
    prepared,
)
from reproduce.olsen_wine_report import HISTOGRAMS, MUS, NOT_NEGATIVE, SCALINGS, report
from reproduce.protocol import data as stored
from reproduce.protocol import knn
from vicinal import LMNN, Chi2LMNN


def jobs(splits: int | None) -> Iterator[Job]:
    """A job for each split and scaling; ``--where scaling=raw`` takes some."""
    for split, scaling in product(range(splits or SPLITS), SCALINGS):
        yield {"data": "wine", "split": split, "scaling": scaling}


def work(data: str, split: int, scaling: str) -> dict[str, Any]:
    """Test accuracy of each method that can have such columns, and what was chosen."""
    X, y = stored(data)
    train, test = folds(y, split)
    X = scaled(X, scaling, train)
    scores = {"Euclidean": knn(X[train], y[train], X[test], y[test])}
    model = LMNN(k=K, scaling=None, n_neighbors=1, random_state=split)
    search = choose(model, {"mu": list(MUS)}, X[train], y[train], split)
    scores["LMNN chosen"] = search.score(X[test], y[test])
    plain = LMNN(random_state=split).fit(X[train], y[train])
    scores["LMNN as it comes"] = plain.score(X[test], y[test])
    result: dict[str, Any] = {"scores": scores}
    if scaling in NOT_NEGATIVE:
        scores["χ²"] = chi2_1nn(X, y, train, test)
    if scaling in HISTOGRAMS:
        found = chosen_chi2(X, y, train, test, X.shape[1], split, MUS)
        scores["χ²-LMNN chosen"], result["choice"] = found
        learnt = Chi2LMNN(random_state=split).fit(X[train], y[train])
        scores["χ²-LMNN as it comes"] = learnt.score(X[test], y[test])
        scores["χ²-LMNN as it comes, 1-NN"] = chi2_1nn(learnt.transform(X), y, train, test)
        # how far the map is from the identity, at which the report begins
        result["kept"] = float(np.mean(np.diag(learnt.components_)))
    return result


def scaled(X: Any, how: str, train: Any) -> Any:
    """Columns of wine under one of the readings; what they are scaled by is of training rows."""
    X = np.asarray(X, dtype=float)
    if how == "raw":
        return X
    if how == "rows / sum":
        return histograms(X)
    if how == "z-scored":
        return prepared(X, "z", train)
    low, high = X[train].min(axis=0), X[train].max(axis=0)
    U = np.clip((X - low) / np.where(high > low, high - low, 1.0), 0.0, 1.0)
    if how == "[0, 1]":
        return U
    if how == "[0, 1], rows / sum":
        return histograms(U + 1e-12)  # a row of lowest values alone has no sum
    if how == "pairs":
        return np.hstack([U, 1.0 - U]) / X.shape[1]
    raise ValueError(f"wine cannot be scaled by {how!r}")


EXPERIMENTS = (
    Experiment(
        "olsen-petersen-table-1",
        "Olsen & Petersen table 1: χ²-LMNN on wine",
        jobs,
        work,
        report,
    ),
)
