"""The cost of one evaluation as the rows grow in number, and the memory of whole fits."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from reproduce.framework.experiment import Experiment, Job
from reproduce.framework.machine import cores_and_others
from reproduce.own.growth_report import FITS, PATHS, claims, draw, parts

SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000)


COLUMNS = 50


SIDE = 6  # classes along either side of the sheet


NEIGHBOURS = 8.0  # effective ones of a row


LARGEST = SIZES[-1]


REPEATS = {10_000: 5, 30_000: 4, 100_000: 2, 300_000: 2, 1_000_000: 2}


def jobs(splits: int | None) -> Iterator[Job]:
    """One evaluation of each path at each size, then fits at the largest."""
    for n, path, d in product(SIZES, PATHS, (2, 3)):
        # the largest takes too long in three dimensions, and by trees
        if n < LARGEST or (d == 2 and path != "tree"):
            yield {"part": "evaluation", "path": path, "n": n, "d": d}
    for fit in FITS:
        yield {"part": "fit", "path": fit, "n": LARGEST, "d": 2}


def work(part: str, path: str, n: int, d: int) -> dict[str, Any]:
    """Seconds, peak memory beyond the input, and how much of the pairs was computed."""
    machine = cores_and_others()
    found = _evaluation(path, n, d) if part == "evaluation" else _fit(path, n, d)
    return {**found, **machine}


def sheet(n: int, d: int, seed: int = 0) -> tuple[Any, Any, Any]:
    """Class clusters on a curved sheet in many columns; and a map that lays it out in d."""
    rng = np.random.default_rng(seed)
    y = rng.integers(SIDE * SIDE, size=n)
    centres = np.stack(np.divmod(np.arange(SIDE * SIDE), SIDE), axis=1) / (SIDE - 1.0)
    centres += 0.03 * rng.standard_normal(centres.shape)
    place = centres[y] + 0.07 * rng.standard_normal((n, 2))
    waves, phases = rng.normal(scale=2.0, size=(2, COLUMNS)), rng.uniform(0, 6.3, COLUMNS)
    X = np.sin(place @ waves + phases)
    X += 0.01 * rng.standard_normal(X.shape)
    # the best linear view of the sheet, from some of its rows; then what else varies most
    some = slice(0, 10_000)
    middle = X[some].mean(axis=0)
    B = np.linalg.lstsq(X[some] - middle, place[some] - place[some].mean(axis=0), rcond=None)[0]
    A = B.T
    if d > 2:
        rest = (X[some] - middle) - (X[some] - middle) @ np.linalg.pinv(A) @ A
        extra = np.linalg.svd(rest, full_matrices=False)[2][: d - 2]
        extra *= 0.1 / np.std(rest @ extra.T, axis=0)[:, None]
        A = np.concatenate([A, extra])
    return X.astype(np.float32), y, A


def late_scale(Z: Any, kernel: Any) -> float:
    """The factor at which the rows consult as many neighbours as late in learning."""
    from vicinal.objectives import nca_effective_n_neighbors

    few = Z[np.random.default_rng(1).permutation(len(Z))[:100]]

    def neighbours(s: float) -> float:
        found = nca_effective_n_neighbors(s * Z, Z_query=s * few, kernel=kernel)
        return float(np.mean(found)) - 1.0  # a query is among the rows, and picks itself too

    low, high = 1.0, 1.0
    while neighbours(high) > NEIGHBOURS:
        low, high = high, 4.0 * high
    for _ in range(8):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if neighbours(middle) > NEIGHBOURS else (low, middle)
    return (low * high) ** 0.5


def _problem(path: str, n: int, d: int) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
    from vicinal.densities import Compact, Gaussian

    compact = path == "compact"
    kernel = Compact(background=False) if compact else Gaussian()
    X, y, A = sheet(n, d)
    Z = X @ A.T.astype(np.float32)
    Z -= Z.mean(axis=0)
    s = late_scale(Z, kernel)
    options = {"objective": "accuracy" if compact else "log", "kernel": kernel}
    return X, y, s * A, np.ascontiguousarray(s * Z, dtype=np.float32), options


def _evaluation(path: str, n: int, d: int) -> dict[str, Any]:
    from _memory import give_back, measure, resident

    from vicinal.objectives import nca
    from vicinal.targets import Labels

    # compiled, and in the cache, before anything is timed
    _, y, _, Z, options = _problem(path, 5000, d)
    nca(Z, y, warn=False, **options, **_lists(path, Z, y))
    X, y, _, Z, options = _problem(path, n, d)
    del X
    labels = Labels(y)
    give_back()
    baseline = resident()
    lists: dict[str, Any] = {}
    told: dict[str, Any] = {}
    search, search_cpu, search_peak = 0.0, 0.0, 0
    if path == "nearest":
        worked = time.process_time()
        search, search_peak = measure(lambda: lists.update(_lists(path, Z, labels.codes)), baseline)
        search_cpu = time.process_time() - worked
    else:
        lists.update(_lists(path, Z, labels.codes))
    seconds, cpu, peak = [], [], []
    repeats = 1 if path == "tree" and n > 100_000 else REPEATS.get(n, 3)
    for _ in range(repeats):
        worked = time.process_time()
        took, most = measure(
            lambda: nca(Z, labels, warn=False, report=told, **options, **lists), baseline
        )
        seconds.append(took)
        cpu.append(time.process_time() - worked)
        peak.append(most or 0)
    engine = told.get("engine", path)
    assert (engine == "tree") == (path == "tree"), f"{path} was summed by {engine}"
    return {
        "engine": engine,
        "seconds": min(seconds),
        "cpu": min(cpu),
        "all seconds": seconds,
        "search": search,
        "search cpu": search_cpu,
        "memory": max(*peak, search_peak or 0),
        "share": float(told.get("share_of_pairs", np.nan)),
    }


def _lists(path: str, Z: Any, codes: Any) -> dict[str, Any]:
    from vicinal import neighborhoods

    # without ``always`` all pairs would be summed where that is faster, and no tree be timed
    tree = neighborhoods.Tree(always=True, each_class=False)
    part = {"nearest": neighborhoods.Nearest(), "tree": tree}.get(path)
    return {} if part is None else {"pairs": part.pairs(Z, codes)}


def _fit(path: str, n: int, d: int) -> dict[str, Any]:
    """A whole fit: with defaults; by each path two iterations from a late map."""
    from _memory import give_back, measure, resident

    from vicinal import NCA
    from vicinal.solvers import SGD

    def estimator(A: Any) -> NCA:
        if path == "defaults":
            return NCA(d, random_state=0)
        late: dict[str, Any] = {"init": A, "scaling": None, "alpha": 0.0, "max_iter": 2}
        # so short a step leaves the map where it is: late in learning
        late |= {"sampling": "full", "solver": SGD(learning_rate=1e-9), "random_state": 0}
        if path == "nearest":
            late["neighborhood"] = path
        return NCA(d, **late)

    small, y, A, _, _ = _problem(path, 5000, d)
    estimator(A).fit(small, y)
    X, y, A, _, _ = _problem(path, n, d)
    model = estimator(A)
    give_back()
    baseline = resident()
    worked = time.process_time()
    seconds, peak = measure(lambda: model.fit(X, y), baseline)
    return {
        "seconds": seconds,
        "cpu": time.process_time() - worked,
        "memory": peak or 0,
        "plan": str(model.plan_),
        "iterations": int(model.n_iter_),
    }


EXPERIMENTS = (
    Experiment(
        "nca-growth",
        "Time and memory as the rows grow in number",
        jobs,
        work,
        parts,
        draw,
        threads=None,
        claims=claims,
    ),
)
