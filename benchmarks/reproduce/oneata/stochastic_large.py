"""Oneață's stochastic learning on the large sets (table 5.7)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reproduce.framework.experiment import Claim, Done, Experiment, Job
from reproduce.framework.pages import bullets, table
from reproduce.oneata.judging import DIFFERENCE, FIGURE, claim, outcome, seen_means
from reproduce.oneata.large import (
    LARGE,
    THESIS,
    D,
    by_set,
    figures,
    fit_and_score,
    gaps,
    in_short,
    jobs_of,
    judged,
    main_table,
    mean,
    penalties,
    repeats,
    shown,
    thesis_reached,
)

PAPER = {
    "usps": ((90.23, 0.50), (90.68, 0.22), (92.64, 0.17)),
    "magic": ((78.39, 0.25), (79.76, 0.13), (84.49, 0.12)),
    "mnist": ((85.97, 0.37), (86.07, 0.43), (89.35, 0.39)),
}


FEW, MANY = "as the thesis (50 queries, SGD)", "500 queries, vicinal's settings"


FITS = {FEW: 50, MANY: 500}


MAX_ITER = 500


def jobs(splits: int | None) -> Iterator[Job]:
    """Two fits a split."""
    yield from jobs_of(FITS, splits)


def work(data: str, split: int, fit: str) -> dict[str, Any]:
    """Scores of one fit."""
    from vicinal import NCA, samplers

    options = {**THESIS, "max_iter": MAX_ITER} if fit == FEW else {}
    sampling = samplers.StochasticQueries(FITS[fit])
    return fit_and_score(NCA(D, **options, sampling=sampling, random_state=split), data, split)


def parts(done: list[Done]) -> dict[str, Any]:
    """Finding, table, cost, protocol."""
    cost = table(
        ["data", *(f"{fit}: steps; core seconds" for fit in FITS)],
        [
            [
                name,
                *(
                    shown(
                        f"{mean(done, 'iterations', data=name, fit=fit):.0f}; "
                        f"{mean(done, 'core seconds', data=name, fit=fit):.1f}"
                    )
                    for fit in FITS
                ),
            ]
            for name in LARGE
        ],
    )
    return {
        "gains": by_set(done, MANY, FEW),
        "seen": seen_means(FIGURE, DIFFERENCE),
        "verdicts": bullets(
            judged(done, PAPER, FEW, "As the thesis"),
            judged(done, PAPER, MANY, "500 queries, vicinal's settings"),
        ),
        "main_table": main_table(done, PAPER, FITS),
        "repeats": repeats(done),
        "rule_gain": by_set(done, FEW, FEW, "NCA", "1-NN"),
        "rule_gain_own": by_set(done, MANY, MANY, "NCA", "1-NN"),
        "cost": cost,
        "used_up": _used_up(done),
        "penalties": penalties(done, MANY),
        "max_iter": MAX_ITER,
        "d": D,
    }


def _used_up(done: list[Done]) -> str:
    """How many fits of the thesis's kind used all their steps."""
    found = [each for each in done if each.job["fit"] == FEW]
    used = sum(each.result["iterations"] >= MAX_ITER for each in found)
    return f"{used} of {len(found)}"


def claims(done: list[Done]) -> Iterator[Claim]:
    """The figures; and that the rule is better than 1-NN."""
    yield from claim(
        "Stochastic learning reaches or exceeds 92.6, 84.5, 89.4 % by the NCA rule "
        "(usps, magic, mnist)",
        thesis_reached(done, PAPER, FEW),
        figures(done, FEW),
    )
    yield from claim(
        "After stochastic learning the NCA rule is better than 1-NN (large sets)",
        outcome(gaps(done, FEW, FEW, "NCA", "1-NN").values()),
        in_short(gaps(done, FEW, FEW, "NCA", "1-NN")),
    )


EXPERIMENTS = (
    Experiment(
        "oneata-table-5.7",
        "Stochastic learning on the large sets (Oneață 2011, table 5.7)",
        jobs,
        work,
        parts,
        claims=claims,
    ),
)
