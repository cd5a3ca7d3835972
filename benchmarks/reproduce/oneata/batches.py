"""Oneață's sub-sampling (table 5.4) and mini-batches (table 5.5) on the large sets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from reproduce.framework.experiment import Done, Experiment, Job
from reproduce.framework.pages import bullets, table
from reproduce.oneata.common import PLAIN, OwnScale, count_verdicts
from reproduce.oneata.large import (
    LARGE,
    THESIS,
    D,
    by_set,
    fit_and_score,
    jobs_of,
    main_table,
    mean,
    repeats,
    shown,
    verdicts,
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


AS_THESIS, REPAIRED, LOG, LOG_ALONE = (
    "as the thesis",
    "with the scale repaired",
    "vicinal's objective",
    "vicinal's objective, not repaired",
)


SUBSAMPLE_FITS = (AS_THESIS, REPAIRED, LOG_ALONE, LOG)


RPC, ADAM, RANDOM, FPC = (
    "as the thesis (RPC, SGD)",
    "RPC, vicinal's settings",
    "random, vicinal's settings",
    "FPC, vicinal's settings",
)


BATCH_FITS = {RPC: "rpc", ADAM: "rpc", RANDOM: "random", FPC: "fpc"}


ROWS, SIZE, MAX_ITER = 3000, 2000, 500


def subsample_jobs(splits: int | None) -> Iterator[Job]:
    """Four fits a split."""
    yield from jobs_of(SUBSAMPLE_FITS, splits)


def subsample_work(data: str, split: int, fit: str) -> dict[str, Any]:
    """Scores of one fit."""
    from vicinal import NCA, samplers

    plain = fit in (AS_THESIS, REPAIRED)
    options = {**PLAIN, "init": OwnScale("rca"), "solver": "cg"} if plain else {}
    model = NCA(D, **options, random_state=split)
    if fit in (REPAIRED, LOG):
        return fit_and_score(model.set_params(sampling=samplers.Subsample(ROWS)), data, split)

    def some(X: Any, y: Any) -> tuple[Any, Any]:
        rows = np.random.RandomState(split).permutation(len(y))[:ROWS]
        return X[rows], y[rows]

    return fit_and_score(model.set_params(sampling="full"), data, split, learn=some)


def subsample_parts(done: list[Done]) -> dict[str, Any]:
    """Finding, table, what the repair does, protocol."""
    gains = by_set(done, LOG, LOG_ALONE)
    plain = by_set(done, REPAIRED, AS_THESIS)
    against = by_set(done, LOG, AS_THESIS)
    alone = by_set(done, LOG_ALONE, AS_THESIS)
    cost = table(
        ["data", *(f"{fit}: core seconds" for fit in SUBSAMPLE_FITS)],
        [
            [
                n,
                *(
                    shown(f"{mean(done, 'core seconds', data=n, fit=f):.1f}")
                    for f in SUBSAMPLE_FITS
                ),
            ]
            for n in LARGE
        ],
    )
    return {
        "against": against,
        "verdicts": bullets(
            count_verdicts("As the thesis", verdicts(done, SUBSAMPLE, AS_THESIS)),
            count_verdicts("The same with the scale repaired", verdicts(done, SUBSAMPLE, REPAIRED)),
            count_verdicts("vicinal's objective and repair", verdicts(done, SUBSAMPLE, LOG)),
        ),
        "main_table": main_table(done, SUBSAMPLE, SUBSAMPLE_FITS),
        "repeats": repeats(done),
        "plain": plain,
        "gains": gains,
        "alone": alone,
        "cost": cost,
        "d": D,
    }


def batch_jobs(splits: int | None) -> Iterator[Job]:
    """Four fits a split."""
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
    against = by_set(done, RANDOM, RPC)
    rpc = by_set(done, RANDOM, ADAM)
    fpc = by_set(done, RANDOM, FPC)
    cost = table(
        ["data", *(f"{fit}: steps; core seconds" for fit in BATCH_FITS)],
        [[name, *(_cost(done, name, fit) for fit in BATCH_FITS)] for name in LARGE],
    )
    return {
        "against": against,
        "verdicts": bullets(
            count_verdicts("As the thesis", verdicts(done, BATCHES, RPC)),
            count_verdicts("RPC with vicinal's settings", verdicts(done, BATCHES, ADAM)),
            count_verdicts(
                "Random batches with vicinal's settings", verdicts(done, BATCHES, RANDOM)
            ),
            count_verdicts("FPC with vicinal's settings", verdicts(done, BATCHES, FPC)),
        ),
        "main_table": main_table(done, BATCHES, BATCH_FITS),
        "repeats": repeats(done),
        "rpc": rpc,
        "fpc": fpc,
        "repair": (
            "The first column is algorithm 4.1 as printed, without that repair "
            f"(`correct_scale=False`): the NCA rule is {_gap(done, RPC)} points from 1-NN, and "
            f"{_gap(done, ADAM)} with the log objective and the repair."
        ),
        "cost": cost,
        "max_iter": MAX_ITER,
        "t0_range": "from 1 to 1000",
    }


def _gap(done: list[Done], fit: str) -> str:
    """By how much the rule is ahead of 1-NN on the mean over the sets."""
    sets = [100 * (mean(done, "NCA", data=n, fit=fit) - mean(done, "1-NN", data=n, fit=fit))
            for n in LARGE]  # fmt: skip
    return f"{np.nanmean(sets):+.1f}"


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
    ),
    Experiment(
        "oneata-table-5.5",
        "Mini-batches on the large sets (Oneață 2011, table 5.5)",
        batch_jobs,
        batch_work,
        batch_parts,
    ),
)
