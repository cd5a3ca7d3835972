"""The table that every source returns, and a helper to check a function's parameters."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from vicinal.core.types import Array


class NotFoundHereError(Exception):
    """A source does not have the set; `load` lists the message with those of other sources."""


@dataclass
class Table:
    """Rows and labels from a source, and a description of where they came from."""

    data: Array
    target: Array  #: codes of target_names, or numbers if these are empty
    feature_names: list[str]
    target_names: Array
    is_train: Array | None
    origin: str


def parameters_of(function: str, **values: Any) -> Any:
    """The parameters of a function, in the form that `_validation` reads from an estimator."""
    return type(function, (SimpleNamespace,), {})(**values)
