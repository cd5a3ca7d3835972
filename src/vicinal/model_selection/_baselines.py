"""The rivals of a comparison: the usual methods of scikit-learn, which others are compared with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from vicinal._threads import n_threads
from vicinal.core.types import Array
from vicinal.learner.build import make_preparation

#: rows that logistic regression, ridge regression, forests and boosted trees learn from at most
MOST_ROWS = 10_000
_KEPT_VARIANCE = 0.95  # of the scaled columns, by PCA without a rank
_SPARSE_RANK = 32  # of PCA without a rank, if the table is sparse
_DENSE_CELLS = 5e7  # of a sparse table that is made dense for methods that need it
_MOST_CLASSES = 50  # for which trees are boosted: each step grows a tree for every class


@dataclass(frozen=True)
class Baseline:
    """A usual method: what people call it, what it learns from, and the steps of its pipeline.

    ``make(n_classes, rank, seed)`` gives the steps after the preparation of the columns; without
    ``predict`` among them, nearest neighbours predict.
    """

    label: str
    target: str  # "classes", "numbers" or "both"
    make: Callable[[int, Any, int], list[Any]]
    limited: bool = False  # to MOST_ROWS
    dense: bool = False  # needs a dense table


def _pca(n_classes: int, rank: Any, seed: int) -> list[Any]:
    return [PCA(rank, random_state=seed)]


def _lda(n_classes: int, rank: Any, seed: int) -> list[Any]:
    most = n_classes - 1
    return [LinearDiscriminantAnalysis(n_components=None if rank is None else min(rank, most))]


def _forest(n_classes: int, rank: Any, seed: int) -> list[Any]:
    make = RandomForestClassifier if n_classes else RandomForestRegressor
    return [make(random_state=seed, n_jobs=n_threads())]


def _boosting(n_classes: int, rank: Any, seed: int) -> list[Any]:
    make = HistGradientBoostingClassifier if n_classes else HistGradientBoostingRegressor
    return [make(random_state=seed, early_stopping=False)]


BASELINES = {
    "majority": Baseline(
        "Most frequent class", "classes", lambda *_: [DummyClassifier(strategy="prior")]
    ),
    "mean": Baseline("Mean", "numbers", lambda *_: [DummyRegressor()]),
    "euclidean": Baseline("Euclidean distance", "both", lambda *_: []),
    "pca": Baseline("PCA", "both", _pca),
    "lda": Baseline("LDA", "classes", _lda, dense=True),
    "logistic": Baseline(
        "Logistic regression", "classes", lambda *_: [LogisticRegression(max_iter=1000)], True
    ),
    "ridge": Baseline(
        "Ridge regression", "numbers", lambda *_: [RidgeCV(np.logspace(-3, 3, 13))], True
    ),
    "forest": Baseline("Random forest", "both", _forest, True),
    "boosting": Baseline("Boosted trees", "both", _boosting, True, dense=True),
}


def usual_rivals(kind: str, n_classes: int) -> list[str]:
    """The names of the rivals for classes or numbers."""
    names = [name for name, each in BASELINES.items() if each.target in (kind, "both")]
    return [name for name in names if name != "boosting" or n_classes <= _MOST_CLASSES]


def make_baseline(
    name: str, X: Any, n_classes: int, rank: Any, seed: int, columns: dict[str, Any]
) -> Pipeline:
    """The pipeline of a rival; ``n_classes`` is 0 for numbers."""
    baseline = BASELINES[name]
    steps = [("prepare", make_preparation(X, random_state=seed, **columns))]
    if sp.issparse(X) and baseline.dense:
        if X.shape[0] * X.shape[1] > _DENSE_CELLS:
            raise ValueError(f"the sparse table is too large for it: it needs {X.shape} numbers.")
        steps.append(("dense", FunctionTransformer(_dense, accept_sparse=True)))
    if name == "pca" and rank is None:  # the rank of a sparse table cannot be found by its variance
        rank = min(_SPARSE_RANK, X.shape[1] - 1) if sp.issparse(X) else _KEPT_VARIANCE
    last = baseline.make(n_classes, rank, seed)
    return Pipeline([*steps, *(("learn", step) for step in last)])


def _dense(X: Any) -> Array:
    return np.asarray(X.toarray()) if sp.issparse(X) else np.asarray(X)


def some_rows(y: Array, most: int, seed: int) -> Array:
    """At most this many rows, of each class its share."""
    if len(y) <= most:
        return np.arange(len(y))
    order = np.random.RandomState(seed).permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    return np.sort(order[np.linspace(0, len(y) - 1, most).astype(np.intp)])
