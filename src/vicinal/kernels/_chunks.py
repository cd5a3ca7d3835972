"""References in chunks with bounding boxes: common code of kernels over tiles of lanes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vicinal.kernels._blocks import distances
from vicinal.kernels._jit import helper, maximum, minimum

#: energy of an absent member, for float32 and float64: finite, above that of any pair
FAR = (1e30, 1e300)
_EPS = tuple(float(np.finfo(dtype).eps) for dtype in (np.float32, np.float64))
_BYTES = 2**14  # size of the energies of a tile: half of a first-level cache


class Chunks(NamedTuple):
    """References in chunks.

    Chunk q is ``edges[q]:edges[q + 1]``; the chunks of class c are ``classes[c]:classes[c + 1]``;
    ``boxes`` is (2, d, n_chunks); ``reach`` is an energy.
    """

    edges: NDArray
    classes: NDArray
    boxes: NDArray
    reach: float


class Room(NamedTuple):
    """Scratch for one thread: energies of some references (rows), and the chain of one class.

    The chain is the class polynomial so far; ``part`` is the polynomial of the last few hundred
    references alone: adding many references one by one would lose digits in float32.
    """

    rows: NDArray
    chain: NDArray
    part: NDArray
    vectors: NDArray
    box: NDArray


def height(lanes, dtype):
    """Largest number of references in a chunk."""
    return max(8, _BYTES // (lanes * np.dtype(dtype).itemsize) // 4 * 4)


def room(k, lanes, d, dtype):
    """Scratch for one thread and tiles of that many lanes, in d (even) dimensions."""
    return Room(
        np.zeros((height(lanes, dtype) + 4, lanes), dtype),
        np.zeros((k + 1, lanes), dtype),
        np.zeros((k + 1, lanes), dtype),
        np.zeros((3, lanes), dtype),
        np.zeros((2, d), dtype),
    )


@helper
def in_reach(Zq, boxes, q, last, reach, spare):
    """Whether any lane is within ``last + reach`` of the box of chunk q.

    Both distances are rounded; if they are large, by more than ``reach``: without ``slack`` the
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
    """Energies between references j0:j1 and all lanes; ``far`` for a query and itself."""
    for j in range(j0, j1):
        distances(Zr, Zq, rows[:0], j, 0, 0, 0, Zq.shape[1], rows[j - j0])
    for i in range(Zq.shape[1]):
        if j0 <= self_pos[i] < j1:
            rows[self_pos[i] - j0, i] = far
