"""Binds a search to an estimator: what "auto" is settled by, and how the user hears of it."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from vicinal import maps
from vicinal._callback_support import IterationReporter
from vicinal._types import Array
from vicinal._validation import warn
from vicinal.estimators._parts import Parts, leaves_open
from vicinal.estimators._rules import NeighbourRules
from vicinal.estimators._search import ALPHAS, Search, Stopped, Trial, cross_validation, ranks
from vicinal.estimators._start import first_theta
from vicinal.problem import Problem

__all__ = ["DEFAULT_ALPHA", "choose"]

DEFAULT_ALPHA = 3e-3  # where a search has nothing to say yet


def choose(
    owner: Any, problem: Problem, parts: Parts, rng: Any, report: IterationReporter
) -> tuple[Problem, Parts]:
    """Settle what "auto" leaves open, by cross-validation on the rows to learn from.

    Leaves ``cv_results_`` on the estimator.
    """
    n_features = problem.X.shape[1]
    asked = (owner.n_components, owner.alpha, n_features)
    d, alpha = parts.d, float(problem.alpha)
    if owner.warm_start and getattr(owner, "_asked", None) == asked:
        d, alpha = owner.n_components_, owner.alpha_
    else:
        # a copy: the fit to come is that of the parameters chosen, to the last bit
        search = _search(owner, problem, parts, copy.deepcopy(rng), report)
        try:
            if leaves_open(owner, "n_components"):
                d = ranks(n_features, parts.d)[0]  # if nothing comes of it
                d = search.rank(ranks(n_features, parts.d), alpha, maps.Linear)
                search.folds = [fold.replace(mapping=maps.Linear(d)) for fold in search.folds]
            if leaves_open(owner, "alpha") and not search.stopped:
                alpha = search.alpha(ALPHAS, d)
        except Stopped as stopped:
            if stopped.args == ("interrupted",) and not search.trials:
                raise KeyboardInterrupt from None  # there is nothing to keep yet
        if search.stopped:
            warn(
                f"The search of {type(owner).__name__} was stopped before its end: "
                f"n_components={d} and alpha={alpha:g} are what it had come to.",
                ConvergenceWarning,
            )
        owner.cv_results_ = search.results()
    owner._asked = asked
    if leaves_open(owner, "n_components"):
        parts = parts._replace(mapping=maps.Linear(d), d=d)
    return problem.replace(mapping=parts.mapping, alpha=alpha), parts


def _search(
    owner: Any, problem: Problem, parts: Parts, rng: Any, report: IterationReporter
) -> Search:
    def learn(fold: Problem, last: Array | None) -> Array:
        d = getattr(fold.mapping, "n_components", parts.d)
        theta = first_theta(owner, parts._replace(d=d, mapping=fold.mapping), fold, rng)
        # a map that was pressed to nothing has no gradient to leave it by
        if last is not None and fold.value(last) < fold.value(theta):
            theta = last
        # the fold judges the end of the descent, not each step of it
        fold = fold.replace(held_out=None)
        result, _ = owner._descend(fold, parts.solver, report, theta, searching=True)
        if result.reason in ("callback", "interrupted"):
            raise Stopped(result.reason)
        return result.theta

    def score(fold: Problem, theta: Array) -> float:
        Z, labels = fold.embed(theta), fold.targets
        rules = NeighbourRules(Z[fold.train], labels.take(fold.train), owner.n_neighbors)
        best = rules.probabilities(Z[fold.held_out], owner.rule).argmax(axis=1)
        judges = labels.take(fold.held_out)
        return float(np.average(best == judges.codes, weights=judges.sample_weight))

    def tell(trial: Trial) -> None:
        if owner.verbose:
            values = ", ".join(f"{name}={value:g}" for name, value in trial.parameters.items())
            print(f"[{type(owner).__name__}] {values}: held-out accuracy {trial.mean:.4f}")

    return Search(cross_validation(problem, owner.cv, rng), learn, score, tell)
