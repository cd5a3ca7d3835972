"""How well neighbours predict rows that were not learnt from, before and after learning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from vicinal.core.types import Array
from vicinal.reporting.contents import Score
from vicinal.reporting.spaces import Space, principal

_K = 5  # voters
KEPT = "neighbours kept"  # what a score is without labels
SHARE = (0.0, 1.0)  # the scores of a wrong and a right row
_LDA_COLUMNS = 2000  # with more columns the discriminant takes too long
_LDA_ROWS = 20_000  # more rows do not change it by much


class Gain(NamedTuple):
    """By how much the learnt method is better than another, and the standard error of that."""

    over: str
    mean: float
    error: float


@dataclass(frozen=True)
class Comparison:
    """Scores of some methods, and what is gained over some of them.

    The first score is what the learnt method is compared with first: Euclidean distance, or, if
    the map has fewer dimensions than columns, PCA of as many.  ``name`` is what a score is.
    """

    scores: list[Score]
    note: str
    name: str
    gains: list[Gain]


def has_fewer(d: int, n_columns: int) -> bool:
    """Whether a map has fewer dimensions than columns: it is first compared with its equals."""
    return d < n_columns


def knn_scores(space: Space, train: Array, queries: Array, y: Array, k: int = _K) -> Array:
    """The score of each query as its k nearest training rows predict it.

    1 or 0 for class codes; 1 - squared error / variance for numbers, whose mean is R².
    """
    near, _ = space.nearest(queries, train, min(k, len(train) - 1) or 1)
    listed = near >= 0
    voters = y[np.maximum(near, 0)]
    if y.dtype.kind == "f":
        mean = np.sum(voters, axis=1, where=listed) / np.maximum(listed.sum(axis=1), 1)
        return 1.0 - (mean - y[queries]) ** 2 / (np.var(y[queries]) or 1.0)
    votes = np.zeros((len(queries), int(y.max()) + 1))
    # of classes with equally many votes the one with the nearest voter wins
    ballot = np.where(listed, 1.0 - 1e-6 * np.arange(near.shape[1]), 0.0)
    np.add.at(votes, (np.arange(len(queries))[:, None], voters), ballot)
    return (votes.argmax(axis=1) == y[queries]).astype(np.float64)


def by_split(
    before: Space, after: Space, train: Array, test: Array, y: Array, name: str
) -> Comparison:
    """Compare on one split: the learnt map as it is, the others fitted to the same rows.

    Parameters
    ----------
    before, after : Space
        All points.
    train, test : int arrays
        The points that were learnt from, and the others that are scored.
    y : array
        Class codes, or numbers as floats.
    name : str
        The learnt method.
    """
    d, D = after.points.shape[1], before.points.shape[1]
    old = "χ² distance" if before.chi2 else "Euclidean"
    what = "R²" if y.dtype.kind == "f" else "accuracy"
    spaces = {old: before}
    if not before.chi2:
        spaces |= {f"PCA, {dims(d)}": Space(_pca(before.points, train, d))}
        if what == "accuracy" and D <= _LDA_COLUMNS:
            Z = _lda(before.points, train, y, d)
            spaces |= {f"LDA, {dims(Z.shape[1])}": Space(Z)}
    order = list(spaces)
    if has_fewer(d, D) and not before.chi2:
        order[:2] = order[1::-1]
    found = {label: knn_scores(spaces[label], train, test, y) for label in order}
    found[name] = knn_scores(after, train, test, y)
    of_score, of_gain = (SHARE, (-1.0, 1.0)) if what == "accuracy" else ((), ())
    scores = [
        Score(label, *mean_and_error(one, of_score), learnt=label == name)
        for label, one in found.items()
    ]
    gains = [
        Gain(label, *mean_and_error(found[name] - found[label], of_gain))
        for label in dict.fromkeys([order[0], old])
    ]
    predict = "vote on its class" if what == "accuracy" else "give the mean that predicts it"
    note = (
        f"Scored on {len(test):,} rows that were held out of learning: the {_K} nearest of the "
        f"{len(train):,} training rows {predict}. ± is one standard error over the held-out rows."
    )
    return Comparison(scores, note, what, gains)


def mean_and_error(values: Array, extremes: tuple[float, ...] = ()) -> tuple[float, float]:
    """A mean and its standard error.

    For the error the ``extremes`` are added to the values, one right and one wrong row, so that
    it is not zero where all of a few rows are right.
    """
    padded = np.concatenate([values, extremes])
    return float(np.mean(values)), float(np.std(padded) / np.sqrt(len(padded)))


def kept_neighbours(before: Space, picture: Space, after: Space, name: str) -> Comparison:
    """Without labels: the share of the nearest rows that a picture keeps near."""
    n = after.points.shape[0]
    rows = np.sort(np.random.RandomState(0).permutation(n)[:2000])
    k = min(10, n - 2)
    true = before.nearest(rows, np.arange(n), k)[0]

    def kept(space: Space) -> Array:
        near = space.nearest(rows, np.arange(n), k)[0]
        return np.array([np.isin(a, b).mean() for a, b in zip(near, true, strict=True)])

    found = {f"PCA, {dims(picture.points.shape[1])}": kept(picture), name: kept(after)}
    scores = [Score(label, *mean_and_error(s), learnt=label == name) for label, s in found.items()]
    label, first = next(iter(found.items()))
    gain = Gain(label, *mean_and_error(found[name] - first))
    note = (
        f"Labels are not used. The score is the share of the {k} nearest rows of the table that "
        f"are among the {k} nearest points of the picture, over {len(rows):,} rows. ± is one "
        "standard error."
    )
    return Comparison(scores, note, KEPT, [gain])


def _pca(points: Any, train: Array, d: int) -> Array:
    """Principal components of the training rows, applied to all."""
    if sp.issparse(points):
        return principal(points, d)[0]
    made = PCA(min(d, len(train), points.shape[1]), random_state=0)
    return made.fit(points[train]).transform(points)


def _lda(points: Any, train: Array, y: Array, d: int) -> Array:
    """Fisher's discriminants of the training rows, applied to all."""
    dense = points.toarray() if sp.issparse(points) else points
    made = LinearDiscriminantAnalysis(
        n_components=min(d, len(np.unique(y[train])) - 1, dense.shape[1])
    )
    some = np.random.RandomState(0).permutation(train)[:_LDA_ROWS]
    return made.fit(dense[some], y[some]).transform(dense).astype(np.float32)


def dims(d: int) -> str:
    """A number of dimensions, in few words."""
    return "1 dimension" if d == 1 else f"{d} dimensions"
