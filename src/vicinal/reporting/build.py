"""Computes what a page shows from a fitted estimator and its rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from vicinal.learner.pipeline import Learner
from vicinal.learner.preparation import columns_used
from vicinal.reporting.columns import (
    columns_of,
    importances_of,
    metric_of,
    names_of,
    table_of,
)
from vicinal.reporting.contents import Contents, Thumbnails
from vicinal.reporting.history import history_of, parting_of
from vicinal.reporting.model import model_of
from vicinal.reporting.picture import picture_of
from vicinal.reporting.scores import Comparison
from vicinal.reporting.spaces import Points, find_neighbours
from vicinal.reporting.thumbnails import images_of, make_thumbnails
from vicinal.reporting.words import facts_of, sentences_of, title_of

_NEIGHBOURS = 10


def build(
    points: Points,
    comparison: Comparison | None,
    images: Any,
    title: str | None,
    target: str,
    source: str,
    notes: list[str],
    tell: Callable[[str], None],
) -> Contents:
    """Everything that the page shows."""
    fitted, learner = points.fitted, points.fitted.learner
    tell("drawing the picture")
    predicted = None if comparison is None else comparison.predicted
    picture, spaces = picture_of(points, predicted, target)
    parting = parting_of(spaces, points.train, points.test, points.y)
    tell("searching for neighbours")
    neighbours = find_neighbours(points, _NEIGHBOURS)
    tell("describing the model")
    importances = importances_of(learner, points.scaling)
    names = names_of(fitted.model, learner, points.prepared.shape[1])
    X = points.parts[0].X
    columns = columns_of(X) if hasattr(X, "columns") or len(names) != X.shape[1] else names
    metric = metric_of(learner, names, columns, importances, points.scaling)
    history = history_of(learner, parting, fitted.messages)
    table_notes = list(fitted.model.notes_) if isinstance(fitted.model, Learner) else []
    contents = Contents(
        title=title or title_of(points, target, source),
        sentences=sentences_of(points, comparison, neighbours, metric, parting, target, source),
        facts=facts_of(points, iterates=history is not None),
        scores=[],
        scores_note="",
        embedding=picture,
        neighbors=neighbours,
        table=table_of([part.X for part in points.parts], names, importances),
        thumbnails=_thumbnails(points, images),
        metric=metric,
        history=history,
        model=model_of(fitted.model, learner, None),
        warnings=[*(told for told in fitted.messages if told not in table_notes), *notes],
        left_out=_left_out(fitted.model, X),
        table_notes=table_notes,
    )
    if comparison is None:
        return contents
    return replace(
        contents,
        scores=comparison.scores,
        scores_note=comparison.note,
        score_name=comparison.name,
        verdict=comparison.verdict,
        confusion=comparison.confusion,
        mistakes=comparison.mistakes,
        warnings=[*contents.warnings, *comparison.notes],
    )


def _left_out(model: Any, X: Any) -> dict[str, str]:
    """The columns of the table that are not used, and why."""
    known = model.left_out_ if isinstance(model, Learner) else {}
    found = {str(name): why for name, why in known.items()}
    used = columns_used(model)
    if used is not None and hasattr(X, "columns"):
        taken = {name for names in used.values() for name in names}
        for j, name in enumerate(X.columns):
            if name not in taken and j not in taken:
                found.setdefault(str(name), "as was asked for")
    return found


def _thumbnails(points: Points, images: Any) -> Thumbnails | None:
    if images is None:
        return None
    rows = np.concatenate([part.rows for part in points.parts])
    tables = (part.X for part in points.parts)
    X = np.vstack([X.toarray() if sp.issparse(X) else np.asarray(X) for X in tables])
    return make_thumbnails(images_of(images, X, rows, int(rows.max()) + 1))
