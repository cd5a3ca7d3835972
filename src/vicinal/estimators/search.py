"""Choose a rank or a penalty by cross-validation inside ``fit``, if it is "auto"."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import check_cv

from vicinal._features import Features
from vicinal._validation import warn
from vicinal.core.journal import Record
from vicinal.core.method import Method
from vicinal.core.problem import Problem
from vicinal.core.types import Array, Map, is_auto
from vicinal.estimators._learn import Learning
from vicinal.estimators._resume import asked_of
from vicinal.estimators._scores import score_name, scores_of
from vicinal.estimators._split import TooFewRows, stratified_folds
from vicinal.estimators._telling import SearchStep
from vicinal.targets.labels import class_codes

__all__ = [
    "ALPHAS",
    "DEFAULT_ALPHA",
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
#: ranks tried by n_components="auto": all small ones, then in steps of a quarter
_RANKS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 19, 24, 30)
_PATIENCE = 3  # ranks in a row that must fail before the search ends
_ALPHA_PATIENCE = 2  # penalties in a row that must be clearly worse
#: standard errors within which a simpler candidate is as good as the best
_RANK_ERRORS, _ALPHA_ERRORS = 1.0, 0.5
ROWS = 2000  # most rows that a search learns from
_COLLAPSED = 0.05  # extent of all embedded rows below which all neighbours are about equal
DEFAULT_ALPHA = 3e-3  # used if a search has no result
_PER_COLUMN, _STRONGEST = 0.4, 0.1  # of alpha="scaled"


class Stopped(Exception):
    """The user, a callback or the time budget has stopped the search."""


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


def is_collapsed(Z: Array, unit: float = 1.0) -> bool:
    """Whether all embedded rows are equal on the scale of the kernel or the margin.

    ``unit`` is the unit of squared distances.
    """
    return bool(np.ptp(Z, axis=0).max(initial=0.0) < _COLLAPSED * np.sqrt(unit))


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


def search_rows(problem: Problem, rng: np.random.RandomState) -> Array:
    """The rows that a search learns from: all training rows, or a sample of them.

    If a sample would leave only a few rows of each class, it consists of some whole classes.  A
    target whose rows belong together otherwise may have ``draw(rows, size, rng)``.
    """
    rows = problem.rows
    if len(rows) <= ROWS:
        return rows
    if hasattr(problem.target, "draw"):
        return problem.target.draw(rows, ROWS, rng)
    codes = class_codes(problem.target.strata, len(problem.X))
    classes = np.unique(codes[rows])
    if len(classes) > ROWS // 10:
        chosen, size = rng.permutation(classes), np.bincount(codes[rows])
        last = int(np.searchsorted(np.cumsum(size[chosen]), ROWS))
        rows = rows[np.isin(codes[rows], chosen[: max(2, last)])]
    return np.sort(rng.permutation(rows)[:ROWS])


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


class Search:
    """Score candidates on the folds of a problem, one by one, until they no longer improve.

    Parameters
    ----------
    folds : list of Problem
        From `cross_validation`.
    learn : callable
        ``theta = learn(problem)``: train from a start.  Raises `Stopped` if training is stopped.
    score : callable
        ``score(problem, theta)`` on the held-out fold; higher is better.
    report : callable
        Called with each `Trial`.
    record : Record or None, default=None
        Keeps what is finished, for a fit that resumes this one.
    begins : callable or None, default=None
        Called with a `SearchStep` before a candidate is learnt on a fold.
    chance : float, default=0.0
        The score of a map without any information.
    unit : float, default=1.0
        The unit of squared distances.

    Attributes
    ----------
    trials : list of Trial
        All finished candidates.
    stages : list of str
        The parameter that each of them is a candidate for.
    reason : str
        Why the search was stopped early; empty if it was not.
    """

    def __init__(
        self,
        folds: list[Problem],
        learn: Callable[[Problem], Array],
        score: Callable[[Problem, Array], float],
        report: Callable[[Trial], None],
        record: Record | None = None,
        chance: float = 0.0,
        unit: float = 1.0,
        begins: Callable[[SearchStep], None] | None = None,
    ) -> None:
        self.folds, self.learn, self.score, self.report = folds, learn, score, report
        self.record = Record.new() if record is None else record
        self.chance, self.unit, self.begins = chance, unit, begins
        self.trials: list[Trial] = []
        self.stages: list[str] = []
        self.reason = ""

    def rank(
        self, candidates: Sequence[int], alpha: float, with_rank: Callable[[int], Map]
    ) -> Trial:
        """Increase the rank until this no longer helps; [Oneata2011] section 5.3."""

        def evaluate(d: int) -> Trial:
            folds = [fold.replace(mapping=with_rank(d), alpha=alpha) for fold in self.folds]
            return self._trial(
                {"n_components": d, "alpha": alpha}, "n_components", folds, candidates
            )

        def should_stop(trials: list[Trial]) -> bool:
            best = int(np.argmax([trial.mean for trial in trials]))
            return len(trials) - 1 - best >= _PATIENCE

        trials = self._evaluate_all("n_components", candidates, evaluate, should_stop)
        return sparing(trials, _RANK_ERRORS)

    def alpha(self, candidates: Sequence[float], d: int) -> Trial:
        """Decrease the penalty from a strong one on, until this no longer helps.

        Each map has a start of its own, as the fit will have: a path of maps, each of which
        continues the last, ends at lower losses and worse scores.
        """

        def evaluate(alpha: float) -> Trial:
            folds = [fold.replace(alpha=alpha) for fold in self.folds]
            return self._trial({"n_components": d, "alpha": alpha}, "alpha", folds, candidates)

        def should_stop(trials: list[Trial]) -> bool:
            # continue on a plateau, where all maps may still be collapsed
            best = max(trials, key=lambda trial: trial.mean)
            gaps = [trial.behind(best) for trial in trials[-_ALPHA_PATIENCE:]]
            return len(trials) > _ALPHA_PATIENCE and all(gap > error for gap, error in gaps)

        trials = self._evaluate_all("alpha", candidates, evaluate, should_stop)
        return sparing(trials, _ALPHA_ERRORS)

    def _begin(self, candidate: dict[str, float], fold: int, candidates: Sequence[Any]) -> None:
        """Report that a candidate is about to be learnt on a fold."""
        if self.begins is None:
            return
        (name, value), best = next(iter(candidate.items())), None
        tried = [t for t, s in zip(self.trials, self.stages, strict=True) if s == name]
        if tried:
            top = max(tried, key=lambda trial: trial.mean)
            best = ({name: top.parameters[name]}, top.mean)
        number = list(candidates).index(value) + 1
        self.begins(SearchStep(candidate, number, len(candidates), fold + 1, len(self.folds), best))

    def _trial(
        self, parameters: dict[str, Any], name: str, folds: list[Problem], candidates: Sequence[Any]
    ) -> Trial:
        """Learn a candidate for the parameter ``name`` on each fold, and score it."""
        pairs = []
        for f, fold in enumerate(folds):
            self._begin({name: parameters[name]}, f, candidates)
            pairs.append((fold, self.record.step(f"fold {f}", partial(self.learn, fold))))
        scores = np.array([self.score(fold, theta) for fold, theta in pairs])
        collapsed = any(is_collapsed(fold.embed(theta), self.unit) for fold, theta in pairs)
        useless = collapsed or np.mean(scores) <= self.chance
        return Trial(parameters, scores, bool(useless))

    def _evaluate_all(
        self,
        stage: str,
        candidates: Sequence[Any],
        evaluate: Callable[[Any], Trial],
        should_stop: Callable[[list[Trial]], bool],
    ) -> list[Trial]:
        """Evaluate candidates in order until ``should_stop``.

        If the search is stopped, the finished candidates are kept; without any, `Stopped` is
        raised.
        """
        trials: list[Trial] = list(self.record.take(stage) or [])  # of a fit that was cut
        self.trials += trials
        self.stages += [stage] * len(trials)
        for candidate in list(candidates)[len(trials) :]:
            if trials and should_stop(trials):
                break
            try:
                trial = self.record.step("trial", partial(evaluate, candidate), keep=False)
            except (Stopped, KeyboardInterrupt) as stop:
                self.reason = str(stop) or "interrupted"
                if not trials:
                    raise Stopped(self.reason) from None
                break
            trials.append(trial)
            self.trials.append(trial)
            self.stages.append(stage)
            self.record.put(stage, list(trials))
            self.report(trial)
        return trials

    def results(self) -> dict[str, Any]:
        """All trials in the form of scikit-learn's ``cv_results_``, with the stage of each."""
        scores = np.array([trial.scores for trial in self.trials]).reshape(-1, len(self.folds))
        mean = scores.mean(axis=1)
        columns: dict[str, Any] = {"params": [dict(trial.parameters) for trial in self.trials]}
        for name in ("n_components", "alpha"):
            columns[f"param_{name}"] = np.array([t.parameters[name] for t in self.trials])
        columns["stage"] = np.array(self.stages, dtype=str)
        columns |= {f"split{f}_test_score": column for f, column in enumerate(scores.T)}
        columns |= {"mean_test_score": mean, "std_test_score": scores.std(axis=1)}
        columns["rank_test_score"] = 1 + np.sum(mean > mean[:, None], axis=1)
        return columns


def default_alpha(method: Method) -> float:
    """The penalty used if a search has no result, for columns of variance one."""
    alphas = method.alphas
    return DEFAULT_ALPHA if not alphas or DEFAULT_ALPHA in alphas else alphas[len(alphas) // 2]


def scaled_alpha(features: Features, n: int) -> float:
    """The penalty for ``alpha="scaled"``, which grows with the number of columns per row.

    ``0.4 D / n`` for columns of variance one, at most 0.1: a stronger penalty would collapse the
    map if there are more columns than rows.
    """
    n_columns = int(np.count_nonzero(features.scale))
    return min(_PER_COLUMN * n_columns / n, _STRONGEST) * alpha_unit(features)


def alpha_unit(features: Features) -> float:
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
    learning = learning.for_search()
    counted = config.cv is None or isinstance(config.cv, int | np.integer)
    # splits that the user gives are of all rows
    rows = search_rows(problem, learning.rng) if counted else problem.rows
    share, unit = len(rows) / len(problem.rows), alpha_unit(problem.X)
    few = problem
    if share < 1.0:
        few = problem.replace(
            X=problem.X.take(rows), target=problem.target.take(rows), train=None, held_out=None
        )
    d, alpha = method.n_components, float(problem.alpha)
    try:
        search = _make_search(few, learning)
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
                searched.append(f"alpha={alpha:g}")
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


def _make_search(problem: Problem, learning: Learning) -> Search:
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
        method.suited(fold)
        for fold in cross_validation(problem, config.cv, learning.rng, method.name)
    ]
    unit = problem.units.loss
    chance, begins = float(getattr(problem.target, "chance", 0.0)), learning.reports.searching
    return Search(folds, learn, score, report, learning.record, chance, unit, begins)


def _quiet() -> Any:
    """Suppress warnings about a fold, whose numbers the user never gave; the fit warns itself."""
    return warnings.catch_warnings(action="ignore")
