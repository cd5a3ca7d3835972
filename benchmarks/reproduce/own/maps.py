"""Linear and nonlinear maps on sixteen tables, beside scikit-learn's classifiers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from reproduce.framework.experiment import Experiment, Job
from reproduce.own.classification_tables import SPLITS, TABLES, load, split_rows
from reproduce.own.maps_report import AVERAGE, parts

__all__ = ["models"]


def jobs(splits: int | None) -> Iterator[Job]:
    """Every table and split; all maps within the job, on the same rows."""
    for split, name in product(range(splits or SPLITS), TABLES):
        yield {"data": name, "split": split}


def models(seed: int) -> dict[str, Any]:
    """The estimators as a user would write them."""
    from vicinal import NCA
    from vicinal.maps import MLP, Periodic

    stopped = {"early_stopping": True, "random_state": seed}
    return {
        "linear": NCA(random_state=seed),
        "laplace": NCA(kernel="laplace", random_state=seed),
        "periodic": NCA(mapping="periodic", **stopped),
        "network": NCA(mapping=Periodic(then=MLP()), **stopped),
    }


def score_all(data: str, split: int) -> dict[str, Any]:
    """Test accuracy of every map, and on the rows by which a map is chosen."""
    X, y = load(data)
    rows = split_rows(y, split)
    found: dict[str, Any] = {"rows": len(y), "columns": X.shape[1]}
    inner = _fits(X, y, rows.learn, rows.choose, split)
    outer = _fits(X, y, rows.train, rows.test, split)
    for name, (accuracy, _, _) in inner.items():
        found[f"inner of {name}"] = accuracy
    for name, (accuracy, seconds, model) in outer.items():
        found[name] = accuracy
        found[f"cpu of {name}"] = seconds
        if model is not None:
            found[f"penalty of {name}"] = float(model.alpha_)
            found[f"iterations of {name}"] = int(model.n_iter_)
    return found


def _fits(X: Any, y: Any, learn: Any, judge: Any, seed: int) -> dict[str, tuple[float, float, Any]]:
    """Accuracy, seconds of a core for the fit, and the model, of each map and of their average."""
    found: dict[str, tuple[float, float, Any]] = {}
    total = np.zeros((len(judge), y.max() + 1))
    for name, model in models(seed).items():
        began = time.process_time()
        model.fit(X[learn], y[learn])
        seconds = time.process_time() - began
        P = model.predict_proba(X[judge])
        found[name] = float(np.mean(model.classes_[P.argmax(axis=1)] == y[judge])), seconds, model
        total[:, model.classes_] += P
    spent = sum(seconds for _, seconds, _ in found.values())
    found[AVERAGE] = float(np.mean(total.argmax(axis=1) == y[judge])), spent, None
    return found


EXPERIMENTS = (
    Experiment(
        "maps",
        "Linear and nonlinear maps on sixteen tables, beside trees, support vectors and networks",
        jobs,
        score_all,
        parts,
    ),
)
