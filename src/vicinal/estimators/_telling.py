"""Who hears of a running fit: the user, by printed lines, and scikit-learn's callbacks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from vicinal._callback_support import IterationReporter
from vicinal.core.loop import Iteration
from vicinal.core.problem import Problem
from vicinal.core.state import FitState

__all__ = ["IterationReport", "Reports", "StartTeller"]


class IterationReport(NamedTuple):
    """What the callbacks are told of: an iteration, where it was made, how to go on from it."""

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
        Of the estimator.
    verbose : int
        Whether to print.
    report : IterationReporter
        Tells the callbacks.
    """

    def __init__(self, name: str, verbose: int, report: IterationReporter) -> None:
        self.name, self.verbose, self.report = name, verbose, report

    def say(self, words: str) -> None:
        """Print a line, if the user wants lines."""
        if self.verbose:
            print(f"[{self.name}] {words}")

    def on_iteration(self, searching: bool = False) -> Callable[..., bool]:
        """What `train` calls after each iteration; whether a callback asks to stop."""

        def tell(info: Iteration, problem: Problem, state: Callable[[], FitState | None]) -> bool:
            history = info.history
            if searching:  # the losses of a search are not those of the fit
                history = {**history, "loss": [math.nan]}
            elif self.verbose:
                score = "" if np.isnan(info.validation_score) else f" {info.validation_score:12.6f}"
                self.say(
                    f"{info.iteration:5d} {info.loss:14.8f} "
                    f"{info.grad_norm:10.2e}{score} {info.seconds:9.2f}s"
                )
            # the start is iteration 0: callbacks count from 1
            if info.iteration == 0:
                return False
            stop = self.report(IterationReport(history, info, problem, state, searching))
            # what was asked of a search holds for the fit too
            return stop or self.report.stopped

        return tell

    def teller(self, searching: bool) -> StartTeller:
        """What hears of the iterations that a start makes."""
        return StartTeller(self, searching)


class StartTeller:
    """Hears of the iterations that a start makes: like those of a search, of other losses."""

    def __init__(self, reports: Reports, searching: bool) -> None:
        self.reports, self.searching = reports, searching
        self._tell = reports.on_iteration(searching=True)

    @property
    def talks(self) -> bool:
        """Whether lines are printed."""
        return bool(self.reports.verbose) and not self.searching

    def __call__(self, info: Iteration, problem: Problem) -> bool:
        """Report an iteration; whether a callback asks to stop."""
        return self._tell(info, problem, lambda: None)

    def say(self, words: str) -> None:
        """Print a line, if the user wants lines."""
        if self.talks:
            self.reports.say(words)
