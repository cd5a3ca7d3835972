"""Goldberger et al. figure 1: nearest neighbours after square maps, and after maps to d = 2."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from reproduce import goldberger_maps as maps
from reproduce.experiment import Experiment, Job
from reproduce.goldberger_figure1_report import report
from reproduce.protocol import data, knn, rows_70_30
from vicinal import NCA

SETS = ("balance", "ionosphere", "iris", "wine", "housing", "usps")
SPLITS, USPS_SPLITS = 40, 10
USPS_ITERATIONS = 50
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
    for method, fit in nca_fits(data, split, rank).items():
        began = time.perf_counter()
        model = fit(rows[0], rows[1])
        result |= {f"{method}, seconds": time.perf_counter() - began}
        result |= {f"{method}, iterations": model.n_iter_}
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


def nca_fits(name: str, split: int, rank: str) -> dict[str, Any]:
    """NCA as in the paper, whole and diagonal, and as vicinal has it by default."""
    pixels = name == "usps"
    ours: dict[str, Any] = {"random_state": split}
    if pixels and rank == "square":
        ours["max_iter"] = USPS_ITERATIONS
    # standardised pixels would make the nearly empty ones at the border as loud as the others
    paper = ours | {"scaling": "global" if pixels else "standard"}
    raw = maps.identity if pixels else maps.standardised

    def starts(X: Any, y: Any) -> list[Any]:
        if rank == "2":
            return [maps.rca(X, y, 2, "oas"), maps.pca(X, y, standard=not pixels)]
        return [maps.rca(X, y, None, "oas"), raw(X, y)]

    def d(X: Any) -> int:
        return 2 if rank == "2" else X.shape[1]

    def diagonal(X: Any, y: Any) -> NCA:
        return maps.nca_of_the_paper(X, y, [raw(X, y)], mapping="diagonal", **paper)

    fits = {
        "NCA": lambda X, y: maps.nca_of_the_paper(X, y, starts(X, y), **paper),
        "NCA, start scaled by f": lambda X, y: NCA(
            d(X), objective="accuracy", alpha=0.0, **paper
        ).fit(X, y),
        "NCA, defaults": lambda X, y: NCA(d(X), **ours).fit(X, y),
    }
    return fits if rank == "2" else {"diagonal NCA": diagonal, **fits}


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
        report,
    ),
)
