"""Where χ²-LMNN with fewer bins may begin, which Olsen & Petersen do not say: starts compared."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from scipy.stats import rankdata

from reproduce.framework.experiment import Claim, Done, Experiment, Job
from reproduce.framework.pages import bullets, table
from reproduce.framework.protocol import data as stored
from reproduce.framework.statistics import Summary
from reproduce.olsen.common import (
    SPLITS,
    Gain,
    K,
    chi2_1nn,
    doubt,
    folds,
    histograms,
    shown,
    standing,
)
from vicinal import Chi2LMNN
from vicinal.starts import BinGroups, BinIdentity, RandomBins

RANKS = (10, 20)


#: random draws of each start
SEEDS = {"groups": 4, "hard groups": 2, "identity, cut": 1, "random": 4}


WORDS = {
    "groups": "`BinGroups()`, the default",
    "hard groups": "`BinGroups(sharpness=50)`",
    "identity, cut": "`BinIdentity()`, the report's start cut to r rows",
    "random": "`RandomBins()`",
}


#: as the index names them
ASKED = {
    "hard groups": "hard groups",
    "identity, cut": "the identity, cut to r rows,",
    "random": "random maps",
}


DEFAULT = "groups"


STARTS = {
    "groups": BinGroups(),
    "hard groups": BinGroups(sharpness=50.0),
    "identity, cut": BinIdentity(),
    "random": RandomBins(),
}


def jobs(splits: int | None) -> Iterator[Job]:
    """A job for each fit; ``--where rank=10 start=random`` takes some."""
    for split, rank, start in product(range(splits or SPLITS), RANKS, STARTS):
        for seed in range(SEEDS[start]):
            where = {"data": "webcam", "split": split, "rank": rank}
            yield {**where, "start": start, "seed": seed}


def work(data: str, split: int, rank: int, start: str, seed: int) -> dict[str, Any]:
    """Loss and held-out accuracy of 1-NN by χ², at the start and after learning."""
    X, y = stored(data)
    H, y = histograms(X), np.asarray(y)
    train, test = folds(y, split)
    setting = {"k": K, "init": STARTS[start], "random_state": 100 * split + seed}
    result: dict[str, Any] = {}
    for when, more in (("start", {"tol": 1e300}), ("end", {})):
        model = Chi2LMNN(min(rank, H.shape[1]), **setting, **more).fit(H[train], y[train])
        result[when] = {
            "loss": float(model.loss_),
            "held out": chi2_1nn(model.transform(H), y, train, test),
        }
    return {**result, "iterations": int(model.n_iter_), "margin": float(model.margin_)}


def parts(done: list[Done]) -> dict[str, Any]:
    """Markdown."""
    by_rank = {rank: [each for each in done if each.job["rank"] == rank] for rank in RANKS}
    tables = "\n\n".join(f"## r = {rank}\n\n{_table(of)}" for rank, of in by_rank.items() if of)
    return {
        "finding": _finding(done),
        "tables": tables,
        "correlations": _correlations(done),
        "loss_words": _loss_words(done),
        **_protocol(done),
    }


def _by_split(done: list[Done], start: str, when: str, what: str) -> dict[int, float]:
    """Mean over the draws of a start, for each fold."""
    found: dict[int, list[float]] = {}
    for each in done:
        if each.job["start"] == start:
            found.setdefault(each.job["split"], []).append(each.result[when][what])
    return {split: float(np.mean(values)) for split, values in found.items()}


def _gain(of: list[Done], start: str) -> Gain | None:
    """Held-out accuracy after learning, less that from the default start, on common folds."""
    one, two = (_by_split(of, name, "end", "held out") for name in (start, DEFAULT))
    common = sorted(set(one) & set(two))
    return Gain([one[split] - two[split] for split in common]) if common else None


def _table(of: list[Done]) -> str:
    rows = []
    for start, words in WORDS.items():
        runs = [each for each in of if each.job["start"] == start]
        if not runs:
            continue
        held = [
            Summary(list(_by_split(of, start, w, "held out").values())) for w in ("start", "end")
        ]
        loss = [np.mean(list(_by_split(of, start, w, "loss").values())) for w in ("start", "end")]
        gain = _gain(of, start)
        rows.append([
            words, shown(held[0]), f"{loss[0]:.2f}", f"{loss[1]:.3f}", shown(held[1]),
            gain if start != DEFAULT else None,
            f"{np.mean([each.result['iterations'] for each in runs]):.0f}",
        ])  # fmt: skip
    header = [
        "start", "held out at the start", "loss there", "loss after learning",
        "held out after learning", "against the default", "iterations",
    ]  # fmt: skip
    return table(header, rows)


def _finding(done: list[Done]) -> str:
    told = []
    for rank in RANKS:
        of = [each for each in done if each.job["rank"] == rank]
        gains = {start: gain for start in WORDS if start != DEFAULT and (gain := _gain(of, start))}
        if gains:
            listed = [f"{start} {gain} ({standing(gain)})" for start, gain in gains.items()]
            told.append(f"r = {rank}: {'; '.join(listed)}.")
    if not told:
        return "The default start is not run yet."
    return (
        "Held-out accuracy after learning χ²-LMNN on webcam, in points from the default start "
        f"(groups of bins):\n\n{bullets(*told)}"
    )


def _correlation(of: list[Done]) -> list[float]:
    """Rank correlation of final loss and held-out accuracy over the runs of each fold."""
    folds: dict[Any, list[Done]] = {}
    for each in of:
        folds.setdefault(each.job["split"], []).append(each)
    found = []
    for runs in folds.values():
        loss = rankdata([each.result["end"]["loss"] for each in runs])
        held = rankdata([each.result["end"]["held out"] for each in runs])
        if len(runs) > 2 and loss.std() > 0 and held.std() > 0:
            found.append(float(np.corrcoef(loss, held)[0, 1]))
    return found


def _correlations(done: list[Done]) -> str:
    rows = []
    for rank in RANKS:
        of = [each for each in done if each.job["rank"] == rank]
        for words, some in (
            ("all starts", of),
            ("groups alone", [each for each in of if each.job["start"] == "groups"]),
            ("random alone", [each for each in of if each.job["start"] == "random"]),
        ):
            found = _correlation(some)
            if len(found) > 1:
                # Summary is in per cent
                each = Summary(np.asarray(found) / 100.0)
                rows.append([rank, words, f"{each:+.2f}", len(found)])
    if not rows:
        return ""
    return table(["r", "runs of a fold", "rank correlation, loss and held out", "folds"], rows)


def _loss_words(done: list[Done]) -> str:
    """What choosing the start of least training loss would give."""
    parts = []
    for rank in RANKS:
        gaps = []
        of = [each for each in done if each.job["rank"] == rank]
        for split in sorted({each.job["split"] for each in of}):
            runs = [each for each in of if each.job["split"] == split]
            least = min(runs, key=lambda each: each.result["end"]["loss"])
            mean = np.mean([each.result["end"]["held out"] for each in runs])
            if len(runs) > 1:
                gaps.append(least.result["end"]["held out"] - mean)
        if gaps:
            parts.append(f"{Gain(gaps)} points at r = {rank}")
    words = "were the loss a good judge, correlations would be near −1"
    return (
        f"Rank correlations within a fold ({words}), mean ± error over the folds. The run of least "
        f"training loss of a fold, against the mean of its runs, held out: {', '.join(parts)}."
    )


def _protocol(done: list[Done]) -> dict[str, Any]:
    splits = len({each.job["split"] for each in done})
    draws = "; ".join(f"{start} {count}" for start, count in SEEDS.items())
    return {"splits": splits, "draws": draws}


def claims(done: list[Done]) -> Iterator[Claim]:
    """A question of our own: does the start matter?"""
    for start in WORDS:
        gains = [
            (rank, gain)
            for rank in RANKS
            if (gain := _gain([each for each in done if each.job["rank"] == rank], start))
        ]
        if start != DEFAULT and gains:
            yield Claim(
                f"Is χ²-LMNN on webcam from {ASKED[start]} as good as from groups of bins?",
                "answer",
                _figure(gains),
            )


def _figure(gains: list[tuple[int, Gain]]) -> str:
    """Gains at the ranks, and which are not clear: once where none is."""
    doubts = [doubt(gain) for _, gain in gains]
    same = len(set(doubts)) == 1
    each = (
        f"r = {rank}: {gain:+.1f}{'' if same else words}"
        for (rank, gain), words in zip(gains, doubts, strict=True)
    )
    return f"{', '.join(each)} points{doubts[0] if same else ''}"


EXPERIMENTS = (
    Experiment(
        "olsen-petersen-starts",
        "Starts for χ²-LMNN with fewer bins than the data have, on webcam",
        jobs,
        work,
        parts,
        claims=claims,
    ),
)
