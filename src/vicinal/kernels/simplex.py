"""The projection of columns onto the probability simplex."""

from __future__ import annotations

import numpy as np

from vicinal.kernels._jit import helper, kernel, maximum, minimum

__all__ = ["simplex_columns"]

_LANES = 8  # columns copied at a time: a cache line of each row


@helper
def _threshold(column, work):
    """tau of ``x = max(y - tau, 0)`` that sums to one, for entries of which the largest is 0.

    The threshold of entries among which some are not above it is too low: those are dropped, and
    it rises [Michelot1986].  The next to be dropped lie between the two thresholds.  Where d of m
    entries are dropped from at most e below the first, the second is d e / (m - d) above it at
    most: a sweep either drops a third of the entries or halves e, and a float has 53 halves.  So
    this is faster than to sort the entries, O(r log r) [Wang2013]; three sweeps are usual.
    """
    size, total = 0, 0.0
    for p in range(len(column)):
        if column[p] > -1.0:  # the others are zero for any tau
            work[size] = column[p]
            total += column[p]
            size += 1
    while True:
        tau = (total - 1.0) / size
        kept, total = 0, 0.0
        for p in range(size):
            entry = work[p]
            work[kept] = entry
            stays = entry > tau
            kept += stays
            total += entry if stays else 0.0
        if kept == size:
            return tau
        size = kept


@helper
def _project(column, work, slack):
    """Project in place; what is on the simplex already stays as it is, to the bit."""
    lowest, top, total = column[0], column[0], 0.0
    for p in range(len(column)):
        lowest, top = minimum(lowest, column[p]), maximum(top, column[p])
        total += minimum(column[p], 2.0)  # more than one is all there is to know
    if lowest >= 0.0 and abs(total - 1.0) <= slack:
        return
    # The largest entry becomes 0, so that tau, in [-1, 0), is not lost in what is large; and in a
    # sweep of its own, or the compiler adds the two up first.  No difference leaves the range.
    for p in range(len(column)):
        column[p] = column[p] - top if column[p] >= top - 1.0 else -1.0
    tau = _threshold(column, work)
    total = 0.0
    for p in range(len(column)):
        column[p] = maximum(column[p] - tau, 0.0)
        total += column[p]
    for p in range(len(column)):
        column[p] /= total  # off by rounding alone


def simplex_columns(L, first, last, slack, out):
    """Project columns first, ..., last - 1 of L, (r, D), onto the simplex.

    Parameters
    ----------
    L : (r, D) float64, row-major and finite
    slack : how far from one the sum of a column may be that is left as it is
    out : (r, D) array; out
    """
    r = L.shape[0]
    _columns(L, first, last, slack, np.empty((_LANES, r)), np.empty(r), out)


@kernel
def _columns(L, first, last, slack, columns, work, out):
    r = L.shape[0]
    for start in range(first, last, _LANES):
        lanes = min(_LANES, last - start)
        for p in range(r):
            for lane in range(lanes):
                columns[lane, p] = L[p, start + lane]
        for lane in range(lanes):
            _project(columns[lane], work, slack)
        for p in range(r):
            for lane in range(lanes):
                out[p, start + lane] = columns[lane, p]
