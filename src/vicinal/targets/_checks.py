"""Checks of what targets are made of, and chances of rows in batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from vicinal.core.types import Array

_SLACK = 1e-4  # of the sum of a distribution: float32, or numbers printed with few digits


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


def checked_distributions(T: Array, subject: str) -> Array:
    """Rows of probabilities, each divided by its sum; ``subject`` begins the error message."""
    must = (
        f"{subject} must hold a label distribution in each row: probabilities of the classes, not "
        "negative and summing to one."
    )
    if (T < 0).any():
        raise ValueError(f"{must} Got {T.min():g} instead.")
    total = T.sum(axis=1)
    wrong = np.flatnonzero(np.abs(total - 1.0) > _SLACK)
    if len(wrong):
        raise ValueError(
            f"{must} Got a sum of {total[wrong[0]]:g} in row {wrong[0]} instead. To turn counts or "
            "scores into distributions, divide each row by its sum: "
            "y / y.sum(axis=1, keepdims=True)."
        )
    return T / total[:, None]


def checked_matches(M: Any, shape: tuple[int, int] | None, subject: str) -> Any:
    """Matches in [0, 1] as a sparse array, what is given twice for a pair added up.

    ``shape`` None is any square; ``subject`` begins the error message.
    """
    must = f"{subject} must be a sparse matrix or an array of"
    wanted = "shape (n, n)" if shape is None else f"shape {shape}"
    try:
        # copied, because what is given twice is added up in place
        M = sp.csr_array(M if sp.issparse(M) else np.asarray(M), copy=True)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{must} {wanted}: {error}") from None
    if M.ndim != 2 or M.shape != (shape or (M.shape[0],) * 2):
        raise ValueError(f"{must} {wanted}. Got {M.shape} instead.")
    if M.dtype.kind not in "biuf":
        raise ValueError(f"{must} numbers. Got the type {M.dtype} instead.")
    M = M.astype(np.float64, copy=False)
    M.sum_duplicates()
    wrong = ~((M.data >= 0) & (M.data <= 1))  # also NaN
    if wrong.any():
        raise ValueError(
            f"{must} numbers in [0, 1], those given twice for a pair added up. "
            f"Got {M.data[wrong][0]} instead."
        )
    return M


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
