"""Pictures of embedded rows: one scatter, or several side by side.

Needs matplotlib, which is imported when a figure is made: ``pip install vicinal[plot]``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from vicinal.core.types import Array

__all__ = ["before_after", "scatter"]

# Okabe and Ito's palette for colour-blind readers, with its yellow darkened for a white page, and
# two more colours because ten classes are common.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000", "#BFAE00",
            "#6A3D9A", "#999999")  # fmt: skip
_MARKS = "o^sDvP*X"  # the eleventh class has the first colour and the second marker
_LEGEND: dict[str, Any] = {
    "fontsize": "small",
    "frameon": False,
    "handletextpad": 0.1,
    "markerscale": 1.5,
    "loc": "center left",
    "bbox_to_anchor": (1.0, 0.5),
}


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

    Parameters
    ----------
    Z : array-like of shape (n_samples, 2)
        Embedded rows, as returned by ``transform`` for ``n_components=2``.
    y : array-like of shape (n_samples,)
        Class labels, as they should appear in the legend.
    ax : matplotlib Axes, default=None
        Where to draw; None makes a new figure.
    title : str, default=None
        Title of the axes.
    classes : array-like, default=None
        All labels, in the order of the colours; None: those in y, sorted.  Pass ``classes_`` if y
        may lack some classes, so that each class has the same colour in every picture.
    legend : bool, default=True
        Whether to draw a legend, to the right of the axes.
    size : float, default=16.0
        Area of a marker in square points.

    Returns
    -------
    ax : matplotlib Axes
    """
    Z, y, classes = _check(Z, y, classes)
    if ax is None:
        _, ax = _pyplot().subplots(figsize=(5.0, 4.0), layout="constrained")
    for c, label in enumerate(classes):
        ax.scatter(
            *Z[y == label].T,
            s=size,
            color=_COLOURS[c % len(_COLOURS)],
            marker=_MARKS[c // len(_COLOURS) % len(_MARKS)],
            edgecolors="white",
            linewidths=0.3,
            label=str(label),
        )
    ax.set(xticks=[], yticks=[])  # only distances have a meaning, and no direction is special
    ax.set_aspect("equal", adjustable="datalim")
    for side in ax.spines.values():
        side.set_color("0.8")
    if title is not None:
        ax.set_title(title, fontsize="large")
    if legend:
        ax.legend(**_LEGEND)
    return ax


def before_after(
    panels: Mapping[str, Any], y: Any, axes: Any = None, *, classes: Any = None, size: float = 16.0
) -> Any:
    """Draw the same rows in several embeddings, side by side.

    Parameters
    ----------
    panels : mapping of str to array-like of shape (n_samples, 2)
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
        size_inches = (3.6 * len(panels) + 0.8, 3.6)
        _, axes = _pyplot().subplots(1, len(panels), figsize=size_inches, layout="constrained")
    axes = np.ravel(axes)
    if len(axes) != len(panels):
        raise ValueError(f"There are {len(panels)} panels. Got {len(axes)} axes instead.")
    for ax, (title, Z) in zip(axes, panels.items(), strict=True):
        scatter(Z, y, ax, title=title, classes=classes, legend=ax is axes[-1], size=size)
    return axes[0].figure


def _check(Z: Any, y: Any, classes: Any) -> tuple[Array, Array, Array]:
    Z, y = np.asarray(Z), np.asarray(y)
    if Z.ndim != 2 or Z.shape[1] != 2:
        raise ValueError(f"Z must have shape (n, 2). Got {Z.shape} instead.")
    if y.shape != (len(Z),):
        raise ValueError(f"Z has {len(Z)} rows but y has shape {y.shape}.")
    classes = np.unique(y) if classes is None else np.asarray(classes)
    missing = np.setdiff1d(y, classes).tolist()
    if missing:
        raise ValueError(f"'classes' must list every label of y. It lacks {missing}.")
    return Z, y, classes


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "vicinal.plotting needs the package matplotlib: pip install vicinal[plot]"
        ) from error
    return plt
