"""Lists of candidates against all pairs: what NCA and KNCA lose when each row may pick 100 rows."""

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
from reproduce.own.paired import figure, gain, over_sets, present, scores, subsample, told_over_sets

SETS = ("digits", "landsat")

#: the most rows that are taken of a set; KNCA takes several times as long as NCA
MOST = {"NCA": 2000, "KNCA": 1000}

RANKS = (2, 8)

ALPHA = 3e-3

ALL, NEAREST, RANDOM = "all pairs", "100 nearest", "100 random"
LISTS = (NEAREST, RANDOM)

SPLITS = 10


def jobs(splits: int | None) -> Iterator[Job]:
    """Every set, split, rank and method; all kinds of pairs within the job."""
    for split, name, d, method in product(range(splits or SPLITS), SETS, RANKS, MOST):
        yield {"data": name, "split": split, "d": d, "method": method}


def work(data: str, split: int, d: int, method: str) -> dict[str, Any]:
    """Test accuracy with all pairs and with lists, the share of pairs, and what was left out."""
    import vicinal
    from vicinal.neighborhoods import Nearest, RandomPairs

    kinds: dict[str, Any] = {ALL: "all", NEAREST: Nearest(m=100), RANDOM: RandomPairs(m=100)}
    X, y = protocol.data(data)
    rows = subsample(len(y), MOST[method])
    X, y = X[rows], y[rows]
    train, test = stratified(y, split)
    result: dict[str, Any] = {"rows": len(train)}
    for name, pairs in kinds.items():
        began = time.process_time()
        model = getattr(vicinal, method)(d, neighborhood=pairs, alpha=ALPHA, random_state=split)
        model.fit(X[train], y[train])
        result[f"core seconds, {name}"] = time.process_time() - began
        result[name] = float(model.score(X[test], y[test]))
        result[f"share, {name}"] = float(np.mean(model.history_["share_of_pairs"]))
        result[f"iterations, {name}"] = int(model.n_iter_)
        result[f"evaluations, {name}"] = int(model.history_["n_evaluations"][-1])
        left = getattr(model, "rounds_", {}).get("mean_left_out")
        if left:
            result[f"left out, {name}"] = float(left[-1])
    return result


def parts(done: list[Done]) -> dict[str, Any]:
    """A table for each method, what the lists cost, and what they leave out."""
    names = present(SETS, done)
    methods = [method for method in MOST if _of(done, method)]
    return {
        "finding": "\n".join(_findings(done, names)),
        "tables": "\n\n".join(
            f"## {method}\n\n{_table(_of(done, method), names)}" for method in methods
        ),
        "cost": _cost(done, names),
        "slower": _slower(done),
        "left_out": _left_out(done, names),
        "n_splits": len({each.job["split"] for each in done}),
        "rows": "; ".join(f"{method} {_rows(_of(done, method), names)}" for method in methods),
        "alpha": f"{ALPHA:g}",
    }


def _of(done: list[Done], method: str) -> list[Done]:
    return [each for each in done if each.job["method"] == method]


def _rows(done: list[Done], names: list[str]) -> str:
    known = {each.job["data"]: each.result["rows"] for each in done}
    return ", ".join(f"{known[name]:,} of {name}" for name in names if name in known)


def _table(done: list[Done], names: list[str]) -> str:
    """Accuracy with all pairs, and the paired differences of the lists."""
    rows: list[list[Any]] = []
    for name, d in product(names, RANKS):
        if found := scores(done, ALL, data=name, d=d):
            gaps = [f"{gain(done, kind, ALL, data=name, d=d):+.2f}" for kind in LISTS]
            rows.append([f"{name}, d = {d}", f"{Summary(list(found.values())):.1f}", *gaps])
    for d in RANKS:
        gaps = [over_sets(done, kind, ALL, names, d=d) for kind in LISTS]
        if all(gaps):
            rows.append([f"**mean, d = {d}**", None, *(f"{gap:+.2f}" for gap in gaps)])
    return table(["test accuracy", ALL, *(f"{kind} − {ALL}" for kind in LISTS)], rows)


def _cost(done: list[Done], names: list[str]) -> str:
    """Share of pairs, share of the mass left out, and core seconds: means over the splits."""
    rows = []
    for method, name, d, kind in product(MOST, names, RANKS, (ALL, *LISTS)):
        wanted = {"method": method, "data": name, "d": d}.items()
        here = [each.result for each in done if wanted <= each.job.items()]
        if not here:
            continue

        def mean(what: str, kind: str = kind, here: list[Any] = here) -> float:
            return float(np.mean([each.get(f"{what}, {kind}", np.nan) for each in here]))

        rows.append(
            [f"{method}, {name}, d = {d}", kind, f"{100 * mean('share'):.0f} %",
             f"{100 * mean('left out'):.1f} %" if kind == NEAREST else "–",
             f"{mean('iterations'):.0f}", f"{mean('evaluations'):.0f}",
             f"{mean('core seconds'):.1f}"]
        )  # fmt: skip
    titles = ["", "pairs", "share of pairs", "mass left out at the end", "iterations"]
    return table([*titles, "evaluations", "core seconds"], rows)


def _slower(done: list[Done]) -> str:
    """The core seconds of fits on lists against those with all pairs, fit by fit."""
    told = []
    for kind in LISTS:
        ratios = [
            each.result[f"core seconds, {kind}"] / each.result[f"core seconds, {ALL}"]
            for each in done
        ]
        slower = sum(ratio > 1 for ratio in ratios)
        which = f"the {kind}" if kind == NEAREST else kind
        told.append(
            f"fits on lists of {which} rows take {np.median(ratios):.1f} times the core seconds "
            f"of all pairs in the median, and longer in {slower} of {len(ratios)} fits"
        )
    return f"On tables this small, {'; '.join(told)}."


def _left_out(done: list[Done], names: list[str]) -> str:
    """Accuracy lost by the nearest lists against the mass that they leave out, by rank."""
    told = []
    for d in RANKS:
        here = [each for each in done if each.job["d"] == d]
        masses, gaps = [], []
        for method, name in product(MOST, names):
            gap = gain(_of(here, method), NEAREST, ALL, data=name)
            left = scores(_of(here, method), f"left out, {NEAREST}", data=name)
            if gap is not None and left:
                gaps.append(gap.mean)
                masses.append(100 * float(np.mean(list(left.values()))))
        if gaps:
            told.append(
                f"at d = {d} they leave out {_span(masses, '.1f')} % of the mass, and the "
                f"differences are {_span(gaps, '+.1f')} points"
            )
    if not told:
        return ""
    return f"Lists of the {NEAREST} rows, by method and set: {'; '.join(told)}."


def _span(values: list[float], spec: str) -> str:
    """The least and the largest of some numbers."""
    return " to ".join(dict.fromkeys(f"{value:{spec}}" for value in (min(values), max(values))))


def _findings(done: list[Done], names: list[str]) -> Iterator[str]:
    for method, d in product(MOST, RANKS):
        here = _of(done, method)
        if any(each.job["d"] == d for each in here):
            words = [f"{kind}: {told_over_sets(here, kind, ALL, names, d=d)}." for kind in LISTS]
            yield f"- {method}, d = {d}. {' '.join(words)}"


def claims(done: list[Done]) -> Iterator[Claim]:
    """What lists cost, by method and rank."""
    names = present(SETS, done)
    for method, kind, d in product(MOST, LISTS, RANKS):
        if words := figure(_of(done, method), kind, ALL, names, d=d):
            says = f"{method} on lists of {kind} rows, d = {d}: accuracy against all pairs"
            yield Claim(says, "answer", words)


EXPERIMENTS = (
    Experiment(
        "lists",
        "Lists of the nearest and of random rows against all pairs: NCA and KNCA",
        jobs,
        work,
        parts,
        claims=claims,
    ),
)
