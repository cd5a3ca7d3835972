"""The page of χ²-LMNN on other sets of images, from the rows of `other_sets`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reproduce.framework.experiment import Claim, Done, Experiment
from reproduce.framework.pages import table
from reproduce.olsen.common import (
    SHARES,
    Gain,
    K,
    Scores,
    choices,
    shown,
    standing,
)
from reproduce.olsen.other_sets import CHOSEN_RANK, RANKS, SETS, jobs, work

#: names of scores, and the words of their rows
ROWS = {
    "χ², all bins": "χ² 1-NN, all 800 bins",
    "Euclidean, sum": "Euclidean 1-NN, rows / sum",
    "Euclidean, root": "Euclidean 1-NN, square roots of rows / sum",
    "LMNN, 1-NN": "`LMNN()` of the square roots, 1-NN",
    "LMNN": "`LMNN()` of the square roots, its own five votes",
    "χ²-LMNN, 1-NN": "`Chi2LMNN(r)`, 1-NN",
    "χ²-LMNN": "`Chi2LMNN(r)`, its own three votes",
    "χ²-LMNN chosen, 1-NN": "χ²-LMNN, margin chosen, 1-NN",
}


#: by what is compared: 1-NN with 1-NN
OURS, CHOSEN, ALL_BINS = "χ²-LMNN, 1-NN", "χ²-LMNN chosen, 1-NN", "χ², all bins"
PCA, LINEAR = ("Euclidean, sum", "Euclidean, root"), "LMNN, 1-NN"
OTHERS = (ALL_BINS, *PCA, LINEAR)


def _by_set(done: list[Done]) -> dict[str, Scores]:
    of = {name: [each for each in done if each.job["data"] == name] for name in SETS}
    return {name: Scores(some, "rank") for name, some in of.items() if some}


def parts(done: list[Done]) -> dict[str, Any]:
    """Markdown."""
    sets = _by_set(done)
    tables = [f"## {name}\n\n{_table(scores)}" for name, scores in sets.items()]
    return {
        "finding": _finding(sets),
        "gains": _gains(sets),
        "bins": _bins(sets),
        "tables": "\n\n".join(tables),
        "margins": _margins(done, sets),
        "lmnn_full": _lmnn_full(sets),
        **_protocol(done),
    }


def _hardest(scores: Scores, rank: int, names: tuple[str, ...]) -> tuple[str, Gain] | None:
    """The best of some rows at a rank, and the gain of χ²-LMNN with defaults over it, by 1-NN."""
    means = {name: mean.mean for name in names if (mean := scores.mean(rank, name))}
    best = max(means, key=lambda name: means[name]) if means else None
    gain = scores.gain(rank, OURS, rank, best) if best else None
    return (best, gain) if best and gain else None


def _finding(sets: dict[str, Scores]) -> str:
    told = []
    for rank in RANKS:
        of = []
        for name, scores in sets.items():
            if found := _hardest(scores, rank, OTHERS):
                best, gain = found
                of.append(f"{name} {gain} over {ROWS[best]} ({standing(gain)})")
        if of:
            told.append(f"- r = {rank}: {'; '.join(of)}.")
    if not told:
        return "Not all is run yet."
    lines = "\n".join(told)
    return (
        "`Chi2LMNN(r)` with defaults by 1-NN, in points of held-out accuracy over the best of the "
        f"other 1-NN rows, which are χ² on all bins, PCA and LMNN:\n\n{lines}"
    )


def _gains(sets: dict[str, Scores]) -> str:
    rows = []
    for name, scores in sets.items():
        for other in OTHERS:
            gains = [scores.gain(rank, OURS, rank, other) for rank in RANKS]
            cells = [f"{gain} ({standing(gain)})" if gain else None for gain in gains]
            if any(cells):
                rows.append([name, ROWS[other], *cells])
    return table(["set", "`Chi2LMNN(r)`, 1-NN, against", *(f"r = {rank}" for rank in RANKS)], rows)


def _bins(sets: dict[str, Scores]) -> str:
    """What fewer bins cost."""
    full, told = RANKS[-1], []
    for name, scores in sets.items():
        of = [
            f"{gain} at r = {rank} ({standing(gain)})"
            for rank in RANKS[:-1]
            if (gain := scores.gain(rank, OURS, full, OURS))
        ]
        if of:
            told.append(f"{name} {', '.join(of)}")
    return f"`Chi2LMNN(r)` against `Chi2LMNN({full})`, 1-NN: {'; '.join(told)}." if told else ""


def _table(scores: Scores) -> str:
    ranks = [rank for rank in RANKS if rank in scores.found]
    rows = [[words, *(_cell(scores, rank, name) for rank in ranks)] for name, words in ROWS.items()]
    return table(["method", *(f"r = {rank}" for rank in ranks)], [r for r in rows if any(r[1:])])


def _cell(scores: Scores, rank: int, name: str) -> str | None:
    mean, n = shown(scores.mean(rank, name)), scores.splits(rank, name)
    most = max(scores.splits(rank, each) for each in scores.found[rank])
    return mean if mean is None or n == most else f"{mean} ({n} folds)"


def _lmnn_full(sets: dict[str, Scores]) -> str:
    """What LMNN with defaults does to the square roots where it has all bins."""
    full = RANKS[-1]
    told = [
        f"{name} {gain} ({standing(gain)})"
        for name, scores in sets.items()
        if (gain := scores.gain(full, LINEAR, full, "Euclidean, root"))
    ]
    what = f"With all {full} bins, points of `LMNN()` by 1-NN over 1-NN of the same square roots"
    return f"{what}: {'; '.join(told)}." if told else ""


def _margins(done: list[Done], sets: dict[str, Scores]) -> str:
    """What choosing the margin adds, and what was chosen."""
    told = []
    for name, scores in sets.items():
        of = [each for each in done if each.job["data"] == name and "choice" in each.result]
        if gain := scores.gain(CHOSEN_RANK, CHOSEN, CHOSEN_RANK, OURS):
            told.append(
                f"- {name}: {gain} points ({standing(gain)}, {gain.splits} folds); "
                f"shares chosen: {choices(of, 'share')}."
            )
    if not told:
        return ""
    what = f"A margin chosen inside the training rows, against the default, 1-NN, r = {CHOSEN_RANK}"
    return "\n".join([f"{what}:\n", *told])


def _protocol(done: list[Done]) -> dict[str, Any]:
    rows = {each.job["data"]: each.result["rows"] for each in done if "rows" in each.result}
    margins = [each.result["margin"] for each in done if "margin" in each.result]
    return {
        "rows": ", ".join(f"{name} {count:,}" for name, count in rows.items()),
        "splits": len({each.job["split"] for each in done}),
        "span": f"{min(margins):.3f} to {max(margins):.3f}" if margins else "not run yet",
        "shares": ", ".join(f"{share:g}" for share in SHARES),
        "k": K,
    }


def claims(done: list[Done]) -> Iterator[Claim]:
    """Questions of our own: does what the report says of webcam hold on other sets?"""
    sets, full = _by_set(done), RANKS[-1]
    for names, rank, says in (
        (PCA, CHOSEN_RANK, f"Does χ²-LMNN at r = {CHOSEN_RANK} beat 1-NN after PCA"),
        ((LINEAR,), CHOSEN_RANK, f"Does χ²-LMNN at r = {CHOSEN_RANK} beat LMNN after PCA"),
        ((ALL_BINS,), full, f"Does χ²-LMNN on all {full} bins beat χ² without learning"),
        ((LINEAR,), full, f"Does χ²-LMNN on all {full} bins beat LMNN of square roots"),
    ):
        found = [
            f"{name} {pair[1]}"
            for name, scores in sets.items()
            if (pair := _hardest(scores, rank, names))
        ]
        if found:
            asked = f"{says} on other images? Accuracy in points"
            yield Claim(asked, "answer", ", ".join(found))


EXPERIMENTS = (
    Experiment(
        "olsen-petersen-other-sets",
        "χ²-LMNN with defaults on three other sets of images: amazon, dslr and caltech10",
        jobs,
        work,
        parts,
        claims=claims,
    ),
)
