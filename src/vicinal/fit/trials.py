"""Candidates of a search, scored on folds one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from vicinal.core.journal import Record
from vicinal.core.problem import Problem
from vicinal.core.types import Array, Map
from vicinal.fit.report import SearchStep

__all__ = ["Search", "Stopped", "Trial", "is_collapsed", "ranks", "sparing"]

#: ranks tried by n_components="auto": all small ones, then in steps of a quarter
_RANKS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 19, 24, 30)
_PATIENCE = 3  # ranks in a row that must fail before the search ends
_ALPHA_PATIENCE = 2  # penalties in a row that must be clearly worse
#: standard errors within which a simpler candidate is as good as the best
_RANK_ERRORS, _ALPHA_ERRORS = 1.0, 0.5
_COLLAPSED = 0.05  # extent of all embedded rows below which all neighbours are about equal


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
