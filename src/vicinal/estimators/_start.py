"""Where a descent begins: a start, its scale, and what annealing makes of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from vicinal import maps, starts
from vicinal._features import unscaled
from vicinal._validation import warn
from vicinal.core.problem import Problem
from vicinal.core.types import Array, Map
from vicinal.densities import Compact, Kernel
from vicinal.estimators._anneal import descend
from vicinal.estimators._parts import Parts
from vicinal.estimators._rounds import frozen
from vicinal.solvers import Iteration

__all__ = ["first_theta"]


def first_theta(
    owner: Any,
    parts: Parts,
    problem: Problem,
    rng: Any,
    tell: Callable[[Iteration, Problem], bool],
    searching: bool = False,
) -> Array:
    """The first theta: of a scale chosen on a sample, unless the user gave the map.

    ``tell`` hears of the iterations that an annealed start makes.
    """
    X, labels, mapping, start = problem.X, problem.targets, problem.mapping, parts.start
    if isinstance(start, starts.Auto) and isinstance(mapping, maps.Diagonal):
        start = starts.Identity()  # weights of columns have nothing to rotate
    weight = labels.sample_weight
    if problem.train is not None:  # what judges the map must not choose its start
        learnt_from = np.zeros(len(labels))
        learnt_from[problem.train] = 1.0 if weight is None else weight[problem.train]
        weight = learnt_from
    if isinstance(start, starts.Annealing):
        return _anneal(owner, start, parts, problem, rng, weight, tell, searching)
    A = start(X, labels.codes, parts.d, rng, weight)
    if isinstance(start, starts.Given):
        theta = mapping.theta(_check_given(owner, unscaled(A, X.scale), mapping))
        _warn_out_of_range(owner, parts.plan.kernel, problem, theta)
        return theta
    theta = mapping.theta(A)
    rows = np.arange(len(X)) if problem.train is None else problem.train
    if len(rows) > owner._start_rows:
        rows = np.sort(rng.permutation(rows)[: owner._start_rows])
    objective = owner._scale_objective()
    if owner._targets_are_rows:  # few rows by themselves would have others
        whole = problem.replace(objective=objective)
        base = starts.base_scale(whole.embed(theta)[rows], rng) * owner._reach(problem)
        return theta * starts.scale_start(theta, lambda A: whole.value(A, rows), base)
    sample = problem.replace(
        X=X.take(rows), targets=labels.take(rows), train=None, objective=objective
    )
    sample = frozen(parts.plan._replace(pairs=None), sample)
    base = starts.base_scale(sample.embed(theta), rng)
    return theta * starts.scale_start(theta, sample.value, base)


def _anneal(
    owner: Any,
    start: starts.Annealing,
    parts: Parts,
    problem: Problem,
    rng: Any,
    weight: Array | None,
    tell: Callable[[Iteration, Problem], bool],
    searching: bool,
) -> Array:
    """The first theta, of a map with more rows whose least ones are faded out."""
    name = type(owner).__name__
    if not isinstance(parts.mapping, maps.Linear):
        raise ValueError(
            f"The 'init' parameter of {name} must be another start where 'mapping' is "
            f"{owner.mapping!r}, which has no rows to remove. Got {owner.init!r} instead."
        )
    k = start.n_rows(parts.d, problem.X.shape[1])
    inner = starts.resolve(start.init, type(start).__name__)
    wide = Parts(maps.Linear(k), k, inner, parts.plan)
    theta = first_theta(owner, wide, problem.replace(mapping=wide.mapping), rng, tell)

    def removed(A: Array) -> None:
        loss = problem.replace(mapping=maps.Linear(len(A))).value(A.ravel())
        print(f"[{name}] annealing {len(A):5d} rows left {loss:14.8f}")

    return parts.mapping.theta(
        start.reduce(
            wide.mapping.components(theta),
            parts.d,
            problem.X,
            partial(descend, problem, tell),
            weight,
            removed if owner.verbose and not searching else None,
            resume=not searching,
        )
    )


def _check_given(owner: Any, A: Array, mapping: Map) -> Array:
    must = f"The 'init' parameter of {type(owner).__name__} must"
    if not A.any():
        raise ValueError(f"{must} give weight to a column that varies. Got none instead.")
    if isinstance(mapping, maps.Diagonal) and np.any(A - np.diag(np.diag(A))):
        raise ValueError(f"{must} be diagonal for a diagonal map. Got {A!r} instead.")
    return A


def _warn_out_of_range(owner: Any, kernel: Kernel | None, problem: Problem, theta: Array) -> None:
    """Warn of a given map with nothing to learn from; other starts have their scale chosen."""
    bare = isinstance(kernel, Compact) and not kernel.background
    if bare and problem.replace(alpha=0.0).value(theta) == 0.0:
        warn(
            f"The 'init' parameter of {type(owner).__name__} puts every row out of range of all "
            f"others of its class: {kernel!r} has no gradient there. Scale it down, or give the "
            "kernel a background."
        )
