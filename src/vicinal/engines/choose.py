"""Which engine sums over the pairs: tiles of all of them, trees within a bound, or lists."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vicinal.core.types import Array, Bounded, Pairs
from vicinal.densities import Kernel
from vicinal.engines.cpu.lists import Lists
from vicinal.engines.cpu.tiles import (
    Tiles,
    coordinate_scale,
    side,
    worth_ordering,
)
from vicinal.engines.points import centre_of
from vicinal.extras.trees import SMALL, Trees, check_bounded

__all__ = ["Data", "Engine", "engine_for"]

#: gives ``sums()`` over either kind of class, ``pull(shift, factor, d)`` and ``share``
Engine = Tiles | Trees | Lists


class Data(NamedTuple):
    """Points, and which of them are queries and references."""

    Z: Array
    codes: Array
    mass: Array
    query_rows: Array
    reference_rows: Array


def engine_for(
    data: Data, pairs: Pairs | Bounded | None, kernel: Kernel
) -> tuple[Engine, Array, Array]:
    """What sums over the pairs, with the rows of Z that its two sides stand for, in order."""
    if pairs is None or isinstance(pairs, Bounded):
        return _all_pairs(data, pairs, kernel)
    if not isinstance(pairs, Pairs):
        raise TypeError(
            f"The 'pairs' parameter of nca must be Pairs, Bounded or None. Got {pairs!r} instead."
        )
    centre = centre_of(data.Z[data.reference_rows])
    mass = np.zeros(len(data.Z))
    mass[data.reference_rows] = data.mass[data.reference_rows]
    engine = Lists(
        data.Z, data.codes, mass, data.query_rows, pairs, kernel, centre, coordinate_scale(kernel)
    )
    return engine, engine.rows, np.arange(len(data.Z))


def _all_pairs(
    data: Data, bounded: Bounded | None, kernel: Kernel
) -> tuple[Tiles | Trees, Array, Array]:
    Z, codes, mass, query_rows, reference_rows = data
    if bounded is not None:
        check_bounded(bounded.tolerance, kernel)
        if not bounded.always and len(query_rows) * len(reference_rows) < SMALL:
            return _all_pairs(data, None, kernel)
    centre, scale = centre_of(Z[reference_rows]), coordinate_scale(kernel)
    ordered = bounded is None and worth_ordering(
        Z[query_rows],
        codes[query_rows],
        Z[reference_rows],
        codes[reference_rows],
        mass[reference_rows],
        kernel,
    )
    R, order = side(
        Z[reference_rows], codes[reference_rows], mass[reference_rows], centre, scale, ordered
    )
    reference_rows = reference_rows[order]
    position = np.full(len(Z), -1)
    position[reference_rows] = np.arange(len(reference_rows))
    everything = len(query_rows) == len(reference_rows) == len(Z)
    if everything or np.array_equal(np.sort(query_rows), np.sort(reference_rows)):
        Q, query_rows = R, reference_rows
    else:
        Q, order = side(Z[query_rows], codes[query_rows], mass[query_rows], centre, scale, ordered)
        query_rows = query_rows[order]
    self_pos = position[query_rows]
    if bounded is None:
        return Tiles(Q, R, self_pos, kernel), query_rows, reference_rows
    trees = Trees(Q, R, self_pos, kernel, bounded, Z.shape[1])
    if bounded.always or trees.pays():
        return trees, query_rows, reference_rows
    return _all_pairs(data, None, kernel)
