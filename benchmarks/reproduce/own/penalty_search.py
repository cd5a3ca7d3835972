"""What choosing the penalty of NCA is worth, and what it costs, beside constants and a grid."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from reproduce.framework import protocol
from reproduce.framework.experiment import Claim, Done, Experiment, Job
from reproduce.framework.pages import table
from reproduce.framework.protocol import SMALL, stratified
from reproduce.framework.statistics import Summary
from reproduce.own.paired import (
    clear,
    figure,
    gain,
    over_sets,
    present,
    scores,
    subsample,
    told_over_sets,
)

SETS = (*SMALL, "digits", "landsat", "usps", "magic", "covtype15120")
#: the most rows that are taken of a set
MOST = 1000
SPLITS = 10
#: the penalties of the grid: those that `NCA()` tries, and others on both sides
GRID = (0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 0.0)
FOLDS = 5
OWN, FULL = "auto", "grid"
#: how the penalty is set, in words; the first is compared with the others
FITS = {
    OWN: "`NCA()`",
    "constant": "`alpha=0.003`",
    "scaled": '`alpha="scaled"`',
    "stopping": "`alpha=0, early_stopping=True`",
    FULL: f"grid of {len(GRID)}",
}


def jobs(splits: int | None) -> Iterator[Job]:
    """Every set and split; all fits within the job."""
    for split in range(splits or SPLITS):
        for name in SETS:
            yield {"data": name, "split": split}


def work(data: str, split: int) -> dict[str, Any]:
    """Test accuracy and core seconds of each way to set the penalty."""
    from vicinal import NCA

    X, y = protocol.data(data)
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
        OWN: NCA(random_state=seed),
        "constant": NCA(alpha=3e-3, random_state=seed),
        "scaled": NCA(alpha="scaled", random_state=seed),
        "stopping": NCA(alpha=0.0, early_stopping=True, random_state=seed),
        FULL: GridSearchCV(NCA(random_state=seed), {"alpha": list(GRID)}, cv=folds),
    }


def parts(done: list[Done]) -> dict[str, Any]:
    """What the search gains on each other way, and what it takes."""
    names, others = present(SETS, done), [fit for fit in FITS if fit != OWN]
    rows: list[list[Any]] = []
    means: dict[str, list[float]] = {fit: [] for fit in FITS}
    for name in names:
        cells = [Summary(list(scores(done, fit, data=name).values())) for fit in FITS]
        for fit, cell in zip(FITS, cells, strict=True):
            means[fit].append(cell.mean)
        gaps = [gain(done, OWN, fit, data=name) for fit in others]
        rows.append([name, *(f"{cell:.1f}" for cell in cells), *(f"{gap:+.1f}" for gap in gaps)])
    gaps = [over_sets(done, OWN, fit, names) for fit in others]
    cells = [f"{np.mean(each):.2f}" for each in means.values()]
    rows.append(["**mean**", *cells, *(f"{gap:+.2f}" for gap in gaps)])
    head = ["set", *FITS.values(), *(f"− {FITS[fit]}" for fit in others)]
    return {
        "finding": "\n".join(_findings(done, names)),
        "table": table(head, rows),
        "cost": table(["", *FITS.values()], _cost(done, names)),
        "n_splits": len({each.job["split"] for each in done}),
        "n_sets": len(names),
        "most": f"{MOST:,}",
        "grid": ", ".join(f"{alpha:g}" for alpha in GRID),
        "folds": FOLDS,
        "times_grid": f"{1 / _share(done, FULL):.1f}",
        "times_scaled": f"{_share(done, 'scaled'):.0f}",
        "sets_scaled": _apart(done, "scaled", names),
    }


def _findings(done: list[Done], names: list[str]) -> Iterator[str]:
    yield "`NCA()`, which chooses its penalty by a coarse search, beside"
    yield ""
    for fit, title in FITS.items():
        if fit != OWN:
            told = told_over_sets(done, OWN, fit, names)
            yield f"- {title}: {told}; {_apart(done, fit, names)}."
    yield ""
    yield (
        f"The grid takes {1 / _share(done, FULL):.1f} times the core seconds of `NCA()`, which takes "
        f"{_share(done, 'scaled'):.0f} times those of a fit without a search."
    )


def _apart(done: list[Done], fit: str, names: list[str]) -> str:
    """The sets on which `NCA()` is clearly ahead of another fit, and behind."""
    gaps = {name: gain(done, OWN, fit, data=name) for name in names}
    told = []
    for word, sign in (("ahead", 1), ("behind", -1)):
        found = [name for name, gap in gaps.items() if gap and clear(gap) and sign * gap.mean > 0]
        told.append(f"clearly {word} on {', '.join(found) or 'none'}")
    return " and ".join(told)


def _cost(done: list[Done], names: list[str]) -> list[list[Any]]:
    """Mean core seconds of a fit: on the sets, and on all of them."""
    rows = [[name, *(f"{_seconds(done, fit, name):.2f}" for fit in FITS)] for name in names]
    return [*rows, ["**mean**", *(f"{_seconds(done, fit):.2f}" for fit in FITS)]]


def _seconds(done: list[Done], fit: str, name: str | None = None) -> float:
    here = [each for each in done if name in (None, each.job["data"])]
    return float(np.mean([each.result[f"core seconds, {fit}"] for each in here]))


def _share(done: list[Done], fit: str) -> float:
    """Core seconds of `NCA()` as a share of those of another fit, on the mean over all."""
    return _seconds(done, OWN) / _seconds(done, fit)


def claims(done: list[Done]) -> Iterator[Claim]:
    """What the search is worth."""
    names = present(SETS, done)
    asked = {
        FULL: f"its penalty from a grid of {len(GRID)} (in {_share(done, FULL):.2f} × the core time)",
        "scaled": f'`alpha="scaled"` (in {_share(done, "scaled"):.0f} × the core time)',
        "stopping": "early stopping without a penalty",
    }
    for fit, words in asked.items():
        if told := figure(done, OWN, fit, names):
            yield Claim(f"`NCA()`, which searches a penalty, minus {words}", "answer", told)


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
