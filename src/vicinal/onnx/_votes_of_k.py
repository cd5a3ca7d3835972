"""The chance of each class to win a vote of k stochastic neighbours, as a graph.

A class has the polynomial whose coefficient m is the weight of the sets of m of its members
([Tarlow2013] section 5): the product of the ``1 + w_j x``.  Products are taken along binary trees,
for all classes at once, and in logarithms, so that nothing over- or underflows.  Classes are padded
to the same number of members by weights of zero, whose polynomial is one.
"""

from __future__ import annotations

import numpy as np

from vicinal.core.types import Array
from vicinal.onnx._writer import Writer


def win_shares(w: Writer, logs: str, codes: Array, n_classes: int, k: int, unanimous: bool) -> str:
    """Probabilities of the classes, (C,); equal for all with members if none can win.

    Parameters
    ----------
    w : Writer
    logs : str
        Name of the logarithms of the weights of the stored rows, (n,).
    codes : array of shape (n,)
        Their classes.
    n_classes, k, unanimous
        As in `engines.base.Backend`.
    """
    width = _power_of_two(n_classes)
    F = _class_polynomials(w, logs, codes, width, k)
    present = np.bincount(codes, minlength=n_classes) > 0
    terms = []
    for own, cap in _rounds(int(present.sum()), k, unanimous):
        rest = _without_each(w, _capped(w, F, cap, k), width, k)
        mine = w.gather(F, np.array(own), axis=1)
        others = w.gather(rest, k - np.array(own), axis=1)
        terms.append(w.op("Add", mine, others))
    won = w.log_sum_exp(w.op("Concat", *terms, axis=1), 1)
    won = w.gather(won, np.arange(n_classes))
    weights, top = w.sum_exp(won, 0)
    equal = w.constant(present.astype(np.float64))
    shares = w.op("Where", w.is_finite(top), weights, equal)
    return w.op("Div", shares, w.reduce("Sum", shares, 0))


def _rounds(n_classes: int, k: int, unanimous: bool) -> list[tuple[range, int]]:
    """Numbers of own votes that can win, each with the most votes of any other class.

    As in `engines.dense.votes`: with few own votes, one of the others always has as many; with more
    than half of the votes there is no bound on the others.
    """
    if unanimous:
        return [(range(k, k + 1), k)]
    first, last = k // 2 + 1, min(k // 2, (k + n_classes - 2) // n_classes)
    contested = [(range(v, v + 1), v - 1) for v in range(last + 1, first)]
    return [(range(first, k + 1), k), *contested]


def _power_of_two(n: int) -> int:
    return 1 << (n - 1).bit_length()


def _class_polynomials(w: Writer, logs: str, codes: Array, width: int, k: int) -> str:
    """Logarithms of the coefficients 0, ..., k of each class, (width, k + 1)."""
    size = _power_of_two(int(np.bincount(codes).max()))
    places = np.full((width, size), len(codes))  # of a weight of zero, appended to the others
    for c in range(width):
        members = np.flatnonzero(codes == c)
        places[c, : len(members)] = members
    nothing = w.constant([-np.inf])
    weights = w.gather(w.op("Concat", logs, nothing, axis=0), places)
    F = w.op("Unsqueeze", weights, w.constant([2]))
    ones, rest = np.zeros((width, size, 1)), np.full((width, size, k - 1), -np.inf)
    F = w.op("Concat", w.constant(ones), F, w.constant(rest), axis=2)
    while size > 1:
        size //= 2
        left, right = (w.gather(F, np.arange(size) + half, axis=1) for half in (0, size))
        F = _product(w, left, right, (width, size), k)
    return w.reshape(F, (width, k + 1))


def _product(w: Writer, a: str, b: str, shape: tuple[int, ...], k: int) -> str:
    """Logarithms of the coefficients of products of as many polynomials, along the last axis."""
    t, s = np.indices((k + 1, k + 1))
    places = np.where(s <= t, t - s, k + 1)  # b[t - s], or an appended -inf
    empty = w.constant(np.full((*shape, 1), -np.inf))
    shifted = w.gather(w.op("Concat", b, empty, axis=-1), places, axis=-1)
    terms = w.op("Add", w.op("Unsqueeze", a, w.constant([-2])), shifted)
    return w.log_sum_exp(terms, -1)


def _capped(w: Writer, F: str, cap: int, k: int) -> str:
    """Polynomials without the coefficients of more than ``cap`` votes."""
    if cap == k:
        return F
    return w.op("Add", F, w.constant(np.where(np.arange(k + 1) <= cap, 0.0, -np.inf)))


def _without_each(w: Writer, F: str, width: int, k: int) -> str:
    """The product of the polynomials of all other classes, for each class, (width, k + 1).

    Up a binary tree of the classes, and down again: what a node leaves out is what its parent
    leaves out, times its sibling.
    """
    levels, size = [F], width
    while size > 2:
        size //= 2
        left, right = (w.gather(levels[-1], np.arange(size) + half) for half in (0, size))
        levels.append(_product(w, left, right, (size,), k))
    rest = _siblings(w, levels[-1], 2)  # of two, each leaves out the other
    for level in reversed(levels[:-1]):
        size *= 2
        parents = w.gather(rest, np.arange(size) % (size // 2))
        rest = _product(w, parents, _siblings(w, level, size), (size,), k)
    return rest


def _siblings(w: Writer, level: str, size: int) -> str:
    """The polynomials of a level, each in the place of the one that it is joined with."""
    return w.gather(level, (np.arange(size) + size // 2) % size)
