"""Target neighbours: the rows of its class that each row should have nearby."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from vicinal.core.types import Array
from vicinal.targets.labels import Labels

__all__ = ["TargetNeighbours"]


class TargetNeighbours(Labels):
    """Class labels of the rows, and the rows of its class that each should have nearby.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels of any type that can be sorted.
    neighbours : array-like of int, shape (n, k)
        Positions of the target neighbours of each row, all of its own class; filled with -1 if a
        row has fewer than k.
    classes : array-like, default=None
        The sorted classes, if not all of them need occur in ``y``.
    """

    refers_to_rows: ClassVar[bool] = True

    def __init__(self, y: Any, neighbours: Any, classes: Any = None) -> None:
        super().__init__(y, classes=classes)
        self.neighbours = check_neighbours(neighbours, self.codes)

    def take(self, rows: Array | slice | None) -> TargetNeighbours:
        """The labels of some rows, with those of their target neighbours that are among them."""
        if rows is None:
            return self
        part: Any = super().take(rows)
        position = np.full(len(self) + 1, -1, np.int32)  # index -1 gives -1
        position[np.arange(len(self))[rows]] = np.arange(len(part), dtype=np.int32)
        part.neighbours = position[self.neighbours[rows]]
        return part

    @cached_property
    def inverse(self) -> tuple[Array, Array]:
        """Where each row is a target neighbour: ``first`` and ``sources``, in compressed rows.

        ``sources[first[q]:first[q + 1]]`` are the positions of q in the flattened ``neighbours``.
        """
        flat = self.neighbours.ravel()
        order = np.argsort(flat, kind="stable")
        first = np.searchsorted(flat[order], np.arange(len(self) + 1))
        return first, order


def check_neighbours(neighbours: Any, codes: Array) -> Array:
    """Target neighbours as int32: rows of the own class other than the row itself, or -1."""
    J = np.asarray(neighbours)
    n = len(codes)
    if J.ndim != 2 or len(J) != n or J.dtype.kind not in "iu":
        raise ValueError(
            f"The target neighbours must be ints of shape ({n}, k). Got {J.dtype} of shape "
            f"{J.shape} instead."
        )
    if J.size and (J.min() < -1 or J.max() >= n):
        raise ValueError(
            f"The target neighbours must lie in [-1, {n - 1}]. Got {J.min()}..{J.max()} instead."
        )
    wrong = (J >= 0) & ((codes[J] != codes[:, None]) | (np.arange(n)[:, None] == J))
    if wrong.any():
        i, j = np.argwhere(wrong)[0]
        what = "itself" if J[i, j] == i else "of another class"
        raise ValueError(
            f"The target neighbours must be other rows of the same class. Got {J[i, j]} for row "
            f"{i}, which is {what}."
        )
    return J.astype(np.int32)
