"""References in chunks with a box each, and what kernels over them and tiles of lanes share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vicinal.kernels._blocks import distances
from vicinal.kernels._jit import helper, maximum, minimum

__all__ = ["FAR", "Chunks", "Room", "energies", "height", "in_reach", "room"]

#: energy of an absent member, for float32 and float64: beyond that of any pair, and finite
FAR = (1e30, 1e300)
_EPS = tuple(float(np.finfo(dtype).eps) for dtype in (np.float32, np.float64))
_BYTES = 2**14  # of the energies of a tile: half of a first-level cache


class Chunks(NamedTuple):
    """References in chunks, see above; ``boxes`` is (2, d, n_chunks), ``reach`` an energy."""

    edges: NDArray
    classes: NDArray
    boxes: NDArray
    reach: float


class Room(NamedTuple):
    """Scratch for one thread: energies of some references (rows), and the chain of one class.

    ``part`` is that of the last few hundred by themselves: float32 would lose digits to the sum of
    many references one by one.
    """

    rows: NDArray
    chain: NDArray
    part: NDArray
    vectors: NDArray
    box: NDArray


def height(lanes, dtype):
    """How many references a chunk may have."""
    return max(8, _BYTES // (lanes * np.dtype(dtype).itemsize) // 4 * 4)


def room(k, lanes, d, dtype):
    """Room for one thread and tiles of so many lanes, in d (even) dimensions."""
    return Room(
        np.zeros((height(lanes, dtype) + 4, lanes), dtype),
        np.zeros((k + 1, lanes), dtype),
        np.zeros((k + 1, lanes), dtype),
        np.zeros((3, lanes), dtype),
        np.zeros((2, d), dtype),
    )


@helper
def in_reach(Zq, boxes, q, last, reach, spare):
    """Whether any lane is no farther than ``last + reach`` from the box of chunk q.

    Both distances are rounded, by more than ``reach`` where they are large: without ``slack`` the
    chunk of a member of T itself might be left out.
    """
    zero = last.dtype.type(0)
    slack = last.dtype.type(1 + (Zq.shape[0] + 2) * _EPS[Zq.itemsize // 8])
    for i in range(len(last)):
        spare[i] = -last[i] * slack
    for k in range(Zq.shape[0]):
        low, high, z = boxes[0, k, q], boxes[1, k, q], Zq[k]
        for i in range(len(last)):
            t = maximum(maximum(low - z[i], z[i] - high), zero)
            spare[i] += t * t
    least = spare[0]
    for i in range(len(last)):
        least = minimum(least, spare[i])
    return least <= reach


@helper
def energies(Zq, Zr, self_pos, j0, j1, far, rows):
    """Energies of references j0:j1 to all lanes; a query is no reference of itself."""
    for j in range(j0, j1):
        distances(Zr, Zq, rows[:0], j, 0, 0, 0, Zq.shape[1], rows[j - j0])
    for i in range(Zq.shape[1]):
        if j0 <= self_pos[i] < j1:
            rows[self_pos[i] - j0, i] = far
