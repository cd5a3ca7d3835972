"""Choose a rank or a penalty by cross-validation inside ``fit``: what "auto" stands for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from vicinal._types import Array, Map
from vicinal.estimators._split import too_small_to_judge
from vicinal.problem import Problem

__all__ = ["ALPHAS", "Search", "Stopped", "Trial", "cross_validation", "ranks"]

#: the path of alpha="auto", from a map held down to one let go
ALPHAS = (0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 0.0)
#: ranks tried by n_components="auto": every one while it is small, then in steps of a quarter
_RANKS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 19, 24, 30)
_PATIENCE = 3  # candidates in turn that must fail before the search ends


class Stopped(Exception):
    """A user or a callback has had enough of the search."""


class Trial(NamedTuple):
    """One candidate, and its held-out score in each fold."""

    parameters: dict[str, Any]
    scores: Array

    @property
    def mean(self) -> float:
        return float(np.mean(self.scores))


def ranks(n_features: int, largest: int) -> list[int]:
    """Ranks from 2 up to what the features allow."""
    largest = min(n_features, largest)
    return [d for d in _RANKS if d < largest] + [largest]


def cross_validation(problem: Problem, n_folds: int, rng: Any) -> list[Problem]:
    """The problem on all rows but a fold, with that fold to judge by; once for each fold.

    Folds take from each class in turn.  Classes of one or two rows are never judged by, so that
    what is learnt from always has two of each.
    """
    rows = np.arange(len(problem.X)) if problem.train is None else problem.train
    codes = problem.targets.codes[rows]
    members = [rng.permutation(rows[codes == c]) for c in np.unique(codes)]
    judges = [part for part in members if len(part) > 2]
    size = sum(map(len, judges))
    if not judges:
        raise too_small_to_judge("'auto'", members)
    fold = np.arange(size) % min(n_folds, size)
    dealt = np.concatenate(judges)
    parts = [np.sort(dealt[fold == f]) for f in range(fold.max() + 1)]
    return [problem.replace(train=np.setdiff1d(rows, part), held_out=part) for part in parts]


def sparing(trials: list[Trial]) -> Trial:
    """The first candidate that the best one does not beat by more than a standard error.

    Of the difference, fold by fold: what the folds have in common does not count.  Candidates
    come with the simplest first: the least rank, the strongest penalty.
    """
    best = max(trials, key=lambda trial: trial.mean)
    for trial in trials:
        behind = best.scores - trial.scores
        error = np.std(behind, ddof=1) / np.sqrt(len(behind)) if len(behind) > 1 else 0.0
        if np.mean(behind) <= error:
            return trial
    return best


class Search:
    """Score candidates on the folds of a problem, in turn, until none gets any better.

    Parameters
    ----------
    folds : list of Problem
        From `cross_validation`.
    learn : callable
        ``theta = learn(problem, last)``: descend from the map ``last`` or from a start, whichever
        is better, and from a start where that is None.  Raises `Stopped` when told to.
    score : callable
        ``score(problem, theta)`` on the fold held out; higher is better.
    tell : callable
        Called with each `Trial`.
    """

    def __init__(
        self,
        folds: list[Problem],
        learn: Callable[[Problem, Array | None], Array],
        score: Callable[[Problem, Array], float],
        tell: Callable[[Trial], None],
    ) -> None:
        self.folds, self.learn, self.score, self.tell = folds, learn, score, tell
        self.trials: list[Trial] = []
        self.stopped = False

    def rank(self, candidates: Iterable[int], alpha: float, linear: Callable[[int], Map]) -> int:
        """Grow the rank until a larger one no longer helps; [Oneata2011] section 5.3."""

        def judge(d: int) -> Trial:
            folds = [fold.replace(mapping=linear(d), alpha=alpha) for fold in self.folds]
            scores = [self.score(fold, self.learn(fold, None)) for fold in folds]
            return Trial({"n_components": d, "alpha": alpha}, np.array(scores))

        return int(sparing(self._walk(candidates, judge)).parameters["n_components"])

    def alpha(self, candidates: Iterable[float], d: int) -> float:
        """Loosen the penalty from a strong one on, each map going on from the last.

        From the strong side: there the loss is smooth, and has few optima to be caught in.
        """
        thetas: list[Any] = [None] * len(self.folds)

        def judge(alpha: float) -> Trial:
            scores = []
            for f, fold in enumerate(self.folds):
                fold = fold.replace(alpha=alpha)
                thetas[f] = self.learn(fold, thetas[f])
                scores.append(self.score(fold, thetas[f]))
            return Trial({"n_components": d, "alpha": alpha}, np.array(scores))

        return float(sparing(self._walk(candidates, judge)).parameters["alpha"])

    def _walk(self, candidates: Iterable[Any], judge: Callable[[Any], Trial]) -> list[Trial]:
        """Judge candidates in turn until none has been the best for a while.

        A search that is stopped keeps the candidates it has finished; with none at all `Stopped`
        goes on to the caller.
        """
        trials: list[Trial] = []
        for candidate in candidates:
            try:
                trials.append(judge(candidate))
            except Stopped:
                self.stopped = True
                if not trials:
                    raise
                break
            self.tell(trials[-1])
            best = int(np.argmax([trial.mean for trial in trials]))
            if len(trials) - 1 - best >= _PATIENCE:
                break
        self.trials += trials
        return trials

    def results(self) -> dict[str, Array]:
        """All trials as scikit-learn's ``cv_results_``: a dict of columns."""
        columns = {
            f"param_{name}": np.array([trial.parameters[name] for trial in self.trials])
            for name in ("n_components", "alpha")
        }
        scores = np.array([trial.scores for trial in self.trials]).reshape(-1, len(self.folds))
        columns |= {f"split{f}_test_score": column for f, column in enumerate(scores.T)}
        columns["mean_test_score"] = scores.mean(axis=1)
        columns["std_test_score"] = scores.std(axis=1)
        return columns
