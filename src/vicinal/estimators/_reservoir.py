"""A bounded sample of a stream: so many rows, of each class or of all, each as likely to stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from vicinal.core.types import Array

__all__ = ["Reservoir"]


class Reservoir:
    """Rows of a stream, a uniform sample without replacement of each class, or of all rows.

    Every row draws a number when it comes; a class keeps the rows with its ``capacity`` smallest.
    At any time these are a uniform sample of the rows of the class so far, whatever the order of
    the stream and the sizes of its batches.

    Parameters
    ----------
    capacity : int
        The most rows of one class, or of all.
    by_class : bool, default=True
        False: the classes share one capacity, in the proportions of the stream.
    """

    def __init__(self, capacity: int, by_class: bool = True) -> None:
        self.capacity, self.by_class = capacity, by_class
        self.X: Any = None
        self.codes = np.empty(0, dtype=np.intp)
        self.weight = np.empty(0)
        self._draws = np.empty(0)

    def __len__(self) -> int:
        return len(self.codes)

    def with_rows(self, X: Any, codes: Array, weight: Array) -> tuple[Any, Array, Array]:
        """The rows kept so far followed by those given: features, codes and weights."""
        X = X if self.X is None else _stack(self.X, X)
        return X, np.append(self.codes, codes), np.append(self.weight, weight)

    def add(self, X: Any, codes: Array, weight: Array, random_state: np.random.RandomState) -> None:
        """Let rows in, and the rows out whose place they take."""
        X, codes, weight = self.with_rows(X, codes, weight)
        draws = np.append(self._draws, random_state.uniform(size=len(codes) - len(self)))
        group = codes if self.by_class else np.zeros_like(codes)
        order = np.lexsort((draws, group))
        first = np.searchsorted(group[order], group[order])  # where each one's class begins
        kept = np.sort(order[np.arange(len(order)) - first < self.capacity])
        self.X, self.codes, self.weight = X[kept], codes[kept], weight[kept]
        self._draws = draws[kept]


def _stack(above: Any, below: Any) -> Any:
    if sp.issparse(above) or sp.issparse(below):
        return sp.vstack([sp.csr_array(above), sp.csr_array(below)], format="csr")
    return np.concatenate([above, below])
