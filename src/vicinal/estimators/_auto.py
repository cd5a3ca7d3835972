"""Binds a search to an estimator: what "auto" is settled by, and how the user hears of it."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from vicinal import maps
from vicinal._features import Features
from vicinal._validation import warn
from vicinal.core.problem import Problem
from vicinal.core.types import Array
from vicinal.estimators._learning import Learning, judges
from vicinal.estimators._parts import Parts, leaves_open
from vicinal.estimators._search import Search, Stopped, Trial, cross_validation, ranks
from vicinal.starts import Annealing

__all__ = ["DEFAULT_ALPHA", "Choice", "choose", "forget_search", "scaled_alpha"]

DEFAULT_ALPHA = 3e-3  # where a search has nothing to say
_PER_COLUMN, _STRONGEST = 0.4, 0.1  # of alpha="scaled"
#: parameters that decide how long a descent goes on and how much is said of it
_OF_NO_WEIGHT = ("max_iter", "tol", "n_iter_no_change", "time_budget", "verbose")


def scaled_alpha(features: Features, n: int) -> float:
    """The penalty that ``alpha="scaled"`` stands for: as strong as a row for each few columns.

    ``0.4 D / n`` in columns of variance one, 0.1 at most: beyond, it would press the map to
    nothing where there are more columns than rows.
    """
    n_columns = int(np.count_nonzero(features.scale))
    variance = features.total_variance / n_columns
    return float(min(_PER_COLUMN * n_columns / n, _STRONGEST) * variance)


class Choice(NamedTuple):
    """What a search has come to; a warm start of the same question does not ask again.

    ``theta`` is the best of the maps that the folds ended with, for the fit to begin from.
    """

    question: Hashable
    d: int
    alpha: float
    results: dict[str, Any]
    theta: Array | None


def choose(owner: Any, problem: Problem, parts: Parts, learning: Learning) -> Choice:
    """Settle what "auto" leaves open, by cross-validation on the rows to learn from."""
    question = _question(owner, problem)
    last = getattr(owner, "_choice", None)
    if owner.warm_start and last is not None and last.question == question:
        return last._replace(theta=None)
    forget_search(owner)
    owner._memory = None  # of a fit with other values
    # a copy: the fit to come draws what a fit without a search would
    search = _search(owner, problem, parts, learning.with_rng(copy.deepcopy(learning.rng)))
    d, alpha = parts.d, float(problem.alpha)
    chosen: Trial | None = None
    searched = []
    try:
        if leaves_open(owner, "n_components"):
            candidates = ranks(problem.X.shape[1], _largest(parts, problem.X.shape[1]))
            d = candidates[0]
            chosen = search.rank(candidates, alpha, maps.Linear)
            d = chosen.parameters["n_components"]
            searched.append(f"n_components={d}")
            search.folds = [fold.replace(mapping=maps.Linear(d)) for fold in search.folds]
        if leaves_open(owner, "alpha") and not search.reason:
            chosen = search.alpha(owner._alphas, d)
            # a path that was cut short above the default has nothing to say against it
            if search.trials[-1].parameters["alpha"] <= DEFAULT_ALPHA or not search.reason:
                alpha = chosen.parameters["alpha"]
                searched.append(f"alpha={alpha:g}")
    except Stopped:
        if search.reason == "interrupted" and chosen is None:
            raise KeyboardInterrupt from None  # there is nothing to keep yet
    if search.reason:
        found = " and ".join(searched) or "nothing"
        warn(
            f"The search of {type(owner).__name__} was stopped before its end. It had come to "
            f"{found}; the fit goes on with n_components={d} and alpha={alpha:g}.",
            ConvergenceWarning,
        )
    theta = None
    if chosen is not None:
        whole = problem.replace(mapping=search.folds[0].mapping, alpha=alpha)
        rows = None if parts.plan.exact else judges(whole, np.random.RandomState(0))
        theta = min(chosen.thetas, key=lambda theta: whole.value(theta, rows))
    return Choice(question, d, alpha, search.results(), theta)


def forget_search(owner: Any) -> None:
    """Take off an estimator what an earlier search has left."""
    for name in ("cv_results_", "_choice"):
        owner.__dict__.pop(name, None)


def _question(owner: Any, problem: Problem) -> Hashable:
    """All that the answer of a search depends on, short of the rows themselves."""
    parameters = owner.get_params(deep=False)
    asked = [(key, repr(value)) for key, value in parameters.items() if key not in _OF_NO_WEIGHT]
    counts = np.bincount(problem.targets.codes)
    return tuple(asked), problem.X.scale.tobytes(), counts.tobytes()


def _largest(parts: Parts, n_features: int) -> int:
    """The largest rank that the start can give."""
    if isinstance(parts.start, Annealing):
        return min(parts.d, parts.start.n_rows(1, n_features))
    return parts.d


def _search(owner: Any, problem: Problem, parts: Parts, learning: Learning) -> Search:
    def learn(fold: Problem, theta: Array | None) -> tuple[Array, float]:
        with _quiet():
            d = getattr(fold.mapping, "n_components", parts.d)
            here = parts._replace(d=d, mapping=fold.mapping)
            if theta is None:
                theta = learning.start(fold, here, searching=True)
            # the fold judges the end of the descent, not each step of it
            fold = fold.replace(held_out=None)
            outcome = learning.descend(fold, here, theta, searching=True)
            result = outcome.result
        if result.reason in ("callback", "interrupted", "time_budget"):
            raise Stopped(result.reason)
        return result.theta, learning.judge(outcome)

    def score(fold: Problem, theta: Array) -> float:
        Z, labels = fold.embed(theta), fold.targets
        rules = owner._make_rules(Z[fold.train], labels.take(fold.train), fold.options)
        with _quiet():
            best = rules.probabilities(Z[fold.held_out], owner.rule).argmax(axis=1)
        judges = labels.take(fold.held_out)
        return float(np.average(best == judges.codes, weights=judges.sample_weight))

    def tell(trial: Trial) -> None:
        if owner.verbose:
            values = ", ".join(f"{name}={value:g}" for name, value in trial.parameters.items())
            print(f"[{type(owner).__name__}] {values}: held-out accuracy {trial.mean:.4f}")

    folds = [
        owner._aim(
            fold.replace(
                options={**fold.options, **owner._options(problem.targets.take(fold.train))}
            )
        )
        for fold in cross_validation(problem, owner.cv, learning.rng, type(owner).__name__)
    ]
    mass = np.bincount(problem.targets.codes, problem.targets.sample_weight)
    unit = owner._unit(problem)
    return Search(folds, learn, score, tell, chance=mass.max() / mass.sum(), unit=unit)


def _quiet() -> Any:
    """Warnings about a fold would name numbers that the user never gave; the fit has its own."""
    return warnings.catch_warnings(action="ignore")
