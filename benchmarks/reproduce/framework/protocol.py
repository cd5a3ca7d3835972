"""What the protocols share: data, splits and classifiers."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from vicinal import datasets

__all__ = ["SMALL", "data", "knn", "learn_and_judge", "official", "rows_70_30", "stratified"]

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
