"""Target neighbours: the rows of its own class that each row should have nearby."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np

from vicinal import _search
from vicinal.core.types import Array
from vicinal.neighborhoods.parts import reference_rows

_CHUNK = 16_384  # rows searched at a time


def target_neighbors(
    points: Array | Callable[[Array], Array],
    codes: Array,
    k: int,
    references: Array | None = None,
    finder: Callable[[Array], _search.Find] | None = None,
) -> Array:
    """The k nearest rows of its own class, for each row.

    Parameters
    ----------
    points : array of shape (n, d), or callable
        Positions of the rows in space; a callable returns those of some rows, so that not all need
        be in memory at once.
    codes : int array of shape (n,)
        Class of each row.
    k : int
        Number of neighbours.
    references : int array, default=None
        Rows that may be neighbours; None for all.
    finder : callable, default=None
        ``find = finder(points)``, ``positions, distances = find(queries, k)``; None for Euclidean
        distances.

    Returns
    -------
    neighbours : int32 array of shape (n, k)
        Nearest first, -1 where the class has fewer other members among the references.
    """
    if not isinstance(k, Integral) or k < 1:
        raise ValueError(
            f"The 'k' parameter of target_neighbors must be an int in [1, inf). Got {k!r} instead."
        )
    codes = np.asarray(codes)
    references = reference_rows(references, len(codes))
    at: Any = points if callable(points) else np.asarray(points).__getitem__
    make = finder or _euclidean
    out = np.full((len(codes), k), -1, np.int32)
    for code in np.unique(codes):
        rows = np.flatnonzero(codes == code)
        members = references[codes[references] == code]
        if not len(members):
            continue
        find = make(at(members))
        width = min(k + 1, len(members))
        for start in range(0, len(rows), _CHUNK):
            chunk = rows[start : start + _CHUNK]
            found = find(at(chunk), width)[0]
            out[chunk] = _without_self(np.where(found < 0, -1, members[found]), chunk, k)
    return out


def _euclidean(points: Array) -> _search.Find:
    return _search.finder("exact", points)  # must not depend on installed packages


def _without_self(found: Array, rows: Array, k: int) -> Array:
    """The first k except the row itself, which among equal rows need not come first."""
    found = np.where(found == rows[:, None], -1, found)
    order = np.argsort(found < 0, axis=1, kind="stable")[:, :k]
    found = np.take_along_axis(found, order, axis=1)
    return np.pad(found, ((0, 0), (0, k - found.shape[1])), constant_values=-1)
