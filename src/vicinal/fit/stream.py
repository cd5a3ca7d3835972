"""Learning from a stream: one batch at a time, against a bounded sample of earlier rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import gen_batches

from vicinal import _clock, maps, samplers, solvers, starts
from vicinal._features import Features
from vicinal._threads import single_threaded_blas
from vicinal._validation import (
    check_declared_classes,
    check_label_types,
    check_rows,
    check_weights,
    scaled_weights,
)
from vicinal.core import checks
from vicinal.core.evaluation import refresh
from vicinal.core.loop import update
from vicinal.core.points import to_host
from vicinal.core.problem import Problem, Tracked
from vicinal.core.seeds import rng_for
from vicinal.core.types import Array, Batch, Matrix, MatrixLike, Solver, Weights, is_auto
from vicinal.fit.context import Budget, FitContext
from vicinal.fit.method import Coarse, Config, Data, Method, RowNumbers
from vicinal.fit.plan import Plan, make_plan, make_problem, size_of
from vicinal.fit.report import Reports, heading, line_of
from vicinal.fit.resume import restored_on_error, seed_of
from vicinal.fit.run import first_theta, last_theta
from vicinal.fit.score import importances_of
from vicinal.fit.tuning import rate_for
from vicinal.maps.fitted import FittedLinear, FittedMap
from vicinal.targets import Labels

# docs/results/streams.md compares these with shorter and longer steps, and with a stream that
# learns nothing before its first step.
_QUERIES = 200  # rows per step, unless ``sampling`` gives a size
_FIRST_ROWS, _FIRST_STEPS, _FIRST_TOL = 1000, 50, 1e-3  # of the run on the first batch
_PASSES = 0.5  # the importances may embed half the number of remembered rows
#: parameters that must not change after the first call, besides the parameters of the method
_SETTLED = ("n_components", "mapping", "solver", "sampling", "alpha", "scaling", "reservoir_size")


class StreamRules(NamedTuple):
    """What the streams of an estimator share.

    Parameters
    ----------
    settled : tuple of str
        Parameters of the method that must not change after the first batch.
    takes_weights : bool
        Whether the objective accepts sample weights.
    needs_all_rows : callable
        ``needs_all_rows(estimator)``: parameters of the method that may need all rows, each as its
        name, whether a stream supports its value, and why not.
    check_first : callable
        ``check_first(estimator)``: refuses, at the first batch, what a stream could not use.
    """

    settled: tuple[str, ...]
    takes_weights: bool = True
    needs_all_rows: Callable[[Any], list[tuple[str, bool, str]]] = lambda estimator: []
    check_first: Callable[[Any], None] = lambda estimator: None


def can_stream(rules: StreamRules, estimator: BaseEstimator) -> bool:
    """True, or an error that names the parameter that a stream does not support."""
    name, sampling = type(estimator).__name__, estimator.sampling
    for parameter, allowed, why in (
        ("n_components", not is_auto(estimator.n_components), "a search needs all rows"),
        ("early_stopping", not estimator.early_stopping, "a stream has no end to stop before"),
        ("time_budget", estimator.time_budget is None, "each call takes its own time"),
        (
            "neighborhood",
            estimator.neighborhood in ("auto", "all"),
            "the reservoir bounds their number",
        ),
        (
            "sampling",
            is_auto(sampling)
            or sampling == "stochastic"
            or isinstance(sampling, samplers.StochasticQueries),
            "new rows are the queries, against the rows in the reservoir",
        ),
        *rules.needs_all_rows(estimator),
    ):
        if not allowed:
            raise ValueError(
                f"The {parameter!r} parameter of {name} must differ for partial_fit: {why}. "
                f"Got {estimator.get_params(deep=False)[parameter]!r} instead."
            )
    _stream_solver(estimator)
    return True


def _stream_solver(estimator: BaseEstimator) -> Solver | None:
    """The solver of a stream; None for Adam with a rate that suits the data."""
    if is_auto(estimator.solver):
        return None
    name = type(estimator).__name__
    solver = solvers.resolve(estimator.solver, name)
    if solver.needs_fixed_batch or (
        isinstance(solver, solvers.SGD) and solver.learning_rate is None
    ):
        raise ValueError(
            f"The 'solver' parameter of {name} must be 'auto', 'momentum', 'adam' "
            "or an SGD with a learning rate for partial_fit, which sees each batch once. "
            f"Got {estimator.solver!r} instead."
        )
    return solver


def _check_settled(estimator: BaseEstimator) -> None:
    """Refuse parameters that have changed since the stream began."""
    name = type(estimator).__name__
    stream, parameters = estimator._stream, estimator.get_params(deep=False)
    for parameter, asked in ({} if stream is None else stream.settled).items():
        value = parameters[parameter]
        if value is not asked and not np.array_equal(value, asked):
            raise ValueError(
                f"The {parameter!r} parameter of {name} must stay {asked!r}, as at the first call "
                f"of partial_fit. Got {value!r} instead; use fit, or a clone, to start again."
            )


def _first_run(problem: Problem, rng: np.random.RandomState) -> Coarse:
    """A short run on rows of the first batch, which makes the start of a stream.

    A start by a formula has neither the directions nor the scale of a learnt map, and a pass over
    few rows has too few steps to reach them.
    """
    rows = problem.rows
    few = problem
    if len(rows) > _FIRST_ROWS:
        some = np.sort(rng.permutation(rows)[:_FIRST_ROWS])
        few = problem.replace(X=problem.X.take(some), target=problem.target.take(some))

    def finish(theta: Array) -> Array:
        if few is problem:
            return theta
        # the few rows are less dense than all ([Oneata2011] section 4.1)
        fun = problem.replace(dtype=np.float32, objective=problem.objective.for_scaling())
        factor = starts.repair_scale(lambda s: fun.value(fun.scaled(theta, s), some))
        return fun.scaled(theta, factor)

    return Coarse(few, finish, _FIRST_STEPS, _FIRST_TOL)


def _new_stream(
    rules: StreamRules,
    estimator: BaseEstimator,
    plan: Plan,
    problem: Problem,
    theta: Array,
    seed: int,
) -> Stream:
    """A stream that starts with the scaling of a problem and the map theta."""
    # a constant rate, since a stream has no known length
    solver = _stream_solver(estimator) or solvers.Adam(rate_for(problem, theta))
    target: Any = problem.target
    n_classes = len(target.classes)
    if estimator.reservoir_size < 2 * n_classes:
        raise ValueError(
            f"The 'reservoir_size' parameter of {type(estimator).__name__} must leave two rows for "
            f"each of the {n_classes} classes, {2 * n_classes} in all. "
            f"Got {estimator.reservoir_size!r} instead."
        )
    size = int(estimator.reservoir_size)
    # without weights, the reservoir must keep the class proportions of the stream
    by_class = rules.takes_weights
    reservoir = Reservoir(size // n_classes if by_class else size, by_class)
    sampling = estimator.sampling
    if not isinstance(sampling, samplers.StochasticQueries):
        sampling = samplers.StochasticQueries(_QUERIES)
    reason = "it is a stream, one batch after the other"
    plan = plan._replace(solver=solver, sampling=sampling, reason=reason)
    parameters = estimator.get_params(deep=False)
    settled = {name: parameters[name] for name in (*_SETTLED, *rules.settled)}
    return Stream(plan, problem, theta, sampling.size, reservoir, seed, settled)


class StreamStep(NamedTuple):
    """A row of the history: the loss and gradient from which a step was made."""

    iteration: int
    loss: float
    grad_norm: float
    validation_score: float
    seconds: float
    n_evaluations: int
    share_of_pairs: float


@dataclass(frozen=True)
class _Known:
    """A function whose value and gradient at the only point of interest are known."""

    problem: Problem
    value: float
    grad: Array

    def __call__(self, theta: Array, batch: Batch | None = None) -> tuple[float, Array]:
        return self.value, self.grad


class Stream:
    """A map that is updated with each batch, and the state needed to continue.

    Every row is a query once, on arrival, against the rows of the reservoir and of its own step
    ([Oneata2011] section 4.3: the derivative of p_{N+1} alone).  Afterwards it may stay as a
    reference for later rows.

    Parameters
    ----------
    plan : Plan
        With a solver that works with changing batches, and the kernel.
    problem : Problem
        The problem of the first batch; all later batches share the scaling of its features.
    theta : array
        The first parameters of the map.
    n_queries : int
        Largest number of rows per step.
    reservoir : Reservoir
    seed : int
        Of the fit; each step draws from a generator of its own.
    settled : dict
        Names and values of the estimator's parameters that later calls must not change.
    """

    plan: Plan
    problem: Problem
    theta: Array
    n_queries: int
    reservoir: Reservoir
    seed: int
    settled: dict[str, Any]
    state: Any
    n_steps: int
    seconds: float
    n_seen: Array

    def __init__(
        self,
        plan: Plan,
        problem: Problem,
        theta: Array,
        n_queries: int,
        reservoir: Reservoir,
        seed: int,
        settled: dict[str, Any],
    ) -> None:
        # without rows: learn() receives the rows of the first batch again
        self.problem = problem.replace(X=problem.X.take(np.empty(0, dtype=int)))
        self.plan, self.theta, self.n_queries = plan, theta, n_queries
        self.reservoir, self.seed, self.settled = reservoir, seed, settled
        self.state: Any = None
        self.n_steps, self.seconds = 0, 0.0
        self.n_seen = np.zeros(len(problem.target.classes), dtype=np.int64)  # type: ignore

    def check_fields(self) -> None:
        """Refuse fields that do not fit together."""
        problem, X = self.problem, self.reservoir.X
        checks.need(self.plan.solver is not None, "a stream has a solver")
        checks.double(self.theta, 1, "theta", finite=False)
        if self.state is not None:
            checks.double(self.state.theta, 1, "theta", (len(self.theta),), finite=False)
        parts = isinstance(problem.X, Features) and isinstance(problem.target, Labels)
        checks.need(parts, "a stream has rows and classes")
        none = problem.train is problem.held_out is problem.pairs is problem.trust is None
        checks.need(none, "the problem of a stream has no parts of rows")
        n_classes = len(problem.target.classes)  # type: ignore[attr-defined]
        checks.indices(self.n_seen, "n_seen", n_classes, 2**40)
        checks.indices(self.reservoir.codes, "codes", len(self.reservoir), n_classes)
        alike = X is None or X.shape[1] == problem.X.shape[1]
        checks.need(alike, "the reservoir must have the columns of the problem")

    def copy(self) -> Stream:
        """A stream that learns without changing this one."""
        other = copy(self)
        other.reservoir, other.n_seen = copy(self.reservoir), self.n_seen.copy()
        return other

    def learn(
        self, method: Method, X: MatrixLike, codes: Array, weight: Array
    ) -> Iterator[StreamStep]:
        """Make one step per ``n_queries`` rows, and yield its record."""
        for rows in gen_batches(len(codes), self.n_queries):
            problem = self._against(method, X[rows], codes[rows], weight[rows])
            queries = np.arange(len(self.reservoir), len(problem.X))
            step = self._step(problem, Batch(queries=queries))
            rng = rng_for(self.seed, "reservoir", self.n_steps)
            self.reservoir.add(X[rows], codes[rows], weight[rows], rng)
            np.add.at(self.n_seen, codes[rows], 1)
            yield step

    def _against(self, method: Method, X: MatrixLike, codes: Array, weight: Array) -> Problem:
        """The problem of some rows and the rows in the reservoir."""
        n = len(self.reservoir)
        X, codes, weight = self.reservoir.with_rows(X, codes, weight)
        target: Any = self.problem.target
        if not self.reservoir.by_class:
            labels = Labels(codes, classes=target.classes)
        else:
            # Rows in the reservoir also stand for the dropped rows of their class: the classes
            # weigh as much as in the stream, although the reservoir bounds the rows of each class.
            kept = np.bincount(codes[:n], minlength=len(self.n_seen))
            weight = scaled_weights(weight)
            weight[:n] *= (self.n_seen / np.maximum(kept, 1))[codes[:n]]
            labels = Labels(codes, weight, target.priors, classes=target.classes)
        problem = self.problem.replace(X=self.features(X), target=labels)
        return problem.replace(objective=method.objective.suited_to(labels))

    def remembered(self, method: Method) -> Problem:
        """The problem of the rows in the reservoir."""
        none = np.empty(0, dtype=int)
        return self._against(method, self.reservoir.X[:0], none, np.empty(0))

    def features(self, X: MatrixLike) -> Features:
        """Rows with the scaling of the first batch."""
        return Features.scaled_as(self.problem.X, X)

    def _step(self, problem: Problem, batch: Batch) -> StreamStep:
        began, solver = perf_counter(), self.plan.solver
        assert solver is not None
        fun = Tracked(problem)
        if self.state is None:
            here = solver.init(fun, self.theta, batch)
        else:
            here = refresh(solver, fun, self.theta, self.state, batch)
        if not (np.isfinite(here.value) and np.isfinite(here.grad).all()):
            raise ValueError(
                "The loss of this batch is not finite: decrease the learning rate of 'solver', or "
                "check that the features have the scale of the first batch."
            )
        # A step moves along the given gradient and evaluates at the new point; there is no batch
        # for that yet, so the evaluation is postponed to the next call.
        state = update(solver, _Known(problem, here.value, here.grad), here)
        self.theta = state.theta
        self.state = state._replace(n_evaluations=here.n_evaluations)
        self.n_steps += 1
        self.seconds += perf_counter() - began
        return StreamStep(
            self.n_steps,
            float(here.value),
            float(np.max(np.abs(here.grad), initial=0.0)),
            np.nan,
            self.seconds,
            here.n_evaluations,
            fun.facts.get("share_of_pairs", np.nan),
        )


def learn_batch(
    rules: StreamRules,
    estimator: BaseEstimator,
    X: MatrixLike,
    y: ArrayLike,
    classes: ArrayLike | None,
    sample_weight: Weights = None,
) -> None:
    """Continue the stream of an estimator, or begin one with the first batch."""
    with restored_on_error(estimator):
        estimator._check_parameters()
        _check_settled(estimator)
        first = estimator._stream is None
        X, codes, weight = _check_batch(estimator, X, y, classes, sample_weight, first)
        weighs = scaled_weights(weight) if rules.takes_weights else None
        target = estimator._target(codes, weighs, len(estimator.classes_))
        data = Data(X, target, estimator.classes_)
        with nullcontext() if first else warnings.catch_warnings(action="ignore"):  # warn once
            method = estimator._method(data)
        reports = Reports(method.name, estimator.verbose)
        with single_threaded_blas(), reports.watching_compilation():
            if first:
                _begin(rules, estimator, data, method, reports)
            stream = estimator._stream = estimator._stream.copy()  # if a step fails, none was made
            steps: list[StreamStep] = []
            reports.say(heading())
            for step in stream.learn(method, X, codes, weight):
                steps.append(step)
                reports.say(line_of(step))
            estimator.history_ = dict(
                zip(StreamStep._fields, map(list, zip(*steps, strict=True)), strict=True)
            )
            estimator.n_iter_, estimator.loss_ = stream.n_steps, steps[-1].loss
            estimator.n_samples_seen_ += len(codes)
            # posterior and votes use the rows in the reservoir
            remembered = stream.remembered(method)
            estimator._rows = RowNumbers(stream.reservoir.numbers, estimator.n_samples_seen_)
            estimator._store(remembered.X.X, method, remembered, stream.theta)
            if not isinstance(estimator._map, FittedLinear):
                estimator._importances = importances_of(remembered, stream.theta, _PASSES)


def _check_batch(
    estimator: BaseEstimator,
    X: MatrixLike,
    y: ArrayLike,
    classes: ArrayLike | None,
    sample_weight: Weights,
    first: bool,
) -> tuple[Matrix, Array, Array]:
    """The checked rows of positive weight in a batch, their classes and weights."""
    check_label_types(y)
    X, labels = check_rows(estimator, to_host(X), y, reset=first)
    estimator.classes_ = check_declared_classes(estimator, classes, labels, first)
    weight = check_weights(sample_weight, len(labels), scaled=False)  # also against other batches
    weight = np.ones(len(labels)) if weight is None else weight
    seen = weight > 0
    return X[seen], np.searchsorted(estimator.classes_, labels[seen]), weight[seen]


def _begin(
    rules: StreamRules, estimator: BaseEstimator, data: Data, method: Method, reports: Reports
) -> None:
    """Begin a stream with the rows of the first batch."""
    rules.check_first(estimator)
    config, seed = Config.of(estimator), seed_of(estimator)
    plan = make_plan(method, config, size_of(data, method))
    present = np.unique(data.target.codes)
    if len(present) < 2:
        raise ValueError(
            f"The first batch of {method.name}.partial_fit must hold rows of at least "
            f"2 classes. Got {estimator.classes_[present].tolist()!r} alone."
        )
    estimator._forget("cv_results_", "_choice")
    problem = make_problem(method, config, data, plan, seed)
    if is_auto(config.alpha):  # a search needs all rows
        alpha = vars(estimator).get("alpha_", problem.alpha)  # as an earlier fit has chosen it
        problem = problem.replace(alpha=alpha)
    # an array is used as given, and a nonlinear map would learn the few rows by heart
    if not isinstance(starts.resolve(estimator.init, method.name), starts.Given):
        if not maps.bends(method.mapping):
            method = replace(method, coarse=_first_run)
    context = FitContext(method, config, plan, seed, reports, Budget(None, _clock.now()))
    last = estimator._map  # of an earlier fit
    theta = last_theta(last, problem)
    if theta is not None and isinstance(last, FittedMap):
        # parameters of a nonlinear map cannot be adapted to other units of the columns
        problem = problem.replace(X=Features.scaled_as(last.features, data.X))
    if theta is None:
        theta = first_theta(context, problem)
    estimator.rounds_, estimator._resume = {}, None
    estimator._stream = _new_stream(rules, estimator, plan, problem, theta, seed)
    if is_auto(config.alpha):
        plan, told = estimator._stream.plan, f"alpha={problem.alpha:g}, as a search needs all rows"
        estimator._stream.plan = plan._replace(reason=f"{plan.reason}; {told}")
    estimator.plan_, estimator.n_samples_seen_ = estimator._stream.plan, 0
    reports.say(estimator.plan_)


class Reservoir:
    """A uniform sample of a stream without replacement, for each class or for all rows.

    Every row draws a number on arrival; a class keeps the rows with the ``capacity`` smallest
    numbers.  At any time these are a uniform sample of the rows of the class so far, whatever the
    order of the stream and the sizes of its batches.

    Parameters
    ----------
    capacity : int
        Largest number of rows of one class, or of all.
    by_class : bool, default=True
        False: the classes share one capacity, in the proportions of the stream.
    """

    capacity: int
    by_class: bool
    X: Any
    codes: Array
    weight: Array
    _draws: Array
    numbers: Array
    _n_added: int

    def __init__(self, capacity: int, by_class: bool = True) -> None:
        self.capacity, self.by_class = capacity, by_class
        self.X: MatrixLike | None = None
        self.codes = np.empty(0, dtype=np.intp)
        self.weight = np.empty(0)
        self._draws = np.empty(0)
        self.numbers = np.empty(0, dtype=np.int64)  # of the rows kept, in the order of the stream
        self._n_added = 0

    def check_fields(self) -> None:
        """Refuse fields that do not fit together."""
        n = len(self)
        checks.indices(self.codes, "codes", n, 2**31)
        checks.indices(self.numbers, "numbers", n, self._n_added)
        checks.double(self.weight, 1, "weight", (n,))
        checks.double(self._draws, 1, "draws", (n,))
        checks.need((0 if self.X is None else self.X.shape[0]) == n, "rows and codes do not agree")
        if self.X is not None:
            checks.table(self.X)

    def __len__(self) -> int:
        return len(self.codes)

    def with_rows(self, X: Matrix, codes: Array, weight: Array) -> tuple[Matrix, Array, Array]:
        """The rows kept so far followed by those given: features, codes and weights."""
        X = X if self.X is None else _stack(self.X, X)
        return X, np.append(self.codes, codes), np.append(self.weight, weight)

    def add(
        self, X: MatrixLike, codes: Array, weight: Array, random_state: np.random.RandomState
    ) -> None:
        """Add rows, and drop rows beyond the capacity."""
        X, codes, weight = self.with_rows(X, codes, weight)
        draws = np.append(self._draws, random_state.uniform(size=len(codes) - len(self)))
        group = codes if self.by_class else np.zeros_like(codes)
        order = np.lexsort((draws, group))
        first = np.searchsorted(group[order], group[order])  # where each row's class begins
        kept = np.sort(order[np.arange(len(order)) - first < self.capacity])
        self.X, self.codes, self.weight = X[kept], codes[kept], weight[kept]
        self._draws = draws[kept]
        n_added = self._n_added + len(codes) - len(self.numbers)
        self.numbers = np.append(self.numbers, np.arange(self._n_added, n_added))[kept]
        self._n_added = n_added


def _stack(above: Matrix, below: Matrix) -> Matrix:
    if sp.issparse(above) or sp.issparse(below):
        return sp.vstack([sp.csr_array(above), sp.csr_array(below)], format="csr")
    return np.concatenate([above, below])
