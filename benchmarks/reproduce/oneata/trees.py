"""Oneață's stochastic learning with k-d trees: landsat (table 5.8) and the large sets (5.9)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from reproduce.framework.experiment import Claim, Done, Experiment, Job
from reproduce.framework.pages import bullets, table
from reproduce.framework.statistics import summary, verdict
from reproduce.oneata.common import Published, count_verdicts
from reproduce.oneata.judging import (
    CLEAR,
    FIGURE,
    ONE,
    Gap,
    NoLoss,
    claim,
    gap,
    n_splits,
    outcome,
    penalty_range,
    seen_means,
    words,
)
from reproduce.oneata.large import (
    LARGE,
    RULES,
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
    repeats,
    shown,
    thesis_reached,
)

#: tolerance: train score, 1-NN, NCA rule, visited points
LANDSAT = {
    "0": ((87.05, 0.66), (86.30, 0.32), (87.87, 0.24), (80.0, 5.9)),
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


#: tolerance 0 sums every pair: it is run without a tree
EXACT, LOOSE = "0", "0.1"


OWN = "vicinal's settings, 0.1"


TREE, ALL = "as the thesis (tree)", "the same over all pairs"


LARGE_FITS = (TREE, ALL)


TOLERANCE, MAX_ITER = 0.1, 500


#: repeats on landsat, 20 in the thesis; and points of accuracy that count as nothing lost
REPEATS, NOTHING = 10, 0.5


#: per cent of the pairs: where fewer are computed, a large number of the points is discarded
FEW = 50.0


#: what "seen" means for the claims of both tables, for ``seen_means``
NO_LOSS = (
    f'"do not lose accuracy" if less than {NOTHING:g} points are lost, {CLEAR:g} standard errors '
    "included"
)
DISCARD = (
    f'"discard a large number of the points" if less than {FEW:g} % of the pairs are computed, by '
    f"more than {CLEAR:g} standard errors (a limit that was set with the results known)"
)


def landsat_jobs(splits: int | None) -> Iterator[Job]:
    """Repeats that differ in the seed: landsat comes with its split."""
    for split, fit in product(range(splits or REPEATS), (*LANDSAT, OWN)):
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
        return _fit(data, split, TOLERANCE, {"sampling": samplers.StochasticQueries(500)})
    return _fit(data, split, None if fit == EXACT else float(fit), options)


def _fit(data: str, split: int, tolerance: float | None, options: dict[str, Any]) -> dict[str, Any]:
    """A fit by trees, or over all pairs without a tolerance."""
    from vicinal import NCA
    from vicinal.neighborhoods import Tree

    # without ``always`` the library would sum all pairs here, which is faster
    pairs = "all" if tolerance is None else Tree(tolerance, always=True)
    model = NCA(D, **options, neighborhood=pairs, random_state=split)
    result = fit_and_score(model, data, split)
    used = model.plan_.neighborhood
    assert (used is None) if tolerance is None else (isinstance(used, Tree) and used.always)
    shares = np.asarray(model.history_["share_of_pairs"], dtype=float)
    if tolerance is not None:
        assert np.isfinite(shares).all(), "the trees count what they visit"
    return {
        **result,
        "visited": 1.0 if tolerance is None else float(shares.mean()),
        "visited last": 1.0 if tolerance is None else float(shares[-1]),
    }


def landsat_parts(done: list[Done]) -> dict[str, Any]:
    """Finding, table, protocol."""
    names = {"train": "f(A), train", "visited": "visited, %"}
    keys = (*RULES, "visited")
    one = n_splits(done) < 2

    def row(fit: str) -> Iterator[Any]:
        yield fit
        for at, key in enumerate(keys):
            ours = summary(done, key, fit=fit)
            if fit in LANDSAT:
                paper = Published(*LANDSAT[fit][at])
                beside = Published(paper.mean) if one else paper
                yield from (paper, ours, None if key == "visited" else verdict(ours, beside))
            else:
                yield from (None, ours, None)

    main = table(
        ["tolerance", *(w for k in keys for w in ("paper", names.get(k, k), "difference"))],
        [row(fit) for fit in (*LANDSAT, OWN)],
    )
    pairs = [
        (f"{fit} {rule}", summary(done, rule, fit=fit), Published(*LANDSAT[fit][at]))
        for fit in LANDSAT
        for at, rule in enumerate(RULES)
        if rule != "train"
    ]
    return {
        "loose": LOOSE,
        "seen": seen_means(NO_LOSS, DISCARD),
        "loss": words(gap(done, LOOSE, EXACT, tested=0.0)),
        "loss_1_nn": words(gap(done, LOOSE, EXACT, "1-NN", tested=0.0)),
        "repeats": n_splits(done),
        "share": _share(done, LOOSE),
        "share_in_thesis": f"{LANDSAT[LOOSE][-1][0]:g}",
        "verdicts": bullets(
            "One repeat: the differences are in points, and nothing is counted."
            if one
            else count_verdicts("As the thesis", pairs)
        ),
        "main": main,
        "cost": _cost(done),
        "penalty": penalty_range(done, OWN),
        "max_iter": MAX_ITER,
        "d": D,
    }


def _share(done: list[Done], fit: str) -> str:
    share = mean(done, "visited", fit=fit)
    return f"{100 * share:.0f}" if share == share else "(not run yet)"


def _cost(done: list[Done]) -> str:
    """What a fit takes, tolerance by tolerance."""
    times = {fit: mean(done, "core seconds", fit=fit) for fit in LANDSAT}
    told = ", ".join(f"{t:.1f} ({fit})" for fit, t in times.items() if np.isfinite(t))
    return (
        "Seconds of a fit on one core by tolerance, the search for t0 included; 0 is without a "
        f"tree: {told}."
    )


def landsat_claims(done: list[Done]) -> Iterator[Claim]:
    """Nothing is lost at a tolerance of 0.1, and few pairs are visited."""
    difference = gap(done, LOOSE, EXACT, tested=0.0)
    yield from claim(
        "Trees with a tolerance of 0.1 do not lose accuracy (landsat)",
        outcome([difference], NoLoss(NOTHING)),
        f"{words(difference)} points by the NCA rule",
    )
    ours = summary(done, "visited", fit=LOOSE)
    if ours is not None:
        thesis = LANDSAT[LOOSE][-1][0]
        yield from claim(
            "Trees with a tolerance of 0.1 (ours bounds the error) discard many points (landsat)",
            outcome([_discarded(done, fit=LOOSE)]),
            f"computed: {ours:.1f} % of the pairs; thesis: {thesis:g} % of the points",
        )


def _discarded(done: list[Done], **where: Any) -> Gap | None:
    """How far the share of the pairs computed, in per cent, is below what counts as few."""
    ours = summary(done, "visited", **where)
    return None if ours is None else Gap(FEW - ours.mean, ours.error, n_splits(done, **where))


def large_jobs(splits: int | None) -> Iterator[Job]:
    """With trees and without."""
    yield from jobs_of(LARGE_FITS, splits)


def large_work(data: str, split: int, fit: str) -> dict[str, Any]:
    """Scores of one fit."""
    from vicinal import samplers

    few = samplers.StochasticQueries(50)
    options = {**THESIS, "sampling": few, "max_iter": MAX_ITER}
    return _fit(data, split, TOLERANCE if fit == TREE else None, options)


def large_parts(done: list[Done]) -> dict[str, Any]:
    """Finding, table, protocol."""
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
        "gap": by_set(done, TREE, ALL),
        "gap_1_nn": by_set(done, TREE, ALL, "1-NN"),
        "shares": _shares(done, TREE),
        "seen": seen_means(FIGURE, NO_LOSS, DISCARD),
        "verdicts": bullets(
            judged(done, TABLE_59, TREE, "As the thesis"),
            judged(done, TABLE_59, ALL, "The same over all pairs"),
        ),
        "main_table": main_table(done, TABLE_59, LARGE_FITS),
        "repeats": repeats(done),
        "visited": visited,
        "tolerance": TOLERANCE,
        "max_iter": MAX_ITER,
        "d": D,
    }


def _shares(done: list[Done], fit: str) -> str:
    """The share of the pairs computed, set by set, of those that have been run."""
    found = {name: mean(done, "visited", data=name, fit=fit) for name in LARGE}
    told = [f"{100 * share:.0f} % on {name}" for name, share in found.items() if share == share]
    return ", ".join(told).replace(" % ", " % of the pairs ", 1) or "(not run yet)"


def _shares_in_short(done: list[Done]) -> dict[str, str]:
    """The same with errors, for a cell of the index."""
    found = {name: summary(done, "visited", data=name, fit=TREE) for name in LARGE}
    return {
        name: f"{ours:.1f} %" if n_splits(done, data=name) > 1 else f"{ours.mean:.1f} %{ONE}"
        for name, ours in found.items()
        if ours is not None
    }


def large_claims(done: list[Done]) -> Iterator[Claim]:
    """The figures; and what trees lose."""
    yield from claim(
        "Trees with a tolerance of 0.1 reach or exceed 92.7, 84.5, 89.0 % by the NCA rule "
        "(usps, magic, mnist)",
        thesis_reached(done, TABLE_59, TREE),
        figures(done, TREE),
    )
    yield from claim(
        "Trees with a tolerance of 0.1 do not lose accuracy (large sets)",
        outcome(gaps(done, TREE, ALL).values(), NoLoss(NOTHING)),
        in_short(gaps(done, TREE, ALL)),
    )
    yield from claim(
        "Trees with a tolerance of 0.1 (ours bounds the error) discard many points "
        "(large sets; share computed)",
        outcome(_discarded(done, data=name, fit=TREE) for name in LARGE),
        in_short(_shares_in_short(done)),
    )


EXPERIMENTS = (
    Experiment(
        "oneata-table-5.8",
        "Stochastic learning with k-d trees on landsat (Oneață 2011, table 5.8)",
        landsat_jobs,
        landsat_work,
        landsat_parts,
        claims=landsat_claims,
    ),
    Experiment(
        "oneata-table-5.9",
        "Stochastic learning with k-d trees on the large sets (Oneață 2011, table 5.9)",
        large_jobs,
        large_work,
        large_parts,
        claims=large_claims,
    ),
)
