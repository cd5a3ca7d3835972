"""Which margin should ``Chi2LMNN`` have?  Shares of a typical distance, inside training rows."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from reproduce.framework import protocol
from reproduce.framework.experiment import Claim, Done, Experiment, Job
from reproduce.framework.pages import table
from reproduce.framework.statistics import Summary
from reproduce.olsen.common import K, chi2_1nn, folds, histograms, typical_distance
from reproduce.own.paired import ERRORS, gain, over_sets, present, scores
from reproduce.own.paired import subsample as some_of

SETS = ("webcam", "dslr", "amazon", "caltech10", "usps")
SPLITS = 10
MOST_ROWS = 1200  # of a set
ALL_BINS = "all"
RANKS = (10, 20, ALL_BINS)
#: margins, in median χ² distances of a row to the nearest of its class
SHARES = (Fraction(1, 20), Fraction(1, 10), Fraction(1, 6))
#: against which the others are judged
USUAL = SHARES[-1]
RULES = {"votes": "three votes, as `Chi2LMNN` predicts", "1-NN": "1-NN"}


def jobs(splits: int | None) -> Iterator[Job]:
    """A job for each set, fold and number of bins; all margins within the job."""
    for split, name, rank in product(range(splits or SPLITS), SETS, RANKS):
        yield {"data": name, "split": split, "rank": rank}


def work(data: str, split: int, rank: int | str) -> dict[str, Any]:
    """Accuracy by each margin on a quarter of the training rows of a fold of the other pages."""
    from vicinal import Chi2LMNN

    X, y = protocol.data(data)
    rows = some_of(len(y), MOST_ROWS)
    H, y = histograms(X[rows].astype(float)), y[rows]
    training, _ = folds(y, split)
    learn, judge = train_test_split(training, stratify=y[training], random_state=split)
    unit = typical_distance(H[learn], y[learn])
    r = H.shape[1] if rank == ALL_BINS else min(int(rank), H.shape[1])
    result: dict[str, Any] = {"rows": len(learn)}
    for share in SHARES:
        model = Chi2LMNN(r, k=K, margin=float(share) * unit, random_state=split)
        model.fit(H[learn], y[learn])
        result[f"votes, {share}"] = float(model.score(H[judge], y[judge]))
        result[f"1-NN, {share}"] = chi2_1nn(model.transform(H), y, learn, judge)
    return result


def parts(done: list[Done]) -> dict[str, Any]:
    """What was found, and a table for each rule."""
    names = present(SETS, done)
    rows = {
        name: round(np.mean([e.result["rows"] for e in done if e.job["data"] == name]))
        for name in names
    }
    return {
        "finding": "\n".join(_findings(done, names)),
        "tables": "\n\n".join(
            f"## By {words}\n\n{_table(done, names, rule)}" for rule, words in RULES.items()
        ),
        "rows": ", ".join(f"{name} {count}" for name, count in rows.items()),
        "n_splits": len({each.job["split"] for each in done}),
        "usual": USUAL,
        "apart": _apart(done, names),
        "k": K,
        "most": f"{MOST_ROWS:,}",
    }


def _bins(rank: int | str) -> str:
    return "all bins" if rank == ALL_BINS else f"r = {rank}"


def _table(done: list[Done], names: list[str], rule: str) -> str:
    """Accuracies, and differences to the usual margin on the same rows."""
    lines = []
    for rank, name in product(RANKS, names):
        where = {"data": name, "rank": rank}
        cells = []
        for share in SHARES:
            mean = Summary(list(scores(done, f"{rule}, {share}", **where).values()))
            gap = gain(done, f"{rule}, {share}", f"{rule}, {USUAL}", 0.25, **where)
            cells.append(f"{mean.mean:.1f}" + ("" if share == USUAL else f" ({gap:+.1f})"))
        lines.append([_bins(rank), name, *cells])
    for rank in RANKS:
        gaps = [_over(done, names, rule, share, rank) for share in SHARES[:-1]]
        lines.append([_bins(rank), "**mean of the differences**", *(f"{g:+.1f}" for g in gaps), ""])
    return table(["bins", "set", *(f"{share} of the distance" for share in SHARES)], lines)


def _over(done: list[Done], names: list[str], rule: str, share: Any, rank: Any) -> Summary:
    """A margin less the usual one, on average over the sets."""
    found = over_sets(done, f"{rule}, {share}", f"{rule}, {USUAL}", names, 0.25, rank=rank)
    return found or Summary([np.nan])


def _answer(done: list[Done], names: list[str], rank: Any) -> str:
    return ", ".join(
        f"{share}: {_over(done, names, 'votes', share, rank):+.1f}" for share in SHARES[:-1]
    )


def _findings(done: list[Done], names: list[str]) -> Iterator[str]:
    for rank in RANKS:
        yield f"- {_bins(rank)}: {_answer(done, names, rank)} points."


def _apart(done: list[Done], names: list[str]) -> str:
    """On which sets, by votes, a smaller margin is clearly better or worse than the usual one."""
    clearly: dict[int, list[str]] = {1: [], -1: []}
    for name, rank, share in product(names, RANKS, SHARES[:-1]):
        gap = gain(done, f"votes, {share}", f"votes, {USUAL}", 0.25, data=name, rank=rank)
        if gap is not None and abs(gap.mean) > ERRORS * gap.error:
            where = f"{name} ({_bins(rank)}, {share}: {gap:+.1f})"
            clearly[1 if gap.mean > 0 else -1].append(where)
    ahead, behind = (", ".join(clearly[sign]) or "none" for sign in (1, -1))
    opposed = "The sets do not agree. " if clearly[1] and clearly[-1] else ""
    return (
        f"{opposed}By votes, a smaller margin is ahead by more than two standard errors on "
        f"{ahead}; behind on {behind}."
    )


def claims(done: list[Done]) -> Iterator[Claim]:
    """What other margins are worth against the usual one."""
    names = present(SETS, done)
    for rank in RANKS:
        says = f"Margin of Chi2LMNN, {_bins(rank)}: shares of the typical distance, against {USUAL}"
        yield Claim(says, "answer", f"{_answer(done, names, rank)} points")


EXPERIMENTS = (
    Experiment(
        "chi2-margin",
        "The margin of χ²-LMNN: shares of the distance to the nearest row of the class",
        jobs,
        work,
        parts,
        claims=claims,
    ),
)
