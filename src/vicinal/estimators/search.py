"""Choose a rank or a penalty by cross-validation inside ``fit``, if it is "auto"."""

from __future__ import annotations

import warnings
from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import check_cv

from vicinal._validation import warn
from vicinal.core.method import Method
from vicinal.core.problem import Problem
from vicinal.core.types import Array, Rows, is_auto
from vicinal.estimators._learn import Learning
from vicinal.estimators._resume import asked_of
from vicinal.estimators._scores import score_name, scores_of
from vicinal.estimators._search_effort import ROWS, search_effort
from vicinal.estimators._split import TooFewRows, stratified_folds
from vicinal.estimators._trials import Search, Stopped, Trial, is_collapsed, ranks
from vicinal.targets.labels import class_codes

__all__ = [
    "ALPHAS",
    "DEFAULT_ALPHA",
    "MORE_ALPHAS",
    "ROWS",
    "Choice",
    "Search",
    "Stopped",
    "Trial",
    "alpha_unit",
    "choose",
    "cross_validation",
    "default_alpha",
    "is_collapsed",
    "question_of",
    "ranks",
    "scaled_alpha",
    "search_rows",
]

#: the values of alpha="auto", from a strong penalty to a weak one, for columns of variance one
ALPHAS = (0.1, 0.03, 0.01, 3e-3, 1e-3)
#: the same down to weaker ones, for losses on which a penalty weighs more
MORE_ALPHAS = (*ALPHAS, 3e-4, 1e-4)
DEFAULT_ALPHA = 3e-3  # used if a search has no result


def cross_validation(problem: Problem, cv: Any, rng: Any, owner: str = "NCA") -> list[Problem]:
    """One problem for each fold: trained on all other rows, with that fold held out.

    If ``cv`` is a number, the folds take rows from each class in turn, and leave two of it for
    training: classes of one or two rows are never held out.  None is five folds, or as many as
    there are rows to hold out.  Any other ``cv`` of scikit-learn splits the training rows.
    """
    rows = problem.rows
    strata = problem.target.strata
    codes = None if strata is None else strata[rows]
    if cv is None or isinstance(cv, int | np.integer):
        n_folds = None if cv is None else int(cv)
        folds = stratified_folds(class_codes(codes, len(rows)), n_folds, rng, owner)
    else:
        splitter = check_cv(cv, codes, classifier=codes is not None)
        folds = list(splitter.split(np.zeros((len(rows), 1)), codes))
        _check_positions(folds, len(rows), owner)
    return [
        problem.replace(train=np.sort(rows[train]), held_out=np.sort(rows[held_out]))
        for train, held_out in folds
    ]


def _check_positions(folds: list[tuple[Array, Array]], n: int, owner: str) -> None:
    last = max(int(np.max(part, initial=0)) for fold in folds for part in map(np.asarray, fold))
    if last >= n:
        raise ValueError(
            f"The 'cv' parameter of {owner} must split the {n} rows that the search learns from: "
            "not those of weight zero, nor those held out for early stopping. "
            f"Got a split with row {last} instead."
        )


def search_rows(problem: Problem, rng: np.random.RandomState, most: int) -> Array:
    """The rows that a search learns from: all training rows, or a sample of at most so many.

    If a sample would leave only a few rows of each class, it consists of some whole classes.  A
    target whose rows belong together otherwise may have ``draw(rows, size, rng)``.
    """
    rows = problem.rows
    if len(rows) <= most:
        return rows
    if hasattr(problem.target, "draw"):
        return problem.target.draw(rows, most, rng)
    codes = class_codes(problem.target.strata, len(problem.X))
    classes = np.unique(codes[rows])
    if len(classes) > most // 10:
        chosen, size = rng.permutation(classes), np.bincount(codes[rows])
        last = int(np.searchsorted(np.cumsum(size[chosen]), most))
        rows = rows[np.isin(codes[rows], chosen[: max(2, last)])]
    return np.sort(rng.permutation(rows)[:most])


def default_alpha(method: Method) -> float:
    """The penalty used if a search has no result, for columns of variance one."""
    alphas = method.alphas
    return DEFAULT_ALPHA if not alphas or DEFAULT_ALPHA in alphas else alphas[len(alphas) // 2]


def scaled_alpha(method: Method, features: Rows, n: int) -> float:
    """The penalty for ``alpha="scaled"``, which grows with the number of columns per row."""
    n_columns = int(np.count_nonzero(features.scale))
    return method.scaled_alpha(n_columns, n) * alpha_unit(features)


def alpha_unit(features: Rows) -> float:
    """The unit of penalties: one, or the mean variance of columns that are not scaled."""
    if features.scaling == "standard" or not np.isfinite(features.total_variance):
        return 1.0
    return float(features.total_variance / np.count_nonzero(features.scale))


class Choice(NamedTuple):
    """The result of a search, and how it was found.

    A warm start with the same ``question`` reuses it.
    """

    question: Hashable
    d: int
    alpha: float
    results: dict[str, Any]
    how: str | None = ""


def choose(problem: Problem, learning: Learning) -> Choice:
    """Choose the parameters that are "auto" by cross-validation on the training rows.

    Of many rows a sample is used.  The penalty belongs to the mean loss: one that is right for m
    rows is right for n rows when multiplied by m / n, since it then weighs as much against the sum
    of their losses, as the logarithm of a prior does.
    """
    config, method = learning.config, learning.method
    effort = search_effort(learning, problem)
    learning = learning.for_search(effort.n_steps)
    counted = config.cv is None or isinstance(config.cv, int | np.integer)
    # splits that the user gives are of all rows
    rows = search_rows(problem, learning.rng, effort.n_rows) if counted else problem.rows
    share, unit = len(rows) / len(problem.rows), alpha_unit(problem.X)
    few = problem
    if share < 1.0:
        few = problem.replace(
            X=problem.X.take(rows), target=problem.target.take(rows), train=None, held_out=None
        )
    d, alpha = method.n_components, float(problem.alpha)
    try:
        search = _make_search(few, learning, effort.cv)
    except TooFewRows:
        if is_auto(config.n_components):
            raise
        why = f"alpha={alpha:g}, since no class has three rows to choose it by"
        return Choice(None, d, alpha, {}, why)
    searched = []
    try:
        if is_auto(config.n_components):
            with_rank = problem.mapping.with_rank  # type: ignore[attr-defined]
            candidates = ranks(_largest(learning, problem.X.shape[1]))
            d = candidates[0]
            d = search.rank(candidates, alpha, with_rank).parameters["n_components"]
            searched.append(f"n_components={d}")
            search.folds = [fold.replace(mapping=with_rank(d)) for fold in search.folds]
        if is_auto(config.alpha) and not search.reason:
            chosen = search.alpha([unit * candidate for candidate in method.alphas], d)
            # a search that was stopped above the default is no evidence against the default
            default = default_alpha(method) * unit
            if search.trials[-1].parameters["alpha"] <= default or not search.reason:
                alpha = share * chosen.parameters["alpha"]
                searched.append(f"alpha={alpha:.3g}")
    except Stopped:
        if search.reason == "interrupted" and not searched:
            raise KeyboardInterrupt from None  # there is no result to keep
    learning.reports.search_ended()
    if search.reason:
        found = " and ".join(searched) or "nothing"
        warn(
            f"The search of {method.name} was stopped early. It had found {found}; the fit "
            f"continues with n_components={d} and alpha={alpha:g}.",
            ConvergenceWarning,
        )
    how = f"{' and '.join(searched)} by {len(search.folds)}-fold cross-validation"
    if share < 1.0:
        how += f" on {len(rows)} of {len(problem.rows)} rows"
    return Choice(None, d, alpha, search.results(), how if searched else "")


def question_of(parameters: dict[str, Any], problem: Problem) -> Hashable:
    """Everything that the result of a search depends on, except the rows themselves."""
    counts = np.bincount(class_codes(problem.target.strata, len(problem.X)))
    return asked_of(parameters), problem.X.scale.tobytes(), counts.tobytes()


def _largest(learning: Learning, n_features: int) -> int:
    """The largest rank that the start supports."""
    annealing = getattr(learning.method.start, "annealing", None)
    d = learning.method.n_components
    return d if annealing is None else min(d, annealing.n_rows(1, n_features))


def _make_search(problem: Problem, learning: Learning, cv: Any) -> Search:
    config, method = learning.config, learning.method

    def learn(fold: Problem) -> Array:
        if learning.is_late(0.0):  # also the start and the first evaluation take time
            raise Stopped("time_budget")
        with _quiet():
            # the fold scores the end of the run, not each step
            result = learning.run(fold.replace(held_out=None))
        if result.reason in ("callback", "interrupted", "time_budget"):
            raise Stopped(result.reason)
        return result.theta

    def score(fold: Problem, theta: Array) -> float:
        assert fold.held_out is not None
        with _quiet():
            found = scores_of(method, fold, theta, fold.held_out, fold.rows, config.rule)
        weight = getattr(fold.target, "sample_weight", None)
        return float(np.average(found, weights=None if weight is None else weight[fold.held_out]))

    def report(trial: Trial) -> None:
        values = ", ".join(f"{name}={value:g}" for name, value in trial.parameters.items())
        learning.reports.say(f"{values}: held-out {score_name(problem.target)} {trial.mean:.4f}")

    folds = [
        method.suited(fold) for fold in cross_validation(problem, cv, learning.rng, method.name)
    ]
    unit = problem.units.loss
    chance, begins = float(getattr(problem.target, "chance", 0.0)), learning.reports.searching
    return Search(folds, learn, score, report, learning.record, chance, unit, begins)


def _quiet() -> Any:
    """Suppress warnings about a fold, whose numbers the user never gave; the fit warns itself."""
    return warnings.catch_warnings(action="ignore")
