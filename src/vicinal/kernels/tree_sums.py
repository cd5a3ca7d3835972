"""Sums of a kernel over trees, within a relative error, and their gradient.

Queries come in packets of ``WIDTH`` neighbours that walk down a tree together: the boxes of a node
are compared with all of them in one vector loop, each query decides for itself, and a node is
opened for those that need it.  For each query of the packet (a *lane*) the walk keeps

- ``sum``, what was found so far, and ``spent``, the most by which that may be wrong,
- ``lower``, a lower bound of the whole sum: what is certain of the part that was summed, and mass
  times the least kernel value for each node that still waits,
- ``done``, the mass of the part that was summed,
- ``m``, a squared distance: all of these are in units of the kernel there.  It only falls, to
  the nearest point seen, so nothing overflows and the largest terms never vanish.

A node G of mass M, mean z_G and second moment V may be replaced by ``M kappa(|z - z_G|)`` with an
error of at most

- ``M max(kappa_max - kappa_G, kappa_G - kappa_min)``, from the distances of its box, and
- ``V/2 sup |Hessian|`` over the box: the first-order term vanishes at the mean.

It is, when ``spent + error <= tolerance * lower * share``, with the share of the class' mass that
is then done: each node may spend its part and what those before it have saved.  Since ``lower``
never falls and never exceeds the sum, the error of the sum is within the tolerance, relative to
it.  (The cut-off of [Oneata2011] eq. (4.11) compares each error alone: every node may spend the
whole tolerance.)  Without the share, near nodes spend all, and a third to two thirds more pairs
are summed one by one where the kernel is wide; the same without the bounds of waiting nodes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vicinal.kernels._jit import exp2, helper, kernel, maximum, minimum

__all__ = ["WIDTH", "Scratch", "push_down", "scratch", "walk_block"]

#: queries that walk together
WIDTH = 16
_LARGE = 2.0**100  # kernel values are cut there: in float32 they must not overflow
_LN2 = 0.6931471805599453
_DEPTH = 64  # of the stack: a tree of n points is no deeper than log2 n


# rows of the scratch over the lanes; the queries and their pull come after them
_M, _LOWER, _SPENT, _ALIVE, _FACTOR, _SHIFT, _MASK, _PRUNE, _ERROR, _K_NEAR, _K_MEAN, _DONE = range(
    12
)
_Q = 12
# rows of an entry of the stack: distances to the box and to the mean, mass times least value, the
# lanes that look at the node, and those of them that are not in it
_NEAR, _MEAN, _FAR, _BOUND, _ACTIVE, _FREE = range(6)


class Scratch(NamedTuple):
    """What one thread works in."""

    lanes: np.ndarray
    sums: np.ndarray  # over the lanes, in float64
    own: np.ndarray  # positions of the lanes in the trees, or -1
    row: np.ndarray  # over the points of a leaf
    stack: np.ndarray  # (depth, rows, lanes)
    order: np.ndarray  # (2, depth): the slot of each entry of the stack, the node of each slot
    counts: np.ndarray  # pairs summed one by one, nodes taken by their mean, nodes opened


def scratch(d, leaf, dtype):
    """Scratch for one thread."""
    return Scratch(
        np.zeros((_Q + 2 * d, WIDTH), dtype), np.zeros(WIDTH), np.zeros(WIDTH, np.int64),
        np.zeros(leaf, dtype), np.zeros((_DEPTH, 6, WIDTH), dtype),
        np.stack([np.arange(_DEPTH)] * 2), np.zeros(3, np.int64),
    )  # fmt: skip


@helper
def _kernel_row(m, e, out, family, power):
    """The kernel at squared distances e, in units of that at m, and at most ``_LARGE``."""
    n, one, large = len(e), e.dtype.type(1), e.dtype.type(_LARGE)
    if family == 0:
        for i in range(n):
            out[i] = exp2(minimum(m[i] - e[i], e.dtype.type(100)))
        return
    for i in range(n):
        out[i] = np.sqrt((one + m[i]) / (one + e[i])) if power % 2 else one
    for _ in range(power // 2):
        for i in range(n):
            out[i] = minimum(out[i] * ((one + m[i]) / (one + e[i])), large)


@helper
def _factor(new, old, family, power):
    """The kernel at the squared distance ``old`` in units of that at ``new``."""
    new, old = np.float64(new), np.float64(old)
    if family == 0:
        return exp2(new - old)
    return ((1.0 + new) / (1.0 + old)) ** (0.5 * power)


@helper
def _rescale(lanes, sums, stack, slots, i, new, depth, family, power):
    """Lower the distance that lane i is in units of."""
    f = _factor(new, lanes[_M, i], family, power)
    sums[i] *= f
    lanes[_LOWER, i] *= f
    lanes[_SPENT, i] *= f
    for s in range(depth):
        stack[slots[s], _BOUND, i] *= f
    lanes[_M, i] = new


@helper
def _box_distances(x, low, high, centre, near, far, mean):
    zero = x.dtype.type(0)
    for i in range(len(x)):
        a, b, c = x[i] - low, high - x[i], x[i] - centre
        t = maximum(maximum(-a, -b), zero)
        u = maximum(a, b)
        near[i] += t * t
        far[i] += u * u
        mean[i] += c * c


@helper
def _weighted(w, x):
    total = x.dtype.type(0)
    for i in range(len(x)):
        total += w[i] * x[i]
    return total


@helper
def _closer(free, far, m):
    most = m.dtype.type(0)
    for i in range(len(m)):
        most = maximum(most, free[i] * (m[i] - far[i]))
    return most > 0


@helper
def _add_bound(lower, bound, free, mass, k):
    for i in range(len(k)):
        bound[i] = free[i] * mass * k[i]
        lower[i] += bound[i]


@helper
def _push(box, weight, bounds, node, mask, lanes, sums, own, stack, order, depth, family, power):
    """Put a node on the stack for the lanes of the mask; return how far it is from them."""
    slot = order[0, depth]
    order[1, slot] = node
    entry, d = stack[slot], box.shape[1]
    near, far, mean, active, free = (
        entry[_NEAR], entry[_FAR], entry[_MEAN], entry[_ACTIVE], entry[_FREE],
    )  # fmt: skip
    zero = near.dtype.type(0)
    _clear(near, far, mean)
    for i in range(len(mask)):
        active[i] = mask[i]
    for i in range(len(mask)):  # a query in the node must be left out of it, by opening it
        free[i] = zero if bounds[0] <= own[i] < bounds[1] else mask[i]
    for k in range(d):
        _box_distances(lanes[_Q + k], box[0, k], box[1, k], box[2, k], near, far, mean)
    m = lanes[_M]
    if m[0] == np.inf:  # the root: no point of it is farther
        for i in range(len(far)):
            m[i] = far[i]
    elif _closer(free, far, m):
        for i in range(len(free)):
            if free[i] > zero and far[i] < m[i]:
                _rescale(lanes, sums, stack, order[0], i, far[i], depth, family, power)
    _kernel_row(m, far, lanes[_K_NEAR], family, power)
    _add_bound(lanes[_LOWER], entry[_BOUND], free, weight, lanes[_K_NEAR])
    return _weighted(active, near), _weighted(active, mean)


@helper
def _clear(a, b, c):
    zero = a.dtype.type(0)
    for i in range(len(a)):
        a[i] = zero
        b[i] = zero
        c[i] = zero


@helper
def _errors(k_near, k_mean, bound, near, far, mass, moment, error, family, power):
    """The most by which the node may differ from its mass at its mean, in each lane."""
    real = k_near.dtype.type
    ln2, half, one, two, four = real(_LN2), real(0.5), real(1), real(2), real(4)
    slope, offset = real(2.0718), real(0.8926)
    for i in range(len(error)):
        value = mass * k_mean[i]
        spread = maximum(mass * k_near[i] - value, value - bound[i])
        if family == 0:
            # |Hessian| = max(2, |4u² - 2|) e^{-u²}: its supremum beyond u² = a, over e^{-a}, is
            # 4a - 2 from a = 3/2 on, and below max(2, 4 e^{a - 3/2}), which a chord bounds
            a = ln2 * near[i]
            curve = half * ln2 * maximum(maximum(two, offset + slope * a), four * a - two)
        else:
            # 2p (1+s)^{-p-1} max(1, |(2p + 1) - (2p + 2)/(1+s)|), p = power/2, the last rising
            rise = (power + one) - (power + two) / (one + far[i])
            curve = half * power / (one + near[i]) * maximum(one, rise)
        error[i] = maximum(minimum(spread, curve * moment * k_near[i]), real(0))


@helper
def _judge(error, spent, lower, done, k_near, mass, all_mass, tolerance, prune):
    """1 where the error is within what may be spent once this node is done, else 0."""
    one, zero = error.dtype.type(1), error.dtype.type(0)
    large = error.dtype.type(0.5 * _LARGE)
    for i in range(len(error)):
        budget = tolerance * lower[i] * minimum((done[i] + mass) / all_mass, one)
        good = (spent[i] + error[i] <= budget) & (k_near[i] < large)
        prune[i] = one if good else zero


@helper
def _only(free, prune):
    for i in range(len(prune)):
        prune[i] *= free[i]


@helper
def _settle(prune, mass, k_mean, total, error, spent):
    for i in range(len(prune)):
        total[i] += prune[i] * mass * k_mean[i]
    for i in range(len(prune)):
        spent[i] += prune[i] * error[i]


@helper
def _raise_bound(prune, mass, k_mean, error, bound, lower):
    zero = error.dtype.type(0)
    for i in range(len(prune)):
        lower[i] += prune[i] * maximum(mass * k_mean[i] - error[i] - bound[i], zero)


@helper
def _open_lanes(active, prune, bound, lower, mask):
    for i in range(len(mask)):
        mask[i] = active[i] - prune[i]
        lower[i] -= mask[i] * bound[i]


@helper
def _decide(entry, mass, moment, lanes, sums, tolerance, all_mass, leaf, family, power):
    """Take the node by its mean where that is good enough; the other lanes stay in the mask."""
    near, bound, k_near, k_mean = entry[_NEAR], entry[_BOUND], lanes[_K_NEAR], lanes[_K_MEAN]
    error, prune, lower, spent = lanes[_ERROR], lanes[_PRUNE], lanes[_LOWER], lanes[_SPENT]
    for turn in range(2):
        _kernel_row(lanes[_M], entry[_NEAR + turn], lanes[_K_NEAR + turn], family, power)
    _errors(k_near, k_mean, bound, near, entry[_FAR], mass, moment, error, family, power)
    _judge(error, spent, lower, lanes[_DONE], k_near, mass, all_mass, tolerance, prune)
    _only(entry[_FREE], prune)
    pruned = _count(prune)
    if pruned:
        _settle(prune, mass, k_mean, sums, error, spent)
        _raise_bound(prune, mass, k_mean, error, bound, lower)
    _open_lanes(entry[_ACTIVE], prune, bound, lower, lanes[_MASK])
    _add(lanes[_DONE], mass, entry[_ACTIVE] if leaf else prune)
    return pruned, _count(lanes[_MASK])


@helper
def _add(total, mass, mask):
    for i in range(len(mask)):
        total[i] += mass * mask[i]


@helper
def _count(mask):
    total = mask.dtype.type(0)
    for i in range(len(mask)):
        total += mask[i]
    return int(total)


@helper
def _distances(x, points, i, row):
    """Squared distances of lane i to the points of a leaf."""
    d, n, k = len(x), len(row), 1
    if d % 2:
        a, y = x[0, i], points[0]
        for j in range(n):
            row[j] = (a - y[j]) * (a - y[j])
    else:
        a, b, y, z = x[0, i], x[1, i], points[0], points[1]
        for j in range(n):
            row[j] = (a - y[j]) * (a - y[j]) + (b - z[j]) * (b - z[j])
        k = 2
    while k < d:
        a, b, y, z = x[k, i], x[k + 1, i], points[k], points[k + 1]
        for j in range(n):
            row[j] += (a - y[j]) * (a - y[j]) + (b - z[j]) * (b - z[j])
        k += 2


@helper
def _minimum(row):
    least = row[0]
    for j in range(len(row)):
        least = minimum(least, row[j])
    return least


@helper
def _leaf_values(row, mass, m, family, power):
    """Squared distances to kernel values times masses; return their sum."""
    one, total = row.dtype.type(1), row.dtype.type(0)
    if family == 0:
        for j in range(len(row)):
            row[j] = mass[j] * exp2(m - row[j])
            total += row[j]
        return total
    for j in range(len(row)):
        t = (one + m) / (one + row[j])
        r = np.sqrt(t) if power % 2 else one
        for _ in range(power // 2):
            r *= t
        row[j] = mass[j] * r
        total += row[j]
    return total


@helper
def _leaf(
    points, mass, pull_points, first, n, lanes, sums, own, row, stack, order, depth, family, power,
    gradient,
):  # fmt: skip
    """Sum the leaf point by point, for the lanes of the mask."""
    d = len(points)
    inf, zero = row.dtype.type(np.inf), row.dtype.type(0)
    x = lanes[_Q : _Q + d]
    for i in range(len(sums)):
        if lanes[_MASK, i] == zero:
            continue
        _distances(x, points, i, row)
        for j in range(n, len(row)):
            row[j] = inf
        me = own[i] - first
        if 0 <= me < n:
            row[me] = inf
        least = _minimum(row)
        if least < lanes[_M, i]:
            _rescale(lanes, sums, stack, order[0], i, least, depth, family, power)
        m = lanes[_M, i]
        total = _leaf_values(row, mass, m, family, power)
        if 0 <= me < n:  # exp2 never gives 0
            total -= row[me]
            row[me] = zero
        sums[i] += total
        lanes[_LOWER, i] += total
        if gradient:
            w = lanes[_FACTOR, i] * _factor(lanes[_SHIFT, i], m, family, power)
            if family == 1:
                _student_slope(x, points, i, row, power)
            _pull_leaf(row, row.dtype.type(w), x, points, lanes[_Q + d :], pull_points, i)


@helper
def _student_slope(x, points, i, row, power):
    """Turn values of the Student kernel into minus its derivatives by the squared distance."""
    for j in range(len(row)):
        e = row.dtype.type(0)
        for k in range(len(x)):
            e += (x[k, i] - points[k, j]) ** 2
        row[j] *= row.dtype.type(0.5) * power / (row.dtype.type(1) + e)


@helper
def _pull_leaf(row, w, x, points, pull, pull_points, i):
    """Add the pull of lane i and the points of a leaf on each other."""
    for k in range(len(x)):
        a, y, g = x[k, i], points[k], pull_points[k]
        total = w - w
        for j in range(len(row)):
            t = w * row[j] * (a - y[j])
            total += t
            g[j] -= t
        pull[k, i] += total


@helper
def _pull_node(mean, mass, distance, lanes, family, power, pull_node):
    """Add the pull of the lanes that took a node by its mean, and of that mean."""
    d, w, prune = len(mean), lanes[_ERROR], lanes[_PRUNE]
    zero = w.dtype.type(0)
    for i in range(len(w)):
        w[i] = zero
        if prune[i] > zero:
            f = lanes[_FACTOR, i] * _factor(lanes[_SHIFT, i], lanes[_M, i], family, power)
            w[i] = f * lanes[_K_MEAN, i]
            if family == 1:
                w[i] *= 0.5 * power / (1.0 + distance[i])
    for k in range(d):
        pull_node[k] += _pull_mean(mean[k], mass, w, lanes[_Q + k], lanes[_Q + d + k])


@helper
def _pull_mean(c, mass, w, x, pull):
    total = w.dtype.type(0)
    for i in range(len(w)):
        t = w[i] * (x[i] - c)
        total += t
        pull[i] += mass * t
    return total


@helper
def _walk(
    points, mass, nodes, boxes, weights, root, lanes, sums, own, row, stack, order, counts,
    tolerance, family, power, gradient, pull_nodes, pull_points,
):  # fmt: skip
    """Walk down the tree of one class, nearest child first."""
    for i in range(len(sums)):
        sums[i] = 0.0
        lanes[_LOWER, i] = lanes[_SPENT, i] = lanes[_DONE, i] = 0
        lanes[_M, i] = np.inf
        lanes[_MASK, i] = lanes[_ALIVE, i]
    child, right, depth = root, -1, 0
    while True:
        near = mean = 0.0
        while child >= 0:  # one call, not three: it is the most of what is compiled
            a, b = _push(
                boxes[child], weights[child, 0], nodes[child], child, lanes[_MASK], lanes, sums,
                own, stack, order, depth, family, power,
            )  # fmt: skip
            if right < 0 and child != root and (near < a or (near == a and mean < b)):
                # what is on top comes first: the nearer one
                order[0, depth], order[0, depth - 1] = order[0, depth - 1], order[0, depth]
            near, mean = a, b
            depth += 1
            child, right = right, -1
        if depth == 0:
            break
        depth -= 1
        slot = order[0, depth]
        node = order[1, slot]
        first, last = nodes[node, 0], nodes[node, 1]
        is_leaf = nodes[node, 2] < 0
        pruned, opened = _decide(
            stack[slot], weights[node, 0], weights[node, 1], lanes, sums, tolerance,
            weights[root, 0], is_leaf, family, power,
        )  # fmt: skip
        counts[1] += pruned
        counts[2] += opened
        if gradient and pruned:
            _pull_node(
                boxes[node, 2], weights[node, 0], stack[slot, _MEAN], lanes, family, power,
                pull_nodes[node],
            )  # fmt: skip
        if opened and is_leaf:
            block = first // len(row)
            counts[0] += opened * (last - first)
            _leaf(
                points[block], mass[block], pull_points[block], first, last - first, lanes, sums,
                own, row, stack, order, depth, family, power, gradient,
            )  # fmt: skip
        elif opened:
            child, right = node + 1, nodes[node, 2]


@helper
def _load(points, index, where, lanes, own):
    """Take a packet of queries."""
    d = len(points)
    for i in range(len(own)):
        query = index[i]
        lanes[_ALIVE, i] = 1 if query >= 0 else 0
        own[i] = where[query] if query >= 0 else -1
        for k in range(d):
            lanes[_Q + k, i] = points[k, i]
            lanes[_Q + d + k, i] = 0


@helper
def _fold(sums, minima, index, found, m, family, power):
    """Add what a packet found in one tree to the sums of its queries."""
    for i in range(len(index)):
        query = index[i]
        if query < 0 or found[i] == 0.0:
            continue
        least = min(minima[query], m[i])
        total = found[i] * _factor(least, m[i], family, power)
        if minima[query] < np.inf:
            total += sums[query] * _factor(least, minima[query], family, power)
        sums[query], minima[query] = total, least


@kernel
def walk_block(
    forest, queries, where, own, first, last, tolerance, family, power, s, gradient,
    sums, minima, factor, pull, pull_nodes, pull_points,
):  # fmt: skip
    """Sums of packets first:last over the other classes [0] and the own one [1], or their gradient.

    ``where`` are the positions of the queries in the trees, ``own`` is the tree of the class of
    each packet.  The sums are in units of the kernel at the squared distance ``minima``; 0 and
    inf, where there is no reference.  For the gradient, by the same walks, these are given: the
    pull ``sum_j -factor_i mass_j kappa'(d²_ij) (z_i - z_j)`` goes to the queries, its opposite to
    the nodes and the points.
    """
    index, d = queries.index.reshape(-1, WIDTH), len(pull)
    for number in range(first, last):
        _load(queries.points[number], index[number], where, s.lanes, s.own)
        for c in range(len(forest.roots)):
            kind = 1 if c == own[number] else 0
            if gradient:
                for i in range(WIDTH):
                    query = max(index[number, i], 0)
                    s.lanes[_FACTOR, i] = factor[kind, query]
                    s.lanes[_SHIFT, i] = minima[kind, query]
            _walk(
                forest.points, forest.mass, forest.nodes, forest.boxes, forest.weights,
                forest.roots[c], s.lanes, s.sums, s.own, s.row, s.stack, s.order, s.counts,
                tolerance, family, power, gradient, pull_nodes, pull_points,
            )  # fmt: skip
            if not gradient:
                _fold(sums[kind], minima[kind], index[number], s.sums, s.lanes[_M], family, power)
        for i in range(WIDTH):
            if gradient and index[number, i] >= 0:
                for k in range(d):
                    pull[k, index[number, i]] = s.lanes[_Q + d + k, i]


@kernel
def push_down(forest, pull_nodes, pull_points, out):
    """Hand the pull of nodes down to their points; out is (d, n), in the order before the tree.

    A mean moves by ``mass_j / M`` with point j: each has its part of what pulls the mean.
    """
    leaf, d = forest.mass.shape[1], forest.points.shape[1]
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
                out[k, position] += pull_points[block, k, j] - mass * pull_nodes[node, k]
