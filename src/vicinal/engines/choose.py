"""The backend of an evaluation, and the only place that chooses it.

The type of the points decides first, because points stay where they are.  On the host the number
of rows decides: up to ``DENSE_UP_TO``, NumPy computes whole arrays and nothing is compiled; beyond
that, compiled loops run over tiles of pairs.  The choice never depends on what is cached or
installed, so the same input gives the same bits everywhere.  The number of rows is that of the
embedded rows for learning, and that of the references for prediction, so that the prediction for a
row does not depend on how many rows are predicted.  A pair object with a method ``engine``
(`base.PairSource`) chooses its own engine.

Tests of the compiled loops on tiny data set ``DENSE_UP_TO`` to 0.
"""

from __future__ import annotations

import math
from functools import singledispatch
from typing import Any

import numpy as np

from vicinal.core.types import Pairs
from vicinal.densities import Kernel
from vicinal.engines.base import Backend, ClassSums, Data, PairSource
from vicinal.engines.cpu import backend as cpu
from vicinal.engines.dense import backend as dense

#: largest number of rows left to NumPy, see benchmarks/results/small_fits.md
DENSE_UP_TO = 500
_CHI2_TERMS = 8  # most bins at DENSE_UP_TO rows; more bins with fewer rows


@singledispatch
def backend(Z: Any, n: int) -> Backend:
    """The backend for points like Z, and n rows.

    Points of another type bring theirs: ``backend.register(Points, lambda Z, n: module)``, and the
    operations of `points` are registered in the same way.
    """
    raise TypeError(
        f"No backend is registered for points of the type {type(Z).__name__}. Convert them to a "
        "NumPy array, or register one with vicinal.engines.choose.backend.register."
    )


@backend.register(np.ndarray)
def _on_the_host(Z: Any, n: int) -> Backend:
    return dense if is_small(n) else cpu


def is_small(n_rows: int) -> bool:
    """Whether NumPy handles that many rows on the host."""
    return n_rows <= DENSE_UP_TO


def class_sums(
    data: Data, kernel: Kernel, pairs: Pairs | PairSource | None = None, owner: str = "nca"
) -> ClassSums:
    """The engine that sums a kernel over the classes, by lists, all pairs or the pairs' own."""
    if pairs is None or isinstance(pairs, Pairs):
        return backend(data.Z, len(data.Z)).class_sums(data, kernel, pairs)
    if hasattr(pairs, "engine"):
        return pairs.engine(data, kernel)
    raise TypeError(
        f"The 'pairs' parameter of {owner} must be Pairs, Bounded or None. Got {pairs!r} instead."
    )


def check_lists(pairs: Any, owner: str) -> None:
    """Raise unless ``pairs`` is candidate lists or None."""
    if pairs is not None and not isinstance(pairs, Pairs):
        raise TypeError(
            f"The 'pairs' parameter of {owner} must be Pairs or None. Got {pairs!r} instead."
        )


def rows_with(n_pairs: int) -> int:
    """The least number of rows that have this many pairs: a size for work of another kind."""
    return math.isqrt(n_pairs - 1) + 1 if n_pairs > 0 else 0


def histogram_rows(n: int, n_bins: int) -> int:
    """How many plain rows take as long as n histograms, whose every term has a division."""
    return max(n, rows_with(-(-n * n * n_bins // _CHI2_TERMS)))


def few_terms(n: int, n_bins: int) -> bool:
    """Whether NumPy handles this many histograms."""
    return is_small(histogram_rows(n, n_bins))
