"""Which version of vicinal pickled an estimator."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from sklearn.exceptions import InconsistentVersionWarning

__all__ = ["OtherVersionWarning", "VersionMixin"]

_KEY = "_vicinal_version"
_LOADERS = ("vicinal", "sklearn", "joblib", "pickle", "copy", "skops")


class OtherVersionWarning(InconsistentVersionWarning):
    """An estimator was pickled by another version of vicinal, as scikit-learn warns of its own."""

    def __init__(self, message: str) -> None:
        UserWarning.__init__(self, message)
        self.message = message

    def __str__(self) -> str:
        return self.message


class VersionMixin:
    """Pickles of an estimator tell the version of vicinal, and warn if they meet another one."""

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()  # type: ignore[assignment]
        return {**state, _KEY: _version()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        pickled = state.pop(_KEY, None)
        if pickled not in (None, _version()):
            warnings.warn(
                f"This {type(self).__name__} was pickled by vicinal {pickled}, and is loaded by "
                f"{_version()}: it may fail or give other results. Files written by "
                "vicinal.save can be read by later versions.",
                OtherVersionWarning,
                stacklevel=_level_of_the_user(),
            )
        super().__setstate__(state)  # type: ignore[misc]


def _version() -> str:
    return str(sys.modules["vicinal"].__version__)


def _level_of_the_user() -> int:
    """The ``stacklevel`` of the line that loads the pickle, by whatever package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and _package(frame) in _LOADERS:
        level, frame = level + 1, frame.f_back
    return level


def _package(frame: Any) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]
