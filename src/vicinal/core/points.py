"""Checks of embedded points and row positions, and the precision that the points require."""

from __future__ import annotations

from typing import Any

import numpy as np

from vicinal.core.types import Array

__all__ = ["centre_of", "check_points", "check_rows", "has_single_range", "with_range"]

_LARGEST = 1e100  # of a coordinate: its square times the least value of exp2 is negligible
_LARGEST_32, _LIGHTEST_32 = 1e9, 1e-6  # beyond these, float32 lacks the range: use float64


def check_points(Z: Any, name: str = "Z") -> Array:
    Z = np.asarray(Z)
    if Z.dtype not in (np.float32, np.float64):
        Z = Z.astype(np.float64)
    if Z.ndim != 2 or Z.shape[1] == 0:
        raise ValueError(f"{name} must have shape (n, d) with d >= 1. Got {Z.shape} instead.")
    if not np.isfinite(Z).all():
        raise ValueError(f"{name} must be finite. Got NaN or infinity.")
    if extent(Z) > _LARGEST:
        raise ValueError(f"{name} must lie within ±{_LARGEST:g}. Got {extent(Z):g}.")
    return Z


def extent(Z: Array) -> float:
    return max(float(Z.max(initial=0.0)), -float(Z.min(initial=0.0)))


def with_range(Z: Array, mass: Array, also: Array | None = None) -> Array:
    """Z, converted to float64 if float32 lacks the range for its distances or the masses."""
    return Z if has_single_range(Z, mass, also) else Z.astype(np.float64)


def has_single_range(Z: Array, mass: Array, also: Array | None = None) -> bool:
    """Whether float32 has the range for the distances of the points and for the masses."""
    largest = max(extent(Z), 0.0 if also is None else extent(also))
    return bool(largest <= _LARGEST_32 and mass.min() >= _LIGHTEST_32)


def centre_of(Z: Array) -> Array:
    """A robust centre: a mean would follow outliers, and float32 would lose the other rows."""
    return np.median(Z[:: 1 + len(Z) // 256], axis=0)


def check_rows(rows: Any, n: int, name: str, owner: str = "nca") -> Array:
    if rows is None:
        return np.arange(n)
    rows = np.asarray(rows)
    if rows.dtype == bool and rows.shape == (n,):
        rows = np.flatnonzero(rows)
    if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
        raise ValueError(f"The {name!r} parameter of {owner} must be a vector of row positions.")
    if rows.size and (rows.min() < 0 or rows.max() >= n):
        raise ValueError(
            f"The {name!r} parameter of {owner} must lie in [0, {n - 1}]. "
            f"Got {rows.min()}..{rows.max()} instead."
        )
    if len(np.unique(rows)) != len(rows):
        raise ValueError(f"The {name!r} parameter of {owner} must not repeat a row.")
    return rows.astype(np.intp)
