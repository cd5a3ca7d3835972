"""Oneață's compact kernel on the large sets (table 5.10), and why it loses accuracy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reproduce.experiment import Done, Experiment, Job
from reproduce.oneata_common import count_verdicts
from reproduce.oneata_large import (
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
from reproduce.protocol import summary
from reproduce.report import table

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


def report(done: list[Done], folder: Path) -> str:
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

    return f"""The compact kernel loses on rows out of range of all others, which have no posterior
and no gradient. By the NCA rule the thesis's way, done here, is {step(CS, GAUSSIAN)} points from
the same with the Gaussian kernel. A start whose scale the objective chooses gives
{step(SCALE, CS)}; with a background, 500 queries and Adam it is {step(BACK, CS)} from the thesis's
way, and {step(BACK, DEFAULT)} from the Gaussian kernel with vicinal's settings (splits:
{repeats(done)}).
Our run of the thesis's way is below the thesis's own figures, those from a start of a chosen scale
are nearer: its start may have had another scale than RCA's formula gives.

- {count_verdicts("As the thesis", verdicts(done, PAPER, CS))}
- {count_verdicts("Start of a chosen scale", verdicts(done, PAPER, SCALE))}
- {count_verdicts("With background, accuracy objective", verdicts(done, PAPER, BACK))}
- {count_verdicts("With background, log objective", verdicts(done, PAPER, LOG))}
- {count_verdicts("Student's kernel, log objective", verdicts(done, PAPER, STUDENT))}

{main_table(done, PAPER, SHOWN)}

Accuracy in per cent, mean ± standard error over the splits ({repeats(done)}); differences in
standard errors of the difference, **bold** where ours is worse by more than three. Where
there is one split only, ours has no error and the difference knows the paper's alone.

## Why: one thing at a time

{causes}

In points of the NCA rule, paired over the same splits:

- **The tails**: the compact kernel instead of the Gaussian, otherwise as the thesis:
  {step(CS, GAUSSIAN)}.
- **The start**: its scale chosen by the objective instead of by RCA's formula: {step(SCALE, CS)}.
- **The solver and the number of queries**: Adam and 500 instead of SGD and 50: {step(ADAM, SCALE)}.
- **The background**, under the accuracy objective: {step(BACK, ADAM)}.
- **The objective**: log-probability with a penalty: {step(LOG, BACK)}.
- **What is left between the kernels** under vicinal's settings: compact beside Gaussian
  {step(LOG, DEFAULT)}; Student's beside Gaussian {step(STUDENT, DEFAULT)}.

{alone}

A test row out of range of all training rows gets the prior. A training row out of range of its own
class has no gradient under the accuracy objective: nothing pulls it back, and 300 steps of Adam
with nothing held out leave more of them behind than SGD with early stopping. The background gives
both a slope. With it the map may grow until hardly a row is in range of a kernel and the normals of
the classes do all the work (on usps they do): what wins there is no longer the compact kernel.

## Protocol and assumptions

Oneață 2011, table 5.10: stochastic learning as in table 5.7 (50 queries a step, rate η/(t + t0)
with t0 tuned on held-out rows, 5 % held out, patience 25, at most {MAX_ITER} steps) with the
kernel (1 − u²)² up to u = 1, accuracy objective, RCA start, d = {D}; columns standardised (the
thesis does not say). Random splits into 70 % and 30 % for usps and magic, the official one for
mnist. "And 500 queries, Adam" has no penalty and nothing held out, 300 steps; the last three are
`NCA({D}, sampling="stochastic", kernel=...)`. Nothing was chosen by test rows."""


EXPERIMENTS = (
    Experiment(
        "oneata-table-5.10",
        "The compact kernel on the large sets (Oneață 2011, table 5.10)",
        jobs,
        work,
        report,
    ),
)
