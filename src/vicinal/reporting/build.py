"""Computes what a page shows from a fitted estimator and its rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from vicinal.core.types import Array
from vicinal.estimators._histograms import HistogramMixin
from vicinal.reporting.contents import Contents, Embedding, Thumbnails
from vicinal.reporting.history import Parting, history_of, parting_of
from vicinal.reporting.metric import importances_of, metric_of, names_of
from vicinal.reporting.model import model_of
from vicinal.reporting.neighbours import find_neighbours
from vicinal.reporting.picture import Axes, frames_of, thinned
from vicinal.reporting.recording import Recorded
from vicinal.reporting.scores import Comparison, by_split, kept_neighbours
from vicinal.reporting.spaces import Scaling, Space, principal
from vicinal.reporting.subject import Fitted, Part, embedded, learns_labels, name_of
from vicinal.reporting.table import columns_of, table_of
from vicinal.reporting.thumbnails import images_of, make_thumbnails
from vicinal.reporting.words import Facts, facts_of, sentences_of

__all__ = ["Points", "build", "gather"]

_NEIGHBOURS = 10
_TESTED = 5_000  # most held-out rows that are scored

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Points:
    """All points of a page: the training rows first, then those that were held out."""

    fitted: Fitted
    kind: str
    parts: list[Part]
    prepared: Any  # the rows as the learner sees them
    train: Array
    test: Array
    scaling: Scaling
    standard: bool  # whether the old metric uses it
    before: Space
    after: Space
    classes: Array
    y: Array | None  # class codes, or numbers as floats

    @property
    def n(self) -> int:
        """How many there are."""
        return len(self.train) + len(self.test)

    @property
    def held_out(self) -> Array:
        """True for each point that was not learnt from."""
        return np.arange(self.n) >= len(self.train)

    def embed(self, learner: Any) -> Array:
        """All points under an estimator that was recorded during the fit."""
        return embedded(learner, self.prepared)


def gather(fitted: Fitted, kind: str, train: Part, test: Part, images: Any) -> Points:
    """Prepare and embed the rows of a page.

    The old metric measures columns in standard deviations where the learner does so.  The columns
    of images have one unit, and are taken as they are.
    """
    parts = [part for part in (train, test) if len(part)]
    prepared = _stacked([fitted.prepared(part.X) for part in parts])
    at_train, at_test = np.arange(len(train)), np.arange(len(train), len(train) + len(test))
    learner = fitted.learner
    chi2 = isinstance(learner, HistogramMixin)
    scaling = Scaling.of(prepared[: len(train)])
    standard = images is None and _scales(learner)
    old = _dense(prepared) if chi2 else scaling(prepared, standard)
    if chi2:
        old = old / np.maximum(old.sum(axis=1, keepdims=True), 1e-300)
    Z = _places(learner, prepared, train)
    classes, y = _target(kind, parts)
    return Points(
        fitted, kind, parts, prepared, at_train, at_test, scaling, standard, Space(old, chi2),
        Space(Z, chi2), classes, y,
    )  # fmt: skip


def _scales(learner: Any) -> bool:
    """Whether a learner measures columns in standard deviations, or does not see their scales."""
    given = learner.get_params()
    named = next((name for name in ("scaling", "learner__scaling") if name in given), None)
    return given[named] == "standard" if named else learns_labels(learner)


def _target(kind: str, parts: list[Part]) -> tuple[Array, Array | None]:
    """The classes and the class codes of all points; or no classes, and numbers or nothing."""
    labels = [part.y for part in parts if part.y is not None]
    if kind == "none":
        return np.empty(0), None
    if kind == "numbers":
        return np.empty(0), np.concatenate(labels).astype(np.float64)
    return np.unique(np.concatenate(labels), return_inverse=True)


def _places(learner: Any, prepared: Any, train: Part) -> Array:
    """All points in the learnt space."""
    known = getattr(learner, "embedding_", None)
    if known is None or len(known) != len(train):
        return embedded(learner, prepared)
    if prepared.shape[0] == len(train):
        return np.asarray(known)
    return np.vstack([known, embedded(learner, prepared[len(train) :])])


def _stacked(tables: list[Any]) -> Any:
    arrays = [table.tocsr() if sp.issparse(table) else np.asarray(table) for table in tables]
    if len(arrays) == 1:
        return arrays[0]
    return sp.vstack(arrays).tocsr() if sp.issparse(arrays[0]) else np.vstack(arrays)


def _dense(X: Any) -> Any:
    return X.toarray() if sp.issparse(X) else X


def build(points: Points, images: Any, title: str | None, notes: list[str], tell: Tell) -> Contents:
    """Everything that the page shows."""
    fitted, learner = points.fitted, points.fitted.learner
    name = name_of(learner)
    tell("comparing with other distances")
    comparison = _compare(points, name)
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
    facts = Facts(
        name, len(points.train), len(points.test), tables[0].shape[1], len(points.classes),
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
        neighbours=neighbours,
        table=table_of(tables, columns, names, importances),
        thumbnails=_thumbnails(points, images),
        metric=metric,
        history=history,
        model=model_of(fitted.model, learner, None),
        warnings=[*fitted.messages, *notes],
        score_name="accuracy" if comparison is None else comparison.name,
    )


def _compare(points: Points, name: str) -> Comparison | None:
    """Scores on held-out rows, or the share of neighbours that a map without labels keeps."""
    if points.y is None or not learns_labels(points.fitted.learner):
        if points.n < 4:
            return None
        d = points.after.points.shape[1]
        picture = Space(principal(points.before.points, d)[0])
        quick = points.before.quick(2000, points.n)[0]
        return kept_neighbours(quick, picture, points.after, name)
    if len(points.test) == 0:
        return None
    rng = np.random.RandomState(0)
    tested = np.sort(rng.permutation(points.test)[:_TESTED])
    return by_split(points.before, points.after, points.train, tested, points.y, name)


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
    X = np.vstack([_dense(np.asarray(part.X)) for part in points.parts])
    return make_thumbnails(images_of(images, X, rows, int(rows.max()) + 1))
