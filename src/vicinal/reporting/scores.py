"""How well neighbours predict rows that were not learnt from, before and after learning.

`compare` chooses how the learnt metric is compared with others: by cross-validation, on held-out
rows, or, for methods without labels, by the neighbours that a picture keeps.  All that the page
says about scores is in the `Comparison`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from vicinal.core.types import Array
from vicinal.estimators._pairs import TupleLearnerMixin
from vicinal.learner.preparation import options_of
from vicinal.model_selection import compare_methods
from vicinal.model_selection._comparison import corrected_error
from vicinal.reporting.contents import Score
from vicinal.reporting.spaces import Points, Space, principal
from vicinal.reporting.subject import Part, learner_of, learns_labels, name_of

KEPT = "neighbours kept"  # what a score is without labels
SHARE = (0.0, 1.0)  # the scores of a wrong and a right row
_K = 5  # voters
_FOLDS = 5
_SECONDS = 60.0  # of a cross-validation, about
_FOLDED = 5_000  # most rows of a cross-validation
_FOLDED_AGAIN = 2_000  # most rows, where it is not known how long a fit takes
_TESTED = 3_000  # most held-out rows that are scored
_COMPARED = 2_000  # rows whose neighbours are compared without labels
_LDA_COLUMNS = 2_000  # with more columns the discriminant takes too long
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


def compare(
    points: Points,
    estimator: Any,
    whole: Part,
    split: bool,
    seconds: float | None,
    tell: Callable[[str], None],
) -> Comparison | None:
    """Score the learnt metric and others, on rows that it was not learnt from.

    Small tables are cross-validated.  Large ones, and fits that take long, are scored on the
    held-out rows of one split.

    Parameters
    ----------
    points : Points
    estimator : estimator
        As it was given; its clones are fitted in the folds.
    whole : Part
        All rows that may be learnt from.
    split : bool
        Whether rows for testing were given: no others are scored then.
    seconds : float or None
        Limit for a cross-validation.
    tell : callable
        Called with a few words.
    """
    learner = points.fitted.learner
    if not learns_labels(learner):
        return None if points.n < 4 else _kept_neighbours(points)
    if points.y is None or isinstance(learner, TupleLearnerMixin):
        return None
    limit, took = _SECONDS if seconds is None else seconds, points.fitted.seconds
    quick = took is not None and _FOLDS * took <= limit and len(whole) <= _FOLDED
    if not split and (quick or len(points.test) == 0) and _can_fold(whole, points):
        tell(f"cross-validating in {_FOLDS} folds")
        rows = _sample(len(whole), _FOLDED if quick else _FOLDED_AGAIN)
        part = whole if len(rows) == len(whole) else whole.take(rows)
        with warnings.catch_warnings(action="ignore"):  # of fits that nobody looks at
            found = _by_folds(points, estimator, part, None if quick else limit)
        if part is whole:
            return found
        told = f"A sample of {len(part):,} of {len(whole):,} rows was scored, so scores are lower"
        return replace(found, note=f"{found.note} {told} than those of all rows.")
    if len(points.test) == 0:
        return None
    tell("comparing with other distances")
    return _by_split(points, points.test[_sample(len(points.test), _TESTED)], points.y)


def _sample(n: int, most: int) -> Array:
    return np.sort(np.random.RandomState(0).permutation(n)[:most])


# Cross-validation: everything is fitted anew in each fold.


def _can_fold(whole: Part, points: Points) -> bool:
    """Whether each fold has a row of every class, and rows to learn it from."""
    if points.after.chi2 or sp.issparse(whole.X) or whole.y is None:
        return False
    if points.kind == "numbers":
        return len(whole) >= 4 * _FOLDS
    return int(np.unique(whole.y, return_counts=True)[1].min()) >= _FOLDS


def _by_folds(points: Points, estimator: Any, part: Part, seconds: float | None) -> Comparison:
    """Compare by cross-validation on the rows of ``part``, each of which is held out once."""
    name, d = name_of(points.fitted.learner), points.after.points.shape[1]
    model = clone(estimator)
    if hasattr(learner_of(model), "set_callbacks"):
        learner_of(model).set_callbacks()  # those of the fit that is shown
    if not isinstance(model, Pipeline):
        model = Pipeline([("learn", model)])
    methods: list[Any] = ["euclidean", "pca", "lda", (name, model)]
    if points.kind != "classes":
        methods.remove("lda")
    if points.images:  # pixels are compared as they are
        methods[0] = ("euclidean", Pipeline([("centre", StandardScaler(with_std=False))]))
        methods[1] = ("pca", Pipeline([("pca", PCA(d, random_state=0))]))
    prepare = model.named_steps.get("prepare")  # the others use the columns as the learner does
    columns = options_of(prepare, part.X) if isinstance(prepare, ColumnTransformer) else {}
    found = compare_methods(
        part.X, part.y, methods, n_components=d, cv=_FOLDS, n_neighbors=_K, target=points.kind,
        random_state=0, time_budget=seconds, **columns,
    )  # fmt: skip
    scores = {}
    for one in found.results:
        label = {"euclidean": "Euclidean", "pca": "PCA", "lda": "LDA"}.get(one.name, one.name)
        if one.name in ("pca", "lda"):
            label += f", {dims(one.n_components)}"
        error = _known(one.error)
        if points.kind == "classes":
            error = max(error, _least(one.mean, len(part)))
        scores[one.name] = Score(label, one.mean, error, learnt=one.name == name)
    first = "pca" if d < found["euclidean"].n_components else "euclidean"
    share = 1 / (_FOLDS - 1)  # of the rows that a fold tests and learns from
    gains = []
    for other in dict.fromkeys([first, "euclidean"]):
        better = found[name].scores - found[other].scores
        error = max(_known(corrected_error(better, share)), 1.0 / len(part))  # one row more or less
        gains.append(Gain(scores[other].name, float(better.mean()), error))
    rule = "give the mean that predicts it" if points.kind == "numbers" else "vote on its class"
    note = (
        f"Cross-validation of {len(part):,} rows in {found.n_folds} of {_FOLDS} folds: a row is "
        f"predicted by metrics that were not learnt from it; its {_K} nearest training rows {rule}."
        " ± is one standard error, which allows for the rows that the folds share."
    )
    listed = [scores[label] for label in dict.fromkeys([first, *scores])]
    return Comparison(listed, note, found.score_name, gains)


def _least(share: float, n: int) -> float:
    """The error of a share of n independent rows: folds that agree by luck do not make it less."""
    share = (share * n + 1) / (n + 2)
    return float(np.sqrt(share * (1 - share) / n))


def _known(error: float | None) -> float:
    """An error, or as large as a score if there was one fold only."""
    return 1.0 if error is None or np.isnan(error) else float(error)


# One split: the learnt map as it is, the others fitted to the same rows.


def _by_split(points: Points, test: Array, y: Array) -> Comparison:
    """Compare on some of the held-out points, ``test``."""
    before, after, train = points.before, points.after, points.train
    name, d, D = name_of(points.fitted.learner), after.points.shape[1], before.points.shape[1]
    old = "χ² distance" if before.chi2 else "Euclidean"
    numbers = y.dtype.kind == "f"
    spaces = {old: before}
    if not before.chi2:
        pca = {f"PCA, {dims(d)}": Space(_pca(before.points, train, d))}
        spaces = pca | spaces if d < D else spaces | pca
        if not numbers and D <= _LDA_COLUMNS:
            Z = _lda(before.points, train, y, d)
            spaces |= {f"LDA, {dims(Z.shape[1])}": Space(Z)}
    first = next(iter(spaces))
    found = {label: knn_scores(space, train, test, y) for label, space in spaces.items()}
    found[name] = knn_scores(after, train, test, y)
    of_score, of_gain = ((), ()) if numbers else (SHARE, (-1.0, 1.0))
    scores = [
        Score(label, *mean_and_error(one, of_score), learnt=label == name)
        for label, one in found.items()
    ]
    gains = [
        Gain(label, *mean_and_error(found[name] - found[label], of_gain))
        for label in dict.fromkeys([first, old])
    ]
    predict = "give the mean that predicts it" if numbers else "vote on its class"
    note = (
        f"Scored on {len(test):,} rows that were held out of learning: the {_K} nearest of the "
        f"{len(train):,} training rows {predict}. ± is one standard error over the held-out rows."
    )
    return Comparison(scores, note, "R²" if numbers else "accuracy", gains)


def knn_scores(space: Space, train: Array, queries: Array, y: Array) -> Array:
    """The score of each query as its nearest training rows predict it.

    1 or 0 for class codes; 1 - squared error / variance for numbers, whose mean is R².
    """
    near, _ = space.nearest(queries, train, min(_K, len(train) - 1) or 1)
    listed = near >= 0
    voters = y[np.maximum(near, 0)]
    if y.dtype.kind == "f":
        mean = np.sum(voters, axis=1, where=listed) / np.maximum(listed.sum(axis=1), 1)
        return 1.0 - (mean - y[queries]) ** 2 / (np.var(y[queries]) or 1.0)
    votes = np.zeros((len(queries), int(y.max()) + 1))
    # of classes with equally many votes the one whose voters are nearer by rank wins
    ballot = np.where(listed, 1.0 - 1e-6 * np.arange(near.shape[1]), 0.0)
    np.add.at(votes, (np.arange(len(queries))[:, None], voters), ballot)
    return (votes.argmax(axis=1) == y[queries]).astype(np.float64)


def mean_and_error(values: Array, extremes: tuple[float, ...] = ()) -> tuple[float, float]:
    """A mean and its standard error.

    For the error the ``extremes`` are added to the values, one right and one wrong row, so that
    it is not zero where all of a few rows are right.
    """
    padded = np.concatenate([values, extremes])
    return float(np.mean(values)), float(np.std(padded) / np.sqrt(len(padded)))


def _pca(points: Any, train: Array, d: int) -> Array:
    """Principal components of the training rows, applied to all."""
    if sp.issparse(points):
        return principal(points, d)[0]
    made = PCA(min(d, len(train), points.shape[1]), random_state=0)
    return made.fit(points[train]).transform(points)


def _lda(points: Any, train: Array, y: Array, d: int) -> Array:
    """Fisher's discriminants of the training rows, applied to all."""
    dense = points.toarray() if sp.issparse(points) else points
    d = min(d, len(np.unique(y[train])) - 1, dense.shape[1])
    some = np.random.RandomState(0).permutation(train)[:_LDA_ROWS]
    made = LinearDiscriminantAnalysis(n_components=d).fit(dense[some], y[some])
    return made.transform(dense).astype(np.float32)


# Without labels.


def _kept_neighbours(points: Points) -> Comparison:
    """The share of the nearest rows that a picture keeps near."""
    n, d = points.n, points.after.points.shape[1]
    rows, k = _sample(n, _COMPARED), min(10, n - 2)

    def nearest(space: Space) -> Array:
        return space.nearest(rows, np.arange(n), k)[0]

    true = nearest(points.before.quick(_COMPARED, n)[0])
    spaces = {f"PCA, {dims(d)}": Space(principal(points.before.points, d)[0])}
    spaces[name_of(points.fitted.learner)] = points.after
    found = {
        label: np.array([np.isin(a, b).mean() for a, b in zip(nearest(space), true, strict=True)])
        for label, space in spaces.items()
    }
    (old, first), (name, own) = found.items()
    scores = [Score(label, *mean_and_error(s), learnt=label == name) for label, s in found.items()]
    note = (
        f"Labels are not used. The score is the share of the {k} nearest rows of the table that "
        f"are among the {k} nearest points of the picture, over {len(rows):,} rows. ± is one "
        "standard error."
    )
    return Comparison(scores, note, KEPT, [Gain(old, *mean_and_error(own - first))])


# Words.


def dims(d: int) -> str:
    """A number of dimensions, in few words."""
    return "1 dimension" if d == 1 else f"{d} dimensions"


def figure(score: float, name: str) -> str:
    """A score as people write it."""
    return f"{score:.3f}" if name == "R²" else f"{100 * score:.1f} %"
