"""Choose a rank or a penalty on held-out rows before the fit, if it is "auto".

Candidates are learnt on folds, several at a time in threads, and count in their order.  A method
that ``asks`` has a good penalty for most tables, "scaled".  Unless there is a ``cv``, one question
finds the tables that need more of it: is four times as much clearly better for rows held out?
benchmarks/results/defaults_accuracy.md compares the question with a search.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import check_cv

from vicinal._threads import n_threads
from vicinal._validation import warn
from vicinal.core.problem import Problem
from vicinal.core.seeds import rng_for
from vicinal.core.types import Array, is_auto
from vicinal.engines.choose import is_small
from vicinal.fit.context import FitContext
from vicinal.fit.cost import Size, evaluation_seconds
from vicinal.fit.method import Method, alpha_unit, default_alpha, is_collapsed, scaled_alpha
from vicinal.fit.plan import TooFewRows, annealing_of, classes_too_small, hold_out, is_large
from vicinal.fit.resume import STOPPED, parameter_key
from vicinal.fit.run import first_theta, run
from vicinal.fit.score import log_probabilities_of, scores_of
from vicinal.fit.trials import Candidate, FoldScore, Search, Stopped, Trial, ranks
from vicinal.fit.workers import SearchReports, Workers
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

#: the question: how many times as strong a penalty, the share of the rows held out, the steps
_STRONGER, _HELD_OUT, _QUESTION_STEPS = 4.0, 0.5, 12


class Choice(NamedTuple):
    """The result of a search, and how it was found.

    A warm start with the same ``key`` reuses it.  ``noisy`` says that the table needs more penalty
    than most, as with useless columns or wrong labels.
    """

    key: Hashable
    d: int
    alpha: float
    results: dict[str, Any]
    how: str | None = ""
    noisy: bool = False


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
    share = len(rows) / len(problem.rows)
    few = problem
    if share < 1.0:
        few = problem.replace(
            X=problem.X.take(rows), target=problem.target.take(rows), train=None, held_out=None
        )
    d, alpha, noisy = method.n_components, float(problem.alpha), False
    asks = is_auto(config.alpha) and config.cv is None and method.asks
    search, searched = None, []
    try:
        if not asks or is_auto(config.n_components):
            search = _make_search(few, fit, effort, n_jobs)
        if search is not None and is_auto(config.n_components):
            tried = ranks(_largest(method, problem.X.shape[1]))
            d = tried[0]  # if there is no time for any
            d = _best_rank(search, problem, tried)
            searched.append(f"n_components={d} by {len(search.folds)}-fold cross-validation")
            few, search.folds = _with_rank(few, d), [_with_rank(fold, d) for fold in search.folds]
        if asks and (search is None or not search.reason):
            search = _make_search(few, fit, effort._replace(n_steps=_QUESTION_STEPS), n_jobs, True)
            noisy = _ask(search, d, scaled_alpha(method, few.X, len(few.rows)))
            alpha = scaled_alpha(method, problem.X, len(problem.rows))
            alpha *= _STRONGER if noisy else 1.0
            better = "clearly better" if noisy else "not clearly better"
            searched.append(f"alpha={alpha:.3g}: a stronger one is {better} for held-out rows")
        elif search is not None and is_auto(config.alpha) and not search.reason:
            found = _best_alpha(search, d, method, alpha_unit(problem.X))
            if found is not None:
                alpha = share * found
                searched.append(f"alpha={alpha:.3g} by {len(search.folds)}-fold cross-validation")
    except TooFewRows:
        if is_auto(config.n_components):
            raise
        why = f"alpha={alpha:g}, since no class has three rows to choose it by"
        return Choice(None, d, alpha, {}, why)
    except Stopped as stop:
        if str(stop) == "interrupted" and not searched:
            raise KeyboardInterrupt from None  # there is no result to keep
    assert search is not None
    fit.reports.search_ended()
    if search.reason:
        fit.record.search_cut = True
        warn(
            f"The search of {method.name} was stopped early. It had found "
            f"{' and '.join(searched) or 'nothing'}; the fit continues with n_components={d} and "
            f"alpha={alpha:g}.",
            ConvergenceWarning,
        )
    how = " and ".join(searched)
    if searched and share < 1.0:
        how += f", on {len(rows)} of {len(problem.rows)} rows"
    return Choice(None, d, alpha, search.results(), how, noisy)


def _with_rank(problem: Problem, d: int) -> Problem:
    assert problem.mapping.with_rank is not None
    return problem.replace(mapping=problem.mapping.with_rank(d))


def _best_rank(search: Search, problem: Problem, tried: list[int]) -> int:
    """The rank that the folds choose."""
    alpha, with_rank = float(problem.alpha), problem.mapping.with_rank
    assert with_rank is not None
    candidates = [
        Candidate(
            {"n_components": rank, "alpha": alpha}, {"mapping": with_rank(rank), "alpha": alpha}
        )
        for rank in tried
    ]
    with _quiet():
        return int(search.best("n_components", candidates).parameters["n_components"])


def _best_alpha(search: Search, d: int, method: Method, unit: float) -> float | None:
    """The penalty that the folds choose; None if too few were tried."""
    weights = [unit * weight for weight in method.alphas]
    candidates = [Candidate({"n_components": d, "alpha": a}, {"alpha": a}) for a in weights]
    with _quiet():
        chosen = search.best("alpha", candidates)
    # a search that was stopped above the default is no evidence against the default
    least = search.trials["alpha"][-1].parameters["alpha"]
    if search.reason and least > default_alpha(method) * unit:
        return None
    return float(chosen.parameters["alpha"])


def _ask(search: Search, d: int, alpha: float) -> bool:
    """Whether a penalty stronger than alpha is clearly better."""
    heavier = float(search.folds[0].alpha) / alpha  # since a half has fewer losses
    candidates = [
        Candidate({"n_components": d, "alpha": a}, {"alpha": a * heavier})
        for a in (alpha, _STRONGER * alpha)
    ]
    with _quiet():
        chosen = search.best("is a stronger alpha better?", candidates)
    return chosen.parameters["alpha"] > alpha


def search_key(parameters: dict[str, Any], problem: Problem) -> Hashable:
    """Everything that the result of a search depends on, except the rows themselves."""
    counts = np.bincount(class_codes(problem.target.strata, len(problem.X)))
    return parameter_key(parameters), problem.X.scale.tobytes(), counts.tobytes()


def _largest(method: Method, n_features: int) -> int:
    """The largest rank that the start supports."""
    annealing = annealing_of(method)
    d = method.n_components
    return d if annealing is None else min(d, annealing.n_rows(1, n_features))


def _half(problem: Problem, method: Method, rng: np.random.RandomState) -> Problem:
    """The problem with half of its rows held out, and the penalty "scaled" for the others."""
    rows, strata = problem.rows, problem.target.strata
    assert strata is not None
    train, held_out = hold_out(strata[rows], _HELD_OUT, rng, "alpha='auto'")
    # as heavy against the sum of the losses as for all rows
    alpha = scaled_alpha(method, problem.X, len(rows)) * len(rows) / len(train)
    half = problem.replace(train=rows[train], held_out=rows[held_out], alpha=alpha)
    return half.replace(dtype=np.float32) if is_large(len(rows)) else half


def _make_search(
    problem: Problem, fit: FitContext, effort: Effort, n_jobs: int | None, asks: bool = False
) -> Search:
    """A search on folds, or on one split if it ``asks`` a question."""
    method, config = fit.method, fit.config
    if asks:
        folds = [_half(problem, method, rng_for(fit.seed, "question"))]
        # NumPy's small arrays leave threads no time of their own
        at_once = 1 if is_small(len(folds[0].rows)) else 2
    else:
        rng = rng_for(fit.seed, "search folds")
        folds = cross_validation(problem, effort.cv, rng, method.name)
        at_once = len(folds)
    folds = [method.suited(fold) for fold in folds]
    context, workers, start = fit.for_search(effort.n_steps), None, None
    if asks:  # both candidates have the same start
        with _quiet():
            start = first_theta(context, folds[0].replace(held_out=None))
    if (threads := min(jobs(n_jobs), at_once)) > 1:
        workers = Workers(threads)
        context = replace(context, reports=SearchReports(fit.reports, workers))
    unit, name = problem.units.loss, problem.target.score_name

    def evaluate(number: int, fold: Problem) -> FoldScore:
        if context.is_late(0.0):  # also the start and the first evaluation take time
            raise Stopped("time_budget")
        here = context.at("fold", number)
        # the fold scores the end of the run, not each step
        learnt = fold.replace(held_out=None)
        result = run(here, learnt, first_theta(here, learnt) if start is None else start)
        if result.reason in STOPPED:
            raise Stopped(result.reason)
        assert fold.held_out is not None
        split = (method, fold, result.theta, fold.held_out, fold.rows)
        rows = None
        if asks:
            rows = log_probabilities_of(*split)
            found = rows[1]
        else:
            found = scores_of(*split, config.rule)
        weight = fold.target.sample_weight
        weights = None if weight is None else weight[fold.held_out]
        collapsed = is_collapsed(fold.embed(result.theta), unit)
        return FoldScore(float(np.average(found, weights=weights)), collapsed, rows)

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


def _quiet() -> warnings.catch_warnings:
    """Suppress warnings about a fold, whose numbers the user never gave; the fit warns itself."""
    return warnings.catch_warnings(action="ignore")


def stratified_folds(
    codes: Array, n_folds: int | None, rng: np.random.RandomState, owner: str
) -> list[tuple[Array, Array]]:
    """Positions of the training rows and of the held-out rows of each fold, by class in turn.

    None is five folds, or as many as there are rows to hold out.
    """
    members = [rng.permutation(np.flatnonzero(codes == c)) for c in np.unique(codes)]
    # every fold leaves at least two rows of each class
    most = _FOLDS if n_folds is None else n_folds
    usable = np.concatenate([part[: most * max(len(part) - 2, 0)] for part in members])
    if n_folds is None:
        n_folds = min(_FOLDS, len(usable))
    if len(usable) < 2:
        raise classes_too_small("'auto', besides any rows held out for early stopping,", members)
    if n_folds > len(usable):
        raise ValueError(
            f"The 'cv' parameter of {owner} must be an int in [2, {len(usable)}], the number of "
            f"rows that can be held out. Got {n_folds} instead."
        )
    fold = np.arange(len(usable)) % n_folds
    parts = [usable[fold == f] for f in range(n_folds)]
    return [(np.setdiff1d(np.arange(len(codes)), part), part) for part in parts]


def cross_validation(
    problem: Problem, cv: Any, rng: np.random.RandomState, owner: str = "NCA"
) -> list[Problem]:
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
    """The rows that a search learns from: all training rows, or a sample of at most this many.

    If a sample would leave only a few rows of each class, it consists of some whole classes.  A
    target whose rows belong together otherwise may have ``draw(rows, size, rng)``.
    """
    rows = problem.rows
    if len(rows) <= most:
        return rows
    if problem.target.draw is not None:
        return problem.target.draw(rows, most, rng)
    codes = class_codes(problem.target.strata, len(problem.X))
    classes = np.unique(codes[rows])
    if len(classes) > most // 10:
        chosen, size = rng.permutation(classes), np.bincount(codes[rows])
        last = int(np.searchsorted(np.cumsum(size[chosen]), most))
        rows = rows[np.isin(codes[rows], chosen[: max(2, last)])]
    return np.sort(rng.permutation(rows)[:most])
