"""The data of the points in one compressed block, which the page unpacks.

The block is gzip over: the length of a JSON text as a little-endian uint32, the text, and the bytes
of arrays.  The JSON names each array with its type, place and length.  Points are uint16 between
the lowest and the highest coordinate of all frames.  Each frame is the difference from the one
before, and the bytes of numbers are sorted by their place in the number: late frames, which hardly
move, then take little room.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Sized
from typing import Any

import numpy as np

from vicinal.core.types import Array
from vicinal.plotting._colours import COLOURS
from vicinal.reporting.contents import Contents, Embedding, Neighbours
from vicinal.reporting.page._text import clean

NONE = 0xFFFF  # in place of a class or a probability that does not exist


class _Block:
    """Arrays one behind the other, and where each of them is."""

    def __init__(self) -> None:
        self.places: dict[str, dict[str, Any]] = {}
        self.pieces: list[bytes] = []
        self.length = 0

    def add(self, name: str, values: Array) -> None:
        """Append an array, little-endian, its bytes sorted by their place in the number."""
        flat = np.ascontiguousarray(values).ravel()
        flat = flat.astype(flat.dtype.newbyteorder("<"), copy=False)
        planes = flat.view(np.uint8).reshape(-1, flat.itemsize).T
        self._append(name, {"type": flat.dtype.name, "count": flat.size}, planes.tobytes())

    def add_bytes(self, name: str, data: bytes) -> None:
        """Append bytes as they are."""
        self._append(name, {"type": "uint8", "count": len(data)}, data)

    def _append(self, name: str, place: dict[str, Any], data: bytes) -> None:
        self.places[name] = {**place, "start": self.length}
        self.pieces.append(data)
        self.length += len(data)


def payload(contents: Contents) -> bytes:
    """The block of all that the page draws and searches."""
    block = _Block()
    picture, neighbours = contents.embedding, contents.neighbors
    head: dict[str, Any] = {
        "n": len(picture.before),
        "d": int(np.shape(picture.before)[1]),
        "iterations": [int(frame.iteration) for frame in picture.frames],
        "beforeTitle": clean(picture.before_title),
        "afterTitle": clean(picture.after_title),
        "classes": [clean(name) for name in picture.classes],
        "target": clean(picture.target),
        "names": [clean(name) for name in picture.names],
        "colours": COLOURS,
    }
    head |= _add_points(block, picture)
    _add_labels(block, picture)
    if neighbours is not None:
        head["k"] = _add_neighbours(block, neighbours, head["n"])
    if contents.table is not None:
        head["columns"] = [clean(name) for name in contents.table.columns]
        head["cells"] = [[clean(cell) for cell in cells] for cells in contents.table.cells]
    if contents.thumbnails is not None:
        sheet = contents.thumbnails
        block.add("pictured", np.asarray(sheet.points, dtype=np.uint32))
        block.add_bytes("sheet", sheet.png)
        head["sheet"] = {"width": sheet.width, "height": sheet.height, "perRow": sheet.per_row}
    head["arrays"] = block.places
    text = json.dumps(head, allow_nan=False).encode("utf-8")
    plain = len(text).to_bytes(4, "little") + text + b"".join(block.pieces)
    return gzip.compress(plain, compresslevel=6, mtime=0)


def _add_points(block: _Block, picture: Embedding) -> dict[str, Any]:
    """The points before, and all frames as differences; returns the ranges of their coordinates."""
    frames = np.stack([np.asarray(frame.points, dtype=np.float64) for frame in picture.frames])
    codes, after = _quantised(frames)
    steps = codes.copy()
    steps[1:] = codes[1:] - codes[:-1]  # modulo 2^16
    block.add("frames", steps.transpose(0, 2, 1))
    codes, before = _quantised(np.asarray(picture.before, dtype=np.float64)[None])
    block.add("before", codes.transpose(0, 2, 1))
    return {"before": before, "after": after}


def _quantised(points: Array) -> tuple[Array, dict[str, list[float]]]:
    """Coordinates as uint16 between the lowest and the highest one of each dimension."""
    low, high = points.min(axis=(0, 1)), points.max(axis=(0, 1))
    width = np.where(high > low, high - low, 1.0)
    codes = np.rint((points - low) / width * 0xFFFF).astype(np.uint16)
    return codes, {"low": low.tolist(), "high": (low + width).tolist()}


def _add_labels(block: _Block, picture: Embedding) -> None:
    """Classes, numbers, held-out rows and predictions."""
    block.add("codes", np.asarray(picture.codes, dtype=np.uint16))
    block.add("heldOut", np.asarray(picture.held_out, dtype=np.uint8))
    if picture.values is not None:
        block.add("values", np.asarray(picture.values, dtype=np.float32))
    if picture.predicted is not None:
        predicted = np.asarray(picture.predicted)
        block.add("predicted", np.where(predicted < 0, NONE, predicted).astype(np.uint16))


def _add_neighbours(block: _Block, neighbours: Neighbours, n: int) -> int:
    """Indices and probabilities, and how many neighbours each point has; n stands for "none"."""
    smallest = np.uint16 if n <= 0xFFFF else np.uint32
    for name in ("before", "after"):
        indices = np.asarray(getattr(neighbours, name))
        block.add(f"{name}Neighbours", np.where(indices < 0, n, indices).astype(smallest))
        p = np.asarray(getattr(neighbours, f"{name}_p"), dtype=np.float64)
        codes = np.where(np.isfinite(p), np.rint(np.clip(np.nan_to_num(p), 0, 1) * 0xFFFE), NONE)
        block.add(f"{name}P", codes.astype(np.uint16))
    return int(np.shape(neighbours.after)[1])


# Whether the parts of a report fit together


def check(contents: Contents) -> None:
    """Raise a ValueError that names the part of the contents that does not fit the points."""
    picture = contents.embedding
    shape = np.shape(picture.before)
    if len(shape) != 2 or shape[0] == 0 or shape[1] not in (2, 3):
        raise ValueError(f"'embedding.before' must have shape (n, 2) or (n, 3). Got {shape}.")
    if not picture.frames:
        raise ValueError("'embedding.frames' must have at least one frame: the learnt map.")
    for frame in picture.frames:
        if np.shape(frame.points) != shape:
            raise ValueError(
                f"The frame of iteration {frame.iteration} must have shape {shape}. "
                f"Got {np.shape(frame.points)}."
            )
    for name, points in [
        ("embedding.before", picture.before),
        *(("embedding.frames", frame.points) for frame in picture.frames),
    ]:
        if not np.isfinite(points).all():
            raise ValueError(f"'{name}' must be finite.")
    for name, count in _lengths(contents).items():
        if count != shape[0]:
            raise ValueError(
                f"'{name}' must have one entry for each of {shape[0]} points, not {count}."
            )
    highest = max(len(picture.classes) - 1, 0)
    codes = np.asarray(picture.codes)
    if codes.min() < 0 or codes.max() > highest:
        raise ValueError(f"'embedding.codes' must be in [0, {highest}].")


def _lengths(contents: Contents) -> dict[str, int]:
    """The number of entries of each part that has one for each point."""
    picture, neighbours, table = contents.embedding, contents.neighbors, contents.table
    parts: dict[str, Sized | None] = {
        "embedding.codes": picture.codes,
        "embedding.names": picture.names,
        "embedding.held_out": picture.held_out,
        "embedding.values": picture.values,
        "embedding.predicted": picture.predicted,
    }
    if neighbours is not None:
        parts |= {
            "neighbours.before": neighbours.before,
            "neighbours.after": neighbours.after,
            "neighbours.before_p": neighbours.before_p,
            "neighbours.after_p": neighbours.after_p,
        }
    if table is not None:
        parts |= {
            f"table.cells of {column!r}": cells
            for column, cells in zip(table.columns, table.cells, strict=True)
        }
    return {name: len(part) for name, part in parts.items() if part is not None}
