"""Goldberger et al. figure 1: nearest neighbours after square maps, and after maps to d = 2."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from reproduce.framework.experiment import Experiment, Job
from reproduce.framework.protocol import data, knn, rows_70_30
from reproduce.goldberger import maps
from reproduce.goldberger.figure1_report import SETS, claims, draw, parts
from vicinal import NCA

#: splits of the small sets and of usps, whose fits take longer
SPLITS, USPS_SPLITS = 20, 10
USPS_TRAIN, USPS_TEST = 200, 500  # of each digit


def jobs(splits: int | None) -> Iterator[Job]:
    """A job for each set, split and rank; usps, the dear one, last."""
    for name, rank in product(SETS, ("square", "2")):
        for split in range(splits or (USPS_SPLITS if name == "usps" else SPLITS)):
            yield {"data": name, "split": split, "rank": rank}


def work(data: str, split: int, rank: str) -> dict[str, Any]:
    """Train and test accuracy of all methods of a panel, ``"METHOD, train 1-NN"`` and so on."""
    rows = rows_of(data, split)
    result: dict[str, Any] = {}
    for method, components in fixed_maps(rank).items():
        result |= scores(method, components(rows[0], rows[1]), *rows)
    for method, model in ncas(data, split, rank).items():
        model.fit(rows[0], rows[1])
        result |= {f"{method}, iterations": model.n_iter_, f"{method}, alpha": model.alpha_}
        result |= scores(method, model.components_, *rows)
        if method == "NCA, defaults":
            result |= {"NCA, defaults, test posterior": model.score(rows[2], rows[3])}
    return result


def rows_of(name: str, split: int) -> tuple[Any, Any, Any, Any]:
    """Training rows and labels, test rows and labels; columns as stored."""
    X, y = data(name)
    X = X.astype(float)
    if name == "usps":
        order = np.random.RandomState(split).permutation(len(y))
        by_class = [order[y[order] == c] for c in np.unique(y)]
        train = np.concatenate([rows[:USPS_TRAIN] for rows in by_class])
        test = np.concatenate([rows[USPS_TRAIN : USPS_TRAIN + USPS_TEST] for rows in by_class])
    else:
        train, test = rows_70_30(len(y), split)
    if name == "housing":  # a price: three classes of equal size, by the training rows
        y = np.searchsorted(np.quantile(y[train], (1 / 3, 2 / 3)), y)
    return X[train], y[train], X[test], y[test]


def fixed_maps(rank: str) -> dict[str, Any]:
    """What NCA is compared with."""
    if rank == "square":
        return {
            "Euclidean": maps.identity,
            "Euclidean, standardised": maps.standardised,
            "whitened": maps.whitened,
            "RCA": maps.rca,
        }
    return {
        "PCA": maps.pca,
        "PCA, standardised": lambda X, y: maps.pca(X, y, standard=True),
        "LDA": maps.lda,
        "LDA + RCA": maps.lda_then_rca,
        "RCA": lambda X, y: maps.rca(X, y, 2),
    }


def ncas(name: str, seed: int, rank: str) -> dict[str, NCA]:
    """NCA as in the paper, whole and diagonal, and as vicinal has it by default."""
    paper: dict[str, Any] = {
        "objective": "accuracy",
        "alpha": 0.0,
        # standardised pixels would make the nearly empty ones at the border as loud as the others
        "scaling": "global" if name == "usps" else "standard",
        "random_state": seed,
    }
    d = 2 if rank == "2" else data(name)[0].shape[1]
    # of the square maps, the defaults have at most 32 rows
    models = {"NCA": NCA(d, **paper), "NCA, defaults": NCA(min(d, 32), random_state=seed)}
    if rank == "square":
        models["diagonal NCA"] = NCA(mapping="diagonal", **paper)
    return models


def scores(method: str, A: Any, X: Any, y: Any, X_test: Any, y_test: Any) -> dict[str, float]:
    """Leave-one-out accuracy on the training rows, and accuracy on the test rows."""
    Z, Z_test = X @ A.T, X_test @ A.T
    result = {f"{method}, train {k}-NN": maps.leave_one_out(Z, y, k) for k in (1, 5)}
    return result | {f"{method}, test {k}-NN": knn(Z, y, Z_test, y_test, k) for k in (1, 5)}


EXPERIMENTS = (
    Experiment(
        "goldberger-figure-1",
        "Goldberger et al. figure 1: nearest neighbours after square maps and after maps to d = 2",
        jobs,
        work,
        parts,
        draw,
        claims=claims,
    ),
)
