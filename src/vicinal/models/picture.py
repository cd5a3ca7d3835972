"""A finished picture: the places of its rows, and what it takes to place further rows in it."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from vicinal.core.types import Array
from vicinal.engines import choose
from vicinal.models.placement import Lists, place
from vicinal.targets import new_affinities

__all__ = ["Picture", "Target", "row_keys"]

_GIVEN = ("precomputed", "precomputed_affinities")
_KEY_ROWS = 2**17  # entries of the table whose keys are computed at a time


class Target(NamedTuple):
    """How the neighbourhoods of rows were made: see `targets.affinities`."""

    metric: Any
    params: dict[str, Any]
    perplexity: float
    k: int
    length: int  # of the lists


class Picture:
    """Places new rows among the training rows.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, n_features)
        The training rows, of which no copy is made; distances or weights are not kept.
    Z : array of shape (n, d)
        Their places.
    target : Target
    kernel, kappa : str, float
        As in `KSNELoss`.
    """

    def __init__(self, X: Any, Z: Array, target: Target, kernel: str, kappa: float) -> None:
        self.X = None if target.metric in _GIVEN else X
        self.Z, self.target, self.kernel, self.kappa = Z, target, kernel, kappa
        keys = row_keys(X)
        self._order = np.argsort(keys, kind="stable")  # of equal rows, the first comes first
        self._keys = keys[self._order]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_potential"}

    def places(self, X: Any) -> Array:
        """Where new rows are placed; a row that is equal to a training row gets its place.

        X has been checked.  If X holds distances, a distance of zero means equality too.
        """
        twin = self.twins(X)
        new = np.flatnonzero(twin < 0)
        placed = np.empty((X.shape[0], self.Z.shape[1]), self.Z.dtype)
        if len(new):
            metric, params, perplexity, k, length = self.target
            known = len(self.Z) if self.X is None else self.X
            chosen = new_affinities(
                X[new],
                known,
                perplexity,
                k,
                length=length,
                metric=metric,
                metric_params=params,
            )
            lists = Lists(chosen.indptr, chosen.indices, chosen.marginals)
            Z = self.Z.astype(np.float64)
            placed[new] = place(Z, lists, self._potential, self.kernel, self.kappa)
            twin[new] = chosen.twins
        placed[twin >= 0] = self.Z[twin[twin >= 0]]
        return placed

    def twins(self, X: Any) -> Array:
        """The first training row that each row is equal to, -1 if there is none."""
        keys = row_keys(X)
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        twin = np.where(self._keys[at] == keys, self._order[at], -1)
        if self.X is not None:
            found = np.flatnonzero(twin >= 0)
            twin[found[~_equal_rows(X[found], self.X[twin[found]])]] = -1
        return twin

    @cached_property
    def _potential(self) -> Any:
        """Sums over sets of the points of the picture."""
        Z = self.Z.astype(np.float64)
        return choose.set_potential(Z, self.target.k, self.kernel, self.kappa)


def row_keys(X: Any) -> Array:
    """A 64-bit key of each row: equal rows have equal keys, dense or sparse, in any precision."""
    n, D = X.shape
    # odd multipliers, so that no bit of an entry is lost
    factor = np.random.RandomState(0).randint(0, 2**63, D, dtype=np.int64).astype(np.uint64)
    factor = factor * np.uint64(2) + np.uint64(1)
    if sp.issparse(X):
        bits = _mixed(X.data) * factor[X.indices]
        ends = np.concatenate([np.zeros(1, np.uint64), np.cumsum(bits, dtype=np.uint64)])
        return ends[X.indptr[1:]] - ends[X.indptr[:-1]]
    keys = np.empty(n, np.uint64)
    size = max(1, _KEY_ROWS // D)
    for first in range(0, n, size):
        rows = slice(first, first + size)
        keys[rows] = np.sum(_mixed(X[rows]) * factor, axis=1, dtype=np.uint64)
    return keys


def _mixed(x: Array) -> Array:
    """The bits of numbers as float64, the high ones spread over the low ones; 0 for zero."""
    bits = (x.astype(np.float64) + 0.0).view(np.uint64)  # + 0.0: no negative zero
    return bits ^ (bits >> np.uint64(32))


def _equal_rows(A: Any, B: Any) -> Array:
    if sp.issparse(A) or sp.issparse(B):
        return np.asarray(abs(sp.csr_array(A) - sp.csr_array(B)).sum(axis=1)).ravel() == 0
    return np.all(A == B, axis=1)
