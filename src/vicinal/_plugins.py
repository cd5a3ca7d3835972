"""Parts that are found by name and loaded when used: what no default picks costs no import."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["load"]


def load(path: str) -> Any:
    """The object at ``"package.module:name"``."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
