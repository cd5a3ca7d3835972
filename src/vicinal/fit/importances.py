"""The importances of features for a map of any kind, by exchanging single entries of rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vicinal._features import Features
from vicinal._threads import single_threaded_blas
from vicinal.core.problem import Problem
from vicinal.core.stopping import TimeUp
from vicinal.core.types import Array

_ROWS = 1000  # most rows whose entries are exchanged
_SECONDS = 0.1  # of one thread: so much may be spent on any fit
_PRODUCT = 0.5  # nanoseconds for each parameter of a map that does not state its cost
_ENTRIES = 2**22  # entries of the rows that are embedded at a time


def exchange_importances(mapping: Any, theta: Array, rows: Array) -> Array:
    r"""How far embedded rows move if a single entry is exchanged, for each column.

    .. math::
        I_j = \frac{\sum_i \|\varphi(x_i) - \varphi(x_i + (x_{i'j} - x_{ij})\, e_j)\|^2}
                   {\sum_i (x_{i'j} - x_{ij})^2}

    where i' is the row after i.  For a linear map this is :math:`\sum_k A_{kj}^2`, exactly.

    Parameters
    ----------
    mapping : Map
    theta : array
        Its parameters.
    rows : array of shape (n, D)
        Scaled rows, in random order.

    Returns
    -------
    importances : array of shape (D,)
        Zero for a column that is constant in these rows.
    """
    n, D = rows.shape
    change = np.roll(rows, -1, axis=0) - rows
    moved, size = np.zeros(D), np.einsum("ij,ij->j", change, change)
    Z = mapping.forward(theta, Features.as_they_are(rows), np.float64)[0]
    # entries that an exchange does not change, as most of a sparse table, move nothing
    i, j = np.nonzero(change)
    step = max(1, _ENTRIES // D)
    for first in range(0, len(i), step):
        which, column = i[first : first + step], j[first : first + step]
        exchanged = rows[which]
        exchanged[np.arange(len(which)), column] += change[which, column]
        there = mapping.forward(theta, Features.as_they_are(exchanged), np.float64)[0]
        there -= Z[which]
        moved += np.bincount(column, np.einsum("ij,ij->i", there, there), D)
    return np.divide(moved, size, out=np.zeros(D), where=size > 0)


def importances_of(problem: Problem, theta: Array, passes: float, most: float = math.inf) -> Array:
    """The share of each feature in a learnt map, from a sample of the training rows.

    Parameters
    ----------
    problem : Problem
    theta : array
    passes : float
        How often as many rows may be embedded as there are training rows.  Where that takes less
        than a tenth of a second, so much time is spent.
    most : float, default=inf
        The same as a limit: where it is reached, fewer rows are exchanged.

    Raises
    ------
    TimeUp
        If ``most`` does not suffice for two rows.
    """
    rows, D = problem.rows, problem.X.shape[1]
    stated = problem.mapping.cost
    nanoseconds = _PRODUCT * theta.size if stated is None else stated(D, 8).nanoseconds
    n = int(max(passes * len(rows), 1e9 * _SECONDS / nanoseconds) / D)
    n = min(max(n, 2), _ROWS, len(rows))
    if most * len(problem.X) < n * D:
        n = int(most * len(problem.X) / D)
    if n < 2:
        raise TimeUp
    rows = np.random.RandomState(0).permutation(rows)[:n]  # the same for the same fit
    some = problem.X.take(rows)
    dense = np.concatenate([block for _, block in some.blocks()])
    with single_threaded_blas():
        found = exchange_importances(problem.mapping, theta, dense)
    return found / (found.sum() or 1.0)
