"""Points in two or three dimensions: as markers while they are few, else as an image."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter

from vicinal.core.types import Array
from vicinal.plotting._colours import Classes, class_marks, linear, srgb
from vicinal.plotting._matplotlib import background, foreground

DENSITY_FROM = 20_000  # from this many points on, shades instead of markers
_DRAWN_IN_3D = 20_000  # most points of a picture in three dimensions, which has no image
_MARKS_UP_TO = 1_500  # points: with more, markers are too small to differ by shape
_ROUNDS = 16  # rows of several markers are drawn in this many rounds, of at least ...
_ROUND = 64  # ... this many rows
_RASTER_FROM = 5_000  # points: as vectors, they would make a file of megabytes
_MARGIN = 0.04
_AREAS = {"*": 1.6, "P": 1.2, "X": 1.2, "D": 0.8, "s": 0.9}  # shapes that look as large as a disc
_FAINT = 0.28  # opacity of rows that were learnt from, where others were held out
_LEAST, _MOST = 160, 420  # bins along the longer side
_BLOCK = 2**18  # rows that are binned at a time: temporary arrays of some megabytes
_FAINTEST = 0.30  # opacity of a bin with a single point
_FULL = 0.995  # share of the bins that are not yet fully opaque
_WIDTH = 0.7  # of the filter, in bins


def point_size(n: int) -> float:
    """Area of a marker in square points, for n of them in a panel of some four inches."""
    return float(np.clip(16.0 * (1000.0 / max(n, 1)) ** 0.55, 2.5, 42.0))


def point_marks(n: int, n_classes: int) -> list[str]:
    """The markers of the classes if n points are drawn."""
    if n >= DENSITY_FROM:  # an image has none
        return ["o"] * n_classes
    return class_marks(n_classes, distinct=n <= _MARKS_UP_TO)


def draw_points(
    ax: Any, Z: Array, colours: Any, *, size: float | None = None, held_out: Array | None = None
) -> tuple[list[tuple[Any, Array]], str]:
    """Draw embedded rows.

    Parameters
    ----------
    ax : matplotlib Axes
    Z : array of shape (n, 2) or (n, 3)
    colours : Classes or Numbers
    size : float or None
        Area of a marker; None: by the number of points, and shades if there are very many.
    held_out : bool array of shape (n,) or None
        Rows to stand out among the others.

    Returns
    -------
    artists : list of (artist, rows)
        The markers, with the numbers of their rows; empty for an image.
    note : str
        What the reader must know about the points that are not drawn; else empty.
    """
    everything = np.arange(len(Z))
    layers = [(everything, 1.0, False)]
    if held_out is not None and held_out.any() and not held_out.all():
        layers = [(everything[~held_out], _FAINT, False), (everything[held_out], 1.0, True)]
    artists, note, view = [], "", view_of(Z)
    for rows, alpha, outlined in layers:
        if size is None and Z.shape[1] == 2 and len(rows) >= DENSITY_FROM:
            draw_density(ax, Z[rows], colours.take(rows), view, max(alpha, 0.5))
            continue
        if Z.shape[1] == 3 and len(rows) > _DRAWN_IN_3D:
            note = f"{_DRAWN_IN_3D:,} of {len(rows):,} rows, drawn at random"
            rows = np.random.RandomState(0).permutation(rows)[:_DRAWN_IN_3D]
        artists += _markers(ax, Z, colours, rows, size, alpha, outlined)
    frame(ax, view)
    return artists, note


def _markers(
    ax: Any, Z: Array, colours: Any, rows: Array, size: float | None, alpha: float, outlined: bool
) -> list[tuple[Any, Array]]:
    """Draw the rows in a random order, all rows of one marker at once, as matplotlib must.

    Returns the artists, each with the numbers of its rows.
    """
    rgb = colours.rgb(ax)
    mark = np.zeros(len(Z), dtype=np.intp)
    shapes = ["o"]
    if isinstance(colours, Classes):
        few = min(len(Z), DENSITY_FROM - 1)
        names = point_marks(few, colours.count)
        shapes = sorted(set(names))
        mark = np.array([shapes.index(m) for m in names])[colours.codes]
    area = point_size(len(rows)) if size is None else size
    edge = foreground(ax) if outlined else background(ax)
    look: dict[str, Any] = {
        "alpha": alpha * (0.95 if len(rows) <= 2000 else 0.8),
        "linewidths": 0.0 if area < 4 or alpha < 1 else (0.5 if outlined else 0.3),
        "edgecolors": [edge],
        "rasterized": len(rows) > _RASTER_FROM,
        "zorder": 3 if outlined else 2,
    }
    order = np.random.RandomState(0).permutation(rows)
    artists = []
    rounds = min(_ROUNDS, 1 + len(rows) // _ROUND) if len(shapes) > 1 else 1
    for part in np.array_split(order, rounds):
        for m in np.unique(mark[part]):
            some = part[mark[part] == m]
            look["s"] = area * _AREAS.get(shapes[m], 1.0)
            artist = ax.scatter(*Z[some].T, c=rgb[some], marker=shapes[m], **look)
            artists.append((artist, some))
    return artists


def view_of(Z: Array) -> tuple[Array, Array]:
    """The corners of a box around all points, with a margin."""
    if not len(Z):
        return np.full(Z.shape[1], -1.0), np.full(Z.shape[1], 1.0)
    low, high = Z.min(axis=0).astype(np.float64), Z.max(axis=0).astype(np.float64)
    size = float((high - low).max()) or 1.0
    # a side of next to no length would give an image without pixels
    half = np.maximum(0.5 * (high - low), 0.05 * size) + _MARGIN * size
    return 0.5 * (low + high) - half, 0.5 * (low + high) + half


def frame(ax: Any, view: tuple[Array, Array]) -> None:
    """Show the whole view at one scale for all axes: only distances mean something."""
    low, high = view
    if ax.name == "3d":
        ax.set(xticks=[], yticks=[], zticks=[])
        for axis in (ax.xaxis, ax.yaxis, ax.zaxis):
            axis.line.set_color("0.6")
        ax.set_aspect("equal")
        return
    ax.set(xticks=[], yticks=[])
    # auto: matplotlib may widen one of them so that both axes have one scale
    ax.set_xlim(low[0], high[0], auto=True)
    ax.set_ylim(low[1], high[1], auto=True)
    ax.set_aspect("equal", adjustable="datalim")
    ax.spines[:].set(color="0.6", linewidth=0.6)


# Very many points: how many there are is shown by shade, what they are by colour.


def density_image(
    Z: Array, colours: Any, palette: Array | None, view: tuple[Array, Array]
) -> Array:
    """An image of points, float32 RGBA of shape (height, width, 4), whose first row is the lowest.

    The colour of a bin is the mean of its points' colours, as amounts of light, or the colour of
    the mean of their numbers; its opacity grows with the logarithm of their count.  Time and memory
    grow with the rows and the bins, not with the number of classes.

    Parameters
    ----------
    Z : array of shape (n, 2)
    colours : Classes or Numbers
    palette : array of shape (n_classes, 3) or None
        RGB of the classes; None for numbers.
    view : pair of arrays of shape (2,)
        The lower left and the upper right corner.  Points outside are left out.
    """
    low, high = view
    side = np.clip(np.sqrt(len(Z)) * 0.8, _LEAST, _MOST)
    width, height = np.maximum(1, np.rint(side * (high - low) / (high - low).max())).astype(int)
    light = None if palette is None else linear(palette)
    sums = np.zeros((2 if light is None else 4, height * width))
    for first in range(0, len(Z), _BLOCK):
        rows = slice(first, first + _BLOCK)
        place = (Z[rows] - low) / (high - low) * (width, height)
        inside = np.flatnonzero(((place >= 0) & (place <= (width, height))).all(axis=1))
        x, y = np.minimum(place[inside].astype(np.intp), (width - 1, height - 1)).T
        bins = y * width + x
        sums[0] += np.bincount(bins, minlength=height * width)
        what = colours.values[rows][inside] if light is None else light[colours.codes[rows][inside]]
        for channel, weight in enumerate(what.reshape(len(inside), -1).T, start=1):
            sums[channel] += np.bincount(bins, weight, height * width)
    smooth = [gaussian_filter(each.reshape(height, width), _WIDTH) for each in sums]
    count = np.maximum(smooth[0], 1e-12)
    mean = np.stack([each / count for each in smooth[1:]], axis=-1)
    rgb = colours.of(mean[..., 0]) if light is None else srgb(mean)
    return np.dstack([rgb, _opacity(smooth[0])]).astype(np.float32)


def _opacity(count: Array) -> Array:
    """From about `_FAINTEST` where there is one point to 1 where there are most."""
    one = gaussian_filter(np.eye(7)[3][:, None] * np.eye(7)[3], _WIDTH).max()  # of a single point
    some = count[count > 0.5 * one]
    most = max(float(np.quantile(some, _FULL)) if len(some) else one, 1.5 * one)
    shade = np.log1p(count / one) / np.log1p(most / one)
    single = np.log(2.0) / np.log1p(most / one)
    return np.interp(shade, [0.0, single, 1.0], [0.0, max(_FAINTEST, single), 1.0])


def draw_density(ax: Any, Z: Array, colours: Any, view: tuple[Array, Array], alpha: float) -> None:
    """Draw the image of the points into axes; ``alpha`` multiplies its opacity."""
    palette = colours.palette(ax) if isinstance(colours, Classes) else None
    image = density_image(Z, colours, palette, view)
    image[..., 3] *= alpha
    (left, lower), (right, upper) = view
    extent = (left, right, lower, upper)
    ax.imshow(
        image, origin="lower", extent=extent, interpolation="bilinear", aspect="auto", zorder=1
    )
