"""What several targets share: checks of numbers and weights, chances of rows in batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from vicinal.core.types import Array

__all__ = ["chances_in_batch", "checked_numbers", "checked_weight", "part_of"]


def checked_weight(sample_weight: Any, n: int, owner: str) -> Array | None:
    """Weights of n rows in float64, finite and not negative; None stays None."""
    if sample_weight is None:
        return None
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != (n,):
        raise ValueError(
            f"The 'sample_weight' parameter of {owner} must have shape ({n},). "
            f"Got {weight.shape} instead."
        )
    if not (np.isfinite(weight).all() and (weight >= 0).all()):
        raise ValueError(
            f"The 'sample_weight' parameter of {owner} must be finite and not negative. "
            f"Got {weight[~(np.isfinite(weight) & (weight >= 0))][0]} instead."
        )
    return weight


def checked_numbers(values: Any, name: str, owner: str) -> Array:
    """Finite numbers of shape (n, q) in float64; a vector becomes one column."""
    if sp.issparse(values):
        raise TypeError(
            f"The {name!r} parameter of {owner} must be a dense array. Got a sparse one instead."
        )
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:  # not numbers, or a ragged array
        raise ValueError(f"The {name!r} parameter of {owner} must hold numbers: {error}") from None
    if numbers.ndim == 1:
        numbers = numbers[:, None]
    if numbers.ndim != 2 or numbers.shape[1] == 0:
        raise ValueError(
            f"The {name!r} parameter of {owner} must have shape (n,) or (n, q) with q >= 1. "
            f"Got {np.shape(values)} instead."
        )
    if not np.isfinite(numbers).all():
        raise ValueError(f"The {name!r} parameter of {owner} must be finite. Got NaN or infinity.")
    return np.array(numbers, order="C")


def part_of(values: Array | None, rows: Any) -> Array | None:
    """Some entries of an array; None stays None."""
    return None if values is None else values[rows]


def chances_in_batch(followers: Array, share: float, others: int) -> Array:
    """The chance that a batch embeds each row: that the row or one of its followers is drawn.

    ``followers`` counts the rows that bring a row along; a batch has ``share * others`` rows, drawn
    without replacement from the ``others``, besides the one from which it is seen.
    """
    left = others - np.arange(followers.max(initial=0) + 1)
    missed = np.cumprod(np.clip(1.0 - share * others / np.maximum(left, 1), 0.0, 1.0))
    return 1.0 - missed[followers]
