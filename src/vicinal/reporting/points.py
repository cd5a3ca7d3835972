"""The points of a page, before and after learning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from vicinal.core.types import Array
from vicinal.estimators._metric import HistogramMixin
from vicinal.reporting.spaces import Scaling, Space
from vicinal.reporting.subject import Fitted, Part, embedded, learns_labels


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
    images: bool
    counts: tuple[int, int]  # rows that were learnt from and held out, shown or not

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


def gather(
    fitted: Fitted, kind: str, train: Part, test: Part, images: bool, counts: tuple[int, int]
) -> Points:
    """Prepare and embed the rows of a page, of which there may be more: ``counts``.

    The old metric measures columns in standard deviations where the learner does so.  The columns
    of images have one unit, and are taken as they are.
    """
    parts = [part for part in (train, test) if len(part)]
    prepared = _stacked([fitted.prepared(part.X) for part in parts])
    at_train, at_test = np.arange(len(train)), np.arange(len(train), len(train) + len(test))
    learner = fitted.learner
    chi2 = isinstance(learner, HistogramMixin)
    scaling = Scaling.of(prepared[: len(train)])
    standard = not images and _scales(learner)
    old = _dense(prepared) if chi2 else scaling(prepared, standard)
    if chi2:
        old = old / np.maximum(old.sum(axis=1, keepdims=True), 1e-300)
    Z = _places(learner, prepared, train)
    classes, y = _target(kind, parts)
    return Points(
        fitted, kind, parts, prepared, at_train, at_test, scaling, standard, Space(old, chi2),
        Space(Z, chi2), classes, y, images, counts,
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
