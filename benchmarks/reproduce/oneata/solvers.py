"""Oneață's two solvers next to each other: tables B.3 and B.4."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from reproduce.framework import protocol
from reproduce.framework.experiment import Claim, Done, Experiment, Job
from reproduce.framework.pages import table
from reproduce.framework.protocol import rows_70_30
from reproduce.framework.statistics import distance
from reproduce.oneata.common import PLAIN, Beside, OwnScale, Published, scores
from reproduce.oneata.judging import (
    APART,
    FIGURE,
    claim,
    gap,
    n_splits,
    penalty_range,
    reach,
    seen_means,
    words,
)

#: conjugate gradients 1-NN, NCA; bold driver 1-NN, NCA: mean and standard error of each
TABLES: dict[str, dict[tuple[str, int], tuple[float, ...]]] = {
    "b.3": {
        ("balance", 2): (92.74, 0.57, 92.29, 0.56, 92.05, 0.93, 92.45, 0.81),
        ("balance", 3): (94.81, 0.52, 94.87, 0.53, 92.79, 0.95, 92.87, 0.97),
        ("balance", 4): (95.16, 0.39, 95.32, 0.33, 94.18, 0.76, 94.36, 0.69),
        ("glass", 2): (53.6, 1.4, 54.2, 1.5, 58.7, 1.5, 62.5, 1.4),
        ("glass", 3): (61.8, 1.1, 60.9, 1.2, 66.3, 1.1, 67.1, 1.1),
        ("glass", 4): (62.7, 1.4, 62.2, 1.5, 65.8, 1.0, 66.6, 1.3),
        ("glass", 5): (64.5, 1.2, 63.46, 0.97, 66.69, 0.93, 67.00, 0.87),
        ("glass", 9): (66.5, 1.8, 65.5, 1.8, 66.0, 1.7, 65.6, 1.7),
        ("ionosphere", 2): (86.23, 0.80, 86.18, 0.75, 82.78, 0.98, 82.78, 0.91),
        ("ionosphere", 3): (87.69, 0.62, 87.64, 0.62, 86.04, 0.83, 86.08, 0.85),
        ("ionosphere", 4): (87.64, 0.55, 87.64, 0.57, 86.51, 0.73, 86.51, 0.73),
        ("ionosphere", 5): (89.39, 0.70, 89.39, 0.70, 87.88, 0.64, 87.88, 0.64),
        ("ionosphere", 33): (87.97, 0.68, 87.97, 0.68, 88.44, 0.59, 88.44, 0.59),
    },
    "b.4": {
        ("iris", 2): (94.44, 0.51, 94.11, 0.48, 93.67, 0.82, 93.78, 0.84),
        ("iris", 3): (95.44, 0.73, 95.00, 0.75, 95.22, 0.72, 95.33, 0.74),
        ("iris", 4): (96.56, 0.46, 96.44, 0.46, 95.44, 0.76, 95.56, 0.77),
        ("wine", 2): (96.67, 0.38, 96.57, 0.38, 96.30, 0.54, 96.30, 0.54),
        ("wine", 3): (96.39, 0.48, 96.39, 0.48, 96.57, 0.59, 96.57, 0.59),
        ("wine", 4): (96.20, 0.40, 96.48, 0.41, 97.13, 0.52, 97.13, 0.52),
        ("wine", 5): (96.57, 0.60, 96.57, 0.60, 96.76, 0.55, 96.76, 0.55),
        ("wine", 13): (96.20, 0.48, 96.20, 0.48, 97.22, 0.48, 97.22, 0.48),
        ("yeast", 2): (42.37, 0.81, 43.20, 0.84, 44.65, 0.56, 46.68, 0.57),
        ("yeast", 3): (48.06, 0.67, 48.30, 0.65, 47.06, 0.53, 47.95, 0.54),
        ("yeast", 4): (49.06, 0.47, 49.14, 0.47, 49.48, 0.42, 49.83, 0.38),
        ("yeast", 5): (50.09, 0.39, 50.09, 0.38, 50.16, 0.61, 50.41, 0.62),
        ("yeast", 8): (50.66, 0.52, 50.70, 0.52, 50.19, 0.58, 50.28, 0.60),
    },
}


RULES = ("1-NN", "NCA")


BOLD = "bold driver"


#: the bold driver last: it takes longer than all others together
FITS = ("cg", "defaults", BOLD)


#: splits, of which the thesis gives no number for these tables
MAX_ITER, SPLITS = 500, 10


#: points by which close scores may differ
CLOSE = 2.0


def jobs(splits: int | None, which: str) -> Iterator[Job]:
    """One fit a job."""
    for fit, split, (name, d) in product(FITS, range(splits or SPLITS), TABLES[which]):
        yield {"data": name, "split": split, "d": d, "fit": fit}


def work(data: str, split: int, d: int, fit: str) -> dict[str, Any]:
    """Scores of one kind of fit on one split."""
    from vicinal import NCA

    X, y = protocol.data(data)
    train, test = rows_70_30(len(y), split)
    model = NCA(d, random_state=split)
    if fit != "defaults":
        solver = "bold_driver" if fit == BOLD else "cg"
        model.set_params(**PLAIN, init=OwnScale("rca"), solver=solver, max_iter=MAX_ITER)
    model.fit(X[train], y[train])
    return {**scores(model, X, y, train, test), "alpha": float(model.alpha_)}


def parts(done: list[Done], which: str) -> dict[str, Any]:
    """Finding, table, cost of the solvers, protocol."""

    beside = Beside(done, TABLES[which], RULES, _paper(which))
    head = ["data", "d", "rule", "paper, CG"]
    known, low = beside.low(("cg", "cg"), (BOLD, BOLD))
    return {
        "known": known,
        "low": low,
        "more_work": _more_work(done),
        "incomplete": _incomplete(done, which),
        "verdicts": beside.verdicts(
            ("Conjugate gradients", "cg", "cg"),
            ("Bold driver", BOLD, BOLD),
            ("vicinal's defaults against the paper's CG", "defaults", "cg"),
        ),
        "main": beside.table(
            [*head, "ours, CG", "difference", "vicinal's defaults", "difference",
             "paper, bold driver", "ours, bold driver", "difference"],
            [("cg", "cg"), ("defaults", "cg"), (BOLD, BOLD)],
        ),
        "cost": table(
            ["data", "d", "f(A), CG", "f(A), bold driver", "iterations, CG",
             "iterations, bold driver", "evaluations, CG", "evaluations, bold driver"],
            [[n, d, *_cost(done, n, d)] for n, d in TABLES[which]],
        ),
        "limited": _limited(done),
        "above": _above(beside),
        "solvers_1_nn": words(gap(done, BOLD, "cg", "1-NN")),
        "solvers_nca": words(gap(done, BOLD, "cg")),
        "close": _close(done, which),
        "defaults_1_nn": words(gap(done, "defaults", "cg", "1-NN")),
        "defaults_nca": words(gap(done, "defaults", "cg")),
        "penalties": penalty_range(done, "defaults"),
        "splits": n_splits(done),
        "seen": seen_means(
            FIGURE,
            f'"close scores on most data sets" if the mean difference is at most {CLOSE:g} points '
            "on more than half of the rows",
            '"takes longer" if more than nine tenths of the fits take more evaluations',
        ),
        "upper": which.upper(),
        "max_iter": MAX_ITER,
    }  # fmt: skip


def _paper(which: str) -> Callable[..., Published]:
    def paper(name: str, d: int, rule: str, solver: str) -> Published:
        at = 4 * (solver == BOLD) + 2 * RULES.index(rule)
        return Published(*TABLES[which][name, d][at : at + 2])

    return paper


def _cost(done: list[Done], name: str, d: int) -> Iterator[Any]:
    def mean(key: str, fit: str) -> float | None:
        where = {"data": name, "d": d, "fit": fit}
        found = [each.result[key] for each in done if where.items() <= each.job.items()]
        return float(np.mean(found)) if found else None

    for key in ("train", "iterations", "evaluations"):
        for fit in ("cg", "bold driver"):
            value = mean(key, fit)
            if value is None:
                yield None
            else:
                yield f"{100 * value:.2f}" if key == "train" else f"{value:.0f}"


def _close(done: list[Done], which: str) -> str:
    """On how many rows the two solvers are close by the NCA rule."""
    rows = [gap(done, BOLD, "cg", data=name, d=d) for name, d in TABLES[which]]
    found = [each.points for each in rows if each is not None]
    return f"{sum(abs(points) <= CLOSE for points in found)} of {len(found)}"


def _ratios(done: list[Done]) -> list[float]:
    """How many times as many evaluations the bold driver takes, on the splits that both have."""
    count: dict[tuple[Any, ...], dict[str, float]] = {}
    for each in done:
        at = (each.job["data"], each.job["d"], each.job["split"])
        count.setdefault(at, {})[each.job["fit"]] = each.result["evaluations"]
    return [c[BOLD] / c["cg"] for c in count.values() if {"cg", BOLD} <= c.keys()]


def _more_work(done: list[Done]) -> str:
    ratios = _ratios(done)
    if not ratios:
        return ""
    more = sum(ratio > 1.0 for ratio in ratios)
    return (
        f"In the median fit the bold driver takes {_at_least(done)}{np.median(ratios):.1f} times "
        f"as many evaluations, and more in {more} of {len(ratios)} fits."
    )


def claims(done: list[Done], which: str) -> Iterator[Claim]:
    """Close scores, more work, and the figures."""
    table = Beside(done, TABLES[which], RULES, _paper(which))
    known, low = table.low(("cg", "cg"), (BOLD, BOLD))
    told = "not seen" if low == known else "partly" if low else "seen"
    yield from claim(
        f"The test scores reach or exceed those of table {which.upper()}: both solvers",
        told if known else None,
        reach(known, low, table.high(("cg", "cg"), (BOLD, BOLD))),
    )
    difference, ratios = gap(done, BOLD, "cg"), _ratios(done)
    close, rows = map(int, _close(done, which).split(" of "))
    yield from claim(
        f"The two solvers give close scores on most data sets (table {which.upper()})",
        ("seen" if 2 * close > rows else "not seen") if rows and n_splits(done) > 1 else None,
        f"within {CLOSE:g} points on {close} of {rows} rows; mean {words(difference)}",
    )
    more = sum(ratio > 1.0 for ratio in ratios)
    yield from claim(
        f"Gradient ascent takes longer than conjugate gradients (table {which.upper()})",
        ("seen" if more > 0.9 * len(ratios) else "partly") if ratios else None,
        f"median {np.median(ratios) if ratios else 0:.1f} times the evaluations, more in "
        f"{more} of {len(ratios)} fits",
    )


def _at_least(done: list[Done]) -> str:
    """What is said of the evaluations where fits of the bold driver were cut off."""
    cut = (e.job["fit"] == BOLD and e.result["iterations"] >= MAX_ITER for e in done)
    return "at least " if any(cut) else ""


def _above(beside: Beside) -> str:
    """The sets on which we are above the thesis, of which the reason is not known."""
    counts: dict[str, int] = {}
    for fit in ("cg", BOLD):
        for cell, ours, paper in beside.pairs(fit, fit):
            if ours is not None and distance(ours, paper) > APART:
                name = cell.split()[0]
                counts[name] = counts.get(name, 0) + 1
    if not counts:
        return ""
    told = ", ".join(f"{name} ({n})" for name, n in sorted(counts.items(), key=lambda c: -c[1]))
    return (
        "Scores of the two solvers that are more than three standard errors above the thesis's: "
        f"{told}. The reason is not known."
    )


def _incomplete(done: list[Done], which: str) -> str:
    """How much of the bold driver, the slowest, has been run."""
    run = sum(each.job["fit"] == "bold driver" for each in done)
    wanted = sum(job["fit"] == "bold driver" for job in jobs(None, which))
    return f"\nOnly {run} of its {wanted} fits have been run." if run < wanted else ""


def _limited(done: list[Done]) -> str:
    """Which fits used up their iterations."""
    words = []
    for fit in ("cg", "bold driver"):
        found = [each for each in done if each.job["fit"] == fit]
        used = [each for each in found if each.result["iterations"] >= MAX_ITER]
        sets = ", ".join(sorted({f"{e.job['data']} d = {e.job['d']}" for e in used}))
        if used:
            words.append(
                f"{len(used)} of {len(found)} fits with {fit} ended at the limit of {MAX_ITER} "
                f"iterations ({sets})."
            )
    return " ".join(words)


def _experiment(which: str) -> Experiment:
    def bound(function: Callable[..., Any]) -> Any:
        return partial(function, which=which)

    return Experiment(
        f"oneata-table-{which}",
        f"Conjugate gradients and bold driver (Oneață 2011, table {which.upper()})",
        bound(jobs),
        work,
        bound(parts),
        template="solvers",
        claims=bound(claims),
    )


EXPERIMENTS = tuple(_experiment(which) for which in TABLES)
