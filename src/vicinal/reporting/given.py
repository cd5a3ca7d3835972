"""The rows and labels that a report was given, checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from vicinal.core.types import Array
from vicinal.reporting.subject import Part


def parts_of(X: Any, y: Any, X_test: Any, y_test: Any) -> tuple[Part, Part | None]:
    """The rows as given, and those for testing if there are any."""
    whole = part_of(X, y, "")
    if X_test is None:
        if y_test is not None:
            raise ValueError("The 'X_test' parameter of report is missing: there is a 'y_test'.")
        return whole, None
    if (y is None) != (y_test is None):
        missing = "y" if y is None else "y_test"
        raise ValueError(f"The {missing!r} parameter of report is missing: both tables need one.")
    return whole, part_of(X_test, y_test, "_test", len(whole))


def part_of(X: Any, y: Any, suffix: str, first: int = 0) -> Part:
    """A table with its labels; its rows are numbered from ``first``."""
    if not hasattr(X, "shape"):
        X = np.asarray(X)
    if len(X.shape) != 2:
        raise ValueError(
            f"The 'X{suffix}' parameter of report must have two dimensions. Got "
            f"{len(X.shape)} instead."
        )
    X = X.tocsr() if sp.issparse(X) else X
    n = int(X.shape[0])
    if n < 2 and not suffix:
        raise ValueError(f"The 'X' parameter of report must have at least 2 rows. Got {n} instead.")
    labels = None if y is None else _labels(y, n, f"y{suffix}")
    return Part(X, labels, _names(X, n, suffix), np.arange(first, first + n))


def _labels(y: Any, n: int, name: str) -> Array:
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.shape != (n,):
        raise ValueError(
            f"The {name!r} parameter of report must have one label for each of the {n} rows. Got "
            f"shape {labels.shape} instead."
        )
    missing = np.array([value is None or value != value for value in labels.tolist()])
    if missing.any():
        raise ValueError(
            f"The {name!r} parameter of report has no label in row {int(np.argmax(missing))}. "
            "Leave such rows out."
        )
    return labels


def _names(X: Any, n: int, suffix: str) -> list[str]:
    """The index of a data frame if it has one of its own, else row numbers."""
    index = getattr(X, "index", None)
    if index is not None and hasattr(X, "iloc"):
        labels = index.tolist()
        if labels != list(range(n)):
            return [str(label) for label in labels]
    prefix = "test row" if suffix else "row"
    return [f"{prefix} {i}" for i in range(n)]
