"""Oneață's sub-sampling (table 5.4) and mini-batches (table 5.5) on the large sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from reproduce.framework.experiment import Claim, Done, Experiment, Job
from reproduce.framework.pages import bullets, table
from reproduce.oneata.common import PLAIN, OwnScale
from reproduce.oneata.judging import (
    CLEAR,
    DIFFERENCE,
    FIGURE,
    SCALE,
    Gap,
    claim,
    outcome,
    seen_means,
)
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

#: f(A) of the rows learnt from, 1-NN, NCA rule
SUBSAMPLE = {
    "usps": ((99.112, 0.099), (89.30, 0.18), (89.41, 0.16)),
    "magic": ((82.71, 0.41), (79.25, 0.45), (80.22, 0.72)),
    "mnist": ((96.867,), (82.130,), (82.470,)),
}


BATCHES = {
    "usps": ((92.00, 0.43), (91.26, 0.17), (92.37, 0.17)),
    "magic": ((80.04, 0.48), (79.14, 0.52), (79.8, 1.1)),
    "mnist": ((87.47, 0.49), (87.52, 0.36), (89.88, 0.25)),
}


AS_THESIS, REPAIRED, OWN = "as the thesis", "the same, scale repaired", "vicinal's way"


SUBSAMPLE_FITS = (AS_THESIS, REPAIRED, OWN)


#: a map learnt from all rows, whose scale is right for them if anything is: on how many splits
CONTROL, CONTROLS = "all rows, scale repaired", 3


RPC, ADAM, RANDOM = (
    "as the thesis (RPC, SGD)",
    "RPC, vicinal's settings",
    "random, vicinal's settings",
)


BATCH_FITS = {RPC: "rpc", ADAM: "rpc", RANDOM: "random"}


ROWS, SIZE, MAX_ITER = 3000, 2000, 500


#: rows whose loss against all training rows decides about a factor of the map
SCORED = 1000


#: of the repaired map: the factor that is best for the log loss, applied, and for f(A), told
BY_LOG, BY_F = "factor", "factor by f"
FACTORS = {BY_LOG: "best factor for the log loss", BY_F: "best factor for f(A)"}


#: the search for it goes from the one to the other, with this relative precision
LEAST, MOST, PRECISION = 0.25, 4.0, 0.01


def subsample_jobs(splits: int | None) -> Iterator[Job]:
    """Three fits a split; and, of the sets on which that is quick, a few to all rows."""
    yield from jobs_of(SUBSAMPLE_FITS, splits)
    yield from jobs_of([CONTROL], min(splits or CONTROLS, CONTROLS), ("usps", "magic"))


def subsample_work(data: str, split: int, fit: str) -> dict[str, Any]:
    """Scores of one fit; the repaired map is that of the thesis's way times a factor."""
    from vicinal import NCA, samplers

    if fit == OWN:
        return fit_and_score(
            NCA(D, sampling=samplers.Subsample(ROWS), random_state=split), data, split
        )
    model = NCA(D, **PLAIN, init=OwnScale("rca"), solver="cg", sampling="full", random_state=split)

    def some(X: Any, y: Any) -> tuple[Any, Any]:
        rows = np.random.RandomState(split).permutation(len(y))[:ROWS]
        return X[rows], y[rows]

    if fit == AS_THESIS:
        return fit_and_score(model, data, split, learn=some)
    embedded: list[Any] = []

    def repair(Z: Any, y: Any) -> float:
        embedded.extend((Z, y))
        return _best_factor(Z, y, "log")  # as the library repairs

    learn = None if fit == CONTROL else some
    found = fit_and_score(model, data, split, learn=learn, repair=repair)
    return {**found, BY_F: _best_factor(*embedded, "accuracy")}


def _best_factor(Z: Any, y: Any, objective: str) -> float:
    """The factor with the least loss of some rows against all."""
    from vicinal.objectives import nca
    from vicinal.starts import repair_scale

    rows = np.sort(np.random.RandomState(0).permutation(len(y))[:SCORED])
    return repair_scale(
        lambda factor: float(nca(factor * Z, y, objective, rows, warn=False, gradient=False)[0])
    )


def subsample_parts(done: list[Done]) -> dict[str, Any]:
    """Finding, table, what the repair does, protocol."""
    cost = table(
        ["data", *(f"{fit}: core seconds" for fit in SUBSAMPLE_FITS), *FACTORS.values()],
        [
            [
                n,
                *(
                    shown(f"{mean(done, 'core seconds', data=n, fit=f):.1f}")
                    for f in SUBSAMPLE_FITS
                ),
                *(_median(_factors(done, key, data=n)) for key in FACTORS),
            ]
            for n in LARGE
        ],
    )
    return {
        "against": by_set(done, OWN, AS_THESIS),
        "verdicts": bullets(
            judged(done, SUBSAMPLE, AS_THESIS, "As the thesis"),
            judged(done, SUBSAMPLE, REPAIRED, "The same with the scale repaired"),
            judged(done, SUBSAMPLE, OWN, "vicinal's way"),
        ),
        # f(A) is there that of all training rows, in the thesis that of the rows learnt from
        "main_table": main_table(done, SUBSAMPLE, SUBSAMPLE_FITS, unlike=[(OWN, "train")]),
        "seen": seen_means(FIGURE, DIFFERENCE, SCALE),
        "repeats": repeats(done),
        "optimism": by_set(done, AS_THESIS, AS_THESIS, "train", "NCA"),
        "repair": by_set(done, REPAIRED, AS_THESIS),
        "factors_by_log": _above_one(done, BY_LOG),
        "factors_by_f": _above_one(done, BY_F),
        "at_lower_edge": _at_edge(done, BY_LOG, lambda f: f <= LEAST * (1 + PRECISION)),
        "at_upper_edge": _at_edge(done, BY_F, lambda f: f >= MOST / (1 + PRECISION)),
        "control": _control(done),
        "beyond_repair": by_set(done, OWN, REPAIRED),
        "cost": cost,
        "penalties": penalties(done, OWN),
        "d": D,
    }


def _factors(done: list[Done], key: str, **where: Any) -> list[float]:
    """The best factors of the maps of sub-samples, or of those that ``where`` names."""
    where = {"fit": REPAIRED, **where}
    return [each.result[key] for each in done if where.items() <= each.job.items()]


def _median(factors: list[float]) -> str:
    return f"{np.median(factors):.2f}" if factors else ""


def _control(done: list[Done]) -> str:
    """The best factors of maps of all rows, and how those of sub-samples compare with them."""
    told, larger, above = [], [], False
    for name in LARGE:
        whole = {key: _factors(done, key, data=name, fit=CONTROL) for key in FACTORS}
        if whole[BY_F]:
            by_f, by_log = (_median(whole[key]) for key in (BY_F, BY_LOG))
            told.append(f"{by_f} by f(A) and {by_log} by the log loss on {name}")
            above = above or float(by_f) > 1.0
            few = _factors(done, BY_F, data=name)[: len(whole[BY_F])]
            larger += [one > other for one, other in zip(few, whole[BY_F], strict=False)]
    if not told:
        return ""
    words = (
        f"As a control, the best factor of a map learnt from all rows is {'; '.join(told)} "
        f"(medians of {len(larger) // len(told)} splits). By f(A) the factor of the sub-sample is "
        f"larger in {sum(larger)} of {len(larger)} splits."
    )
    blame = " A factor above one does not show by itself that the sub-sample is to blame."
    return words + (blame if above else "")


def _above_one(done: list[Done], key: str) -> str:
    """In how many fits the best factor is above one."""
    found = _factors(done, key)
    return f"{sum(factor > 1.0 for factor in found)} of {len(found)}"


def _at_edge(done: list[Done], key: str, is_edge: Callable[[float], bool]) -> str:
    """In how many fits the search for the factor ended at an edge, set by set."""
    told = []
    for name in LARGE:
        found = _factors(done, key, data=name)
        edge = sum(map(is_edge, found))
        if edge:
            told.append(f"{edge} of {len(found)} fits on {name}")
    return ", ".join(told) or "no fit"


def subsample_claims(done: list[Done]) -> Iterator[Claim]:
    """The figures; a thin sample flatters the training score; its scale is too small."""
    yield from claim(
        "Sub-sampling to 3,000 rows reaches or exceeds 89.4, 80.2, 82.5 % by the NCA rule "
        "(usps, magic, mnist)",
        thesis_reached(done, SUBSAMPLE, AS_THESIS),
        figures(done, AS_THESIS),
    )
    optimism = gaps(done, AS_THESIS, AS_THESIS, "train", "NCA")
    told = outcome(optimism.values())
    if told == "seen" and not _more(optimism.get("usps"), optimism.get("magic")):
        told = "partly"
    yield from claim(
        "The sub-sample's training score is above the test score, above all on digits",
        told,
        in_short(gaps(done, AS_THESIS, AS_THESIS, "train", "NCA")),
    )
    larger = [factor > 1.0 for key in FACTORS for factor in _factors(done, key)]
    told = "seen" if all(larger) else "partly" if any(larger) else "not seen"
    yield from claim(
        "The map of a sub-sample has too small a scale for all rows",
        told if larger else None,
        f"factor > 1: {_above_one(done, BY_F)} fits by f(A), {_above_one(done, BY_LOG)} by log",
    )


def _more(first: Gap | None, second: Gap | None) -> bool:
    """Whether a difference is clearly above that of another set."""
    if first is None or second is None:
        return False
    error = (first.error**2 + second.error**2) ** 0.5
    return first.points - second.points > CLEAR * error


def batch_jobs(splits: int | None) -> Iterator[Job]:
    """Three fits a split."""
    yield from jobs_of(BATCH_FITS, splits)


def batch_work(data: str, split: int, fit: str) -> dict[str, Any]:
    """Scores of one fit."""
    from vicinal import NCA, samplers

    options = {**THESIS, "max_iter": MAX_ITER} if fit == RPC else {}
    # algorithm 4.1 ends with the scale of its last step
    sampling = samplers.MiniBatches(SIZE, clusters=BATCH_FITS[fit], correct_scale=fit != RPC)
    return fit_and_score(NCA(D, **options, sampling=sampling, random_state=split), data, split)


def batch_parts(done: list[Done]) -> dict[str, Any]:
    """Finding, table, kinds of clusters, protocol."""
    cost = table(
        ["data", *(f"{fit}: steps; core seconds" for fit in BATCH_FITS)],
        [[name, *(_cost(done, name, fit) for fit in BATCH_FITS)] for name in LARGE],
    )
    return {
        "against": by_set(done, RANDOM, RPC),
        "seen": seen_means(FIGURE, DIFFERENCE),
        "verdicts": bullets(
            judged(done, BATCHES, RPC, "As the thesis"),
            judged(done, BATCHES, ADAM, "RPC with vicinal's settings"),
            judged(done, BATCHES, RANDOM, "Random batches with vicinal's settings"),
        ),
        "main_table": main_table(done, BATCHES, BATCH_FITS),
        "repeats": repeats(done),
        "rpc": by_set(done, ADAM, RANDOM),
        "rule_gain": by_set(done, RPC, RPC, "NCA", "1-NN"),
        "rule_gain_own": by_set(done, ADAM, ADAM, "NCA", "1-NN"),
        "cost": cost,
        "penalties": penalties(done, RANDOM),
        "max_iter": MAX_ITER,
    }


def batch_claims(done: list[Done]) -> Iterator[Claim]:
    """The figures; and whether clusters are better batches than random rows."""
    yield from claim(
        "Mini-batches by RPC reach or exceed 92.4, 79.8, 89.9 % by the NCA rule "
        "(usps, magic, mnist)",
        thesis_reached(done, BATCHES, RPC),
        figures(done, RPC),
    )
    clusters = gaps(done, ADAM, RANDOM)
    yield from claim(
        "Clusters make better batches than random rows (both with vicinal's settings)",
        outcome(clusters.values()),
        in_short(gaps(done, ADAM, RANDOM)),
    )


def _cost(done: list[Done], name: str, fit: str) -> str:
    steps, seconds = (mean(done, k, data=name, fit=fit) for k in ("iterations", "core seconds"))
    return shown(f"{steps:.0f}; {seconds:.1f}")


EXPERIMENTS = (
    Experiment(
        "oneata-table-5.4",
        "Sub-sampling on the large sets (Oneață 2011, table 5.4)",
        subsample_jobs,
        subsample_work,
        subsample_parts,
        claims=subsample_claims,
    ),
    Experiment(
        "oneata-table-5.5",
        "Mini-batches on the large sets (Oneață 2011, table 5.5)",
        batch_jobs,
        batch_work,
        batch_parts,
        claims=batch_claims,
    ),
)
