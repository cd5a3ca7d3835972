"""Callbacks for a running fit: show it, stop it, save it, record it.

They follow scikit-learn's ``FitCallback`` protocol (scikit-learn >= 1.9).  Set them on the
estimator that iterates, alone or inside a ``Pipeline`` or a search::

    NCA().set_callbacks(Progress(), StopAfter(seconds=60), Checkpoint("nca.vic")).fit(X, y)

The loss and the held-out score come from the estimator's ``history_``, which grows during the
fit.  To watch a whole ``Pipeline`` or ``GridSearchCV``, use ``sklearn.callback.ProgressBar``.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from typing import Any

from vicinal import _clock
from vicinal._public import listing as _listing
from vicinal.callbacks._base import Callback, check_count
from vicinal.callbacks._checkpoint import Checkpoint
from vicinal.callbacks._display import Status, open_display, require_rich
from vicinal.core.types import Activity

__all__ = ["Checkpoint", "Frames", "Progress", "StopAfter"]
__dir__ = _listing(__name__)


class StopAfter(Callback):
    """Stop a fit when its time is up or its loss is low enough.

    The fit ends as it would at `max_iter`: the best map so far is kept.

    Parameters
    ----------
    seconds : float or None, default=None
        Stop after the first iteration that ends this long after the start of the fit.
    loss : float or None, default=None
        Stop after the first iteration with a loss no greater than this.
    """

    def __init__(self, seconds: float | None = None, loss: float | None = None) -> None:
        if seconds is None and loss is None:
            raise ValueError("StopAfter needs 'seconds' or 'loss'. Got None for both instead.")
        if seconds is not None and not seconds >= 0:
            raise ValueError(
                "The 'seconds' parameter of StopAfter must be a float in [0, inf). "
                f"Got {seconds!r} instead."
            )
        self.seconds = seconds
        self.loss = loss
        # One instance may serve several fits at once: clones share their callbacks.
        self._began: dict[int, float] = {}

    def __getstate__(self) -> dict[str, Any]:
        # The monotonic clocks of two processes may have different zeros.
        return {**self.__dict__, "_began": {}}

    def setup(self, estimator: Any, context: Any) -> None:
        """Start the clock."""
        self._began[id(context)] = time.monotonic()

    def on_fit_task_end(self, estimator: Any, context: Any) -> bool:
        """Return True if the fit should stop."""
        began = self._began.get(id(context.parent))
        if began is None:  # not an iteration of the estimator this callback was set on
            return False
        if self.seconds is not None and time.monotonic() - began >= self.seconds:
            return True
        loss = _latest(estimator, "loss")
        return self.loss is not None and loss is not None and loss <= self.loss

    def teardown(self, estimator: Any, context: Any) -> None:
        """Forget the fit."""
        self._began.pop(id(context), None)


class Frames(Callback):
    """Record the embedding every few iterations, for :func:`vicinal.plotting.animate`.

    For estimators that learn places of the training rows, and show them during the fit as
    ``embedding_``, such as ``KSNE``.  Frames are centred, since float32 would lose the shape of a
    picture that is small and far from the origin.  They take at most
    ``max_frames * n * n_components * 4`` bytes.  Of several fits that share one instance, such as
    those of a search, the frames of the one that began last are kept.

    Parameters
    ----------
    every : int, default=1
        Number of iterations between two frames.
    max_frames : int, default=200
        When there are more frames than this, every other one is dropped, and from then on twice as
        many iterations pass between two frames: they stay evenly spaced, whatever the fit's length.

    Attributes
    ----------
    iterations : list of int
        After which iteration each frame was taken.  The last frame is that of the finished fit.
    embeddings : list of float32 ndarray of shape (n, n_components)
    """

    def __init__(self, every: int = 1, max_frames: int = 200) -> None:
        check_count("Frames", "every", every, 1)
        check_count("Frames", "max_frames", max_frames, 2)
        self.every, self.max_frames = every, max_frames
        self._begin(None)

    def __getstate__(self) -> dict[str, Any]:
        # The fit's context belongs to the process that runs it.
        return {**self.__dict__, "_context": None}

    def _begin(self, context: Any) -> None:
        self._context, self._step, self._done = context, self.every, 0
        self.iterations: list[int] = []
        self.embeddings: list[Any] = []

    def setup(self, estimator: Any, context: Any) -> None:
        """Forget the frames of a former fit."""
        self._begin(context)

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        """Record the embedding if it is due; always at the end of the fit."""
        ended = context is self._context
        if not ended and (context.parent is None or context.parent is not self._context):
            return  # a task of another fit
        self._done += not ended
        if ended and self.iterations[-1:] == [self._done]:  # the fit may keep a better one
            del self.iterations[-1], self.embeddings[-1]
        if len(self.iterations) == self.max_frames and (ended or self._done % self._step == 0):
            self._step *= 2
            kept = [i for i, at in enumerate(self.iterations) if at % self._step == 0]
            self.iterations[:] = [self.iterations[i] for i in kept]
            self.embeddings[:] = [self.embeddings[i] for i in kept]
        if ended or self._done % self._step == 0:
            self.iterations.append(self._done)
            self.embeddings.append(_embedding(estimator))


class Progress(Callback):
    """Show what a fit does: iteration, loss, time left, and what it does between iterations.

    On standard error: one line that is updated in a terminal or a notebook, plain lines elsewhere.
    The time left is the time up to `max_iter` at the recent pace, without compilation; a fit that
    converges ends sooner.  While "auto" searches, the line shows the candidate, the fold and the
    best candidate so far.  Needs rich: ``pip install rich``.

    Parameters
    ----------
    console : rich.console.Console or None, default=None
        Where to write; None for standard error.  It is not pickled with the callback.
    interval : float, default=1.0
        Minimum number of seconds between two plain lines, or two updates in a notebook; 0 for a
        line per iteration.
    """

    def __init__(self, console: Any = None, interval: float = 1.0) -> None:
        require_rich()
        self.console = console
        self.interval = interval
        self._forget_display()

    def __getstate__(self) -> dict[str, Any]:
        # A live display and its console hold locks and threads.
        return {"console": None, "interval": self.interval}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget_display()

    def _forget_display(self) -> None:
        # Clones share their callbacks, so fits in several threads share one display.
        self._lock = threading.Lock()
        self._runs: dict[int, _Run] = {}
        self._display: Any = None

    def setup(self, estimator: Any, context: Any) -> None:
        """Open the display, unless another fit has already done so."""
        require_rich()
        with self._lock:
            if self._display is None:
                self._display = open_display(self.console, self.interval)
            name = type(estimator).__name__
            self._runs[id(context)] = _Run(context, self._display.add(name))

    def on_fit_activity(self, estimator: Any, context: Any, activity: Activity) -> None:
        """Show what the fit is doing now."""
        with self._lock:
            run = self._runs.get(id(context))
            if run is not None and run.does(activity):
                self._display.show(run.row, run.status(estimator))

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        """Show the iteration that has ended, or the end of the fit."""
        with self._lock:
            if (run := self._runs.get(id(context))) is not None:
                self._display.show(run.row, run.finished(estimator))
            elif (run := self._runs.get(id(context.parent))) is not None:
                run.advance()
                self._display.show(run.row, run.status(estimator))

    def teardown(self, estimator: Any, context: Any) -> None:
        """Close the display after the last of its fits."""
        with self._lock:
            run = self._runs.pop(id(context), None)
            error = sys.exc_info()[0]
            if run is not None and error is not None and not run.ended:
                run.ending = "interrupted" if error is KeyboardInterrupt else "failed"
                self._display.show(run.row, run.finished(estimator))
            if not self._runs and self._display is not None:
                self._display.close()
                self._display = None


class _Run:
    """The progress of one fit."""

    def __init__(self, context: Any, row: Any) -> None:
        self.context = context  # kept alive: its id is the key of this run
        self.row = row
        self.done = 0
        self.limit = context.max_subtasks
        self.activity = Activity()
        self.ending, self.ended = "finished", False
        self.began = _clock.now()
        self.pace = _clock.Pace()

    def does(self, activity: Activity) -> bool:
        """Note what the fit is doing; return whether that is worth a line of its own."""
        if activity.ends:
            self.ending = activity.words
            return False
        if not activity.words and self.activity.words and not self.done:
            self.pace = _clock.Pace()  # the iterations begin now
        self.activity = activity
        if not activity.words:
            self.limit = activity.total
        return bool(activity.words)

    def advance(self) -> None:
        """Count an iteration of the fit; iterations of a search are not counted."""
        if not self.activity.words:
            self.done += 1
            self.pace.count()

    def status(self, estimator: Any) -> Status:
        """What to show now."""
        now = self.activity
        if now.words:
            done, total = (now.done, now.total) if now.total else (self.done, None)
            return Status([now.words, *now.details], done or 0, total, news=not now.recurs)
        parts = [self._iteration(), *self._losses(estimator)]
        left = None if self.limit is None else self.pace.left(self.limit - self.done)
        if left:
            parts.insert(1, f"at most {_clock.duration(left)} left")
        return Status(parts, self.done, self.limit)

    def finished(self, estimator: Any) -> Status:
        """The last line: how the fit ended, and how long it took."""
        self.ended = True
        took = _clock.duration(_clock.now() - self.began)
        end = f"{self.ending} {'in' if self.ending == 'finished' else 'after'} {took}"
        return Status([self._iteration(), end, *self._losses(estimator)], self.done, last=True)

    def _iteration(self) -> str:
        limit = "" if self.limit is None else f"/{max(self.limit, self.done)}"
        return f"iteration {self.done}{limit}"

    def _losses(self, estimator: Any) -> list[str]:
        parts = []
        if (loss := _latest(estimator, "loss")) is not None:
            parts.append(f"loss {loss:.6g}")
        if (score := _latest(estimator, "validation_score")) is not None:
            parts.append(f"held-out loss {-score:.4f}")  # the score is minus the loss
        return parts


def _embedding(estimator: Any) -> Any:
    """A centred copy of the live embedding: the fit moves its points in place."""
    places = getattr(estimator, "embedding_", None)
    if places is None:
        raise AttributeError(
            "The callback Frames needs an estimator that shows its embedding during the fit as "
            f"'embedding_'. {type(estimator).__name__} does not."
        )
    return (places - places.mean(axis=0)).astype("float32")


def _latest(estimator: Any, name: str) -> float | None:
    """Return the newest entry of the live history, or None if it is missing or NaN."""
    values = getattr(estimator, "history_", {}).get(name)
    if not values or values[-1] is None or math.isnan(values[-1]):
        return None
    return float(values[-1])
