"""Reports on a running fit: printed lines for the user, and scikit-learn's callbacks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from vicinal import _clock
from vicinal.core.loop import Iteration
from vicinal.core.problem import Problem
from vicinal.core.stages import RunSnapshot
from vicinal.fit.callbacks import IterationReporter
from vicinal.fit.display import Activity
from vicinal.fit.workers import Workers

_SAY_EVERY = 10.0  # seconds between printed lines about a search that is slow
_COMPILING = "compiling for this machine"
#: how a fit ended, by the reason of its last run; others mean convergence
_ENDINGS = {
    "interrupted": "interrupted",
    "callback": "stopped by a callback",
    "time_budget": "stopped by the time budget",
    "non_finite": "stopped by an infinite loss",
}


class IterationReport(NamedTuple):
    """What callbacks receive: an iteration, its problem, and where the fit stands.

    ``snapshot`` is None during a start; ``path`` is the name of the run.
    """

    history: dict[str, list]
    info: Iteration
    problem: Problem
    snapshot: RunSnapshot | None
    searching: bool = False
    path: tuple[str | int, ...] = ()


class SearchStep(NamedTuple):
    """Where a search stands: a candidate in one fold, and the best candidate so far.

    Parameters
    ----------
    candidate : dict
        The parameters that are being tried.
    number, n_candidates : int
        Number of the candidate, from 1, and of all candidates; the search may end sooner.
    fold, n_folds : int
        Number of the fold, from 1, and of all folds.
    best : (dict, float) or None
        The best candidate so far, and its accuracy on held-out rows.
    """

    candidate: Mapping[str, float]
    number: int
    n_candidates: int
    fold: int
    n_folds: int
    best: tuple[Mapping[str, float], float] | None = None

    def activity(self, pace: _clock.Pace) -> Activity:
        """It as an activity; ``pace`` counts the folds."""
        fold = f"fold {self.fold}/{self.n_folds}"
        total = self.n_candidates * self.n_folds
        done = (self.number - 1) * self.n_folds + self.fold - 1
        left = pace.left(total - done)
        details = [] if left is None else [f"at most {_clock.duration(left)} left"]
        if self.best is not None:
            details.append(f"best {_values(self.best[0])} ({100 * self.best[1]:.1f} %)")
        words = f"candidate {self.number}/{self.n_candidates}: {_values(self.candidate)}, {fold}"
        return Activity(words, tuple(details), done, total, recurs=True)


class Reports:
    """Prints and reports what one fit does.

    Parameters
    ----------
    name : str
        Name of the estimator.
    verbose : int
        Whether to print.
    report : IterationReporter or None, default=None
        Calls the callbacks; it is added once the fit begins.
    """

    def __init__(self, name: str, verbose: int, report: IterationReporter | None = None) -> None:
        self.name, self.verbose, self.report = name, verbose, report
        self._has_heading = self._has_compiled = False
        self._search_pace: _clock.Pace | None = None
        self._search_said = 0.0

    def say(self, words: str) -> None:
        """Print a line if ``verbose``."""
        if self.verbose:
            print(f"[{self.name}] {words}")

    def doing(self, words: str) -> None:
        """Tell the callbacks about a part of the fit that is not an iteration of it."""
        if self.report is not None:
            self.report.begin(Activity(words))

    def expect(self, max_iter: int) -> None:
        """Tell the callbacks how many iterations there will be at most."""
        if self.report is not None:
            self.report.max_iter = max_iter

    def searching(self, step: SearchStep) -> None:
        """Report that a search begins to learn a candidate on a fold."""
        if self._search_pace is None:
            self._search_pace, self._search_said = _clock.Pace(), _clock.now()
        else:
            self._search_pace.count()
        activity = step.activity(self._search_pace)
        if _clock.now() - self._search_said >= _SAY_EVERY:
            self._search_said = _clock.now()
            self.say("  ".join([activity.words, *activity.details]))
        if self.report is not None:
            self.report.begin(activity)

    def search_ended(self) -> None:
        """Forget the pace of the search that has ended."""
        self._search_pace = None

    @contextmanager
    def watching_compilation(self) -> Iterator[None]:
        """Report when something is compiled inside this context."""
        with _clock.watch_compilation(self._compiling):
            yield

    def _compiling(self) -> None:
        if not self._has_compiled:
            self._has_compiled = True
            self.say(f"{_COMPILING}: the compiled code is kept for later fits")
        if self.report is not None:
            self.report.tell(Activity(_COMPILING))

    def on_iteration(
        self, searching: bool = False, path: tuple[str | int, ...] = ()
    ) -> Callable[..., bool]:
        """The function that `train` calls after each iteration; it returns whether to stop."""

        def report(info: Iteration, problem: Problem, snapshot: RunSnapshot | None) -> bool:
            history = info.history
            if searching:  # the losses of a search are not those of the fit
                history = {**history, "loss": [math.nan]}
            else:
                self._say_iteration(info, problem.held_out is not None)
            # the start is iteration 0, but callbacks count from 1
            if info.iteration == 0 or self.report is None:
                return False
            stop = self.report(IterationReport(history, info, problem, snapshot, searching, path))
            # a stop requested during a search also applies to the fit
            return stop or self.report.stopped

        return report

    def _say_iteration(self, info: Iteration, scored: bool) -> None:
        if not self._has_heading:
            self._has_heading = True
            self.say(heading(scored))
        self.say(line_of(info, scored))

    def start_reporter(
        self, searching: bool, record: Any, deadline: float | None = None
    ) -> StartReporter:
        """Reports the iterations of a start to callbacks; they, and the deadline, may stop it."""
        return StartReporter(self, searching, record, deadline)

    def close(self, reason: str) -> None:
        """Report the end of the fit, and how it ended."""
        if self.report is not None:
            self.report.close(_ENDINGS.get(reason, "finished"))


class StartReporter:
    """Reports the iterations of a start; as in a search, their losses are not those of the fit.

    ``record``, a `FitRecord`, is told if the start is cut: a fit that resumes this one makes it
    again.
    """

    def __init__(
        self,
        reports: Reports,
        searching: bool,
        record: Any,
        deadline: float | None = None,
    ) -> None:
        self.reports, self.searching, self.record = reports, searching, record
        self.deadline = deadline
        self._report = reports.on_iteration(searching=True)

    @property
    def talks(self) -> bool:
        """Whether lines are printed."""
        return bool(self.reports.verbose) and not self.searching

    def __call__(self, info: Iteration, problem: Problem) -> bool:
        """Report an iteration; return whether a callback or the deadline requests a stop."""
        late = self.deadline is not None and _clock.now() >= self.deadline
        stop = self._report(info, problem, None)
        if stop:
            self.cut()
        return stop or late

    def cut(self) -> None:
        """Note that the start ends before its time."""
        self.record.start_cut = True

    def say(self, words: str) -> None:
        """Print a line if ``talks``."""
        if self.talks:
            self.reports.say(words)


class SearchReports(Reports):
    """Reports from the threads of a search: what they tell the callbacks goes through ``workers``.

    Nothing else is reported from there: the search itself prints its candidates.
    """

    def __init__(self, reports: Reports, workers: Workers) -> None:
        super().__init__(reports.name, verbose=0)
        self.outer, self.workers = reports, workers

    def on_iteration(
        self, searching: bool = True, path: tuple[str | int, ...] = ()
    ) -> Callable[..., bool]:
        """As `Reports.on_iteration`; it also stops what is no longer wanted."""
        report, workers = self.outer.on_iteration(searching=True), self.workers
        root = self.outer.report
        if workers.threads == 1:
            return report
        if root is None or not root.has_callbacks:
            return lambda info, problem, snapshot: workers.stopping

        def ask(info: Iteration, problem: Problem, snapshot: RunSnapshot | None) -> bool:
            return bool(workers.ask(lambda: report(info, problem, snapshot)))

        return ask


def heading(scored: bool = False) -> str:
    """The heading of the lines of `line_of`."""
    score = f" {'held-out loss':>14}" if scored else ""
    return f"{'iteration':>9} {'loss':>14} {'gradient':>10}{score} {'seconds':>10}"


def line_of(step: Any, scored: bool = False) -> str:
    """One line about an iteration, or a step of a stream; a held-out score is minus a loss."""
    score = ""
    if scored:
        value = -step.validation_score
        score = " " * 15 if np.isnan(value) else f" {value:14.6f}"
    return (
        f"{step.iteration:9d} {step.loss:14.8f} {step.grad_norm:10.2e}{score} {step.seconds:10.2f}"
    )


def _values(parameters: Mapping[str, float]) -> str:
    return ", ".join(f"{name}={value:g}" for name, value in parameters.items())
