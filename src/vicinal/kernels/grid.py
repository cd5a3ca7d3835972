"""Charges are spread from points to a regular grid, and potentials are gathered from it.

The window is the cardinal B-spline of order `ORDER` along each axis, so that a point touches
``ORDER`` nodes along each axis.  ``place`` is (2, n): the positions of the points in units of the
grid, never negative.  A point with ``place`` x touches the nodes ``floor(x)`` to
``floor(x) + ORDER - 1``.  Points of one dimension lie on the first axis; `flat` is then True, and
they touch a single column.
"""

from __future__ import annotations

import numpy as np

from vicinal.kernels._jit import inlined, kernel

#: order of the splines; with it and the spacing of the grid the error stands,
#: see benchmarks/results/ksne_engines.md
ORDER = 6
#: coefficients along each axis of the polynomial that gives the interaction of a point with itself
SELF_TERMS = 4


@inlined
def _spline(t, w, slope):
    """Values and derivatives of the spline at the nodes that a point touches, t beyond the first.

    By the recurrence of the splines in their order q: B_q(x) (q - 1) = x B_{q-1}(x) +
    (q - x) B_{q-1}(x - 1), and B_q'(x) = B_{q-1}(x) - B_{q-1}(x - 1).
    """
    w[0] = 1.0
    for q in range(2, ORDER + 1):
        if q == ORDER:
            slope[0] = -w[0]
            for a in range(1, ORDER - 1):
                slope[a] = w[a - 1] - w[a]
            slope[ORDER - 1] = w[ORDER - 2]
        scale = 1.0 / (q - 1)
        w[q - 1] = scale * t * w[q - 2]
        for a in range(q - 2, 0, -1):
            x = t + (q - 1 - a)
            w[a] = scale * (x * w[a - 1] + (q - x) * w[a])
        w[0] = scale * (1.0 - t) * w[0]


@inlined
def _stencil(place, i, flat, scratch):
    """The first node of a point along both axes, and its splines: rows of ``scratch``."""
    x = place[0, i]
    row = np.intp(x)
    _spline(x - row, scratch[0], scratch[1])
    if flat:
        return row, np.intp(0)
    y = place[1, i]
    column = np.intp(y)
    _spline(y - column, scratch[2], scratch[3])
    return row, column


@inlined
def _prepare(flat, scratch):
    if flat:
        for a in range(ORDER):
            scratch[2, a] = 0.0
            scratch[3, a] = 0.0
        scratch[2, 0] = 1.0


@kernel
def spread(place, charges, strips, first, step, flat, grid, scratch):
    """Add the charges (n_charges, n) of points to ``grid`` (n_charges, rows, columns).

    Those of every ``step``-th strip from the first on; strip s has the points from ``strips[s]`` on
    to ``strips[s + 1]``.  ``scratch`` is (4, ORDER).
    """
    _prepare(flat, scratch)
    w0, w1 = scratch[0], scratch[2]
    for s in range(first, len(strips) - 1, step):
        for i in range(strips[s], strips[s + 1]):
            row, column = _stencil(place, i, flat, scratch)
            for m in range(charges.shape[0]):
                charge = charges[m, i]
                for a in range(ORDER):
                    share = charge * w0[a]
                    for b in range(ORDER):
                        grid[m, row + a, column + b] += share * w1[b]


@inlined
def _own(v, u, terms):
    """The polynomial of a point's interaction with itself, and its derivatives by v and u."""
    value = by_v = by_u = 0.0
    for a in range(SELF_TERMS - 1, -1, -1):
        inner = slope = 0.0
        for b in range(SELF_TERMS - 1, -1, -1):
            slope = slope * u + inner
            inner = inner * u + terms[a, b]
        by_v = by_v * v + value
        value = value * v + inner
        by_u = by_u * v + slope
    return value, by_v, by_u


@kernel
def gather_sums(place, fields, own, first, last, flat, sums, scratch):
    """The potentials at points first:last without their own share: ``sums`` (n_fields, n).

    ``own`` (n_fields, SELF_TERMS, SELF_TERMS) are the coefficients of the interaction of a point
    with itself, by t (1 - t) along both axes, where t is the position within the cell.
    """
    _prepare(flat, scratch)
    w0, w1 = scratch[0], scratch[2]
    for i in range(first, last):
        row, column = _stencil(place, i, flat, scratch)
        t, s = place[0, i] - row, 0.0
        if not flat:
            s = place[1, i] - column
        for m in range(fields.shape[0]):
            total = 0.0
            for a in range(ORDER):
                part = 0.0
                for b in range(ORDER):
                    part += fields[m, row + a, column + b] * w1[b]
                total += part * w0[a]
            value, by_v, by_u = _own(t * (1.0 - t), s * (1.0 - s), own[m])
            sums[m, i] = total - value


@kernel
def gather_forces(place, fields, weights, own, first, last, flat, forces, scratch):
    """The gradient of the weighted sum of the fields at points first:last: ``forces`` (2, n).

    ``weights`` is (n_fields - 1, n); the last field has the weight 1.  The interaction of each
    point with itself, at the same weights, is taken off.
    """
    _prepare(flat, scratch)
    w0, d0, w1, d1 = scratch[0], scratch[1], scratch[2], scratch[3]
    n_fields = fields.shape[0]
    for i in range(first, last):
        row, column = _stencil(place, i, flat, scratch)
        along_0 = along_1 = 0.0
        for m in range(n_fields):
            weight = 1.0
            if m < n_fields - 1:
                weight = weights[m, i]
            by_0 = by_1 = 0.0
            for a in range(ORDER):
                part = slope = 0.0
                for b in range(ORDER):
                    x = fields[m, row + a, column + b]
                    part += x * w1[b]
                    slope += x * d1[b]
                by_0 += part * d0[a]
                by_1 += slope * w0[a]
            along_0 += weight * by_0
            along_1 += weight * by_1
        t, s = place[0, i] - row, 0.0
        if not flat:
            s = place[1, i] - column
        for m in range(n_fields - 1):
            value, by_v, by_u = _own(t * (1.0 - t), s * (1.0 - s), own[m])
            along_0 -= weights[m, i] * by_v * (1.0 - 2.0 * t)
            along_1 -= weights[m, i] * by_u * (1.0 - 2.0 * s)
        forces[0, i] = along_0
        forces[1, i] = along_1


@kernel
def gather_fields(place, fields, first, last, flat, sums, slopes, scratch):
    """The fields at points first:last, and their gradients: (n_fields, n), (n_fields, 2, n)."""
    _prepare(flat, scratch)
    w0, d0, w1, d1 = scratch[0], scratch[1], scratch[2], scratch[3]
    for i in range(first, last):
        row, column = _stencil(place, i, flat, scratch)
        for m in range(fields.shape[0]):
            value = by_0 = by_1 = 0.0
            for a in range(ORDER):
                part = slope = 0.0
                for b in range(ORDER):
                    x = fields[m, row + a, column + b]
                    part += x * w1[b]
                    slope += x * d1[b]
                value += part * w0[a]
                by_0 += part * d0[a]
                by_1 += slope * w0[a]
            sums[m, i] = value
            slopes[m, 0, i] = by_0
            slopes[m, 1, i] = by_1


@kernel
def far_sums(inner, outer, first, last, sums):
    """Add the powers of the weights of inner points first:last over the outer ones: (k, n).

    ``inner`` and ``outer`` are (d, n).
    """
    for o in range(outer.shape[1]):
        for i in range(first, last):
            d2 = 0.0
            for f in range(len(inner)):
                gap = inner[f, i] - outer[f, o]
                d2 += gap * gap
            w = 1.0 / (1.0 + d2)
            power = w
            for m in range(len(sums)):
                sums[m, i] += power
                power *= w


@kernel
def far_pull(inner, outer, charges, first, last, scale, at_inner, at_outer):
    """Add the gradient of ``f_i log e_k(w_i)`` by the pairs of inner points with the outer ones.

    To ``at_inner`` (d, n) times ``scale``; ``at_outer`` is (n_outer, d).
    """
    for o in range(outer.shape[1]):
        for i in range(first, last):
            d2 = 0.0
            for f in range(len(inner)):
                gap = inner[f, i] - outer[f, o]
                d2 += gap * gap
            w = 1.0 / (1.0 + d2)
            marginal = 0.0
            for m in range(len(charges) - 1, -1, -1):
                marginal = (marginal + charges[m, i]) * w
            for f in range(len(inner)):
                force = -2.0 * marginal * w * (inner[f, i] - outer[f, o])
                at_inner[f, i] += scale * force
                at_outer[o, f] -= force
