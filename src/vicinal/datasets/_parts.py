"""What every source of data hands over, and how a function's parameters are checked."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from vicinal.core.types import Array

__all__ = ["NotFoundHereError", "Table", "parameters_of"]


class NotFoundHereError(Exception):
    """A source does not have the set; the message says why, for the list of all that was tried."""


@dataclass
class Table:
    """Rows and labels as a source gave them, and in words where they came from."""

    data: Array
    target: Array  #: codes of target_names, or numbers where there are none
    feature_names: list[str]
    target_names: Array
    is_train: Array | None
    origin: str


def parameters_of(function: str, **values: Any) -> Any:
    """The parameters of a function, in the shape in which `_validation` reads an estimator's."""
    return type(function, (SimpleNamespace,), {})(**values)
