"""Which rows each evaluation sees: samplers are endless sources of :class:`~vicinal._types.Batch`.

A sampler is a small frozen dataclass with a flag ``fixed`` (all its batches are the same one) and
``batches(n_rows, random_state)``.  Solvers with a line search accept fixed samplers only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import ClassVar

import numpy as np

from vicinal._types import Batch

__all__ = ["Full"]


@dataclass(frozen=True)
class Full:
    """Every row is embedded and every row is a query, at every step: the exact objective."""

    fixed: ClassVar[bool] = True

    def batches(
        self, n_rows: int | None = None, random_state: np.random.RandomState | None = None
    ) -> Iterator[Batch]:
        """Yield ``Batch()`` for ever; both arguments are ignored."""
        return repeat(Batch())
