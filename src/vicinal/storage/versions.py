"""Which version of vicinal pickled an estimator, and the warning if it is another one."""

from __future__ import annotations

import sys
from typing import Any

from sklearn.exceptions import InconsistentVersionWarning

_LOADERS = ("vicinal", "sklearn", "joblib", "pickle", "copy", "skops")


class OtherVersionWarning(InconsistentVersionWarning):
    """An estimator was pickled by another version of vicinal, as scikit-learn warns of its own."""

    def __init__(self, message: str) -> None:
        UserWarning.__init__(self, message)
        self.message = message

    def __str__(self) -> str:
        return self.message


def version() -> str:
    """The version of vicinal that runs."""
    return str(sys.modules["vicinal"].__version__)


def user_stacklevel() -> int:
    """The ``stacklevel`` of the line that loads the pickle, by whatever package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and _package(frame) in _LOADERS:
        level, frame = level + 1, frame.f_back
    return level


def _package(frame: Any) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]
