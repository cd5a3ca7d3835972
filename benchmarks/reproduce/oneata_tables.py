"""Oneață's standard NCA on small sets (table 5.2)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from reproduce import protocol
from reproduce.experiment import Done, Experiment, Job
from reproduce.oneata_common import (
    PLAIN,
    count_verdicts,
    flatten,
    leave_one_out,
    of,
    random_start,
    rank,
    scores,
)
from reproduce.protocol import knn, rows_70_30, summary
from reproduce.report import Published, table, verdict

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
UNIT, SMALL, CHOSEN, *_ = VARIANTS
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
    n_components = rank(data, d)
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
        results[name]["neighbours"] = model.mean_effective_n_neighbors_
        results[name]["start"] = -model.objective_
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


def plain_exponentials(A: Any, X: Any, y: Any, train: Any, test: Any) -> dict[str, float]:
    """Scores of a map by the thesis's listing A.1: exp(-d²) as it is, and p = max(p, eps).

    A row whose exponentials all vanish has p = eps, and as a test row goes to class number 1, taken
    to be the one that comes first in the file.
    """
    from scipy.spatial.distance import cdist

    Z, Z_test = X[train] @ A.T, X[test] @ A.T
    K = np.exp(-cdist(Z, Z, "sqeuclidean"))
    np.fill_diagonal(K, 0.0)
    alive = K.sum(axis=1) > 0
    p = np.divide(
        (K * (y[train][:, None] == y[train])).sum(axis=1), K.sum(axis=1),
        out=np.zeros(len(K)), where=alive,
    )  # fmt: skip
    order = y[np.sort(np.unique(y, return_index=True)[1])]
    K = np.exp(-cdist(Z_test, Z, "sqeuclidean"))
    mass = np.stack([K[:, y[train] == label].sum(axis=1) for label in order], axis=1)
    return {
        "train": float(p.mean()),
        "1-NN": knn(Z, y[train], Z_test, y[test]),
        "NCA": float(np.mean(order[mass.argmax(axis=1)] == y[test])),
        "vanished": float(1.0 - alive.mean()),
    }


def nca_report(done: list[Done], folder: Path) -> str:
    """Finding, table beside the paper, baselines, variants, protocol."""
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

    def verdicts(variant: str, rules: tuple[str, ...] = RULES[1:]) -> str:
        pairs = [
            (
                f"{n} d = {rank(n, d)} {rule}",
                of(done, variant, rule, data=n, d=d),
                cells[n, d, rule],
            )
            for n, d, rule in cells
            if rule in rules
        ]
        return count_verdicts(f"Test scores, {variant}", pairs)

    head = ["data", "d", "score", "paper"]
    main = table(
        [*head, "ours, plain NCA", "difference", "vicinal's defaults", "difference"],
        [row(*cell, (UNIT, DEFAULTS)) for cell in cells],
    )
    others = tuple(v for v in VARIANTS if v != UNIT)
    more = table(
        [*head, *(word for v in others for word in (v, "difference"))],
        [row(*cell, others) for cell in cells],
    )
    ways = [f"{s}, {r}" for s in ("raw", "standardised") for r in ("whole set", "training rows")]
    baseline = table(
        ["data", "paper", *ways],
        [
            [name, paper, *(summary(done, way, data=name) for way in ways)]
            for name, paper in EUCLIDEAN.items()
        ],
    )
    return f"""{verdicts(DEFAULTS)}

{verdicts(UNIT)}

{main}

Accuracy in per cent, mean ± standard error over the splits; differences in standard errors of the
difference, **bold** where ours is worse by more than three. "Plain NCA" is the protocol of the
paper (below); "vicinal's defaults" is `NCA(n_components=d)`: log objective, penalty, shrunk RCA
start, L-BFGS. The defaults do not maximise f, so their train score is for information only.

## The scale of the start decides

{more}

{verdicts(others[0])} {verdicts(others[1])} {verdicts(others[2])}

Nothing but the columns' scaling and the size of the random start differs between these columns and
"plain NCA". "Small start" is `A = 0.01 randn(d, D)`, which section 3.3.3 of the thesis cites; "chosen
scale" is `NCA(init="random", objective="accuracy")`, where vicinal picks the multiple of the start
with the lowest loss on a grid. For a random projection and the accuracy objective that is a large
one: every row then sees its nearest neighbour only, the gradient is all but gone, and conjugate
gradients stop after a few steps with a train score far below what a small start reaches. A small
start first sees all rows and sharpens as it learns. The wine columns span three orders of
magnitude, so that neither start works on them raw.

The one row where the thesis is far *below* everybody is ionosphere at full rank: its f(A) of 72 %
and rule of 73 % beside a 1-NN of 86 % are those of a map whose scale has hardly grown, a solver
that stopped early.

## Raw or standardised: the Euclidean baseline

{baseline}

Leave-one-out 1-NN; "training rows" is the mean over the splits. The paper's 74.53 on wine can only
be raw (standardised: 95), and none of its figures is a whole number of rows: the raw baseline on
the training rows, averaged over the runs, fits iris, wine and ionosphere. On balance, a grid of
integers, most rows have several nearest neighbours, and the order of the file decides.
The baseline says nothing about how NCA itself was fed. The raw wine columns of the variants stay
below the paper's NCA (d = 2: {of(done, "raw, small start", "1-NN", data="wine", d="2")} with a
small start), standardised ones do not; section 3.3.3 of the thesis recommends standardised columns.
Hence the choice of the first table.

## Protocol and assumptions

Oneață 2011, table 5.2. Accuracy objective, no penalty, `solver="cg"`, at most 500 iterations, 40
random splits into 70 % and 30 %, not stratified. Not said in the paper and assumed: columns
standardised by the training rows, start `0.01 randn(d, D)`. Both solvers' stopping rules
differ: the thesis used `minimize.m` with a number of line searches that it does not give.
No variant was chosen by its test score; all that were tried are shown."""


EXPERIMENTS = (
    Experiment(
        "oneata-table-5.2",
        "Standard NCA on four small sets (Oneață 2011, table 5.2)",
        nca_jobs,
        nca_work,
        nca_report,
    ),
)
