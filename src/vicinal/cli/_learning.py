"""A fit on the command line: progress, limits, checkpoints, and Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, dataclass
from typing import Any

import click

from vicinal.cli._console import Console, Failure


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
        return {**asdict(self), "seconds": round(self.seconds, 3)}


class _Watch:
    """Hears how a fit ends, and ends it at Ctrl-C: the first keeps the best model so far.

    A second Ctrl-C ends the process.  The first may end a search for parameters alone; as a
    callback, the watch then stops the fit after it too.
    """

    def __init__(self, console: Console) -> None:
        self.console, self.interrupted, self.ending = console, False, ""

    def setup(self, estimator: Any, context: Any) -> None:
        """Nothing to do when a fit, or a task of it, begins, or when the fit has ended."""

    on_fit_task_begin = teardown = setup

    @contextmanager
    def handles_interrupts(self) -> Iterator[None]:
        """Handle SIGINT in this block, if it is in the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGINT, self._interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before or signal.SIG_DFL)

    def _interrupt(self, *_: object) -> None:
        if self.interrupted:
            # Not an exception: the library would take it as a wish to keep what there is.
            show_cursor = "\x1b[?25h" if sys.stderr.isatty() else ""
            os.write(2, f"{show_cursor}\nAborted: nothing was written.\n".encode())
            os._exit(130)
        self.interrupted = True
        self.console.say("\nInterrupted: ending with the best so far. Ctrl-C again aborts.")
        raise KeyboardInterrupt

    def on_fit_task_end(self, estimator: Any, context: Any) -> bool:
        """Whether to stop."""
        return self.interrupted

    def on_fit_activity(self, estimator: Any, context: Any, activity: Any) -> None:
        """Note how the fit ends."""
        if activity.ends:
            self.ending = activity.words


@contextmanager
def watched(console: Console, pipeline: Any, options: dict[str, Any]) -> Iterator[_Watch]:
    """Watch the fits of a pipeline in this block, and bound them as the options say."""
    last = pipeline.steps[-1][1] if hasattr(pipeline, "steps") else pipeline
    learner = getattr(last, "learner", last)  # that of FromLabels, whose clone keeps its callbacks
    watch = _Watch(console)
    callbacks = _callbacks(console, learner, options)
    if callbacks is not None:
        learner.set_callbacks(watch, *callbacks)
    try:
        # With verbose=1 estimators print, and standard output is for the result.
        with (
            watch.handles_interrupts(), thread_limit(options["threads"]),
            redirect_stdout(sys.stderr),
        ):  # fmt: skip
            yield watch
    finally:
        if callbacks is not None:
            learner.set_callbacks()


def learn(console: Console, pipeline: Any, X: Any, y: Any, options: dict[str, Any]) -> Outcome:
    """Fit a pipeline in place."""
    step, last = pipeline.steps[-1]
    resume = options.get("resume")
    before = time.perf_counter()
    with watched(console, pipeline, options) as watch:
        try:
            pipeline.fit(X, y, **({} if resume is None else {f"{step}__resume_from": resume}))
        except KeyboardInterrupt:
            raise Failure(
                "Interrupted before there was a model: nothing was written.", 130
            ) from None
    ending = "interrupted" if watch.interrupted else watch.ending
    if ending in ("", "finished"):
        ending = "not converged" if "ConvergenceWarning" in console.warned else "converged"
    return Outcome(
        seconds=time.perf_counter() - before,
        iterations=getattr(getattr(last, "learner_", last), "n_iter_", None),
        ending=ending,
        converged=ending == "converged",
        interrupted=watch.interrupted,
    )


def _callbacks(console: Console, learner: Any, options: dict[str, Any]) -> list[Any] | None:
    """What watches the fit; None if the method makes no iterations that could be watched."""
    from vicinal.fit.report import HAS_CALLBACKS

    name, seconds = type(learner).__name__, options["time_budget"]
    checkpoint, resume = options.get("checkpoint"), options.get("resume")
    iterates = hasattr(learner, "set_callbacks")
    for asked, option in ((checkpoint, "--checkpoint"), (resume, "--resume")):
        if asked is not None and not iterates:
            raise click.UsageError(f"{option}: {name} makes no iterations to keep.")
    needs_stop = seconds is not None and "time_budget" not in learner.get_params()
    if needs_stop and not iterates:
        raise click.UsageError(f"--time-budget: {name} makes no iterations that could be cut.")
    if not iterates:
        return None
    if not HAS_CALLBACKS:
        if checkpoint is not None or needs_stop:
            learner.set_callbacks(object())  # says which scikit-learn it needs
        return None
    from vicinal import callbacks

    chosen: list[Any] = [callbacks.Progress()] if console.shows_progress else []
    if needs_stop:
        chosen.append(callbacks.StopAfter(seconds=seconds))
    if checkpoint is not None:
        chosen.append(callbacks.Checkpoint(checkpoint, every=options["every"]))
    return chosen


def thread_limit(threads: int | None) -> Any:
    """Use at most this many threads in a block; None: all cores."""
    import sklearn.utils  # noqa: F401  (loads the OpenMP runtime that is to be limited)
    from threadpoolctl import threadpool_limits

    return threadpool_limits(limits=threads)
