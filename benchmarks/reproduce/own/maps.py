"""Linear and nonlinear maps on sixteen tables, against scikit-learn's classifiers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from reproduce.framework.experiment import Experiment, Job
from reproduce.own.classification_tables import SPLITS, TABLES, load, split_rows
from reproduce.own.maps_report import AGAIN, AVERAGE, BATCH, CANDIDATES, FEW, STEPS, claims, parts

__all__ = ["model"]


def jobs(splits: int | None) -> Iterator[Job]:
    """Every table and split; all maps within the job, on the same rows."""
    for split, name in product(range(splits or SPLITS), TABLES):
        yield {"data": name, "split": split}


def model(name: str, n: int, candidate: dict[str, Any], seed: int, last: bool) -> Any:
    """NCA with one of the maps, for n rows; all maps learn in the same way."""
    from vicinal import NCA
    from vicinal.maps import MLP, Periodic
    from vicinal.samplers import MiniBatches
    from vicinal.solvers import Adam, Cosine

    ours: dict[str, dict[str, Any]] = {
        "linear": {},
        "laplace": {"kernel": "laplace"},
        "periodic": {"mapping": "periodic"},
        "network": {"mapping": Periodic(then=MLP())},
    }
    steps, rate = STEPS["few" if n <= FEW else "many"][last], candidate["rate"]
    return NCA(
        alpha=candidate["alpha"],
        sampling=MiniBatches(int(np.clip(n // 4, *BATCH)), clusters="random"),
        solver="auto" if rate is None else Adam(Cosine(rate, steps)),
        max_iter=steps,
        random_state=seed,
        **ours[name],
    )


class _Fit(NamedTuple):
    """Posteriors of the rows to judge, their accuracy and log-likelihood, and the CPU time."""

    P: Any
    accuracy: float
    likelihood: float
    seconds: float


def score_all(data: str, split: int) -> dict[str, Any]:
    """Test accuracy of every map, its penalty chosen on the rows held out for that."""
    X, y = load(data)
    X, rows = X.astype(np.float32), split_rows(y, split)
    found: dict[str, Any] = {"rows": len(y), "columns": X.shape[1]}
    inner, outer = [], []
    for name, candidates in CANDIDATES.items():
        began = time.process_time()
        tried = [_fit(X, y, rows.learn, rows.choose, name, each, split) for each in candidates]
        at = max(range(len(tried)), key=lambda i: (tried[i].accuracy, tried[i].likelihood))
        inner.append(tried[at].P)
        found[f"inner of {name}"] = tried[at].accuracy
        found[f"chosen of {name}"] = at
        found[f"cpu of the choice of {name}"] = time.process_time() - began
        fits = [_fit(X, y, rows.train, rows.test, name, candidates[at], split, last=True)]
        found[name], found[f"cpu of {name}"] = fits[0].accuracy, fits[0].seconds
        if len(rows.train) <= AGAIN:  # a second start, for the average alone
            seed = SPLITS + split
            fits.append(_fit(X, y, rows.train, rows.test, name, candidates[at], seed, last=True))
        outer.append(np.mean([each.P for each in fits], axis=0))
    found[f"inner of {AVERAGE}"] = _right(np.mean(inner, axis=0), y[rows.choose])
    found[AVERAGE] = _right(np.mean(outer, axis=0), y[rows.test])
    return found


def _fit(
    X: Any,
    y: Any,
    learn: Any,
    judge: Any,
    name: str,
    candidate: dict[str, Any],
    seed: int,
    last: bool = False,
) -> _Fit:
    began = time.process_time()
    fitted = model(name, len(learn), candidate, seed, last).fit(X[learn], y[learn])
    seconds = time.process_time() - began
    P = np.zeros((len(judge), y.max() + 1))
    P[:, fitted.classes_] = fitted.predict_proba(X[judge])
    likelihood = np.log(np.maximum(P[np.arange(len(judge)), y[judge]], 1e-10)).mean()
    return _Fit(P, _right(P, y[judge]), float(likelihood), seconds)


def _right(P: Any, y: Any) -> float:
    return float(np.mean(P.argmax(axis=1) == y))


EXPERIMENTS = (
    Experiment(
        "maps",
        "Linear and nonlinear maps on sixteen tables, against trees, support vectors and networks",
        jobs,
        score_all,
        parts,
        claims=claims,
    ),
)
