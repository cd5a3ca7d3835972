"""Computes what a page shows from a fitted estimator and its rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from vicinal.core.types import Array
from vicinal.learner.preparation import columns_used
from vicinal.reporting.contents import Contents, Embedding, Thumbnails
from vicinal.reporting.history import Parting, history_of, parting_of
from vicinal.reporting.metric import importances_of, metric_of, names_of
from vicinal.reporting.model import model_of
from vicinal.reporting.neighbours import find_neighbours
from vicinal.reporting.picture import Axes, frames_of, thinned
from vicinal.reporting.points import Points
from vicinal.reporting.recording import Recorded
from vicinal.reporting.scores import Comparison
from vicinal.reporting.spaces import Space, principal
from vicinal.reporting.subject import learns_labels, name_of
from vicinal.reporting.table import columns_of, table_of
from vicinal.reporting.thumbnails import images_of, make_thumbnails
from vicinal.reporting.words import Facts, facts_of, sentences_of

_NEIGHBOURS = 10

Tell = Callable[[str], None]


def build(
    points: Points,
    comparison: Comparison | None,
    images: Any,
    title: str | None,
    notes: list[str],
    tell: Tell,
) -> Contents:
    """Everything that the page shows."""
    fitted, learner = points.fitted, points.fitted.learner
    name = name_of(learner)
    tell("drawing the picture")
    embedding, parting = _embedding(points)
    tell("searching for neighbours")
    neighbours = find_neighbours(
        learner, points.before, points.after, points.train, points.y, _NEIGHBOURS
    )
    tell("describing the model")
    importances = importances_of(learner, points.scaling)
    D = points.prepared.shape[1]
    names = names_of(fitted.model, learner, D)
    metric = metric_of(learner, names, importances, points.scaling)
    tables = [part.X for part in points.parts]
    columns = columns_of(tables[0], names)
    history = history_of(learner, parting, fitted.messages)
    used = columns_used(fitted.model)
    n_columns = tables[0].shape[1] if used is None else sum(map(len, used.values()))
    facts = Facts(
        name, *points.counts, n_columns, D, len(points.classes),
        points.kind, learns_labels(learner), points.after.points.shape[1],
        hasattr(learner, "components_"), fitted.seconds,
        None if history is None else getattr(learner, "n_iter_", None),
    )  # fmt: skip
    codes = points.y if points.kind == "classes" else None
    sentences = sentences_of(facts, comparison, neighbours, codes, points.held_out, metric, parting)
    return Contents(
        title=title or f"{name}: {facts.n_train + facts.n_held_out:,} rows",
        sentences=sentences,
        facts=facts_of(facts),
        scores=[] if comparison is None else comparison.scores,
        scores_note="" if comparison is None else comparison.note,
        embedding=embedding,
        neighbors=neighbours,
        table=table_of(tables, columns, names, importances),
        thumbnails=_thumbnails(points, images),
        metric=metric,
        history=history,
        model=model_of(fitted.model, learner, None),
        warnings=[*fitted.messages, *notes],
        score_name="accuracy" if comparison is None else comparison.name,
    )


def _embedding(points: Points) -> tuple[Embedding, Parting | None]:
    """The picture, and the scores after each of its frames."""
    fitted, Z = points.fitted, points.after.points
    n_axes = 3 if Z.shape[1] == 3 else 2
    axes = Axes(Z, points.train, n_axes)
    last = int(getattr(fitted.learner, "n_iter_", 0))
    recorded: list[Recorded] = [] if fitted.recorder is None else fitted.recorder.frames
    recorded = [
        one
        for one in recorded
        if one.iteration < last and (one.points is None or len(one.points) == len(Z))
    ]
    recorded = thinned(recorded, points.n)
    seen: list[tuple[int, Space]] = []

    def embed(learner: Any) -> Array:
        at = points.embed(learner)
        seen.append((int(learner.n_iter_), Space(at, points.after.chi2)))
        return at

    frames = frames_of(axes, recorded, embed, (last, Z))
    seen.append((last, points.after))
    name = "R²" if points.kind == "numbers" else "accuracy"
    parting = parting_of(seen, points.train, points.test, points.y, name)
    before, share = principal(points.before.points, n_axes)
    what = "standardised columns" if points.standard else "columns"
    what = "histograms" if points.after.chi2 else what
    numbers = points.kind == "numbers"
    codes = points.y if points.kind == "classes" else None
    embedding = Embedding(
        before=before,
        frames=frames,
        before_title=f"PCA of the {what} ({100 * share:.0f} % of their variance)",
        after_title=axes.title,
        codes=np.zeros(points.n, int) if codes is None else codes,
        classes=[str(label) for label in points.classes],
        values=points.y if numbers else None,
        names=[name for part in points.parts for name in part.names],
        held_out=points.held_out,
        predicted=_predicted(points),
    )
    return embedding, parting


def _predicted(points: Points) -> Array | None:
    """The predicted class of each held-out point."""
    model = points.fitted.model
    if points.kind != "classes" or len(points.test) == 0 or not hasattr(model, "predict"):
        return None
    labels = model.predict(points.parts[-1].X)
    found = np.full(points.n, -1)
    order = np.searchsorted(points.classes, labels)
    found[points.test] = order
    return found


def _thumbnails(points: Points, images: Any) -> Thumbnails | None:
    if images is None:
        return None
    rows = np.concatenate([part.rows for part in points.parts])
    X = np.vstack(
        [part.X.toarray() if sp.issparse(part.X) else np.asarray(part.X) for part in points.parts]
    )
    return make_thumbnails(images_of(images, X, rows, int(rows.max()) + 1))
