"""Which way down: what "auto" stands for in ``solver``, ``sampling`` and ``pairs``, and why.

Without a time budget the choice depends on the size of the data alone, so that the same data give
the same map on every machine.  A time budget brings in the machine.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from vicinal import neighbourhoods, samplers, solvers
from vicinal.core.cost import Cost, Size, batch_cost, exact_cost, lists_cost
from vicinal.core.problem import Problem
from vicinal.core.types import Array, Sampler, Solver
from vicinal.densities import Compact, Kernel

__all__ = ["Plan", "adam_for", "make_plan", "rate_for"]

_EVALUATIONS = 60  # of the exact objective, that a fit takes
_EXACT_SECONDS = 20.0  # of one reference core pair: from there on batches are learnt from
_BATCH = 3000  # rows
_ITERATIONS = 200  # of a descent on all rows
_STEPS = 300  # of a descent on batches
_RATE = 0.05  # of Adam, in entries of a map that spreads the rows as the start does


class Plan(NamedTuple):
    """How a fit goes about it, and why.

    ``solver`` is None where Adam is to get its rate from the start, ``kernel`` where the method
    has no choice of kernels.
    """

    solver: Solver | None
    sampling: Sampler
    pairs: Any
    kernel: Kernel | None
    max_iter: int
    cost: Cost
    reason: str

    @property
    def exact(self) -> bool:
        """Whether each loss is that of all rows and all pairs."""
        return isinstance(self.sampling, samplers.Full) and self.pairs is None

    @property
    def changes(self) -> bool:
        """Whether one step's loss is that of other rows, or other pairs, than the next one's."""
        return not self.sampling.fixed or isinstance(self.pairs, neighbourhoods.RandomPairs)

    def rows_together(self, n: int) -> int:
        """How many of n rows pick among each other in an iteration."""
        if not isinstance(self.sampling, samplers.MiniBatches | samplers.Subsample):
            return n
        size = self.sampling.size
        return round(size * n) if isinstance(size, float) else min(int(size), n)

    def __str__(self) -> str:
        solver = "Adam with a falling rate" if self.solver is None else repr(self.solver)
        pairs = "all pairs" if self.pairs is None else repr(self.pairs)
        return f"{solver}, {self.sampling!r}, {pairs}: {self.reason}; {self.cost}"


def make_plan(owner: Any, kernel: Kernel | None, size: Size) -> Plan:
    """Settle what is "auto" for data of this size, and check that the parts fit together."""
    name = type(owner).__name__
    solver = None if _open(owner.solver) else solvers.resolve(owner.solver, name)
    pairs = None if _open(owner.pairs) else owner._neighbourhood()
    if _open(owner.sampling):
        sampling, reason = _sampling(owner, solver, pairs, size)
    else:
        sampling, reason = samplers.resolve(owner.sampling, name), "as asked"
    if solver is None and sampling.fixed:
        solver = owner._solver()
    _check_fit(owner, solver, sampling, pairs)
    _check_kernel(owner, kernel, pairs)
    max_iter = owner.max_iter
    if _open(max_iter):
        max_iter = _ITERATIONS if sampling.fixed else _STEPS
    plan = Plan(solver, sampling, pairs, kernel, int(max_iter), exact_cost(size), reason)
    return plan._replace(cost=_cost(plan, size))


def _open(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def _sampling(owner: Any, solver: Solver | None, pairs: Any, size: Size) -> tuple[Sampler, str]:
    """All rows as long as that is quick, and else batches of them."""
    if solver is not None and solver.needs_fixed_batch:
        return samplers.Full(), f"{type(solver).__name__} needs the same rows at every step"
    if pairs is not None:
        return samplers.Full(), "the choice of pairs makes all rows cheap"
    exact = exact_cost(size)
    whole = _EVALUATIONS * exact.seconds_per_evaluation
    if owner.time_budget is not None:
        # Half of it: the estimate is rough, and the start takes its time too.
        limit, what = 0.5 * owner.time_budget, f"half of the {owner.time_budget:g} s allowed"
    else:
        whole = _EVALUATIONS * exact_cost(size, threads=2).seconds_per_evaluation
        limit, what = _EXACT_SECONDS, f"{_EXACT_SECONDS:g} s on two cores"
    if whole <= limit or size.n <= _BATCH:
        return samplers.Full(), f"all {size.n} rows take some {whole:.2g} s, within {what}"
    return (
        samplers.MiniBatches(_BATCH, clusters="random"),
        f"all {size.n} rows would take some {whole:.2g} s, more than {what}",
    )


def _check_fit(owner: Any, solver: Solver | None, sampling: Sampler, pairs: Any) -> None:
    """Refuse what does not go together, by name."""
    name = type(owner).__name__
    if owner._constrained and not getattr(solver, "projects", False):
        raise ValueError(
            f"The 'solver' parameter of {name} must be 'auto', 'projected', 'adaptive' or "
            "'bold_driver', which keep to what the map allows. "
            f"Got {solver!r} instead."
        )
    if solver is not None and solver.needs_fixed_batch and not sampling.fixed:
        raise ValueError(
            f"The 'solver' parameter of {name} must be 'auto', 'sgd', 'momentum' or 'adam' where "
            f"'sampling' is {sampling!r}, whose batches change. Got {solver!r} instead."
        )
    lists = isinstance(pairs, neighbourhoods.Nearest | neighbourhoods.RandomPairs)
    if lists and isinstance(sampling, samplers.MiniBatches | samplers.Subsample):
        others = "'auto', 'all' or 'tree'" if owner._trees else "'auto' or 'all'"
        raise ValueError(
            f"The 'pairs' parameter of {name} must be {others} where 'sampling' is {sampling!r}, "
            f"whose rows pick among themselves. Got {pairs!r} instead."
        )


def _check_kernel(owner: Any, kernel: Kernel | None, pairs: Any) -> None:
    """Refuse a compact kernel where it does not reach far enough, or is cheap without a tree."""
    name = type(owner).__name__
    if not isinstance(kernel, Compact):
        return
    if isinstance(pairs, neighbourhoods.Tree):
        raise ValueError(
            f"The 'pairs' parameter of {name} must be 'auto', 'all', 'nearest' or 'random' where "
            f"'kernel' is {kernel!r}, of which nothing is left far away. Got {pairs!r} instead."
        )
    if not kernel.background and owner.objective == "log":
        raise ValueError(
            f"The 'kernel' parameter of {name} must reach everywhere, or have a background, where "
            "'objective' is 'log': a row with nothing in range has probability 0, which has no "
            f"logarithm. Got {kernel!r} instead; objective='accuracy' takes it."
        )


def _cost(plan: Plan, size: Size) -> Cost:
    sampling, pairs = plan.sampling, plan.pairs
    if isinstance(pairs, neighbourhoods.Nearest | neighbourhoods.RandomPairs):
        queries = min(getattr(sampling, "size", size.n), size.n)
        return lists_cost(size, queries, min(pairs.m, size.n))
    if isinstance(sampling, samplers.StochasticQueries):
        return batch_cost(size, rows=size.n, queries=min(sampling.size, size.n))
    rows = plan.rows_together(size.n)
    return batch_cost(size, rows=rows, queries=rows)


def rate_for(problem: Problem, theta: Array) -> float:
    r"""A rate of Adam that suits the data: a share of the entries of a map as large as the start.

    .. math:: \eta_0 = r\,\|Z_0\|_F / (\sqrt{d}\,\|X\|_F)

    The entries of a map without preferred columns that spreads the rows as the start does.  Those
    of the start itself would not do: RCA gives columns that hardly vary enormous weights.
    """
    rows = np.arange(0, len(problem.X), max(1, len(problem.X) // 1000))
    X = problem.X.take(rows)
    Z = problem.mapping.forward(theta, X)[0]
    Z = Z - Z.mean(axis=0)
    spread = np.sqrt(sum(float(np.sum(part**2)) for _, part in X.blocks()))
    size = np.linalg.norm(Z) / (np.sqrt(Z.shape[1]) * spread) if spread > 0 else 0.0
    return float(_RATE * (size if size > 0 else 1.0))


def adam_for(problem: Problem, theta: Array, n_steps: int) -> solvers.Adam:
    """Adam whose rate falls to nothing along a cosine, from one that suits the data."""
    return solvers.Adam(solvers.Cosine(rate_for(problem, theta), n_steps))
