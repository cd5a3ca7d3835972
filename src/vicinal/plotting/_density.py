"""Very many points as an image: how many there are is shown by shade, what they are by colour."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter

from vicinal.core.types import Array
from vicinal.plotting._colouring import Classes
from vicinal.plotting._palette import linear, srgb

_LEAST, _MOST = 160, 420  # bins along the longer side
_ROWS = 2**18  # rows that are binned at a time: temporary arrays of some megabytes
_FAINTEST = 0.30  # opacity of a bin with a single point
_FULL = 0.995  # share of the bins that are not yet fully opaque
_WIDTH = 0.7  # of the filter, in bins


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
    for first in range(0, len(Z), _ROWS):
        rows = slice(first, first + _ROWS)
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


def draw_density(ax: Any, Z: Array, colours: Any, view: tuple[Array, Array], alpha: float) -> Any:
    """Draw the image of the points into axes; ``alpha`` multiplies its opacity."""
    palette = colours.palette(ax) if isinstance(colours, Classes) else None
    image = density_image(Z, colours, palette, view)
    image[..., 3] *= alpha
    (left, lower), (right, upper) = view
    return ax.imshow(
        image,
        origin="lower",
        extent=(left, right, lower, upper),
        interpolation="bilinear",
        aspect="auto",
        zorder=1,
    )
