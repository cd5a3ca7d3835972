"""What was learnt, in plain words: sentences computed from the figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vicinal.core.types import Array
from vicinal.reporting.contents import Metric, Neighbours
from vicinal.reporting.history import Parting
from vicinal.reporting.scores import KEPT, Comparison

__all__ = ["Facts", "facts_of", "figure", "sentences_of", "verdict"]

_CLEAR = 2.0  # standard errors that a difference must exceed


@dataclass(frozen=True)
class Facts:
    """Counts and names that the sentences are made of."""

    method: str
    n_train: int
    n_held_out: int
    n_columns: int
    n_classes: int
    kind: str
    labels: bool  # whether the method uses them
    d: int
    linear: bool
    seconds: float | None
    n_iter: int | None


def figure(score: float, name: str) -> str:
    """A score as people write it."""
    return f"{score:.3f}" if name == "R²" else f"{100 * score:.1f} %"


def sentences_of(
    facts: Facts,
    comparison: Comparison | None,
    neighbours: Neighbours | None,
    codes: Array | None,
    held_out: Array,
    metric: Metric | None,
    parting: Parting | None,
) -> list[str]:
    """The first paragraph of the page."""
    told = [_what(facts)]
    if comparison is not None:
        told += verdict(comparison, facts.d, facts.n_columns)
    if neighbours is not None and codes is not None and (held_out.any() or not facts.labels):
        told.append(_neighbours_agree(neighbours, codes, held_out))
    if parting is not None and parting.wide:
        told.append(
            f"It over-fits: the {parting.name} is {figure(parting.train[-1][0], parting.name)} on "
            f"rows that it learnt from, and {figure(parting.held_out[-1][0], parting.name)} on "
            "others."
        )
    if metric is not None and metric.importances is not None and len(metric.features) > 1:
        told.append(_most_important(metric, facts.n_columns))
    return told


def _what(facts: Facts) -> str:
    rows = f"{facts.n_train:,} rows"
    if facts.kind == "classes" and facts.labels:
        rows += f" of {facts.n_classes} classes"
    d = dimensions(facts.d)
    columns = "1 column" if facts.n_columns == 1 else f"{facts.n_columns:,} columns"
    kind = "a linear map" if facts.linear else "a map"
    told = f"{facts.method} learnt {kind} of {columns} to {d} from {rows}"
    if not facts.labels:
        told = f"{facts.method} placed {rows} of {columns} in {d}"
    if facts.n_held_out:
        return f"{told}; {facts.n_held_out:,} rows were held out, and not learnt from."
    return told + "."


def verdict(comparison: Comparison, d: int, n_columns: int) -> list[str]:
    """Whether the learnt metric is better than what was there, beyond the error."""
    learnt = next(score for score in comparison.scores if score.learnt)
    first, name = comparison.scores[0], comparison.name
    gain, error = comparison.gain, comparison.gain_error
    where = "" if name == KEPT else " on rows that were not learnt from"
    told = (
        f"{_capital(name)}{where}: "
        f"{_with_error(learnt.mean, learnt.error, name)} with {learnt.name}, "
        f"{_with_error(first.mean, first.error, name)} with {first.name}."
    )
    by = _difference(abs(gain), error, name)
    if gain > _CLEAR * error:
        judged = f"{learnt.name} is better by {by}."
    elif gain < -_CLEAR * error:
        judged = f"{learnt.name} is worse than {first.name} by {by}."
        if name != KEPT and d < n_columns:
            judged += (
                f" {_capital(dimensions(d))} cannot hold all {n_columns:,} columns: use it as a "
                "picture, and learn more dimensions to predict."
            )
    else:
        judged = (
            f"The difference, {_difference(gain, error, name)}, is within the error: {learnt.name} "
            f"is not shown to be better than {first.name}."
        )
    rivals = [score for score in comparison.scores[1:] if not score.learnt]
    if rivals:
        best = max(rivals, key=lambda score: score.mean)
        judged += f" {best.name} reaches {_with_error(best.mean, best.error, name)}."
    return [told, judged]


def dimensions(d: int) -> str:
    """A number of dimensions in words."""
    words = {1: "one dimension", 2: "two dimensions", 3: "three dimensions"}
    return words.get(d, f"{d} dimensions")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _with_error(mean: float, error: float, name: str) -> str:
    if name == "R²":
        return f"{mean:.3f} ± {error:.3f}"
    return f"{100 * mean:.1f} % ± {100 * error:.1f}"


def _difference(gain: float, error: float, name: str) -> str:
    if name == "R²":
        return f"{gain:.3f} ± {error:.3f}"
    return f"{100 * gain:.1f} ± {100 * error:.1f} points"


def _neighbours_agree(neighbours: Neighbours, codes: Array, held_out: Array) -> str:
    unseen = bool(held_out.any())
    rows = np.flatnonzero(held_out) if unseen else np.arange(len(codes))

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


def _most_important(metric: Metric, n_columns: int) -> str:
    assert metric.importances is not None
    top = [
        f"{name} ({100 * share:.0f} %)"
        for name, share in zip(metric.features[:3], metric.importances[:3], strict=True)
    ]
    listed = f"{', '.join(top[:-1])} and {top[-1]}"
    half = 1 + int(np.searchsorted(np.cumsum(metric.importances), 0.5))
    told = f"The features that weigh most are {listed}"
    if n_columns > 5 and half < len(metric.features):
        told += f"; {half} of {n_columns:,} make up half of the metric"
    return told + "."


def facts_of(facts: Facts) -> dict[str, str]:
    """Short texts by short names."""
    rows = f"{facts.n_train:,}"
    if facts.n_held_out:
        rows += f" learnt from, {facts.n_held_out:,} held out"
    found: dict[str, Any] = {
        "Method": facts.method,
        "Rows": rows,
        "Columns": f"{facts.n_columns:,}",
    }
    if facts.kind == "classes":
        found["Classes"] = f"{facts.n_classes:,}"
    found["Dimensions"] = str(facts.d)
    if facts.n_iter is not None:
        found["Iterations"] = f"{facts.n_iter:,}"
    if facts.seconds is not None:
        found["Time of the fit"] = _seconds(facts.seconds)
    return found


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds / 60:.1f} min"
