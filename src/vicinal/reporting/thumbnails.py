"""Small pictures of rows that are images, on one sheet."""

from __future__ import annotations

import re
import struct
import zlib
from typing import Any

import numpy as np

from vicinal.core.types import Array
from vicinal.reporting.contents import Thumbnails

_PIXELS = 5_000_000  # of all small pictures together
_MOST_PICTURES = 6_000
_SIDE = 32  # of a small picture, at most
_NAME = re.compile(r"pixel_(\d+)_(\d+)")


def shape_in_names(columns: list[str]) -> tuple[int, int] | None:
    """Height and width if the columns are called ``pixel_<row>_<column>``, row by row."""
    found = [_NAME.fullmatch(name) for name in columns]
    if len(found) < 4 or not all(found):
        return None
    height, width = (1 + max(int(m[i]) for m in found if m) for i in (1, 2))
    expected = [f"pixel_{i}_{j}" for i in range(height) for j in range(width)]
    return (height, width) if columns == expected else None


def images_of(images: Any, X: Any, rows: Array, n: int) -> Array:
    """The images of some rows.

    Parameters
    ----------
    images : (height, width) or array of shape (n, height, width) or (n, height, width, 3)
        The shape of the rows of X, or an image for each row.
    X : table
        The rows that are shown.
    rows : int array
        Their numbers among all n rows, in which an array of images is indexed.
    n : int
        Number of all rows.
    """
    if isinstance(images, tuple):
        if len(images) not in (2, 3) or np.prod(images) != X.shape[1]:
            raise ValueError(
                "The 'images' parameter of report must be a height and a width whose product is "
                f"the number of columns, {X.shape[1]}, or an array. Got {images!r} instead."
            )
        return np.asarray(X, np.float32).reshape(len(rows), *images)
    images = np.asarray(images)
    colours = images.ndim == 4 and images.shape[3] == 3
    if len(images) != n or not (images.ndim == 3 or colours):
        raise ValueError(
            f"The 'images' parameter of report must have shape ({n}, height, width) or "
            f"({n}, height, width, 3). Got {images.shape} instead."
        )
    return images[rows]


def make_thumbnails(images: Array) -> Thumbnails:
    """One sheet with small pictures of some thousand points.

    Parameters
    ----------
    images : array of shape (n, height, width) or (n, height, width, 3)
        Bright where numbers are large.
    """
    step = max(1, -(-max(images.shape[1:3]) // _SIDE))
    images = images if step == 1 else _shrunk(images, step)
    n, height, width = images.shape[:3]
    most = int(min(_MOST_PICTURES, max(1, _PIXELS // (height * width)), n))
    points = np.sort(np.random.RandomState(0).permutation(n)[:most])
    chosen = np.nan_to_num(np.asarray(images[points], np.float32))
    low, high = float(chosen.min()), float(chosen.max())
    grey = np.clip((chosen - low) * (255.0 / ((high - low) or 1.0)), 0, 255).astype(np.uint8)
    per_row = max(1, min(len(points), int(np.ceil(np.sqrt(len(points) * height / width)))))
    rows = -(-len(points) // per_row)
    sheet = np.zeros((rows * per_row, *grey.shape[1:]), np.uint8)
    sheet[: len(points)] = grey
    sheet = sheet.reshape(rows, per_row, *grey.shape[1:]).swapaxes(1, 2)
    whole = sheet.reshape(rows * height, per_row * width, *grey.shape[3:])
    return Thumbnails(points, png(whole), width, height, per_row)


def _shrunk(images: Array, step: int) -> Array:
    """Means over squares of pixels."""
    n, height, width = images.shape[:3]
    h, w = height // step, width // step
    cut = images[:, : h * step, : w * step]
    return cut.reshape(n, h, step, w, step, *images.shape[3:]).mean(axis=(2, 4))


def png(pixels: Array) -> bytes:
    """A picture of shape (height, width), grey, or (height, width, 3), as a PNG file."""
    height, width = pixels.shape[:2]
    colour = 2 if pixels.ndim == 3 else 0
    lines = pixels.reshape(height, -1)
    raw = np.hstack([np.zeros((height, 1), np.uint8), lines]).tobytes()  # each line unfiltered

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        [chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(raw, 9)), chunk(b"IEND", b"")]
    )
