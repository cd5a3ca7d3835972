"""Whether the parts of a report fit together."""

from __future__ import annotations

from collections.abc import Sized

import numpy as np

from vicinal.reporting.contents import Contents


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
