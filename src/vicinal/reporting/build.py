"""Computes what a page shows from a fitted estimator and its rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from vicinal.reporting.columns import importances_of, metric_of, names_of, table_of
from vicinal.reporting.contents import Contents, Thumbnails
from vicinal.reporting.history import history_of, parting_of
from vicinal.reporting.model import model_of
from vicinal.reporting.picture import picture_of
from vicinal.reporting.scores import Comparison
from vicinal.reporting.spaces import Points, find_neighbours
from vicinal.reporting.subject import name_of
from vicinal.reporting.thumbnails import images_of, make_thumbnails
from vicinal.reporting.words import facts_of, sentences_of

_NEIGHBOURS = 10


def build(
    points: Points,
    comparison: Comparison | None,
    images: Any,
    title: str | None,
    notes: list[str],
    tell: Callable[[str], None],
) -> Contents:
    """Everything that the page shows."""
    fitted, learner = points.fitted, points.fitted.learner
    tell("drawing the picture")
    picture, spaces = picture_of(points)
    parting = parting_of(spaces, points.train, points.test, points.y)
    tell("searching for neighbours")
    neighbours = find_neighbours(points, _NEIGHBOURS)
    tell("describing the model")
    importances = importances_of(learner, points.scaling)
    names = names_of(fitted.model, learner, points.prepared.shape[1])
    metric = metric_of(learner, names, importances, points.scaling)
    history = history_of(learner, parting, fitted.messages)
    shown = {} if comparison is None else {"score_name": comparison.name}
    return Contents(
        title=title or f"{name_of(learner)}: {sum(points.counts):,} rows",
        sentences=sentences_of(points, comparison, neighbours, metric, parting),
        facts=facts_of(points, iterates=history is not None),
        scores=[] if comparison is None else comparison.scores,
        scores_note="" if comparison is None else comparison.note,
        embedding=picture,
        neighbors=neighbours,
        table=table_of([part.X for part in points.parts], names, importances),
        thumbnails=_thumbnails(points, images),
        metric=metric,
        history=history,
        model=model_of(fitted.model, learner, None),
        warnings=[*fitted.messages, *notes],
        **shown,
    )


def _thumbnails(points: Points, images: Any) -> Thumbnails | None:
    if images is None:
        return None
    rows = np.concatenate([part.rows for part in points.parts])
    tables = (part.X for part in points.parts)
    X = np.vstack([X.toarray() if sp.issparse(X) else np.asarray(X) for X in tables])
    return make_thumbnails(images_of(images, X, rows, int(rows.max()) + 1))
