"""Oneață's standard NCA on small sets (table 5.2)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from reproduce.framework import protocol
from reproduce.framework.experiment import Claim, Done, Experiment, Job
from reproduce.framework.pages import bullets, table
from reproduce.framework.protocol import rows_70_30
from reproduce.framework.statistics import distance, summary, verdict
from reproduce.oneata.common import (
    PLAIN,
    Published,
    count_verdicts,
    flatten,
    leave_one_out,
    of,
    plain_exponentials,
    random_start,
    rank,
    scores,
)
from reproduce.oneata.judging import APART, reach

#: table 5.2: train score, 1-NN, NCA rule
NCA_SCORES = {
    ("balance", "2"): ((92.86, 0.47), (90.78, 0.53), (90.61, 0.55)),
    ("balance", "D"): ((95.36, 0.38), (93.40, 0.47), (93.04, 0.51)),
    ("ionosphere", "2"): ((98.31, 0.14), (79.86, 0.75), (79.74, 0.78)),
    ("ionosphere", "D"): ((72.07, 0.71), (86.22, 0.64), (72.87, 0.71)),
    ("iris", "2"): ((99.38, 0.11), (94.94, 0.39), (94.72, 0.39)),
    ("iris", "D"): ((99.48, 0.10), (95.10, 0.44), (95.15, 0.44)),
    ("wine", "2"): ((99.15, 0.14), (92.4, 1.0), (92.4, 1.0)),
    ("wine", "D"): ((98.95, 0.15), (95.36, 0.51), (95.36, 0.51)),
}


EUCLIDEAN = {"balance": 76.18, "ionosphere": 85.38, "iris": 95.53, "wine": 74.53}


RULES = ("train", "1-NN", "NCA")


#: variants of table 5.2: scaling of the columns and size of the start (None: vicinal chooses it)
VARIANTS = {
    "standardised, unit start": ("standard", 1.0),
    "standardised, small start": ("standard", 0.01),
    "standardised, chosen scale": ("standard", None),
    "raw, small start": (None, 0.01),
    "raw, chosen scale": (None, None),
}


UNIT, SMALL, CHOSEN, _, RAW = VARIANTS


DEFAULTS = "defaults"


def nca_jobs(splits: int | None) -> Iterator[Job]:
    """Split by split, so that what is done when stopped covers all rows."""
    for split, (name, d) in product(range(splits or 40), NCA_SCORES):
        yield {"data": name, "split": split, "d": d}


def nca_work(data: str, split: int, d: str) -> dict[str, Any]:
    """All variants, vicinal's defaults, and the Euclidean baselines on one split."""
    from vicinal import NCA

    X, y = protocol.data(data)
    train, test = rows_70_30(len(y), split)
    n_components = X.shape[1] if d == "D" else int(d)
    results = {}
    for name, (scaling, size) in VARIANTS.items():
        start: Any = "random"
        if size is not None:
            start = random_start(X[train], n_components, split, size, scaling)
        model = NCA(
            n_components, **PLAIN | {"scaling": scaling},
            init=start, solver="cg", max_iter=500, random_state=split,
        )  # fmt: skip
        results[name] = scores(model.fit(X[train], y[train]), X, y, train, test)
        # any gradient is below this tolerance: the map is the start
        model.set_params(tol=1e6).fit(X[train], y[train])
        results[name]["neighbours"] = model.effective_n_neighbors().mean()
        results[name]["start"] = -model.loss_
    model = NCA(n_components, random_state=split).fit(X[train], y[train])
    results[DEFAULTS] = scores(model, X, y, train, test)
    start = random_start(X[train], n_components, split, 1.0)
    results["plain exponentials"] = plain_exponentials(start, X, y, train, test)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    return flatten(results) | {
        "raw, whole set": leave_one_out(X, y),
        "raw, training rows": leave_one_out(X[train], y[train]),
        "standardised, whole set": leave_one_out(Z, y),
        "standardised, training rows": leave_one_out(Z[train], y[train]),
    }


def nca_parts(done: list[Done]) -> dict[str, Any]:
    """Finding, table against the paper, baselines, variants, protocol."""
    cells = {
        (name, d, rule): Published(*figures[RULES.index(rule)])
        for (name, d), figures in NCA_SCORES.items()
        for rule in RULES
    }

    def row(name: str, d: str, rule: str, variants: tuple[str, ...]) -> Iterator[Any]:
        paper = cells[name, d, rule]
        yield from (name, rank(name, d), "f(A), train" if rule == "train" else rule, paper)
        for variant in variants:
            ours = of(done, variant, rule, data=name, d=d)
            yield from (ours, verdict(ours, paper))

    def verdicts(variant: str, words: str | None = None) -> str:
        pairs = [
            (f"{n} d = {rank(n, d)} {rule}", of(done, variant, rule, data=n, d=d), paper)
            for (n, d, rule), paper in cells.items()
            if rule != "train"
        ]
        return count_verdicts(words or variant, pairs)

    head = ["data", "d", "score", "paper"]
    main = table(
        [
            *head,
            "ours, `randn` start",
            "difference",
            "ours, vicinal's random start",
            "difference",
            "vicinal's defaults",
            "difference",
        ],
        [row(*cell, (UNIT, CHOSEN, DEFAULTS)) for cell in cells],
    )
    others = tuple(v for v in VARIANTS if v not in (UNIT, CHOSEN))
    more = table(
        [*head, *(word for v in others for word in (v, "difference"))],
        [row(*cell, others) for cell in cells],
    )
    tests = RULES[1:]
    others_verdicts = "\n".join(f"- {verdicts(variant)}" for variant in others)
    return {
        "finding": _finding(done),
        "verdicts": bullets(
            verdicts(UNIT, "Plain NCA, the protocol of the paper"),
            verdicts(CHOSEN, "Plain NCA from vicinal's random start"),
            verdicts(DEFAULTS, "vicinal's defaults"),
        ),
        "main": main,
        "low_train": _low_train(done),
        **_start_table(done),
        "more": more,
        "others_verdicts": others_verdicts,
        "neighbour_table": _neighbour_table(done),
        "caught": _caught(done),
        "baseline_table": _baseline_table(done),
        "nearest": _nearest(done),
        "raw_misses": ", ".join(_off(done, RAW, tests, above=False)) or "no row",
        "splits": len({each.job["split"] for each in done}),
    }


def _off(done: list[Done], variant: str, rules: tuple[str, ...], *, above: bool) -> list[str]:
    """Rows with a score more than three standard errors below the paper's, or on either side."""
    found = []
    for (name, d), figures in NCA_SCORES.items():
        for rule, paper in zip(RULES, figures, strict=True):
            ours = of(done, variant, rule, data=name, d=d)
            z = distance(ours, Published(*paper)) if ours and rule in rules else 0.0
            if z < -3.0 or (above and z > 3.0):
                found.append(f"{name} at {'full rank' if d == 'D' else f'd = {d}'}")
    return list(dict.fromkeys(found))


def _finding(done: list[Done]) -> str:
    """On which rows the test scores are the thesis's, or better."""
    tests = RULES[1:]
    off = _off(done, UNIT, tests, above=True)
    text = (
        "Standard NCA from the start that the thesis seems to have used gives its test figures, "
        "within three standard errors, on "
        + (f"all rows but {', '.join(off)}" if off else "all rows")
    )
    if off == ["ionosphere at full rank"]:
        text += ", where the thesis's own figures look like those of its start (see below)"
    for variant, words in (
        (CHOSEN, "From a random start of the scale that vicinal chooses"),
        (DEFAULTS, "With vicinal's defaults"),
    ):
        below = _off(done, variant, tests, above=False)
        text += f". {words} it is level or better on " + (
            f"every row but {', '.join(below)}" if below else "every row"
        )
    return f"{text}."


def _low_train(done: list[Done]) -> str:
    """Train scores of plain NCA that are below the paper's."""
    words = []
    for (name, d), figures in NCA_SCORES.items():
        ours, paper = of(done, UNIT, "train", data=name, d=d), Published(*figures[0])
        if ours and (z := distance(ours, paper)) < -3.0:
            words.append(f"{name} d = {rank(name, d)} ({z:+.1f})")
    return (
        "Train scores of plain NCA from the `randn`\nstart that are more than three standard "
        f"errors below: {', '.join(words) or 'none'}; see [details](oneata-table-5.2-details.md)."
    )


def _start_table(done: list[Done]) -> dict[str, Any]:
    where = {"data": "ionosphere", "d": "D"}
    papers = [Published(*figures) for figures in NCA_SCORES["ionosphere", "D"]]
    rows: list[list[Any]] = [["paper, after learning", *papers]]
    names = {
        "plain exponentials": "`randn` start, plain exponentials",
        UNIT: "`randn` start, after learning here",
    }
    for variant, words in names.items():
        ours = [of(done, variant, rule, **where) for rule in RULES]
        told = [verdict(mine, paper) for mine, paper in zip(ours, papers, strict=True)]
        rows.append([words, *(f"{mine} ({told})" for mine, told in zip(ours, told, strict=True))])
    vanished = of(done, "plain exponentials", "vanished", **where)
    return {
        "table": table(["ionosphere, d = 33", "f(A), train", "1-NN", "NCA rule"], rows),
        "vanished": vanished,
    }


def _caught(done: list[Done]) -> str:
    """On how many rows the chosen scale ends with a higher train score than the other two."""
    higher = {}
    for other in (UNIT, SMALL):
        pairs = [
            [of(done, variant, "train", data=name, d=d) for variant in (CHOSEN, other)]
            for name, d in NCA_SCORES
        ]
        higher[other] = sum(chosen.mean > start.mean for chosen, start in pairs if chosen and start)
    return (
        f"Of {len(NCA_SCORES)} rows its train score ends higher than that from `randn` on "
        f"{higher[UNIT]}, and than that from the small start on {higher[SMALL]}."
    )


def _neighbour_table(done: list[Done]) -> str:
    def cell(variant: str, name: str, d: str) -> str:
        def mean(key: str) -> float:
            found = [e.result[f"{variant}: {key}"] for e in done
                     if (e.job["data"], e.job["d"]) == (name, d)]  # fmt: skip
            return float(np.mean(found)) if found else float("nan")

        return f"{mean('neighbours'):.1f}; {100 * mean('start'):.1f} → {100 * mean('train'):.1f}"

    return table(
        [
            "effective neighbours at the start; f(A) before → after",
            *(name.replace("unit start", "`randn` start") for name in VARIANTS),
        ],
        [
            [f"{name}, d = {rank(name, d)}", *(cell(variant, name, d) for variant in VARIANTS)]
            for name, d in NCA_SCORES
        ],
    )


#: columns and rows of the Euclidean baseline
WAYS = [f"{s}, {r}" for s in ("raw", "standardised") for r in ("whole set", "training rows")]


def _baseline_table(done: list[Done]) -> str:
    return table(
        ["data", "paper", *WAYS],
        [
            [name, paper, *(summary(done, way, data=name) for way in WAYS)]
            for name, paper in EUCLIDEAN.items()
        ],
    )


def _nearest(done: list[Done]) -> str:
    """Which baseline comes nearest to the paper's, set by set, and how far off it is."""
    told = []
    for name, paper in EUCLIDEAN.items():
        found = {way: summary(done, way, data=name) for way in WAYS}
        known = {way: ours.mean - paper for way, ours in found.items() if ours is not None}
        if known:
            least = min(abs(apart) for apart in known.values())
            ways = [way for way, apart in known.items() if abs(apart) < least + 5e-3]
            told.append(f"{name}: {' or '.join(ways)} ({known[ways[0]]:+.1f} points)")
    return "; ".join(told) or "(not run yet)"


def nca_claims(done: list[Done]) -> Iterator[Claim]:
    """The test scores of the table."""
    for variant, says in (
        (
            UNIT,
            "The test scores of standard NCA reach or exceed those of table 5.2, four small sets",
        ),
        (
            DEFAULTS,
            "How many test scores of `NCA()` reach those of standard NCA (Oneață, table 5.2)?",
        ),
    ):
        low = high = known = 0
        for (name, d), figures in NCA_SCORES.items():
            for rule, paper in zip(RULES[1:], figures[1:], strict=True):
                ours = of(done, variant, rule, data=name, d=d)
                if ours is not None:
                    known += 1
                    apart = distance(ours, Published(*paper))
                    low, high = low + (apart < -APART), high + (apart > APART)
        if known:
            told = "not seen" if low == known else "partly" if low else "seen"
            yield Claim(says, told if variant == UNIT else "answer", reach(known, low, high))


EXPERIMENTS = (
    Experiment(
        "oneata-table-5.2",
        "Standard NCA on four small sets (Oneață 2011, table 5.2)",
        nca_jobs,
        nca_work,
        nca_parts,
        claims=nca_claims,
    ),
)
