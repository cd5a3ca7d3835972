"""The protocols of the parts and the small types that they exchange.

An objective is a function ``Evaluation = objective(Z, target, ...)``; a map gives
``Z, pull = mapping.forward(theta, X)``; ``problem.py`` combines the two into
``value, dtheta = fun(theta, batch)``; a solver minimises ``fun``.

A part inherits its protocol, which has defaults for all that a part need not say.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]
#: A table as scikit-learn takes it: an array, rows in a list, a DataFrame, or a sparse matrix.
MatrixLike = ArrayLike | sp.spmatrix | sp.sparray
#: A table that has been checked: dense or CSR.
Matrix = Array | sp.csr_matrix | sp.csr_array
Weights = ArrayLike | None
File = str | os.PathLike[str]
Seed = int | np.random.RandomState | None
# The names that the parameters of estimators take besides parts and numbers.
Auto = Literal["auto"]
Scaling = Literal["standard", "global"] | None
Penalty = float | Literal["auto", "scaled"]
Voters = int | Literal["auto"] | None
MapName = Literal["linear", "diagonal", "periodic"]
KernelName = Literal["gaussian", "student", "laplace"]
SolverName = Literal[
    "auto", "lbfgs", "cg", "bold_driver", "adaptive", "projected", "momentum", "adam", "sgd"
]
SamplerName = Literal["auto", "full", "subsample", "mini_batches", "stochastic"]
ListsName = Literal["auto", "all", "nearest", "random"]
#: ``value, dtheta = fun(theta, batch)``: the loss and its gradient, both float64.
Fun = Callable[[Array, "Batch | None"], tuple[float, Array]]


class Batch(NamedTuple):
    """Which rows one evaluation sees.

    ``rows`` are embedded (None: all of them); ``queries`` are positions among those rows and
    are scored against all the embedded rows (None: every row is a query).  If ``rows`` are a random
    draw, ``share`` is the chance that a row is among them, given another one that is.  ``pairs``
    finds the pairs that count, in place of ``Problem.pairs`` (None: that one).
    """

    rows: Array | None = None
    queries: Array | None = None
    share: float | None = None
    pairs: Any = None


class Pairs(NamedTuple):
    """For each row of Z, the list of rows that it may pick, in compressed sparse rows.

    ``indices[indptr[i]:indptr[i + 1]]`` are the rows that row i may pick (``indptr`` int64,
    ``indices`` int32; no row twice in a list).  If the lists are random samples, ``log2_rates`` of
    shape (2, n) holds log2 of the share of references that list i contains, of other classes [0]
    and of its own class [1]: the sums over either are divided by it.
    """

    indptr: Array
    indices: Array
    log2_rates: Array | None = None


class Units(NamedTuple):
    """The units in which the loss of an objective is measured.

    Squared distances are measured in ``loss`` too.  With ``relative_to_map`` an entry of the
    gradient is measured in ``loss`` divided by the largest entry of the map.
    """

    loss: float = 1.0
    relative_to_map: bool = False


class Evaluation(NamedTuple):
    """What an objective returns: the mean loss, its gradient (None if not requested), and facts.

    ``facts`` holds figures about the evaluation, such as ``share_of_pairs``.  ``weight`` is that of
    the queries on average, 0 if none counts and NaN if the objective does not tell: the value and
    the gradient of all queries are weighted means over disjoint blocks of them.
    """

    value: float
    dZ: Array | None
    facts: Mapping[str, float]
    weight: float = math.nan


class Rows(Protocol):
    """The data as maps see them: ``(X - shift) * scale``, wherever X lies.

    A product of the rows, which is what is embedded, lies where they do; what has a column for each
    feature, and blocks, are arrays of the host.  ``limits`` bound columns with gross outliers, or
    are None; ``total_variance`` is the sum of the variances of the scaled columns.
    """

    shift: Array
    scale: Array
    scaling: str | None
    total_variance: float
    limits: Any

    @property
    def shape(self) -> tuple[int, int]: ...

    def __len__(self) -> int: ...

    def take(self, rows: Array | None) -> Rows:
        """Some of the rows, with the shift and scale of all rows; None: all of them."""

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """The rows in fixed blocks: dense, float64, centred and scaled."""

    def matmul(self, B: Array, dtype: Any = ...) -> Any:
        """``X_scaled @ B`` for B of shape (D, m): points of shape (n, m) in ``dtype``."""

    def rmatmul(self, V: Any) -> Array:
        """``X_scaled.T @ V`` for V of shape (n, m), where the rows lie or on the host: (D, m)."""

    def columns_times(self, a: Array, dtype: Any = ...) -> Any:
        """``X_scaled * a`` for a of length D: points of shape (n, D) in ``dtype``."""

    def column_dots(self, V: Any) -> Array:
        """``sum_i X_scaled_i * V_i`` for V of shape (n, D): length D."""


class ClassMoments:
    """Rows that compute second moments of classes where they lie, for `starts.spectral.scatter`."""

    def class_moments(
        self, codes: Array, n_classes: int, weight: Array
    ) -> tuple[Array, Array, Array]:
        """A row of each class, and relative to it: weighted sums of each, second moments of all."""
        raise NotImplementedError


@runtime_checkable
class Target(Protocol):
    """What an objective is to reach, with one entry for each row.

    Needed are the length and ``take``.
    """

    #: whether the targets of a row are other rows, which must then be present too
    refers_to_rows: ClassVar[bool] = False
    #: what the score of a prediction is called
    score_name: ClassVar[str] = "score"
    sample_weight: Array | None = None
    #: ``draw(rows, size, rng)``: a part of some rows that holds enough of their targets
    draw: Callable[[Array, int, np.random.RandomState], Array] | None = None

    @property
    def strata(self) -> Array | None:
        """Class codes for stratified splits; None if there are no classes."""
        return None

    def __len__(self) -> int: ...

    def take(self, rows: Any) -> Target: ...

    @property
    def chance(self) -> float:
        """The score of a map that knows nothing."""
        return 0.0

    @property
    def contents(self) -> tuple[Array, ...]:
        """All that it tells besides strata and weights, as arrays."""
        return ()

    def between(self, queries: Array, references: Array) -> Any:
        """What is right for some queries, given the rows that they may pick."""
        return self.take(queries)

    def in_batch(
        self, rows: Array, share: float | None, train: Array | None
    ) -> tuple[Array, Target, Array | None]:
        """For the rows of a `Batch`: those to embed, which may be more, and their target.

        And the positions of the batch among them (None: all).
        """
        return rows, self.take(rows), None


@runtime_checkable
class Objective(Protocol):
    """A mean loss over the queries, to be minimised, as a function of the embedded points.

    Needed are ``units`` and the call.
    """

    #: names of facts that the history of a fit records besides ``share_of_pairs``
    columns: ClassVar[tuple[str, ...]] = ()

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

    def suited_to(self, target: Any) -> Objective:
        """The objective adapted to the training rows."""
        return self

    def for_scaling(self) -> Objective:
        """The objective that chooses the scale of a map."""
        return self

    def for_start(self, d: int) -> tuple[Objective, float]:
        """What chooses the scale of a start on a sample of the rows, and a factor of that scale."""
        return self.for_scaling(), 1.0

    @property
    def has_index(self) -> bool:
        """Whether ``make_index`` makes something."""
        return False

    def make_index(self, Z: Array, target: Any, references: Any, n_queries: int) -> Any:
        """``pairs`` for many evaluations of a few queries near Z, or None."""
        return None


@runtime_checkable
class Map(Protocol):
    """``Z, pull = forward(theta, X, dtype)`` and ``dtheta = pull(dZ)``; ``theta`` is flat, float64.

    Needed is ``forward``, and ``start`` if the map cannot start from a matrix.  What is None here
    a map need not have.
    """

    #: a linear map, from and to its matrix: ``theta(components)`` and ``components(theta)``
    theta: Callable[[Array], Array] | None = None
    components: Callable[[Array], Array] | None = None
    #: ``start(X, rng)``: its first parameters
    start: Callable[[Any, np.random.RandomState], Array] | None = None
    #: ``start_from(X, rng)``: rows with the columns that its last layer multiplies, and a function
    #: from a matrix of these columns to its first parameters, so that it can start from a matrix
    start_from: (
        Callable[[Any, np.random.RandomState], tuple[Any, Callable[[Array], Array]]] | None
    ) = None
    #: ``with_rank(d)``: the same map with d dimensions, if its ``n_components`` are None
    with_rank: Callable[[int], Map] | None = None
    #: ``cost(n_features, itemsize)``, if a row costs more than with a matrix
    cost: Callable[[int, int], MapCost] | None = None
    #: ``fitted(theta, features, dtype)``: the fitted map that the estimator keeps
    fitted: Callable[[Array, Any, Any], Any] | None = None
    #: ``project(theta)``: the nearest allowed parameters, if the map is ``constrained``
    project: Callable[[Array], Array] | None = None
    #: whether it has one weight for each column
    weights_columns: ClassVar[bool] = False

    def forward(
        self, theta: Array, X: Any, dtype: Any = ...
    ) -> tuple[Array, Callable[[Array], Array]]: ...

    @property
    def rank(self) -> int | None:
        """The dimensions of Z, ``n_components``, as far as they are fixed."""
        return getattr(self, "n_components", None)

    @property
    def constrained(self) -> bool:
        """Whether some parameters are not allowed."""
        return self.project is not None

    @property
    def gradient_floor(self) -> float:
        """The factor by which it shrinks gradients at worst."""
        return 1.0

    def penalty_weights(self, theta: Array) -> float | Array:
        """The weight of each parameter in the penalty."""
        return 1.0

    def scaled(self, theta: Array, factor: float) -> Array:
        """The parameters whose Z is ``factor`` times as large."""
        return factor * theta


@runtime_checkable
class Solver(Protocol):
    """A minimiser that makes single steps; all its memory is in ``state``, a named tuple.

    Every state has ``theta``, ``value``, ``grad``, ``n_evaluations`` and ``stalled`` (True when no
    step of this solver lowers the loss any further).
    """

    #: whether the solver needs the same function at every step (line searches do)
    needs_fixed_batch: ClassVar[bool]
    #: whether it respects the constraint ``fun.project``, ``theta -> theta``; its state then has
    #: ``residual``, the move of a projected step along the gradient (None if there is no
    #: constraint), which must be small at convergence
    projects: ClassVar[bool] = False
    #: whether every step lowers the loss by a sufficient amount
    sufficient_decrease: ClassVar[bool] = False

    def init(self, fun: Fun, theta: Array, batch: Batch | None = None) -> Any: ...

    def step(
        self, fun: Fun, theta: Array, state: Any, batch: Batch | None = None
    ) -> tuple[Array, Any]: ...


class Source(NamedTuple):
    """What a sampler may know about the training rows (without the held-out rows).

    ``codes`` are their class codes; ``embed(theta)`` gives their projections, one row each;
    ``points(rows)`` gives some of them, by positions or a slice, as
    `Rows`: the scaled input; ``make_index(theta, n_queries)`` gives
    the ``pairs`` of batches with this many queries against all rows, or None where it is no help.
    ``expect(batches)`` is told the rows of the next batches, in their order, now and then.
    """

    n_rows: int
    codes: Array | None = None
    embed: Callable[[Array], Array] | None = None
    points: Callable[[Any], Any] | None = None
    make_index: Callable[[Array, int], Any] | None = None
    expect: Callable[[list[Array]], None] | None = None


#: ``batches = deal(theta, random_state)``: the batches of a pass that begins at ``theta``.
Dealer = Callable[[Array, np.random.RandomState], list[Batch]]


class Sampling(NamedTuple):
    """The position of a run in its sequence of batches; it determines all later batches.

    Pass number ``n_pass`` (the first is 1) was drawn with a RandomState of ``[seed, n_pass]`` at
    the parameters ``theta``, and ``position`` batches of it have been used.
    """

    seed: int
    n_pass: int = 0
    position: int = 0
    theta: Array | None = None


@runtime_checkable
class Sampler(Protocol):
    """A source of batches, pass after pass; ``fixed`` means that all batches are the same.

    ``thins_rows`` means that the rows of a batch pick among themselves: they are less dense than
    all rows, so the map learnt from them has too small a scale.  A fit corrects it at its end,
    unless such a sampler has ``correct_scale`` set to False.

    ``dealer`` is called once a run, with the same RandomState if a run is resumed: draws from it
    hold for all passes.  Positions in a batch are positions among the rows of the source.
    """

    fixed: ClassVar[bool]
    thins_rows: ClassVar[bool]
    correct_scale: bool = True
    #: rows of a batch, or queries, at most; None: all
    size: float | None = None
    #: whether the map has no influence on the passes, so that the next one is known ahead
    deals_ahead: bool = False

    def dealer(self, source: Source, random_state: np.random.RandomState) -> Dealer: ...


class EvaluationSize(NamedTuple):
    """The size of one evaluation of an objective: rows that are compared, and what they are."""

    n: int
    n_features: int
    n_components: int
    itemsize: int
    n_classes: int
    listed: bool = False  # whether rows are compared with lists of others only


def _nothing_more(size: EvaluationSize) -> float:
    return 0.0


class PairCost(NamedTuple):
    """What an objective costs: nanoseconds of one thread for a pair, for both passes, and memory.

    Each time is the fixed cost of a pair and the cost of each dimension; the defaults are those
    of NCA.  Rough figures for an AVX2 machine; benchmarks/nca_speed.py and knca_speed.py measure
    the real costs.
    """

    single: tuple[float, float] = (1.4, 0.25)
    double: tuple[float, float] = (2.6, 0.4)
    listed: tuple[float, float] = (10.0, 3.0)  # in a list, whose rows are scattered in memory
    both_ways: bool = True  # whether one computation of a pair serves both its rows
    company: int = 0  # further rows that each row of a batch brings along, such as its targets
    #: bytes of a pair on small data, for which whole arrays of pairs are made
    pair_bytes: float = 24.0
    #: further bytes of an evaluation, besides the points
    more: Callable[[EvaluationSize], float] = _nothing_more
    #: on a GPU: how many times as long as NCA, and further bytes there
    gpu_times: float = 1.0
    gpu_more: Callable[[EvaluationSize], float] = _nothing_more


class MapCost(NamedTuple):
    """What a nonlinear map costs, as far as it is known before a fit; rough figures.

    ``nanoseconds`` of one thread for a row, forwards and back; ``row_bytes`` of all layers for a
    row, and ``block``, the number of rows for which each thread holds them at a time.
    """

    nanoseconds: float
    n_parameters: int
    row_bytes: float = 0.0
    block: int = 1


class QueryCost(NamedTuple):
    """What a prediction costs; rough figures.

    ``nanoseconds`` of one thread for a query and a training row; bytes of a query besides its
    coordinates, of an entry of the input if that is copied, and of all the rest: copies of the
    training rows, or arrays of pairs.
    """

    nanoseconds: float
    row_bytes: float
    fixed_bytes: float = 0.0
    entry_bytes: float = 0.0


@dataclass
class Result:
    """The result of a run of the loop: the best map, the history, and why the run stopped."""

    theta: Array
    value: float
    n_iter: int
    converged: bool
    reason: str
    state: Any
    history: dict[str, list] = field(default_factory=dict)
    sampling: Sampling | None = None
    window: Any = None  # a Window, and the Best of the loop: for a run that resumes this one
    best: Any = None


def is_auto(value: Any) -> bool:
    """Whether a parameter is "auto"."""
    return isinstance(value, str) and value == "auto"


class Activity(NamedTuple):
    """What a fit is doing, for a callback with ``on_fit_activity(estimator, context, activity)``.

    That hook is ours, not scikit-learn's: iterations are all that its protocol knows.

    Parameters
    ----------
    words : str
        A short phrase, such as "correcting the scale"; empty for the iterations of the fit.
    details : tuple of str
        Further phrases, the most important first.
    done, total : int or None
        How far it is, in pieces of about equal length; None if that is unknown.
    recurs : bool
        Whether activities like this one follow each other, so that a display may leave some out.
    ends : bool
        Whether the fit has ended; ``words`` then say how.
    """

    words: str = ""
    details: tuple[str, ...] = ()
    done: int | None = None
    total: int | None = None
    recurs: bool = False
    ends: bool = False
