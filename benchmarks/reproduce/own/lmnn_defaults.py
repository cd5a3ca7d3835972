"""What LMNN's defaults rest on: k, scaling, start, targets and penalty, inside training rows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from reproduce.framework import protocol
from reproduce.framework.experiment import Done, Experiment, Job
from reproduce.framework.pages import table
from reproduce.framework.protocol import SMALL, knn, stratified
from reproduce.framework.statistics import Summary

#: what differs from the defaults
SETTINGS: dict[str, dict[str, Any]] = {
    "`LMNN()`": {},
    "`k=3`": {"k": 3},
    "`k=3, n_neighbors=5`": {"k": 3, "n_neighbors": 5},
    '`scaling="standard"`': {"scaling": "standard"},
    '`scaling="global"`': {"scaling": "global"},
    '`init="auto"` (RCA)': {"init": "auto"},
    "`tol=1e-4`": {"tol": 1e-4},
    "`mu=0.3`": {"mu": 0.3},
    "`mu=3`": {"mu": 3.0},
    "`refresh_targets=20`": {"refresh_targets": 20},
    "`early_stopping=True`": {"early_stopping": True},
    "`alpha=0.01`": {"alpha": 0.01},
    "`alpha=0.1`": {"alpha": 0.1},
}


BAR = "5-NN, standardised"


def jobs(splits: int | None) -> Iterator[Job]:
    """Every set and split; all settings within the job, on the same rows."""
    for split, name in product(range(splits or 6), SMALL):
        yield {"data": name, "split": split}


def score_all(data: str, split: int) -> dict[str, Any]:
    """Accuracy of every setting on rows held out of the training rows of one split."""
    import warnings

    from sklearn.preprocessing import StandardScaler

    from vicinal import LMNN

    X, y = protocol.data(data)
    rows, _ = stratified(y, split)  # the rest are what the defaults are tested on elsewhere
    learn, judge = stratified(y[rows], 1000 + split)
    learn, judge = rows[learn], rows[judge]
    columns = StandardScaler().fit(X[learn])
    found = {BAR: knn(columns.transform(X[learn]), y[learn], columns.transform(X[judge]),
                      y[judge], 5)}  # fmt: skip
    for name, setting in SETTINGS.items():
        with warnings.catch_warnings(action="ignore"):  # of classes smaller than k
            model = LMNN(random_state=split, **setting).fit(X[learn], y[learn])
        found[name] = float(model.score(X[judge], y[judge]))
    return found


def parts(done: list[Done]) -> dict[str, Any]:
    """Accuracy by set and setting, and each setting's gain over the defaults."""
    names = [name for name in SMALL if any(each.job["data"] == name for each in done)]
    titles = [BAR, *SETTINGS]
    scores = {
        name: {title: [d.result[title] for d in done if d.job["data"] == name] for title in titles}
        for name in names
    }
    rows: list[list[Any]] = []
    for title in titles:
        means = [100 * np.mean(scores[name][title]) for name in names]
        gains = [np.mean(scores[name][title]) - np.mean(scores[name]["`LMNN()`"]) for name in names]
        gain = Summary(gains)
        rows.append(
            [title, *(f"{mean:.1f}" for mean in means), f"{np.mean(means):.2f}",
             "–" if title == "`LMNN()`" else f"{gain:+.2f}"]
        )  # fmt: skip
    n_splits = len({each.job["split"] for each in done})
    bar = Summary([np.mean(scores[n]["`LMNN()`"]) - np.mean(scores[n][BAR]) for n in names])
    return {
        "mean": f"{bar.mean:.1f}",
        "error": f"{bar.error:.1f}",
        "n_sets": len(names),
        "table": table(["", *names, "mean", "to `LMNN()`"], rows),
        "n_splits": n_splits,
    }


EXPERIMENTS = (
    Experiment(
        "lmnn-defaults",
        "LMNN: settings compared inside the training rows of eleven small sets",
        jobs,
        score_all,
        parts,
    ),
)
