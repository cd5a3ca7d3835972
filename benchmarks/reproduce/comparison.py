"""The comparison that Goldberger et al. section 6 leave open: f or g, and all that goes with it.

Two experiments, both inside the training rows of the splits that ``defaults`` tests on: 70 % of
the rows are training rows; 70 % of *those* are learnt from, and the rest are judged on.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from reproduce import protocol
from reproduce.comparison_report import report, report_alphas
from reproduce.criteria_report import report_criteria
from reproduce.experiment import Experiment, Job
from reproduce.protocol import SMALL, knn, learn_and_judge
from vicinal.estimators._search import ALPHAS as SEARCHED

OBJECTIVES = ("log", "accuracy")
SCALINGS = ("standard", "global", None)
STARTS = ("auto", "identity", "random", "pca", "whiten", "lda", "rca")
ALPHAS = (0.0, 3e-3)
PATH = (0.0, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
RANKS = ("2", "full")


def jobs(splits: int | None) -> Iterator[Job]:
    """Every combination of set, split, rank, scaling and start; the rest within the job."""
    for split, name, d, scaling, start in product(
        range(splits or 3), SMALL, RANKS, SCALINGS, STARTS
    ):
        yield {"data": name, "split": split, "d": d, "scaling": scaling, "init": start}


def path_jobs(splits: int | None) -> Iterator[Job]:
    """A finer path of alpha, at the scaling and start that the first stage chose."""
    for split, name, d in product(range(splits or 6), SMALL, RANKS):
        yield {"data": name, "split": split, "d": d}


def compare(data: str, split: int, d: str, scaling: str | None, init: str) -> dict[str, Any]:
    """Held-out scores of both objectives, with and without alpha and early stopping."""
    return {
        f"{objective} {alpha} {early}": held_out_scores(
            data, split, d,
            scaling=scaling, init=init, objective=objective, alpha=alpha, early_stopping=early,
        )
        for objective, alpha, early in product(OBJECTIVES, ALPHAS, (False, True))
    }  # fmt: skip


def compare_alphas(data: str, split: int, d: str) -> dict[str, Any]:
    """Held-out scores of both objectives along the path."""
    return {
        f"{objective} {alpha}": held_out_scores(data, split, d, objective=objective, alpha=alpha)
        for objective, alpha in product(OBJECTIVES, PATH)
    }


def criterion_jobs(splits: int | None) -> Iterator[Job]:
    """Every set, split and rank: by what a search for alpha should judge."""
    for split, name, d in product(range(splits or 4), SMALL, RANKS):
        yield {"data": name, "split": split, "d": d}


def compare_criteria(data: str, split: int, d: str) -> dict[str, Any]:
    """Cross-validated scores of each alpha on the rows learnt from, and what it is worth."""
    X, y = protocol.data(data)
    train, _ = learn_and_judge(y, split)
    folds = StratifiedKFold(5, shuffle=True, random_state=split)
    inside: dict[str, list[dict[str, float]]] = {str(alpha): [] for alpha in SEARCHED}
    for learn, judge in folds.split(train, y[train]):
        for alpha in SEARCHED:
            rows = train[learn], train[judge]
            inside[str(alpha)].append(_scores(X, y, *rows, split, d, {"alpha": alpha}))
    worth = {str(alpha): held_out_scores(data, split, d, alpha=alpha)["posterior"]
             for alpha in SEARCHED}  # fmt: skip
    return {"inside": inside, "worth": worth}


def held_out_scores(name: str, split: int, d: str, **parameters: Any) -> dict[str, float]:
    """Learn on 70 % of the training rows of a split, judge on their other 30 %."""
    X, y = protocol.data(name)
    return _scores(X, y, *learn_and_judge(y, split), split, d, parameters)


def _scores(
    X: Any, y: Any, learn: Any, judge: Any, seed: int, d: str, parameters: dict[str, Any]
) -> dict[str, float]:
    from vicinal import NCA

    rank = min(2, X.shape[1]) if d == "2" else X.shape[1]
    model = NCA(rank, random_state=seed, **parameters).fit(X[learn], y[learn])
    P = model.predict_proba(X[judge])
    # of a class that has no row to learn from, nothing is known
    right = (model.classes_ == y[judge][:, None]) * P
    likelihood = np.maximum(right.sum(axis=1), 1e-10)
    Z, Z_judge = model.transform(X[learn]), model.transform(X[judge])
    return {
        "posterior": float(np.mean(model.classes_[P.argmax(axis=1)] == y[judge])),
        "1-NN": knn(Z, y[learn], Z_judge, y[judge], 1),
        "5-NN": knn(Z, y[learn], Z_judge, y[judge], 5),
        "log": float(np.mean(np.log(likelihood))),
        "probability": float(np.mean(likelihood)),
        "iterations": float(model.n_iter_),
    }


EXPERIMENTS = (
    Experiment(
        "objectives",
        "Accuracy or log-probability? The comparison that Goldberger et al. leave open",
        jobs,
        compare,
        report,
    ),
    Experiment(
        "alpha", "How strong a penalty? The path of alpha", path_jobs, compare_alphas, report_alphas
    ),
    Experiment(
        "auto",
        'By what to choose alpha: the criteria of alpha="auto"',
        criterion_jobs,
        compare_criteria,
        report_criteria,
    ),
)
