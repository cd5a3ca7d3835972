"""The names that Tab completion shows on a public module."""

from __future__ import annotations

import sys
from collections.abc import Callable


def listing(module: str) -> Callable[[], list[str]]:
    """The ``__dir__`` of a public module: Tab completion shows ``__all__``, not what it imports."""

    def names() -> list[str]:
        here = vars(sys.modules[module])
        return sorted({*here["__all__"], *(name for name in here if name.startswith("__"))})

    return names
