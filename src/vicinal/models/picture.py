"""A finished picture: the places of its rows, and what it takes to place further rows in it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from vicinal.affinities import new_affinities
from vicinal.core import checks
from vicinal.core.types import Array
from vicinal.engines import choose
from vicinal.models.equal_rows import EqualRows
from vicinal.models.placement import Lists, place

_GIVEN = ("precomputed", "precomputed_affinities")


class Target(NamedTuple):
    """How the neighbourhoods of rows were made: see `affinities.affinities`."""

    metric: str | Callable[..., Any]
    params: dict[str, Any]
    perplexity: float
    k: int
    length: int  # of the lists

    def check_fields(self) -> None:
        """Refuse what cannot be searched with."""
        checks.need(isinstance(self.metric, str), "the metric must have a name")
        checks.within(self.perplexity, "perplexity", 1.0, 1e12)


class Picture:
    """Places new rows among the training rows.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, n_features)
        The training rows, not copied; distances or weights are not kept.
    Z : array of shape (n, d)
        Their places.
    target : Target
    kernel, kappa : str, float
        As in `KSNELoss`.
    """

    X: Any
    Z: Array
    target: Target
    kernel: str
    kappa: float
    _equal_rows: EqualRows

    def __init__(self, X: Any, Z: Array, target: Target, kernel: str, kappa: float) -> None:
        self.X = None if target.metric in _GIVEN else X
        self.Z, self.target, self.kernel, self.kappa = Z, target, kernel, kappa
        self._equal_rows = EqualRows(X)

    def check_fields(self) -> None:
        """Refuse fields that do not fit together."""
        checks.real(self.Z, 2, "Z")
        (n, d), X = self.Z.shape, self.X
        checks.need(n >= 1 and d >= 1, "Z must not be empty")
        checks.need(len(self._equal_rows._keys) == n, "there must be one key for each row")
        checks.need((self.target.metric in _GIVEN) == (X is None), "rows and metric do not agree")
        if X is not None:
            checks.table(X)
            checks.need(X.shape[0] == n, "X and Z must have as many rows")
        checks.count(self.target.k, "k", 1, n)
        checks.count(self.target.length, "length", 1, n + 1)
        checks.need(self.kernel in ("cauchy", "gaussian"), "unknown kernel")
        checks.within(self.kappa, "kappa", 0.0, 1e6)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_potential"}

    def places(self, X: Any) -> Array:
        """Where new rows are placed; a row that is equal to a training row gets its place.

        X has been checked.  If X holds distances, a distance of zero means equality too.
        """
        twin = self._equal_rows.first(X, self.X)
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
            if metric == "precomputed":
                twin[new] = chosen.at_zero()
        placed[twin >= 0] = self.Z[twin[twin >= 0]]
        return placed

    @cached_property
    def _potential(self) -> Any:
        """Sums over sets of the points of the picture."""
        Z = self.Z.astype(np.float64)
        return choose.backend(Z, len(Z)).set_potential(Z, self.target.k, self.kernel, self.kappa)
