"""What the tables on usps, magic and mnist share: data, splits, scores and their reports."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import Any

import numpy as np

from reproduce.framework import protocol
from reproduce.framework.experiment import Done, Job
from reproduce.framework.pages import table
from reproduce.framework.protocol import rows_70_30
from reproduce.framework.statistics import Published, Summary, distance, lead, summary, verdict
from reproduce.oneata.common import EARLY, PLAIN, OwnScale, expected_accuracy

LARGE = ("usps", "magic", "mnist")


#: rank of all maps of section 5.3
D = 5


RULES = ("train", "1-NN", "NCA")


#: all that the thesis's stochastic runs share: sections 5.3.2 and 5.3.3
THESIS: dict[str, Any] = {**PLAIN, **EARLY, "init": OwnScale("rca"), "solver": "sgd"}


def jobs_of(fits: Iterable[str], splits: int | None, sets: Iterable[str] = LARGE) -> Iterator[Job]:
    """One fit a job, mnist last: it has one split, and takes longest."""
    sets = tuple(sets)
    small = [name for name in sets if name != "mnist"]
    for split, name, fit in product(range(splits or 20), small, fits):
        yield {"data": name, "split": split, "fit": fit}
    if "mnist" in sets:
        for fit in fits:
            yield {"data": "mnist", "split": 0, "fit": fit}


def large(name: str, split: int) -> tuple[Any, Any, Any, Any]:
    """Rows, labels, positions of the training rows and of the test rows."""
    X, y = protocol.data(name)
    if X.dtype == np.uint8:  # pixels
        X = X.astype(np.float32)
    official = name in ("mnist", "landsat")
    train, test = protocol.official(name) if official else rows_70_30(len(y), split)
    return X, y, train, test


def fit_and_score(
    model: Any, data: str, split: int, learn: Callable[[Any, Any], tuple[Any, Any]] | None = None
) -> dict[str, Any]:
    """Fit to the training rows; the scores of the table, and what the fit took.

    ``learn(X, y)`` gives the rows to learn from, where they are not all of the training rows; these
    classify nevertheless.
    """
    from vicinal.objectives import nca_posterior

    X, y, train, test = large(data, split)
    X_train, y_train, X_test = X[train], y[train], X[test]
    X_fit, y_fit = (X_train, y_train) if learn is None else learn(X_train, y_train)
    wall, core = time.perf_counter(), time.process_time()
    model.fit(X_fit, y_fit)
    wall, core = time.perf_counter() - wall, time.process_time() - core
    how = {"kernel": model.plan_.kernel, "background": model.background_}
    learnt = expected_accuracy(model.transform(X_fit), y_fit, **how)
    Z, Z_test = model.transform(X_train), model.transform(X_test)
    rule = nca_posterior(Z_test, Z, y_train, **how)  # of all training rows
    near, far = _nearest(Z, y_train, Z_test)
    return {
        "train": learnt,
        "1-NN": float(np.mean(near == y[test])),
        "NCA": float(np.mean(rule.argmax(axis=1) == np.searchsorted(np.unique(y_train), y[test]))),
        "beyond 1": float(np.mean(far > 1.0)),
        "iterations": float(model.n_iter_),
        "evaluations": float(model.history_["n_evaluations"][-1]),
        "seconds": wall,
        "core seconds": core,
    }


def _nearest(Z: Any, y: Any, Z_test: Any) -> tuple[Any, Any]:
    """Label of the nearest training row of each test row, and how far that is."""
    from sklearn.neighbors import NearestNeighbors

    distances, rows = NearestNeighbors(n_neighbors=1).fit(Z).kneighbors(Z_test)
    return y[rows[:, 0]], distances[:, 0]


def cells(paper: dict[str, Any]) -> list[tuple[str, str, Published]]:
    """Data set, score and published figure of each cell of a table."""
    return [
        (name, rule, Published(*figures))
        for name, row in paper.items()
        for rule, figures in zip(RULES, row, strict=True)
    ]


def main_table(done: list[Done], paper: dict[str, Any], fits: Iterable[str]) -> str:
    """The paper's figures and ours, a column and a difference for each fit."""
    fits = list(fits)

    def row(name: str, rule: str, figure: Published) -> Iterator[Any]:
        yield from (name, "f(A), train" if rule == "train" else rule, figure)
        for fit in fits:
            ours = summary(done, rule, data=name, fit=fit)
            yield from (ours, verdict(ours, figure))

    return table(
        ["data", "score", "paper", *(word for fit in fits for word in (fit, "difference"))],
        [row(*cell) for cell in cells(paper)],
    )


def verdicts(
    done: list[Done], paper: dict[str, Any], fit: str
) -> list[tuple[str, Summary | None, Published]]:
    """The test scores of a fit, as ``count_verdicts`` wants them."""
    return [
        (f"{name} {rule}", summary(done, rule, data=name, fit=fit), figure)
        for name, rule, figure in cells(paper)
        if rule != "train"
    ]


def below(done: list[Done], paper: dict[str, Any], fit: str) -> list[str]:
    """Test scores of a fit that are more than three standard errors below the paper's."""
    found = verdicts(done, paper, fit)
    return [name for name, ours, figure in found if ours and distance(ours, figure) < -3.0]


def mean(done: list[Done], key: str, **where: Any) -> float:
    """Of one result over the jobs that match; nan without any."""
    found = [e.result[key] for e in done if where.items() <= e.job.items() and key in e.result]
    return float(np.mean(found)) if found else float("nan")


def shown(words: str) -> str:
    """A cell of a table; empty where something in it has not been run."""
    return "" if "nan" in words else words


def ahead(done: list[Done], first: str, second: str, score: str = "NCA", **where: Any) -> str:
    """By how many points a fit is ahead of another, paired over the splits that both have."""
    found: dict[str, dict[Any, float]] = {first: {}, second: {}}
    for each in done:
        if each.job["fit"] in found and where.items() <= each.job.items():
            at = (each.job["data"], each.job.get("d"), each.job["split"])
            found[each.job["fit"]][at] = 100 * each.result[score]
    both = sorted(found[first].keys() & found[second].keys(), key=str)
    if not both:
        return "(not run yet)"
    points, errors = lead([found[first][at] for at in both], [found[second][at] for at in both])
    error = abs(points / errors) if errors and np.isfinite(errors) else 0.0
    return f"{points:+.1f} ± {error:.1f}" if error else f"{points:+.1f}"


def by_set(done: list[Done], first: str, second: str, score: str = "NCA") -> str:
    """The same, set by set, of those that have been run."""
    words = [
        f"{points} on {name}"
        for name in LARGE
        if not (points := ahead(done, first, second, score, data=name)).startswith("(")
    ]
    return ", ".join(words) or "(not run yet)"


def repeats(done: list[Done]) -> str:
    """How many splits of which set have been run."""
    counts = {}
    for name in dict.fromkeys(each.job["data"] for each in done):
        counts[name] = len({e.job["split"] for e in done if e.job["data"] == name})
    return ", ".join(f"{name} {count}" for name, count in counts.items())
