"""What was learnt, in plain words: sentences computed from the figures."""

from __future__ import annotations

import numpy as np

from vicinal.core.types import Array
from vicinal.learner.preparation import columns_used
from vicinal.reporting.contents import Metric, Neighbours, Score
from vicinal.reporting.history import Parting
from vicinal.reporting.scores import KEPT, Comparison, Gain, figure
from vicinal.reporting.spaces import Points
from vicinal.reporting.subject import learns_labels, name_of

_CLEAR = 2.0  # standard errors that a difference must exceed


def sentences_of(
    points: Points,
    comparison: Comparison | None,
    neighbours: Neighbours,
    metric: Metric | None,
    parting: Parting | None,
) -> list[str]:
    """The first paragraph of the page."""
    told, D = [_what(points)], points.prepared.shape[1]
    if comparison is not None:
        told += verdict(comparison, points.after.points.shape[1], _n_columns(points))
    if points.kind == "classes" and (len(points.test) or not learns_labels(points.fitted.learner)):
        told.append(_neighbours_agree(neighbours, points))
    if parting is not None and parting.wide:
        told.append(
            f"It over-fits: the {parting.name} is {figure(parting.train[-1][0], parting.name)} on "
            f"rows that it learnt from, and {figure(parting.held_out[-1][0], parting.name)} on "
            "others."
        )
    if metric is not None and len(metric.features) > 1:
        told.append(_most_important(metric, D))
    return told


def _n_columns(points: Points) -> int:
    """The columns of the table that the model uses."""
    used = columns_used(points.fitted.model)
    return int(points.parts[0].X.shape[1]) if used is None else sum(map(len, used.values()))


def _what(points: Points) -> str:
    learner, (n_train, n_held_out) = points.fitted.learner, points.counts
    name, labels = name_of(learner), learns_labels(learner)
    rows = f"{n_train:,} rows"
    if points.kind == "classes" and labels:
        rows += f" of {len(points.classes)} classes"
    d, n_features = dimensions(points.after.points.shape[1]), points.prepared.shape[1]
    n_columns = _n_columns(points)
    columns = "1 column" if n_columns == 1 else f"{n_columns:,} columns"
    if n_features != n_columns:
        columns += f" ({n_features:,} features after encoding)"
    kind = "a linear map" if hasattr(learner, "components_") else "a map"
    told = f"{name} learnt {kind} of {columns} to {d} from {rows}"
    if not labels:
        told = f"{name} placed {rows} of {columns} in {d}"
    if n_held_out:
        return f"{told}; {n_held_out:,} rows were held out, and not learnt from."
    return told + "."


def verdict(comparison: Comparison, d: int, n_columns: int) -> list[str]:
    """Whether the learnt metric is better than what was there, beyond the error."""
    scores = {score.name: score for score in comparison.scores}
    learnt = next(score for score in comparison.scores if score.learnt)
    name, first = comparison.name, comparison.gains[0]
    where = "" if name == KEPT else " on rows that were not learnt from"
    told = [
        f"{_capital(name)}{where}: {_score(learnt, name)} with {learnt.name}, "
        f"{_score(scores[first.over], name)} with {first.over}.",
        _judged(first, learnt.name, name),
    ]
    for gain in comparison.gains[1:]:
        judged = _judged(gain, learnt.name, name)
        if gain.mean < -_CLEAR * gain.error:
            judged = f"{_capital(dimensions(d))} do not hold all of it: learn more to predict."
        told.append(
            f"{gain.over} distance of all {n_columns:,} columns reaches "
            f"{_score(scores[gain.over], name)}. {judged}"
        )
    compared = {gain.over for gain in comparison.gains}
    rivals = [s for s in comparison.scores if not s.learnt and s.name not in compared]
    if rivals:
        best = max(rivals, key=lambda score: score.mean)
        told[1] += f" {best.name} reaches {_score(best, name)}."
    return told


def _judged(gain: Gain, learnt: str, name: str) -> str:
    if gain.mean > _CLEAR * gain.error:
        return f"{learnt} is better by {_difference(gain.mean, gain.error, name)}."
    if gain.mean < -_CLEAR * gain.error:
        by = _difference(-gain.mean, gain.error, name)
        return f"{learnt} is worse than {gain.over} by {by}."
    return (
        f"The difference, {_difference(gain.mean, gain.error, name)}, is within the error: "
        f"{learnt} is not shown to be better than {gain.over}."
    )


def dimensions(d: int) -> str:
    """A number of dimensions in words."""
    words = {1: "one dimension", 2: "two dimensions", 3: "three dimensions"}
    return words.get(d, f"{d} dimensions")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _score(score: Score, name: str) -> str:
    if name == "R²":
        return f"{score.mean:.3f} ± {score.error:.3f}"
    return f"{100 * score.mean:.1f} % ± {100 * score.error:.1f}"


def _difference(gain: float, error: float, name: str) -> str:
    if name == "R²":
        return f"{gain:.3f} ± {error:.3f}"
    return f"{100 * gain:.1f} ± {100 * error:.1f} points"


def _neighbours_agree(neighbours: Neighbours, points: Points) -> str:
    codes, unseen = points.y, len(points.test) > 0
    assert codes is not None
    rows = points.test if unseen else points.train

    def share(near: Array) -> float:
        listed = near[rows] >= 0
        same = (codes[np.maximum(near[rows], 0)] == codes[rows][:, None]) & listed
        return float(same.sum() / max(1, listed.sum()))

    k = neighbours.after.shape[1]
    return (
        f"Of the {k} nearest {'training rows of a held-out row' if unseen else 'rows of a row'}, "
        f"{100 * share(neighbours.after):.0f} % are of its class after learning, "
        f"{100 * share(neighbours.before):.0f} % before."
    )


def _most_important(metric: Metric, n_features: int) -> str:
    assert metric.importances is not None
    top = [
        f"{name} ({100 * share:.0f} %)"
        for name, share in zip(metric.features[:3], metric.importances[:3], strict=True)
    ]
    listed = f"{', '.join(top[:-1])} and {top[-1]}"
    half = 1 + int(np.searchsorted(np.cumsum(metric.importances), 0.5))
    told = f"The features that weigh most are {listed}"
    if n_features > 5 and half < len(metric.features):
        makes = "makes" if half == 1 else "make"
        told += f"; {half} of {n_features:,} {makes} up half of the metric"
    return told + "."


def facts_of(points: Points, iterates: bool) -> dict[str, str]:
    """Short texts by short names."""
    learner, (n_train, n_held_out) = points.fitted.learner, points.counts
    learnt = f"{n_train:,}"
    if n_held_out:
        learnt += f" learnt from, {n_held_out:,} held out"
    found = {"Method": name_of(learner), "Rows": learnt, "Columns": f"{_n_columns(points):,}"}
    if points.kind == "classes":
        found["Classes"] = f"{len(points.classes):,}"
    found["Dimensions"] = str(points.after.points.shape[1])
    if iterates and hasattr(learner, "n_iter_"):
        found["Iterations"] = f"{learner.n_iter_:,}"
    seconds = points.fitted.seconds
    if seconds is not None:
        found["Time of the fit"] = f"{seconds:.1f} s" if seconds < 60 else f"{seconds / 60:.1f} min"
    return found
