"""Colours and markers of classes."""

from __future__ import annotations

from typing import Any

import numpy as np

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
