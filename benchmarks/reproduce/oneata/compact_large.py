"""Oneață's compact kernel on the large sets (table 5.10), and why it loses accuracy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reproduce.framework.experiment import Done, Experiment, Job
from reproduce.framework.pages import bullets, table
from reproduce.framework.statistics import summary
from reproduce.oneata.common import count_verdicts
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

PAPER = {
    "usps": ((85.16, 0.33), (87.02, 0.44), (89.85, 0.30)),
    "magic": ((76.92, 0.56), (79.09, 0.42), (82.92, 0.36)),
    "mnist": ((80.55, 0.28), (81.96, 0.26), (86.36, 0.18)),
}


CS, GAUSSIAN, SCALE, ADAM, BACK, LOG, STUDENT, DEFAULT = (
    "as the thesis",
    "Gaussian kernel, otherwise as the thesis",
    "start of a chosen scale",
    "and 500 queries, Adam",
    "and a background",
    "and the log objective with penalty",
    "Student's kernel",
    "Gaussian kernel",
)


#: kernel, objective, start, queries: one thing changes from line to line
VARIANTS = {
    CS: ("compact", "accuracy", "RCA", "50, SGD"),
    GAUSSIAN: ("Gaussian", "accuracy", "RCA", "50, SGD"),
    SCALE: ("compact", "accuracy", "RCA, chosen scale", "50, SGD"),
    ADAM: ("compact", "accuracy", "RCA, chosen scale", "500, Adam"),
    BACK: ("compact, background", "accuracy", "RCA, chosen scale", "500, Adam"),
    LOG: ("compact, background", "log, penalty", "auto", "500, Adam"),
    STUDENT: ("Student", "log, penalty", "auto", "500, Adam"),
    DEFAULT: ("Gaussian", "log, penalty", "auto", "500, Adam"),
}


SHOWN = (CS, BACK, LOG, STUDENT)


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
    adam = {"objective": "accuracy", "alpha": 0.0, "init": "rca", "sampling": many}
    alone = Compact(background=False)
    options: dict[str, Any] = {
        CS: {**thesis, "kernel": alone},
        GAUSSIAN: thesis,
        SCALE: {**thesis, "kernel": alone, "init": "rca"},
        ADAM: {**adam, "kernel": alone},
        BACK: {**adam, "kernel": Compact()},
        LOG: {"sampling": many, "kernel": "compact"},
        STUDENT: {"sampling": many, "kernel": "student"},
        DEFAULT: {"sampling": many},
    }[fit]
    return fit_and_score(NCA(D, **options, random_state=split), data, split)


def parts(done: list[Done]) -> dict[str, Any]:
    """Finding, table, causes, protocol."""
    rows = []
    for fit, words in VARIANTS.items():
        rows.append([fit, *words, *(summary(done, "NCA", data=n, fit=fit) for n in LARGE)])
    causes = table(["variant", "kernel", "objective", "start", "queries, solver",
                    *(f"{name}, NCA rule" for name in LARGE)], rows)  # fmt: skip
    compact = (CS, SCALE, ADAM, BACK, LOG)
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

    def step(first: str, second: str) -> str:
        return by_set(done, first, second)

    return {
        "step_cs_gaussian": step(CS, GAUSSIAN),
        "step_scale_cs": step(SCALE, CS),
        "step_back_cs": step(BACK, CS),
        "step_back_default": step(BACK, DEFAULT),
        "repeats": repeats(done),
        "verdicts": bullets(
            count_verdicts("As the thesis", verdicts(done, PAPER, CS)),
            count_verdicts("Start of a chosen scale", verdicts(done, PAPER, SCALE)),
            count_verdicts("With background, accuracy objective", verdicts(done, PAPER, BACK)),
            count_verdicts("With background, log objective", verdicts(done, PAPER, LOG)),
            count_verdicts("Student's kernel, log objective", verdicts(done, PAPER, STUDENT)),
        ),
        "main_table": main_table(done, PAPER, SHOWN),
        "causes": causes,
        "step_adam_scale": step(ADAM, SCALE),
        "step_back_adam": step(BACK, ADAM),
        "step_log_back": step(LOG, BACK),
        "step_log_default": step(LOG, DEFAULT),
        "step_student_default": step(STUDENT, DEFAULT),
        "alone": alone,
        "max_iter": MAX_ITER,
        "d": D,
    }


EXPERIMENTS = (
    Experiment(
        "oneata-table-5.10",
        "The compact kernel on the large sets (Oneață 2011, table 5.10)",
        jobs,
        work,
        parts,
    ),
)
