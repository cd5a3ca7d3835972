"""Checks of what the measures of an embedding take."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_array, check_random_state

from vicinal.core.types import Array


def check_pair(name: str, X: Any, Z: Any, metric: Any, least: int) -> tuple[Any, Array]:
    """The data and the embedding, checked; the data have at least ``least`` rows."""
    precomputed = isinstance(metric, str) and metric == "precomputed"
    X = check_array(
        X, accept_sparse=False if precomputed else "csr", dtype=[np.float64, np.float32],
        ensure_min_samples=least, input_name="X",
    )  # fmt: skip
    Z = check_array(Z, dtype=[np.float64, np.float32], input_name="Z")
    n = X.shape[0]
    if precomputed and X.shape != (n, n):
        raise ValueError(
            f"X must be square for metric='precomputed' of {name}. Got shape {X.shape} instead."
        )
    if len(Z) != n:
        raise ValueError(f"Z must have as many rows as X, {n}. Got {len(Z)} instead.")
    return X, Z


def check_count(owner: str, name: str, value: Any, default: int | None, high: int) -> int:
    """A checked whole number in [1, high]; None stands for the default, if there is one."""
    if value is None and default is not None:
        return default
    if not isinstance(value, Integral) or isinstance(value, bool) or not 1 <= int(value) <= high:
        none = "" if default is None else " or None"
        raise ValueError(
            f"The {name!r} parameter of {owner} must be an int in [1, {high}]{none}. "
            f"Got {value!r} instead."
        )
    return int(value)


def draw_rows(owner: str, n: int, sample_size: Any, random_state: Any) -> Array:
    """The rows over which the mean is taken, in ascending order."""
    size = check_count(owner, "sample_size", sample_size, n, n)
    if size == n:
        return np.arange(n)
    return np.sort(check_random_state(random_state).permutation(n)[:size])
