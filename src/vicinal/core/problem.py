"""Combines rows, target, objective, map and penalty into ``fun(theta, batch)``.

The chain rule is applied here and nowhere else: ``theta -> Z -> value`` forwards, ``dZ -> dtheta``
back through the map's pull.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from vicinal.core import points
from vicinal.core.types import (
    Array,
    Batch,
    Evaluation,
    Map,
    Objective,
    Source,
    Target,
    Units,
)

_FAR = 1e100  # limit on coordinates: beyond it, squared distances would overflow
_SEEN = 20  # evaluations of a step whose facts are kept: a line search rarely makes more


@dataclass(frozen=True)
class Problem:
    """A loss over the parameters of a map.

    Parameters
    ----------
    X : Rows
        All rows, training and held-out: anything that the map accepts, with ``take(rows)`` and a
        length.
    target : Target
        What the objective is to reach for those rows.
    objective : Objective
        ``objective(Z, target, queries=..., references=...)``, a mean loss to minimise.
    mapping : Map
        From rows to embedded points.
    alpha : float or array
        Weight of the squared norm of the map, added to the mean loss ([Oneata2011] eq. (3.22)); an
        array has one weight for each parameter (``lambda_i`` for all of row i: eq. (3.26)).  The
        map's ``penalty_weights``, if it has such, multiply it.
    train, held_out : int arrays, default=None
        Positions of the training rows (None: all) and of the rows held out for scoring.
    dtype : dtype
        Precision of the embedded points; ``theta`` and its gradient are float64 throughout.
    pairs : Pairs or Bounded, default=None
        Which pairs the objective sums over; None: all.
    trust : (array of shape (n, d), float), default=None
        Embedded points, and how far (root mean square) they may move from there; beyond that, the
        loss is infinite.  For pairs that are valid only near those points.
    """

    X: Any
    target: Target
    objective: Objective
    mapping: Map
    alpha: float | Array = 0.0
    train: Array | None = None
    held_out: Array | None = None
    dtype: Any = np.float64
    pairs: Any = None
    trust: tuple[Array, float] | None = None

    def __call__(self, theta: Array, batch: Batch | None = None) -> tuple[float, Array]:
        """The loss and its gradient, both float64."""
        return self.evaluate(theta, batch)[:2]

    def evaluate(
        self, theta: Array, batch: Batch | None = None
    ) -> tuple[float, Array, Mapping[str, float] | None]:
        """The loss, its gradient, and facts about the evaluation (None if it was out of range)."""
        rows, target, queries, references = None, self.target, self.train, self.train
        if batch is not None and batch.rows is not None:
            rows = batch.rows if self.train is None else self.train[batch.rows]
            queries = references = None
            rows, target, queries = target.in_batch(rows, batch.share, self.train)
        if batch is not None and batch.queries is not None:
            queries = batch.queries if queries is None else queries[batch.queries]
        # Held-out rows are embedded too: this is cheaper than a copy of X without them.
        Z, pull = points.forward(self.X.take(rows), self.mapping, theta, self.dtype)
        if not _in_range(Z) or self._too_far(Z):  # the step was too long: the solver will undo it
            return np.inf, np.zeros_like(theta), None
        pairs = self.pairs if batch is None or batch.pairs is None else batch.pairs
        value, dZ, facts = self.objective(
            Z, target, queries=queries, references=references, pairs=pairs
        )[:3]
        assert dZ is not None
        # [Oneata2011] eqs (3.23), (3.27), for the mean loss and the scaled columns
        weights = self._weights(theta)
        gradient = pull(dZ) + 2.0 * weights * theta
        return float(value) + _penalty(weights, theta), gradient, facts

    def value(self, theta: Array, queries: Array | None = None) -> float:
        """The loss of some rows, or of all training rows, at less than half the cost."""
        return self.score(theta, self.train if queries is None else queries).value

    def validation_score(self, theta: Array) -> float:
        """Minus the loss of the held-out rows against the training rows: higher is better."""
        return -self.score(theta, self.held_out, penalty=False).value

    def score(self, theta: Array, queries: Array | None, penalty: bool = True) -> Evaluation:
        """The loss of some rows against the training rows, without a gradient."""
        Z, _ = points.forward(self.X, self.mapping, theta, self.dtype)
        if not _in_range(Z):
            return Evaluation(np.inf, None, {})
        evaluation = self.objective(
            Z,
            self.target,
            queries=queries,
            references=self.train,
            pairs=self.pairs,
            gradient=False,
        )
        value = float(evaluation.value)
        added = _penalty(self._weights(theta), theta) if penalty else 0.0
        return evaluation._replace(value=value + added)

    def _too_far(self, Z: Any) -> bool:
        return self.trust is not None and self._has_moved(Z, 1.0)

    def near_edge(self, theta: Array) -> bool:
        """Whether the rows have moved half of the way that ``trust`` allows, or more."""
        return self.trust is not None and self._has_moved(self._points(theta), 0.5)

    def _has_moved(self, Z: Any, share: float) -> bool:
        """Whether the rows have moved by more than a share of the radius, by the mean square."""
        assert self.trust is not None
        centre, radius = self.trust
        return bool(points.moved(Z, centre) > len(Z) * (share * radius) ** 2)

    def _weights(self, theta: Array) -> float | Array:
        """The weight of each squared parameter in the penalty."""
        return self.alpha * self.penalty_weights(theta)

    def penalty_weights(self, theta: Array) -> float | Array:
        """The relative weight of each squared parameter, as the map states it."""
        return self.mapping.penalty_weights(theta)

    def embed(self, theta: Array) -> Array:
        """All rows, embedded by the map, on the host."""
        return points.to_host(self._points(theta))

    def _points(self, theta: Array) -> Any:
        """All rows, embedded by the map, where they lie."""
        return points.forward(self.X, self.mapping, theta, self.dtype)[0]

    def scaled(self, theta: Array, factor: float) -> Array:
        """The parameters whose embedded points are ``factor`` times as far apart."""
        return self.mapping.scaled(theta, factor)

    @property
    def rows(self) -> Array:
        """Positions of the training rows."""
        return np.arange(len(self.X)) if self.train is None else self.train

    @property
    def units(self) -> Units:
        """The units of the objective, multiplied by the map's ``gradient_floor``.

        A map that shrinks all gradients, as the softmax does, states by how much.
        """
        units = self.objective.units
        return units._replace(loss=units.loss * self.mapping.gradient_floor)

    @property
    def project(self) -> Callable[[Array], Array] | None:
        """``theta -> theta``, the nearest one that the map allows; None if it allows all."""
        return self.mapping.project if self.mapping.constrained else None

    @property
    def source(self) -> Source:
        """What a sampler may know about the training rows."""
        train: Any = slice(None) if self.train is None else self.train
        strata = self.target.strata
        return Source(
            len(self.rows),
            None if strata is None else strata[train],
            embed=lambda theta: self.embed(theta)[train],
            points=lambda rows: self.X.take(rows if self.train is None else train[rows]),
            make_index=self._make_index if self._indexed else None,
            expect=self._expect if points.are_fetched(self.X) else None,
        )

    def _expect(self, batches: list[Array]) -> None:
        train = self.train
        points.expect(self.X, batches if train is None else [train[rows] for rows in batches])

    @property
    def _indexed(self) -> bool:
        return self.pairs is None and self.objective.has_index

    def _make_index(self, theta: Array, n_queries: int) -> Any:
        """The pairs of some evaluations that begin at theta, with this many queries each."""
        points = self._points(theta)
        return self.objective.make_index(points, self.target, self.train, n_queries)

    def replace(self, **changes: Any) -> Problem:
        """The same problem with some fields replaced (another precision, all rows)."""
        return replace(self, **changes)


@dataclass
class Tracked:
    """A problem as a solver sees it, with the facts of its evaluations.

    ``facts`` belong to the last evaluation.  A line search may end at an earlier one, so the
    last points are kept with their facts until ``facts_at`` is called.
    """

    problem: Problem
    facts: Mapping[str, float] = field(default_factory=dict)
    _seen: deque[tuple[Array, Mapping[str, float]]] = field(
        default_factory=partial(deque, maxlen=_SEEN)
    )

    @property
    def project(self) -> Callable[[Array], Array] | None:
        """The projection of the problem."""
        return self.problem.project

    def penalty_weights(self, theta: Array) -> float | Array:
        """The weights of the problem."""
        return self.problem.penalty_weights(theta)

    @property
    def columns(self) -> tuple[str, ...]:
        """The facts that the history records."""
        return ("share_of_pairs", *self.problem.objective.columns)

    def __call__(self, theta: Array, batch: Batch | None = None) -> tuple[float, Array]:
        """The loss and its gradient."""
        value, gradient, facts = self.problem.evaluate(theta, batch)
        if facts is not None:
            self.facts = facts
            self._seen.append((theta, facts))
        return value, gradient

    def facts_at(self, theta: Array) -> Mapping[str, float] | None:
        """The facts of the last evaluation at theta; None if there was none since the last call."""
        seen = reversed(self._seen)
        same = (facts for at, facts in seen if at is theta or np.array_equal(at, theta))
        found = next(same, None)
        self._seen.clear()
        return found


def _penalty(weights: float | Array, theta: Array) -> float:
    """[Oneata2011] eq. (3.22), or (3.26) if each parameter has its own weight."""
    if np.ndim(weights):
        return float(theta @ (weights * theta))
    return float(weights * (theta @ theta))


def _in_range(Z: Any) -> bool:
    return points.extent(Z) < _FAR  # False for NaN
