"""Scatter plots: one embedding, or several side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from vicinal.core.types import Array
from vicinal.plotting._matplotlib import COLOURS, pyplot

__all__ = ["before_after", "check", "class_codes", "draw", "scatter"]

_MARKS = "o^sDvP*X"  # the eleventh class has the first colour and the second marker
_LEGEND: dict[str, Any] = {
    "fontsize": "small",
    "frameon": False,
    "handletextpad": 0.1,
    "markerscale": 1.5,
    "loc": "center left",
    "bbox_to_anchor": (1.0, 0.5),
    "columnspacing": 0.8,
}
_NAME: dict[str, Any] = {
    "fontsize": "small",
    "ha": "center",
    "va": "center",
    "bbox": {"boxstyle": "round,pad=0.1", "facecolor": "white", "alpha": 0.7, "linewidth": 0},
}
_LINE = 0.2  # height of a line of the legend, in inches
_COLUMN = 0.6  # width of a column of the legend, in inches
_IN_LEGEND = 60  # with more classes their names are written into the picture
_ROUNDS = 16  # rows of several markers are drawn in so many rounds


def scatter(
    Z: Any,
    y: Any,
    ax: Any = None,
    *,
    title: str | None = None,
    classes: Any = None,
    legend: bool = True,
    size: float = 16.0,
) -> Any:
    """Draw embedded rows, with one colour per class.

    Rows are drawn in a random order, the same in each call, so that no class covers the others.

    Parameters
    ----------
    Z : array-like of shape (n_samples, 2) or (n_samples, 3)
        Embedded rows, as returned by ``transform`` for ``n_components=2`` or 3.  Three components
        give a picture in three dimensions, which can be turned with the mouse.
    y : array-like of shape (n_samples,)
        Class labels, as they should appear in the legend.
    ax : matplotlib Axes, default=None
        Where to draw; None makes a new figure.  For three components it must have
        ``projection="3d"``.
    title : str, default=None
        Title of the axes.
    classes : array-like, default=None
        All labels, in the order of the colours; None: those in y, sorted.  Pass ``classes_`` if y
        may lack some classes, so that each class has the same colour in every picture.
    legend : bool, default=True
        Whether to name the classes: in a legend to the right of the axes, or, if there are more
        than 60, at the median of their rows.
    size : float, default=16.0
        Area of a marker in square points.

    Returns
    -------
    ax : matplotlib Axes
    """
    Z, y, classes = check(Z, y, classes)
    if ax is None:
        wide = 5.0 + _COLUMN * (_n_columns(len(classes), 4.0) - 1) * legend
        figure = pyplot().figure(figsize=(wide, 4.0), layout="constrained")
        ax = figure.add_subplot(projection=_projection(Z))
    if (Z.shape[1] == 3) != (ax.name == "3d"):
        raise ValueError(
            f"The 'ax' parameter of scatter must have projection={_projection(Z)!r} for a Z of "
            f"{Z.shape[1]} columns. Got {ax.name!r} instead."
        )
    codes = class_codes(y, classes)
    draw(ax, Z, codes, size)
    # only distances have a meaning, and no direction is special
    blank: dict[str, Any] = {"xticks": [], "yticks": []}
    if Z.shape[1] == 3:
        ax.set(**blank, zticks=[])
        ax.set_aspect("equal")
    else:
        ax.set(**blank)
        ax.set_aspect("equal", adjustable="datalim")
        for side in ax.spines.values():
            side.set_color("0.8")
    if title is not None:
        ax.set_title(title, fontsize="large")
    if legend and len(classes) <= _IN_LEGEND:
        height = ax.get_window_extent().height / ax.figure.dpi
        handles = [_key(c, str(label)) for c, label in enumerate(classes)]
        ax.legend(handles=handles, ncols=_n_columns(len(classes), height), **_LEGEND)
    elif legend:
        for c in np.unique(codes):
            place = np.median(Z[codes == c], axis=0)
            ax.text(*place, str(classes[c]), **_NAME)
    return ax


def before_after(
    panels: Mapping[str, Any], y: Any, axes: Any = None, *, classes: Any = None, size: float = 16.0
) -> Any:
    """Draw the same rows in several embeddings, side by side.

    Parameters
    ----------
    panels : mapping of str to array-like of shape (n_samples, 2) or (n_samples, 3)
        Title and embedded rows of each panel, from left to right.
    y : array-like of shape (n_samples,)
        Class labels.
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
    if axes is None:
        names = np.unique(y) if classes is None else classes
        width = 3.6 * len(panels) + 0.8 + _COLUMN * (_n_columns(len(names), 3.6) - 1)
        figure = pyplot().figure(figsize=(width, 3.6), layout="constrained")
        axes = [
            figure.add_subplot(1, len(panels), i + 1, projection=_projection(np.asarray(Z)))
            for i, Z in enumerate(panels.values())
        ]
    axes = np.ravel(axes)
    if len(axes) != len(panels):
        raise ValueError(f"There are {len(panels)} panels. Got {len(axes)} axes instead.")
    for ax, (title, Z) in zip(axes, panels.items(), strict=True):
        scatter(Z, y, ax, title=title, classes=classes, legend=ax is axes[-1], size=size)
    return axes[0].figure


def class_codes(y: Array, classes: Array) -> Array:
    """Position of every label among the classes, which need not be sorted."""
    order = np.argsort(classes)
    return order[np.searchsorted(classes, y, sorter=order)]


def draw(ax: Any, Z: Array, codes: Array, size: float) -> list[tuple[Any, Array]]:
    """Draw the rows in a random order; those of one marker at once, as matplotlib must.

    Returns the artists, each with the numbers of its rows.
    """
    mark = codes // len(COLOURS) % len(_MARKS)
    colours = np.array(COLOURS)[codes % len(COLOURS)]
    order = np.random.RandomState(0).permutation(len(Z))
    artists = []
    for part in np.array_split(order, _ROUNDS if mark.any() else 1):
        for m in np.unique(mark[part]):
            rows = part[mark[part] == m]
            artist = ax.scatter(
                *Z[rows].T,
                s=size,
                c=colours[rows],
                marker=_MARKS[m],
                edgecolors="white",
                linewidths=0.3,
            )
            artists.append((artist, rows))
    return artists


def _key(c: int, label: str) -> Any:
    """The entry of a class in the legend."""
    from matplotlib.lines import Line2D

    return Line2D(
        [],
        [],
        linestyle="",
        marker=_MARKS[c // len(COLOURS) % len(_MARKS)],
        color=COLOURS[c % len(COLOURS)],
        markeredgecolor="white",
        markeredgewidth=0.3,
        markersize=4.0,
        label=label,
    )


def _n_columns(n_classes: int, height: float) -> int:
    """Columns of a legend that is no taller than ``height``, in inches."""
    if n_classes > _IN_LEGEND:
        return 1
    return -(-n_classes // max(1, int(height / _LINE)))


def _projection(Z: Array) -> str:
    return "3d" if Z.shape[-1] == 3 else "rectilinear"


def check(Z: Any, y: Any, classes: Any) -> tuple[Array, Array, Array]:
    Z, y = np.asarray(Z), np.asarray(y)
    if Z.ndim != 2 or Z.shape[1] not in (2, 3):
        raise ValueError(f"Z must have shape (n, 2) or (n, 3). Got {Z.shape} instead.")
    if y.shape != (len(Z),):
        raise ValueError(f"Z has {len(Z)} rows but y has shape {y.shape}.")
    classes = np.unique(y) if classes is None else np.asarray(classes)
    missing = np.setdiff1d(y, classes).tolist()
    if missing:
        raise ValueError(f"'classes' must list every label of y. It lacks {missing}.")
    return Z, y, classes
