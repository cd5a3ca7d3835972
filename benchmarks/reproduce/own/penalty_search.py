"""What choosing the penalty of NCA is worth, and what it costs, against constants and a grid."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.datasets import make_blobs, make_classification, make_moons

from reproduce.framework import protocol
from reproduce.framework.experiment import Claim, Done, Experiment, Job
from reproduce.framework.pages import bullets, table
from reproduce.framework.protocol import SMALL, stratified
from reproduce.framework.statistics import Summary
from reproduce.own.paired import (
    figure,
    gain,
    over_sets,
    present,
    scores,
    subsample,
    told_over_sets,
)

REAL = (*SMALL, "digits", "landsat", "usps", "magic", "covtype15120")
#: tables with known faults: columns that tell nothing, wrong labels, curved or overlapping classes
MADE: dict[str, Callable[[], Any]] = {
    "useless columns": lambda: make_classification(
        1000, 30, n_informative=12, n_redundant=0, n_classes=5, random_state=0
    ),
    "wrong labels": lambda: make_classification(
        400, 20, n_informative=3, n_redundant=2, flip_y=0.2, random_state=1
    ),
    "moons": lambda: make_moons(400, noise=0.25, random_state=0),
    "blobs": lambda: make_blobs(300, 5, centers=4, cluster_std=4.0, random_state=3),
}
#: the sets of each table of the page
GROUPS = {"real": REAL, "made": tuple(MADE)}
#: the most rows that are taken of a set
MOST = 1000
SPLITS = 10
#: the penalties of the grid: those that `NCA()` tries, and others on both sides
GRID = (0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 0.0)
FOLDS = 5
OWN, FULL = "auto", "grid"
#: how the penalty is set, in words; the first is compared with the others
FITS = {
    OWN: f"`NCA(cv={FOLDS})`",
    "constant": "`alpha=0.003`",
    "scaled": '`alpha="scaled"`',
    "stopping": "`alpha=0, early_stopping=True`",
    FULL: f"grid of {len(GRID)}",
}


def jobs(splits: int | None) -> Iterator[Job]:
    """Every set and split; all fits within the job."""
    for split in range(splits or SPLITS):
        for name in (*REAL, *MADE):
            yield {"data": name, "split": split}


def work(data: str, split: int) -> dict[str, Any]:
    """Test accuracy and core seconds of each way to set the penalty."""
    from vicinal import NCA

    X, y = MADE[data]() if data in MADE else protocol.data(data)
    rows = subsample(len(y), MOST)
    X, y = X[rows].astype(np.float64), y[rows]
    train, test = stratified(y, split)
    NCA(max_iter=1, random_state=0).fit(X[train], y[train])  # compiles
    found: dict[str, Any] = {}
    for name, model in _models(split).items():
        began = time.process_time()
        model.fit(X[train], y[train])
        found[f"core seconds, {name}"] = time.process_time() - began
        found[name] = float(model.score(X[test], y[test]))
    return found


def _models(seed: int) -> dict[str, Any]:
    from sklearn.model_selection import GridSearchCV, StratifiedKFold

    from vicinal import NCA

    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    return {
        OWN: NCA(cv=FOLDS, random_state=seed),
        "constant": NCA(alpha=3e-3, random_state=seed),
        "scaled": NCA(alpha="scaled", random_state=seed),
        "stopping": NCA(alpha=0.0, early_stopping=True, random_state=seed),
        FULL: GridSearchCV(NCA(random_state=seed), {"alpha": list(GRID)}, cv=folds),
    }


def parts(done: list[Done]) -> dict[str, Any]:
    """What the search gains on each other way, and what it takes."""
    names = {group: present(sets, done) for group, sets in GROUPS.items()}
    return {
        **{f"finding_{group}": _finding(done, known) for group, known in names.items()},
        **{f"table_{group}": _table(done, known) for group, known in names.items()},
        "cost": table(["", *FITS.values()], _cost(done, [*names["real"], *names["made"]])),
        "seconds": _seconds_words(done),
        "n_splits": len({each.job["split"] for each in done}),
        "n_real": len(names["real"]),
        "n_made": len(names["made"]),
        "most": f"{MOST:,}",
        "grid": ", ".join(f"{alpha:g}" for alpha in GRID),
        "folds": FOLDS,
        "times_grid": f"{1 / _ratio(done, FULL):.1f}",
        "times_scaled": f"{_ratio(done, 'scaled'):.0f}",
    }


def _others() -> list[str]:
    return [fit for fit in FITS if fit != OWN]


def _table(done: list[Done], names: list[str]) -> str:
    """Accuracies set by set, and by how much the search exceeds each other way."""
    rows: list[list[Any]] = []
    means: dict[str, list[float]] = {fit: [] for fit in FITS}
    for name in names:
        cells = {fit: Summary(list(scores(done, fit, data=name).values())) for fit in FITS}
        for fit, cell in cells.items():
            means[fit].append(cell.mean)
        gaps = [gain(done, OWN, fit, data=name) for fit in _others()]
        shown = [f"{cell:.1f}" for cell in cells.values()]
        rows.append([name, *shown, *(f"{gap:+.1f}" for gap in gaps)])
    if names:
        gaps = [over_sets(done, OWN, fit, names) for fit in _others()]
        shown = [f"{np.mean(each):.2f}" for each in means.values()]
        rows.append(["**mean**", *shown, *(f"{gap:+.2f}" for gap in gaps)])
    return table(["set", *FITS.values(), *(f"− {FITS[fit]}" for fit in _others())], rows)


def _finding(done: list[Done], names: list[str]) -> str:
    told = {fit: told_over_sets(done, OWN, fit, names) for fit in _others()} if names else {}
    return bullets(*(f"{FITS[fit]}: {words}." for fit, words in told.items()))


def _cost(done: list[Done], names: list[str]) -> list[list[Any]]:
    """Mean core seconds of a fit: on each set, and on all of them."""
    rows = [[name, *(f"{_seconds(done, fit, name):.2f}" for fit in FITS)] for name in names]
    return [*rows, ["**mean**", *(f"{_seconds(done, fit):.2f}" for fit in FITS)]]


def _seconds_words(done: list[Done]) -> str:
    """How much longer the searches take, in a sentence."""
    return (
        f"A fit of {FITS[OWN]} takes {_ratio(done, 'scaled'):.0f} times the core seconds of one "
        f"with {FITS['scaled']}, and the grid {1 / _ratio(done, FULL):.1f} times those of "
        f"{FITS[OWN]}."
    )


def _seconds(done: list[Done], fit: str, name: str | None = None) -> float:
    here = [each for each in done if name in (None, each.job["data"])]
    return float(np.mean([each.result[f"core seconds, {fit}"] for each in here]))


def _ratio(done: list[Done], fit: str) -> float:
    """Core seconds of the search over those of another fit, on average over all sets."""
    return _seconds(done, OWN) / _seconds(done, fit)


def claims(done: list[Done]) -> Iterator[Claim]:
    """What the search is worth."""
    grid = f"a grid of {len(GRID)} (in {_ratio(done, FULL):.2f} × the core time)"
    scaled = f'`alpha="scaled"` (in {_ratio(done, "scaled"):.0f} × the core time)'
    for fit, words in ((FULL, grid), ("scaled", scaled)):
        for group, sets in GROUPS.items():
            names = present(sets, done)
            if told := figure(done, OWN, fit, names):
                says = (
                    f"{FITS[OWN]}, which searches a penalty, against {words}: {len(names)} {group} "
                    "sets"
                )
                yield Claim(says, "answer", told)


EXPERIMENTS = (
    Experiment(
        "penalty-search",
        "What choosing the penalty of NCA is worth, and what it costs",
        jobs,
        work,
        parts,
        claims=claims,
    ),
)
