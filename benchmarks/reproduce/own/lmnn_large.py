"""LMNN on usps and mnist against its peers, and what a fit takes."""

from __future__ import annotations

import cProfile
import pstats
import time
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors

from reproduce.framework import protocol
from reproduce.framework.experiment import Job
from reproduce.framework.machine import cores_and_others

#: pixels share a unit: one scale for all, and a start that does not favour rare ones
PIXELS: dict[str, Any] = {"scaling": "global", "init": "pca"}


K = 3


VOTES = (3, 5)


RANKS = {"usps9298": (32,), "mnist": (32, 164)}


#: where the time of a fit goes: file and function, in words
STEPS = {
    ("neighborhoods", "target_neighbors"): "search for targets",
    ("run.py", "first_theta"): "start, with its fit to 2,000 rows",
    ("lmnn.py", "__call__"): "value and gradient of the loss",
}


def jobs(splits: int | None) -> Iterator[Job]:
    """A job for each set, rank and method, on the set's own split."""
    for data, ranks in RANKS.items():
        yield _job(data, 0, "pixels")
        for d, method in product(ranks, ("PCA", "NCA", "LMNN")):
            yield _job(data, d, method)


def _job(data: str, d: int, method: str) -> Job:
    return {"data": data, "split": 0, "d": d, "method": method}


def work(data: str, split: int, d: int, method: str) -> dict[str, Any]:
    """Test rows that votes of 3 and of 5 have wrong; seconds, memory and steps of the fit."""
    machine = cores_and_others()
    X, y = protocol.data(data)
    X = X.astype(np.float32)
    train, test = protocol.official(data)
    X_train, y_train, X_test = X[train], y[train], X[test]
    del X
    model = _model(method, d, split)
    found: dict[str, Any] = {"rows": len(train), "test rows": len(test), **machine}
    if model is not None:
        if method != "PCA":  # compiled code is part of an installation, not of a fit
            few = slice(0, 4100)
            _model(method, min(d, 8), split, max_iter=1).fit(X_train[few], y_train[few])
        found |= _fit(model, X_train, y_train)
        X_train, X_test = model.transform(X_train), model.transform(X_test)
    wrong = wrong_rows(X_train, y_train, X_test, y[test])
    scores = {f"{k}-NN": 1.0 - len(rows) / len(test) for k, rows in wrong.items()}
    return found | scores | {"wrong rows": wrong}


def wrong_rows(Z: Any, y: Any, Z_test: Any, y_test: Any) -> dict[str, list[int]]:
    """Positions of the test rows that each vote has wrong; the nearest row decides a tie."""
    index = NearestNeighbors(n_neighbors=min(max(VOTES), len(Z))).fit(Z)
    near = np.asarray(y)[index.kneighbors(Z_test, return_distance=False)]
    found = {}
    for k in VOTES:
        votes = near[:, :k]
        counts = (votes[:, :, None] == votes[:, None, :]).sum(axis=2)
        winner = np.take_along_axis(votes, counts.argmax(axis=1)[:, None], axis=1)[:, 0]
        found[str(k)] = np.flatnonzero(winner != np.asarray(y_test)).tolist()
    return found


def _model(method: str, d: int, seed: int, **options: Any) -> Any:
    from vicinal import LMNN, NCA

    if method == "pixels":
        return None
    if method == "PCA":
        return PCA(d, random_state=seed)
    if method == "NCA":  # alpha as mnist-targets has chosen it on held-out rows
        return NCA(d, alpha=1e-3, random_state=seed, **PIXELS, **options)
    return LMNN(d, k=K, random_state=seed, **PIXELS, **options)


def _fit(model: Any, X: Any, y: Any) -> dict[str, Any]:
    """Steps of a copy under the profiler; then time and memory of the model without it."""
    from _memory import give_back, measure, resident

    ours = not isinstance(model, PCA)
    found = _profile(clone(model), X, y) if ours else {}
    give_back()
    core = time.process_time()
    wall, peak = measure(lambda: model.fit(X, y), resident())
    found["core seconds"] = time.process_time() - core
    found |= {"seconds": wall, "MiB": None if peak is None else peak / 2**20}
    if ours:
        found |= {
            "iterations": float(model.n_iter_),
            "evaluations": float(model.history_["n_evaluations"][-1]),
            "loss": float(model.loss_),
            "plan": str(model.plan_),
        }
    return found


def _profile(model: Any, X: Any, y: Any) -> dict[str, Any]:
    # by the processor: the clock tells what others do as well
    profile, core = cProfile.Profile(time.process_time), time.process_time()
    profile.runcall(model.fit, X, y)
    return {"profiled core seconds": time.process_time() - core, "steps": _steps(profile)}


def _steps(profile: cProfile.Profile) -> dict[str, float]:
    """Seconds of the steps of a fit, and of all that is none of them."""
    stats: Any = pstats.Stats(profile)
    found = dict.fromkeys(STEPS.values(), 0.0)
    for (path, _, name), (_, _, _, seconds, _) in stats.stats.items():
        for (file, function), words in STEPS.items():
            if name == function and file in path:
                found[words] = max(found[words], seconds)
    return found
