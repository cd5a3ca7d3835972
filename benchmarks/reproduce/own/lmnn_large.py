"""LMNN on usps and mnist beside its peers, what it takes, and what was published."""

from __future__ import annotations

import cProfile
import pstats
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.decomposition import PCA

from reproduce.framework import protocol
from reproduce.framework.experiment import Done, Experiment, Job
from reproduce.framework.pages import table
from reproduce.oneata.large import mean, shown
from reproduce.tarlow.common import accuracies

#: pixels share a unit: one scale for all, and a start that does not favour rare ones
PIXELS: dict[str, Any] = {"scaling": "global", "init": "pca"}


K = 3


VOTES = (3, 5)


RANKS = {"usps9298": (32, 64), "mnist": (32, 164)}


MUS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


#: the least error of both votes together on held-out rows, at the rank that comes first
CHOSEN = {"usps9298": 1.0, "mnist": 0.1}


#: rows of a set to learn from and to judge by, of the training rows alone; None: 70 and 30 %
HELD_OUT = {"usps9298": None, "mnist": (10_000, 10_000)}


WORDS = {"pixels": "k-NN on the pixels", "PCA": "PCA", "NCA": "NCA", "LMNN": "LMNN"}


#: where the time of a fit goes: file and function, in words
STEPS = {
    ("neighbourhoods", "target_neighbours"): "search for targets",
    ("_learn.py", "start"): "start, with its fit to 2,000 rows",
    ("lmnn.py", "__call__"): "value and gradient of the loss",
}


#: data, method, test error in per cent, where it stands, and whether we could read it there
PUBLISHED = (
    ("mnist", "LMNN", "1.3", "[Weinberger2006], abstract",
     "yes, the abstract; the later paper has another figure"),
    ("mnist", "LMNN after PCA", "1.73", "the authors' Matlab code, as in [Weinberger2009]",
     "at second hand: J. Chiotellis, scikit-learn pull request 8602, 30 April 2017"),
    ("mnist", "LMNN after PCA, by L-BFGS", "2.0 ± 0.1", "the same comment",
     "yes: the code of that pull request"),
    ("mnist", "k-NN after PCA to 164", "2.4", "[Weinberger2009]",
     "no: so it is cited; the tables could not be read"),
    ("mnist", "LMNN, a metric for each class", "1.2", "[Weinberger2009]",
     "no: so it is cited; the tables could not be read"),
    ("usps9298", "LMNN", "", "[Kedem2012] and others",
     "no figure could be read, so none is given"),
)  # fmt: skip


def jobs(splits: int | None) -> Iterator[Job]:
    """First the choice of mu on held-out training rows, then the fits judged by test rows."""
    for data, ranks in RANKS.items():
        for mu in MUS:
            yield _job(data, ranks[0], "LMNN", mu, "held out")
    for data, ranks in RANKS.items():
        yield _job(data, 0, "pixels", 0.0, "test")
        for d in ranks:
            for method in ("PCA", "NCA"):
                yield _job(data, d, method, 0.0, "test")
            for mu in dict.fromkeys((1.0, CHOSEN[data])):
                yield _job(data, d, "LMNN", mu, "test")


def _job(data: str, d: int, method: str, mu: float, kind: str) -> Job:
    return {"data": data, "split": 0, "d": d, "method": method, "mu": mu, "kind": kind}


def work(data: str, split: int, d: int, method: str, mu: float, kind: str) -> dict[str, Any]:
    """Accuracies by votes of 3 and 5; seconds, memory and steps of the fit."""
    X, y, train, test = rows(data, kind, split)
    X_train, y_train, X_test = X[train], y[train], X[test]
    del X
    model = _model(method, d, mu, split)
    found: dict[str, Any] = {"rows": len(train)}
    if model is not None:
        if method != "PCA":  # compiled code is part of an installation, not of a fit
            few = slice(0, 4100)
            _model(method, min(d, 8), mu, split, max_iter=1).fit(X_train[few], y_train[few])
        found |= _fit(model, X_train, y_train)
        X_train, X_test = model.transform(X_train), model.transform(X_test)
    votes = accuracies(X_train, y_train, X_test, y[test], VOTES)
    return found | {f"{k}-NN": score for k, score in zip(VOTES, votes, strict=True)}


def rows(data: str, kind: str, seed: int) -> tuple[Any, Any, Any, Any]:
    """Rows, labels, and positions to learn from and to judge by."""
    X, y = protocol.data(data)
    X = X.astype(np.float32)
    train, test = protocol.official(data)
    if kind == "held out":
        some = HELD_OUT[data]
        if some is None:
            train, test = protocol.stratified(y, seed, train)
        else:
            order = np.random.RandomState(seed).permutation(train)
            train, test = order[: some[0]], order[some[0] : sum(some)]
    return X, y, train, test


def _model(method: str, d: int, mu: float, seed: int, **options: Any) -> Any:
    from vicinal import LMNN, NCA

    if method == "pixels":
        return None
    if method == "PCA":
        return PCA(d, random_state=seed)
    if method == "NCA":  # alpha as mnist-targets has chosen it on held-out rows
        return NCA(d, alpha=1e-3, random_state=seed, **PIXELS, **options)
    return LMNN(d, k=K, mu=mu, random_state=seed, **PIXELS, **options)


def _fit(model: Any, X: Any, y: Any) -> dict[str, Any]:
    from _memory import give_back, measure, resident

    give_back()
    # by the processor: the clock tells what others do as well
    profile, core = cProfile.Profile(time.process_time), time.process_time()
    wall, peak = measure(lambda: profile.runcall(model.fit, X, y), resident())
    core = time.process_time() - core
    found = {"seconds": wall, "core seconds": core, "MiB": None if peak is None else peak / 2**20}
    if hasattr(model, "history_"):
        found |= {
            "iterations": float(model.n_iter_),
            "evaluations": float(model.history_["n_evaluations"][-1]),
            "loss": float(model.objective_),
            "plan": str(model.plan_),
            "steps": _steps(profile),
        }
    return found


def _steps(profile: cProfile.Profile) -> dict[str, float]:
    """Seconds of the steps of a fit, and of all that is none of them."""
    stats: Any = pstats.Stats(profile)
    found = dict.fromkeys(STEPS.values(), 0.0)
    for (path, _, name), (_, _, _, seconds, _) in stats.stats.items():
        for (file, function), words in STEPS.items():
            if name == function and file in path:
                found[words] = max(found[words], seconds)
    return found


def parts(done: list[Done]) -> dict[str, Any]:
    """Finding, the peers, what was published, the choice of mu, time and memory."""
    return {
        "finding": _finding(done),
        "peers": _peers(done),
        "table": table(["data", "method", "test error", "source", "read by us"], PUBLISHED),
        "not_run": _not_run(done),
        "choice": _choice(done),
        "times": _times(done),
        "k": K,
    }


def _of(done: list[Done], **where: Any) -> Done | None:
    return next((e for e in done if where.items() <= e.job.items()), None)


def _error(each: Done | None, k: int) -> str:
    return "" if each is None else f"{100.0 - 100.0 * each.result[f'{k}-NN']:.2f}"


def _name(job: Job) -> str:
    words = WORDS[job["method"]]
    if job["method"] != "LMNN" or job["mu"] == 1.0:
        return words
    return f"{words}, μ = {job['mu']:g}"


def _peers(done: list[Done]) -> str:
    cells = []
    for each in sorted(
        (each for each in done if each.job["kind"] == "test"),
        key=lambda e: (list(RANKS).index(e.job["data"]), e.job["d"], list(WORDS).index(
            e.job["method"]), e.job["mu"]),
    ):  # fmt: skip
        job, result = each.job, each.result
        took = [
            _number(result.get(key)) for key in ("seconds", "core seconds", "MiB", "iterations")
        ]
        cells.append(
            [job["data"], job["d"] or "", _name(job), *(_error(each, k) for k in VOTES), *took]
        )
    return table(
        ["data", "d", "method", *(f"{k}-NN" for k in VOTES), "seconds", "core seconds", "MiB",
         "iterations"],
        cells,
    )  # fmt: skip


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}" if value < 10.0 else f"{value:.0f}"


def _not_run(done: list[Done]) -> str:
    run = {(each.job["data"], each.job["d"]) for each in done}
    left = [f"{data} at d = {d}" for data, ds in RANKS.items() for d in ds if (data, d) not in run]
    return f"In the script, but not run here: {', '.join(left)}." if left else ""


def _choice(done: list[Done]) -> str:
    cells = []
    for data, ranks in RANKS.items():
        where = {"data": data, "kind": "held out", "d": ranks[0]}
        fits = [_of(done, mu=mu, **where) for mu in MUS]
        errors = [" / ".join(_error(each, k) for k in VOTES) if each else "" for each in fits]
        cells.append([data, ranks[0], *errors, f"{CHOSEN[data]:g}"])
    return table(["data", "d", *(f"μ = {mu:g}" for mu in MUS), "chosen"], cells)


def _times(done: list[Done]) -> str:
    cells = []
    for each in done:
        if each.job["method"] == "LMNN" and each.job["kind"] == "test":
            job, steps = each.job, each.result["steps"]
            cells.append(
                [job["data"], job["d"], _name(job), _number(each.result["core seconds"]),
                 *(_number(steps[words]) for words in STEPS.values()),
                 f"{each.result['evaluations']:.0f}"]
            )  # fmt: skip
    return table(["data", "d", "method", "fit", *STEPS.values(), "evaluations"], cells)


def _finding(done: list[Done]) -> str:
    """Errors of the peers by 3-NN at each rank; what mnist takes."""
    parts = []
    for data, ranks in RANKS.items():
        raw = _error(_of(done, data=data, method="pixels", kind="test"), K)
        if raw:
            parts.append(f"{data}: {raw} % on the pixels")
        for d in ranks:
            found = []
            for method in ("PCA", "NCA", "LMNN"):
                for mu in sorted({e.job["mu"] for e in done if e.job["method"] == method}):
                    where = {"data": data, "d": d, "method": method, "kind": "test", "mu": mu}
                    if each := _of(done, **where):
                        found.append(f"{_name(each.job)} {_error(each, K)} %")
            if found:
                parts.append(f"{data} at d = {d}: {', '.join(found)}")
    core = mean(done, "core seconds", data="mnist", method="LMNN", kind="test", d=32)
    took = shown(f" LMNN on all of mnist at d = 32 takes {core:.0f} core seconds.")
    return f"Test error by 3-NN, {'; '.join(parts) or 'not run yet'}.{took}"


EXPERIMENTS = (
    Experiment(
        "lmnn-large",
        "LMNN on usps and mnist: its peers, published figures, time and memory",
        jobs,
        work,
        parts,
        threads=None,
    ),
)
