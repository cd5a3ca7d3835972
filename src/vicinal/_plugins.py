"""Load parts by name on first use, so that parts no default uses cost no import."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["load"]


def load(path: str) -> Any:
    """The object at ``"package.module:name"``."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
