"""How well the model predicts rows that it has not learnt from, and how well the usual methods do.

`compare` scores what ``predict`` does, by cross-validation or on held-out rows, as
:func:`vicinal.model_selection.compare_methods` does.  For methods without labels it counts the
neighbours that a picture keeps.  All that the page says about scores is in the `Comparison`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from vicinal.core.types import Array
from vicinal.estimators._pairs import TupleLearnerMixin
from vicinal.learner.errors import number_text
from vicinal.learner.preparation import options_of
from vicinal.model_selection._baselines import BASELINES, usual_rivals
from vicinal.model_selection._compare import compete, make_folds
from vicinal.model_selection._comparison import Comparison as Found
from vicinal.model_selection._comparison import MethodScores, judged
from vicinal.model_selection._rivals import Fold, Rival, make_rival
from vicinal.reporting.contents import Confusion, Mistake, Mistakes, Score, Verdict
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
_MISTAKES = 12  # that are listed


@dataclass(frozen=True)
class Comparison:
    """What the page says about scores; ``name`` is what a score is.

    ``predicted`` has a class for each point, predicted by a model that had not learnt from it, or
    -1.  ``uneven`` says whether some classes have many more rows than others.
    """

    scores: list[Score]
    note: str
    name: str
    verdict: Verdict | None = None
    confusion: Confusion | None = None
    mistakes: Mistakes | None = None
    predicted: Array | None = None
    uneven: bool = False
    notes: list[str] = field(default_factory=list)


def compare(
    points: Points,
    estimator: Any,
    whole: Part,
    split: bool,
    seconds: float | None,
    rivals: Sequence[str] | None,
    tell: Callable[[str], None],
) -> Comparison | None:
    """Score the model and the usual methods, on rows that they have not learnt from.

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
    rivals : sequence of str or None
        Names of the methods to compare with; None: the usual ones.
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
            found = _by_folds(points, estimator, part, rivals, None if quick else limit)
        if part is whole:
            return found
        told = f"A sample of {len(part):,} of {len(whole):,} rows was scored, so scores are lower"
        return replace(found, note=f"{found.note} {told} than those of all rows.")
    if len(points.test) == 0:
        return None
    tell("comparing with other methods")
    with warnings.catch_warnings(action="ignore"):
        return _by_split(points, rivals)


def _sample(n: int, most: int) -> Array:
    return np.sort(np.random.RandomState(0).permutation(n)[:most])


# The model and its rivals.


def _can_fold(whole: Part, points: Points) -> bool:
    """Whether there are rows for folds whose training rows are of several classes."""
    if whole.y is None:
        return False
    if points.kind == "numbers":
        return len(whole) >= 4 * _FOLDS
    counts = np.unique(whole.y, return_counts=True)[1]
    return len(whole) >= 2 * _FOLDS and len(counts) > 1 and int(np.sort(counts)[-2:].min()) > 1


def _by_folds(
    points: Points, estimator: Any, part: Part, rivals: Sequence[str] | None, seconds: float | None
) -> Comparison:
    """Compare by cross-validation on the rows of ``part``, each of which is held out once."""
    assert part.y is not None
    model = clone(estimator)
    if hasattr(learner_of(model), "set_callbacks"):
        learner_of(model).set_callbacks()  # those of the fit that is shown
    if not isinstance(model, Pipeline):
        model = Pipeline([("learn", model)])
    notes: list[str] = []
    classes = np.unique(part.y) if points.kind == "classes" else None
    methods = _rivals(points, model, part, rivals, classes)
    methods.append(_learnt(points, model, classes, fitted=False))
    splits = make_folds(part.y, points.kind, _FOLDS, 1, 0, notes)
    folds = (Fold.of(part.X, part.y, train, test) for train, test in splits)
    found = compete(methods, folds, len(splits), points.kind, notes, seconds)
    note = (
        f"Cross-validation of {len(part):,} rows in {found.n_folds} "
        f"{'' if found.complete else f'of {len(splits)} '}folds: each row is predicted by models "
        "that have not learnt from it."
    )
    return _told(points, found, part, part.y, methods, note)


def _by_split(points: Points, rivals: Sequence[str] | None) -> Comparison:
    """Compare on some of the held-out rows; the model is taken as it is."""
    train, test = points.parts
    test = test.take(_sample(len(test), _TESTED))
    assert train.y is not None
    assert test.y is not None
    classes = points.classes if points.kind == "classes" else None
    methods = _rivals(points, points.fitted.model, train, rivals, classes)
    methods.append(_learnt(points, points.fitted.model, classes, fitted=True))
    fold = Fold(train.X, train.y, test.X, test.y, np.arange(len(test)))
    found = compete(methods, [fold], 1, points.kind, [])
    note = (
        f"Scored on {len(test):,} rows that were held out; all methods learnt from the other "
        f"{len(train):,}."
    )
    told = _told(points, found, test, test.y, methods, note)
    return replace(told, predicted=None)  # the model itself predicts all held-out rows


def _learnt(points: Points, model: Any, classes: Array | None, fitted: bool) -> Rival:
    """The model that the page is about."""
    name = name_of(points.fitted.learner)
    return Rival(name, model, classes, _K, fitted=fitted, chi2=points.after.chi2)


def _rivals(
    points: Points, model: Any, part: Part, names: Sequence[str] | None, classes: Array | None
) -> list[Rival]:
    """The methods to compare with; they use the columns as the model does."""
    assert part.y is not None
    d = points.after.points.shape[1]
    prepare = model.named_steps.get("prepare") if isinstance(model, Pipeline) else None
    columns = options_of(prepare, part.X) if isinstance(prepare, ColumnTransformer) else {}
    if names is None:
        names = usual_rivals(points.kind, 0 if classes is None else len(classes))
    made = []
    for name in names:
        if name == "pca" and points.after.chi2:
            continue
        rank = d if name == "pca" else None
        if name == "pca" and not sp.issparse(part.X):
            rank = min(d, points.prepared.shape[1], len(part) // 2)
        rival = make_rival(
            name, part.X, part.y, points.kind, _K, n_components=rank, random_state=0,
            columns=columns,
        )  # fmt: skip
        rival.classes = classes
        rival.label = BASELINES[name].label
        if name == "euclidean" and points.after.chi2:
            rival.label, rival.chi2 = "χ² distance", True
            rival.model = Pipeline([("as they are", FunctionTransformer(_dense))])
        elif name == "euclidean" and points.images:  # pixels are compared as they are
            rival.model = Pipeline([("centre", StandardScaler(with_std=False))])
        elif name == "pca":
            rival.label = f"PCA to {dims(rank or d)}"
            if points.images:
                rival.model = Pipeline([("pca", PCA(rank, random_state=0))])
        made.append(rival)
    return made


def _dense(X: Any) -> Any:
    return X.toarray() if sp.issparse(X) else np.asarray(X)


# What the page says of them.


def _told(
    points: Points, found: Found, part: Part, y: Array, methods: list[Rival], note: str
) -> Comparison:
    """Scores, the verdict, and what was predicted for each row of ``part``."""
    labels = {rival.name: rival.called for rival in methods}
    learnt = found.results[-1]
    scores, first = [], found.score_name
    for one in found.results:
        votes = one.name in ("euclidean", "pca") or (not one.rival and one.knn_mean is None)
        scores.append(Score(
            labels[one.name], one.mean, one.error, learnt=one is learnt,
            note=f"{_K} nearest neighbours" if votes else "", best=one.name == found.best_rival,
            more={name: mean for name, (mean, _) in one.measures.items() if name != first},
        ))  # fmt: skip
    if learnt.knn_mean is not None and learnt.knn_error is not None:
        scores.append(Score(
            f"{_K} nearest neighbours in the space of {learnt.name}", learnt.knn_mean,
            learnt.knn_error,
        ))  # fmt: skip
    note += " ± is one standard error, which allows for overlapping training rows."
    classes = methods[-1].classes
    confusion = predicted = None
    if classes is not None:
        confusion, predicted = _confusion(points, learnt, part, y, classes)
    best = next((score for score in scores if score.best), None)
    return Comparison(
        scores, note, found.score_name, _verdict(learnt, best, found.score_name), confusion,
        _mistakes(points, learnt, part, y, classes), predicted, found.uneven, found.notes,
    )  # fmt: skip


def _verdict(learnt: MethodScores, best: Score | None, name: str) -> Verdict | None:
    if best is None or learnt.difference is None or learnt.difference_error is None:
        return None
    own, other = figure(learnt.mean, name), figure(best.mean, name)
    rival = f"{best.inside}, the best of the usual methods"
    by = difference(abs(learnt.difference), learnt.difference_error, name)
    kind = judged(learnt.difference, learnt.difference_error)
    scores = f"{_capital(name)} {own} against {other}"
    if kind == "level":
        told = (
            f"No clear difference from {rival}. {scores}; the difference, {by}, is within two "
            "standard errors."
        )
    else:
        told = f"{learnt.name} is {kind} than {rival}. {scores}, a difference of {by}."
    return Verdict(kind, told)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _confusion(
    points: Points, learnt: MethodScores, part: Part, y: Array, classes: Array
) -> tuple[Confusion, Array]:
    """How often each class was predicted as each, and what was predicted for each point."""
    held = learnt.predictions
    assert held.codes is not None
    counts = np.zeros((len(classes), len(classes)), np.intp)
    np.add.at(counts, (np.searchsorted(classes, y[held.rows]), held.codes), 1)
    predicted = np.full(points.n, -1)
    at = _points_of(points, part)[held.rows]
    shown = at >= 0
    known = np.searchsorted(points.classes, classes[held.codes])
    predicted[at[shown]] = np.minimum(known, len(points.classes) - 1)[shown]
    return Confusion([str(name) for name in classes], counts), predicted


def _points_of(points: Points, part: Part) -> Array:
    """The point of each row of ``part``, or -1 if it is not shown."""
    rows = np.concatenate([each.rows for each in points.parts])
    place = np.full(1 + max(int(rows.max()), int(part.rows.max())), -1)
    place[rows] = np.arange(len(rows))
    return place[part.rows]


def _mistakes(
    points: Points, learnt: MethodScores, part: Part, y: Array, classes: Array | None
) -> Mistakes | None:
    """The rows that were most surely predicted wrongly."""
    held, place = learnt.predictions, _points_of(points, part)
    truth = y[held.rows]
    if classes is None:
        assert held.values is not None
        worst = np.argsort(-np.abs(held.values - truth.astype(np.float64)), kind="stable")
        chosen = worst[:_MISTAKES]
        texts = [
            (number_text(float(truth[i]), 5), number_text(held.values[i], 5), np.nan)
            for i in chosen
        ]
        note = "The rows whose predictions are farthest off."
    else:
        assert held.codes is not None
        wrong = np.flatnonzero(classes[held.codes] != truth)
        if held.confidence is None or len(wrong) == 0:
            return None
        chosen = wrong[np.argsort(-held.confidence[wrong], kind="stable")][:_MISTAKES]
        texts = [
            (str(truth[i]), str(classes[held.codes[i]]), float(held.confidence[i])) for i in chosen
        ]
        note = f"{len(wrong):,} of {len(truth):,} rows {'was' if len(wrong) == 1 else 'were'} "
        note += "predicted wrongly"
        note += ", these most surely." if len(wrong) > len(chosen) else "."
    rows = [
        Mistake(part.names[held.rows[i]], int(place[held.rows[i]]), *text)
        for i, text in zip(chosen, texts, strict=True)
    ]
    return Mistakes(rows, note)


# Votes of neighbours.


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
    scores = [
        Score(label, *mean_and_error(s), learnt=label == name, best=label == old)
        for label, s in found.items()
    ]
    gain, error = mean_and_error(own - first)
    by = difference(abs(gain), error, KEPT)
    kind = judged(gain, error)
    told = f"{name} keeps {by} {'more' if gain > 0 else 'fewer'} of the neighbours than {old}."
    if kind == "level":
        told = (
            f"No clear difference from {old}: {by} of the neighbours, within two standard errors."
        )
    note = (
        f"Labels are not used. The score is the share of the {k} nearest rows of the table that "
        f"are among the {k} nearest points of the picture, over {len(rows):,} rows. ± is one "
        "standard error."
    )
    return Comparison(scores, note, KEPT, Verdict(kind, told))


# Words.


def dims(d: int) -> str:
    """A number of dimensions, in few words."""
    return "1 dimension" if d == 1 else f"{d} dimensions"


def figure(score: float, name: str) -> str:
    """A score as people write it."""
    return f"{score:.3f}" if name.endswith("R²") else f"{100 * score:.1f} %"


def difference(gain: float, error: float, name: str) -> str:
    """A difference of scores with its error, as people write it."""
    if name.endswith("R²"):
        return f"{gain:.3f} ± {error:.3f}"
    return f"{100 * gain:.1f} ± {100 * error:.1f} points"
