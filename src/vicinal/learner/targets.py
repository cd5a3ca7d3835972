"""What the labels of a table are: classes or numbers, and whether all are there."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from vicinal.core.types import Array
from vicinal.learner.columns import as_array, is_missing, n_rows

_MANY = 50  # so many different numbers may be classes
_ROWS = 5  # and more if this many rows share each


def as_labels(y: Any) -> Array:
    """Labels of a list, an array or a column, as an array of their own type."""
    values = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)
    if values.dtype == object and len({type(value) for value in values.ravel()}) == 1:
        return np.array(values.tolist())
    return values


def target_kind(y: Any) -> str:
    """Whether labels are "classes" or "numbers".

    Numbers have fractions, or more than 50 values that hardly repeat.
    """
    values = as_labels(y)
    if values.dtype.kind not in "iuf":
        return "classes"
    if values.dtype.kind == "f" and (values != np.floor(values)).any():
        return "numbers"
    n_values = len(np.unique(values))
    return "numbers" if n_values > _MANY and n_values * _ROWS > len(values) else "classes"


def check_target(y: Any, n: int) -> None:
    """Refuse labels of another number than the rows, and missing ones, by their rows."""
    if n_rows(y) != n:
        raise ValueError(f"X has {n} rows, but y has {n_rows(y)}.")
    if sp.issparse(y) or getattr(y, "ndim", 1) != 1:
        return
    values = y.to_list() if hasattr(y, "to_list") else as_array(y)
    rows = [i for i, value in enumerate(values) if is_missing(value)]
    if rows:
        listed = ", ".join(map(str, rows[:5])) + (", …" if len(rows) > 5 else "")
        raise ValueError(
            f"The labels y must not be missing. {len(rows)} of {n} are, in row {listed}: remove "
            "these rows from X and y."
        )
