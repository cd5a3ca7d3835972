"""Peak memory of a call, as the system counts it (Linux only; None elsewhere)."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["give_back", "measure", "resident"]


def resident() -> int | None:
    """Bytes of this process that are in memory now, or None where the system does not tell."""
    return _status("VmRSS:")


def _status(key: str) -> int | None:
    """Bytes from the process' status, or None where the system has no such file."""
    try:
        text = Path("/proc/self/status").read_text()
    except OSError:
        return None
    return 1024 * int(text.split(key)[1].split()[0])


def _reset_peak() -> bool:
    """Let the high-water mark start again; False where that cannot be done."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def give_back() -> None:
    """Return freed memory to the system: it would hide what is allocated next."""
    import ctypes
    import gc

    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError):  # not glibc
        pass


def measure(function: Callable[[], Any], baseline: int | None) -> tuple[float, int | None]:
    """Seconds of a call and the peak of its memory over the baseline."""
    known = _reset_peak() and baseline is not None
    began = time.perf_counter()
    function()
    took = time.perf_counter() - began
    peak = _status("VmHWM:") if known else None
    return took, None if peak is None or baseline is None else max(0, peak - baseline)
