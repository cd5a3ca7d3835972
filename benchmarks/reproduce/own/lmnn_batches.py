"""LMNN on batches against LMNN on all rows: core seconds and held-out error on digits of mnist."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import train_test_split

from reproduce.framework import protocol
from reproduce.framework.experiment import Claim, Done, Experiment, Job
from reproduce.framework.pages import table
from reproduce.framework.statistics import Summary, summary
from reproduce.oneata.judging import Gap, gap

#: rows that are split three to one into those learnt from and those scored
ROWS = (10_000, 40_000)
SPLITS = 5
ALL, BATCHES, CLUSTERS = "LMNN, all rows", "LMNN, batches of 1,000", "LMNN, clusters of 1,000"
#: iterations of LMNN on all rows at most, its default
MAX_ITER = 200
METHODS = (
    ALL,
    "LMNN, batches of 500",
    BATCHES,
    "LMNN, batches of 2,000",
    CLUSTERS,
    "LMNN, 250 queries against all",
    "NCA, batches of 3,000",
)


def jobs(splits: int | None) -> Iterator[Job]:
    """One fit a job."""
    for split, n, method in product(range(splits or SPLITS), ROWS, METHODS):
        yield {"data": "mnist", "rows": n, "method": method, "split": split}


def work(data: str, rows: int, method: str, split: int) -> dict[str, Any]:
    """Held-out accuracy, core seconds, steps and loss of one fit to training rows."""
    X, y = protocol.data(data)
    train, _ = protocol.official(data)
    some = np.random.RandomState(split).permutation(train)[:rows]
    learn, judge = train_test_split(some, test_size=0.25, stratify=y[some], random_state=split)
    X_learn, X_judge = (X[each].astype(np.float32) / 255 for each in (learn, judge))
    model = _model(method).set_params(random_state=split)
    few = slice(0, 5000)  # more than 4,000 rows, from which on a start is learnt: compiles
    clone(model).set_params(max_iter=1).fit(X_learn[few], y[learn][few])
    began = time.process_time()
    model.fit(X_learn, y[learn])
    return {
        "core seconds": time.process_time() - began,
        "accuracy": float(model.score(X_judge, y[judge])),
        "loss": float(model.loss_),
        "iterations": int(model.n_iter_),
    }


def _model(method: str) -> Any:
    from vicinal import LMNN, NCA
    from vicinal.samplers import MiniBatches, StochasticQueries

    samplers = {
        ALL: "full",
        "LMNN, batches of 500": MiniBatches(500, "random"),
        BATCHES: MiniBatches(1000, "random"),
        "LMNN, batches of 2,000": MiniBatches(2000, "random"),
        CLUSTERS: MiniBatches(1000),
        "LMNN, 250 queries against all": StochasticQueries(250),
    }
    if method in samplers:
        return LMNN(sampling=samplers[method])
    return NCA(alpha=3e-3, sampling=MiniBatches(3000, "random"))


def parts(done: list[Done]) -> dict[str, Any]:
    """Errors and core seconds of each method, and what batches of 1,000 cost and lose."""
    rows = []
    for n, method in product(ROWS, METHODS):
        if found := summary(done, "accuracy", rows=n, method=method):
            error = f"{100 - found.mean:.2f} ± {found.error:.2f}"
            ours = [each.result for each in done if _is(each, n, method)]
            means = {key: np.mean([each[key] for each in ours]) for key in ours[0]}
            loss = f"{means['loss']:.2f}" if method.startswith("LMNN") else ""
            seconds = f"{means['core seconds']:.1f}"
            iterations = f"{means['iterations']:.0f}"
            more = None if method == ALL else _more_errors(done, n, method)
            rows.append([f"{_learnt(n):,}", method, seconds, iterations, loss, error, more])
    head = ["rows", "method", "core s", "iterations", "loss", "error, %", "− all rows"]
    return {
        "finding": "\n".join(_findings(done)),
        "limits": _limits(done),
        "clusters": _told(done, ROWS[1], CLUSTERS),
        "table": table(head, rows),
        "few": _told(done, ROWS[0]),
        "many": _told(done, ROWS[1]),
        "n_splits": len({each.job["split"] for each in done}),
    }


def _is(each: Done, n: int, method: str) -> bool:
    return (each.job["rows"], each.job["method"]) == (n, method)


def _learnt(n: int) -> int:
    """How many rows are learnt from."""
    return 3 * n // 4


def _more_errors(done: list[Done], n: int, method: str) -> Gap | None:
    """By how many points the error is above that of LMNN on all rows."""
    return gap(done, ALL, method, "accuracy", key="method", tested=0.25, rows=n)


def _share(done: list[Done], n: int, method: str) -> Summary | None:
    """Core seconds of a method as a share of those of all rows, split by split, in per cent."""
    by_split: dict[int, dict[str, float]] = {}
    for each in done:
        if each.job["rows"] == n:
            seconds = each.result["core seconds"]
            by_split.setdefault(each.job["split"], {})[each.job["method"]] = seconds
    shares = [s[method] / s[ALL] for s in by_split.values() if method in s and ALL in s]
    return Summary(shares) if shares else None


def _told(done: list[Done], n: int, method: str = BATCHES) -> str:
    """What batches cost and lose, for a sentence."""
    share, more = _share(done, n, method), _more_errors(done, n, method)
    if share is None or more is None:
        return "(not run yet)"
    return f"{share:.1f} % of the core seconds for {more} points of error"


def _findings(done: list[Done]) -> Iterator[str]:
    yield "Batches of 1,000 rows against all rows, with the default rate of the solver:"
    yield ""
    for n, (method, words) in product(ROWS, {BATCHES: "random", CLUSTERS: "clustered"}.items()):
        yield f"- {_learnt(n):,} rows, {words} batches: {_told(done, n, method)}."


def _limits(done: list[Done]) -> str:
    """How many fits to all rows were cut off."""
    told = []
    for n in ROWS:
        ends = [each.result["iterations"] for each in done if _is(each, n, ALL)]
        if ends:
            cut = sum(end >= MAX_ITER for end in ends)
            told.append(f"{cut} of {len(ends)} to {_learnt(n):,} rows")
    return " and ".join(told)


def claims(done: list[Done]) -> Iterator[Claim]:
    """What batches cost and lose."""
    for n in ROWS:
        if _share(done, n, BATCHES) is not None:
            says = f"LMNN on batches of 1,000 against all of {_learnt(n):,} rows of mnist"
            yield Claim(says, "answer", _told(done, n))


EXPERIMENTS = (
    Experiment(
        "lmnn-batches",
        "LMNN on batches against LMNN on all rows",
        jobs,
        work,
        parts,
        claims=claims,
    ),
)
