"""A fit on the command line: progress, limits, checkpoints, and Ctrl-C."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from vicinal.cli._console import Console, Interrupt
from vicinal.cli._exit import Failure
from vicinal.cli._types import near


@dataclass(frozen=True)
class Limits:
    """What bounds a fit, and where it is kept meanwhile."""

    time_budget: float | None = None
    threads: int | None = None
    checkpoint: Path | None = None
    every: int = 10
    resume: Path | None = None


@dataclass(frozen=True)
class Outcome:
    """How a fit went.

    Parameters
    ----------
    seconds : float
        How long it took.
    iterations : int or None
        None for closed forms.
    ending : str
        How it ended, in words.
    converged : bool
        Whether nothing cut it short.
    interrupted : bool
        Whether Ctrl-C ended it.
    """

    seconds: float
    iterations: int | None
    ending: str
    converged: bool
    interrupted: bool

    def words(self) -> str:
        """How it ended, for people."""
        after = "" if self.iterations is None else f" after {self.iterations} iterations"
        how = "Finished" if self.converged else self.ending.capitalize()
        return f"{how}{after}, in {self.seconds:.1f} s."

    def facts(self) -> dict[str, Any]:
        """For the JSON object of a command."""
        return {
            "seconds": round(self.seconds, 3),
            "iterations": self.iterations,
            "ending": self.ending,
            "converged": self.converged,
            "interrupted": self.interrupted,
        }


class _Watch:
    """A callback that stops a fit after Ctrl-C, and hears how it ends.

    Ctrl-C ends a search for parameters alone; the fit after it has to be stopped too.
    """

    def __init__(self, interrupt: Interrupt) -> None:
        self.interrupt, self.ending = interrupt, ""

    def setup(self, estimator: Any, context: Any) -> None:
        """Nothing to prepare."""

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Nothing to note."""

    def on_fit_task_end(self, estimator: Any, context: Any) -> bool:
        """Whether to stop."""
        return self.interrupt.seen

    def on_fit_activity(self, estimator: Any, context: Any, activity: Any) -> None:
        """Note how the fit ends."""
        if activity.ends:
            self.ending = activity.words

    def teardown(self, estimator: Any, context: Any) -> None:
        """Nothing to clean up."""


@contextmanager
def watched(console: Console, pipeline: Any, limits: Limits) -> Iterator[_Watch]:
    """Watch the fits of a pipeline in this block, and bound them."""
    learner = learner_of(pipeline)
    watch = _Watch(Interrupt(console))
    callbacks = _callbacks(console, learner, limits)
    if callbacks is not None:
        learner.set_callbacks(watch, *callbacks)
    try:
        # With verbose=1 estimators print, and standard output is for the result.
        with watch.interrupt, thread_limit(limits.threads), redirect_stdout(sys.stderr):
            yield watch
    finally:
        if callbacks is not None:
            learner.set_callbacks()


def learner_of(pipeline: Any) -> Any:
    """The estimator that iterates."""
    last = pipeline.steps[-1][1] if hasattr(pipeline, "steps") else pipeline
    return getattr(last, "learner", last)  # that of FromLabels, whose clone keeps its callbacks


def learn(console: Console, pipeline: Any, X: Any, y: Any, limits: Limits) -> Outcome:
    """Fit a pipeline in place."""
    step, last = pipeline.steps[-1]
    resume = {} if limits.resume is None else {f"{step}__resume_from": limits.resume}
    before = time.perf_counter()
    with watched(console, pipeline, limits) as watch:
        try:
            pipeline.fit(X, y, **resume)
        except KeyboardInterrupt:
            raise Failure(
                "Interrupted before there was a model: nothing was written.", 130
            ) from None
    interrupted = watch.interrupt.seen
    ending = "interrupted" if interrupted else watch.ending
    if ending in ("", "finished"):
        ending = "not converged" if console.warned("ConvergenceWarning") else "converged"
    return Outcome(
        seconds=time.perf_counter() - before,
        iterations=getattr(getattr(last, "learner_", last), "n_iter_", None),
        ending=ending,
        converged=ending == "converged",
        interrupted=interrupted,
    )


def _callbacks(console: Console, learner: Any, limits: Limits) -> list[Any] | None:
    """What watches the fit; None if the method makes no iterations that could be watched."""
    from vicinal.fit.report import HAS_CALLBACKS

    name = type(learner).__name__
    iterates = hasattr(learner, "set_callbacks")
    for asked, option in ((limits.checkpoint, "--checkpoint"), (limits.resume, "--resume")):
        if asked is not None and not iterates:
            raise click.UsageError(f"{option}: {name} makes no iterations to keep.")
    if limits.resume is not None and not limits.resume.exists():
        raise Failure(f"{limits.resume}: there is no such checkpoint.")
    needs_stop = limits.time_budget is not None and "time_budget" not in learner.get_params()
    if needs_stop and not iterates:
        raise click.UsageError(f"--time-budget: {name} makes no iterations that could be cut.")
    if not iterates:
        return None
    if not HAS_CALLBACKS:
        if limits.checkpoint is not None or needs_stop:
            learner.set_callbacks(object())  # says which scikit-learn it needs
        return None
    from vicinal import callbacks

    chosen: list[Any] = []
    if console.shows_progress:
        chosen.append(callbacks.Progress())
    if needs_stop:
        chosen.append(callbacks.StopAfter(seconds=limits.time_budget))
    if limits.checkpoint is not None:
        chosen.append(callbacks.Checkpoint(limits.checkpoint, every=limits.every))
    return chosen


@contextmanager
def thread_limit(threads: int | None) -> Iterator[None]:
    """Use at most so many threads; None: all cores."""
    if threads is None:
        yield
        return
    import sklearn.utils  # noqa: F401  (loads the OpenMP runtime that is to be limited)
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=threads):
        yield


def check_settings(method: str, settings: dict[str, Any], names: Any) -> None:
    """Refuse a parameter that the method does not have."""
    names = sorted(names)
    for name in settings:
        if name not in names:
            raise click.UsageError(
                f"--set: {method} has no parameter {name!r}.{near(name, names)} It has "
                f"{', '.join(names)}."
            )
