"""Callbacks for a running fit: show it, stop it, save it.

They follow scikit-learn's ``FitCallback`` protocol (scikit-learn >= 1.9).  Set them on the
estimator that iterates, alone or inside a ``Pipeline`` or a search::

    NCA().set_callbacks(Progress(), StopAfter(seconds=60), Checkpoint("nca.joblib")).fit(X, y)

The loss and the held-out score come from the estimator's ``history_``, which grows during the
fit.  To watch a whole ``Pipeline`` or ``GridSearchCV``, use ``sklearn.callback.ProgressBar``.
"""

from __future__ import annotations

import copy
import math
import os
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

from vicinal._atomic import replace_file

__all__ = ["Checkpoint", "Progress", "StopAfter"]

#: Attributes that scikit-learn sets on an estimator for its callbacks: they belong to the running
#: fit and are not saved.
_RUNTIME_ATTRIBUTES = (
    "_skl_callbacks",
    "_skl_callbacks_to_teardown",
    "_callback_fit_ctx",
    "_parent_callback_ctx",
)

#: Time left is estimated from this many of the latest iterations, because the first ones compile.
_RECENT = 20


class _Callback:
    """Empty hooks: callbacks override those they need."""

    def setup(self, estimator: Any, context: Any) -> None:
        """Get ready; called when a fit begins."""

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Called when a task begins."""

    def teardown(self, estimator: Any, context: Any) -> None:
        """Clean up; called when a fit has ended, also after an error."""


class StopAfter(_Callback):
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


class Checkpoint(_Callback):
    """Save the estimator every few iterations and at the end, as if the fit had stopped there.

    The file is replaced atomically, so it always holds a complete estimator: a killed process
    loses only the iterations since the last save, and the part of a file that it may leave is
    removed by the next save.  Callbacks are not saved.  Fits that share one instance, such as
    those of a search, write to the same file.

    Parameters
    ----------
    path : str or path-like
        The file; missing folders are created.
    every : int, default=10
        Number of iterations between two saves.
    """

    def __init__(self, path: str | os.PathLike[str], every: int = 10) -> None:
        if isinstance(every, bool) or not hasattr(every, "__index__") or every < 1:
            raise ValueError(
                "The 'every' parameter of Checkpoint must be an int in [1, inf). "
                f"Got {every!r} instead."
            )
        self.path = Path(path)
        self.every = every

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Any:
        """Load a saved estimator.  As with any pickle, load only files from sources you trust.

        Parameters
        ----------
        path : str or path-like
            The file that a checkpoint wrote.

        Returns
        -------
        estimator : estimator
            Ready to predict and transform.
        """
        import joblib

        return joblib.load(path)

    def setup(self, estimator: Any, context: Any) -> None:
        """Create the folder now, so that a wrong path fails before the work begins."""
        self.path.parent.mkdir(parents=True, exist_ok=True)

    def wants_fitted_estimator(self, context: Any) -> bool:
        """Whether to save after the task that ends."""
        return _is_root(context) or (context.task_id + 1) % self.every == 0

    def on_fit_task_end(
        self, estimator: Any, context: Any, *, fitted_estimator: Any = None
    ) -> None:
        """Save the estimator when it is due."""
        if fitted_estimator is None or not self.wants_fitted_estimator(context):
            return
        saved = copy.copy(fitted_estimator)
        for name in _RUNTIME_ATTRIBUTES:
            vars(saved).pop(name, None)
        self._write(saved)

    def _write(self, saved: Any) -> None:
        import joblib

        replace_file(self.path, lambda file: joblib.dump(saved, file))


class Progress(_Callback):
    """Show the iteration, loss, held-out score and time left of a fit.

    On standard error: one line that is updated in a terminal, plain lines elsewhere.  The time left
    is the time up to `max_iter` at the recent pace; a fit that converges ends sooner.  Needs rich:
    ``pip install vicinal[progress]``.

    Parameters
    ----------
    console : rich.console.Console or None, default=None
        Where to write; None for standard error.  It is not pickled with the callback.
    interval : float, default=1.0
        Minimum number of seconds between two plain lines; 0 for a line per iteration.
    """

    def __init__(self, console: Any = None, interval: float = 1.0) -> None:
        _require_rich()
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
        _require_rich()
        with self._lock:
            if self._display is None:
                self._display = _open_display(self.console, self.interval)
            name = type(estimator).__name__
            self._runs[id(context)] = _Run(context, self._display.add(name))

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        """Show the iteration that has ended, or the end of the fit."""
        with self._lock:
            if (run := self._runs.get(id(context))) is not None:
                self._display.show(run.row, *run.finished(estimator), last=True)
            elif (run := self._runs.get(id(context.parent))) is not None:
                self._display.show(run.row, *run.advanced(estimator))

    def teardown(self, estimator: Any, context: Any) -> None:
        """Close the display after the last of its fits."""
        with self._lock:
            self._runs.pop(id(context), None)
            if not self._runs and self._display is not None:
                self._display.close()
                self._display = None


class _Run:
    """The progress of one fit, as text."""

    def __init__(self, context: Any, row: Any) -> None:
        self.context = context  # kept alive: its id is the key of this run
        self.row = row
        self.done = 0
        self.began = time.monotonic()
        self.times = deque([self.began], maxlen=_RECENT + 1)

    def advanced(self, estimator: Any) -> tuple[int, int | None, str]:
        """Count an iteration; return the count, the limit and the text."""
        self.done += 1
        self.times.append(time.monotonic())
        parts = self._parts(estimator)
        if self.context.max_subtasks is not None:
            pace = (self.times[-1] - self.times[0]) / (len(self.times) - 1)
            left = max(self.context.max_subtasks - self.done, 0) * pace
            parts.append(f"at most {_clock(left)} left")
        return self.done, self.context.max_subtasks, "  ".join(parts)

    def finished(self, estimator: Any) -> tuple[int, int | None, str]:
        """Return the count, the limit (reached by definition) and the final text."""
        parts = self._parts(estimator)
        parts.append(f"finished in {_clock(time.monotonic() - self.began)}")
        return self.done, self.done, "  ".join(parts)

    def _parts(self, estimator: Any) -> list[str]:
        limit = self.context.max_subtasks
        parts = [f"iteration {self.done}" if limit is None else f"iteration {self.done}/{limit}"]
        if (loss := _latest(estimator, "loss")) is not None:
            parts.append(f"loss {loss:.6g}")
        if (score := _latest(estimator, "validation_score")) is not None:
            parts.append(f"held-out score {score:.4f}")
        return parts


class _PlainLines:
    """A display that prints one line after another, for files and pipes."""

    def __init__(self, console: Any, interval: float) -> None:
        self.console = console
        self.interval = interval

    def add(self, name: str) -> dict[str, Any]:
        return {"name": name, "printed": -math.inf}

    def show(
        self, row: dict[str, Any], done: int, limit: int | None, words: str, last: bool = False
    ) -> None:
        now = time.monotonic()
        if last or now - row["printed"] >= self.interval:
            row["printed"] = now
            line = f"{row['name']}: {words}"
            self.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None: ...


class _LiveLines:
    """A display that updates its lines in place, for terminals."""

    def __init__(self, console: Any) -> None:
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as RichProgress

        self.bars = RichProgress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[words]}", markup=False),
            console=console,
        )
        self.bars.start()

    def add(self, name: str) -> Any:
        return self.bars.add_task(name, total=None, words="")

    def show(self, row: Any, done: int, limit: int | None, words: str, last: bool = False) -> None:
        # rich redraws ten times a second by itself; the first iteration should not wait.
        redraw = last or done == 1
        self.bars.update(row, completed=done, total=limit, words=words, refresh=redraw)

    def close(self) -> None:
        self.bars.stop()


def _open_display(console: Any, interval: float) -> _PlainLines | _LiveLines:
    from rich.console import Console

    if console is None:
        # Not rich's global console: scikit-learn's progress bar may be using it.
        console = Console(stderr=True)
    return _LiveLines(console) if console.is_interactive else _PlainLines(console, interval)


def _require_rich() -> None:
    try:
        import rich  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "vicinal.callbacks.Progress needs the package rich: pip install vicinal[progress]"
        ) from error


def _is_root(context: Any) -> bool:
    """Whether the task is the whole fit of an estimator, alone or inside a meta-estimator."""
    return context.parent is None or context.source_estimator_name is not None


def _latest(estimator: Any, name: str) -> float | None:
    """Return the newest entry of the live history, or None if it is missing or NaN."""
    values = getattr(estimator, "history_", {}).get(name)
    if not values or values[-1] is None or math.isnan(values[-1]):
        return None
    return float(values[-1])


def _clock(seconds: float) -> str:
    """Write a duration as m:ss or h:mm:ss, rounded up."""
    minutes, rest = divmod(math.ceil(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
