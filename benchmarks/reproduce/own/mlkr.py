"""Regression in a learnt metric against k-NN, ridge regression and a random forest."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from reproduce.framework.experiment import Experiment, Job
from reproduce.framework.protocol import rows_70_30
from reproduce.own.mlkr_report import FOLDS, NEIGHBOURS, RIDGES, SHARES, SPLITS, claims, parts
from reproduce.own.regression_tables import TABLES, load


def jobs(splits: int | None) -> Iterator[Job]:
    """Every table and split; all methods within the job, on the same rows."""
    for split, name in product(range(splits or SPLITS), TABLES):
        yield {"data": name, "split": split}


def score_all(data: str, split: int) -> dict[str, Any]:
    """R² and root mean squared error of every method on one split."""
    from vicinal import MLKR, NCARegressor

    X, y = load(data)
    train, test = rows_70_30(len(y), split)
    found: dict[str, Any] = {"rows": X.shape[0], "columns": X.shape[1]}

    def judge(name: str, model: Any) -> None:
        error = y[test] - model.predict(X[test])
        found[f"{name} RMSE"] = float(np.sqrt(np.mean(error**2)))
        found[f"{name} R2"] = float(model.score(X[test], y[test]))

    for name, model in _fitted_peers(X[train], y[train], split).items():
        judge(name, model)
    began = time.process_time()
    model = MLKR(random_state=split).fit(X[train], y[train])
    found["cpu of MLKR"] = time.process_time() - began
    found["penalty of MLKR"], found["rank"] = float(model.alpha_), int(model.n_components_)
    judge("MLKR", model)
    judge("MLKR k-NN", model.set_params(rule="knn", n_neighbors="auto"))
    began = time.process_time()
    for name, matching in (("NCA", "soft"), ("NCA hard", "hard")):
        model = NCARegressor(matching=matching, random_state=split)
        judge(name, model.fit(X[train], y[train]))
    found["cpu of NCARegressor"] = (time.process_time() - began) / 2
    return found


def _fitted_peers(X: Any, y: Any, split: int) -> dict[str, Any]:
    """The other methods, each with its parameter chosen on the training rows."""
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.linear_model import Ridge
    from sklearn.model_selection import GridSearchCV, KFold
    from sklearn.neighbors import KNeighborsRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    folds = KFold(FOLDS, shuffle=True, random_state=split)
    asked = {
        "k-NN": (KNeighborsRegressor(), {"kneighborsregressor__n_neighbors": NEIGHBOURS}),
        "ridge": (Ridge(), {"ridge__alpha": RIDGES}),
    }
    found = {
        name: GridSearchCV(make_pipeline(StandardScaler(), model), grid, cv=folds).fit(X, y)
        for name, (model, grid) in asked.items()
    }
    # rows that a tree has not drawn tell what folds would, at a fifth of the time
    forests = [
        RandomForestRegressor(
            100, max_features=share, oob_score=True, random_state=split, n_jobs=1
        ).fit(X, y)
        for share in SHARES
    ]
    return {**found, "forest": max(forests, key=lambda forest: forest.oob_score_)}


EXPERIMENTS = (
    Experiment(
        "mlkr",
        "Regression in a learnt metric against k-NN, ridge regression and a random forest",
        jobs,
        score_all,
        parts,
        claims=claims,
    ),
)
