"""The projection of columns onto the probability simplex."""

from __future__ import annotations

import numpy as np

from vicinal.kernels._jit import helper, kernel, maximum, minimum

_LANES = 8  # columns copied at a time: one cache line of each row


@helper
def _threshold(column, work):
    """The tau for which ``x = max(y - tau, 0)`` sums to one; the largest entry y is 0.

    While some entries are not above the threshold, it is too low: those are dropped, and it rises
    [Michelot1986].  The next entries to be dropped are between the two thresholds.  If d of m
    entries are dropped, all at most e below the first threshold, the second is at most
    d e / (m - d) above it: a sweep either drops a third of the entries or halves e, and a float has
    53 halvings.  So this is faster than sorting, O(r log r) [Wang2013]; three sweeps are typical.
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
    """Project in place; a column already on the simplex keeps its exact bits."""
    lowest, top, total = column[0], column[0], 0.0
    for p in range(len(column)):
        lowest, top = minimum(lowest, column[p]), maximum(top, column[p])
        total += minimum(column[p], 2.0)  # any sum above one will do
    if lowest >= 0.0 and abs(total - 1.0) <= slack:
        return
    # Shift the largest entry to 0, so that tau, in [-1, 0), keeps its digits; in a separate sweep,
    # or the compiler would combine the two subtractions.  No difference overflows.
    for p in range(len(column)):
        column[p] = column[p] - top if column[p] >= top - 1.0 else -1.0
    tau = _threshold(column, work)
    total = 0.0
    for p in range(len(column)):
        column[p] = maximum(column[p] - tau, 0.0)
        total += column[p]
    for p in range(len(column)):
        column[p] /= total  # removes rounding errors


def simplex_columns(L, first, last, slack, out):
    """Project columns first, ..., last - 1 of L, (r, D), onto the simplex.

    Parameters
    ----------
    L : (r, D) float64, row-major and finite
    slack : largest deviation from one of the sum of a column that is left unchanged
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
