"""Binds data, targets, objective, map and penalty into ``fun(theta, batch)``.

The only place where the chain rule is written: ``theta -> Z -> value`` forwards, ``dZ -> dtheta``
back through the map's pull.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from vicinal._features import Features
from vicinal.core.types import Array, Batch, Map, Source

__all__ = ["Problem"]

_FAR = 1e100  # of a coordinate: beyond, squared distances leave the range of floats


@dataclass(frozen=True)
class Problem:
    """A loss over the parameters of a map.

    Parameters
    ----------
    X : Features
        All rows, training and held-out.
    targets : Labels
        What the objective is told of those rows; has ``take(rows)``.
    objective : callable
        ``value, dZ = objective(Z, targets, queries=..., references=...)``, a mean to minimise.
    mapping : Map
        From rows to embedded points.
    alpha : float or array
        Weight of the squared norm of the map, beside the mean loss ([Oneata2011] eq. (3.22)); an
        array has one weight for each parameter (``lambda_i`` for all of row i: eq. (3.26)).
    train, held_out : int arrays, default=None
        Positions of the rows to learn from (None: all) and of those kept to judge by.
    dtype : dtype
        Precision of the embedded points; ``theta`` and its gradient are float64 throughout.
    options : mapping, default={}
        What else the objective is told at every call: kernel, pairs, background.
    trust : (array of shape (n, d), float), default=None
        Embedded points, and how far (root mean square) they may move from there: beyond, the loss
        is infinite.  For objectives that know the pairs of those places only.
    """

    X: Features
    targets: Any
    objective: Callable[..., tuple[float, Array]]
    mapping: Map
    alpha: float | Array = 0.0
    train: Array | None = None
    held_out: Array | None = None
    dtype: Any = np.float64
    options: Mapping[str, Any] = field(default_factory=dict)
    trust: tuple[Array, float] | None = None

    def __call__(self, theta: Array, batch: Batch | None = None) -> tuple[float, Array]:
        """The loss and its gradient, both float64."""
        rows, queries, references = None, self.train, self.train
        if batch is not None and batch.rows is not None:
            rows = batch.rows if self.train is None else self.train[batch.rows]
            queries = references = None
        if batch is not None and batch.queries is not None:
            queries = batch.queries if queries is None else queries[batch.queries]
        # Held-out rows are embedded along with the others rather than X copied without them.
        Z, pull = self.mapping.forward(theta, self.X.take(rows), self.dtype)
        if not _in_range(Z) or self._too_far(Z):  # a step too long, which a solver takes back
            return np.inf, np.zeros_like(theta)
        value, dZ = self.objective(
            Z, self.targets.take(rows), queries=queries, references=references, **self.options
        )
        # [Oneata2011] eqs (3.23), (3.27), on the mean and in the space the solver sees
        return float(value) + self._penalty(theta), pull(dZ) + 2.0 * self.alpha * theta

    def value(self, theta: Array, queries: Array | None = None) -> float:
        """The loss alone, at less than half the cost: of some rows, or of all learnt from."""
        Z = self.embed(theta)
        if not _in_range(Z):
            return np.inf
        queries = self.train if queries is None else queries
        value, _ = self.objective(
            Z,
            self.targets,
            queries=queries,
            references=self.train,
            gradient=False,
            **self.options,
        )
        return float(value) + self._penalty(theta)

    def _too_far(self, Z: Array) -> bool:
        if self.trust is None:
            return False
        place, radius = self.trust
        moved = Z - place
        # one array of the size of Z, not three; einsum, whose bits are not those of BLAS' threads
        return bool(np.einsum("ij,ij->", moved, moved) > len(Z) * radius**2)

    def _penalty(self, theta: Array) -> float:
        """[Oneata2011] eq. (3.22), or (3.26) where each parameter has a weight of its own."""
        if np.ndim(self.alpha):
            return float(theta @ (self.alpha * theta))
        return float(self.alpha * (theta @ theta))

    def validation_score(self, theta: Array) -> float:
        """Minus the loss of the held-out rows against the training rows: higher is better."""
        Z = self.embed(theta)
        value, _ = self.objective(
            Z,
            self.targets,
            queries=self.held_out,
            references=self.train,
            gradient=False,
            **self.options,
        )
        return -value

    def embed(self, theta: Array) -> Array:
        """All rows through the map."""
        return self.mapping.forward(theta, self.X, self.dtype)[0]

    @property
    def project(self) -> Callable[[Array], Array] | None:
        """``theta -> theta``, the nearest that the map allows; None where it allows all."""
        if not getattr(self.mapping, "constrained", True):
            return None
        return getattr(self.mapping, "project", None)

    @property
    def source(self) -> Source:
        """What a sampler may know of the rows learnt from."""
        train: Any = slice(None) if self.train is None else self.train
        codes = self.targets.codes[train]
        return Source(
            len(codes),
            codes,
            embed=lambda theta: self.embed(theta)[train],
            points=lambda rows: self.X.take(rows if self.train is None else train[rows]),
        )

    def replace(self, **changes: Any) -> Problem:
        """The same problem with some parts exchanged (another precision, all rows)."""
        return replace(self, **changes)


def _in_range(Z: Array) -> bool:
    return max(float(Z.max(initial=0.0)), -float(Z.min(initial=0.0))) < _FAR  # False for NaN
