"""What the labels of a table are: classes or numbers, and which rows have one."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import _safe_indexing

from vicinal.core.types import Array
from vicinal.learner.columns import as_array, is_missing, n_rows
from vicinal.learner.errors import shown
from vicinal.learner.reading import LABEL_GAPS, is_gap, number_of, written_of

_MANY = 20  # this many different whole numbers may be classes
_COMMON = 0.8  # share of the rows from which on the most frequent class is worth a note


def as_labels(y: Any) -> Array:
    """Labels of a list, an array or a column, as an array of their own type."""
    values = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)
    if values.dtype == object and len({type(value) for value in values.ravel()}) == 1:
        return np.array(values.tolist())
    return values


def target_kind(y: Any) -> str:
    """Whether labels are "classes" or "numbers".

    Numbers have fractions, or are more than 20 different ones, also if they are stored as text.
    Truth values and the values of a categorical type are classes.
    """
    if hasattr(getattr(y, "dtype", None), "categories"):
        return "classes"
    kept = as_labels(y)[~rows_without_label(y)]
    values = as_labels(kept)
    if values.dtype.kind in "OUS":
        distinct = set(values.tolist())
        numbers = len(distinct) > _MANY and _numbers(list(distinct)) is not None
        return "numbers" if numbers else "classes"
    if values.dtype.kind not in "iuf":
        return "classes"
    if values.dtype.kind == "f" and (values != np.floor(values)).any():
        return "numbers"
    return "numbers" if len(np.unique(values)) > _MANY else "classes"


def as_target(y: Any, task: str, force: bool = False) -> Array:
    """Labels as an estimator learns them: numbers also if stored as text, and classes of one type.

    Classes become strings if some of them are.  With ``force`` numbers with fractions that
    are to be classes do, too: otherwise they are left to the estimator, which refuses them.
    """
    values = as_labels(y)
    if task == "numbers":
        if values.dtype.kind in "iufb":
            return values
        numbers = _numbers(values.tolist())
        if numbers is None:
            wrong = next(v for v in values.tolist() if _numbers([v]) is None)
            raise ValueError(
                f"The labels y must be numbers for this method. Got {wrong!r}. Use None for a "
                "missing one, or a method that learns classes, such as 'nca'."
            )
        return np.array(numbers)
    if values.dtype == object:
        return np.array([str(value) for value in values.tolist()], dtype=object)
    if force and values.dtype.kind == "f" and (values != np.floor(values)).any():
        return np.array([f"{value:g}" for value in values.tolist()], dtype=object)
    return values


def _numbers(values: list[Any]) -> list[float] | None:
    """The numbers that values are, or None if one of them is none."""
    written = written_of(value for value in values if isinstance(value, str))
    found = []
    for value in values:
        number = number_of(value, written) if isinstance(value, str) else _float(value)
        if number is None:
            return None
        found.append(number)
    return found


def _float(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def rows_without_label(y: Any, classes: bool = False) -> Array:
    """Which rows have no label: a missing value, or a text that stands for one, such as "?".

    Words are missing, too, if most labels and more than 20 different ones are numbers, unless all
    are known to be ``classes``.
    """
    if sp.issparse(y) or getattr(y, "ndim", 1) != 1:
        return np.zeros(n_rows(y), dtype=bool)
    values = list(y.to_list() if hasattr(y, "to_list") else as_array(y))
    empty = np.array([is_missing(v) or is_gap(v, LABEL_GAPS) for v in values], dtype=bool)
    texts = {v for v, gone in zip(values, empty, strict=True) if isinstance(v, str) and not gone}
    if classes or not texts:
        return empty
    written = written_of(texts)
    words = {text for text in texts if number_of(text, written) is None}
    wrong = np.array([isinstance(value, str) and value in words for value in values], dtype=bool)
    right = ~(empty | wrong)
    n_different = len({value for value, is_right in zip(values, right, strict=True) if is_right})
    return empty | wrong if n_different > _MANY and 2 * right.sum() > (~empty).sum() else empty


def left_out_note(y: Any, empty: Array) -> str:
    """What is said of the rows without a label."""
    gone = [y_i for y_i, out in zip(as_labels(y), empty, strict=True) if out]
    words = [value for value in gone if not (is_missing(value) or is_gap(value, LABEL_GAPS))]
    which = f"no number as their label, such as {shown(words[0])}," if words else "no label"
    return f"{len(gone)} of {len(empty)} rows have {which} and are left out."


def with_labels(X: Any, y: Any, classes: bool = False) -> tuple[Any, Any, list[str]]:
    """The rows that have a label, and a note if there are others."""
    empty = rows_without_label(y, classes)
    if not empty.any():
        return X, y, []
    kept = np.flatnonzero(~empty)
    return _safe_indexing(X, kept), _safe_indexing(y, kept), [left_out_note(y, empty)]


def label_notes(y: Array) -> list[str]:
    """What is worth knowing about classes: those of one row, and one that has most of the rows."""
    classes, counts = np.unique(y, return_counts=True)
    notes, single = [], classes[counts == 1].tolist()
    if single:
        listed = ", ".join(map(repr, single[:5])) + (", …" if len(single) > 5 else "")
        who = (
            f"Class {listed} has" if len(single) == 1 else f"{len(single)} classes, {listed}, have"
        )
        notes.append(f"{who} one row: there is no other row to learn or test it by.")
    if len(classes) > 1 and counts.max() >= _COMMON * counts.sum():
        share, most = 100 * counts.max() / counts.sum(), classes[counts.argmax()].item()
        notes.append(
            f"Class {most!r} has {share:.0f} % of the rows; the parameter priors='uniform' (in the "
            "command: --set priors=uniform) weighs all classes alike."
        )
    return notes


def check_target(y: Any, n: int) -> None:
    """Refuse labels of another number than the rows, and a table in which no row has one."""
    if n_rows(y) != n:
        raise ValueError(f"X has {n} rows, but y has {n_rows(y)}.")
    if n and rows_without_label(y).all():
        raise ValueError(f"The labels y are missing in all {n} rows: there is nothing to learn.")


def refuse_missing_labels(y: Any) -> None:
    """Refuse missing labels by their rows."""
    rows = np.flatnonzero(rows_without_label(y)).tolist()
    if rows:
        listed = ", ".join(map(str, rows[:5])) + (", …" if len(rows) > 5 else "")
        raise ValueError(
            f"The labels y must not be missing. {len(rows)} of {n_rows(y)} are, in row {listed}: "
            "remove these rows from X and y."
        )
