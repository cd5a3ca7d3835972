"""The few shapes that parts hand to each other.

An objective is a function ``value, dZ = objective(Z, targets, ...)``; a map gives
``Z, pull = mapping.forward(theta, X)``; ``problem.py`` binds the two into
``value, dtheta = fun(theta, batch)``; a solver walks on ``fun``.  Nothing here computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Batch",
    "Dealer",
    "Evaluation",
    "Map",
    "Objective",
    "PairCost",
    "Pairs",
    "Result",
    "Sampler",
    "Sampling",
    "Solver",
    "Source",
    "Target",
    "Units",
    "is_auto",
]

Array = NDArray[Any]
#: ``value, dtheta = fun(theta, batch)``: the loss and its gradient, both float64.
Fun = Callable[[Array, "Batch | None"], tuple[float, Array]]


class Batch(NamedTuple):
    """Which rows one evaluation sees.

    ``rows`` are embedded (None: all of them); ``queries`` are positions among those rows and
    are scored against all the embedded rows (None: every row is a query).
    """

    rows: Array | None = None
    queries: Array | None = None


class Pairs(NamedTuple):
    """Which rows each row may pick: lists in compressed rows, over all rows of Z.

    ``indices[indptr[i]:indptr[i + 1]]`` are the rows that row i may pick (int64 and int32; no row
    twice in a list).  Where the lists are random samples, ``log2_rates``, (2, n), has log2 of the
    share that list i holds of the references of other classes [0] and of its own class [1]: the
    sums over either are divided by it.
    """

    indptr: Array
    indices: Array
    log2_rates: Array | None = None


class Units(NamedTuple):
    """What an objective counts as a loss of size one.

    Squared distances are measured in ``loss`` too.  With ``relative_to_map`` an entry of the
    gradient is measured in ``loss`` over the largest entry of the map.
    """

    loss: float = 1.0
    relative_to_map: bool = False


class Evaluation(NamedTuple):
    """What an objective returns: the mean loss, its gradient (None if not asked for), and facts.

    ``facts`` tells what the evaluation did, such as ``share_of_pairs``.
    """

    value: float
    dZ: Array | None
    facts: Mapping[str, float]


@runtime_checkable
class Target(Protocol):
    """What an objective is told to reach, one entry for each row.

    ``strata`` are class codes for stratified splits; None where there are no classes.
    """

    @property
    def strata(self) -> Array | None: ...

    def __len__(self) -> int: ...

    def take(self, rows: Any) -> Target: ...


@runtime_checkable
class Objective(Protocol):
    """A mean loss of the queries, to be minimised, as a function of the embedded points."""

    @property
    def units(self) -> Units: ...

    def __call__(
        self,
        Z: Array,
        target: Any,
        *,
        queries: Array | None = None,
        references: Array | None = None,
        pairs: Any = None,
        gradient: bool = True,
    ) -> Evaluation: ...


@runtime_checkable
class Map(Protocol):
    """``Z, pull = forward(theta, X, dtype)`` and ``dtheta = pull(dZ)``; ``theta`` is flat, float64.

    A map may have more, and is asked for it only where it has it:

    - ``n_components``, the dimensions of Z;
    - ``theta(components)`` and ``components(theta)``: a linear map, from and to its matrix;
    - ``start(X, rng)``: its first parameters, where no matrix can be its start;
    - ``scaled(theta, factor)``: the parameters whose Z is ``factor`` times as large (without it:
      ``factor * theta``);
    - ``fitted(theta, features, dtype)``: what is left of it after a fit;
    - ``project(theta)``: the nearest parameters that are allowed, unless ``constrained`` is False;
    - ``gradient_floor``: how small it makes gradients at worst.
    """

    def forward(
        self, theta: Array, X: Any, dtype: Any = ...
    ) -> tuple[Array, Callable[[Array], Array]]: ...


@runtime_checkable
class Solver(Protocol):
    """A minimiser in single steps, its whole memory visible in ``state`` (a named tuple).

    Every state has ``theta``, ``value``, ``grad``, ``n_evaluations`` and ``stalled`` (True when no
    step of this solver lowers the loss any further).  A solver that keeps to the set of a function
    with an attribute ``project``, ``theta -> theta``, says so by a class attribute ``projects``
    (without one: it does not), and its state has ``residual``, what a projected step along the
    gradient moves by (None where there is no such set), which must be small at the end.
    """

    #: whether the solver needs the same function at every step (line searches do)
    needs_fixed_batch: ClassVar[bool]

    def init(self, fun: Fun, theta: Array, batch: Batch | None = None) -> Any: ...

    def step(
        self, fun: Fun, theta: Array, state: Any, batch: Batch | None = None
    ) -> tuple[Array, Any]: ...


class Source(NamedTuple):
    """What a sampler may know of the rows learnt from (held-out rows are not among them).

    ``codes`` are their class codes; ``embed(theta)`` gives their projections, one row each;
    ``points(rows)`` gives some of them, by positions or a slice, as
    :class:`~vicinal._features.Features`: the scaled input.
    """

    n_rows: int
    codes: Array | None = None
    embed: Callable[[Array], Array] | None = None
    points: Callable[[Any], Any] | None = None


#: ``batches = deal(theta, random_state)``: the batches of one pass that begins at ``theta``.
Dealer = Callable[[Array, np.random.RandomState], list[Batch]]


class Sampling(NamedTuple):
    """Where a run stands among its batches; with the sampler it stands for all those to come.

    Pass number ``n_pass`` (the first is 1) was dealt by a RandomState of ``[seed, n_pass]`` from
    the parameters ``theta``, and ``position`` batches of it have been seen.
    """

    seed: int
    n_pass: int = 0
    position: int = 0
    theta: Array | None = None


@runtime_checkable
class Sampler(Protocol):
    """A source of batches, pass after pass; ``fixed`` says that they are all the same one.

    ``thins_rows`` says that the rows of a batch pick among themselves: they lie less dense than
    all rows, and the map learnt from them has too small a scale.

    ``dealer`` is called once a run, with a RandomState that is the same when a run is taken up
    again: what is drawn from it holds for all passes.  Positions in a batch are positions among
    the rows of the source.
    """

    fixed: ClassVar[bool]
    thins_rows: ClassVar[bool]

    def dealer(self, source: Source, random_state: np.random.RandomState) -> Dealer: ...


class PairCost(NamedTuple):
    """What a pair of rows costs a method, in nanoseconds of a thread, both passes.

    Each entry is what a pair costs at all and what each dimension adds; the defaults are those of
    NCA.  Rough, for an AVX2 machine; benchmarks/nca_speed.py and knca_speed.py measure the real
    thing.
    """

    single: tuple[float, float] = (1.4, 0.25)
    double: tuple[float, float] = (2.6, 0.4)
    listed: tuple[float, float] = (10.0, 3.0)  # in a list, whose rows lie anywhere in memory
    both_ways: bool = True  # whether a pair, once computed, serves both its rows
    #: bytes beside the points, of ``(n, n_features, n_components, itemsize)``
    more: Callable[[int, int, int, int], float] | None = None


@dataclass
class Result:
    """What a run of the loop leaves behind: the best map, how it got there, and why it stopped."""

    theta: Array
    value: float
    n_iter: int
    converged: bool
    reason: str
    state: Any
    history: dict[str, list] = field(default_factory=dict)
    sampling: Sampling | None = None


def is_auto(value: Any) -> bool:
    """Whether a parameter is "auto"."""
    return isinstance(value, str) and value == "auto"
