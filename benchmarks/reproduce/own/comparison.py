"""Penalty and objective of NCA, and all that goes with them, compared on held-out rows.

Both experiments work inside the training rows of the splits that ``defaults`` tests on: 70 % of the
rows are training rows; 70 % of *those* are learnt from, and the rest are judged on.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from reproduce.framework import protocol
from reproduce.framework.experiment import Experiment, Job
from reproduce.framework.protocol import SMALL, knn, learn_and_judge
from reproduce.own import alpha_report, comparison_report
from reproduce.own.alpha_report import PATH, SEARCHED
from reproduce.own.comparison_report import CASES, RANKS

#: as in the searches of the estimator, whose runs are coarse
COARSE = {"max_iter": 40, "tol": 1e-3}
SPLITS, FOLDS = 10, 5


def jobs(splits: int | None) -> Iterator[Job]:
    """Every set, split and rank; all fits within the job, on the same rows."""
    for split, name, d in product(range(splits or SPLITS), SMALL, RANKS):
        yield {"data": name, "split": split, "d": d}


def compare(data: str, split: int, d: str) -> dict[str, Any]:
    """Held-out scores of the defaults, and of fits that differ from them in a parameter."""
    found: dict[str, Any] = {}
    for case, parameters in CASES.items():
        # what is not asked about the penalty has the one that the defaults chose
        given = {"alpha": found["log"]["alpha"]} if parameters.get("alpha") == "same" else {}
        found[case] = held_out_scores(data, split, d, **{**parameters, **given})
    return found


def compare_alphas(data: str, split: int, d: str) -> dict[str, Any]:
    """Held-out scores of fixed penalties and of ``alpha="auto"``; fold scores to choose by."""
    X, y = protocol.data(data)
    learn, _ = learn_and_judge(y, split)
    return {
        "worth": {str(alpha): held_out_scores(data, split, d, alpha=alpha) for alpha in PATH},
        "auto": held_out_scores(data, split, d),
        "inside": _inside(X, y, learn, split, d),
        "chance": float(np.bincount(y[learn]).max() / len(learn)),
    }


def _inside(X: Any, y: Any, rows: Any, split: int, d: str) -> dict[str, Any]:
    """Scores of each penalty of the search on folds of the rows learnt from."""
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=split)
    found: dict[str, Any] = {str(alpha): {"posterior": [], "log": []} for alpha in SEARCHED}
    for learn, judge in folds.split(rows, y[rows]):
        for alpha in SEARCHED:
            parts = rows[learn], rows[judge]
            scores = _scores(X, y, *parts, split, d, {"alpha": alpha, **COARSE})
            for key, values in found[str(alpha)].items():
                values.append(scores[key])
    return found


def held_out_scores(name: str, split: int, d: str, **parameters: Any) -> dict[str, float]:
    """Learn on 70 % of the training rows of a split, judge on their other 30 %."""
    X, y = protocol.data(name)
    return _scores(X, y, *learn_and_judge(y, split), split, d, parameters)


def _scores(
    X: Any, y: Any, learn: Any, judge: Any, seed: int, d: str, parameters: dict[str, Any]
) -> dict[str, float]:
    from vicinal import NCA

    rank = min(2, X.shape[1]) if d == "2" else None
    model = NCA(rank, random_state=seed, **parameters).fit(X[learn], y[learn])
    P = model.predict_proba(X[judge])
    # of a class that has no row to learn from, nothing is known
    right = (model.classes_ == y[judge][:, None]) * P
    likelihood = np.maximum(right.sum(axis=1), 1e-10)
    Z, Z_judge = model.transform(X[learn]), model.transform(X[judge])
    return {
        "posterior": float(np.mean(model.classes_[P.argmax(axis=1)] == y[judge])),
        "5-NN": knn(Z, y[learn], Z_judge, y[judge], 5),
        "log": float(np.mean(np.log(likelihood))),
        "alpha": float(model.alpha_),
        "iterations": float(model.n_iter_),
    }


EXPERIMENTS = (
    Experiment(
        "objectives",
        "Accuracy or log-probability? The comparison that Goldberger et al. leave open",
        jobs,
        compare,
        comparison_report.parts,
        claims=comparison_report.claims,
    ),
    Experiment(
        "alpha",
        "How strong a penalty, and by what to choose it?",
        jobs,
        compare_alphas,
        alpha_report.parts,
        claims=alpha_report.claims,
    ),
)
