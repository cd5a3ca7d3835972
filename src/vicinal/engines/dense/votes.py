"""Votes of k stochastic neighbours in plain NumPy, for small data.

A class c has the polynomial F_c whose coefficient F_c[m] = e_m(w_j : j in c) is the weight of the
sets of m of its members ([Tarlow2013] section 5).  It is the product of the ``1 + w_j x``, computed
along a binary tree, for all queries at once.  Derivatives go back down the same tree: "all without
j" is a product of siblings and never a quotient, so every sum has positive terms only.  The votes
of the classes are products of the F_c, as in :mod:`vicinal.kernels.votes`.

The same code runs on plain numbers and on logarithms (`_Ring`).  Plain numbers are scaled by each
query's k-th nearest reference; queries that still leave their range are repeated in logarithms.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from vicinal.core.types import Array
from vicinal.engines.base import Data
from vicinal.engines.dense.class_sums import SortedPoints, pull_pairs

# The range in which plain numbers are accurate.  Members nearer than the k-th nearest multiply the
# weight of a set by at most exp(200) = 7e86, and there are up to binom(500, 40) = 1e58 sets: no sum
# overflows.  Terms that underflow are below 1e-308, and even times such a sum far below 1e-16 of
# the least weight.
_STEEPEST, _LEAST = 200.0, 1e-100
_BLOCK = 512  # new points at a time


class _Ring(NamedTuple):
    """Plain numbers, or logarithms: how to multiply and add, and what 0 and 1 are."""

    times: Callable[..., Any]
    plus: Callable[..., Any]
    zero: float
    one: float
    log: bool


_PLAIN = _Ring(np.multiply, np.add, 0.0, 1.0, False)
_LOG = _Ring(np.add, np.logaddexp, -np.inf, 0.0, True)


# Polynomials of a tree omit coefficient 0, which is 1: coefficient m is at [m - 1].


def _product(ring: _Ring, a: Array, b: Array, top: int) -> Array:
    """Coefficients 1, ..., top of the product of two polynomials of the same length."""
    n = len(a)
    out = np.full((min(2 * n, top), *a.shape[1:]), ring.zero)
    out[:n] = ring.plus(a, b)
    for t in range(1, n + 1):  # a_t b_u to coefficient t + u
        m = min(n, len(out) - t)
        if m > 0:
            out[t : t + m] = ring.plus(out[t : t + m], ring.times(a[t - 1], b[:m]))
    return out


def _product_back(ring: _Ring, b: Array, slope: Array) -> Array:
    """Derivatives by the other factor's coefficients, from those by the product's."""
    n = len(b)
    out = slope[:n].copy()
    for u in range(1, n + 1):  # a_m meets b_u in coefficient m + u
        m = min(n, len(slope) - u)
        if m > 0:
            out[:m] = ring.plus(out[:m], ring.times(b[u - 1], slope[u : u + m]))
    return out


def _tree(ring: _Ring, w: Array, k: int) -> list[Array]:
    """Polynomials of larger and larger groups of members; the last is that of the class.

    ``w`` is (members, queries); each level is (coefficients, groups, queries).
    """
    levels = [w[None]]
    while levels[-1].shape[1] > 1:
        level = levels[-1]
        half = level.shape[1] // 2
        joint = _product(ring, level[:, :half], level[:, half : 2 * half], k)
        if level.shape[1] % 2:
            last = np.full((len(joint), 1, w.shape[1]), ring.zero)
            last[: len(level)] = level[:, 2 * half :]
            joint = np.concatenate([joint, last], axis=1)
        levels.append(joint)
    return levels


def _tree_back(ring: _Ring, levels: list[Array], slope: Array) -> Array:
    """Derivatives by the members' weights, (members, queries), from those by the coefficients."""
    slope = slope[: len(levels[-1]), None]
    for level in reversed(levels[:-1]):
        half = level.shape[1] // 2
        a, b = level[:, :half], level[:, half : 2 * half]
        parts = [
            _product_back(ring, b, slope[:, :half]),
            _product_back(ring, a, slope[:, :half]),
            slope[: len(level), half:],
        ]
        slope = np.concatenate(parts, axis=1)
    return slope[0]


# Polynomials of votes have all coefficients, 0 to k.


def _times(ring: _Ring, a: Array, b: Array) -> Array:
    """The product of two polynomials of votes, to the degree of the first."""
    out = ring.times(a[0], b)
    for t in range(1, len(a)):
        out[t:] = ring.plus(out[t:], ring.times(a[t], b[: len(b) - t]))
    return out


def _times_back(ring: _Ring, a: Array, slope: Array) -> Array:
    """Derivatives by one factor, given the other, a, and those by the product."""
    out = ring.times(a[0], slope)
    for t in range(1, len(a)):
        m = len(slope) - t
        out[:m] = ring.plus(out[:m], ring.times(a[t], slope[t:]))
    return out


def _limits(n_classes: int, k: int, unanimous: bool) -> tuple[int, int]:
    """Fewest own votes that always win, and most own votes that always lose."""
    if unanimous:
        return k, k - 1
    # (C - 1) (v - 1) < k - v: the other classes cannot all have fewer than v
    return k // 2 + 1, min(k // 2, (k + n_classes - 2) // n_classes)


class _Count(NamedTuple):
    """Weights of the sets won [0] and lost [1], (2, n), and their derivatives.

    ``by_class`` (C, k + 1, 2, n): derivatives by each coefficient of each class.
    """

    weights: Array
    by_class: Array | None


def _count(ring: _Ring, F: Array, own: Array, k: int, unanimous: bool, gradient: bool) -> _Count:
    """Count the votes: F is (C, k + 1, n), own (n,) the class that should win, -1 for none.

    Sets with v own votes win if v >= ``first`` and lose if v <= ``last``; in between, they win if
    every other class has fewer than v votes ([Tarlow2013] eqs (7) and (8)).
    """
    C, _, n = F.shape
    mine = own == np.arange(C)[:, None]  # (C, n)
    nothing = np.full((k + 1, n), ring.zero)
    nothing[0] = ring.one
    others = np.where(mine[:, None], nothing, F)
    votes = np.where((own >= 0)[None], F[own, :, np.arange(n)].T, nothing)
    first, last = _limits(C, k, unanimous)
    weights = np.full((2, n), ring.zero)
    by_votes = np.full((k + 1, 2, n), ring.zero)  # derivatives by the own class' coefficients
    by_class = np.full((C, k + 1, 2, n), ring.zero)
    for v in range(last + 1, first):
        _contested(ring, others, votes[v], v, (weights, by_votes[v], by_class), gradient)
    prefix = [nothing]
    for c in range(C):
        prefix.append(_times(ring, prefix[-1], others[c]))
    slope = np.full((k + 1, 2, n), ring.zero)
    for v in range(k + 1):
        if v <= last or v >= first:
            side = int(v < first)
            weights[side] = ring.plus(weights[side], ring.times(votes[v], prefix[-1][k - v]))
            by_votes[v, side] = prefix[-1][k - v]
            slope[k - v, side] = votes[v]
    if not gradient:
        return _Count(weights, None)
    for c in reversed(range(C)):
        by_class[c] = ring.plus(by_class[c], _times_back(ring, prefix[c][:, None], slope))
        slope = _times_back(ring, others[c][:, None], slope)
    return _Count(weights, np.where(mine[:, None, None], by_votes, by_class))


def _contested(
    ring: _Ring,
    others: Array,
    votes: Array,
    v: int,
    out: tuple[Array, Array, Array],
    gradient: bool,
) -> None:
    """Add the sets with v own votes: won if every other class has fewer than v, else lost."""
    weights, by_votes, by_class = out
    C, length, n = others.shape
    degree = length - 1 - v  # votes of all the others
    low, high = others.copy(), others.copy()
    low[:, v:], high[:, :v] = ring.zero, ring.zero
    start = np.full((length, n), ring.zero)
    below, reached = [start.copy()], [start]
    below[0][0] = ring.one
    for c in range(C):
        reached.append(
            ring.plus(_times(ring, reached[-1], others[c]), _times(ring, below[-1], high[c]))
        )
        below.append(_times(ring, below[-1], low[c]))
    for side, sets in enumerate((below[-1][degree], reached[-1][degree])):
        by_votes[side] = sets
        weights[side] = ring.plus(weights[side], ring.times(votes, sets))
    if not gradient:
        return
    # derivatives of sets won [0] by `below`, of sets lost [1] by `reached` and earlier `below`
    by_below, by_reached = (np.full((length, 2, n), ring.zero) for _ in range(2))
    by_below[degree, 0], by_reached[degree, 1] = votes, votes
    for c in reversed(range(C)):
        B, R, F = below[c][:, None], reached[c][:, None], others[c][:, None]
        through_low = _times_back(ring, B, by_below)
        through_low[v:] = ring.zero
        through_high = _times_back(ring, B, by_reached)
        through_high[:v] = ring.zero
        new = ring.plus(through_low, through_high)
        new = ring.plus(new, _times_back(ring, R, by_reached))
        by_class[c] = ring.plus(by_class[c], new)
        by_below = ring.plus(
            _times_back(ring, low[c][:, None], by_below),
            _times_back(ring, high[c][:, None], by_reached),
        )
        by_reached = _times_back(ring, F, by_reached)


def _wins(ring: _Ring, F: Array, k: int, unanimous: bool) -> Array:
    """Weights of the sets that each class wins, (C, n)."""
    C, _, n = F.shape
    first, last = _limits(C, k, unanimous)
    wins = np.full((C, n), ring.zero)
    nothing = np.full((k + 1, n), ring.zero)
    nothing[0] = ring.one
    # (own votes, cap on the others): no cap for votes that always win, v - 1 for contested v
    rounds = [(range(first, k + 1), k)] + [(range(v, v + 1), v - 1) for v in range(last + 1, first)]
    for own_votes, cap in rounds:
        G = F.copy()
        G[:, cap + 1 :] = ring.zero
        suffix = [nothing]
        for c in reversed(range(C)):
            suffix.append(_times(ring, suffix[-1], G[c]))
        prefix = nothing
        for c in range(C):
            rest = _times(ring, prefix, suffix[C - 1 - c])
            for v in own_votes:
                wins[c] = ring.plus(wins[c], ring.times(F[c, v], rest[k - v]))
            prefix = _times(ring, prefix, G[c])
    return wins


def _with_constant(ring: _Ring, level: Array, k: int) -> Array:
    """A class polynomial with all its coefficients, from the last level of its tree."""
    F = np.full((k + 1, level.shape[2]), ring.zero)
    F[0] = ring.one
    F[1 : len(level) + 1] = level[:, 0]
    return F


def _scale(energy: Array, k: int) -> Array:
    """Subtract the energy of each query's k-th nearest, (members, queries); inf stays inf."""
    kth = np.partition(energy.T, k - 1, axis=1)[:, k - 1]
    return energy - np.where(np.isinf(kth), 0.0, kth)


def _weights(ring: _Ring, energy: Array) -> Array:
    """Weights of the members; plain weights are 0 for queries whose sums might overflow."""
    if ring.log:
        return -energy
    steep = np.minimum(energy, 0.0).sum(axis=0) < -_STEEPEST
    return np.exp(-np.where(steep, np.inf, energy)) if steep.any() else np.exp(-energy)


class DenseVotes:
    """Votes of k neighbours among all references; see `base.Votes`."""

    name, share = "dense", 1.0

    def __init__(self, data: Data, k: int, unanimous: bool) -> None:
        self.points, self.k, self.unanimous = SortedPoints(data), k, unanimous
        self.query_rows, self.log_domain = self.points.queries, 0
        energy = np.ascontiguousarray(self.points.squared_distances().T)
        query, reference = self.points.self_pairs()
        energy[reference, query] = np.inf
        self.energy = _scale(energy, k)
        present, starts = np.unique(self.points.codes_r, return_index=True)
        self.classes = [slice(*edge) for edge in pairwise([*starts, len(self.points.codes_r)])]
        own = np.minimum(np.searchsorted(present, self.points.codes_q), len(present) - 1)
        self.own = np.where(present[own] == self.points.codes_q, own, -1)
        self.gaps = np.zeros(energy.shape)  # P(j chosen | won) - P(j chosen | lost)
        self.slopes: Array | None = None

    def sums(self, slope: Callable[[Array], Array] | None = None) -> Array:
        """log2 of lost : won sets of each query, inf where none can be won."""
        gradient = slope is not None
        everyone = np.arange(len(self.own))
        weights = self._count(_PLAIN, everyone, gradient)
        within = weights.min(axis=0) >= _LEAST
        with np.errstate(divide="ignore", invalid="ignore"):
            odds = np.log2(weights[1]) - np.log2(weights[0])
        if not within.all():
            odds = self._redo_in_logarithms(np.flatnonzero(~within), odds, gradient)
        self.slopes = None if slope is None else slope(odds)
        return odds

    def _redo_in_logarithms(self, rows: Array, odds: Array, gradient: bool) -> Array:
        """Repeat some queries in logarithms, except those that can only win or only lose."""
        self.gaps[:, rows] = 0.0
        can_win, can_lose = self._possible(rows)
        odds[rows] = np.where(can_win, -np.inf, np.inf)
        rows = rows[can_win & can_lose]
        if len(rows):
            self.log_domain += len(rows)
            won, lost = self._count(_LOG, rows, gradient)
            odds[rows] = (lost - won) / np.log(2.0)
        return odds

    def _possible(self, rows: Array) -> Array:
        """Whether any set is won, and whether any is lost: a count with all weights 1."""
        F = np.zeros((len(self.classes), self.k + 1, len(rows)))
        degrees = np.arange(self.k + 1)[:, None]
        for c, members in enumerate(self.classes):
            F[c] = degrees <= np.isfinite(self.energy[members][:, rows]).sum(axis=0)
        return _count(_PLAIN, F, self.own[rows], self.k, self.unanimous, False).weights > 0

    def _count(self, ring: _Ring, rows: Array, gradient: bool) -> Array:
        """Weights won and lost of some queries; fills in their ``gaps``."""
        everyone = len(rows) == len(self.own)
        energy = self.energy if everyone else self.energy[:, rows]
        w = _weights(ring, energy)
        trees = [_tree(ring, w[members], self.k) for members in self.classes]
        F = np.stack([_with_constant(ring, tree[-1], self.k) for tree in trees])
        weights, by_class = _count(ring, F, self.own[rows], self.k, self.unanimous, gradient)
        if by_class is None:
            return weights
        where: Any = slice(None) if everyone else rows
        for members, tree, slope in zip(self.classes, trees, by_class, strict=True):
            self.gaps[members, where] = _gaps(ring, tree, w[members], slope[1:], weights)
        return weights

    def pull(self, weight: float) -> Array:
        """Gradient of the weight times the sum of all losses, (n, d)."""
        if self.slopes is None:
            raise RuntimeError("The slopes of the losses must be given to sums first.")
        # dL / d d²_ij = slope_i (P(j | won) - P(j | lost)): a log-weight is minus a distance
        return pull_pairs(self.points, (self.gaps * (weight * self.slopes)).T)


def _gaps(ring: _Ring, tree: list[Array], w: Array, slope: Array, weights: Array) -> Array:
    """P(j chosen | won) - P(j chosen | lost), (members, queries)."""
    if ring.log:  # logarithms have no sign: won and lost are separate
        won, lost = (_tree_back(ring, tree, slope[:, side] - weights[side]) for side in (0, 1))
        # probabilities are at most 1, but far out rounding could give more
        return np.exp(np.minimum(won + w, 0.0)) - np.exp(np.minimum(lost + w, 0.0))
    # queries out of range are repeated later: here they only must not give NaN
    scale = 1.0 / np.where(weights >= _LEAST, weights, np.inf)
    return _tree_back(ring, tree, slope[:, 0] * scale[0] - slope[:, 1] * scale[1]) * w


def win_shares(
    Z: Array, Z_reference: Array, codes: Array, n_classes: int, k: int, unanimous: bool
) -> Array:
    """Chance that each class wins the vote at new points, given no tie: (n, n_classes).

    Rows sum to one.  If no class can win, all classes with references are equally likely.
    """
    order = np.argsort(codes, kind="stable")
    present, starts = np.unique(codes[order], return_index=True)
    classes = [slice(*edge) for edge in pairwise([*starts, len(order)])]
    references = Z_reference[order].astype(np.float64)
    out = np.zeros((len(Z), n_classes))
    for start in range(0, len(Z), _BLOCK):
        points = Z[start : start + _BLOCK].astype(np.float64)
        energy = _scale(cdist(references, points, "sqeuclidean"), k)
        wins = _win_weights(_PLAIN, energy, classes, k, unanimous)
        best = wins.max(axis=0)
        again = np.flatnonzero(best < _LEAST)
        if len(again):
            logs = _win_weights(_LOG, energy[:, again], classes, k, unanimous)
            top = logs.max(axis=0)
            logs = np.where(np.isneginf(top), 0.0, logs - np.where(np.isneginf(top), 0.0, top))
            wins[:, again] = np.exp(logs)
        out[start : start + _BLOCK, present] = (wins / wins.sum(axis=0)).T
    return out


def _win_weights(
    ring: _Ring, energy: Array, classes: list[slice], k: int, unanimous: bool
) -> Array:
    w = _weights(ring, energy)
    F = np.stack([_with_constant(ring, _tree(ring, w[members], k)[-1], k) for members in classes])
    return _wins(ring, F, k, unanimous)
