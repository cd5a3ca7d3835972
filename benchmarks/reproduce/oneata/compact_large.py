"""Oneață's compact kernel on the large sets (table 5.10), and why it loses accuracy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reproduce.framework.experiment import Claim, Done, Experiment, Job
from reproduce.framework.pages import bullets, table
from reproduce.framework.statistics import summary
from reproduce.oneata.judging import Gap, claim, outcome
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
    "usps": ((85.16, 0.33), (87.02, 0.44), (89.85, 0.30)),
    "magic": ((76.92, 0.56), (79.09, 0.42), (82.92, 0.36)),
    "mnist": ((80.55, 0.28), (81.96, 0.26), (86.36, 0.18)),
}


CS, GAUSSIAN, SCALE, LOG = (
    "as the thesis",
    "Gaussian kernel, otherwise as the thesis",
    "start of a chosen scale",
    "compact kernel, vicinal's settings",
)


#: kernel, objective, start, queries
VARIANTS = {
    CS: ("compact", "accuracy", "RCA", "50, SGD"),
    GAUSSIAN: ("Gaussian", "accuracy", "RCA", "50, SGD"),
    SCALE: ("compact", "accuracy", "RCA, chosen scale", "50, SGD"),
    LOG: ("compact, background", "log, penalty", "auto", "500, Adam"),
}


MAX_ITER = 500


def jobs(splits: int | None) -> Iterator[Job]:
    """All variants of a split."""
    yield from jobs_of(VARIANTS, splits)


def work(data: str, split: int, fit: str) -> dict[str, Any]:
    """Scores of one variant."""
    from vicinal import NCA, samplers
    from vicinal.densities import Compact

    few, many = samplers.StochasticQueries(50), samplers.StochasticQueries(500)
    thesis = {**THESIS, "sampling": few, "max_iter": MAX_ITER}
    alone = Compact(background=False)
    options: dict[str, Any] = {
        CS: {**thesis, "kernel": alone},
        GAUSSIAN: thesis,
        SCALE: {**thesis, "kernel": alone, "init": "rca"},
        LOG: {"sampling": many, "kernel": "compact"},
    }[fit]
    return fit_and_score(NCA(D, **options, random_state=split), data, split)


def parts(done: list[Done]) -> dict[str, Any]:
    """Finding, table, causes, protocol."""
    rows = []
    for fit, words in VARIANTS.items():
        rows.append([fit, *words, *(summary(done, "NCA", data=n, fit=fit) for n in LARGE)])
    causes = table(["variant", "kernel", "objective", "start", "queries, solver",
                    *(f"{name}, NCA rule" for name in LARGE)], rows)  # fmt: skip
    compact = (CS, SCALE, LOG)
    alone = table(
        ["test rows out of range, %; f(A) train", *compact],
        [
            [
                name,
                *(
                    shown(
                        f"{100 * mean(done, 'beyond 1', data=name, fit=fit):.1f}; "
                        f"{100 * mean(done, 'train', data=name, fit=fit):.1f}"
                    )
                    for fit in compact
                ),
            ]
            for name in LARGE
        ],
    )
    return {
        "step_cs_gaussian": by_set(done, CS, GAUSSIAN),
        "step_cs_gaussian_1_nn": by_set(done, CS, GAUSSIAN, "1-NN"),
        "step_scale_cs": by_set(done, SCALE, CS),
        "repeats": repeats(done),
        "verdicts": bullets(
            judged(done, PAPER, CS, "As the thesis"),
            judged(done, PAPER, SCALE, "Start of a chosen scale"),
            judged(done, PAPER, LOG, "Compact kernel, vicinal's settings"),
        ),
        "main_table": main_table(done, PAPER, VARIANTS),
        "causes": causes,
        "step_log_scale": by_set(done, LOG, SCALE),
        "step_log_gaussian": by_set(done, LOG, GAUSSIAN),
        "alone": alone,
        "mostly_background": _mostly_background(done),
        "penalties": penalties(done, LOG),
        "max_iter": MAX_ITER,
        "d": D,
    }


def _mostly_background(done: list[Done]) -> str:
    """Where the backgrounds classify, and not the kernels."""
    shares = {name: mean(done, "beyond 1", data=name, fit=LOG) for name in LARGE}
    most = [f"{name} ({100 * share:.0f} %)" for name, share in shares.items() if share > 0.5]
    if not most:
        return ""
    return (
        " With vicinal's settings most test rows are out of range of every kernel on "
        f"{' and '.join(most)}: the map has grown until the normal distributions of the classes, "
        "and not the kernels, decide."
    )


def claims(done: list[Done]) -> Iterator[Claim]:
    """The figures; and that the compact kernel costs some accuracy."""
    yield from claim(
        "The compact kernel: 89.9, 82.9, 86.4 % by the NCA rule (usps, magic, mnist)",
        thesis_reached(done, PAPER, CS),
        figures(done, CS),
    )
    for fit, scale in ((CS, "a start at RCA's own scale"), (SCALE, "a start of a chosen scale")):
        yield from claim(
            f"The compact kernel is less accurate than the Gaussian one, from {scale}",
            outcome(gaps(done, fit, GAUSSIAN).values(), lambda each: -Gap.sign(each)),
            in_short(gaps(done, fit, GAUSSIAN)),
        )


EXPERIMENTS = (
    Experiment(
        "oneata-table-5.10",
        "The compact kernel on the large sets (Oneață 2011, table 5.10)",
        jobs,
        work,
        parts,
        claims=claims,
    ),
)
