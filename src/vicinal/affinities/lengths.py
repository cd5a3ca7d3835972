"""How long lists of neighbours must be: what they leave out is measured on a sample of rows."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from vicinal.affinities.calibration import Lists, calibrate, choose_sets
from vicinal.affinities.distances import Source
from vicinal.core.types import Array
from vicinal.engines import choose

_SAMPLE = 128  # rows
SAMPLED_AT_ONCE = 8  # of these, whose distances to all rows are in memory together
# Lists hold at most this many times the usual number of rows, or this many entries in all: with
# thousands of equal rows, no lists are long enough.
_LONGEST, _ENTRIES = 10, 2**24
# Lists of an approximate search are made longer by a share, and once more if that is too little.
_SPARE, _MORE = 1.1, 1.5


class _Sample(NamedTuple):
    """Some rows, their nearest, the marginals of these among all rows, and the sums of these.

    ``held[l]`` is the share of the marginals that lists of the l + 1 nearest hold.
    """

    rows: Array
    near: Array
    marginals: Array
    held: Array


def list_length(n: int, perplexity: float, k: int) -> int:
    """How many rows the lists of n rows hold at least: all others of few rows."""
    return n - 1 if choose.is_small(n) else min(n - 1, math.ceil(3 * perplexity) + 2 * k)


def measured_lists(
    source: Source, X: Any, perplexity: float, k: int, max_missing: float
) -> tuple[Lists, float]:
    """Lists that leave out at most that share of the marginals, and what they leave out.

    The marginals of a sample of rows are computed among all rows.  An approximate search misses
    some of the nearest: what its lists hold is measured, and if it is too little they are made
    longer, once.
    """
    n = source.n
    start = list_length(n, perplexity, k)
    longest = min(n - 1, max(_LONGEST * start, _ENTRIES // n))
    sample = _sample(source, X, perplexity, k, longest)
    missing = 1.0 - sample.held
    length = longest
    if missing[-1] <= max_missing:
        length = max(start, int(np.argmax(missing <= max_missing)) + 1)
    if not source.approximate:
        lists = source.lists(X, length, own=True)
        return lists, 0.0 if length == n - 1 else float(missing[length - 1])
    for stretch in (_SPARE, _MORE):
        length = min(longest, math.ceil(stretch * length))
        lists = source.lists(X, length, own=True)
        measured = _measure(sample, lists, k)
        if measured <= max_missing or length == longest:
            break
    return lists, measured


def _sample(source: Source, X: Any, perplexity: float, k: int, longest: int) -> _Sample:
    n = source.n
    rows = np.sort(np.random.default_rng(0).choice(n, min(_SAMPLE, n), replace=False))
    near, marginals = np.empty((len(rows), longest), np.int32), np.empty((len(rows), longest))
    for first in range(0, len(rows), SAMPLED_AT_ONCE):
        part = slice(first, min(first + SAMPLED_AT_ONCE, len(rows)))
        d2 = source.table(X[rows[part]])
        d2[np.arange(len(d2)), rows[part]] = np.inf
        near[part] = _nearest(d2, longest)
        d2.sort(axis=1)
        indptr = np.arange(len(d2) + 1, dtype=np.int64) * (n - 1)
        lists = Lists(indptr, near[:0, 0], np.ascontiguousarray(d2[:, :-1]).ravel())
        calibrate(lists, perplexity, compiled=True)
        choose_sets(lists, k, compiled=True)
        marginals[part] = lists.values.reshape(len(d2), n - 1)[:, :longest]
    held = np.minimum(np.cumsum(marginals, axis=1).sum(axis=0) / (k * len(rows)), 1.0)
    return _Sample(rows, near, marginals, held)


def _nearest(d2: Array, length: int) -> Array:
    """Positions of the smallest of each row, sorted."""
    near = np.argpartition(d2, length - 1, axis=1)[:, :length]
    order = np.argsort(np.take_along_axis(d2, near, axis=1), axis=1)
    return np.take_along_axis(near, order, axis=1)


def _measure(sample: _Sample, lists: Lists, k: int) -> float:
    """The share of the marginals that lists leave out; none is counted beyond the longest."""
    held = 0.0
    for i, near, p in zip(sample.rows, sample.near, sample.marginals, strict=True):
        listed = lists.indices[lists.indptr[i] : lists.indptr[i + 1]]
        held += float(p[np.isin(near, listed)].sum())
    return max(0.0, 1.0 - held / (k * len(sample.rows)))
