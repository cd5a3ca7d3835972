"""Other libraries' names and keywords over vicinal's estimators, for code that is moving over.

:mod:`vicinal.compat.metric_learn` stands in for metric-learn.
"""

from importlib import import_module as _import_module
from typing import Any

from vicinal._public import listing as _listing

__all__ = ["metric_learn"]
__dir__ = _listing(__name__)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _import_module(f"{__name__}.{name}")
