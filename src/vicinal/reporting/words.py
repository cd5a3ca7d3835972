"""What was learnt, in plain words: sentences computed from the figures."""

from __future__ import annotations

import numpy as np

from vicinal.core.types import Array
from vicinal.learner.methods import METHODS
from vicinal.learner.preparation import columns_used
from vicinal.reporting.contents import Metric, Neighbours
from vicinal.reporting.history import Parting
from vicinal.reporting.scores import Comparison, figure
from vicinal.reporting.spaces import Points
from vicinal.reporting.subject import learns_labels, name_of

_WORTH = 0.005  # the share of the metric from which on a column is named
_FEW_CLASSES = 4  # that the first sentence names


def title_of(points: Points, target: str, source: str) -> str:
    """What is learnt from what, as a title."""
    target = _quoted(target)
    columns = f"{_columns(points)} of {source}" if source else _columns(points)
    if points.kind == "numbers":
        return f"Predicting {target or 'a number'} from {columns}"
    if points.kind == "classes" and learns_labels(points.fitted.learner):
        return f"Telling {target or f'{len(points.classes)} classes'} apart from {columns}"
    return f"A picture of {columns}"


def sentences_of(
    points: Points,
    comparison: Comparison | None,
    neighbours: Neighbours,
    metric: Metric | None,
    parting: Parting | None,
    target: str = "",
    source: str = "",
) -> list[str]:
    """The first paragraph of the page: what is told, how well, what was learnt and how."""
    told = [_about(points, target, source)]
    if comparison is not None and comparison.verdict is not None:
        told.append(comparison.verdict.text)
    told.append(_what(points))
    if points.kind == "classes" and (len(points.test) or not learns_labels(points.fitted.learner)):
        told.append(_neighbours_agree(neighbours, points))
    if parting is not None and parting.wide:
        told.append(
            f"It over-fits: the {parting.name} is {figure(parting.train[-1][0], parting.name)} on "
            f"rows that it learnt from, and {figure(parting.held_out[-1][0], parting.name)} on "
            "others."
        )
    if metric is not None and len(metric.features) > 1:
        told.append(_most_important(metric))
    return told


def _quoted(target: str) -> str:
    """The name of the label, in quotes if it has several words."""
    return f"“{' '.join(target.split())}”" if " " in target else target


def _n_columns(points: Points) -> int:
    """The columns of the table that the model uses."""
    used = columns_used(points.fitted.model)
    return int(points.parts[0].X.shape[1]) if used is None else sum(map(len, used.values()))


def _columns(points: Points) -> str:
    n = _n_columns(points)
    return "1 column" if n == 1 else f"{n:,} columns"


def _about(points: Points, target: str, source: str) -> str:
    """Label, file, rows and columns."""
    target = _quoted(target)
    n_train, n_held_out = points.counts
    columns = f"{_columns(points)} of {source}" if source else _columns(points)
    rows = f"{n_train:,} rows were learnt from"
    if n_held_out:
        rows += f" and {n_held_out:,} held out"
    if points.kind == "numbers":
        return f"This page is about predicting {target or 'a number'} from {columns}; {rows}."
    if points.kind != "classes" or not learns_labels(points.fitted.learner):
        colour = f", coloured by {target}" if target and points.kind != "none" else ""
        return f"This page is a picture of {columns}{colour}: {n_train:,} rows."
    names = [str(name) for name in points.classes[:_FEW_CLASSES]]
    more = len(points.classes) - len(names)
    classes = ", ".join(names) + (f" and {more:,} more" if more else "")
    n = f"{len(points.classes):,}"
    what = f"the {n} values of {target}" if target else f"{n} classes"
    return f"This page is about telling {what} ({classes}) apart from {columns}; {rows}."


def _what(points: Points) -> str:
    """What was learnt, and how."""
    learner = points.fitted.learner
    name, d = name_of(learner), dimensions(points.after.points.shape[1])
    n_features = points.prepared.shape[1]
    columns = _columns(points)
    if n_features != _n_columns(points):
        columns += f" ({n_features:,} features after encoding)"
    kind = "a linear map" if hasattr(learner, "components_") else "a nonlinear map"
    long, _, aim = _summary(name).partition(": ")
    who = f"{name}, {long}," if aim else name
    how = f": {aim or long}." if long else "."
    if not learns_labels(learner):
        return f"{name} placed the rows in {d} by their {columns}{how}"
    return f"{who} learnt {kind} of the {columns} to {d}{how}"


def _summary(name: str) -> str:
    """One line about a method, by the name of its class."""
    found = (info for info in METHODS.values() if info.estimator == name)
    return next((info.summary for info in found), "")


def dimensions(d: int) -> str:
    """A number of dimensions in words."""
    words = {1: "one dimension", 2: "two dimensions", 3: "three dimensions"}
    return words.get(d, f"{d} dimensions")


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


def _most_important(metric: Metric) -> str:
    assert metric.importances is not None
    largest = zip(metric.features[:3], metric.importances[:3], strict=True)
    top = [f"{name} ({100 * share:.0f} %)" for name, share in largest if share >= _WORTH]
    if len(top) < 2:
        return f"The column that weighs most is {metric.features[0]}."
    listed = f"{', '.join(top[:-1])} and {top[-1]}"
    half = 1 + int(np.searchsorted(np.cumsum(metric.importances), 0.5))
    told = f"The columns that weigh most are {listed}"
    n = len(metric.features)
    if n > 5 and half < n:
        told += f"; {half} of {n:,} {'makes' if half == 1 else 'make'} up half of the metric"
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
