"""Oneață's stochastic learning on small sets (tables 5.6, B.1, B.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from reproduce.framework import protocol
from reproduce.framework.experiment import Claim, Done, Experiment, Job
from reproduce.framework.protocol import rows_70_30
from reproduce.oneata.common import PLAIN, Beside, OwnScale, Published, scores
from reproduce.oneata.judging import (
    DIFFERENCE,
    FIGURE,
    claim,
    gap,
    n_splits,
    outcome,
    penalty_range,
    reach,
    seen_means,
    words,
)
from reproduce.oneata.large import RULES, THESIS

#: train score, 1-NN, NCA rule: mean and standard error of each; table 5.6 is part of B.1
TABLES: dict[str, dict[tuple[str, int], tuple[float, ...]]] = {
    "b.1": {
        ("balance", 2): (88.35, 0.83, 87.37, 0.49, 90.45, 0.38),
        ("balance", 3): (94.0, 1.0, 94.44, 0.80, 95.11, 0.56),
        ("balance", 4): (94.70, 0.87, 95.32, 0.34, 96.14, 0.29),
        ("glass", 2): (55.0, 2.5, 54.9, 1.7, 59.0, 1.7),
        ("glass", 3): (65.4, 3.3, 59.0, 1.2, 62.5, 1.2),
        ("glass", 4): (69.2, 3.0, 60.5, 1.2, 63.77, 0.90),
        ("glass", 5): (68.2, 3.0, 64.1, 1.3, 65.7, 1.1),
        ("glass", 9): (76.0, 2.3, 68.0, 1.6, 69.7, 1.6),
        ("ionosphere", 2): (89.0, 1.7, 85.71, 0.94, 87.08, 0.95),
        ("ionosphere", 3): (91.0, 1.8, 86.6, 1.1, 86.8, 1.1),
        ("ionosphere", 4): (89.6, 1.4, 87.7, 1.1, 87.74, 0.97),
        ("ionosphere", 5): (91.4, 1.7, 88.07, 0.73, 88.35, 0.78),
        ("ionosphere", 33): (92.6, 1.5, 84.72, 0.57, 84.34, 0.59),
        ("iris", 2): (96.41, 0.94, 96.33, 0.57, 97.00, 0.46),
        ("iris", 3): (97.30, 0.82, 95.67, 0.57, 96.00, 0.62),
        ("iris", 4): (97.5, 1.3, 95.67, 0.71, 96.11, 0.66),
        ("wine", 2): (98.80, 0.70, 97.22, 0.65, 97.50, 0.49),
        ("wine", 3): (98.17, 0.87, 97.32, 0.58, 97.69, 0.52),
        ("wine", 4): (98.51, 0.86, 97.04, 0.53, 97.32, 0.46),
        ("wine", 5): (99.22, 0.40, 96.95, 0.45, 97.13, 0.47),
        ("wine", 13): (99.25, 0.62, 96.85, 0.41, 96.85, 0.41),
    },
    "b.2": {
        ("yeast", 2): (42.83, 0.93, 45.85, 0.41, 53.90, 0.47),
        ("yeast", 3): (47.30, 0.85, 46.49, 0.48, 54.37, 0.40),
        ("yeast", 4): (50.1, 1.2, 48.69, 0.68, 54.50, 0.63),
        ("yeast", 5): (50.41, 0.82, 50.19, 0.45, 55.35, 0.49),
        ("yeast", 8): (52.09, 0.84, 51.34, 0.47, 55.44, 0.56),
        ("ecoli", 2): (74.1, 2.2, 75.8, 1.0, 81.98, 0.96),
        ("ecoli", 3): (81.2, 1.8, 78.72, 0.77, 81.49, 0.75),
        ("ecoli", 4): (79.9, 2.1, 80.20, 0.73, 83.12, 0.86),
        ("ecoli", 5): (80.9, 2.4, 79.16, 0.77, 83.62, 0.64),
        ("ecoli", 7): (82.0, 2.1, 80.89, 0.52, 84.85, 0.48),
        ("pima", 2): (70.6, 1.1, 69.09, 0.64, 76.65, 0.44),
        ("pima", 3): (70.0, 1.3, 68.57, 0.62, 75.56, 0.82),
        ("pima", 4): (71.3, 1.2, 69.41, 0.60, 74.37, 0.57),
        ("pima", 5): (73.0, 1.2, 69.03, 0.71, 72.47, 0.81),
        ("pima", 8): (76.2, 1.5, 69.29, 0.88, 70.48, 0.81),
        ("segment", 2): (84.62, 0.64, 88.53, 0.39, 88.80, 0.33),
        ("segment", 3): (92.27, 0.57, 95.45, 0.31, 94.46, 0.33),
        ("segment", 4): (94.24, 0.46, 97.11, 0.18, 96.09, 0.20),
        ("segment", 5): (94.98, 0.35, 97.05, 0.16, 96.64, 0.13),
        ("segment", 18): (95.73, 0.57, 97.01, 0.28, 96.68, 0.30),
        ("transfusion", 2): (70.48, 0.99, 73.60, 0.47, 78.78, 0.42),
        ("transfusion", 3): (70.08, 0.92, 73.49, 0.54, 77.95, 0.39),
        ("transfusion", 4): (66.0, 3.1, 71.44, 0.56, 75.4, 2.9),
    },
}


SGD, OWN, EXACT = "as the thesis", "vicinal's settings", "all rows"


NAMES = {
    SGD: "As the thesis",
    OWN: "vicinal's settings",
    EXACT: "Conjugate gradients on all rows",
}


#: all rows of the sets of table B.2, of up to 1,600 rows, would take as long as the others
FITS = {"b.1": (SGD, OWN, EXACT), "b.2": (SGD, OWN)}


#: splits: 20 in the thesis
QUERIES, MAX_ITER, SPLITS = 50, 1000, 10


#: points by which similar scores may differ
SIMILAR = 2.0
#: rows of the sets: pages are rendered without the data
ROWS = {
    "balance": 625,
    "glass": 214,
    "ionosphere": 351,
    "iris": 150,
    "wine": 178,
    "yeast": 1484,
    "ecoli": 336,
    "pima": 768,
    "segment": 2310,
    "transfusion": 748,
}
#: steps of a short fit: twice the patience
SHORT = 50


def small_jobs(splits: int | None, which: str) -> Iterator[Job]:
    """One fit a job, split by split."""
    for split, (name, d), fit in product(range(splits or SPLITS), TABLES[which], FITS[which]):
        yield {"data": name, "split": split, "d": d, "fit": fit}


def small_work(data: str, split: int, d: int, fit: str) -> dict[str, Any]:
    """Scores of one fit."""
    from vicinal import NCA, samplers

    X, y = protocol.data(data)
    train, test = rows_70_30(len(y), split)
    queries = samplers.StochasticQueries(QUERIES)
    options: dict[str, Any] = {
        SGD: {**THESIS, "sampling": queries, "max_iter": MAX_ITER},
        OWN: {"sampling": queries},
        EXACT: {**PLAIN, "init": OwnScale("rca"), "solver": "cg"},
    }[fit]
    model = NCA(d, **options, random_state=split).fit(X[train], y[train])
    return {**scores(model, X, y, train, test), "alpha": float(model.alpha_)}


def small_parts(done: list[Done], which: str) -> dict[str, Any]:
    """Finding, table, cost, protocol."""

    beside = Beside(done, TABLES[which], RULES, _paper(which))
    fits = FITS[which]
    head = ["data", "d", "score", "paper", *(word for fit in fits for word in (fit, "difference"))]
    part = " Table 5.6 of the thesis is part of table B.1." if which == "b.1" else ""
    known, low = beside.low((SGD,))
    return {
        "n_known": known,
        "low": low,
        "splits": n_splits(done),
        "ahead_own_sgd": words(gap(done, OWN, SGD)),
        "ahead_own_sgd_1_nn": words(gap(done, OWN, SGD, "1-NN")),
        "part": part,
        "verdicts": beside.verdicts(*((NAMES[fit], fit) for fit in fits)),
        "main": beside.table(head, [(fit, "") for fit in fits]),
        "rule_gain_there": _rule_gain_there(which),
        "rule_gain_sgd": _rule_gain(done, SGD),
        "rule_gain_own": _rule_gain(done, OWN),
        **_all_rows(done, which),
        **_steps(done),
        "held_out": _held_out(which),
        "rank": _rank(done, which),
        "seen": seen_means(
            FIGURE,
            *(
                [
                    f"scores like those of NCA on all rows if the mean difference is at most "
                    f'{SIMILAR:g} points on every row of the table ("partly": on more than half)'
                ]
                if EXACT in fits
                else []
            ),
            DIFFERENCE,
        ),
        "upper": which.upper(),
        "penalties": penalty_range(done, OWN),
        "max_iter": MAX_ITER,
    }


def _steps(done: list[Done]) -> dict[str, Any]:
    """How many steps the fits as in the thesis take, and how they end."""
    steps = np.array([each.result["iterations"] for each in done if each.job["fit"] == SGD])
    return {
        "median_steps": f"{np.median(steps):.0f}",
        "mean_steps": f"{np.mean(steps):.0f}",
        "short": int(np.sum(steps <= SHORT)),
        "cut": int(np.sum(steps >= MAX_ITER)),
        "n_fits": len(steps),
        "short_steps": SHORT,
    }


def _held_out(which: str) -> str:
    """How few rows decide when a fit ends: the two sets with the fewest."""
    names = dict.fromkeys(name for name, _ in TABLES[which])
    counts = {name: max(1, round(0.05 * round(0.7 * ROWS[name]))) for name in names}
    few = sorted(counts, key=lambda name: counts[name])[:2]
    return " and ".join(f"{counts[name]} on {name}" for name in few)


def _rank(done: list[Done], which: str) -> str:
    """That a column of transfusion is a multiple of another, and what follows for d = 4."""
    if which != "b.2":
        return ""
    found = {
        d: {
            each.job["split"]: [each.result[rule] for rule in RULES]
            for each in done
            if each.job == {**each.job, "data": "transfusion", "d": d, "fit": SGD}
        }
        for d in (3, 4)
    }
    same = found[3] == found[4]
    told = (
        "here the scores of d = 3 and d = 4 with the thesis's settings are the same on every split"
        if same and found[3]
        else "a fourth dimension adds nothing to the maps that can be learnt"
    )
    return (
        "- The third column of transfusion (blood given, in cm³) is 250 times the second (number "
        f"of donations), so its rows lie in three dimensions; {told}.\n"
    )


def _all_rows(done: list[Done], which: str) -> dict[str, str]:
    """What is said of plain NCA on all rows: where that has been run, and that it has not."""
    if EXACT not in FITS[which]:
        told = dict.fromkeys(("all_rows", "rule_gain_exact", "beside_all_rows"), "")
        return {**told, "not_run": " Not run: plain NCA on all rows, which table B.1 has."}
    rule, own_rule = (words(gap(done, fit, EXACT)) for fit in (SGD, OWN))
    one_nn, own_one_nn = (words(gap(done, fit, EXACT, "1-NN")) for fit in (SGD, OWN))
    return {
        "all_rows": ' "All rows" is plain NCA by conjugate gradients from the same start on the '
        "same splits (tables B.3 and B.4 of the thesis), with at most 200 iterations (500 on their "
        "pages).",
        "rule_gain_exact": f", and {_rule_gain(done, EXACT)} after conjugate gradients on all rows",
        "beside_all_rows": f"- Beside plain NCA on all rows, in points of the NCA rule: {rule} "
        f"with the thesis's settings and {own_rule} with vicinal's; by 1-NN {one_nn} and "
        f"{own_one_nn}.",
        "not_run": "",
    }


def _paper(which: str) -> Callable[..., Published]:
    def paper(name: str, d: int, rule: str, _: str) -> Published:
        at = 2 * RULES.index(rule)
        return Published(*TABLES[which][name, d][at : at + 2])

    return paper


def claims(done: list[Done], which: str) -> Iterator[Claim]:
    """The figures, and the two remarks of section 5.3.3."""
    table = Beside(done, TABLES[which], RULES, _paper(which))
    known, low = table.low((SGD, ""))
    told = "not seen" if low == known else "partly" if low else "seen"
    yield from claim(
        f"The test scores reach or exceed those of table {which.upper()}: stochastic learning",
        told if known else None,
        reach(known, low, table.high((SGD, ""))),
    )
    rows = [gap(done, SGD, EXACT, data=name, d=d) for name, d in TABLES[which]]
    known_rows = [each.points for each in rows if each is not None]
    close = sum(abs(points) <= SIMILAR for points in known_rows)
    if known_rows:
        yield Claim(
            f"Stochastic learning scores like NCA on all rows (table {which.upper()})",
            "seen"
            if close == len(known_rows)
            else "partly"
            if 2 * close > len(known_rows)
            else "not seen",
            f"within {SIMILAR:g} points on {close} of {len(known_rows)} rows; "
            f"mean {words(gap(done, SGD, EXACT))}",
        )
    gain = gap(done, SGD, SGD, "NCA", "1-NN")
    yield from claim(
        f"After stochastic learning the NCA rule is better than 1-NN (table {which.upper()})",
        outcome([gain]),
        f"{words(gain)} points",
    )


def _rule_gain(done: list[Done], fit: str) -> str:
    """By how much the rule is ahead of 1-NN on average over rows and splits."""
    return words(gap(done, fit, fit, "NCA", "1-NN"))


def _rule_gain_there(which: str) -> str:
    rows = TABLES[which].values()
    return f"{sum(row[4] - row[2] for row in rows) / len(rows):+.1f}"


def _small(which: str) -> Experiment:
    def bound(function: Callable[..., Any]) -> Any:
        return partial(function, which=which)

    tables = "tables 5.6 and B.1" if which == "b.1" else "table B.2"
    return Experiment(
        f"oneata-table-{which}",
        f"Stochastic learning on small sets (Oneață 2011, {tables})",
        bound(small_jobs),
        small_work,
        bound(small_parts),
        template="stochastic-small",
        claims=bound(claims),
    )


EXPERIMENTS = tuple(map(_small, TABLES))
