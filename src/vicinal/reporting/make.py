"""``vicinal.report``: fit if needed, compute what a page shows, and write it."""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from sklearn.utils import _safe_indexing, check_random_state

from vicinal._atomic import replace_file
from vicinal.learner.columns import n_rows
from vicinal.learner.targets import as_target, left_out_note, rows_without_label
from vicinal.reporting.build import build
from vicinal.reporting.contents import Contents
from vicinal.reporting.model import model_of
from vicinal.reporting.recording import Recorder
from vicinal.reporting.scores import compare
from vicinal.reporting.spaces import gather
from vicinal.reporting.subject import (
    Fitted,
    Part,
    check_estimator,
    fit,
    is_fitted,
    kind_of_target,
    learner_of,
    learns_labels,
    parts_of,
    split,
)
from vicinal.reporting.thumbnails import shape_in_names
from vicinal.storage.model import save as save_model

_HELD_OUT = 0.2
_MOST_POINTS = 100_000
_IN_NOTEBOOK = 12_000_000  # characters of a page that a notebook shows by itself


class Report:
    """A page about a learnt metric; made by :func:`vicinal.report`.

    Attributes
    ----------
    contents : Contents
        What the page shows, as plain data.
    model : estimator
        The fitted estimator.
    html : str
        The page itself; made on first use.
    """

    def __init__(self, contents: Contents, model: Any) -> None:
        self.contents, self.model = contents, model

    @cached_property
    def html(self) -> str:
        """The page: one self-contained file that needs no network."""
        from vicinal.reporting.page import render

        return render(self.contents)

    def save(
        self, path: str | os.PathLike[str], *, model: str | os.PathLike[str] | None = None
    ) -> Path:
        """Write the page to a file, and the model too if asked to.

        Parameters
        ----------
        path : str or path-like
            The file; it is replaced as a whole or not at all.
        model : str or path-like, default=None
            Where to save the fitted estimator, by :func:`vicinal.save`; the page then says how to
            load it from there.

        Returns
        -------
        path : Path
        """
        if model is not None:
            save_model(self.model, model)
            told = model_of(self.model, learner_of(self.model), Path(model))
            self.contents = replace(self.contents, model=told)
            self.__dict__.pop("html", None)
        path, page = Path(path), self.html.encode()

        def write(file: BinaryIO) -> None:
            file.write(page)

        replace_file(path, write)
        return path

    def __repr__(self) -> str:
        return f"Report({self.contents.title!r})"

    def __str__(self) -> str:
        return "\n".join([self.contents.title, "", *self.contents.sentences])

    def _repr_html_(self) -> str:
        """The page in a frame of its own; only its words where it is too large for a notebook."""
        if len(self.html) > _IN_NOTEBOOK:
            told = "".join(f"<p>{html.escape(text)}</p>" for text in self.contents.sentences)
            return f"{told}<p>Save the page with <code>.save('report.html')</code>.</p>"
        page = html.escape(self.html)
        style = "width:100%;height:80vh;border:0"
        return f'<iframe title="Report" srcdoc="{page}" style="{style}"></iframe>'


def report(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    path: str | os.PathLike[str] | None = None,
    X_test: Any = None,
    y_test: Any = None,
    images: Any = None,
    title: str | None = None,
    target_name: str | None = None,
    source: str | None = None,
    rivals: Sequence[str] | None = None,
    frames: Recorder | None = None,
    time_budget: float | None = None,
    random_state: Any = 0,
    progress: Callable[[str], None] | None = None,
) -> Report:
    """A page that shows what a metric has learnt, to be explored in a browser.

    Parameters
    ----------
    estimator : estimator or Pipeline
        An estimator of vicinal, or a pipeline that ends in one, as `make_learner` makes it.  If it
        is not fitted, a clone is fitted to four fifths of the rows; the others are held out, so
        that picture and scores show rows that were not learnt from.  If it is fitted, it is shown
        as it is; X must then be the rows that it was fitted to.
    X : table of shape (n_samples, n_features)
        A data frame, an array or a sparse matrix.
    y : array-like of shape (n_samples,), default=None
        Classes or numbers.
    path : str or path-like, default=None
        Where to write the page; None: nowhere, see :meth:`Report.save`.
    X_test, y_test : as X and y, default=None
        Rows that the estimator has not seen.  If they are given, no others are held out.
    images : (height, width) or array of shape (n_samples, height, width[, 3]), default=None
        If rows are images: their shape, or the images, those of X_test after those of X.  Columns
        of the names ``pixel_0_0``, ``pixel_0_1``, ... are recognised.
    title : str, default=None
        Title of the page; None: what is learnt from what.
    target_name : str, default=None
        Name of the label, for the title and the legend.  None: the name of y, if it has one.
    source : str, default=None
        Where the rows come from, such as the name of a file, for the title.
    rivals : list of str, default=None
        The usual methods to compare with, by their names in
        :func:`vicinal.model_selection.compare_methods`; None: all of them.
    frames : Recorder, default=None
        What was recorded during the fit of a fitted estimator, for the slider over iterations; see
        :class:`vicinal.reporting.Recorder`.
    time_budget : float, default=None
        About how many seconds the report may take: half of it is for the fit, where the estimator
        has a ``time_budget`` that is not set, a quarter for cross-validation.
    random_state : int, RandomState or None, default=0
        Chooses the rows that are held out, and those that are shown if there are very many.
    progress : callable, default=None
        Called with a few words when a part of the work begins.

    Returns
    -------
    report : Report

    Notes
    -----
    Scores are those of ``predict``.  They are cross-validated in five folds for up to 5,000 rows,
    if the fits take up to a minute.  Otherwise they are those of the held-out rows.  Rows without a
    label are left out, and of more than 100,000 rows a sample is shown.  Besides fits, the cost is
    that of a search for the ten nearest neighbours of each row, before and after.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from vicinal import NCA, report
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> page = report(NCA(2, alpha=0.01, random_state=0), X, y, rivals=["majority", "lda"])
    >>> page.contents.title
    'Telling target apart from 4 columns'
    >>> page.contents.facts["Rows"]
    '120 learnt from, 30 held out'
    """
    check_estimator(estimator)
    rng = check_random_state(random_state)
    tell = progress or (lambda words: None)
    target = str(getattr(y, "name", None) or "") if target_name is None else target_name
    X, y, images, told = _with_labels(X, y, images)
    whole, test = parts_of(X, y, X_test, y_test)
    kind = kind_of_target(estimator, whole.y)
    whole, test = _as_learnt(whole, kind), None if test is None else _as_learnt(test, kind)
    fitted, train, test = _learn(estimator, whole, test, kind, frames, time_budget, rng, tell)
    counts = len(train), len(test)
    train, test, notes = _shown(train, test, rng)
    if images is None and hasattr(X, "columns"):
        images = shape_in_names([str(name) for name in X.columns])
    points = gather(fitted, kind, train, test, images is not None, counts)
    quarter = None if time_budget is None else time_budget / 4
    comparison = compare(points, estimator, whole, X_test is not None, quarter, rivals, tell)
    shown = build(
        points, comparison, images, title, target, source or "", [*told, *notes], tell
    )  # fmt: skip
    made = Report(shown, fitted.model)
    if path is not None:
        tell("writing the page")
        made.save(path)
    return made


def _with_labels(X: Any, y: Any, images: Any) -> tuple[Any, Any, Any, list[str]]:
    """The rows that have a label, their images, and a note if others were left out."""
    if y is None or getattr(y, "ndim", 1) != 1 or n_rows(y) != n_rows(X):
        return X, y, images, []
    n = n_rows(y)
    empty = rows_without_label(y)
    kept = np.flatnonzero(~empty)
    if len(kept) in (0, n):
        return X, y, images, []
    if np.ndim(images) > 2 and len(images) == n:
        images = np.asarray(images)[kept]
    return _safe_indexing(X, kept), _safe_indexing(y, kept), images, [left_out_note(y, empty)]


def _as_learnt(part: Part, kind: str) -> Part:
    """Rows with labels as they are learnt from: numbers that are stored as text are numbers."""
    return part if part.y is None or kind == "none" else replace(part, y=as_target(part.y, kind))


def _learn(
    estimator: Any,
    whole: Part,
    test: Part | None,
    kind: str,
    frames: Recorder | None,
    time_budget: float | None,
    rng: np.random.RandomState,
    tell: Callable[[str], None],
) -> tuple[Fitted, Part, Part]:
    """The fitted estimator, the rows that it learnt from, and others."""
    nobody = np.empty(0, np.intp)
    if is_fitted(estimator):
        return Fitted(estimator, recorder=frames), whole, test or whole.take(nobody)
    if frames is not None:
        raise ValueError("The 'frames' parameter of report is for fitted estimators.")
    train = whole
    if test is None:
        by = kind if learns_labels(learner_of(estimator)) else "none"
        train, test = split(whole, by, _HELD_OUT, rng)
    tell("fitting")
    half = None if time_budget is None else time_budget / 2
    return fit(estimator, train, half), train, test


def _shown(train: Part, test: Part, rng: np.random.RandomState) -> tuple[Part, Part, list[str]]:
    """A sample of the rows, if there are too many for a page."""
    n = len(train) + len(test)
    if n <= _MOST_POINTS:
        return train, test, []
    share = _MOST_POINTS / n

    def sample(part: Part) -> Part:
        order = rng.permutation(len(part))
        if part.y is not None:  # every so-manyth row of those in order of y: each class its share
            order = order[np.argsort(part.y[order], kind="stable")]
        at = np.linspace(0, len(part) - 1, int(share * len(part))).astype(int)
        return part.take(np.sort(order[at]))

    note = f"A sample of {_MOST_POINTS:,} of {n:,} rows is shown."
    return sample(train), sample(test), [note]
