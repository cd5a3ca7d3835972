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

from reproduce.framework import protocol
from reproduce.framework.experiment import Done, Experiment, Job
from reproduce.framework.pages import table
from reproduce.framework.protocol import SMALL, knn, learn_and_judge
from reproduce.framework.statistics import Summary
from reproduce.own.comparison_report import alpha_parts, parts

#: the path of alpha="auto", which the estimator keeps to itself
SEARCHED = (0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 0.0)
CRITERIA = {
    "log": "mean log-probability, the best",
    "probability": "mean probability, the best",
    "posterior": "accuracy, the best",
    "sparing": "accuracy, the strongest penalty within a standard error of the best",
}


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


def criteria_parts(done: list[Done]) -> dict[str, Any]:
    """What each criterion's choice is worth on rows that had no part in it."""
    fixed = [alpha for alpha in done[0].result["worth"] if 1e-4 < float(alpha) < 0.1]
    rows: list[list[str]] = []
    gains: dict[tuple[str, str], str] = {}
    names = list(dict.fromkeys(each.job["data"] for each in done))
    for d in ("2", "full"):
        here = [each for each in done if each.job["d"] == d]
        choices = {
            **{words: [_choice(e.result, key) for e in here] for key, words in CRITERIA.items()},
            **{f"always {float(alpha):g}": [alpha] * len(here) for alpha in fixed},
            "the best in hindsight": [
                max(e.result["worth"], key=e.result["worth"].get) for e in here
            ],
        }
        worth = {words: _by_set(here, chosen, names) for words, chosen in choices.items()}
        rule, base = worth[CRITERIA["sparing"]], worth["always 0.003"]
        for words, values in worth.items():
            gaps = [Summary(values - other) for other in (base, rule)]
            shown = [f"{gap:+.2f}" for gap in gaps]
            gains[d, words] = shown[0]
            rows.append([d, words, f"{100 * values.mean():.2f}", *shown])
    n_splits = len({each.job["split"] for each in done})
    return {
        "gain_at_2": gains["2", CRITERIA["sparing"]],
        "gain_at_full_rank": gains["full", CRITERIA["sparing"]],
        "table": table(
            ["d", "alpha is", "accuracy", "to always 0.003", 'to the rule of `alpha="auto"`'], rows
        ),
        "n_sets": len(names),
        "n_splits": n_splits,
    }


def _by_set(here: list[Done], chosen: list[str], names: list[str]) -> Any:
    """Accuracy with the chosen alphas, one mean for each set."""
    worth = [e.result["worth"][alpha] for e, alpha in zip(here, chosen, strict=True)]
    return np.array(
        [
            np.mean([w for w, e in zip(worth, here, strict=True) if e.job["data"] == name])
            for name in names
        ]
    )


def _choice(result: dict[str, Any], criterion: str) -> str:
    alphas = list(result["inside"])  # the strongest first
    key = "posterior" if criterion == "sparing" else criterion
    scores = np.array([[fold[key] for fold in result["inside"][a]] for a in alphas])
    best = int(np.argmax(scores.mean(axis=1)))
    if criterion != "sparing":
        return alphas[best]
    behind = scores[best] - scores
    error = behind.std(axis=1, ddof=1) / np.sqrt(behind.shape[1])
    return alphas[int(np.argmax(behind.mean(axis=1) <= error))]


EXPERIMENTS = (
    Experiment(
        "objectives",
        "Accuracy or log-probability? The comparison that Goldberger et al. leave open",
        jobs,
        compare,
        parts,
    ),
    Experiment(
        "alpha", "How strong a penalty? The path of alpha", path_jobs, compare_alphas, alpha_parts
    ),
    Experiment(
        "auto",
        'By what to choose alpha: the criteria of alpha="auto"',
        criterion_jobs,
        compare_criteria,
        criteria_parts,
    ),
)
