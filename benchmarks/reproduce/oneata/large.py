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
from reproduce.framework.statistics import summary, verdict
from reproduce.oneata.common import (
    EARLY,
    PLAIN,
    OwnScale,
    Published,
    count_verdicts,
    expected_accuracy,
)
from reproduce.oneata.judging import ONE, gap, n_splits, penalty_range, reached, score_words

LARGE = ("usps", "magic", "mnist")


#: random splits of usps and magic; 20 in the thesis
SPLITS = 10


#: rank of all maps of section 5.3
D = 5


RULES = ("train", "1-NN", "NCA")


#: all that the thesis's stochastic runs share: sections 5.3.2 and 5.3.3
THESIS: dict[str, Any] = {**PLAIN, **EARLY, "init": OwnScale("rca"), "solver": "sgd"}


def jobs_of(fits: Iterable[str], splits: int | None, sets: Iterable[str] = LARGE) -> Iterator[Job]:
    """One fit a job, mnist last: it has one split, and takes longest."""
    sets = tuple(sets)
    small = [name for name in sets if name != "mnist"]
    for split, name, fit in product(range(splits or SPLITS), small, fits):
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
    model: Any,
    data: str,
    split: int,
    learn: Callable[[Any, Any], tuple[Any, Any]] | None = None,
    repair: Callable[[Any, Any], float] | None = None,
) -> dict[str, Any]:
    """Fit to the training rows; the scores of the table, and what the fit took.

    ``learn(X, y)`` gives the rows to learn from, where they are not all of the training rows; these
    classify nevertheless.  ``repair(Z, y)`` gives a factor of the learnt map, from all embedded
    training rows.
    """
    from vicinal.objectives import nca_posterior

    X, y, train, test = large(data, split)
    X_train, y_train, X_test = X[train], y[train], X[test]
    X_fit, y_fit = (X_train, y_train) if learn is None else learn(X_train, y_train)
    wall, core = time.perf_counter(), time.process_time()
    model.fit(X_fit, y_fit)
    Z = model.transform(X_train)
    factor = 1.0 if repair is None else repair(Z, y_train)
    wall, core = time.perf_counter() - wall, time.process_time() - core
    how = {"kernel": model.plan_.kernel, "background": model.background_}
    learnt = expected_accuracy(factor * model.transform(X_fit), y_fit, **how)
    Z, Z_test = factor * Z, factor * model.transform(X_test)
    rule = nca_posterior(Z_test, Z, y_train, **how)  # of all training rows
    near, far = _nearest(Z, y_train, Z_test)
    return {
        "train": learnt,
        "1-NN": float(np.mean(near == y[test])),
        "NCA": float(np.mean(rule.argmax(axis=1) == np.searchsorted(np.unique(y_train), y[test]))),
        "beyond 1": float(np.mean(far > 1.0)),
        "alpha": float(model.alpha_),
        "factor": factor,
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


def main_table(
    done: list[Done],
    paper: dict[str, Any],
    fits: Iterable[str],
    *,
    names: dict[str, str] | None = None,
    unlike: Iterable[tuple[str, str]] = (),
) -> str:
    """The paper's figures and ours, a column and a difference for each fit.

    ``names``: what a column is called, where that is not the name of the fit.  ``unlike``: fits and
    scores that are not of the same rows as the paper's: no difference is shown.
    """
    fits, unlike, names = list(fits), set(unlike), names or {}
    heads = (word for fit in fits for word in (names.get(fit, fit), "difference"))

    def row(name: str, rule: str, figure: Published) -> Iterator[Any]:
        yield from (name, "f(A), train" if rule == "train" else rule, figure)
        for fit in fits:
            ours = summary(done, rule, data=name, fit=fit)
            one = n_splits(done, data=name, fit=fit) < 2  # no error of ours: points
            beside = Published(figure.mean) if one else figure
            yield from (ours, None if (fit, rule) in unlike else verdict(ours, beside))

    return table(["data", "score", "paper", *heads], [row(*cell) for cell in cells(paper)])


def judged(done: list[Done], paper: dict[str, Any], fit: str, words: str) -> str:
    """How many test scores are above, level with and below the paper's; a single split apart."""
    found = [cell for cell in cells(paper) if cell[1] != "train"]
    several, single = [], []
    for name, rule, figure in found:
        ours = summary(done, rule, data=name, fit=fit)
        if n_splits(done, data=name, fit=fit) > 1:
            several.append((f"{name} {rule}", ours, figure))
        elif ours is not None:
            single.append(f"{rule} {ours.mean - figure.mean:+.1f} on {name}")
    text = count_verdicts(words, several) if several or not single else f"**{words}:**"
    return f"{text} In points, of one split: {', '.join(single)}." if single else text


def thesis_reached(done: list[Done], paper: dict[str, Any], fit: str) -> str | None:
    """Whether a fit has the paper's figures by the NCA rule."""
    return reached(
        (n_splits(done, data=name, fit=fit), summary(done, rule, data=name, fit=fit), figure)
        for name, rule, figure in cells(paper)
        if rule == "NCA"
    )


def figures(done: list[Done], fit: str, score: str = "NCA") -> str:
    """A fit's scores set by set, of those that have been run, short enough for the index."""
    run = [name for name in LARGE if n_splits(done, data=name, fit=fit)]
    return in_short({name: score_words(done, score, data=name, fit=fit) for name in run})


def in_short(found: dict[str, Any]) -> str:
    """Set by set, each on a line of the index: what several single splits share is said once."""
    told = {name: str(each) for name, each in found.items()}
    single = [name for name, each in told.items() if each.endswith(ONE)]
    text = ", ".join(f"{name} {each}" for name, each in told.items())
    return f"{text.replace(ONE, '')}, one split each" if len(single) > 1 else text


def mean(done: list[Done], key: str, **where: Any) -> float:
    """Of one result over the jobs that match; nan without any."""
    found = [e.result[key] for e in done if where.items() <= e.job.items() and key in e.result]
    return float(np.mean(found)) if found else float("nan")


def shown(words: str) -> str:
    """A cell of a table; empty where something in it has not been run."""
    return "" if "nan" in words else words


def gaps(
    done: list[Done], first: str, second: str, score: str = "NCA", other: str | None = None
) -> dict[str, Any]:
    """By how many points a fit is ahead of another, set by set, of those that have been run."""
    found = {name: gap(done, first, second, score, other, data=name) for name in LARGE}
    return {name: each for name, each in found.items() if each is not None}


def by_set(
    done: list[Done], first: str, second: str, score: str = "NCA", other: str | None = None
) -> str:
    """The same in words."""
    found = gaps(done, first, second, score, other)
    return ", ".join(f"{each} on {name}" for name, each in found.items()) or "(not run yet)"


def penalties(done: list[Done], fit: str) -> str:
    """Which penalties a search has chosen, set by set: the median and the range over the splits."""
    run = [name for name in LARGE if n_splits(done, data=name, fit=fit)]
    told = "; ".join(f"{name} {penalty_range(done, fit, data=name)}" for name in run)
    return told or "(not run yet)"


def repeats(done: list[Done]) -> str:
    """How many splits of which set have been run."""
    counts = {}
    for name in dict.fromkeys(each.job["data"] for each in done):
        counts[name] = len({e.job["split"] for e in done if e.job["data"] == name})
    return ", ".join(f"{name} {count}" for name, count in counts.items())
