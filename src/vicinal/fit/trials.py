"""Candidates of a search, scored on folds, several at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from vicinal.core.problem import Problem
from vicinal.core.types import Array, Map
from vicinal.fit.report import SearchStep
from vicinal.fit.workers import Workers

#: ranks tried by n_components="auto": all small ones, then in steps of a quarter
_RANKS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 19, 24, 30)
_PATIENCE = 3  # ranks in a row that must fail before the search ends
_ALPHA_PATIENCE = 2  # penalties in a row that must be clearly worse
#: standard errors within which a simpler candidate is as good as the best
_RANK_ERRORS, _ALPHA_ERRORS = 1.0, 0.5
_COLLAPSED = 0.05  # extent of all embedded rows below which all neighbours are about equal


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


def is_collapsed(Z: Array, unit: float = 1.0) -> bool:
    """Whether all embedded rows are equal on the scale of the kernel or the margin.

    ``unit`` is the unit of squared distances.
    """
    return bool(np.ptp(Z, axis=0).max(initial=0.0) < _COLLAPSED * np.sqrt(unit))


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
        One thread if None.
    begins : callable or None, default=None
        Called with a `SearchStep` before a candidate is learnt on a fold.
    chance : float, default=0.0
        The score of a map without any information.

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
        evaluate: Callable[[int, Problem], FoldScore],
        report: Callable[[Trial], None],
        trials: dict[str, list[Trial]] | None = None,
        workers: Workers | None = None,
        begins: Callable[[SearchStep], None] | None = None,
        chance: float = 0.0,
    ) -> None:
        self.folds, self.evaluate, self.report = folds, evaluate, report
        self.finished = {} if trials is None else trials
        self.workers = Workers(1) if workers is None else workers
        self.begins, self.chance = begins, chance
        self.trials: list[Trial] = []
        self.stages: list[str] = []
        self.reason = ""

    def rank(
        self, candidates: Sequence[int], alpha: float, with_rank: Callable[[int], Map]
    ) -> Trial:
        """Increase the rank until this no longer helps; [Oneata2011] section 5.3."""

        def should_stop(trials: list[Trial]) -> bool:
            best = int(np.argmax([trial.mean for trial in trials]))
            return len(trials) - 1 - best >= _PATIENCE

        changes = [{"mapping": with_rank(d), "alpha": alpha} for d in candidates]
        parameters = [{"n_components": d, "alpha": alpha} for d in candidates]
        trials = self._evaluate_all("n_components", parameters, changes, should_stop)
        return sparing(trials, _RANK_ERRORS)

    def alpha(self, candidates: Sequence[float], d: int) -> Trial:
        """Decrease the penalty from a strong one on, until this no longer helps.

        Each map has a start of its own, as the fit will have: a path of maps, each of which
        continues the last, ends at lower losses and worse scores.
        """

        def should_stop(trials: list[Trial]) -> bool:
            # continue on a plateau, where all maps may still be collapsed
            best = max(trials, key=lambda trial: trial.mean)
            gaps = [trial.behind(best) for trial in trials[-_ALPHA_PATIENCE:]]
            return len(trials) > _ALPHA_PATIENCE and all(gap > error for gap, error in gaps)

        parameters = [{"n_components": d, "alpha": alpha} for alpha in candidates]
        changes = [{"alpha": alpha} for alpha in candidates]
        trials = self._evaluate_all("alpha", parameters, changes, should_stop)
        return sparing(trials, _ALPHA_ERRORS)

    def _evaluate_all(
        self,
        stage: str,
        parameters: list[dict[str, Any]],
        changes: list[dict[str, Any]],
        should_stop: Callable[[list[Trial]], bool],
    ) -> list[Trial]:
        """Evaluate candidates in order until ``should_stop``.

        If the search is stopped, the finished candidates are kept; without any, `Stopped` is
        raised.
        """
        trials = self.finished.setdefault(stage, [])
        for trial in trials:  # of a fit that was cut
            self.trials.append(trial)
            self.stages.append(stage)
        first, n_folds = len(trials), len(self.folds)
        values = [candidate[stage] for candidate in parameters]

        def tasks() -> Iterator[tuple[int, int]]:
            for number in range(first, len(parameters)):
                for fold in range(n_folds):
                    if self.begins is not None:
                        self.begins(self._step(stage, values, number, fold))
                    yield number, fold

        def learnt(task: tuple[int, int]) -> FoldScore:
            number, fold = task
            return self.evaluate(fold, self.folds[fold].replace(**changes[number]))

        found = self.workers.results(learnt, tasks())
        try:
            for number in range(first, len(parameters)):
                if trials and should_stop(trials):
                    break
                scored = [next(found) for _ in range(n_folds)]
                trial = self._trial(parameters[number], scored)
                trials.append(trial)
                self.trials.append(trial)
                self.stages.append(stage)
                self.report(trial)
        except (Stopped, KeyboardInterrupt) as stop:
            self.reason = str(stop) or "interrupted"
        finally:
            found.close()  # type: ignore[attr-defined]
        if not trials:
            raise Stopped(self.reason)
        return trials

    def _trial(self, parameters: dict[str, Any], scored: list[FoldScore]) -> Trial:
        scores = np.array([fold.score for fold in scored])
        collapsed = any(fold.collapsed for fold in scored)
        return Trial(parameters, scores, bool(collapsed or np.mean(scores) <= self.chance))

    def _step(self, name: str, values: list[Any], number: int, fold: int) -> SearchStep:
        """Where the search stands when a candidate is about to be learnt on a fold."""
        best, tried = None, self.finished[name]
        if tried:
            top = max(tried, key=lambda trial: trial.mean)
            best = ({name: top.parameters[name]}, top.mean)
        candidate = {name: values[number]}
        return SearchStep(candidate, number + 1, len(values), fold + 1, len(self.folds), best)

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
