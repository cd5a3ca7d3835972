"""Sample weights: against repeated rows and priors, for doubtful labels, for biased samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from reproduce.framework import protocol
from reproduce.framework.experiment import Claim, Done, Experiment, Job
from reproduce.framework.pages import table
from reproduce.framework.protocol import stratified
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

#: the most rows that are taken of a set
MOST = 500

#: the sets of each question
SETS = {
    "rare classes": ("balance", "pima", "transfusion"),
    "doubtful labels": ("digits", "pima", "segment"),
    "biased sample": ("digits", "pima", "segment"),
}

#: the fits of each question, and their titles; the first two are compared with the other ones
FITS = {
    "rare classes": {
        "weights": "weights, N / N_c",
        "none": "no weights",
        "repeated": "rows repeated",
        "priors": '`priors="uniform"`',
    },
    "doubtful labels": {
        "weights": "doubtful rows weigh a quarter",
        "none": "no weights",
        "left out": "doubtful rows left out",
        "clean": "all labels right",
    },
    "biased sample": {
        "weights": "weights, 1 / chance",
        "none": "no weights",
        "fair": "a fair sample",
    },
}

#: share of the training rows whose labels are doubtful, share of these that is drawn again
DOUBTFUL, DRAWN, WEIGHT = 0.5, 0.5, 0.25

#: how strongly the first principal component decides whether a row is sampled
SLOPE = 2.0

SPLITS = 10


def jobs(splits: int | None) -> Iterator[Job]:
    """Every question, set and split; all fits within the job."""
    for split in range(splits or SPLITS):
        for question, names in SETS.items():
            for name in names:
                yield {"question": question, "data": name, "split": split}


def work(question: str, data: str, split: int) -> dict[str, Any]:
    """Test accuracy of the fits that answer a question; for rare classes, the mean over classes."""
    X, y = protocol.data(data)
    rows = subsample(len(y), MOST)
    X, y = X[rows], y[rows]
    train, test = stratified(y, split)
    answer = {"rare classes": _rare, "doubtful labels": _doubtful, "biased sample": _biased}
    return answer[question](X, y, train, test, split)


def _predicted(X: Any, y: Any, new: Any, seed: int, weight: Any = None, **parameters: Any) -> Any:
    from vicinal import NCA

    return NCA(random_state=seed, **parameters).fit(X, y, sample_weight=weight).predict(new)


def _rare(X: Any, y: Any, train: Any, test: Any, seed: int) -> dict[str, Any]:
    """All classes shall count the same: by weights, by repeated rows, by priors."""
    from sklearn.metrics import balanced_accuracy_score

    counts = np.bincount(y[train])
    weight = (counts.max() / np.maximum(counts, 1))[y[train]]
    again = np.repeat(train, np.round(weight).astype(int))

    def score(rows: Any, weight: Any = None, **parameters: Any) -> float:
        guess = _predicted(X[rows], y[rows], X[test], seed, weight, **parameters)
        return float(balanced_accuracy_score(y[test], guess))

    return {
        "weights": score(train, weight),
        "none": score(train),
        "repeated": score(again),
        "priors": score(train, priors="uniform"),
    }


def _doubtful(X: Any, y: Any, train: Any, test: Any, seed: int) -> dict[str, Any]:
    """Half of the labels come from a source that is often wrong, and we know which half."""
    rng = np.random.RandomState(seed)
    doubtful = rng.uniform(size=len(train)) < DOUBTFUL
    again = doubtful & (rng.uniform(size=len(train)) < DRAWN)
    labels = np.where(again, rng.choice(np.unique(y), len(train)), y[train])

    def score(kept: Any, labels: Any, weight: Any = None) -> float:
        guess = _predicted(X[train[kept]], labels[kept], X[test], seed, weight)
        return float(np.mean(guess == y[test]))

    everything = np.ones(len(train), dtype=bool)
    return {
        "weights": score(everything, labels, np.where(doubtful, WEIGHT, 1.0)),
        "none": score(everything, labels),
        "left out": score(~doubtful, labels),
        "clean": score(everything, y[train]),
        "wrong": float(np.mean(labels != y[train])),
    }


def _biased(X: Any, y: Any, train: Any, test: Any, seed: int) -> dict[str, Any]:
    """Rows at one end of the table are sampled more often, with chances that we know."""
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import StandardScaler

    rng = np.random.RandomState(seed)
    S = StandardScaler().fit_transform(X[train])
    first = PCA(1, random_state=0).fit_transform(S)[:, 0]
    chance = 1.0 / (1.0 + np.exp(-SLOPE * first / first.std()))
    taken = _with_all_classes(rng.uniform(size=len(train)) < chance, y[train])
    fair = np.zeros(len(train), dtype=bool)
    fair[rng.permutation(len(train))[: taken.sum()]] = True
    fair = _with_all_classes(fair, y[train])

    def score(kept: Any, weight: Any = None) -> float:
        guess = _predicted(X[train[kept]], y[train[kept]], X[test], seed, weight)
        return float(np.mean(guess == y[test]))

    weight = 1.0 / np.maximum(chance[taken], 0.02)
    result = {"weights": score(taken, weight), "none": score(taken), "fair": score(fair)}
    share = weight.sum() ** 2 / (weight**2).sum()
    return {**result, "taken": int(taken.sum()), "effective": float(share)}


def _with_all_classes(taken: Any, y: Any) -> Any:
    """The same with the first three rows of every class, so that none is missing."""
    taken = taken.copy()
    for c in np.unique(y):
        taken[np.flatnonzero(y == c)[:3]] = True
    return taken


def parts(done: list[Done]) -> dict[str, Any]:
    """For each question a table, and what weights are worth."""
    found = {question.replace(" ", "_"): _table(done, question) for question in SETS}
    return {
        **found,
        "finding": "\n".join(_findings(done)),
        "n_splits": len({each.job["split"] for each in done}),
        "most": f"{MOST:,}",
        "wrong": _range(done, "doubtful labels", lambda result: result["wrong"]),
        "effective": _range(
            done, "biased sample", lambda result: result["effective"] / result["taken"]
        ),
    }


def _range(done: list[Done], question: str, share: Callable[[dict[str, Any]], float]) -> str:
    """The least and the largest of the means of the sets, in per cent."""
    here = _of(done, question)
    means = [
        100 * np.mean([share(each.result) for each in here if each.job["data"] == name])
        for name in present(SETS[question], here)
    ]
    return f"{min(means):.0f} to {max(means):.0f}" if means else ""


def _of(done: list[Done], question: str) -> list[Done]:
    return [each for each in done if each.job["question"] == question]


def _table(done: list[Done], question: str) -> str:
    here, titles = _of(done, question), FITS[question]
    names = present(SETS[question], here)
    others = [fit for fit in titles if fit != "weights"]
    rows: list[list[Any]] = []
    for name in names:
        cells = [Summary(list(scores(here, fit, data=name).values())) for fit in titles]
        gaps = [gain(here, "weights", fit, data=name) for fit in others]
        rows.append([name, *(f"{cell:.1f}" for cell in cells), *(f"{gap:+.1f}" for gap in gaps)])
    if names:
        gaps = [over_sets(here, "weights", fit, names) for fit in others]
        rows.append(["**mean**", *[None] * len(titles), *(f"{gap:+.2f}" for gap in gaps)])
    return table(["", *titles.values(), *(f"weights − {titles[fit]}" for fit in others)], rows)


def _findings(done: list[Done]) -> Iterator[str]:
    for question, titles in FITS.items():
        here = _of(done, question)
        names = present(SETS[question], here)
        if names:
            yield f"- {question[0].upper()}{question[1:]}: NCA with weights, beside"
        for fit in titles if names else ():
            if fit != "weights":
                told = told_over_sets(here, "weights", fit, names)
                yield f"  - {titles[fit]}: {told}."


def claims(done: list[Done]) -> Iterator[Claim]:
    """What weights are worth in each case."""
    asked = {
        (
            "rare classes",
            "none",
        ): "rare classes, weights against none: mean accuracy over the classes",
        (
            "rare classes",
            "repeated",
        ): "rare classes, weights against repeated rows: mean accuracy over the classes",
        (
            "doubtful labels",
            "none",
        ): "half of the labels doubtful, these rows weighing a quarter, against no weights",
        ("biased sample", "none"): "a biased sample, weights 1 / chance against none",
    }
    for (question, fit), says in asked.items():
        here = _of(done, question)
        told = figure(here, "weights", fit, present(SETS[question], here))
        if told:
            yield Claim(says, "answer", told)


EXPERIMENTS = (
    Experiment(
        "weights",
        "Sample weights for rare classes, doubtful labels and biased samples",
        jobs,
        work,
        parts,
        claims=claims,
    ),
)
