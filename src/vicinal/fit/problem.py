"""The problem of a fit, its size, and what is read off its learnt map."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from vicinal._features import check_varies
from vicinal.core.problem import Problem
from vicinal.core.seeds import rng_for
from vicinal.core.types import Array, is_auto
from vicinal.fit.context import FitContext, is_large
from vicinal.fit.cost import Size
from vicinal.fit.method import Config, Data, Method
from vicinal.fit.penalty import (
    BY_ROWS,
    DEFAULT_ALPHA,
    alpha_unit,
    penalty_by_rows,
    scaled_alpha,
)
from vicinal.fit.plan import Plan
from vicinal.fit.split import hold_out
from vicinal.targets.labels import class_codes

_MOST_HELD_OUT = 2000  # largest number of held-out rows if steps do not use all pairs


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


def final_loss(context: FitContext, problem: Problem, theta: Array) -> tuple[float, Any]:
    """The loss of a learnt map, and the facts of its evaluation."""
    rows = context.loss_rows(problem)
    # On a sample of rows the loss is an estimate, for which float32 suffices.
    scorer = problem if rows is None else problem.replace(dtype=np.float32)
    found = scorer.score(theta, problem.train if rows is None else rows)
    return found.value, found.facts


def last_theta(last: Any, problem: Problem) -> Array | None:
    """The parameters of the last fitted map in this problem's columns; None if it does not fit."""
    theta = None if last is None else last.theta_for(problem.mapping, problem.X)
    return theta if theta is not None and theta.any() else None
