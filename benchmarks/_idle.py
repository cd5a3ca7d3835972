"""Whether the machine is idle: how many cores other programs keep busy while this one sleeps."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np

__all__ = ["BUSY", "Others", "busy_cores", "wait_until_idle"]

#: cores in use by other programs from which on times are not written to a report
BUSY = 0.3


def _ticks() -> tuple[int, int] | None:
    """Ticks of all cores since the start of the machine, and those in which they were idle."""
    try:
        line = Path("/proc/stat").read_text().splitlines()[0]
    except OSError:
        return None
    ticks = [int(word) for word in line.split()[1:9]]  # what guests take is counted in the first
    return sum(ticks), ticks[3] + ticks[4]


def busy_cores(during: float = 1.0) -> float:
    """Cores in use while this process sleeps; the load average where the system tells no more.

    The load average remembers the minute before, in which a script of ours may have ended.
    """
    before = _ticks()
    time.sleep(during)
    after = _ticks()
    if before is None or after is None or after[0] == before[0]:
        return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    idle = (after[1] - before[1]) / (after[0] - before[0])
    return (1.0 - idle) * (os.cpu_count() or 1)


def wait_until_idle(patience: float) -> float:
    """Wait up to some seconds for other programs to rest; returns the cores that they last used."""
    began = time.perf_counter()
    load = busy_cores()
    while load >= BUSY and time.perf_counter() - began < patience:
        time.sleep(1.0)
        load = busy_cores()
    return load


class Others:
    """What other programs use of the machine while our processes run; a context for each.

    Our part is what the processes took that have ended in between; the rest is that of others.
    """

    def __init__(self) -> None:
        self.shares: list[float] = []

    def __enter__(self) -> Others:
        self._began = _ticks(), _own_seconds(), time.perf_counter()
        return self

    def __exit__(self, *error: object) -> None:
        before, own, began = self._began
        after, took = _ticks(), time.perf_counter() - began
        if before is None or after is None or took < 0.5:  # ticks are too coarse for less
            return
        busy = (after[0] - before[0] - after[1] + before[1]) / os.sysconf("SC_CLK_TCK")
        self.shares.append(max(0.0, busy - (_own_seconds() - own)) / took)

    def __str__(self) -> str:
        if not self.shares:
            return "an unknown share of the cores"
        return (
            f"{np.mean(self.shares):.2f} cores on average, {max(self.shares):.2f} during the "
            "fit that was disturbed most"
        )


def _own_seconds() -> float:
    """Seconds of the processor that this process and its ended children took."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
