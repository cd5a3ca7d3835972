"""Free points: the parameters of the map are the embedded rows themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from vicinal.core.types import Array, Map


class Positions(NamedTuple):
    """The rows of a `Points` map: nothing but their numbers."""

    rows: Array

    def take(self, rows: Any) -> Positions:
        """Some of the rows."""
        return self if rows is None else Positions(self.rows[rows])

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class Points(Map):
    """``Z = theta``: each of n rows is placed freely in ``n_components`` dimensions."""

    n: int
    n_components: int = 2

    def forward(
        self, theta: Array, X: Positions, dtype: Any = np.float64
    ) -> tuple[Array, Callable[[Array], Array]]:
        """The points of some rows, and their pull-back."""
        everything = len(X) == self.n

        def pull(dZ: Array) -> Array:
            if everything:
                return dZ.astype(np.float64, copy=False).ravel()
            full = np.zeros((self.n, self.n_components))
            full[X.rows] = dZ
            return full.ravel()

        Z = theta.reshape(self.n, self.n_components)
        return (Z if everything else Z[X.rows]).astype(dtype, copy=False), pull
