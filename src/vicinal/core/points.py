"""Embedded points: checks, precision, and all that is done to them outside the engines.

Points may lie elsewhere than in a NumPy array, on a device for example.  What depends on that is a
function for each type (`functools.singledispatch`), which a backend registers for its points:
`check_points`, `extent`, `double`, `cast`, `zeros_like`, `moved` and `to_host`; and
``engines.choose.backend``, which finds its engines.  `forward` and `expect` are for rows that
can only be embedded block by block, or that take time to fetch.  Everything else about the
points, rows and sums of a loss is an array of the host.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any

import numpy as np

from vicinal.core.types import Array

LARGEST = 1e100  # of a coordinate: its square times the least value of exp2 is negligible
_LARGEST_32, _LIGHTEST_32 = 1e9, 1e-6  # beyond these, float32 lacks the range: use float64


@singledispatch
def check_points(Z: Any, name: str = "Z") -> Any:
    """The points, in float32 or float64; refuses other shapes, and numbers out of range."""
    Z = np.asarray(Z)
    if Z.dtype not in (np.float32, np.float64):
        Z = Z.astype(np.float64)
    if Z.ndim != 2 or Z.shape[1] == 0:
        raise ValueError(f"{name} must have shape (n, d) with d >= 1. Got {Z.shape} instead.")
    if not (largest := extent(Z)) <= LARGEST:
        if not np.isfinite(largest):
            raise ValueError(f"{name} must be finite. Got NaN or infinity.")
        raise ValueError(f"{name} must lie within ±{LARGEST:g}. Got {largest:g}.")
    return Z


@singledispatch
def extent(Z: Any) -> float:
    """The largest absolute coordinate, NaN if one is NaN; 0 without any rows."""
    return max(float(Z.max(initial=0.0)), -float(Z.min(initial=0.0)))


@singledispatch
def double(Z: Any) -> Any:
    """The points in float64."""
    return Z.astype(np.float64, copy=False)


@singledispatch
def cast(Z: Any, values: Any) -> Any:
    """The values in the precision of the points Z, and where these lie."""
    return values.astype(Z.dtype, copy=False)


@singledispatch
def zeros_like(Z: Any) -> Any:
    """Zeros in the shape and precision of the points, where these lie."""
    return np.zeros_like(Z)


@singledispatch
def moved(Z: Any, centre: Any) -> float:
    """The sum of the squared distances between two sets of points, row by row."""
    apart = Z - centre
    # einsum needs no further array of Z's size, and its bits do not depend on BLAS threads
    return np.einsum("ij,ij->", apart, apart)


@singledispatch
def to_host(Z: Any) -> Any:
    """The points, or the rows of a table, as an array of the host."""
    return Z


@singledispatch
def kept(Z: Any, given: tuple[Any, ...], make: Callable[[], Any]) -> Any:
    """``make()``, which points may keep for later points of the same rows and the same ``given``.

    Where an evaluation takes milliseconds, so does what is found out about labels and weights.
    """
    return make()


@singledispatch
def like(given: Any, values: Any) -> Any:
    """A result for the table ``given`` by a user: where that lies, or else on the host."""
    return to_host(values)


@singledispatch
def forward(X: Any, mapping: Any, theta: Array, dtype: Any) -> tuple[Any, Callable[[Any], Array]]:
    """The points of the rows X under a map, where the rows lie, and its pull-back."""
    return mapping.forward(theta, X, dtype)


@singledispatch
def expect(X: Any, batches: list[Array]) -> None:
    """Note the rows of the next batches, for rows that take time to fetch."""


def are_fetched(X: Any) -> bool:
    """Whether rows of this type take time to fetch."""
    return expect.dispatch(type(X)) is not expect.dispatch(object)


def lies_elsewhere(X: Any) -> bool:
    """Whether a backend has registered the type of the rows or points."""
    return to_host.dispatch(type(X)) is not to_host.dispatch(object)


def with_range(Z: Any, mass: Array, also: Any = None) -> Any:
    """Z, converted to float64 if float32 lacks the range for its distances or the masses."""
    return Z if has_single_range(Z, mass, also) else double(Z)


def has_single_range(Z: Any, mass: Array, also: Any = None) -> bool:
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
