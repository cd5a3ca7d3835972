"""Matplotlib, imported when a figure is made, and what all pictures share of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from vicinal.core.types import Array


def pyplot() -> Any:
    """matplotlib.pyplot, or an error that says what to install."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "vicinal.plotting needs the package matplotlib: pip install matplotlib, "
            "or pip install 'vicinal[plot]'"
        ) from error
    return plt


class Display:
    """A picture with its numbers; ``plot`` draws it into axes, which it remembers."""

    axes_: Array
    ax_: Any
    figure_: Any

    def _open(self, ax: Any, count: int, size: tuple[float, float], **options: Any) -> Array:
        """Take the ``count`` given axes, or make a new figure."""
        if ax is None:
            _, ax = pyplot().subplots(1, count, figsize=size, layout="constrained", **options)
        return self._take(ax, count)

    def _take(self, ax: Any, count: int) -> Array:
        axes = np.ravel(np.asarray(ax, dtype=object))
        if len(axes) != count:
            name = type(self).__name__
            raise ValueError(f"{name} draws {count} panels. Got {len(axes)} axes instead.")
        self.axes_, self.ax_, self.figure_ = axes, axes[0], axes[0].figure
        return axes


def bad(owner: str, name: str, must: str, got: Any) -> ValueError:
    """The error for a parameter outside its bounds."""
    return ValueError(f"The {name!r} parameter of {owner} must be {must}. Got {got!r} instead.")


def background(ax: Any) -> Array:
    """The colour behind the data as RGB: that of the axes, or of the figure if they have none."""
    from matplotlib.colors import to_rgba

    red, green, blue, alpha = to_rgba(ax.get_facecolor())
    if alpha == 0.0:
        red, green, blue, alpha = to_rgba(ax.figure.get_facecolor())
    # what is transparent is taken for paper
    return np.array([red, green, blue]) * alpha + (1.0 - alpha)


def is_dark(ax: Any) -> bool:
    """Whether the style has a dark background."""
    return bool(background(ax) @ (0.2126, 0.7152, 0.0722) < 0.4)


def foreground(ax: Any) -> str:
    """A quiet colour for lines and outlines that is legible on the background."""
    return "0.8" if is_dark(ax) else "0.25"


def plain_axes(ax: Any, grid: str = "both") -> None:
    """Axes with a left and a lower line and a faint grid."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis=grid, color="0.5", alpha=0.2, linewidth=0.6)
    ax.set_axisbelow(True)


def plain_bar(ax: Any, mappable: Any) -> Any:
    """A colour bar without a frame."""
    bar = ax.figure.colorbar(mappable, ax=ax, shrink=0.8, pad=0.02, aspect=28)
    bar.outline.set_visible(False)
    return bar
