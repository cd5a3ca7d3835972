"""A sample of rows that match each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from vicinal.core.types import Array

_GROUP = 100  # rows that match each other


def matching_groups(M: Any, rows: Array, size: int, rng: np.random.RandomState) -> Array:
    """A sample of some rows, sorted, in groups that match: a random row of each, then its matches.

    Of many rows, hardly any in a plain random sample would match another one there.

    Parameters
    ----------
    M : CSR array of shape (n, n)
        The matches.
    rows : int array
        The rows to draw from, at least ``size``.
    size : int
        Number of rows to draw.
    rng : RandomState

    Returns
    -------
    int array of shape (size,)
    """
    free = np.zeros(M.shape[0], dtype=bool)
    free[rows] = True
    order = rng.permutation(rows)
    matched = np.diff(M.indptr)[order] > 0
    drawn: list[Array] = []
    left = size
    for first in np.concatenate([order[matched], order[~matched]]):
        if not free[first]:
            continue
        new, room = np.array([first]), min(_GROUP, left)
        while len(new):
            free[new] = False
            drawn.append(new)
            room, left = room - len(new), left - len(new)
            if room == 0:
                break
            near = np.unique(M[new].indices)
            new = rng.permutation(near[free[near]])[:room]
        if left == 0:
            break
    return np.sort(np.concatenate(drawn))
