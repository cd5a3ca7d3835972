"""Olsen & Petersen, figures 4 to 6: the maps that χ²-LMNN learns, and impostors by iteration."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from reproduce.framework.experiment import Job
from reproduce.framework.protocol import data as stored
from reproduce.olsen.common import K, chi2_1nn, folds, histograms, typical_distance
from vicinal import Chi2LMNN
from vicinal.solvers import BoldDriver
from vicinal.starts import BinGroups, BinIdentity

#: number of the figure: data and bins of the map (None: as many as the data have)
FIGURES: dict[int, tuple[str, int | None]] = {
    4: ("wine", None),
    5: ("webcam", 10),
    6: ("webcam", 20),
}

#: the report's start, cut to r rows where r < D; and groups of bins, the default where r < D
STARTS = {"identity": BinIdentity(), "groups": BinGroups()}

SPLITS = 10

AUTO, OWN = "auto", "own"

#: the report's claim about impostors: margins, in typical distances of a row to its nearest of
#: the same class, first learning rates (OWN: our solver), and iterations, on the rows of figure 5
MARGINS, RATES, ITERATIONS = (0.0125, 0.05, AUTO), (10.0, 100.0, OWN), 30

#: columns of webcam that the picture shows, of 800
SHOWN = 200


def jobs(splits: int | None) -> Iterator[Job]:
    """A job for each map, then one for each way to count impostors."""
    for split, figure, start in product(range(splits or SPLITS), FIGURES, STARTS):
        name, rank = FIGURES[figure]
        if rank is not None or start == "identity":  # a square map has the report's start alone
            yield {"kind": "map", "data": name, "split": split, "figure": figure, "start": start}
    for split, margin, rate in product(range(splits or SPLITS), MARGINS, RATES):
        job = {"kind": "impostors", "data": "webcam", "split": split, "figure": 5}
        yield {**job, "start": "identity", "margin": margin, "rate": rate}


def work(
    kind: str, data: str, split: int, figure: int, start: str,
    margin: float | str = AUTO, rate: float | str = OWN,
) -> dict[str, Any]:  # fmt: skip
    """The impostors on the way; of a map also how it spreads the bins, and the map itself."""
    X, y = stored(data)
    H, y = histograms(X), np.asarray(y)
    train, test = folds(y, split)
    rank = min(FIGURES[figure][1] or H.shape[1], H.shape[1])
    more: dict[str, Any] = {}
    if kind == "impostors":
        more = {"max_iter": ITERATIONS, "tol": 0.0}
    if margin != AUTO:
        more["margin"] = float(margin) * typical_distance(H[train], y[train])
    if rate != OWN:  # [OlsenPetersen] section 3
        step = {"increase": 1.01, "decrease": 0.5, "max_failures": 20}
        more["solver"] = BoldDriver(learning_rate=float(rate), **step)
    model = Chi2LMNN(rank, k=K, init=STARTS[start], random_state=split, **more)
    model.fit(H[train], y[train])
    result = {
        "impostors": [int(count) for count in model.history_["n_impostors"]],
        "triples": _triples(y[train]),
        "margin": float(model.margin_),
    }
    if kind == "map":
        L = model.components_
        result |= _spread(L)
        result["held out"] = chi2_1nn(model.transform(H), y, train, test)
        result["matrix"] = [[float(f"{entry:.4g}") for entry in row] for row in L[:, :SHOWN]]
    return result


def _triples(y: Any) -> int:
    """Triples of a row, a target neighbour and a row of another class: the most impostors."""
    _, counts = np.unique(y, return_counts=True)
    return int(sum(min(K, size - 1) * size * (len(y) - size) for size in counts))


def _spread(L: Any) -> dict[str, float]:
    """How many bins a column is spread over, what is zero, and what stays where it was."""
    log = np.log(np.where(L > 0, L, 1.0))
    diagonal = np.diag(L)
    return {
        "bins a column": float(np.mean(np.exp(-np.sum(L * log, axis=0)))),
        "zeros": float(np.mean(L <= 1e-12)),
        "kept": float(diagonal.mean()),
        "kept at least": float(diagonal.min()),
        "largest bin": float(L.sum(axis=1).max() / L.shape[1]),
    }
