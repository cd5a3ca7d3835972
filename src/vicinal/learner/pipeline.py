"""The pipeline of `make_learner`, which remembers what was done with the table."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import is_regressor
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing

from vicinal.learner.columns import n_rows
from vicinal.learner.errors import TableNote
from vicinal.learner.targets import (
    as_target,
    label_notes,
    left_out_note,
    rows_without_label,
    target_kind,
)


def tell(notes: Sequence[str], stacklevel: int = 3) -> None:
    """Warn of each note."""
    for note in notes:
        warnings.warn(note, TableNote, stacklevel=stacklevel)


class Learner(Pipeline):
    """A pipeline from a table as it is to an estimator; :func:`vicinal.make_learner` makes it.

    Rows without a label are left out of the fit.

    Parameters
    ----------
    steps : list of (str, estimator)
        As for :class:`sklearn.pipeline.Pipeline`.
    task : {"classes", "numbers"}, default=None
        What is learnt; None: nothing but the rows, or what y looks like.
    left_out : dict, default=None
        The columns that are not used, and the reason of each.
    notes : sequence of str, default=()
        What was done with the columns, one line each.
    transform_input, memory, verbose : default=None, None, False
        As for :class:`sklearn.pipeline.Pipeline`.

    Attributes
    ----------
    task_ : {"classes", "numbers", "none"}
        What was learnt.
    left_out_ : dict
        The columns that are not used, by name or position, and why, such as "row numbers".
    notes_ : list of str
        What was done with the table, one line each: its columns, then its rows and labels.
    target_name_ : str or None
        The name of y, if it is a column of a data frame.

    Examples
    --------
    >>> import warnings
    >>> import pandas as pd
    >>> from vicinal import make_learner
    >>> X = pd.DataFrame({"weight": [4.1, 3.9, 5.2, 0.3, 0.2, 0.4], "empty": [None] * 6})
    >>> y = ["cat", "cat", None, "mouse", "mouse", "mouse"]
    >>> with warnings.catch_warnings(action="ignore"):  # which tell the notes
    ...     model = make_learner(X, y, "rca").fit(X, y)
    >>> model.left_out_
    {'empty': 'no values'}
    """

    def __init__(
        self,
        steps: list[Any],
        *,
        task: str | None = None,
        left_out: Mapping[Any, str] | None = None,
        notes: Sequence[str] = (),
        transform_input: Any = None,
        memory: Any = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(steps, transform_input=transform_input, memory=memory, verbose=verbose)
        self.task = task
        self.left_out = left_out
        self.notes = notes

    def fit(self, X: Any, y: Any = None, **params: Any) -> Learner:
        """Fit all steps to the rows that have a label.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), default=None
        **params
            As for :class:`sklearn.pipeline.Pipeline`.

        Returns
        -------
        self : Learner
        """
        notes: list[str] = []
        task, name = self._task(), getattr(y, "name", None)
        if y is not None and task != "none" and not _is_matrix(y):
            X, y, params = self._with_labels(X, y, params, notes)
            if self.task is None and task == "classes" and target_kind(y) == "numbers":
                notes.append(f"y holds {len(np.unique(y))} different numbers, taken as classes.")
            y = as_target(y, task, force=self.task is not None)
            if task == "classes":
                notes += label_notes(y)
        tell(notes)
        with warnings.catch_warnings():
            if task == "classes":  # told above, and in fewer words
                warnings.filterwarnings("ignore", "Rows of these classes have no other row")
            super().fit(X, y, **params)
        self.task_ = task
        self.target_name_ = None if name is None else str(name)
        self.left_out_ = dict(self.left_out or {})
        self.notes_ = [*self.notes, *notes]
        return self

    def fit_transform(self, X: Any, y: Any = None, **params: Any) -> Any:
        """Fit, and map all rows; see `fit`."""
        if y is None or self._task() == "none" or not rows_without_label(y).any():
            return super().fit_transform(X, y, **params)
        return self.fit(X, y, **params).transform(X)

    def score(self, X: Any, y: Any = None, **params: Any) -> float:
        """The score of the last step, for the rows that have a label."""
        if y is not None and self.task_ != "none" and not _is_matrix(y):
            X, y, params = self._with_labels(X, y, params, [])
            y = as_target(y, self.task_, force=self.task is not None)
        return float(super().score(X, y, **params))

    def _task(self) -> str:
        """What is learnt: as was said, or by the last step."""
        if self.task is not None or not self.steps:
            return self.task or "none"
        learn = self.steps[-1][1]
        if is_regressor(learn):
            return "numbers"
        return "classes" if learn.__sklearn_tags__().target_tags.required else "none"

    def _with_labels(
        self, X: Any, y: Any, params: dict[str, Any], notes: list[str]
    ) -> tuple[Any, Any, dict[str, Any]]:
        """The rows that have a label, and what belongs to them."""
        empty = rows_without_label(y, classes=self._task() == "classes")
        if not empty.any():
            return X, y, params
        notes.append(left_out_note(y, empty))
        kept = np.flatnonzero(~empty)
        some = {
            name: _safe_indexing(value, kept) if _belongs(value, len(empty)) else value
            for name, value in params.items()
        }
        return _safe_indexing(X, kept), _safe_indexing(y, kept), some


def _is_matrix(y: Any) -> bool:
    return getattr(y, "ndim", 1) != 1


def _belongs(value: Any, n: int) -> bool:
    """Whether a parameter has a value for each row, as weights have."""
    return hasattr(value, "__len__") and not isinstance(value, str | dict) and n_rows(value) == n
