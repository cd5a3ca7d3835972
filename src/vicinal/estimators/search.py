"""Choose a rank or a penalty by cross-validation inside ``fit``: what "auto" stands for."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import check_cv

from vicinal import maps
from vicinal._features import Features
from vicinal._validation import warn
from vicinal.core.problem import Problem
from vicinal.core.types import Array, Map, is_auto
from vicinal.estimators._learn import Learning, evaluation_rows
from vicinal.estimators._split import too_small_to_judge

__all__ = [
    "ALPHAS",
    "DEFAULT_ALPHA",
    "Choice",
    "Search",
    "Stopped",
    "Trial",
    "choose",
    "cross_validation",
    "is_collapsed",
    "question_of",
    "ranks",
    "scaled_alpha",
]

#: the path of alpha="auto", from a map held down to one let go
ALPHAS = (0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 0.0)
#: ranks tried by n_components="auto": every one while it is small, then in steps of a quarter
_RANKS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 19, 24, 30)
_PATIENCE = 3  # candidates in turn that must fail before the search ends
_COLLAPSED = 0.05  # extent of all embedded rows: each then consults all others alike


DEFAULT_ALPHA = 3e-3  # where a search has nothing to say
_PER_COLUMN, _STRONGEST = 0.4, 0.1  # of alpha="scaled"
#: parameters that decide how long a descent goes on and how much is said of it
_OF_NO_WEIGHT = ("max_iter", "tol", "n_iter_no_change", "time_budget", "verbose")


class Stopped(Exception):
    """A user or a callback has had enough of the search."""


class Trial(NamedTuple):
    """One candidate: its held-out score and its map in each fold.

    ``null`` says that it is no better than nothing: the penalty has pressed a map to one point, or
    the most common class would have been right as often.
    """

    parameters: dict[str, Any]
    scores: Array
    thetas: list[Array]
    null: bool = False

    @property
    def mean(self) -> float:
        return float(np.mean(self.scores))

    def behind(self, other: Trial) -> tuple[float, float]:
        """By how much another candidate is ahead, and the standard error of that.

        Fold by fold: what the folds have in common does not count.
        """
        gap = other.scores - self.scores
        error = np.std(gap, ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else 0.0
        return float(np.mean(gap)), float(error)


def ranks(n_features: int, largest: int) -> list[int]:
    """Ranks from 2 up to what the features allow."""
    largest = min(n_features, largest)
    return [d for d in _RANKS if d < largest] + [largest]


def is_collapsed(Z: Array, unit: float = 1.0) -> bool:
    """Whether a map has put all rows in one place, as far as the kernel can tell, or the margin.

    ``unit`` is what squared distances are measured in.
    """
    return bool(np.ptp(Z, axis=0).max(initial=0.0) < _COLLAPSED * np.sqrt(unit))


def cross_validation(problem: Problem, cv: Any, rng: Any, owner: str = "NCA") -> list[Problem]:
    """The problem on all rows but a fold, with that fold to judge by; once for each fold.

    For a number of folds, these take from each class in turn, and leave two of it to learn from:
    classes of one or two rows are never judged by.  Anything else that scikit-learn knows as
    ``cv`` splits the rows that are learnt from.
    """
    rows = problem.rows
    target: Any = problem.target
    codes = target.strata[rows]
    if isinstance(cv, int | np.integer):
        folds = _folds(codes, int(cv), rng, owner)
    else:
        folds = list(check_cv(cv, codes, classifier=True).split(np.zeros((len(rows), 1)), codes))
    return [
        problem.replace(train=np.sort(rows[learn]), held_out=np.sort(rows[judge]))
        for learn, judge in folds
    ]


def _folds(codes: Array, n_folds: int, rng: Any, owner: str) -> list[tuple[Array, Array]]:
    members = [rng.permutation(np.flatnonzero(codes == c)) for c in np.unique(codes)]
    # no fold takes more than all but two of a class
    judges = np.concatenate([part[: n_folds * max(len(part) - 2, 0)] for part in members])
    if not len(judges):
        raise too_small_to_judge("'auto', beside any rows held out for early stopping,", members)
    if n_folds > len(judges):
        raise ValueError(
            f"The 'cv' parameter of {owner} must be an int in [2, {len(judges)}], the number of "
            f"rows that can be held out. Got {n_folds} instead."
        )
    fold = np.arange(len(judges)) % n_folds
    parts = [judges[fold == f] for f in range(n_folds)]
    return [(np.setdiff1d(np.arange(len(codes)), part), part) for part in parts]


def sparing(trials: list[Trial]) -> Trial:
    """The first candidate that the best one does not beat by more than a standard error.

    Candidates come with the simplest first: the least rank, the strongest penalty.  What is no
    better than nothing is not simple: it is taken only where there is nothing else.
    """
    trials = [trial for trial in trials if not trial.null] or trials
    best = max(trials, key=lambda trial: trial.mean)
    for trial in trials:
        gap, error = trial.behind(best)
        if gap <= error:
            return trial
    return best


class Search:
    """Score candidates on the folds of a problem, in turn, until none gets any better.

    Parameters
    ----------
    folds : list of Problem
        From `cross_validation`.
    learn : callable
        ``theta, loss = learn(problem, last)``: descend from the map ``last``, or from a start
        where that is None.  Raises `Stopped` when told to.
    score : callable
        ``score(problem, theta)`` on the fold held out; higher is better.
    tell : callable
        Called with each `Trial`.
    chance : float, default=0.0
        The score of a map that knows nothing.
    unit : float, default=1.0
        What squared distances are measured in.

    Attributes
    ----------
    trials : list of Trial
        All that was finished.
    stages : list of str
        What each of them was a candidate for.
    reason : str
        Why the search was stopped before its end; empty if it was not.
    """

    def __init__(
        self,
        folds: list[Problem],
        learn: Callable[[Problem, Array | None], tuple[Array, float]],
        score: Callable[[Problem, Array], float],
        tell: Callable[[Trial], None],
        chance: float = 0.0,
        unit: float = 1.0,
    ) -> None:
        self.folds, self.learn, self.score, self.tell = folds, learn, score, tell
        self.chance, self.unit = chance, unit
        self.trials: list[Trial] = []
        self.stages: list[str] = []
        self.reason = ""

    def rank(self, candidates: Iterable[int], alpha: float, linear: Callable[[int], Map]) -> Trial:
        """Grow the rank until a larger one no longer helps; [Oneata2011] section 5.3."""

        def judge(d: int) -> Trial:
            folds = [fold.replace(mapping=linear(d), alpha=alpha) for fold in self.folds]
            thetas = [self.learn(fold, None)[0] for fold in folds]
            return self._trial({"n_components": d, "alpha": alpha}, folds, thetas)

        def tired(trials: list[Trial]) -> bool:
            best = int(np.argmax([trial.mean for trial in trials]))
            return len(trials) - 1 - best >= _PATIENCE

        return sparing(self._walk("n_components", candidates, judge, tired))

    def alpha(self, candidates: Iterable[float], d: int) -> Trial:
        """Loosen the penalty from a strong one on, each map going on from the last.

        From the strong side: there the loss is smooth, and has few optima to be caught in.  A
        descent from the start competes at each step, since a map that was pressed to nothing has
        no gradient to leave by; the lower loss wins.
        """
        last: list[Any] = [None] * len(self.folds)

        def judge(alpha: float) -> Trial:
            folds = [fold.replace(alpha=alpha) for fold in self.folds]
            for f, fold in enumerate(folds):
                ends = [self.learn(fold, None)]
                if last[f] is not None:
                    ends.append(self.learn(fold, last[f]))
                last[f] = min(ends, key=lambda end: end[1])[0]
            return self._trial({"n_components": d, "alpha": alpha}, folds, list(last))

        def tired(trials: list[Trial]) -> bool:
            # on a plateau the path goes on: it may be that of maps still pressed to nothing
            best = max(trials, key=lambda trial: trial.mean)
            gaps = [trial.behind(best) for trial in trials[-_PATIENCE:]]
            return len(trials) > _PATIENCE and all(gap > error for gap, error in gaps)

        return sparing(self._walk("alpha", candidates, judge, tired))

    def _trial(
        self, parameters: dict[str, Any], folds: list[Problem], thetas: list[Array]
    ) -> Trial:
        pairs = list(zip(folds, thetas, strict=True))
        scores = np.array([self.score(fold, theta) for fold, theta in pairs])
        pressed = any(is_collapsed(fold.embed(theta), self.unit) for fold, theta in pairs)
        null = pressed or np.mean(scores) <= self.chance
        return Trial(parameters, scores, thetas, bool(null))

    def _walk(
        self,
        stage: str,
        candidates: Iterable[Any],
        judge: Callable[[Any], Trial],
        tired: Callable[[list[Trial]], bool],
    ) -> list[Trial]:
        """Judge candidates in turn until it is enough.

        A search that is stopped keeps the candidates it has finished; with none at all `Stopped`
        goes on to the caller.
        """
        trials: list[Trial] = []
        for candidate in candidates:
            try:
                trial = judge(candidate)
            except (Stopped, KeyboardInterrupt) as stop:
                self.reason = str(stop) or "interrupted"
                if not trials:
                    raise Stopped(self.reason) from None
                break
            trials.append(trial)
            self.trials.append(trial)
            self.stages.append(stage)
            self.tell(trial)
            if tired(trials):
                break
        return trials

    def results(self) -> dict[str, Any]:
        """All trials as scikit-learn's ``cv_results_``, and the stage of the search of each."""
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


def choose(problem: Problem, learning: Learning, question: Hashable) -> Choice:
    """Settle what "auto" leaves open, by cross-validation on the rows to learn from."""
    config, method = learning.config, learning.method
    search = _search(problem, learning.with_copied_rng())
    d, alpha = method.n_components, float(problem.alpha)
    chosen: Trial | None = None
    searched = []
    try:
        if is_auto(config.n_components):
            candidates = ranks(problem.X.shape[1], _largest(learning, problem.X.shape[1]))
            d = candidates[0]
            chosen = search.rank(candidates, alpha, maps.Linear)
            d = chosen.parameters["n_components"]
            searched.append(f"n_components={d}")
            search.folds = [fold.replace(mapping=maps.Linear(d)) for fold in search.folds]
        if is_auto(config.alpha) and not search.reason:
            chosen = search.alpha(method.alphas, d)
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
            f"The search of {method.name} was stopped before its end. It had come to "
            f"{found}; the fit goes on with n_components={d} and alpha={alpha:g}.",
            ConvergenceWarning,
        )
    theta = None
    if chosen is not None:
        whole = problem.replace(mapping=search.folds[0].mapping, alpha=alpha)
        exact = learning.plan.exact
        rows = None if exact else evaluation_rows(whole, np.random.RandomState(0))
        theta = min(chosen.thetas, key=lambda theta: whole.value(theta, rows))
    return Choice(question, d, alpha, search.results(), theta)


def question_of(parameters: dict[str, Any], problem: Problem) -> Hashable:
    """All that the answer of a search depends on, short of the rows themselves."""
    asked = [(key, repr(value)) for key, value in parameters.items() if key not in _OF_NO_WEIGHT]
    target: Any = problem.target
    counts = np.bincount(target.strata)
    return tuple(asked), problem.X.scale.tobytes(), counts.tobytes()


def _largest(learning: Learning, n_features: int) -> int:
    """The largest rank that the start can give."""
    annealing = getattr(learning.method.start, "annealing", None)
    d = learning.method.n_components
    return d if annealing is None else min(d, annealing.n_rows(1, n_features))


def _search(problem: Problem, learning: Learning) -> Search:
    config, method = learning.config, learning.method
    labels: Any = problem.target

    def learn(fold: Problem, theta: Array | None) -> tuple[Array, float]:
        with _quiet():
            if theta is None:
                theta = learning.start(fold)
            # the fold scores the end of the descent, not each step of it
            result = learning.descend(fold.replace(held_out=None), theta)
        if result.reason in ("callback", "interrupted", "time_budget"):
            raise Stopped(result.reason)
        return result.theta, learning.loss_of(result)

    def score(fold: Problem, theta: Array) -> float:
        Z, target = fold.embed(theta), fold.target
        model = method.make_model(Z[fold.train], target.take(fold.train), fold.objective)
        with _quiet():
            best = model.probabilities(Z[fold.held_out], config.rule).argmax(axis=1)
        held_out: Any = target.take(fold.held_out)
        return float(np.average(best == held_out.codes, weights=held_out.sample_weight))

    def tell(trial: Trial) -> None:
        values = ", ".join(f"{name}={value:g}" for name, value in trial.parameters.items())
        learning.reports.say(f"{values}: held-out accuracy {trial.mean:.4f}")

    folds = [
        method.suited(fold)
        for fold in cross_validation(problem, config.cv, learning.rng, method.name)
    ]
    mass = np.bincount(labels.codes, labels.sample_weight)
    unit = problem.units.loss
    return Search(folds, learn, score, tell, chance=mass.max() / mass.sum(), unit=unit)


def _quiet() -> Any:
    """Warnings about a fold would name numbers that the user never gave; the fit has its own."""
    return warnings.catch_warnings(action="ignore")
