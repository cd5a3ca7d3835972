"""The clock of a fit: the time now, and how much of it went into compilation.

Compilation happens once; paces and predictions leave it out.  The listener that counts it is
registered by ``kernels/_jit.py``, so that a fit without kernels does not import numba.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter

#: seconds on a clock that never goes back; all time limits of a fit are read off it
now = perf_counter
_RECENT = 20  # a pace is that of the latest pieces of work

_lock = threading.RLock()
_depth = 0  # a kernel compiles its helpers, so compilations are nested
_began = 0.0
_total = 0.0
_watchers: list[Callable[[], None]] = []


def compiled_seconds() -> float:
    """Seconds that this process has spent compiling so far."""
    with _lock:
        return _total + (now() - _began if _depth else 0.0)


def count_compilation(begins: bool) -> None:
    """Note that a compilation begins or ends."""
    global _depth, _began, _total
    with _lock:
        if begins and _depth == 0:
            _began = now()
        if not begins and _depth == 1:
            _total += now() - _began
        _depth += 1 if begins else -1
        told = list(_watchers) if begins and _depth == 1 else []
    for watcher in told:
        watcher()


@contextmanager
def watch_compilation(watcher: Callable[[], None]) -> Iterator[None]:
    """Call ``watcher()`` whenever a compilation begins."""
    with _lock:
        _watchers.append(watcher)
    try:
        yield
    finally:
        with _lock:
            _watchers.remove(watcher)


class Pace:
    """How fast pieces of work of about equal length are done, without compilation."""

    def __init__(self) -> None:
        self._times = deque([self._working()], maxlen=_RECENT + 1)

    @staticmethod
    def _working() -> float:
        return now() - compiled_seconds()

    def count(self) -> None:
        """Note that one more piece is done."""
        self._times.append(self._working())

    def left(self, pieces: int) -> float | None:
        """Seconds that this many pieces will take; None before the first is done."""
        done = len(self._times) - 1
        if done == 0:
            return None
        return max(pieces, 0) * max(self._times[-1] - self._times[0], 0.0) / done


def duration(seconds: float) -> str:
    """A duration as m:ss or h:mm:ss, rounded up."""
    minutes, rest = divmod(math.ceil(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
