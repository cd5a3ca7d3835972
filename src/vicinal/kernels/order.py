"""An order of rows that keeps near rows together, and which blocks are near each other.

This is only planning: a bad plan costs time, but no digits.
"""

from __future__ import annotations

import numpy as np

from vicinal.kernels._blocks import (
    CHUNK,
    ROWS,
    distances,
    group_box,
    group_end,
    to_energies,
)
from vicinal.kernels._jit import helper, kernel, maximum, minimum


@helper
def select(key, order, first, last, middle):
    """Move the smallest keys of first:last to first:middle, and ``order`` with them."""
    low, high = first, last - 1
    while low < high:
        # median of three: nearly sorted input must not be slow
        x, y, z = key[low], key[(low + high) // 2], key[high]
        pivot = maximum(minimum(x, y), minimum(maximum(x, y), z))
        i, j = low, high
        while i <= j:
            while key[i] < pivot:
                i += 1
            while key[j] > pivot:
                j -= 1
            if i <= j:
                key[i], key[j] = key[j], key[i]
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if middle <= j:
            high = j
        elif middle >= i:
            low = i
        else:
            return


@helper
def _widest(Z, order, first, last):
    best, widest = 0, Z.dtype.type(-1)
    for k in range(Z.shape[0]):
        low = high = Z[k, order[first]]
        for i in range(first + 1, last):
            x = Z[k, order[i]]
            low, high = minimum(low, x), maximum(high, x)
        if high - low > widest:
            best, widest = k, high - low
    return best, widest


@helper
def _cut(edges, first, last):
    """Where to split, near the middle: at the edge of a block, else a chunk, else a tile."""
    middle = (first + last) // 2
    at, end = 0, len(edges)
    while at < end:  # the first edge not before the middle
        half = (at + end) // 2
        if edges[half] < middle:
            at = half + 1
        else:
            end = half
    before, after = edges[maximum(at - 1, 0)], edges[minimum(at, len(edges) - 1)]
    if before <= first or (after < last and after - middle < middle - before):
        before = after
    if first < before < last:
        return before
    size = CHUNK if last - first > CHUNK else ROWS
    return first + maximum(1, (middle - first + size // 2) // size) * size


def kd_order(Z, edges, first, last, order, key):
    """Sort ``order[first:last]``, positions in Z of shape (d, n), along a k-d tree.

    Median splits across the widest dimension, moved to the edges of blocks (``edges``), chunks and
    tiles, so that each of those is one cell of the tree.  ``key`` is scratch of length n.
    """
    _kd_order(Z, edges, first, last, order, key, np.empty((64, 2), np.int64))


@kernel
def _kd_order(Z, edges, first, last, order, key, stack):
    stack[0, 0], stack[0, 1] = first, last
    depth = 1
    while depth > 0:
        depth -= 1
        first, last = stack[depth, 0], stack[depth, 1]
        if last - first <= ROWS:
            continue
        k, width = _widest(Z, order, first, last)
        if width <= 0:
            continue
        middle = _cut(edges, first, last)
        for i in range(first, last):
            key[i] = Z[k, order[i]]
        select(key, order, first, last, middle)
        # the smaller part on top: the depth of the stack is at most log2 of the length
        smaller = middle - first < last - middle
        a, b = (middle, last) if smaller else (first, middle)
        stack[depth, 0], stack[depth, 1] = a, b
        a, b = (first, middle) if smaller else (middle, last)
        stack[depth + 1, 0], stack[depth + 1, 1] = a, b
        depth += 2


@kernel
def chunk_boxes(Z, edges, boxes):
    """Lowest and highest coordinates between the edges; ``boxes`` (2, d, len(edges) - 1), out."""
    for k in range(Z.shape[0]):
        for c in range(len(edges) - 1):
            low = high = Z[k, edges[c]]
            for i in range(edges[c] + 1, edges[c + 1]):
                low, high = minimum(low, Z[k, i]), maximum(high, Z[k, i])
            boxes[0, k, c], boxes[1, k, c] = low, high


@kernel
def spread_reach(reach, edges, least, most):
    """Smallest and largest reach of the rows between the edges; all are (2, ...)."""
    for kind in range(2):
        for c in range(len(edges) - 1):
            low = high = reach[kind, edges[c]]
            for i in range(edges[c] + 1, edges[c + 1]):
                low, high = minimum(low, reach[kind, i]), maximum(high, reach[kind, i])
            least[kind, c], most[kind, c] = low, high


@helper
def _is_candidate(first, last, own_first, own_last, kind):
    """Whether columns first:last include one of the own class (kind 1), or of others (0)."""
    if kind == 1:
        return maximum(first, own_first) < minimum(last, own_last)
    return first < own_first or last > own_last


@helper
def _to_box(centre, boxes, q, d):
    """Squared distances of a point to a box and to its centre."""
    zero, half = centre.dtype.type(0), centre.dtype.type(0.5)
    gap = to_centre = zero
    for k in range(d):
        low, high = boxes[0, k, q], boxes[1, k, q]
        t = maximum(maximum(low - centre[k], centre[k] - high), zero)
        gap += t * t
        t = half * (low + high) - centre[k]
        to_centre += t * t
    return gap, to_centre


@helper
def _nearest_chunk(centre, d, own_first, own_last, kind, columns, chunks, edges, blocks, boxes):
    """The chunk with columns of the kind whose box centre is nearest; -1 if there is none."""
    start, nearest = -1, np.inf
    for q in range(len(columns) - 1):
        if _is_candidate(columns[q], columns[q + 1], own_first, own_last, kind):
            _, gap = _to_box(centre, blocks, q, d)
            if gap < nearest:
                start, nearest = q, gap
    best, nearest = -1, np.inf
    for turn in range(len(columns)):  # the most promising block first, then the others
        q = start if turn == 0 else turn - 1
        if q < 0 or (turn > 0 and q == start):
            continue
        if not _is_candidate(columns[q], columns[q + 1], own_first, own_last, kind):
            continue
        if _to_box(centre, blocks, q, d)[0] >= nearest:
            continue
        for c in range(chunks[q], chunks[q + 1]):
            if _is_candidate(edges[c], edges[c + 1], own_first, own_last, kind):
                _, gap = _to_box(centre, boxes, c, d)
                if gap < nearest:
                    best, nearest = c, gap
    return best


@kernel
def least_energies(
    Zq, Zr, log2_mass, own, self_pos, power, i0, i1, columns, chunks, edges, blocks, boxes, work,
    energies,
):  # fmt: skip
    """A lower bound of each query's sums: the largest term over one chunk of each kind.

    ``energies`` (2, n) gets the least ``e_ij - log2 mass_j`` over the chunk of other classes [0]
    and of the own class [1] whose box is nearest to that of the query's tile.  ``chunks`` holds
    the first chunk of each block of columns.
    """
    d, inf = Zq.shape[0], Zq.dtype.type(np.inf)
    low, high, row = work[ROWS], work[ROWS + 1], work[0]
    a = i0
    while a < i1:
        b = group_end(own, a, i1)
        group_box(Zq, a, b, low, high)
        for k in range(d):
            low[k] = Zq.dtype.type(0.5) * (low[k] + high[k])
        first, last = own[0, a], own[1, a]
        for kind in range(2):
            q = _nearest_chunk(low, d, first, last, kind, columns, chunks, edges, blocks, boxes)
            if q < 0:
                continue
            c, e = edges[q], edges[q + 1]
            if kind == 1:
                c, e = maximum(c, first), minimum(e, last)
            elif minimum(e, last) > maximum(c, first):  # two classes: the longer end
                if first - c > e - last:
                    e = first
                else:
                    c = last
            for i in range(a, b):
                distances(Zq, Zr, work[:0], i, 0, 0, c, e, row)
                if power is not None:
                    to_energies(row, e - c, power)
                if c <= self_pos[i] < e:
                    row[self_pos[i] - c] = inf
                least = inf
                for j in range(e - c):
                    least = minimum(least, row[j] - log2_mass[c + j])
                energies[kind, i] = least
        a = b


@helper
def _gaps(p_boxes, q_boxes, p, q):
    """Smallest and largest squared distance between points of the two boxes."""
    near = far = zero = p_boxes.dtype.type(0)
    for k in range(p_boxes.shape[1]):
        s = q_boxes[0, k, q] - p_boxes[1, k, p]
        t = p_boxes[0, k, p] - q_boxes[1, k, q]
        gap, width = maximum(maximum(s, t), zero), maximum(-s, -t)
        near += gap * gap
        far += width * width
    return near, far


@kernel
def near_blocks(
    rows, columns, own, row_boxes, column_boxes, row_least, row_most, column_most, p0, p1, triangle,
    status,
):  # fmt: skip
    """Which blocks of rows p0:p1 reach which columns: 0 none, 1 maybe some, 2 surely all."""
    for p in range(p0, p1):
        i, j = rows[p], rows[p + 1] - 1
        first, last = own[0, i], own[1, i]
        one_class = first == own[0, j] and last == own[1, j]
        for q in range(p if triangle else 0, len(columns) - 1):
            inside = columns[q] >= first and columns[q + 1] <= last
            outside = columns[q] >= last or columns[q + 1] <= first
            from_kind = 1 if one_class and inside else 0
            to_kind = 0 if one_class and outside else 1
            near, far = _gaps(row_boxes, column_boxes, p, q)
            status[p, q] = 0
            for kind in range(from_kind, to_kind + 1):
                if near <= maximum(row_most[kind, p], column_most[kind, q]):
                    status[p, q] = 1
            if far <= minimum(row_least[from_kind, p], row_least[to_kind, p]):
                status[p, q] = 2


@kernel
def levels(p, q, shared, last_p, last_q, level):
    """Number the pairs of blocks, in the given order, so that no number uses a block twice.

    ``shared`` says that rows and columns are the same blocks.
    """
    for k in range(len(p)):
        number = maximum(last_p[p[k]], last_p[q[k]] if shared else last_q[q[k]])
        level[k] = number
        last_p[p[k]] = number + 1
        if shared:
            last_p[q[k]] = number + 1
        else:
            last_q[q[k]] = number + 1
