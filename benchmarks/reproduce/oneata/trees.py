"""Oneață's stochastic learning with k-d trees: landsat (table 5.8) and the large sets (5.9)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from reproduce.framework.experiment import Done, Experiment, Job
from reproduce.framework.pages import bullets, table
from reproduce.framework.statistics import Published, summary, verdict
from reproduce.oneata.common import count_verdicts
from reproduce.oneata.large import (
    LARGE,
    RULES,
    THESIS,
    D,
    ahead,
    by_set,
    fit_and_score,
    jobs_of,
    main_table,
    mean,
    repeats,
    shown,
    verdicts,
)

#: tolerance: train score, 1-NN, NCA rule, visited points
LANDSAT = {
    "0": ((87.05, 0.66), (86.30, 0.32), (87.87, 0.24), (80.0, 5.9)),
    "1e-50": ((87.50, 0.31), (86.26, 0.24), (87.88, 0.20), (55.1, 5.2)),
    "1e-20": ((85.49, 0.89), (86.32, 0.28), (87.87, 0.26), (45.7, 4.1)),
    "1e-5": ((87.29, 0.49), (85.95, 0.19), (87.63, 0.29), (22.8, 2.7)),
    "0.01": ((87.34, 0.76), (86.14, 0.29), (87.90, 0.24), (22.1, 4.2)),
    "0.1": ((86.70, 0.39), (86.12, 0.29), (88.09, 0.19), (20.0, 2.0)),
}


TABLE_59 = {
    "usps": ((89.68, 0.51), (90.57, 0.20), (92.67, 0.15)),
    "magic": ((78.09, 0.37), (79.68, 0.30), (84.50, 0.21)),
    "mnist": ((84.4, 1.4), (85.5, 1.0), (88.98, 0.75)),
}


NO_TREE, OWN = "no tree", "vicinal's settings, 0.1"


SGD, ADAM, ALL = (
    "as the thesis (50 queries, SGD)",
    "500 queries, vicinal's settings",
    "500 queries, vicinal's settings, no tree",
)


LARGE_FITS = (SGD, ADAM, ALL)


TOLERANCE, MAX_ITER = 0.1, 500


def landsat_jobs(splits: int | None) -> Iterator[Job]:
    """Repeats that differ in the seed: landsat comes with its split."""
    for split, fit in product(range(splits or 20), (*LANDSAT, NO_TREE, OWN)):
        yield {"data": "landsat", "split": split, "fit": fit}


def landsat_work(data: str, split: int, fit: str) -> dict[str, Any]:
    """Scores and share of the pairs visited of one fit."""
    from vicinal import samplers

    options: dict[str, Any] = {
        **THESIS,
        "sampling": samplers.StochasticQueries(50),
        "max_iter": MAX_ITER,
    }
    if fit == OWN:
        options = {"sampling": samplers.StochasticQueries(500)}
    tolerance = {NO_TREE: None, OWN: TOLERANCE}.get(fit)
    if fit in LANDSAT:
        tolerance = float(fit)
    return _fit(data, split, tolerance, options)


def _fit(data: str, split: int, tolerance: float | None, options: dict[str, Any]) -> dict[str, Any]:
    from vicinal import NCA
    from vicinal.neighbourhoods import Tree

    pairs = "all" if tolerance is None else Tree(tolerance)
    model = NCA(D, **options, pairs=pairs, random_state=split)
    result = fit_and_score(model, data, split)
    shares = np.asarray(model.history_.get("share_of_pairs", [np.nan]), dtype=float)
    return {
        **result,
        "visited": float(np.nanmean(shares)) if np.isfinite(shares).any() else 1.0,
        "visited last": float(shares[-1]) if np.isfinite(shares[-1]) else 1.0,
    }


def landsat_parts(done: list[Done]) -> dict[str, Any]:
    """Finding, table, protocol."""
    names = {"train": "f(A), train", "visited": "visited, %"}
    keys = (*RULES, "visited")

    def row(fit: str) -> Iterator[Any]:
        yield fit
        for at, key in enumerate(keys):
            ours = summary(done, key, fit=fit)
            if fit in LANDSAT:
                paper = Published(*LANDSAT[fit][at])
                yield from (paper, ours, None if key == "visited" else verdict(ours, paper))
            else:
                yield from (None, ours, None)

    main = table(
        ["tolerance", *(w for k in keys for w in ("paper", names.get(k, k), "difference"))],
        [row(fit) for fit in (*LANDSAT, NO_TREE, OWN)],
    )
    pairs = [
        (f"{fit} {rule}", summary(done, rule, fit=fit), Published(*LANDSAT[fit][at]))
        for fit in LANDSAT
        for at, rule in enumerate(RULES)
        if rule != "train"
    ]
    run = {each.job["fit"] for each in done}
    loose = next((fit for fit in reversed(LANDSAT) if fit in run), "0.1")
    exact = NO_TREE if NO_TREE in run else "0"
    words = "learning without a tree" if exact == NO_TREE else "that at tolerance 0"
    share, there = 100 * mean(done, "visited", fit=loose), LANDSAT[loose][-1][0]
    few = " One repeat cannot tell a loss of such a size from none." if _repeats(done) == 1 else ""
    return {
        "loose": loose,
        "ahead_loose_exact": ahead(done, loose, exact),
        "exact_words": words,
        "repeats": _repeats(done),
        "share": f"{share:.0f}",
        "share_in_thesis": f"{there:g}",
        "one_repeat": few,
        "verdicts": bullets(count_verdicts("As the thesis", pairs)),
        "main": main,
        "cost": _cost(done),
        "max_iter": MAX_ITER,
        "d": D,
    }


def _cost(done: list[Done]) -> str:
    """What a fit takes, tolerance by tolerance."""
    times = {fit: mean(done, "core seconds", fit=fit) for fit in (*LANDSAT, NO_TREE)}
    told = ", ".join(f"{t:.1f} ({fit})" for fit, t in times.items() if np.isfinite(t))
    return (
        f"Seconds of a fit on one core, the search for t0 included: {told}. With 50 queries\n"
        "  against some 4,000 rows there is little for a tree to save, built anew at each\n"
        "  step."
    )


def _repeats(done: list[Done]) -> int:
    return len({each.job["split"] for each in done})


def large_jobs(splits: int | None) -> Iterator[Job]:
    """Three fits a split."""
    yield from jobs_of(LARGE_FITS, splits)


def large_work(data: str, split: int, fit: str) -> dict[str, Any]:
    """Scores of one fit."""
    from vicinal import samplers

    if fit == SGD:
        few = samplers.StochasticQueries(50)
        return _fit(data, split, TOLERANCE, {**THESIS, "sampling": few, "max_iter": MAX_ITER})
    many = {"sampling": samplers.StochasticQueries(500)}
    return _fit(data, split, TOLERANCE if fit == ADAM else None, many)


def large_parts(done: list[Done]) -> dict[str, Any]:
    """Finding, table, protocol."""
    gap = by_set(done, ADAM, ALL)
    visited = table(
        ["data", *(f"{fit}: visited, %; core seconds" for fit in LARGE_FITS)],
        [
            [
                name,
                *(
                    shown(
                        f"{100 * mean(done, 'visited', data=name, fit=fit):.0f}; "
                        f"{mean(done, 'core seconds', data=name, fit=fit):.1f}"
                    )
                    for fit in LARGE_FITS
                ),
            ]
            for name in LARGE
        ],
    )
    return {
        "gap": gap,
        "verdicts": bullets(
            count_verdicts("As the thesis", verdicts(done, TABLE_59, SGD)),
            count_verdicts("500 queries, vicinal's settings", verdicts(done, TABLE_59, ADAM)),
        ),
        "main_table": main_table(done, TABLE_59, LARGE_FITS),
        "repeats": repeats(done),
        "visited": visited,
        "tolerance": TOLERANCE,
        "max_iter": MAX_ITER,
        "d": D,
    }


EXPERIMENTS = (
    Experiment(
        "oneata-table-5.8",
        "Stochastic learning with k-d trees on landsat (Oneață 2011, table 5.8)",
        landsat_jobs,
        landsat_work,
        landsat_parts,
    ),
    Experiment(
        "oneata-table-5.9",
        "Stochastic learning with k-d trees on the large sets (Oneață 2011, table 5.9)",
        large_jobs,
        large_work,
        large_parts,
    ),
)
