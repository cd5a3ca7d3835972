"""Load parts by name on first use, and list the public names of a module."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any


def load(path: str) -> Any:
    """The object at ``"package.module:name"``; parts that no default uses cost no import."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


def listing(module: str) -> Callable[[], list[str]]:
    """The ``__dir__`` of a public module: Tab completion shows ``__all__``, not what it imports."""

    def names() -> list[str]:
        here = vars(sys.modules[module])
        return sorted({*here["__all__"], *(name for name in here if name.startswith("__"))})

    return names
