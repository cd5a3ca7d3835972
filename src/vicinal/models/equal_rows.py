"""Which known row a new row is equal to, by the rows themselves.

A distance would not do: it may be rounded, or be 0 for rows that differ.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from vicinal.core import checks
from vicinal.core.types import Array

_ENTRIES = 2**17  # of the table, whose keys are computed at a time


class EqualRows:
    """Finds equal rows by 64-bit keys, and then compares them.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, n_columns)
        The known rows; only their keys are kept.
    """

    _keys: Array
    _order: Array

    def __init__(self, X: Any) -> None:
        keys = _row_keys(X)
        self._order = np.argsort(keys, kind="stable")  # of equal rows, the first comes first
        self._keys = keys[self._order]

    def check_fields(self) -> None:
        """Refuse fields that do not fit together."""
        keys = self._keys
        checks.need(keys.dtype == np.uint64 and keys.ndim == 1 and len(keys) >= 1, "keys of rows")
        checks.need((keys[1:] >= keys[:-1]).all(), "keys must be sorted")
        checks.indices(self._order, "the order of rows", len(keys), len(keys))

    def first(self, X_new: Any, X: Any = None) -> Array:
        """The first known row that each new row is equal to, -1 if there is none.

        ``X`` are the known rows; None: equal keys count as equal rows.
        """
        keys = _row_keys(X_new)
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        first = np.where(self._keys[at] == keys, self._order[at], -1)
        if X is not None:
            found = np.flatnonzero(first >= 0)
            first[found[~_equal(X_new[found], X[first[found]])]] = -1
        return first


def _row_keys(X: Any) -> Array:
    """A key of each row: equal rows have equal keys, dense or sparse, in any precision."""
    n, D = X.shape
    # odd multipliers, so that no bit of an entry is lost
    factor = np.random.RandomState(0).randint(0, 2**63, D, dtype=np.int64).astype(np.uint64)
    factor = factor * np.uint64(2) + np.uint64(1)
    if sp.issparse(X):
        bits = _mixed(X.data) * factor[X.indices]
        ends = np.concatenate([np.zeros(1, np.uint64), np.cumsum(bits, dtype=np.uint64)])
        return ends[X.indptr[1:]] - ends[X.indptr[:-1]]
    keys = np.empty(n, np.uint64)
    size = max(1, _ENTRIES // D)
    for first in range(0, n, size):
        rows = slice(first, first + size)
        keys[rows] = np.sum(_mixed(X[rows]) * factor, axis=1, dtype=np.uint64)
    return keys


def _mixed(x: Array) -> Array:
    """The bits of numbers as float64, the high ones spread over the low ones; 0 for zero."""
    bits = (x.astype(np.float64) + 0.0).view(np.uint64)  # + 0.0: no negative zero
    return bits ^ (bits >> np.uint64(32))


def _equal(A: Any, B: Any) -> Array:
    if sp.issparse(A) or sp.issparse(B):
        return np.asarray(abs(sp.csr_array(A) - sp.csr_array(B)).sum(axis=1)).ravel() == 0
    return np.all(A == B, axis=1)
