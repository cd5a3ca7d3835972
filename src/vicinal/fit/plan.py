"""The plan of a fit, which resolves "auto" in ``solver`` and ``sampling``, and its problem.

Without a time budget the choice depends on the size of the data alone, so that the same data give
the same map on every machine.  With a time budget it also depends on the machine.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from vicinal import maps, samplers, solvers
from vicinal._features import check_varies
from vicinal.core.problem import Problem
from vicinal.core.seeds import rng_for
from vicinal.core.types import Array, EvaluationSize, Sampler, Solver, is_auto
from vicinal.densities import Gaussian, Kernel
from vicinal.engines import cuda
from vicinal.fit.cost import Cost, Size, evaluation_seconds, fit_cost, in_short
from vicinal.fit.method import (
    BY_ROWS,
    DEFAULT_ALPHA,
    Config,
    Data,
    Method,
    alpha_unit,
    penalty_by_rows,
    scaled_alpha,
)
from vicinal.targets.labels import class_codes

_EVALUATIONS = 60  # evaluations of the exact objective in a typical fit
_EXACT_SECONDS = 20.0  # on two reference cores: a longer fit uses batches
_BATCH = 3000  # rows, unless the method says otherwise
#: rows from which noisy tables are learnt on batches, the rows of these, and the steps: such tables
#: gain from batches, others lose (benchmarks/results/defaults_accuracy.md)
_NOISY_FROM, _NOISY_BATCH, _NOISY_STEPS = 3000, 1000, 150
#: the rate of Adam there, with which 150 steps are as accurate as 300 at the usual rate
NOISY_RATE = 0.15
_QUERY_PAIRS, _QUERIES = 25_000_000, (50, 500)  # pairs of a step for many classes; its queries
_ITERATIONS = 200  # of a run on all rows
_STEPS = 300  # of a run on batches
_FEW_STEPS, _FEW_ROWS = 150, 1700  # of a nonlinear map on batches, for at most this many rows

_MOST_HELD_OUT = 2000  # largest number of held-out rows if steps do not use all pairs
SINGLE_FROM = 1000  # number of rows from which float32 is worth compiling


class Plan(NamedTuple):
    """The parts that a fit uses, its cost, and the reason for the choice.

    ``solver`` is None if Adam is to get its rate from the start; ``kernel`` is None if the method
    offers no choice of kernels.
    """

    solver: Solver | None
    sampling: Sampler
    neighborhood: Any
    kernel: Kernel | None
    max_iter: int
    cost: Cost
    reason: str

    @property
    def exact(self) -> bool:
        """Whether each loss is computed from all rows and all pairs."""
        every_pair = self.neighborhood is None or self.neighborhood.exact
        return isinstance(self.sampling, samplers.Full) and every_pair

    @property
    def has_lists(self) -> bool:
        """Whether lists of pairs are refreshed every few iterations."""
        return self.neighborhood is not None and self.neighborhood.makes_lists

    @property
    def noisy(self) -> bool:
        """Whether the rows or pairs behind the loss change from step to step."""
        return not self.sampling.fixed or (
            self.neighborhood is not None and self.neighborhood.draws
        )

    @property
    def corrects_scale(self) -> bool:
        """Whether the map, learnt from fewer rows at a time, gets the best scale for all rows."""
        return self.sampling.thins_rows and bool(self.sampling.correct_scale)

    def rows_together(self, n: int) -> int:
        """How many of n rows pick among themselves in an iteration."""
        if not self.sampling.thins_rows:
            return n
        size = self.sampling.size or n
        return round(size * n) if isinstance(size, float) else min(int(size), n)

    def step(self, n: int) -> tuple[int, int]:
        """How many of n rows an iteration embeds, and how many of these are queries."""
        if isinstance(self.sampling, samplers.StochasticQueries):
            return n, min(self.sampling.size, n)
        rows = self.rows_together(n)
        return rows, rows

    def __str__(self) -> str:
        solver = "Adam with a falling rate" if self.solver is None else _in_words(self.solver)
        pairs = "all pairs" if self.neighborhood is None else _in_words(self.neighborhood)
        return (
            f"{solver} on {self.sampling} and {pairs}, for at most {self.max_iter} iterations, "
            f"because {self.reason}. Needs {self.cost}."
        )


def make_plan(method: Method, config: Config, size: Size) -> Plan:
    """Resolve "auto" for data of this size, and check that the parts are compatible."""
    solver = None if is_auto(config.solver) else solvers.resolve(config.solver, method.name)
    if is_auto(config.sampling):
        sampling, reason = _sampling(method, config, solver, size)
    else:
        sampling, reason = samplers.resolve(config.sampling, method.name), "'sampling' asks for it"
    if solver is None and sampling.fixed:
        solver = method.solver
    _check_fit(method, solver, sampling)
    if size.gpu:
        reason += f"; {size.gpu}"
    max_iter = config.max_iter
    if is_auto(max_iter):
        max_iter = _ITERATIONS if sampling.fixed else _STEPS
        bends = not method.solver.needs_fixed_batch
        if bends and not sampling.fixed and size.n <= _FEW_ROWS:
            max_iter = _FEW_STEPS
    unknown = Cost(0, 0.0)
    plan = Plan(
        solver, sampling, method.neighborhood, method.kernel, int(max_iter), unknown, reason
    )
    return plan._replace(cost=fit_cost(plan, size))


def noisy_plan(plan: Plan, method: Method, config: Config, size: Size) -> Plan:
    """The plan of a table that needs more penalty than most: batches in place of many rows."""
    chosen = is_auto(config.sampling) and is_auto(config.solver) and plan.exact
    suits = method.neighborhood is None and 2 * size.n_classes <= _NOISY_BATCH
    if not chosen or not suits or size.n < _NOISY_FROM:
        return plan
    plan = plan._replace(
        solver=None,
        sampling=samplers.MiniBatches(_NOISY_BATCH, clusters="random"),
        max_iter=_NOISY_STEPS if is_auto(config.max_iter) else plan.max_iter,
        reason="noisy tables learn better from small batches",
    )
    return plan._replace(cost=fit_cost(plan, size))


def _sampling(
    method: Method, config: Config, solver: Solver | None, size: Size
) -> tuple[Sampler, str]:
    """All rows if that is fast enough, otherwise batches."""
    if solver is not None and solver.needs_fixed_batch:
        return samplers.Full(), f"{type(solver).__name__} needs the same rows at every step"
    if method.neighborhood is not None:
        return samplers.Full(), "the choice of pairs makes all rows cheap"
    batch = method.batch_size or _BATCH
    whole = _EVALUATIONS * evaluation_seconds(size, size.n)
    if config.time_budget is not None:
        # Half of it: the estimate is rough, and the start takes time too.
        limit, what = 0.5 * config.time_budget, f"half of the {config.time_budget:g} s allowed"
    else:
        whole = _EVALUATIONS * evaluation_seconds(size, size.n, threads=2)
        limit, what = _EXACT_SECONDS, f"{_EXACT_SECONDS:g} s on two cores"
    # a method whose own solver takes batches learns better from them
    in_time = whole <= limit and method.solver.needs_fixed_batch
    if in_time or size.n <= batch:
        return samplers.Full(), f"all {size.n} rows take some {in_short(whole)} s, within {what}"
    why = f"all {size.n} rows would take some {in_short(whole)} s, more than {what}"
    if whole <= limit:
        why = "nonlinear maps learn better from small batches"
    # queries have all rows to pick from
    queries = samplers.StochasticQueries(int(np.clip(_QUERY_PAIRS // size.n, *_QUERIES)))
    together = min(batch * (1 + size.pair.company), size.n)
    if size.brings_matches and 2 * together > size.n:
        return queries, f"{why}, and batches of {batch} with their matches would hold {together}"
    if 2 * size.n_classes <= batch:
        return samplers.MiniBatches(batch, clusters="random"), why
    # most rows of a batch would be alone in their class
    why += f", and batches of {batch} would hold fewer than two of each of {size.n_classes} classes"
    return queries, why


def _check_fit(method: Method, solver: Solver | None, sampling: Sampler) -> None:
    """Refuse parts that are incompatible, by name."""
    # None is Adam, which projects
    projects = solver is None or solver.projects
    if method.mapping.constrained and not projects:
        raise ValueError(
            f"The 'solver' parameter of {method.name} must be 'auto', 'projected', 'adaptive', "
            "'bold_driver', 'sgd', 'momentum' or 'adam', which keep to the constraint of the map. "
            f"Got {solver!r} instead."
        )
    if solver is not None and solver.needs_fixed_batch and not sampling.fixed:
        raise ValueError(
            f"The 'solver' parameter of {method.name} must be 'auto', 'sgd', 'momentum' or 'adam' "
            f"if 'sampling' is {sampling!r}, whose batches change. Got {solver!r} instead."
        )
    by_probability = getattr(method.neighborhood, "min_probability", None) is not None
    if by_probability and not isinstance(method.kernel, Gaussian | None):
        raise ValueError(
            f"The 'kernel' parameter of {method.name} must be 'gaussian' if 'neighborhood' is "
            f"{method.neighborhood!r}, whose 'min_probability' assumes it. "
            f"Got {method.kernel!r} instead."
        )
    if method.neighborhood is not None and method.neighborhood.makes_lists and sampling.thins_rows:
        others = "'auto', 'all' or 'tree'" if method.has_trees else "'auto' or 'all'"
        raise ValueError(
            f"The 'neighborhood' parameter of {method.name} must be {others} if 'sampling' is "
            f"{sampling!r}, whose rows pick among themselves. Got {method.neighborhood!r} instead."
        )


def check_gpu(method: Method, scaling: str | None, data: Data) -> None:
    """Refuse, by name, what has no engine for rows on a GPU."""
    if not cuda.is_table(data.X):
        return

    def refuse(parameter: str, allowed: str, got: Any) -> None:
        raise ValueError(
            f"The {parameter!r} parameter of {method.name} must be {allowed} for rows on a GPU. "
            f"Got {got!r} instead. Use device=None, or X.cpu() for a tensor."
        )

    kernel = method.kernel
    if scaling == "robust":  # bends columns
        refuse("scaling", "'standard', 'global' or None", scaling)
    if method.neighborhood is not None:
        refuse("neighborhood", "'auto' or 'all'", method.neighborhood)
    if kernel is not None and (kernel.background or not kernel.reaches_everywhere):
        refuse("kernel", "'gaussian', 'student' or 'laplace' without a background", kernel)
    if not isinstance(method.mapping, maps.Linear | maps.Diagonal):
        refuse("mapping", "'linear' or 'diagonal'", method.mapping)


def _in_words(part: object) -> str:
    """The name of a part, with the parameters that are not at their defaults."""
    if not is_dataclass(part):
        return repr(part)
    values = [(field, getattr(part, field.name)) for field in fields(part)]
    changed = [f"{f.name}={v!r}" for f, v in values if f.repr and v != f.default]
    return type(part).__name__ + (f"({', '.join(changed)})" if changed else "")


def schedule_length(solver: Any) -> int:
    """Number of steps in the schedule of a planned solver."""
    return int(solver.learning_rate.n_steps)


def annealing_of(method: Method) -> Any:
    """The annealing that makes the first map, whose rows it removes; None for other starts."""
    return getattr(method.start, "annealing", None)


def size_of(data: Data, method: Method, searches: bool = False) -> Size:
    """The size that determines the cost; ``searches`` means that ranks below d are tried."""
    annealing = annealing_of(method)
    widest = method.n_components
    if annealing is not None:
        least = 1 if searches else widest
        widest = max(widest, annealing.n_rows(least, data.n_features))
    itemsize = 4 if is_large(data.n) else 8
    dense = not sp.issparse(data.X)
    n_classes = 0 if data.classes is None else len(data.classes)
    size = Size(data.n, data.n_features, widest, itemsize, dense, method.cost, n_classes)
    whole = EvaluationSize(data.n, data.n_features, widest, 8, n_classes or 1, False)
    more = method.cost.gpu_more(whole) if cuda.is_table(data.X) else 0.0
    size = size._replace(gpu=cuda.engine_of(data.X, widest, more))
    stated = method.mapping.cost
    return size if stated is None else size._replace(map=stated(data.n_features, itemsize))


def make_problem(method: Method, config: Config, data: Data, plan: Plan, seed: int) -> Problem:
    """The problem to minimise, over the training rows."""
    train, held_out = None, None
    if config.early_stopping:
        fraction = config.validation_fraction
        if not plan.exact:  # scores against all rows would dominate the cheaper steps
            fraction = min(fraction, _MOST_HELD_OUT / len(data.target))
        rng = rng_for(seed, "held out")
        train, held_out = hold_out(class_codes(data.target.strata, data.n), fraction, rng)
    features = method.features(data.X, data.target, train)
    # large fits start in float32, and nonlinear maps embed rows of float32 in it
    single = is_large(data.n) or data.X.dtype == np.float32
    check_varies(features, np.float32 if single else np.float64)
    alpha = config.alpha
    if is_auto(alpha):  # until it is chosen
        alpha = DEFAULT_ALPHA * alpha_unit(features)
    elif alpha == BY_ROWS:
        alpha = penalty_by_rows(data.n if train is None else len(train)) * alpha_unit(features)
    elif isinstance(alpha, str):
        alpha = scaled_alpha(method, features, data.n if train is None else len(train))
    pairs = (
        None
        if method.neighborhood is None or plan.has_lists
        else method.neighborhood.pairs(None, None)
    )
    problem = Problem(
        features,
        data.target,
        method.objective,
        method.mapping,
        alpha,
        train,
        held_out,
        pairs=pairs,
    )
    return method.suited(problem)


class TooFewRows(ValueError):
    """No class has a row to hold out."""


def hold_out(
    codes: Array, fraction: float, rng: np.random.RandomState, asker: str = "early_stopping=True"
) -> tuple[Array, Array]:
    """Positions of the training rows and of the held-out rows, stratified by class.

    At least one row is held out, as near to the fraction as whole rows of each class allow.  Two
    rows of each class remain for training, so classes of one or two rows are never held out;
    scikit-learn's stratified splits refuse such data.
    """
    members = [rng.permutation(np.flatnonzero(codes == c)) for c in np.unique(codes)]
    size = np.array([len(rows) for rows in members])
    room = np.maximum(size - 2, 0)
    take = np.minimum((fraction * size).astype(int), room)
    missing = max(1, round(fraction * len(codes))) - int(take.sum())
    order = rng.permutation(len(size))  # random order among classes with equal remainders
    for c in order[np.argsort((take - fraction * size)[order], kind="stable")]:
        if missing > 0 and take[c] < room[c]:
            take[c] += 1
            missing -= 1
    if not take.any():
        raise classes_too_small(asker, members)
    rows = np.sort(np.concatenate([m[:k] for m, k in zip(members, take, strict=True)]))
    return np.setdiff1d(np.arange(len(codes)), rows), rows


def classes_too_small(asker: str, members: list[Array]) -> TooFewRows:
    """The error for a split without held-out rows."""
    largest = max(map(len, members))
    if len(members) == 1:
        return TooFewRows(
            f"{asker} needs at least 3 samples, one of them for scoring. Got {largest}."
        )
    return TooFewRows(
        f"{asker} needs a class of at least 3 samples, one of them for scoring. "
        f"The largest has {largest}."
    )


def is_large(n_rows: int) -> bool:
    """Whether float32 is worth compiling for this many rows."""
    return n_rows >= SINGLE_FROM
