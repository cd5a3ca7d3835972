"""The colours and markers of points: by class, by number, or one for all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.multiclass import type_of_target

from vicinal.core.types import Array
from vicinal.plotting._matplotlib import is_dark

# Found by a search for the largest differences between any two of the first 2, 3, ..., 10 colours,
# as seen with normal vision and with each of the three kinds of colour blindness: in CIELAB the
# first eight differ by at least 22, the first six by at least 36.
COLOURS = ("#0049d0", "#f6a402", "#ad0029", "#4fcaa5", "#89327a", "#b5aff7", "#438cff", "#9d7800",
           "#e4705e", "#786bbb")  # fmt: skip
MARKS = "o^sDvPX*"
VALUES = "viridis"  # the colour map of numbers: even steps of lightness, safe for the colour-blind
_LIGHTER = 0.22  # how far colours are moved to white on a dark page


def class_colours(n_classes: int, dark: bool = False) -> Array:
    """One RGB colour for each class, of shape (n_classes, 3); from the eleventh on they repeat."""
    from matplotlib.colors import to_rgb

    colours = np.array([to_rgb(colour) for colour in COLOURS])
    if dark:
        colours += _LIGHTER * (1.0 - colours)
    return colours[np.arange(n_classes) % len(COLOURS)]


def line_colours(ax: Any) -> list[tuple[float, ...]]:
    """The ten colours for lines and bars on the page of these axes."""
    return [tuple(colour) for colour in class_colours(len(COLOURS), is_dark(ax))]


def class_marks(n_classes: int, distinct: bool) -> list[str]:
    """One marker for each class: no two of 80 classes share both colour and marker.

    Up to ten classes differ by their colours.  ``distinct`` gives them markers too, which tell them
    apart in grey; small markers all look alike, so it is for large ones.
    """
    if n_classes <= len(COLOURS) and not distinct:
        return [MARKS[0]] * n_classes
    codes = np.arange(n_classes)
    return [MARKS[(c + c // len(COLOURS)) % len(MARKS)] for c in codes % 80]


def linear(colours: Any) -> Array:
    """sRGB in [0, 1] as amounts of light, which may be averaged."""
    c = np.asarray(colours, dtype=np.float64)
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def srgb(light: Any) -> Array:
    """The inverse of `linear`."""
    c = np.clip(light, 0.0, 1.0)
    return np.where(c <= 0.0031308, 12.92 * c, 1.055 * c ** (1 / 2.4) - 0.055)


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
