"""A uniform sample of bounded size from a stream, per class or over all rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from vicinal.core import checks
from vicinal.core.types import Array


class Reservoir:
    """A uniform sample of a stream without replacement, for each class or for all rows.

    Every row draws a number on arrival; a class keeps the rows with the ``capacity`` smallest
    numbers.  At any time these are a uniform sample of the rows of the class so far, whatever the
    order of the stream and the sizes of its batches.

    Parameters
    ----------
    capacity : int
        Largest number of rows of one class, or of all.
    by_class : bool, default=True
        False: the classes share one capacity, in the proportions of the stream.
    """

    capacity: int
    by_class: bool
    X: Any
    codes: Array
    weight: Array
    _draws: Array
    numbers: Array
    _n_added: int

    def __init__(self, capacity: int, by_class: bool = True) -> None:
        self.capacity, self.by_class = capacity, by_class
        self.X: Any = None
        self.codes = np.empty(0, dtype=np.intp)
        self.weight = np.empty(0)
        self._draws = np.empty(0)
        self.numbers = np.empty(0, dtype=np.int64)  # of the rows kept, in the order of the stream
        self._n_added = 0

    def check_fields(self) -> None:
        """Refuse fields that do not fit together."""
        n = len(self)
        checks.indices(self.codes, "codes", n, 2**31)
        checks.indices(self.numbers, "numbers", n, self._n_added)
        checks.double(self.weight, 1, "weight", (n,))
        checks.double(self._draws, 1, "draws", (n,))
        checks.need((0 if self.X is None else self.X.shape[0]) == n, "rows and codes do not agree")
        if self.X is not None:
            checks.table(self.X)

    def __len__(self) -> int:
        return len(self.codes)

    def with_rows(self, X: Any, codes: Array, weight: Array) -> tuple[Any, Array, Array]:
        """The rows kept so far followed by those given: features, codes and weights."""
        X = X if self.X is None else _stack(self.X, X)
        return X, np.append(self.codes, codes), np.append(self.weight, weight)

    def add(self, X: Any, codes: Array, weight: Array, random_state: np.random.RandomState) -> None:
        """Add rows, and drop rows beyond the capacity."""
        X, codes, weight = self.with_rows(X, codes, weight)
        draws = np.append(self._draws, random_state.uniform(size=len(codes) - len(self)))
        group = codes if self.by_class else np.zeros_like(codes)
        order = np.lexsort((draws, group))
        first = np.searchsorted(group[order], group[order])  # where each row's class begins
        kept = np.sort(order[np.arange(len(order)) - first < self.capacity])
        self.X, self.codes, self.weight = X[kept], codes[kept], weight[kept]
        self._draws = draws[kept]
        n_added = self._n_added + len(codes) - len(self.numbers)
        self.numbers = np.append(self.numbers, np.arange(self._n_added, n_added))[kept]
        self._n_added = n_added


def _stack(above: Any, below: Any) -> Any:
    if sp.issparse(above) or sp.issparse(below):
        return sp.vstack([sp.csr_array(above), sp.csr_array(below)], format="csr")
    return np.concatenate([above, below])
