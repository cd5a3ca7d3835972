"""What LMNN's defaults rest on: k, scaling, start, targets and penalty, inside training rows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from reproduce.framework import protocol
from reproduce.framework.experiment import Claim, Done, Experiment, Job
from reproduce.framework.pages import table
from reproduce.framework.protocol import SMALL, knn, stratified
from reproduce.framework.statistics import TESTED, Summary

#: what differs from the defaults
SETTINGS: dict[str, dict[str, Any]] = {
    "`LMNN()`": {},
    "`k=3`": {"k": 3},
    "`k=3, n_neighbors=5`": {"k": 3, "n_neighbors": 5},
    '`scaling="standard"`': {"scaling": "standard"},
    '`scaling="global"`': {"scaling": "global"},
    '`init="auto"` (RCA)': {"init": "auto"},
    "`mu=0.3`": {"mu": 0.3},
    "`mu=3`": {"mu": 3.0},
    "`refresh_targets=20`": {"refresh_targets": 20},
    "`early_stopping=True`": {"early_stopping": True},
    "`alpha=0`": {"alpha": 0.0},
    "`alpha=0.1`": {"alpha": 0.1},
    "`alpha=1`": {"alpha": 1.0},
    "`alpha=10`": {"alpha": 10.0},
}


BAR, DEFAULT = "5-NN, standardised", "`LMNN()`"


def jobs(splits: int | None) -> Iterator[Job]:
    """Every set and split; all settings within the job, on the same rows."""
    for split, name in product(range(splits or 10), SMALL):
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
    rows: list[list[Any]] = []
    for title in (BAR, *SETTINGS):
        means = [100 * np.mean(_scores(done, name, title)) for name in names]
        row = [title, *(f"{mean:.1f}" for mean in means), f"{np.mean(means):.2f}"]
        rows.append([*row, *_beside(done, title)])
    bar = _gain(done, BAR)
    return {
        "mean": f"{-bar.mean:.1f}",
        "error": f"{bar.error:.1f}",
        "n_sets": len(names),
        "verdict": _verdict(done),
        "table": table(["", *names, "mean", "to `LMNN()`", "ahead on", "behind on"], rows),
        "n_splits": len({each.job["split"] for each in done}),
    }


def _scores(done: list[Done], name: str, title: str) -> list[float]:
    return [each.result[title] for each in done if each.job["data"] == name]


def _gaps(done: list[Done], title: str) -> dict[str, Any]:
    """Differences to the defaults on every split, by set."""
    found: dict[str, list[float]] = {}
    for each in done:
        found.setdefault(each.job["data"], []).append(each.result[title] - each.result[DEFAULT])
    return found


def _gain(done: list[Done], title: str) -> Summary:
    """Over the sets, in points."""
    return Summary([np.mean(gaps) for gaps in _gaps(done, title).values()])


def _clear(done: list[Done], title: str) -> tuple[list[str], list[str]]:
    """Sets on which a setting is ahead or behind by more than two corrected errors."""
    ahead, behind = [], []
    for name, gaps in _gaps(done, title).items():
        of = Summary(gaps, TESTED)
        if len(gaps) > 1 and abs(of.mean) > 2 * of.error:
            (ahead if of.mean > 0 else behind).append(name)
    return ahead, behind


def _beside(done: list[Done], title: str) -> list[str]:
    if title == DEFAULT:
        return ["–", "", ""]
    return [f"{_gain(done, title):+.2f}", *(", ".join(names) for names in _clear(done, title))]


def _better(done: list[Done]) -> list[str]:
    """Settings ahead by two errors on average over sets, and clearly behind on none."""
    found = []
    for title in SETTINGS:
        gain = _gain(done, title)
        if gain.mean > 2 * gain.error > 0 and not _clear(done, title)[1]:
            found.append(title)
    return found


def _best(done: list[Done]) -> tuple[str, Summary]:
    others = {title: _gain(done, title) for title in SETTINGS if title != DEFAULT}
    best = max(others, key=lambda title: others[title].mean)
    return best, others[best]


def _verdict(done: list[Done]) -> str:
    better = _better(done)
    best, gain = _best(done)
    if better:
        return f"These should become defaults: {', '.join(better)}."
    return (
        f"No setting is clearly better than the defaults; the best is {best}, {gain:+.2f} points."
    )


def claims(done: list[Done]) -> Iterator[Claim]:
    """Are the defaults worth it, and should one change?"""
    bar = _gain(done, BAR)
    says = "Is `LMNN()` ahead of five neighbours in standardised columns?"
    yield Claim(says, "answer", f"{-bar.mean:+.1f} ± {bar.error:.1f} points over the sets")
    better, (best, gain) = _better(done), _best(done)
    word = "yes" if better else "no"
    says = "Should a default of LMNN change?"
    yield Claim(says, "answer", f"{word}; the best other setting, {best}: {gain:+.2f}")


EXPERIMENTS = (
    Experiment(
        "lmnn-defaults",
        "LMNN: settings compared inside the training rows of eleven small sets",
        jobs,
        score_all,
        parts,
        claims=claims,
    ),
)
