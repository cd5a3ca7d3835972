"""The names of classes: a legend next to the axes, or text in the picture; a colour bar."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter

from vicinal.core.types import Array
from vicinal.plotting._colours import Classes
from vicinal.plotting._matplotlib import background, bad, plain_bar
from vicinal.plotting._points import DENSITY_FROM, point_marks, view_of

_LEGEND: dict[str, Any] = {
    "fontsize": "small",
    "frameon": False,
    "handletextpad": 0.1,
    "markerscale": 1.5,
    "loc": "center left",
    "bbox_to_anchor": (1.0, 0.5),
    "columnspacing": 0.8,
    "borderaxespad": 0.3,
}
_LINE = 0.2  # height of a line of the legend, in inches
_COLUMN = 0.35  # width of a column of the legend without its text, in inches
_LETTER = 0.075  # width of a letter
_IN_LEGEND = 60  # with more classes there is no legend
_LONGEST = 24  # letters of a name
_COARSE = 32  # cells along a side, to find where a class is densest
_ROUNDS = 80  # of pushing names apart
_ROWS = 50_000  # rows that say where the classes are
NAMES = ("auto", "legend", "points", "both", "none")


def check_names(owner: str, names: Any) -> None:
    """Refuse an unknown way to name the classes."""
    if names not in NAMES:
        listed = ", ".join(map(repr, NAMES))
        raise bad(owner, "names", f"one of {listed}", names)


def shortened(name: str) -> str:
    """A name that is no longer than 24 letters."""
    return name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"


def add_names(
    ax: Any, Z: Array, colours: Any, names: str, *, beside: bool = True, title: str | None = None
) -> None:
    """Name the classes of points that were drawn, or add the colour bar of their numbers.

    Parameters
    ----------
    ax : matplotlib Axes
    Z : array of shape (n, 2) or (n, 3)
        The points.
    colours : Classes or Numbers
    names : str
        One of `NAMES`.  "auto": a legend for up to 60 classes, and names in the picture if there
        are more than ten, since colours repeat then; an image of this many has no legend.
    beside : bool
        Whether these axes have the legend or the colour bar; one of several panels has it.
    title : str or None
        Title of the legend, or label of the colour bar.
    """
    if names == "none":
        return
    if not isinstance(colours, Classes):
        if beside:
            bar = plain_bar(ax, colours.mappable())
            bar.ax.tick_params(labelsize="small")
            bar.set_label(title or "")
        return
    if not colours.names:
        return
    many = len(colours.names)
    if beside and names in ("auto", "legend", "both") and has_legend(len(Z), many, names):
        _legend(ax, len(Z), colours, title)
    if names in ("points", "both") or (names == "auto" and many > 10):
        _names_in_picture(ax, Z, colours)


def has_legend(n: int, n_classes: int, names: str) -> bool:
    """Whether a legend tells the classes apart.

    An image has no markers: beyond ten classes a colour stands for several of them.
    """
    return n_classes <= (10 if names == "auto" and n >= DENSITY_FROM else _IN_LEGEND)


def legend_columns(n_classes: int, height: float) -> int:
    """Columns of a legend that is no taller than ``height``, in inches."""
    if n_classes > _IN_LEGEND:
        return 1
    return -(-n_classes // max(1, int(height / _LINE)))


def legend_inches(colours: Any, height: float, names: str) -> float:
    """Width to leave for the legend or the colour bar next to the axes."""
    if names in ("none", "points"):
        return 0.0
    if not isinstance(colours, Classes):
        return 0.8
    if not colours.names or not has_legend(len(colours.codes), len(colours.names), names):
        return 0.0
    longest = max(len(shortened(name)) for name in colours.names)
    return (_COLUMN + _LETTER * longest) * legend_columns(len(colours.names), height)


def _legend(ax: Any, n: int, colours: Classes, title: str | None) -> None:
    height = ax.get_window_extent().height / ax.figure.dpi
    marks, palette = point_marks(n, colours.count), colours.palette(ax)
    handles = [
        _key(ax, shortened(name), palette[c], marks[c]) for c, name in enumerate(colours.names)
    ]
    columns = legend_columns(len(handles), height)
    legend = ax.legend(handles=handles, ncols=columns, title=title, **_LEGEND)
    legend.get_title().set_fontsize("small")


def _key(ax: Any, label: str, colour: Array, mark: str) -> Any:
    """The entry of a class in the legend."""
    from matplotlib.lines import Line2D

    return Line2D(
        [], [], linestyle="", marker=mark, color=tuple(colour), markersize=4.5, label=label,
        markeredgecolor=tuple(background(ax)), markeredgewidth=0.3,
    )  # fmt: skip


def _names_in_picture(ax: Any, Z: Array, colours: Classes) -> None:
    """Write each name where its class is densest, pushed apart where names would overlap."""
    from matplotlib.patheffects import withStroke

    rows = np.random.RandomState(0).permutation(len(Z))[:_ROWS]
    Z, codes = Z[rows], colours.codes[rows]
    shown = np.unique(codes)
    places = name_places(Z, codes, shown)
    size = 8.0 if len(shown) <= 30 else 6.5
    texts = [shortened(colours.names[c]) for c in shown]
    if Z.shape[1] == 2:
        places = _pushed_apart(ax, places, texts, size)
    halo, palette = withStroke(linewidth=2.5, foreground=background(ax)), colours.palette(ax)
    for place, text, c in zip(places, texts, shown, strict=True):
        ax.text(
            *place, text, fontsize=size, fontweight="bold", ha="center", va="center",
            color=_legible(palette[c], background(ax)), path_effects=[halo], zorder=5,
        )  # fmt: skip


def _legible(colour: Array, behind: Array) -> Array:
    """A class colour moved away from the background, for text."""
    far = np.zeros(3) if behind.mean() > 0.5 else np.ones(3)
    return 0.4 * colour + 0.6 * far


def name_places(Z: Array, codes: Array, shown: Array) -> Array:
    """Where each class is densest: the mean of its rows in the fullest cell of a coarse grid.

    The mean of all its rows would be outside of a class that lies on a ring or in two parts.
    """
    low, high = view_of(Z[:, :2])
    cell = np.minimum(((Z[:, :2] - low) / (high - low) * _COARSE).astype(np.intp), _COARSE - 1)
    flat = cell[:, 1] * _COARSE + cell[:, 0]
    places = np.empty((len(shown), Z.shape[1]))
    for at, c in enumerate(shown):
        own = codes == c
        count = np.bincount(flat[own], minlength=_COARSE**2).reshape(_COARSE, _COARSE)
        top = np.argmax(gaussian_filter(count.astype(float), 1.0) * (count > 0))
        places[at] = Z[own & (flat == top)].mean(axis=0)
    return places


def _pushed_apart(ax: Any, places: Array, texts: list[str], size: float) -> Array:
    """The places of names, moved until their boxes overlap no more, or nearly so."""
    ax.apply_aspect()
    to_pixels = ax.transData
    pixels = to_pixels.transform(places)
    unit = size * ax.figure.dpi / 72.0
    half = np.array([[0.32 * len(text) * unit + 1.0, 0.55 * unit] for text in texts])
    for _ in range(_ROUNDS):
        gap = pixels[:, None] - pixels[None]
        overlap = half[:, None] + half[None] - np.abs(gap)
        hit = (overlap > 0).all(axis=2) & ~np.eye(len(texts), dtype=bool)
        if not hit.any():
            break
        # along the axis that needs the smaller push; equal places part by their order
        along = overlap.argmin(axis=2)
        order = np.sign(np.arange(len(texts))[:, None] - np.arange(len(texts)))
        for axis in (0, 1):
            way = np.where(gap[..., axis] == 0, order, np.sign(gap[..., axis]))
            push = np.where(hit & (along == axis), 0.3 * overlap[..., axis] * way, 0.0)
            pixels[:, axis] += push.sum(axis=1)
    box = ax.get_window_extent()
    low, high = half + box.min, box.max - half
    pixels = np.clip(pixels, low, np.maximum(low, high))
    return to_pixels.inverted().transform(pixels)
