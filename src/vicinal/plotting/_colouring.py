"""What points are coloured by: classes, numbers, or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.multiclass import type_of_target

from vicinal.core.types import Array
from vicinal.plotting._matplotlib import is_dark
from vicinal.plotting._palette import VALUES, class_colours


@dataclass(frozen=True)
class Classes:
    """Classes of rows.

    Parameters
    ----------
    codes : int array of shape (n,)
        Position of each row's class.
    names : list of str
        The classes, in the order of their colours; empty if rows have none.
    """

    codes: Array
    names: list[str]

    @property
    def count(self) -> int:
        """Number of different colours that are asked for."""
        return max(1, len(self.names))

    def take(self, rows: Array) -> Classes:
        """Some of the rows."""
        return Classes(self.codes[rows], self.names)

    def palette(self, ax: Any) -> Array:
        """RGB of each class, (n_classes, 3)."""
        return class_colours(self.count, is_dark(ax))

    def rgb(self, ax: Any) -> Array:
        """RGB of each row, (n, 3)."""
        return self.palette(ax)[self.codes]


@dataclass(frozen=True)
class Numbers:
    """Numbers of rows, and the range of the colour map."""

    values: Array
    low: float
    high: float

    def take(self, rows: Array) -> Numbers:
        """Some of the rows, in the same colours."""
        return Numbers(self.values[rows], self.low, self.high)

    def mappable(self) -> Any:
        """The colour map and its range, as a colour bar needs them."""
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import Normalize

        return ScalarMappable(Normalize(self.low, self.high), VALUES)

    def rgb(self, ax: Any) -> Array:
        """RGB of each row, (n, 3)."""
        return self.of(self.values)

    def of(self, values: Array) -> Array:
        """RGB of any numbers."""
        return np.asarray(self.mappable().to_rgba(values))[..., :3]


def colouring(y: Any, n: int, classes: Any = None, numbers: bool | None = None) -> Any:
    """The colouring of n rows by their target.

    Parameters
    ----------
    y : array-like of shape (n,) or None
        Labels or numbers; None: one colour for all.  Of several numbers, (n, q), the first one
        counts; of label distributions, (n, n_classes), the likeliest class.
    n : int
        Number of rows.
    classes : array-like or None
        All labels, in the order of the colours; None: those in y, sorted.
    numbers : bool or None
        Whether y holds numbers; None: if scikit-learn takes it for a continuous target.
    """
    if y is None:
        return Classes(np.zeros(n, dtype=np.intp), [])
    y = np.asarray(y)
    if y.ndim == 2 and classes is not None and y.shape[1] == len(classes):
        y = np.asarray(classes)[y.argmax(axis=1)]
    elif y.ndim == 2:
        y = y[:, 0]
    if y.shape != (n,):
        raise ValueError(f"Z has {n} rows but y has shape {y.shape}.")
    if numbers is None:
        numbers = classes is None and y.dtype.kind == "f" and type_of_target(y) == "continuous"
    if numbers:
        values = y.astype(np.float64)
        known = values[np.isfinite(values)]
        # a few extreme numbers would leave one colour for all others
        low, high = np.quantile(known, (0.01, 0.99)) if len(known) else (0.0, 1.0)
        return Numbers(values, float(low), float(high) if high > low else float(low) + 1.0)
    classes = np.unique(y) if classes is None else np.asarray(classes)
    missing = np.setdiff1d(y, classes).tolist()
    if missing:
        raise ValueError(f"'classes' must list every label of y. It lacks {missing}.")
    return Classes(class_codes(y, classes), [str(name) for name in classes])


def class_codes(y: Array, classes: Array) -> Array:
    """Position of every label among the classes, which need not be sorted."""
    order = np.argsort(classes)
    return order[np.searchsorted(classes, y, sorter=order)]
