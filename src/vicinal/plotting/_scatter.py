"""Scatter plots: one embedding, or several side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from vicinal.core.types import Array
from vicinal.plotting._colours import colouring
from vicinal.plotting._matplotlib import given_axes, pyplot
from vicinal.plotting._names import add_names, legend_inches
from vicinal.plotting._points import draw_points


def scatter(
    Z: Any,
    y: Any,
    ax: Any = None,
    *,
    title: str | None = None,
    classes: Any = None,
    legend: bool = True,
    size: float | None = None,
) -> Any:
    """Draw embedded rows, with one colour per class.

    Rows are drawn in a random order, the same in each call, so that no class covers the others.
    20,000 rows and more are drawn as an image: the shade of a spot shows how many rows are there,
    its colour the mixture of their classes.

    Parameters
    ----------
    Z : array-like of shape (n_samples, 2) or (n_samples, 3)
        Embedded rows, as returned by ``transform`` for ``n_components=2`` or 3.  Three components
        give a picture in three dimensions, which can be turned with the mouse.
    y : array-like of shape (n_samples,)
        Class labels, as they should appear in the legend, or numbers that are not whole, which get
        a colour bar.
    ax : matplotlib Axes, default=None
        Where to draw; None makes a new figure.  For three components it must have
        ``projection="3d"``.
    title : str, default=None
        Title of the axes.
    classes : array-like, default=None
        All labels, in the order of the colours; None: those in y, sorted.  Pass ``classes_`` if y
        may lack some classes, so that each class has the same colour in every picture.
    legend : bool, default=True
        Whether to name the classes: in a legend to the right of the axes if there are at most 60,
        and in the picture, where each class is densest, if there are more than ten.
    size : float, default=None
        Area of a marker in square points.  None: by the number of rows, and an image if there are
        very many.

    Returns
    -------
    ax : matplotlib Axes
    """
    Z = check_points(Z)
    colours = colouring(y, len(Z), classes)
    names = "auto" if legend else "none"
    if ax is None:
        wide = 4.3 + legend_inches(colours, 4.0, names)
        figure = pyplot().figure(figsize=(wide, 4.0), layout="constrained")
        ax = figure.add_subplot(projection=projection(Z))
    panel(ax, Z, colours, title=title, names=names, size=size)
    return ax


def before_after(
    panels: Mapping[str, Any],
    y: Any,
    axes: Any = None,
    *,
    classes: Any = None,
    size: float | None = None,
) -> Any:
    """Draw the same rows in several embeddings, side by side.

    :class:`EmbeddingDisplay` does the same from a fitted estimator.

    Parameters
    ----------
    panels : mapping of str to array-like of shape (n_samples, 2) or (n_samples, 3)
        Title and embedded rows of each panel, from left to right.
    y : array-like of shape (n_samples,)
        Class labels or numbers.
    axes : sequence of matplotlib Axes, default=None
        One for each panel; None makes a new figure.
    classes, size
        As in `scatter`.  The legend is beside the last panel.

    Returns
    -------
    figure : matplotlib Figure
        Save it with ``figure.savefig("before_after.png")``.
    """
    if not panels:
        raise ValueError("The 'panels' parameter of before_after must hold at least one embedding.")
    checked = {title: check_points(Z) for title, Z in panels.items()}
    n = len(next(iter(checked.values())))
    colours = colouring(y, n, classes)
    axes = new_panels(checked.values(), colours) if axes is None else axes
    axes = given_axes(axes, len(panels), "before_after")
    for ax, (title, Z) in zip(axes, checked.items(), strict=True):
        panel(ax, Z, colours, title=title, size=size, beside=ax is axes[-1])
    return axes[0].figure


def new_panels(panels: Any, colours: Any, names: str = "auto", height: float = 3.6) -> list[Any]:
    """Axes side by side in a new figure, with room for a legend."""
    panels = list(panels)
    width = height * len(panels) + 0.15 + legend_inches(colours, height - 0.4, names)
    figure = pyplot().figure(figsize=(width, height), layout="constrained")
    return [
        figure.add_subplot(1, len(panels), i + 1, projection=projection(Z))
        for i, Z in enumerate(panels)
    ]


def panel(
    ax: Any,
    Z: Array,
    colours: Any,
    *,
    title: str | None = None,
    names: str = "auto",
    beside: bool = True,
    target: str | None = None,
    size: float | None = None,
    held_out: Array | None = None,
) -> str:
    """Draw one panel; return what the reader must know about rows that are not drawn."""
    if (Z.shape[1] == 3) != (ax.name == "3d"):
        raise ValueError(
            f"The 'ax' parameter must have projection={projection(Z)!r} for a Z of "
            f"{Z.shape[1]} columns. Got {ax.name!r} instead."
        )
    _, note = draw_points(ax, Z, colours, size=size, held_out=held_out)
    if title is not None:
        ax.set_title(title, fontsize="medium")
    add_names(ax, Z, colours, names, beside=beside, title=target)
    return note


def projection(Z: Any) -> str:
    """The projection of axes for these points."""
    return "3d" if np.shape(Z)[-1] == 3 else "rectilinear"


def check_points(Z: Any) -> Array:
    """Points in two or three dimensions."""
    Z = np.asarray(Z)
    if Z.ndim != 2 or Z.shape[1] not in (2, 3):
        raise ValueError(f"Z must have shape (n, 2) or (n, 3). Got {Z.shape} instead.")
    return Z
