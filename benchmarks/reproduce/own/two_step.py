"""Two steps: columns first and then a map (Oneață 2011, chapter 6); rank first, then penalty."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from reproduce.framework import protocol
from reproduce.framework.experiment import Claim, Done, Experiment, Job
from reproduce.framework.pages import table
from reproduce.framework.protocol import stratified
from reproduce.framework.statistics import Summary
from reproduce.own.paired import (
    clear,
    decides,
    figure,
    fitting,
    gain,
    over_sets,
    present,
    scores,
    subsample,
    told_over_sets,
)

#: sets for the choice of columns
COLUMNS = ("wine", "ionosphere", "spectf", "digits")
#: sets for the choice of rank and penalty
SEARCHED = ("wine", "glass", "ionosphere", "pima")

#: the most rows that are taken of a set
MOST = 500

#: shuffled copies of each column that are added as useless ones
COPIES = {"as they are": 0, "with useless columns": 3}
#: what the page and the index call them
COPIES_WORDS = {
    "as they are": "columns as they are",
    "with useless columns": "useless columns added",
}

RANKS = {"d = 2": 2, "default rank": None}

#: what a grid searches
GRID = {"n_components": (2, 4, 8, 32), "alpha": (0.1, 0.03, 0.01, 3e-3, 1e-3)}

TWO, ONE, DIAGONAL = "two steps", "one map", "diagonal"
STEPS, GRIDDED, FIXED, PENALTY = "rank, then penalty", "grid", "fixed", "penalty alone"

SPLITS = 10


def jobs(splits: int | None) -> Iterator[Job]:
    """Every set and split, with and without useless columns."""
    for split, name, columns in product(range(splits or SPLITS), COLUMNS, COPIES):
        yield {"data": name, "split": split, "columns": columns}


def search_jobs(splits: int | None) -> Iterator[Job]:
    """Every set and split; all searches within the job."""
    for split, name in product(range(splits or SPLITS), SEARCHED):
        yield {"data": name, "split": split}


def _rows(data: str, split: int) -> tuple[Any, Any, Any, Any]:
    X, y = protocol.data(data)
    rows = subsample(len(y), MOST)
    return X[rows], y[rows], *stratified(y[rows], split)


def work(data: str, split: int, columns: str) -> dict[str, Any]:
    """Test accuracy, core seconds and chosen columns of one map, a diagonal one, and two steps."""
    from sklearn.feature_selection import SelectFromModel

    from vicinal import NCA

    X, y, train, test = _rows(data, split)
    D = X.shape[1]
    rng = np.random.RandomState(split)
    shuffled = [rng.permutation(column) for _ in range(COPIES[columns]) for column in X.T]
    X = np.column_stack([X, *shuffled])
    result: dict[str, Any] = {"columns": X.shape[1]}

    def scored(name: str, model: Any) -> None:
        began = time.process_time()
        model.fit(X[train], y[train])
        result[f"core seconds, {name}"] = time.process_time() - began
        result[name] = float(model.score(X[test], y[test]))

    diagonal = NCA(mapping="diagonal", random_state=split)
    scored(DIAGONAL, diagonal)
    kept = SelectFromModel(diagonal, prefit=True).get_support()
    result["useful columns kept"] = int(kept[:D].sum())
    result["useless columns kept"] = int(kept[D:].sum())
    for title, d in RANKS.items():
        scored(f"{ONE}, {title}", NCA(d, random_state=split))
    X = X[:, kept]
    for title, d in RANKS.items():
        # one column may be all that is kept
        rank = None if d is None else min(d, X.shape[1])
        scored(f"{TWO}, {title}", NCA(rank, random_state=split))
        result[f"core seconds, {TWO}, {title}"] += result[f"core seconds, {DIAGONAL}"]
    return result


def search(data: str, split: int) -> dict[str, Any]:
    """Test accuracy and core seconds of the searches for rank and penalty."""
    from sklearn.model_selection import GridSearchCV, StratifiedKFold

    from vicinal import NCA

    X, y, train, test = _rows(data, split)
    result: dict[str, Any] = {}
    # as coarse as the searches inside of NCA
    coarse = NCA(random_state=split, max_iter=40, tol=1e-3)
    grid = {**GRID, "n_components": sorted({min(d, X.shape[1]) for d in GRID["n_components"]})}
    folds = StratifiedKFold(5, shuffle=True, random_state=split)
    models = {
        STEPS: NCA("auto", random_state=split),
        PENALTY: NCA(random_state=split),
        FIXED: NCA(alpha=3e-3, random_state=split),
        GRIDDED: GridSearchCV(coarse, grid, cv=folds, refit=False),
    }
    for name, model in models.items():
        began = time.process_time()
        model.fit(X[train], y[train])
        if name == GRIDDED:
            result["rank, grid"] = int(model.best_params_["n_components"])
            model = NCA(**model.best_params_, random_state=split).fit(X[train], y[train])
        result[f"core seconds, {name}"] = time.process_time() - began
        result[name] = float(model.score(X[test], y[test]))
        if name == STEPS:
            result[f"rank, {STEPS}"] = int(model.n_components_)
    return result


def parts(done: list[Done]) -> dict[str, Any]:
    """Accuracy of two steps against one, and what is kept."""
    names = present(COLUMNS, done)
    return {
        "finding": "\n".join(_findings(done, names)),
        "tables": "\n\n".join(
            f"## {_title(columns)}\n\n{_table(here, names)}"
            for columns in COPIES
            if (here := _of(done, columns))
        ),
        "kept": _kept(done, names),
        "constant": _constant(done, names),
        "n_splits": len({each.job["split"] for each in done}),
        "most": MOST,
        "copies": max(COPIES.values()),
    }


def _title(columns: str) -> str:
    words = COPIES_WORDS[columns]
    return words[0].upper() + words[1:]


def _of(done: list[Done], columns: str) -> list[Done]:
    return [each for each in done if each.job["columns"] == columns]


def _cell(done: list[Done], key: str, name: str) -> str | None:
    found = scores(done, key, data=name)
    return f"{Summary(list(found.values())):.1f}" if found else None


def _table(done: list[Done], names: list[str]) -> str:
    fits = [DIAGONAL, *(f"{way}, {title}" for title in RANKS for way in (ONE, TWO))]
    rows: list[list[Any]] = []
    for name in names:
        gaps = [gain(done, f"{TWO}, {title}", f"{ONE}, {title}", data=name) for title in RANKS]
        cells = [_cell(done, fit, name) for fit in fits]
        rows.append([name, *cells, *(f"{gap:+.1f}" for gap in gaps if gap)])
    gaps = [over_sets(done, f"{TWO}, {title}", f"{ONE}, {title}", names) for title in RANKS]
    rows.append(["**mean**", *[None] * len(fits), *(f"{gap:+.2f}" for gap in gaps if gap)])
    return table(["test accuracy", *fits, *(f"two − one, {title}" for title in RANKS)], rows)


def _constant(done: list[Done], names: list[str]) -> str:
    """Sets on which the diagonal map has the same accuracy in every split."""
    told = []
    for name, columns in product(names, COPIES):
        found = list(scores(_of(done, columns), DIAGONAL, data=name).values())
        if len(found) > 1 and len(set(found)) == 1:
            told.append(
                f"on {name}, {COPIES_WORDS[columns]}, {100 * found[0]:.1f} % in every split"
            )
    if not told:
        return ""
    return (
        f" The diagonal map has {'; '.join(told)}: it always answers with the largest class, which "
        "has that share of the test rows."
    )


def _kept(done: list[Done], names: list[str]) -> str:
    rows = []
    for name, columns in product(names, COPIES):
        here = [each.result for each in _of(done, columns) if each.job["data"] == name]
        if not here:
            continue
        mean = {key: np.mean([each[key] for each in here]) for key in here[0]}
        n_useful = mean["columns"] / (1 + COPIES[columns])
        useless = f"{mean['useless columns kept']:.1f} of {mean['columns'] - n_useful:.0f}"
        seconds = [
            f"{mean[f'core seconds, {way}, {title}']:.1f}" for title in RANKS for way in (ONE, TWO)
        ]
        rows.append(
            [f"{name}, {columns}", f"{mean['useful columns kept']:.1f} of {n_useful:.0f}",
             useless if COPIES[columns] else "–", *seconds]
        )  # fmt: skip
    timed = [f"core seconds: {way}, {title}" for title in RANKS for way in (ONE, TWO)]
    return table(["", "columns kept", "useless ones kept", *timed], rows)


def _findings(done: list[Done], names: list[str]) -> Iterator[str]:
    for columns, title in product(COPIES, RANKS):
        here = _of(done, columns)
        if here:
            beside = told_over_sets(here, f"{TWO}, {title}", f"{ONE}, {title}", names)
            yield f"- {_title(columns)}, {title}: {beside}."
    title = "default rank"
    for columns in COPIES:
        if here := _of(done, columns):
            beside = told_over_sets(here, f"{TWO}, {title}", DIAGONAL, names)
            yield (
                f"- {_title(columns)}, {title}, two steps against the diagonal map of the first "
                f"step alone: {beside}."
            )


def claims(done: list[Done]) -> Iterator[Claim]:
    """What the first step is worth, with and without useless columns."""
    names = present(COLUMNS, done)
    for columns in COPIES:
        if words := _at_ranks(_of(done, columns), names):
            says = f"two steps (columns, a map) against one map, {COPIES_WORDS[columns]}, in points"
            yield Claim(says, "answer", words)
    for columns, which in COPIES_WORDS.items():
        here = _of(done, columns)
        if words := figure(here, f"{TWO}, default rank", DIAGONAL, names, unit=""):
            says = f"two steps against the diagonal map of the first step alone, {which}, in points"
            yield Claim(says, "answer", words)


def _at_ranks(done: list[Done], names: list[str]) -> str:
    """Two steps against one map at each rank, and the set that decides."""
    pairs = {title: (f"{TWO}, {title}", f"{ONE}, {title}") for title in RANKS}
    gaps = {title: over_sets(done, *pair, names) for title, pair in pairs.items()}
    rests = {title: decides(done, *pair, names) for title, pair in pairs.items()}
    numbers, sets, plain, lost = [], [], [], []
    for title, gap in gaps.items():
        if gap is None:
            continue
        rest = rests[title]
        plain.append(f"{title}: {gap:+.1f}")
        # without the set the difference may also become clear, or change its sign
        lost.append(rest is not None and clear(gap) and not clear(rest[1]))
        word = "not clear" if lost[-1] else "differs"
        sets.append(plain[-1] + (f" ({word} without the set {rest[0]})" if rest else ""))
        numbers.append(plain[-1] + (f" (without the set {rest[0]} {rest[1]:+.1f})" if rest else ""))
    some = "; one unclear without a set" if any(lost) else ""
    last = "; not clear without one set" if all(lost) else some
    return fitting(*map(", ".join, (numbers, sets)), ", ".join(plain) + last, ", ".join(plain))


def search_parts(done: list[Done]) -> dict[str, Any]:
    """Accuracy, chosen ranks and seconds of the searches."""
    names = present(SEARCHED, done)
    fits = (STEPS, GRIDDED, PENALTY, FIXED)
    others = fits[1:]
    rows: list[list[Any]] = []
    for name in names:
        gaps = [gain(done, STEPS, other, data=name) for other in others]
        cells = [_cell(done, fit, name) for fit in fits]
        ranks = [_mean(done, f"rank, {fit}", name) for fit in (STEPS, GRIDDED)]
        rows.append([name, *cells, *(f"{gap:+.1f}" for gap in gaps), *ranks])
    gaps = [over_sets(done, STEPS, other, names) for other in others]
    rows.append(["**mean**", *[None] * 4, *(f"{gap:+.2f}" for gap in gaps), None, None])
    words = [f"- against {_TITLES[other]}: {told_over_sets(done, STEPS, other, names)}."
             for other in others]  # fmt: skip
    titles = [_TITLES[fit] for fit in fits] + [f"two steps − {_TITLES[fit]}" for fit in others]
    ranks = [f"mean rank: {_TITLES[fit]}" for fit in (STEPS, GRIDDED)]
    seconds = [[name, *(_mean(done, f"core seconds, {fit}", name) for fit in fits)]
               for name in names]  # fmt: skip
    return {
        "finding": "\n".join(words),
        "table": table(["test accuracy", *titles, *ranks], rows),
        "seconds": table(["core seconds", *(_TITLES[fit] for fit in fits)], seconds),
        "n_splits": len({each.job["split"] for each in done}),
        "most": MOST,
        "ranks": ", ".join(map(str, GRID["n_components"])),
        "alphas": ", ".join(f"{alpha:g}" for alpha in GRID["alpha"]),
    }


_TITLES = {
    STEPS: '`NCA("auto")`, in two steps', GRIDDED: "the grid of both", PENALTY: "`NCA()`",
    FIXED: "`NCA(alpha=3e-3)`",
}  # fmt: skip


def _mean(done: list[Done], key: str, name: str) -> str:
    return f"{np.mean(list(scores(done, key, data=name).values())):.1f}"


def search_claims(done: list[Done]) -> Iterator[Claim]:
    """The two steps against the grid and the default."""
    names = present(SEARCHED, done)
    asked = {
        GRIDDED: '`NCA("auto")`, rank first and then penalty, against a grid of both',
        PENALTY: '`NCA("auto")` against `NCA()`, which chooses the penalty alone',
    }
    for other, words in asked.items():
        ratio = [each.result[f"core seconds, {STEPS}"] / each.result[f"core seconds, {other}"]
                 for each in done]  # fmt: skip
        says = f"{words} (in {np.median(ratio):.2g} × the core time)"
        yield Claim(says, "answer", figure(done, STEPS, other, names))


EXPERIMENTS = (
    Experiment(
        "two-step",
        "Two steps: columns by a diagonal map first, then a full one",
        jobs,
        work,
        parts,
        claims=claims,
    ),
    Experiment(
        "rank-and-penalty",
        "The rank first and then the penalty, against a grid of both",
        search_jobs,
        search,
        search_parts,
        claims=search_claims,
    ),
)
