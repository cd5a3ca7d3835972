"""What the protocols share: data, splits, classifiers and standard errors."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from vicinal import datasets

__all__ = [
    "SMALL",
    "Summary",
    "data",
    "knn",
    "learn_and_judge",
    "official",
    "rows_70_30",
    "stratified",
    "summary",
]

#: the sets of the comparison and of the defaults
SMALL = (
    "iris",
    "wine",
    "balance",
    "glass",
    "ionosphere",
    "ecoli",
    "pima",
    "transfusion",
    "yeast",
    "spectf",
    "segment",
)


@lru_cache(maxsize=2)
def data(name: str) -> tuple[Any, Any]:
    """A data set's rows and labels, as stored."""
    bunch = datasets.load(name)
    return np.asarray(bunch.data), np.asarray(bunch.target)


def official(name: str) -> tuple[Any, Any]:
    """Positions of the training and test rows of a set that comes with its split."""
    is_train = np.asarray(datasets.load(name).is_train, dtype=bool)
    return np.flatnonzero(is_train), np.flatnonzero(~is_train)


def rows_70_30(n: int, seed: int) -> tuple[Any, Any]:
    """Positions of 70 % of the rows and of the rest, at random, as the papers say no more."""
    order = np.random.RandomState(seed).permutation(n)
    cut = round(0.7 * n)
    return order[:cut], order[cut:]


def stratified(y: Any, seed: int, rows: Any = None) -> tuple[Any, Any]:
    """Positions of 70 % of the rows and of the rest, class by class where each has two."""
    rows = np.arange(len(y)) if rows is None else rows
    by = y[rows] if np.bincount(y[rows])[np.unique(y[rows])].min() > 1 else None
    return tuple(train_test_split(rows, test_size=0.3, stratify=by, random_state=seed))


def learn_and_judge(y: Any, split: int) -> tuple[Any, Any]:
    """Of the training rows of a split, 70 % to learn from and 30 % to judge by."""
    training, _ = stratified(y, split)
    return stratified(y, split, training)


def knn(Z_train: Any, y_train: Any, Z_test: Any, y_test: Any, k: int = 1) -> float:
    """Test accuracy of the k nearest."""
    k = min(k, len(Z_train))
    return float(KNeighborsClassifier(k).fit(Z_train, y_train).score(Z_test, y_test))


class Summary:
    """Mean and standard error of some scores, in per cent."""

    def __init__(self, scores: Any) -> None:
        scores = 100.0 * np.asarray(scores, dtype=float)
        self.mean = float(scores.mean())
        self.error = float(scores.std(ddof=1) / np.sqrt(len(scores))) if len(scores) > 1 else 0.0

    def __str__(self) -> str:
        # what would be printed as 0.00 is the rounding of scores that are all the same
        return f"{self.mean:.2f} ± {self.error:.2f}" if self.error > 5e-3 else f"{self.mean:.2f}"


def summary(done: list[Any], key: str, **where: Any) -> Summary | None:
    """Of one score over the jobs that match; None where there is none."""
    scores = [
        each.result[key]
        for each in done
        if all(each.job.get(name) == value for name, value in where.items())
    ]
    return Summary(scores) if scores else None
