"""Reports on a running fit: printed lines for the user, and scikit-learn's callbacks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from vicinal._callback_support import IterationReporter
from vicinal.core.loop import Iteration
from vicinal.core.problem import Problem
from vicinal.core.state import FitState

__all__ = ["IterationReport", "Reports", "StartReporter"]


class IterationReport(NamedTuple):
    """What callbacks receive: an iteration, its problem, and a function that gives its state."""

    history: dict[str, list]
    info: Iteration
    problem: Problem
    state: Callable[[], FitState | None]
    searching: bool = False


class Reports:
    """Prints and reports the iterations of one fit.

    Parameters
    ----------
    name : str
        Name of the estimator.
    verbose : int
        Whether to print.
    report : IterationReporter
        Calls the callbacks.
    """

    def __init__(self, name: str, verbose: int, report: IterationReporter) -> None:
        self.name, self.verbose, self.report = name, verbose, report

    def say(self, words: str) -> None:
        """Print a line if ``verbose``."""
        if self.verbose:
            print(f"[{self.name}] {words}")

    def on_iteration(self, searching: bool = False) -> Callable[..., bool]:
        """The function that `train` calls after each iteration; it returns whether to stop."""

        def report(info: Iteration, problem: Problem, state: Callable[[], FitState | None]) -> bool:
            history = info.history
            if searching:  # the losses of a search are not those of the fit
                history = {**history, "loss": [math.nan]}
            elif self.verbose:
                score = "" if np.isnan(info.validation_score) else f" {info.validation_score:12.6f}"
                self.say(
                    f"{info.iteration:5d} {info.loss:14.8f} "
                    f"{info.grad_norm:10.2e}{score} {info.seconds:9.2f}s"
                )
            # the start is iteration 0, but callbacks count from 1
            if info.iteration == 0:
                return False
            stop = self.report(IterationReport(history, info, problem, state, searching))
            # a stop requested during a search also applies to the fit
            return stop or self.report.stopped

        return report

    def start_reporter(self, searching: bool) -> StartReporter:
        """Reports the iterations of a start."""
        return StartReporter(self, searching)


class StartReporter:
    """Reports the iterations of a start; as in a search, their losses are not those of the fit."""

    def __init__(self, reports: Reports, searching: bool) -> None:
        self.reports, self.searching = reports, searching
        self._report = reports.on_iteration(searching=True)

    @property
    def talks(self) -> bool:
        """Whether lines are printed."""
        return bool(self.reports.verbose) and not self.searching

    def __call__(self, info: Iteration, problem: Problem) -> bool:
        """Report an iteration; return whether a callback requests a stop."""
        return self._report(info, problem, lambda: None)

    def say(self, words: str) -> None:
        """Print a line if ``talks``."""
        if self.talks:
            self.reports.say(words)
