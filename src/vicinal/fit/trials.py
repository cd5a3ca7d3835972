"""The candidates of a search: how each scored, when a search ends, and which of them is taken."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from vicinal.core.problem import Problem
from vicinal.core.types import Array
from vicinal.fit.report import SearchStep
from vicinal.fit.workers import Workers

#: ranks tried by n_components="auto": all small ones, then in steps of a quarter
_RANKS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 19, 24, 30)
_PATIENCE = 3  # ranks in a row that must fail before the search ends
_ALPHA_PATIENCE = 2  # penalties in a row that must be clearly worse
_ERRORS = 1.0  # by which a stronger penalty must be better in a question


class Stopped(Exception):
    """The user, a callback or the time budget has stopped the search."""


class FoldScore(NamedTuple):
    """The held-out score of a candidate in one fold, and whether its map has collapsed.

    ``rows`` has two scores of each single row, by which a question is answered.
    """

    score: float
    collapsed: bool = False
    rows: Array | None = None


class Trial(NamedTuple):
    """One candidate, and its held-out score in each fold.

    ``useless`` means that the penalty has collapsed a map to one point, or that the most common
    class would have been right as often.  ``rows`` are the two scores of each row of a question.
    """

    parameters: dict[str, Any]
    scores: Array
    useless: bool = False
    rows: Array | None = None

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


def _stronger_if_better(trials: list[Trial]) -> Trial:
    """The last, strongest candidate, if one of its scores is clearly better than the first's.

    Useless columns show in the probabilities of the rows, wrong labels in their accuracy.
    """
    first, last = trials[0], trials[-1]
    if first is last or last.useless or first.rows is None or last.rows is None:
        return first
    gap = last.rows - first.rows
    error = gap.std(axis=1, ddof=1) / np.sqrt(gap.shape[1])
    return last if np.any(gap.mean(axis=1) > _ERRORS * error) else first


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


#: for each search: the parameter, when it ends, and which candidate it takes
_RULES: dict[str, tuple[str, Callable[[list[Trial]], bool], Callable[[list[Trial]], Trial]]] = {
    "n_components": ("n_components", _ranks_fail, sparing),
    "alpha": ("alpha", _penalties_fail, partial(sparing, errors=0.5)),
    "is a stronger alpha better?": ("alpha", lambda trials: False, _stronger_if_better),
}


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

    def best(self, search: str, candidates: Sequence[Candidate]) -> Trial:
        """The candidate that the rules of a search take; the simplest comes first.

        Ranks increase and penalties decrease until this no longer helps.  Each map has a start of
        its own, as the fit will have: a path of maps, each of which continues the last, ends at
        lower losses and worse scores.

        If the search is stopped, the finished candidates are kept; without any, `Stopped` is
        raised.
        """
        name, fail, pick = _RULES[search]
        trials = self.trials.setdefault(name, [])
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
        return pick(trials)

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
        return Trial(candidate.parameters, scores, useless, scored[0].rows)

    def results(self) -> dict[str, Any]:
        """All trials in the form of scikit-learn's ``cv_results_``, with the stage of each."""
        trials = [trial for found in self.trials.values() for trial in found]
        stages = [name for name, found in self.trials.items() for _ in found]
        scores = np.full((len(trials), max((len(t.scores) for t in trials), default=1)), np.nan)
        for row, trial in zip(scores, trials, strict=True):
            row[: len(trial.scores)] = trial.scores  # a question has one split
        mean = np.array([trial.mean for trial in trials])
        columns: dict[str, Any] = {"params": [dict(trial.parameters) for trial in trials]}
        for name in ("n_components", "alpha"):
            columns[f"param_{name}"] = np.array([t.parameters[name] for t in trials])
        columns["stage"] = np.array(stages, dtype=str)
        columns |= {f"split{f}_test_score": column for f, column in enumerate(scores.T)}
        columns |= {
            "mean_test_score": mean,
            "std_test_score": np.array([np.std(t.scores) for t in trials]),
        }
        columns["rank_test_score"] = 1 + np.sum(mean > mean[:, None], axis=1)
        return columns
