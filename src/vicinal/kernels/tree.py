"""k-d trees over points, one for each class, in one set of flat arrays ([Oneata2011] alg. 4.5).

A node is a range of points in the order of the tree.  Nodes are numbered parents first: the left
child of a node is the next one, and every child has a larger number than its parent.  All leaves
have ``LEAF`` points except the last of a class, which is padded with points without mass: loops
over a leaf have a constant length, and the compiler vectorises them without a remainder.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vicinal.kernels._jit import helper, kernel
from vicinal.kernels.order import select

#: points to a leaf: fewer make tighter boxes, more make longer loops (32 was best of 16, 32, 64)
LEAF = 32


class Forest(NamedTuple):
    """Trees over points: arrays over the points in tree order, over the nodes, over the classes.

    ``index`` is the original position of each point, -1 for padding; the right child of a leaf is
    -1; the moment is the sum of ``mass_j |z_j - mean|²``.
    """

    points: np.ndarray  # (leaves, d, points of a leaf)
    mass: np.ndarray  # (leaves, points of a leaf)
    index: np.ndarray
    nodes: np.ndarray  # (nodes, 3): first point, one past the last, right child
    boxes: np.ndarray  # (nodes, 3, d): low and high corner, mean
    weights: np.ndarray  # (nodes, 2): mass, moment
    roots: np.ndarray


def build(Z, mass, edges, leaf=LEAF):
    """A tree for each range ``edges[c]:edges[c + 1]`` of the points Z, (d, n).

    Parameters
    ----------
    Z : array of shape (d, n)
    mass : array of shape (n,)
    edges : int array of shape (n_classes + 1,)
        No range may be empty.
    leaf : int
        Largest number of points in a leaf.

    Returns
    -------
    forest : Forest
    """
    d = len(Z)
    leaves = -(-np.diff(edges) // leaf)
    count = leaves.sum()
    nodes = 2 * count - len(leaves)
    forest = Forest(
        np.empty((count, d, leaf), Z.dtype), np.zeros((count, leaf), Z.dtype),
        np.full(count * leaf, -1, np.int64), np.full((nodes, 3), -1, np.int64),
        np.empty((nodes, 3, d), Z.dtype), np.empty((nodes, 2), Z.dtype),
        np.empty(len(leaves), np.int64),
    )  # fmt: skip
    keys = np.empty(count * leaf, Z.dtype)
    stack = np.empty((128, 3), np.int64)  # a tree of n points is no deeper than log2 n
    _build(np.ascontiguousarray(Z.T), mass, np.asarray(edges, np.int64), leaf, *forest, keys, stack)
    return forest


@helper
def _box(Z, order, first, last, low, high):
    """Set the bounding box of the points; return its widest dimension ([Oneata2011] eq. (4.5))."""
    d = Z.shape[1]
    for k in range(d):
        low[k] = high[k] = Z[order[first], k]
    for p in range(first + 1, last):
        j = order[p]
        for k in range(d):
            low[k] = min(low[k], Z[j, k])
            high[k] = max(high[k], Z[j, k])
    widest = 0
    for k in range(1, d):
        if high[k] - low[k] > high[widest] - low[widest]:
            widest = k
    return widest


@helper
def _leaf_moments(points, mass, n, mean, weights):
    total = moment = 0.0
    for j in range(n):
        total += mass[j]
    for k in range(len(points)):
        centre = 0.0
        for j in range(n):
            centre += mass[j] * np.float64(points[k, j])
        centre /= total
        for j in range(n):
            moment += mass[j] * (points[k, j] - centre) ** 2
        mean[k] = centre
    weights[0], weights[1] = total, moment


@helper
def _moments(points, mass, nodes, boxes, weights):
    """Masses, means and second moments of all nodes: children first."""
    leaf = mass.shape[1]
    for node in range(len(nodes) - 1, -1, -1):
        right, left = nodes[node, 2], node + 1
        if right < 0:
            block, n = nodes[node, 0] // leaf, nodes[node, 1] - nodes[node, 0]
            _leaf_moments(points[block], mass[block], n, boxes[node, 2], weights[node])
            continue
        a, b = np.float64(weights[left, 0]), np.float64(weights[right, 0])
        moment = np.float64(weights[left, 1]) + weights[right, 1]
        for k in range(boxes.shape[2]):
            x, y = np.float64(boxes[left, 2, k]), np.float64(boxes[right, 2, k])
            boxes[node, 2, k] = (a * x + b * y) / (a + b)
            moment += a * b / (a + b) * (x - y) ** 2
        weights[node, 0], weights[node, 1] = a + b, moment


@kernel
def _build(Z, mass, edges, leaf, points, masses, order, nodes, boxes, weights, roots, keys, stack):
    d = Z.shape[1]
    count = start = 0
    for c in range(len(edges) - 1):
        n = edges[c + 1] - edges[c]
        for j in range(n):
            order[start + j] = edges[c] + j
        roots[c] = count
        stack[0, 0], stack[0, 1], stack[0, 2] = start, start + n, -1
        depth = 1
        while depth > 0:
            depth -= 1
            first, last, parent = stack[depth, 0], stack[depth, 1], stack[depth, 2]
            node = count
            count += 1
            if parent >= 0:
                nodes[parent, 2] = node
            nodes[node, 0], nodes[node, 1] = first, last
            widest = _box(Z, order, first, last, boxes[node, 0], boxes[node, 1])
            if last - first <= leaf:
                continue
            # the median, moved so that all leaves except the last are full
            cut = first + leaf * ((-(-(last - first) // leaf) + 1) // 2)
            for p in range(first, last):
                keys[p] = Z[order[p], widest]
            select(keys, order, first, last, cut)
            stack[depth, 0], stack[depth, 1], stack[depth, 2] = cut, last, node
            stack[depth + 1, 0], stack[depth + 1, 1], stack[depth + 1, 2] = first, cut, -1
            depth += 2
        stop = start + -(-n // leaf) * leaf
        for p in range(start, stop):
            j = order[min(p, start + n - 1)]
            if p < start + n:
                masses[p // leaf, p % leaf] = mass[j]
            for k in range(d):
                points[p // leaf, k, p % leaf] = Z[j, k]
        start = stop
    _moments(points, masses, nodes, boxes, weights)
