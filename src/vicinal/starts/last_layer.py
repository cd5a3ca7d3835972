"""Starts of nonlinear maps: a matrix of the columns that their last, linear layer multiplies."""

from __future__ import annotations

from typing import Any

import numpy as np

from vicinal.core.problem import Problem
from vicinal.core.types import Array
from vicinal.starts.spectral import ScaledRows

_ROWS = 5000  # most rows that the start of a nonlinear map is computed from


def start_rows(problem: Problem, rng: np.random.RandomState) -> Array:
    """The rows that the start of a nonlinear map is computed from.

    At most 5,000 of the training rows, because the columns may be many.  Held-out rows are not
    among them, so they cannot influence the start.
    """
    rows = problem.rows
    return rows if len(rows) <= _ROWS else np.sort(rng.permutation(rows)[:_ROWS])


def theta_of_features(
    mapping: Any, X: Any, A: Array, rng: np.random.RandomState, owner: str
) -> Array:
    """The parameters of a nonlinear map that embeds rows as the matrix A of the features does.

    Parameters
    ----------
    mapping : Map
        With ``start_from``.
    X : Features
    A : array of shape (d, D)
        A matrix of the scaled features.
    rng : RandomState
    owner : str
        The estimator to name in an error.
    """
    columns, theta_of = mapping.start_from(X, rng)
    if not begins_with(columns, X):
        raise ValueError(
            f"The 'init' parameter of {owner} must be another start if 'mapping' is {mapping!r}, "
            "whose last layer does not multiply the features themselves. Got an array instead."
        )
    wide = np.zeros((len(A), columns.shape[1]))
    wide[:, : A.shape[1]] = A
    return theta_of(wide)


def begins_with(columns: ScaledRows, X: ScaledRows) -> bool:
    """Whether the first columns of a last layer are the features themselves."""
    (_, wide), (_, own) = next(iter(columns.blocks())), next(iter(X.blocks()))
    n = min(len(wide), len(own))
    return np.array_equal(wide[:n, : own.shape[1]], own[:n])
