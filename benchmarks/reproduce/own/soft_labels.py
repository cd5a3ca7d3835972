"""What the votes of annotators are worth against the label that most of them gave."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

from reproduce.framework import protocol
from reproduce.framework.experiment import Claim, Done, Experiment, Job
from reproduce.framework.pages import table
from reproduce.framework.statistics import Summary
from reproduce.own.paired import gain, over_sets, present, scores, told_over_sets

SETS = ("digits", "landsat", "segment")
ANNOTATORS, TRAINING, TEST, RANK, SPLITS = 5, 600, 1500, 10, 10
TESTED = TEST / (TEST + TRAINING)
#: what a wrong annotator says, and how often they err on average
KINDS = ("any class", "look-alike")
RATES = (0.2, 0.4)
TRUE, MAJORITY, VOTES = "true labels", "majority", "votes"
LEARNT_FROM = (TRUE, MAJORITY, VOTES)


def jobs(splits: int | None) -> Iterator[Job]:
    """Every set, kind and rate of errors, and split; the three fits within the job."""
    for split, name, kind, rate in product(range(splits or SPLITS), SETS, KINDS, RATES):
        yield {"data": name, "errors": kind, "rate": rate, "split": split}


def work(data: str, errors: str, rate: float, split: int) -> dict[str, Any]:
    """Accuracy, Brier score and core seconds of each fit, and how many majorities are wrong."""
    from vicinal import NCA

    X, y = protocol.data(data)
    X = X.astype(np.float64)
    rng = np.random.RandomState(split)
    rows = rng.permutation(len(y))[: TRAINING + TEST]
    n = min(TRAINING, len(rows) // 2)
    learn, test = train_test_split(rows, train_size=n, random_state=split, stratify=y[rows])
    votes = votes_on(X[learn], y[learn], errors, rate, rng)
    most = (votes + 1e-3 * rng.uniform(size=votes.shape)).argmax(axis=1)  # ties by chance
    targets = dict(zip(LEARNT_FROM, (y[learn], most, votes / ANNOTATORS), strict=True))
    found: dict[str, Any] = {"wrong": float(np.mean(most != y[learn]))}
    right = np.eye(votes.shape[1])[y[test]]
    for name, target in targets.items():
        NCA(RANK, alpha=0.0, max_iter=1, random_state=split).fit(X[learn], target)  # compiles
        began = time.process_time()
        model = NCA(RANK, random_state=split).fit(X[learn], target)
        found[f"core seconds, {name}"] = time.process_time() - began
        P = np.zeros(right.shape)
        P[:, model.classes_] = model.predict_proba(X[test])
        found[name] = float(np.mean(P.argmax(axis=1) == y[test]))
        found[f"Brier, {name}"] = float(np.mean(np.sum((P - right) ** 2, axis=1)))
    return found


def votes_on(X: Any, y: Any, kind: str, rate: float, rng: Any) -> Any:
    """How many annotators give each class to each row, (n, n_classes).

    Each row has an error rate of its own, drawn from a Beta distribution with the mean ``rate``.
    """
    n_classes = int(y.max()) + 1
    rates = rng.beta(2 * rate, 2 * (1 - rate), size=len(y))
    rival = look_alikes(X, y)
    votes = np.zeros((len(y), n_classes))
    for _ in range(ANNOTATORS):
        wrong = rival
        if kind == "any class":
            wrong = (y + rng.randint(1, n_classes, size=len(y))) % n_classes
        label = np.where(rng.uniform(size=len(y)) < rates, wrong, y)
        votes[np.arange(len(y)), label] += 1
    return votes


def look_alikes(X: Any, y: Any) -> Any:
    """The class of the nearest row of another class, for each row."""
    Z = StandardScaler().fit_transform(X)
    near = NearestNeighbors(n_neighbors=len(X)).fit(Z).kneighbors(Z, return_distance=False)
    other = y[near] != y[:, None]
    return y[near[np.arange(len(y)), other.argmax(axis=1)]]


def parts(done: list[Done]) -> dict[str, Any]:
    """A line for each set, kind and rate; what the votes are worth; what they cost."""
    rows = []
    for name, kind, rate in product(present(SETS, done), KINDS, RATES):
        where = {"data": name, "errors": kind, "rate": rate}
        if not scores(done, VOTES, **where):
            continue
        wrong, *accuracies = (
            f"{Summary(list(scores(done, key, **where).values())):.1f}"
            for key in ("wrong", *LEARNT_FROM)
        )
        brier = gain(done, f"Brier, {VOTES}", f"Brier, {MAJORITY}", TESTED, **where)
        gap = gain(done, VOTES, MAJORITY, TESTED, **where)
        rows.append([name, kind, rate, wrong, *accuracies, f"{gap:+.1f}", f"{brier:+.1f}"])
    head = ["set", "errors", "rate", "wrong majorities", *LEARNT_FROM, "votes − majority", "Brier"]
    return {
        "finding": "\n".join(_findings(done)),
        "table": table(head, rows),
        "gain": _gain(done),
        "cost": f"{_cost(done):.1f}",
        "n_splits": len({each.job["split"] for each in done}),
        "training": TRAINING,
        "test": f"{TEST:,}",
        "annotators": ANNOTATORS,
        "rank": RANK,
    }


def _findings(done: list[Done]) -> Iterator[str]:
    names = present(SETS, done)
    for kind, rate in product(KINDS, RATES):
        told = told_over_sets(done, VOTES, MAJORITY, names, tested=TESTED, errors=kind, rate=rate)
        yield f"- errors to {_words(kind)}, mean rate {rate:g}: {told};"
    yield f"- a fit to votes takes {_cost(done):.1f} times the core seconds of a fit to labels."


def _words(kind: str) -> str:
    return {"any class": "any other class", "look-alike": "the class that looks alike"}[kind]


def _gain(done: list[Done]) -> str:
    """The least and the largest gain over kinds and rates, for a sentence of the guide."""
    found = [
        over_sets(done, VOTES, MAJORITY, present(SETS, done), tested=TESTED, errors=kind, rate=rate)
        for kind, rate in product(KINDS, RATES)
    ]
    known = sorted((each for each in found if each is not None), key=lambda each: each.mean)
    return f"{known[0]:+.1f} to {known[-1]:+.1f}"


def _cost(done: list[Done]) -> float:
    """Core seconds of a fit to votes, as a multiple of those of a fit to labels."""
    one, other = (
        np.mean([each.result[f"core seconds, {name}"] for each in done])
        for name in (VOTES, MAJORITY)
    )
    return float(one / other)


def claims(done: list[Done]) -> Iterator[Claim]:
    """Votes or the label that most gave."""
    names = present(SETS, done)
    for kind in KINDS:
        found = {
            rate: over_sets(done, VOTES, MAJORITY, names, tested=TESTED, errors=kind, rate=rate)
            for rate in RATES
        }
        told = [f"{100 * rate:.0f} % errors: {gap:+.1f}" for rate, gap in found.items() if gap]
        if told:
            says = f"{ANNOTATORS} annotators: votes against the majority, errors to {_words(kind)}"
            yield Claim(says, "answer", f"{'; '.join(told)} points")


EXPERIMENTS = (
    Experiment(
        "soft-labels",
        "The votes of annotators against the label that most of them gave",
        jobs,
        work,
        parts,
        claims=claims,
    ),
)
