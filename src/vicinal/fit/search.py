"""Choose a rank or a penalty by cross-validation before the fit, if it is "auto"."""

from __future__ import annotations

import warnings
from collections.abc import Hashable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from vicinal._threads import n_threads
from vicinal._validation import warn
from vicinal.core.problem import Problem
from vicinal.core.seeds import rng_for
from vicinal.core.types import is_auto
from vicinal.fit.context import FitContext
from vicinal.fit.cost import Size, evaluation_seconds
from vicinal.fit.method import Method
from vicinal.fit.penalty import alpha_unit, default_alpha
from vicinal.fit.problem import annealing_of
from vicinal.fit.report import SearchReports
from vicinal.fit.resume import STOPPED, parameter_key
from vicinal.fit.run import first_theta, run
from vicinal.fit.score import scores_of
from vicinal.fit.split import TooFewRows, cross_validation, search_rows
from vicinal.fit.trials import FoldScore, Search, Stopped, Trial, is_collapsed, ranks
from vicinal.fit.workers import Workers
from vicinal.targets.labels import class_codes

SEARCH_STEPS = 40  # of the runs of a search
ROWS = 2000  # most rows that a search learns from
_SECONDS = 15.0  # on two reference cores: a longer search learns from less
_FOLDS = 5  # of cv=None
_EVALUATIONS = 1.2  # per step
#: candidates of a typical search, which ends when they no longer improve
_RANK_TRIALS, _ALPHA_TRIALS = 8, 4
#: rows, folds and steps of the runs, from the whole to the least
_LESS = ((2000, 5, 40), (2000, 3, 40), (1400, 3, 40), (1000, 3, 40), (700, 3, 30), (500, 3, 20))


class Choice(NamedTuple):
    """The result of a search, and how it was found.

    A warm start with the same ``key`` reuses it.
    """

    key: Hashable
    d: int
    alpha: float
    results: dict[str, Any]
    how: str | None = ""


class Effort(NamedTuple):
    """The size of a search: most rows, the ``cv`` of its folds, and most steps of each run."""

    n_rows: int
    cv: Any
    n_steps: int


def search_effort(context: FitContext, problem: Problem) -> Effort:
    """The effort of a search, by the cost of a row; it does not depend on the machine.

    Searches with matrices, and with maps that do not state their cost, always learn from 2,000
    rows.  With other maps fewer rows, folds and steps are used if the search would take longer
    than some 15 seconds on two cores.
    """
    config, method = context.config, context.method
    whole = Effort(ROWS, config.cv, SEARCH_STEPS)
    stated = problem.mapping.cost
    if stated is None:
        return whole
    n, D = len(problem.rows), problem.X.shape[1]
    runs = _RANK_TRIALS * is_auto(config.n_components) + _ALPHA_TRIALS * is_auto(config.alpha)
    size = Size(n, D, method.n_components, 4, True, method.cost, map=stated(D, 4))
    for rows, folds, steps in _LESS:
        cv: Any = config.cv
        if cv is None and folds < _FOLDS:
            cv = folds
        effort = Effort(rows, cv, steps)
        n_folds = cv if isinstance(cv, int) else folds
        seconds = evaluation_seconds(size, min(n, rows), threads=2)
        if runs * n_folds * steps * _EVALUATIONS * seconds <= _SECONDS:
            return effort
    return effort


def choose(problem: Problem, fit: FitContext, n_jobs: int | None = None) -> Choice:
    """Choose the parameters that are "auto" by cross-validation on the training rows.

    Of many rows a sample is used.  The penalty belongs to the mean loss: one that is right for m
    rows is right for n rows when multiplied by m / n, since it then weighs as much against the sum
    of their losses, as the logarithm of a prior does.
    """
    config, method = fit.config, fit.method
    effort = search_effort(fit, problem)
    counted = config.cv is None or isinstance(config.cv, int | np.integer)
    # splits that the user gives are of all rows
    rows = problem.rows
    if counted:
        rows = search_rows(problem, rng_for(fit.seed, "search rows"), effort.n_rows)
    share, unit = len(rows) / len(problem.rows), alpha_unit(problem.X)
    few = problem
    if share < 1.0:
        few = problem.replace(
            X=problem.X.take(rows), target=problem.target.take(rows), train=None, held_out=None
        )
    d, alpha = method.n_components, float(problem.alpha)
    try:
        search = _make_search(few, fit, effort, n_jobs)
    except TooFewRows:
        if is_auto(config.n_components):
            raise
        why = f"alpha={alpha:g}, since no class has three rows to choose it by"
        return Choice(None, d, alpha, {}, why)
    searched = []
    try:
        if is_auto(config.n_components):
            with_rank = problem.mapping.with_rank
            assert with_rank is not None
            candidates = ranks(_largest(method, problem.X.shape[1]))
            d = candidates[0]
            with _quiet():
                d = search.rank(candidates, alpha, with_rank).parameters["n_components"]
            searched.append(f"n_components={d}")
            search.folds = [fold.replace(mapping=with_rank(d)) for fold in search.folds]
        if is_auto(config.alpha) and not search.reason:
            with _quiet():
                chosen = search.alpha([unit * candidate for candidate in method.alphas], d)
            # a search that was stopped above the default is no evidence against the default
            default = default_alpha(method) * unit
            if search.trials[-1].parameters["alpha"] <= default or not search.reason:
                alpha = share * chosen.parameters["alpha"]
                searched.append(f"alpha={alpha:.3g}")
    except Stopped:
        if search.reason == "interrupted" and not searched:
            raise KeyboardInterrupt from None  # there is no result to keep
    fit.reports.search_ended()
    if search.reason:
        fit.record.search_cut = True
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


def search_key(parameters: dict[str, Any], problem: Problem) -> Hashable:
    """Everything that the result of a search depends on, except the rows themselves."""
    counts = np.bincount(class_codes(problem.target.strata, len(problem.X)))
    return parameter_key(parameters), problem.X.scale.tobytes(), counts.tobytes()


def _largest(method: Method, n_features: int) -> int:
    """The largest rank that the start supports."""
    annealing = annealing_of(method)
    d = method.n_components
    return d if annealing is None else min(d, annealing.n_rows(1, n_features))


def _make_search(problem: Problem, fit: FitContext, effort: Effort, n_jobs: int | None) -> Search:
    method, config = fit.method, fit.config
    rng = rng_for(fit.seed, "search folds")
    folds = [method.suited(f) for f in cross_validation(problem, effort.cv, rng, method.name)]
    workers = Workers(min(jobs(n_jobs), len(folds)))
    context = replace(fit.for_search(effort.n_steps), reports=SearchReports(fit.reports, workers))
    unit, name = problem.units.loss, problem.target.score_name

    def evaluate(number: int, fold: Problem) -> FoldScore:
        if context.is_late(0.0):  # also the start and the first evaluation take time
            raise Stopped("time_budget")
        here = context.at("fold", number)
        # the fold scores the end of the run, not each step
        learnt = fold.replace(held_out=None)
        result = run(here, learnt, first_theta(here, learnt))
        if result.reason in STOPPED:
            raise Stopped(result.reason)
        assert fold.held_out is not None
        found = scores_of(method, fold, result.theta, fold.held_out, fold.rows, config.rule)
        weight = fold.target.sample_weight
        weights = None if weight is None else weight[fold.held_out]
        collapsed = is_collapsed(fold.embed(result.theta), unit)
        return FoldScore(float(np.average(found, weights=weights)), collapsed)

    def report(trial: Trial) -> None:
        values = ", ".join(f"{key}={value:g}" for key, value in trial.parameters.items())
        fit.reports.say(f"{values}: held-out {name} {trial.mean:.4f}")

    chance = float(problem.target.chance)
    trials, begins = fit.record.trials, fit.reports.searching
    return Search(folds, evaluate, report, trials, workers, begins, chance)


def jobs(n_jobs: int | None) -> int:
    """How many candidates to learn at once; -1 and None: one for each thread of the library."""
    most = n_threads()
    return most if n_jobs is None or n_jobs < 0 else min(int(n_jobs), most)


def _quiet() -> Any:
    """Suppress warnings about a fold, whose numbers the user never gave; the fit warns itself."""
    return warnings.catch_warnings(action="ignore")
