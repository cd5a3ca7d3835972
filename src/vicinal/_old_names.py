"""Names of vicinal 0.1 that pickles refer to, so that old files can still be loaded.

A finder at the end of ``sys.meta_path`` makes the old modules when a pickle needs them.
``MetricLearner.__setstate__`` converts old attributes.
"""

from __future__ import annotations

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NamedTuple

from vicinal._plugins import load

__all__ = ["Lost", "Memory", "install"]

_HERE = "vicinal._old_names"
#: old module -> old name -> where it is now
_MOVED = {
    "vicinal._types": {
        "Result": "vicinal.core.types:Result",
        "Sampling": "vicinal.core.types:Sampling",
        "Batch": "vicinal.core.types:Batch",
    },
    "vicinal.estimators._cost": {"Cost": "vicinal.estimators._plan:Cost"},
    "vicinal.estimators._descent": {"Memory": f"{_HERE}:Memory"},
    "vicinal.estimators._auto": {"Choice": "vicinal.estimators.search:Choice"},
    "vicinal.estimators._rules": {"NeighbourRules": "vicinal.models.votes:NeighbourModel"},
    "vicinal.estimators._nca_rules": {"NCARules": "vicinal.models.posterior:NCAModel"},
    "vicinal.estimators._online": {"Stream": f"{_HERE}:Lost"},
    "vicinal.problem": {"Problem": f"{_HERE}:Lost"},
}


class Memory(NamedTuple):
    """The state from which ``warm_start`` continued."""

    plan: Any
    mapping: Any
    scale: Any
    solver: Any
    single: bool
    kept: Any
    result: Any


class Lost:
    """Replaces classes that no longer exist: accepts any state and does nothing."""

    def __setstate__(self, state: Any) -> None:
        pass


class _Finder(MetaPathFinder, Loader):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name in _MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        for name, place in _MOVED[module.__name__].items():
            setattr(module, name, load(place))


def install() -> None:
    """Make the old modules importable."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
