"""Which vote should ``KNCA`` have?  Both with defaults, with right and with wrong labels."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from reproduce.framework import protocol
from reproduce.framework.experiment import Claim, Done, Experiment, Job
from reproduce.framework.pages import table
from reproduce.framework.protocol import SMALL, learn_and_judge
from reproduce.framework.statistics import Summary
from reproduce.own.paired import gain, over_sets, present, scores, told_over_sets
from reproduce.tarlow.figure4 import resampled

SPLITS = 10
NOISES = (0.0, 0.3)
RULES = {"own": "its own rule", "5-NN": "5-NN"}
VOTES = ("majority", "all")


def jobs(splits: int | None) -> Iterator[Job]:
    """Every set, split and share of labels drawn again; both votes within the job."""
    for noise, split, name in product(NOISES, range(splits or SPLITS), SMALL):
        yield {"data": name, "split": split, "noise": noise}


def work(data: str, split: int, noise: float) -> dict[str, Any]:
    """Accuracy on the rows judged by, whose labels are right."""
    from vicinal import KNCA

    X, y = protocol.data(data)
    learn, judge = learn_and_judge(y, split)
    labels = resampled(y[learn], noise, split)
    result: dict[str, Any] = {}
    for vote in VOTES:
        model = KNCA(vote=vote, random_state=split).fit(X[learn], labels)
        Z, Z_judge = model.transform(X[learn]), model.transform(X[judge])
        result[f"{vote}, own"] = float(model.score(X[judge], y[judge]))
        result[f"{vote}, 5-NN"] = protocol.knn(Z, labels, Z_judge, y[judge], 5)
        result[f"{vote}, k"] = int(model.k_)
    return result


def parts(done: list[Done]) -> dict[str, Any]:
    """What was found, and a table for each share of wrong labels."""
    names = present(SMALL, done)
    n_splits = len({each.job["split"] for each in done})
    return {
        "finding": "\n".join(
            f"- {_words(noise)}, by {words}: "
            f"{told_over_sets(done, f'all, {rule}', f'majority, {rule}', names, noise=noise)}."
            for noise, (rule, words) in product(NOISES, RULES.items())
        ),
        "tables": "\n\n".join(
            f"## {_words(noise)}\n\n{_table(done, names, noise)}" for noise in NOISES
        ),
        "fewer": _fewer(done),
        "n_splits": n_splits,
    }


def _words(noise: float) -> str:
    return f"{100 * noise:g} % of the labels drawn again" if noise else "Labels as they are"


def _over(done: list[Done], names: list[str], rule: str, noise: float) -> Summary | None:
    """ "all" less "majority", on average over the sets."""
    return over_sets(done, f"all, {rule}", f"majority, {rule}", names, noise=noise)


def _table(done: list[Done], names: list[str], noise: float) -> str:
    rows: list[list[Any]] = []
    for name in names:
        row: list[Any] = [name]
        for rule in RULES:
            keys = [f"{vote}, {rule}" for vote in VOTES]
            row += [
                f"{Summary(list(scores(done, key, data=name, noise=noise).values())):.1f}"
                for key in keys
            ]
            row.append(f"{gain(done, *reversed(keys), data=name, noise=noise):+.1f}")
        rows.append(row)
    means = [f"{_over(done, names, rule, noise):+.2f}" for rule in RULES]
    rows.append(["**mean**", None, None, means[0], None, None, means[1]])
    heads = [f"{vote}, {words}" for words in RULES.values() for vote in (*VOTES, "difference")]
    return table(["set", *heads], rows)


def _fewer(done: list[Done]) -> str:
    """Where a vote had to do with fewer rows than asked for."""
    usual = max(each.result[f"{vote}, k"] for each in done for vote in VOTES)
    told = []
    for vote in VOTES:
        sets = {e.job["data"] for e in done if e.result[f"{vote}, k"] < usual}
        told.append(f"{vote}: {', '.join(sorted(sets)) or 'none'}")
    return f"Sets on which k = {usual} was reduced in some fit: {'; '.join(told)}."


def claims(done: list[Done]) -> Iterator[Claim]:
    """What "all" is worth."""
    names = present(SMALL, done)
    for noise in NOISES:
        gaps = [(words, _over(done, names, rule, noise)) for rule, words in RULES.items()]
        figure = ", ".join(f"{words} {np.nan if g is None else f'{g:+.1f}'}" for words, g in gaps)
        says = f'KNCA(vote="all") − KNCA() on 11 small sets: {_words(noise).lower()}'
        yield Claim(says, "answer", f"{figure} points")


EXPERIMENTS = (
    Experiment(
        "knca-vote",
        "The vote of KNCA: both with defaults, with right and with wrong labels",
        jobs,
        work,
        parts,
        claims=claims,
    ),
)
