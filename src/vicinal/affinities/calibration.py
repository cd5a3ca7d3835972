r"""Weights of a given perplexity, and the marginals of sets of k that are chosen by them.

Row i chooses one other row with the weight :math:`w_j = \exp(-\beta_i (d^2_{ij} - d^2_{i1}))`,
where :math:`d^2_{i1}` is the distance of its nearest and :math:`\beta_i = 1 / 2\sigma_i^2`.  A set
of k has the product of the weights of its members.  Members are sorted, nearest first, and
*energies* are :math:`-\log w`.

The polynomials :math:`e_u` of the first j members are stored over the product of the u largest
weights: one step is then :math:`e_u \leftarrow e_u + (w_j / w_u)\, e_{u-1}` with ratios of at most
1, and nothing is ever subtracted.  So no range of weights under- or overflows, and all marginals
have nearly all digits.  See docs/theory/ksne.md, sections 2 and 3.

``compiled`` False: NumPy does it for all lists at once, and nothing is compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from vicinal._threads import block_edges, n_threads, run
from vicinal.core.types import Array

#: the polynomials grow up to exp(k), which a float64 holds
K_UP_TO = 700
_WIDEST, _CLOSEST, _SMALLEST = 1e-8, 50.0, 1e-280
_STEPS, _TOL = 200, 1e-12
_ENTRIES = 2**15  # of the lists of a task
_ROOM = 2**21  # numbers in the polynomials of a block of lists: 16 MB


class Lists(NamedTuple):
    """Members of each row and their values, in compressed sparse rows, the nearest first."""

    indptr: Array
    indices: Array
    values: Array

    def padded(self, filling: float) -> tuple[Array, Array]:
        """The values as a table, short lists filled up, and where the table has members."""
        counts = np.diff(self.indptr)
        there = np.arange(counts.max(initial=0)) < counts[:, None]
        table = np.full(there.shape, filling)
        table[there] = self.values
        return table, there


def _by_blocks(indptr: Array, task: Callable[[int, int, int], None]) -> None:
    """Call ``task(first, last, thread)`` for blocks of lists, which depend on their size only."""
    n = len(indptr) - 1
    edges = block_edges(n, max(1, _ENTRIES * n // max(int(indptr[-1]), 1)))

    def block(b: int, thread: int) -> None:
        task(edges[b], edges[b + 1], thread)

    run(block, range(len(edges) - 1), n_threads())


def calibrate(lists: Lists, perplexity: float, compiled: bool) -> None:
    """Turn squared distances into energies of weights with that perplexity, in place.

    A list of no more than ``perplexity`` members has equal weights.  If more than that are as near
    as the nearest, no rate is high enough: these have equal weights, and others none to speak of.
    """
    target = float(np.log(perplexity))
    if not compiled:
        table, there = lists.padded(np.inf)
        if there.size:
            lists.values[:] = _energies(table, there, target)[there]
        return
    from vicinal.kernels.affinities import to_energies

    def task(first: int, last: int, thread: int) -> None:
        to_energies(lists.values, lists.indptr, target, first, last)

    _by_blocks(lists.indptr, task)


def choose_sets(lists: Lists, k: int, compiled: bool) -> Array:
    """Turn energies into marginals of sets of k, in place; the entropy of the sets of each row.

    Every list has at least k members, all of finite energy.
    """
    n = len(lists.indptr) - 1
    longest = int(np.diff(lists.indptr).max(initial=0))
    if not compiled:
        table, there = lists.padded(np.inf)
        entropy, size = np.empty(n), max(1, _ROOM // ((longest + 1) * (k + 1)))
        for first in range(0, n, size):
            rows = slice(first, first + size)
            table[rows], entropy[rows] = _marginals(table[rows], k)
        lists.values[:] = table[there]
        return entropy
    from vicinal.kernels.affinities import polynomials, to_marginals

    entropy = np.empty(n)
    room = [(*polynomials(longest, k), np.empty(k + 1)) for _ in range(n_threads())]

    def task(first: int, last: int, thread: int) -> None:
        to_marginals(lists.values, lists.indptr, k, entropy, first, last, *room[thread])

    _by_blocks(lists.indptr, task)
    return entropy


def _energies(d2: Array, there: Array, target: float) -> Array:
    """Energies of a table of squared distances, inf where there is no member."""
    n, counts = len(d2), there.sum(axis=1)
    farthest = np.take_along_axis(d2, np.maximum(counts - 1, 0)[:, None], axis=1)
    span = np.where(counts[:, None] > 0, farthest - d2[:, :1], 0.0)
    searched = (span[:, 0] > 0) & (target < np.log(np.maximum(counts, 1)) - _TOL)
    gaps = np.where(there, 0.0, np.inf)
    beta = np.zeros((n, 1))
    if searched.any():
        gaps[searched] = (d2[searched] - d2[searched, :1]) / span[searched]
        beta[searched] = _rates(gaps[searched], target)[:, None]
    return np.where(there, beta * np.where(there, gaps, 0.0), np.inf)


def _rates(gaps: Array, target: float) -> Array:
    """The rates at which the weights ``exp(-beta gap)`` have that entropy: see kernels/affinities.

    Newton steps in log beta; a step out of the bracket becomes a bisection.
    """
    there = np.isfinite(gaps)
    finite = np.where(there, gaps, 0.0)
    smallest = np.min(gaps, axis=1, where=gaps > 0, initial=np.inf)
    low = np.full(len(gaps), np.log(_WIDEST))
    high = np.log(_CLOSEST / np.maximum(smallest, _SMALLEST))
    at = min(int(np.exp(target)), gaps.shape[1] - 1)
    t = -np.log(np.clip(gaps[:, at], _SMALLEST, 1.0))
    left, result = np.arange(len(gaps)), np.empty(len(gaps))
    for _ in range(_STEPS):
        out = ~((low < t) & (t < high))
        t = np.where(out, 0.5 * (low + high), t)
        beta, g = np.exp(t), finite[left]
        w = np.where(there[left], np.exp(-beta[:, None] * g), 0.0)
        total = w.sum(axis=1)
        mean = np.einsum("ij,ij->i", w, g) / total
        excess = np.log(total) + beta * mean - target
        result[left] = beta
        open_ = (np.abs(excess) > _TOL) & (high - low > _TOL)
        if not open_.any():
            break
        low, high = np.where(excess > 0, t, low), np.where(excess > 0, high, t)
        variance = np.einsum("ij,ij,ij->i", w, g, g) / total - mean**2
        t = t + excess / np.maximum(beta**2 * variance, 1e-290)
        t, low, high, left = t[open_], low[open_], high[open_], left[open_]
    return result


def _marginals(energies: Array, k: int) -> tuple[Array, Array]:
    """Marginals and entropy of a table of energies, sorted; inf where there is no member."""
    n, m = energies.shape
    last = energies[:, k - 1 : k]
    near = np.exp(np.minimum(last - energies, 0.0))  # weights over that of the k-th
    scale = np.maximum(1.0, near[:, k:].sum(axis=1) / k)
    unit = np.exp(energies[:, :k] - last) / scale[:, None]  # weight of the k-th over the u-th

    def ratios(j: int) -> Any:
        """Weight of member j over that of the first min(j, k), which is at most 1."""
        if j > k:
            return near[:, j - 1 : j] * unit
        return np.exp(energies[:, :j] - energies[:, j - 1 : j]) / scale[:, None]

    before = np.zeros((m + 1, n, k + 1))
    before[:, :, 0] = 1.0
    for j in range(1, m + 1):
        top = min(j, k)
        before[j, :, 1:] = before[j - 1, :, 1:]
        before[j, :, 1 : top + 1] += ratios(j) * before[j - 1, :, :top]
    adjoint = np.zeros((n, k + 1))
    adjoint[:, k] = 1.0 / before[m, :, k]
    p = np.zeros((n, m))
    for j in range(m, 0, -1):
        top = min(j, k)
        pulled = ratios(j) * adjoint[:, 1 : top + 1]
        p[:, j - 1] = np.minimum(np.einsum("iu,iu->i", pulled, before[j - 1, :, :top]), 1.0)
        adjoint[:, 1:top] += pulled[:, 1:]
    # -sum p log w + log e_k(w), where e_k is known over the product of the k largest
    excess = p - (np.arange(m) < k)
    entropy = np.sum(excess * np.where(np.isfinite(energies), energies, 0.0), axis=1)
    entropy += np.log(before[m, :, k]) + k * np.log(scale)
    return p, np.maximum(entropy, 0.0)
