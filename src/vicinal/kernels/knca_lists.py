"""kNCA over candidate lists: summaries of the classes in each list, and the pull of the pairs.

Points and lists are those of :mod:`vicinal.kernels.nca_lists`; T, E and theta those of
:mod:`vicinal.kernels.knca`, here with ``theta`` the k-th smallest energy.  They are float64: with
one query at a time float32 would save no vector work.  Of the classes in a list, the query's own is
number 0 and the others are numbered in order of appearance, so that small arrays suffice for many
classes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vicinal.kernels._jit import exp2, helper, kernel, minimum
from vicinal.kernels.nca_lists import gather, pull, within

FAR = 1e300  # energy of an absent member
_NEGLIGIBLE = 2.0**-80  # weight relative to the k-th nearest; negligible even in long lists


class ListRoom(NamedTuple):
    """Scratch for one thread and one list."""

    rows: NDArray  # in the dtype of the points: distances, masses (others, own class), weights
    energies: NDArray
    weights: NDArray
    number: NDArray  # number of each member's class in the list, -1 if it does not count
    seen: NDArray  # (classes, 2): the last query that met a class, and its number there
    T: NDArray
    chain: NDArray
    values: NDArray
    powers: NDArray


def list_room(longest, n_codes, n_classes, k, dtype):
    """Scratch for lists up to ``longest``; ``n_codes`` classes in all, ``n_classes`` in a list."""
    return ListRoom(
        np.empty((4, longest), dtype),
        np.empty(longest),
        np.empty(longest),
        np.empty(longest, np.int64),
        np.full((n_codes, 2), -1),
        np.empty((n_classes, k)),
        np.empty((n_classes, k + 1)),
        np.empty((n_classes, k)),
        np.empty((n_classes, k)),
    )


@kernel
def most_classes(codes, indices, first, last, rows, seen):
    """The largest number of other classes in a list; -1 if a listed row does not exist."""
    most = 0
    seen[:] = -1
    for q in range(len(rows)):
        J = indices[first[q] : last[q]]
        if not within(J, len(codes)):
            return -1
        count = 0
        for t in range(len(J)):
            c = codes[J[t]]
            if c != codes[rows[q]] and seen[c] != q:
                seen[c] = q
                count += 1
        most = max(most, count)
    return most


@helper
def _members(P, d, codes, J, q, i, rates, room):
    """Set energies and class numbers of the members of a list; return the number of classes."""
    n = len(J)
    D, others, own = room.rows[0], room.rows[1], room.rows[2]
    gather(P, d, J, i, D, others, own)
    count = 1
    for t in range(n):
        room.number[t] = -1
        if own[t] > 0:
            room.number[t] = 0
            room.energies[t] = D[t] + rates[1, i]
        elif others[t] > 0:
            c = codes[J[t]]
            if room.seen[c, 0] != q:
                room.seen[c, 0] = q
                room.seen[c, 1] = count
                count += 1
            room.number[t] = room.seen[c, 1]
            room.energies[t] = D[t] + rates[0, i]
    return count


@helper
def insert(T, e):
    """Insert an energy among the smallest; return the energy pushed out."""
    k = len(T)
    if e >= T[k - 1]:
        return e
    out = T[k - 1]
    m = k - 1
    while m > 0 and T[m - 1] > e:
        T[m] = T[m - 1]
        m -= 1
    T[m] = e
    return out


@helper
def _weights(T, n, room):
    """Weights of the members relative to the k-th nearest of their class, at most 1.

    In a separate loop, which can be vectorised.
    """
    weights, k = room.weights, T.shape[1]
    for t in range(n):
        c = room.number[t]
        weights[t] = T[c, k - 1] - room.energies[t] if c >= 0 else -FAR
    for t in range(n):
        weights[t] = exp2(minimum(weights[t], 0.0))


@kernel
def knca_lists_collect(
    P, d, codes, indices, first, last, rows, rates, T, E, theta, q0, q1, room
):  # fmt: skip
    """T, E (C, k, W) and theta (C, W) of queries q0:q1, one query per lane.

    ``P`` are packed points of d dimensions, ``codes`` their classes; ``rates`` (2, n) is added to
    the energies of each row's others [0] and own class [1].
    """
    k = T.shape[1]
    room.seen[:] = -1
    T[:] = FAR
    E[:] = 0.0
    theta[:] = FAR
    for q in range(q0, q1):
        J = indices[first[q] : last[q]]
        count = _members(P, d, codes, J, q, rows[q], rates, room)
        room.T[:count] = FAR
        for t in range(len(J)):
            if room.number[t] >= 0:
                room.energies[t] = insert(room.T[room.number[t]], room.energies[t])
        room.chain[:count] = 0.0
        room.chain[:count, 0] = 1.0
        _weights(room.T, len(J), room)
        for t in range(len(J)):
            w = room.weights[t]
            if w > _NEGLIGIBLE and room.energies[t] < FAR:
                chain = room.chain[room.number[t]]
                for u in range(k, 0, -1):
                    chain[u] += w * chain[u - 1]
        for c in range(count):
            theta[c, q - q0] = room.T[c, k - 1]
            for m in range(k):
                T[c, m, q - q0] = room.T[c, m]
                E[c, m, q - q0] = room.chain[c, m + 1]


@helper
def _place(T, e):
    """The member of T with this energy, which may have been rounded differently before."""
    m = 0
    while m < len(T) - 1 and T[m] < e:
        m += 1
    if m > 0 and e - T[m - 1] < T[m] - e:
        m -= 1
    return m


@helper
def _column(source, lane, target):
    """Copy the entries of one lane, which are far apart in memory, into a compact array."""
    for c in range(target.shape[0]):
        for m in range(target.shape[1]):
            target[c, m] = source[c, m, lane]


@kernel
def knca_lists_pull(
    P, d, codes, indices, first, last, rows, rates, T, powers, values, factor, Gq, Gr,
    q0, q1, room,
):  # fmt: skip
    """Add the pull of the pairs of queries q0:q1 to Gq, (n_queries, d'), and to Gr, (n, d').

    d' is d rounded up to a multiple of four.  ``T`` is that of `knca_lists_collect`; ``powers`` and
    ``values`` (C, k, W) are as in `knca_pull`, but not yet multiplied by the query's ``factor``
    (W,).
    """
    k = T.shape[1]
    room.seen[:] = -1
    W, near, chosen, b = room.rows[3], room.T, room.values, room.powers
    for q in range(q0, q1):
        lane = q - q0
        if factor[lane] == 0.0:
            continue
        J = indices[first[q] : last[q]]
        count = _members(P, d, codes, J, q, rows[q], rates, room)
        _column(T, lane, near[:count])
        _column(values, lane, chosen[:count])
        _column(powers, lane, b[:count])
        _weights(near, len(J), room)
        for t in range(len(J)):
            W[t] = 0
            c, e = room.number[t], room.energies[t]
            w = room.weights[t]
            if c < 0 or w <= _NEGLIGIBLE:
                continue
            if e <= near[c, k - 1]:
                x = chosen[c, _place(near[c], e)]
            else:
                x = b[c, k - 1]
                for v in range(k - 2, -1, -1):
                    x = b[c, v] - x * w
                x *= w
            W[t] = factor[lane] * x
        pull(P, W, J, rows[q], Gq[q], Gr)
