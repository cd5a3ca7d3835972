"""The machine on which times were taken: how many cores it has, and whether others used them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from _idle import BUSY, busy_cores

from reproduce.framework.experiment import Done

__all__ = ["cores_and_others", "machine_words"]


def cores_and_others() -> dict[str, Any]:
    """What a timed job records before it begins: its cores, and how many of them others use."""
    return {"cores": os.cpu_count() or 1, "busy cores": busy_cores()}


def machine_words(done: Iterable[Done]) -> str:
    """A sentence for the page; a busy machine is called one."""
    found = [each.result for each in done if "busy cores" in each.result]
    if not found:
        return "How busy the machine was is not known."
    cores = " or ".join(str(n) for n in sorted({each["cores"] for each in found}))
    most = max(each["busy cores"] for each in found)
    words = f"The machine has {cores} cores; other programs used at most {most:.2f} of them"
    trust = "" if most < BUSY else ": it was **busy**, and the times are too long"
    return f"{words} when a job began{trust}."
