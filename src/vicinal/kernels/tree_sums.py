"""Sums of a kernel over the lists of a walk, and their gradient.

A list holds nodes, which count as one point each, with all their mass at their mean, and leaves,
whose points count one by one (:mod:`vicinal.kernels.tree_walk`).  These points are gathered into a
buffer, ``CHUNK`` at a time, so that each query of the packet runs long loops over it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vicinal.kernels._blocks import pull_four, steepness, to_energies
from vicinal.kernels._jit import exp2, helper, kernel, log2, minimum
from vicinal.kernels.tree_walk import WIDTH

#: points in the buffer: its rows should stay in the first-level cache
CHUNK = 1024


class Buffer(NamedTuple):
    """The gathered points, and scratch of one thread."""

    points: np.ndarray  # (d rounded up to even, CHUNK)
    pull: np.ndarray  # (d, CHUNK), on these points
    mass: np.ndarray
    rows: np.ndarray  # (4, CHUNK): distances, then weights
    pull_queries: np.ndarray  # (d, WIDTH)
    own: np.ndarray  # position of each query of the packet in the trees, or -1
    me: np.ndarray  # its position in the buffer, or -1


def buffer(d, dtype):
    """An empty buffer."""
    return Buffer(
        np.zeros((d + d % 2, CHUNK), dtype), np.zeros((d, CHUNK), dtype), np.zeros(CHUNK, dtype),
        np.zeros((4, CHUNK), dtype), np.zeros((d, WIDTH), dtype), np.zeros(WIDTH, np.int64),
        np.zeros(WIDTH, np.int64),
    )  # fmt: skip


@helper
def _clear(target, n):
    for j in range(n):
        target[j] = 0


@helper
def _copy(source, target, n):
    for j in range(n):
        target[j] = source[j]


@helper
def _add(source, target, n):
    for j in range(n):
        target[j] += source[j]


@helper
def _take(packets, where, number, own):
    """Find the queries of a packet in the trees; return their number."""
    queries = 0
    for i in range(WIDTH):
        query = packets.index[WIDTH * number + i]
        own[i] = where[query] if query >= 0 else -1
        queries += query >= 0
    return queries


@helper
def _gather(forest, nodes, at, end, w):
    """Fill the buffer from the list ``nodes[at:end]``.

    Return the next position in the list, the number of points, and how many of them are nodes.
    """
    leaf, d = forest.mass.shape[1], forest.points.shape[1]
    n = means = 0
    for i in range(WIDTH):
        w.me[i] = -1
    while at < end and n + leaf <= CHUNK:
        node = nodes[at]
        at += 1
        if node < 0:
            node = -1 - node
            w.mass[n] = forest.weights[node, 0]
            for k in range(d):
                w.points[k, n] = forest.boxes[node, 2, k]
            n += 1
            means += 1
            continue
        first, size = forest.nodes[node, 0], forest.nodes[node, 1] - forest.nodes[node, 0]
        block = first // leaf
        _copy(forest.mass[block], w.mass[n:], size)
        for k in range(d):
            _copy(forest.points[block, k], w.points[k, n:], size)
        for i in range(WIDTH):
            if first <= w.own[i] < first + size:
                w.me[i] = n + w.own[i] - first
        n += size
    return at, n, means


@helper
def _squares(row, y, z, n, a, b):
    for j in range(n):
        row[j] = (a - y[j]) * (a - y[j]) + (b - z[j]) * (b - z[j])


@helper
def _add_squares(row, y, z, n, a, b):
    for j in range(n):
        row[j] += (a - y[j]) * (a - y[j]) + (b - z[j]) * (b - z[j])


@helper
def _distances(packets, number, i, w, n, row):
    """Squared distances of a query to the points in the buffer, infinite to itself."""
    d = packets.shape[1]
    for k in range(0, d, 2):
        a = packets[number, k, i]
        b = packets[number, k + 1, i] if k + 1 < d else a - a  # the buffer has zeros there
        if k == 0:
            _squares(row, w.points[k], w.points[k + 1], n, a, b)
        else:
            _add_squares(row, w.points[k], w.points[k + 1], n, a, b)
    if w.me[i] >= 0:
        row[w.me[i]] = np.inf


@helper
def _energies(row, n, power, me):
    to_energies(row, n, power)
    if me >= 0:
        row[me] = np.inf  # log2 of infinity is finite here


@helper
def _least(row, n):
    least = row.dtype.type(np.inf)
    for j in range(n):
        least = minimum(least, row[j])
    return least


@helper
def _sum(row, mass, n, unit):
    total = row.dtype.type(0)
    for j in range(n):
        total += mass[j] * exp2(unit - row[j])
    return total


@kernel
def sums(forest, packets, where, first, last, power, nodes, ends, w, out, minima):
    """Sums of packets first:last over the other classes [0] and the own one [1].

    ``nodes`` and ``ends`` are the lists.  The sums are in units of the kernel at the energies
    ``minima``; 0 and inf if there is no reference.  Return the number of pairs computed.
    """
    pairs = at = 0
    row = w.rows[0]
    for number in range(first, last):
        queries = _take(packets, where, number, w.own)
        for kind in range(2):
            end = ends[number - first, kind]
            while at < end:
                at, n, means = _gather(forest, nodes, at, end, w)
                pairs += queries * (n - means)
                for i in range(queries):
                    query = packets.index[WIDTH * number + i]
                    _distances(packets.points, number, i, w, n, row)
                    if power is not None:
                        _energies(row, n, power, w.me[i])
                    unit = minimum(minima[kind, query], _least(row, n))
                    if unit == np.inf:
                        continue
                    if unit < minima[kind, query]:
                        out[kind, query] *= exp2(np.float64(unit) - minima[kind, query])
                        minima[kind, query] = unit
                    out[kind, query] += _sum(row, w.mass, n, unit)
    return pairs


@helper
def _weigh(row, mass, n, factor, shift, power):
    """Turn d² into minus the derivative of the kernel by d², times masses and ``factor``."""
    if power is None:
        for j in range(n):
            row[j] = factor * mass[j] * exp2(shift - row[j])
    elif power > 0:
        for j in range(n):
            t = row.dtype.type(1) + row[j]
            row[j] = factor * power * mass[j] * exp2(shift - power * log2(t)) / t
    else:
        for j in range(n):
            t = np.sqrt(row[j])
            row[j] = factor * mass[j] * exp2(shift - t) * steepness(row[j], t)


@helper
def _scatter(forest, nodes, began, at, pull, pull_nodes, pull_points):
    """Add the pull in the buffer to the nodes and points it was gathered from."""
    d, leaf, n = forest.points.shape[1], forest.mass.shape[1], 0
    for entry in range(began, at):
        node = nodes[entry]
        if node < 0:
            for k in range(d):
                pull_nodes[-1 - node, k] += pull[k, n]
            n += 1
            continue
        first, size = forest.nodes[node, 0], forest.nodes[node, 1] - forest.nodes[node, 0]
        for k in range(d):
            _add(pull[k, n:], pull_points[first // leaf, k], size)
        n += size


@kernel
def gradients(
    forest, packets, where, first, last, power, nodes, ends, w,
    shift, factor, pull, pull_nodes, pull_points,
):  # fmt: skip
    """``sum_j -factor_i mass_j 2**shift_i kappa'(d²_ij) (z_i - z_j)`` of packets first:last.

    This pull goes to the queries, its opposite to the nodes and the points of the lists.
    """
    at = 0
    for number in range(first, last):
        queries, x = _take(packets, where, number, w.own), packets.points[number]
        for k in range(len(pull)):
            _clear(w.pull_queries[k], WIDTH)
        for kind in range(2):
            end = ends[number - first, kind]
            while at < end:
                began = at
                at, n, _ = _gather(forest, nodes, at, end, w)
                for k in range(len(pull)):
                    _clear(w.pull[k], n)
                for i in range(0, queries, 4):
                    for r in range(4):
                        query = packets.index[WIDTH * number + min(i + r, queries - 1)]
                        row, f = w.rows[r], factor[kind, query]
                        _distances(packets.points, number, min(i + r, queries - 1), w, n, row)
                        f = f if i + r < queries else f - f
                        _weigh(row, w.mass, n, f, shift[kind, query], power)
                    pull_four(w.rows, x, w.points, w.pull_queries, w.pull, 0, i, queries, 0, n)
                _scatter(forest, nodes, began, at, w.pull, pull_nodes, pull_points)
        for i in range(queries):
            for k in range(len(pull)):
                pull[k, packets.index[WIDTH * number + i]] = w.pull_queries[k, i]


@kernel
def push_down(forest, pull_nodes, pull_points, out):
    """Pass the pull of nodes down to their points; out is (d, n), in the original order.

    A mean moves by ``mass_j / M`` with point j, so each point gets that share of its pull.
    """
    leaf, d = forest.mass.shape[1], forest.points.shape[1]
    for node in range(len(forest.nodes)):
        for k in range(d):
            pull_nodes[node, k] /= forest.weights[node, 0]
    for node in range(len(forest.nodes)):
        first, last, right = forest.nodes[node]
        if right >= 0:
            for k in range(d):
                pull_nodes[node + 1, k] += pull_nodes[node, k]
                pull_nodes[right, k] += pull_nodes[node, k]
            continue
        block = first // leaf
        for j in range(last - first):
            position, mass = forest.index[first + j], forest.mass[block, j]
            for k in range(d):
                out[k, position] += pull_points[block, k, j] + mass * pull_nodes[node, k]
