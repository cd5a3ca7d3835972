"""Target neighbours: the rows of its class that each row should have nearby."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from vicinal.core.types import Array
from vicinal.targets._checks import chances_in_batch
from vicinal.targets.labels import Labels


class TargetNeighbors(Labels):
    """Class labels of the rows, and the rows of its class that each should have nearby.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels of any type that can be sorted.
    neighbors : array-like of int, shape (n, k)
        Positions of the target neighbours of each row, all of its own class; filled with -1 if a
        row has fewer than k.
    classes : array-like, default=None
        The sorted classes, if not all of them need occur in ``y``.
    """

    refers_to_rows: ClassVar[bool] = True
    #: weight of each row as an impostor; None: 1
    weight: Array | None = None

    def __init__(self, y: Any, neighbors: Any, classes: Any = None) -> None:
        super().__init__(y, classes=classes)
        self.neighbors = check_neighbours(neighbors, self.codes)

    def take(self, rows: Array | slice | None) -> TargetNeighbors:
        """The labels of some rows, with those of their target neighbours that are among them."""
        if rows is None:
            return self
        part: Any = super().take(rows)
        position = np.full(len(self) + 1, -1, np.int32)  # index -1 gives -1
        position[np.arange(len(self))[rows]] = np.arange(len(part), dtype=np.int32)
        part.neighbors = position[self.neighbors[rows]]
        part.weight = None if self.weight is None else self.weight[rows]
        return part

    def in_batch(
        self, rows: Array, share: float | None = None, train: Array | None = None
    ) -> tuple[Array, TargetNeighbors, Array]:
        r"""What a batch of rows needs: its rows and their target neighbours, which it embeds too.

        Only the rows of the batch pull and have impostors; every embedded row of another class may
        be an impostor.  If the batch is a random draw of a share f of the rows, an impostor l
        counts :math:`1 / \pi_l` times, :math:`\pi_l = 1 - (1 - f)^{1 + m_l}` (without replacement):
        the chance that l, or one of the :math:`m_l` rows that have it as target neighbour, is in
        the batch.  The loss of the batch is then an unbiased estimate of the loss of all rows.

        Parameters
        ----------
        rows : int array
            The rows of the batch.
        share : float, default=None
            Chance that a row is in the batch, given another one that is; None if the rows were
            chosen by their place.  Then every impostor counts once, and those outside are missed.
        train : int array, default=None
            The rows that batches are drawn from; None: all.

        Returns
        -------
        rows : int array
            The rows to embed, sorted.
        target : TargetNeighbors
            Their target; rows outside the batch have no target neighbours.
        queries : int array
            Positions of the batch among these rows.
        """
        own = self.neighbors[rows]
        embedded = np.zeros(len(self) + 1, np.bool_)
        embedded[own] = True
        embedded[-1] = False  # where -1, no neighbour, points to
        if train is not None:
            embedded[:-1] &= _mask(train, len(self))
        embedded[rows] = True
        everyone = np.flatnonzero(embedded)
        part: Any = super().take(everyone)
        position = np.full(len(self) + 1, -1, np.int32)
        position[everyone] = np.arange(len(everyone), dtype=np.int32)
        queries = position[rows]
        part.neighbors = np.full((len(everyone), own.shape[1]), -1, np.int32)
        part.neighbors[queries] = position[own]
        part.weight = None if share is None else 1.0 / self._chances(share, train)[everyone]
        return everyone, part, queries

    def _chances(self, share: float, train: Array | None) -> Array:
        """The chance that a batch embeds each row, given a row of another class in the batch."""
        sources = self.neighbors if train is None else self.neighbors[train]
        followers = np.bincount(sources[sources >= 0], minlength=len(self))
        return chances_in_batch(followers, share, len(sources) - 1)

    @cached_property
    def inverse(self) -> tuple[Array, Array]:
        """Where each row is a target neighbour: ``first`` and ``sources``, in compressed rows.

        ``sources[first[q]:first[q + 1]]`` are the positions of q in the flattened ``neighbors``.
        """
        flat = self.neighbors.ravel()
        order = np.argsort(flat, kind="stable")
        first = np.searchsorted(flat[order], np.arange(len(self) + 1))
        return first, order


def _mask(rows: Array, n: int) -> Array:
    mask = np.zeros(n, np.bool_)
    mask[rows] = True
    return mask


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
