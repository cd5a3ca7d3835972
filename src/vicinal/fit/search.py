"""Choose a rank or a penalty by cross-validation before the fit, if it is "auto".

Candidates are learnt on folds, several at a time in threads, and count in their order.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Hashable, Sequence
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
from vicinal.fit.context import FitContext
from vicinal.fit.cost import Size, evaluation_seconds
from vicinal.fit.method import Method, alpha_unit, default_alpha, is_collapsed
from vicinal.fit.plan import TooFewRows, annealing_of, classes_too_small
from vicinal.fit.report import SearchStep
from vicinal.fit.resume import STOPPED, parameter_key
from vicinal.fit.run import first_theta, run
from vicinal.fit.score import scores_of
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

#: ranks tried by n_components="auto": all small ones, then in steps of a quarter
_RANKS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 19, 24, 30)
_PATIENCE = 3  # ranks in a row that must fail before the search ends
_ALPHA_PATIENCE = 2  # penalties in a row that must be clearly worse


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
            tried = ranks(_largest(method, problem.X.shape[1]))
            d = tried[0]
            candidates = [
                Candidate(
                    {"n_components": rank, "alpha": alpha},
                    {"mapping": with_rank(rank), "alpha": alpha},
                )
                for rank in tried
            ]
            with _quiet():
                d = int(search.best("n_components", candidates).parameters["n_components"])
            searched.append(f"n_components={d}")
            search.folds = [fold.replace(mapping=with_rank(d)) for fold in search.folds]
        if is_auto(config.alpha) and not search.reason:
            weights = [unit * weight for weight in method.alphas]
            candidates = [Candidate({"n_components": d, "alpha": a}, {"alpha": a}) for a in weights]
            with _quiet():
                chosen = search.best("alpha", candidates)
            # a search that was stopped above the default is no evidence against the default
            default = default_alpha(method) * unit
            if search.trials["alpha"][-1].parameters["alpha"] <= default or not search.reason:
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
    context, workers = fit.for_search(effort.n_steps), None
    if (threads := min(jobs(n_jobs), len(folds))) > 1:
        workers = Workers(threads)
        context = replace(context, reports=SearchReports(fit.reports, workers))
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


def _quiet() -> warnings.catch_warnings:
    """Suppress warnings about a fold, whose numbers the user never gave; the fit warns itself."""
    return warnings.catch_warnings(action="ignore")


class Stopped(Exception):
    """The user, a callback or the time budget has stopped the search."""


class FoldScore(NamedTuple):
    """The held-out score of a candidate in one fold, and whether its map has collapsed."""

    score: float
    collapsed: bool = False


class Trial(NamedTuple):
    """One candidate, and its held-out score in each fold.

    ``useless`` means that the penalty has collapsed a map to one point, or that the most common
    class would have been right as often.
    """

    parameters: dict[str, Any]
    scores: Array
    useless: bool = False

    @property
    def mean(self) -> float:
        return float(np.mean(self.scores))

    def behind(self, other: Trial) -> tuple[float, float]:
        """By how much another candidate is ahead, and the standard error of this difference.

        The difference is paired by fold, so variation between the folds cancels.
        """
        gap = other.scores - self.scores
        error = np.std(gap, ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else 0.0
        return float(np.mean(gap)), float(error)


def ranks(largest: int) -> list[int]:
    """Ranks from 2 up to the largest."""
    return [d for d in _RANKS if d < largest] + [largest]


def sparing(trials: list[Trial], errors: float = 1.0) -> Trial:
    """The simplest candidate within some standard errors of the best.

    Candidates come with the simplest first: the smallest rank, the strongest penalty.  A useless
    candidate is chosen only if there is no other.
    """
    trials = [trial for trial in trials if not trial.useless] or trials
    best = max(trials, key=lambda trial: trial.mean)
    for trial in trials:
        gap, error = trial.behind(best)
        if gap <= errors * error:
            return trial
    return best


class Candidate(NamedTuple):
    """Values of the parameters that are searched, and the changes of a problem that they mean."""

    parameters: dict[str, float]
    changes: dict[str, Any]


def _ranks_fail(trials: list[Trial]) -> bool:
    """Whether a higher rank no longer helps; [Oneata2011] section 5.3."""
    best = int(np.argmax([trial.mean for trial in trials]))
    return len(trials) - 1 - best >= _PATIENCE


def _penalties_fail(trials: list[Trial]) -> bool:
    """Whether a weaker penalty no longer helps."""
    # continue on a plateau, where all maps may still be collapsed
    best = max(trials, key=lambda trial: trial.mean)
    gaps = [trial.behind(best) for trial in trials[-_ALPHA_PATIENCE:]]
    return len(trials) > _ALPHA_PATIENCE and all(gap > error for gap, error in gaps)


#: for each parameter: when its search ends, and the standard errors within which a simpler
#: candidate is as good as the best
_RULES = {"n_components": (_ranks_fail, 1.0), "alpha": (_penalties_fail, 0.5)}


class Search:
    """Score candidates on the folds of a problem until they no longer improve.

    Candidates count in their order, and what a candidate scores does not depend on the others: so
    the result is the same however many are learnt at once.

    Parameters
    ----------
    folds : list of Problem
        From `cross_validation`.
    evaluate : callable
        ``evaluate(fold, problem)`` learns a map on fold number ``fold`` and gives its `FoldScore`;
        called in the threads of ``workers``.  Raises `Stopped` if learning is stopped.
    report : callable
        Called with each `Trial`.
    trials : dict of lists of Trial or None, default=None
        The finished candidates by the parameter they are candidates for: those of a fit that was
        cut, to which this search adds its own.
    workers : Workers or None, default=None
        Learn several candidates at once; None: one after the other.
    begins : callable or None, default=None
        Called with a `SearchStep` before a candidate is learnt on a fold.
    chance : float, default=0.0
        The score of a map without any information.

    Attributes
    ----------
    reason : str
        Why the search was stopped early; empty if it was not.
    """

    def __init__(
        self,
        folds: list[Problem],
        evaluate: Callable[[int, Problem], FoldScore],
        report: Callable[[Trial], None],
        trials: dict[str, list[Trial]] | None = None,
        workers: Workers | None = None,
        begins: Callable[[SearchStep], None] | None = None,
        chance: float = 0.0,
    ) -> None:
        self.folds, self.evaluate, self.report = folds, evaluate, report
        self.trials = {} if trials is None else trials
        self.workers, self.begins, self.chance = workers, begins, chance
        self.reason = ""

    def best(self, name: str, candidates: Sequence[Candidate]) -> Trial:
        """The simplest good candidate for a parameter; the simplest comes first.

        Ranks increase and penalties decrease until this no longer helps.  Each map has a start of
        its own, as the fit will have: a path of maps, each of which continues the last, ends at
        lower losses and worse scores.

        If the search is stopped, the finished candidates are kept; without any, `Stopped` is
        raised.
        """
        (fail, errors), trials = _RULES[name], self.trials.setdefault(name, [])
        tasks = self._tasks(name, candidates)
        scores = None if self.workers is None else self.workers.results(self.evaluate, tasks)
        try:
            for candidate in candidates[len(trials) :]:  # others are those of a fit that was cut
                if trials and fail(trials):
                    break
                scored = []
                for _ in self.folds:
                    scored.append(self.evaluate(*next(tasks)) if scores is None else next(scores))
                trials.append(self._trial(candidate, scored))
                self.report(trials[-1])
        except (Stopped, KeyboardInterrupt) as stop:
            self.reason = str(stop) or "interrupted"
        finally:
            if scores is not None:
                scores.close()
        if not trials:
            raise Stopped(self.reason)
        return sparing(trials, errors)

    def _tasks(
        self, name: str, candidates: Sequence[Candidate]
    ) -> Generator[tuple[int, Problem], None, None]:
        """The arguments of ``evaluate`` for all candidates that are not finished."""
        trials = self.trials[name]
        for number, candidate in list(enumerate(candidates))[len(trials) :]:
            for fold, problem in enumerate(self.folds):
                if self.begins is not None:
                    top = max(trials, key=lambda trial: trial.mean, default=None)
                    best = None if top is None else ({name: top.parameters[name]}, top.mean)
                    trying, among = {name: candidate.parameters[name]}, (len(candidates), fold + 1)
                    self.begins(SearchStep(trying, number + 1, *among, len(self.folds), best))
                yield fold, problem.replace(**candidate.changes)

    def _trial(self, candidate: Candidate, scored: list[FoldScore]) -> Trial:
        scores = np.array([fold.score for fold in scored])
        collapsed = any(fold.collapsed for fold in scored)
        useless = bool(collapsed or np.mean(scores) <= self.chance)
        return Trial(candidate.parameters, scores, useless)

    def results(self) -> dict[str, Any]:
        """All trials in the form of scikit-learn's ``cv_results_``, with the stage of each."""
        trials = [trial for found in self.trials.values() for trial in found]
        stages = [name for name, found in self.trials.items() for _ in found]
        scores = np.array([trial.scores for trial in trials]).reshape(-1, len(self.folds))
        mean = scores.mean(axis=1)
        columns: dict[str, Any] = {"params": [dict(trial.parameters) for trial in trials]}
        for name in ("n_components", "alpha"):
            columns[f"param_{name}"] = np.array([t.parameters[name] for t in trials])
        columns["stage"] = np.array(stages, dtype=str)
        columns |= {f"split{f}_test_score": column for f, column in enumerate(scores.T)}
        columns |= {"mean_test_score": mean, "std_test_score": scores.std(axis=1)}
        columns["rank_test_score"] = 1 + np.sum(mean > mean[:, None], axis=1)
        return columns


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
