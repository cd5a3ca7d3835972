"""What a map costs for each row, as far as it is known before a fit."""

from __future__ import annotations

from typing import Any, NamedTuple

from vicinal.core.types import Array

__all__ = ["MapCost", "map_cost"]

_PRODUCT = 0.15  # nanoseconds of one thread per multiplication of a matrix product, in float32


class MapCost(NamedTuple):
    """Nanoseconds of one thread for a row, forwards, and bytes that are held for each thread."""

    nanoseconds: float
    bytes_of_a_thread: float = 0.0


def map_cost(mapping: Any, n_features: int, theta: Array | None = None) -> MapCost:
    raise NotImplementedError
