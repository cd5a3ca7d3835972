"""Oneață's compact kernel on the large sets (table 5.10), and why it loses accuracy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reproduce.framework.experiment import Claim, Done, Experiment, Job
from reproduce.framework.pages import bullets, table
from reproduce.framework.statistics import summary
from reproduce.oneata.judging import (
    FIGURE,
    SLIGHT,
    SLIGHTLY,
    claim,
    outcome,
    seen_means,
    slight_loss,
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
from reproduce.oneata.stochastic_large import PAPER as PAPER_GAUSSIAN

PAPER = {
    "usps": ((85.16, 0.33), (87.02, 0.44), (89.85, 0.30)),
    "magic": ((76.92, 0.56), (79.09, 0.42), (82.92, 0.36)),
    "mnist": ((80.55, 0.28), (81.96, 0.26), (86.36, 0.18)),
}


CS, GAUSSIAN, SCALE, LOG, SAME = (
    "as the thesis",
    "Gaussian kernel, otherwise as the thesis",
    "start of a chosen scale",
    "compact kernel, vicinal's settings",
    "Gaussian kernel, vicinal's settings",
)


#: what the pages call them, where it is not the name of the job
NAMES = {CS: "as the thesis, RCA's own scale", SCALE: "as the thesis, chosen scale"}


#: the thesis does not name the scale of its start: both are judged
STARTS = {CS: "RCA's own scale", SCALE: "chosen scale"}


#: kernel, objective, start, queries
VARIANTS = {
    CS: ("compact", "accuracy", "RCA, own scale", "50, SGD"),
    GAUSSIAN: ("Gaussian", "accuracy", "RCA, own scale", "50, SGD"),
    SCALE: ("compact", "accuracy", "RCA, chosen scale", "50, SGD"),
    LOG: ("compact, background", "log, penalty", "auto", "500, Adam"),
    SAME: ("Gaussian", "log, penalty", "auto", "500, Adam"),
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
        SAME: {"sampling": many},
    }[fit]
    return fit_and_score(NCA(D, **options, random_state=split), data, split)


def parts(done: list[Done]) -> dict[str, Any]:
    """Finding, table, causes, protocol."""
    rows = []
    for fit, words in VARIANTS.items():
        name = NAMES.get(fit, fit)
        rows.append([name, *words, *(summary(done, "NCA", data=n, fit=fit) for n in LARGE)])
    causes = table(["variant", "kernel", "objective", "start", "queries, solver",
                    *(f"{name}, NCA rule" for name in LARGE)], rows)  # fmt: skip
    compact = (CS, SCALE, LOG)
    alone = table(
        ["test rows out of range, %; f(A) train", *(NAMES.get(fit, fit) for fit in compact)],
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
        "step_scale_gaussian": by_set(done, SCALE, GAUSSIAN),
        "step_cs_gaussian_1_nn": by_set(done, CS, GAUSSIAN, "1-NN"),
        "step_scale_cs": by_set(done, SCALE, CS),
        "repeats": repeats(done),
        "verdicts": bullets(
            judged(done, PAPER, CS, "As the thesis, from RCA's own scale"),
            judged(done, PAPER, SCALE, "As the thesis, from a chosen scale"),
            judged(done, PAPER, LOG, "Compact kernel, vicinal's settings"),
        ),
        "main_table": main_table(done, PAPER, (CS, SCALE, LOG), names=NAMES),
        "causes": causes,
        "step_log_scale": by_set(done, LOG, SCALE),
        "step_log_gaussian": by_set(done, LOG, GAUSSIAN),
        "step_gaussian_same": by_set(done, LOG, SAME),
        "alone": alone,
        "out_of_range": _out_of_range(done),
        "thesis_loss": _thesis_loss(),
        "seen": seen_means(FIGURE, SLIGHTLY),
        "penalties": penalties(done, LOG),
        "max_iter": MAX_ITER,
        "d": D,
    }


def _thesis_loss() -> str:
    """By how many points table 5.10 is below table 5.7, by the NCA rule."""
    return ", ".join(
        f"{PAPER_GAUSSIAN[name][-1][0] - PAPER[name][-1][0]:.1f} on {name}" for name in LARGE
    )


def _out_of_range(done: list[Done]) -> str:
    """Where the backgrounds classify, and not the kernels, and what is lost there."""
    told = []
    for name, lost in gaps(done, LOG, SAME).items():
        share = mean(done, "beyond 1", data=name, fit=LOG)
        if share > 0.5 and lost.points < 0:
            told.append(
                f"On {name} the compact kernel with vicinal's settings loses accuracy against the "
                f"Gaussian kernel with the same settings: {lost} points by the NCA rule. "
                f"There, {100 * share:.0f} % of the test rows are out of range of all training "
                "rows, so the normal distributions of the classes decide, and not the kernels. "
                "The cause is not known yet."
            )
    return "\n\n".join(told)


def claims(done: list[Done]) -> Iterator[Claim]:
    """The figures; and that the compact kernel costs some accuracy; from either start."""
    for fit, start in STARTS.items():
        yield from claim(
            f"The compact kernel reaches or exceeds 89.9, 82.9, 86.4 % by the NCA rule ({start})",
            thesis_reached(done, PAPER, fit),
            figures(done, fit),
        )
    for fit, start in STARTS.items():
        losses = gaps(done, fit, GAUSSIAN)
        yield from claim(
            f"The compact kernel is slightly less accurate than the Gaussian one ({start})",
            outcome(losses.values(), slight_loss(SLIGHT)),
            in_short(losses),
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
