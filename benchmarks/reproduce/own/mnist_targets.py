"""What vicinal reaches on mnist, usps and magic, and in which time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from reproduce.framework import protocol
from reproduce.framework.experiment import Done, Experiment, Job
from reproduce.framework.pages import table
from reproduce.framework.protocol import knn
from reproduce.framework.statistics import Summary, summary
from reproduce.oneata.large import large, mean, shown
from vicinal.samplers import MiniBatches, StochasticQueries

#: for pixels, which share a unit: one scale for all, and a start that does not favour rare ones
PIXELS: dict[str, Any] = {"scaling": "global", "init": "pca", "alpha": 1e-3}


#: way: parameters of NCA
WAYS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "pixels": PIXELS,
    "pixels, exact": {**PIXELS, "sampling": "full", "max_iter": 30},
    "pixels, batches then exact": {**PIXELS, "then": {"sampling": "full", "max_iter": 15}},
    "pixels, alpha scaled, batches then exact": {
        **PIXELS,
        "alpha": "scaled",
        "then": {"sampling": "full", "max_iter": 15},
    },
    "alpha scaled": {"alpha": "scaled"},
    "stochastic": {"sampling": "stochastic"},
}


#: test accuracy to be reached
TARGETS = {("mnist", 5): 91.5, ("mnist", 10): 95.7, ("mnist", 32): 96.9, ("usps", 5): 92.7,
           ("magic", 5): 84.5}  # fmt: skip


ROWS = (
    ("mnist", 5, "pixels"),
    ("mnist", 5, "pixels, exact"),
    ("mnist", 5, "pixels, alpha scaled, batches then exact"),
    ("mnist", 10, "pixels"),
    ("mnist", 32, "pixels"),
    ("mnist", 5, "defaults"),
    ("mnist", 5, "alpha scaled"),
    ("mnist", 5, "stochastic"),
    ("mnist", 10, "defaults"),
    ("mnist", 32, "defaults"),
    ("usps", 5, "defaults"),
    ("usps", 5, "alpha scaled"),
    ("magic", 5, "defaults"),
)


#: what was compared on held-out training rows of mnist: parameters beside d = 5
HELD_OUT: dict[str, dict[str, Any]] = {
    "defaults": {},
    "600 steps": {"max_iter": 600},
    "alpha = 0.01": {"alpha": 1e-2},
    "alpha scaled": {"alpha": "scaled"},
    "global scaling": {"scaling": "global"},
    "global scaling, alpha = 0.001": {"scaling": "global", "alpha": 1e-3},
    "global scaling, alpha = 0.01": {"scaling": "global", "alpha": 1e-2},
    "global scaling, alpha = 0.0001": {"scaling": "global", "alpha": 1e-4},
    "pixels": PIXELS,
    "pixels, stochastic": {**PIXELS, "sampling": StochasticQueries(1000), "max_iter": 120},
    "pixels, stochastic, 240 steps of 500": {
        **PIXELS,
        "sampling": StochasticQueries(500),
        "max_iter": 240,
    },
    "pixels, exact": {**PIXELS, "sampling": "full", "max_iter": 30},
    "pixels, batches then exact": {**PIXELS, "then": {"sampling": "full", "max_iter": 15}},
    "pixels, alpha scaled, batches then exact": {
        **PIXELS,
        "alpha": "scaled",
        "then": {"sampling": "full", "max_iter": 15},
    },
    "batches of 6,000": {"sampling": MiniBatches(6000, clusters="random")},
    "600 steps, alpha = 0.03": {"max_iter": 600, "alpha": 3e-2},
}


K = 15


def jobs(splits: int | None) -> Iterator[Job]:
    """The fits to test rows, one run each on mnist; then those to held-out rows."""
    for split in range(splits or 10):
        for data, d, way in ROWS:
            if data != "mnist" or split == 0:
                yield {"data": data, "split": split, "d": d, "way": way, "kind": "test"}
    for way in HELD_OUT:
        yield {"data": "mnist", "split": 0, "d": 5, "way": way, "kind": "held out"}


def work(data: str, split: int, d: int, way: str, kind: str) -> dict[str, Any]:
    """Scores by the NCA rule and by k-NN, and the time of the fit."""
    from vicinal import NCA

    X, y, train, test = large(data, split)
    if kind == "held out":
        train, test = protocol.stratified(y, split, train)
        options = HELD_OUT[way]
    else:
        options = WAYS[way]
        # compiled code is part of an installation, not of a fit
        first = {key: value for key, value in options.items() if key != "then"}
        NCA(d, **{**first, "max_iter": 1}, random_state=0).fit(X[train[:4000]], y[train[:4000]])
    X_train, y_train, X_test = X[train], y[train], X[test]
    options = dict(options)
    then = options.pop("then", None)
    wall, core = time.perf_counter(), time.process_time()
    model = NCA(d, **options, random_state=split, warm_start=then is not None)
    model.fit(X_train, y_train)
    if then is not None:  # from the map that batches have found
        model.set_params(**then).fit(X_train, y_train)
    wall, core = time.perf_counter() - wall, time.process_time() - core
    Z = model.transform(X_train)
    return {
        "rule": float(model.score(X_test, y[test])),
        "k-NN": knn(Z, y_train, model.transform(X_test), y[test], K),
        "seconds": wall,
        "core seconds": core,
        "iterations": float(model.n_iter_),
        "evaluations": float(model.history_["n_evaluations"][-1]),
        "plan": str(model.plan_),
    }


def parts(done: list[Done]) -> dict[str, Any]:
    """Finding, table, what was chosen on held-out rows, protocol."""
    test = [each for each in done if each.job["kind"] == "test"]

    def scores(data: str, d: int, way: str, key: str) -> Summary | None:
        return summary(test, key, data=data, d=d, way=way)

    def row(data: str, d: int, way: str) -> list[Any]:
        where = {"data": data, "d": d, "way": way}
        took = mean(test, "seconds", **where), mean(test, "core seconds", **where)
        return [
            data, d, way, f"{TARGETS[data, d]:g}",
            *(_reached(scores(data, d, way, key), TARGETS[data, d]) for key in ("rule", "k-NN")),
            *(shown(f"{t:.1f}") for t in took), shown(f"{mean(test, 'iterations', **where):.0f}"),
            shown(f"{mean(test, 'evaluations', **where):.0f}"),
        ]  # fmt: skip

    main = table(
        ["data", "d", "way", "target", "NCA rule", f"{K}-NN", "seconds", "core seconds",
         "iterations", "evaluations"],
        [row(*each) for each in ROWS],
    )  # fmt: skip
    held = [each for each in done if each.job["kind"] == "held out"]
    choice = table(
        ["way", "NCA rule", f"{K}-NN", "core seconds"],
        [
            [way, *(summary(held, key, way=way) for key in ("rule", "k-NN")),
             shown(f"{mean(held, 'core seconds', way=way):.0f}")]
            for way in HELD_OUT
        ],
    )  # fmt: skip
    plans = "\n".join(
        f"- {data}, d = {d}, {way}: {_plan(test, data, d, way)}" for data, d, way in ROWS
    )
    return {
        "finding": _finding(test),
        "main": main,
        "splits": _splits(test),
        "busy": _busy(test),
        "plans": plans,
        "choice": choice,
    }


def _busy(test: list[Done]) -> str:
    """Whether the clock can be believed."""
    ratios = [2 * each.result["seconds"] / each.result["core seconds"] for each in test]
    if not ratios or np.median(ratios) < 1.5:
        return "The machine was idle otherwise."
    return (
        f"The machine had other work to do: the clock shows {np.median(ratios):.0f} times that, "
        "and says\nnothing of the speed of a fit."
    )


def _reached(ours: Summary | None, target: float) -> str:
    if ours is None:
        return ""
    return f"**{ours}**" if ours.mean >= target - 1e-9 else str(ours)


def _plan(test: list[Done], data: str, d: int, way: str) -> str:
    where = {"data": data, "d": d, "way": way}
    plans = [each.result["plan"] for each in test if where.items() <= each.job.items()]
    return plans[0] if plans else "not run yet"


def _splits(test: list[Done]) -> int:
    return len({each.job["split"] for each in test})


def _finding(test: list[Done]) -> str:
    """Which targets are reached by the rule, and what the fits to mnist take."""
    reached, missed = [], []
    for data, d, way in ROWS:
        ours, target = summary(test, "rule", data=data, d=d, way=way), TARGETS[data, d]
        if ours is not None:
            name = f"{data} at d = {d} ({way}: {ours} %)"
            (reached if ours.mean >= target else missed).append(name)
    times = []
    for way in ("pixels", "pixels, alpha scaled, batches then exact", "defaults", "stochastic"):
        core = mean(test, "core seconds", data="mnist", d=5, way=way)
        if np.isfinite(core):
            times.append(f"{core:.0f} core seconds ({way})")
    return (
        f"By the NCA rule the targets are reached on {', '.join(reached) or 'none'}"
        + (f"; and missed on {', '.join(missed)}" if missed else "")
        + f". A fit to mnist at d = 5 takes {', '.join(times)}."
    )


EXPERIMENTS = (
    Experiment(
        "mnist-targets",
        "The targets: mnist, usps and magic by the default, exact and stochastic paths",
        jobs,
        work,
        parts,
        threads=None,
    ),
)
