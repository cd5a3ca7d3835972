"""Other libraries' names and keywords over vicinal's estimators, for code that is moving over.

:mod:`vicinal.compat.metric_learn` stands in for metric-learn.
"""

from importlib import import_module as _import_module
from typing import Any

__all__ = ["metric_learn"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return sorted(__all__)
