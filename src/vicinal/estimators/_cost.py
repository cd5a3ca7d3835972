"""What a fit will cost, said before anything is allocated."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vicinal import _features
from vicinal._threads import n_threads

__all__ = ["Cost", "exact_cost"]

# Nanoseconds per pair and thread, fixed and per dimension, both passes; and per entry of X and
# dimension. Rough, for an AVX2 machine; benchmarks/nca_speed.py measures the real thing.
_PAIR = {4: (1.4, 0.25), 8: (2.6, 0.4)}
_PRODUCT = 0.15


class Cost(NamedTuple):
    """Memory beyond the input and time of one evaluation of the exact objective."""

    memory_bytes: int
    seconds_per_evaluation: float

    def __str__(self) -> str:
        return (
            f"about {self.memory_bytes / 2**20:.1f} MiB beyond the input and "
            f"{self.seconds_per_evaluation:.2g} s for each evaluation"
        )


def exact_cost(n: int, n_features: int, n_components: int, itemsize: int, dense: bool) -> Cost:
    """Cost of all-pairs NCA: O(n d) memory, O(n² d + n d D) time."""
    threads = n_threads()
    # embedded points, their sorted copy and two gradients; statistics of each row
    memory = 4 * n * n_components * itemsize + 24 * n * 8
    if dense and n * n_features * 8 <= _features.copy_limit():
        memory += n * n_features * 8
    memory += threads * 1024 * n_features * 8
    fixed, per_dimension = _PAIR[itemsize]
    seconds = n * n / 2 * (fixed + per_dimension * n_components)
    seconds += 2 * _PRODUCT * n * n_features * n_components
    return Cost(int(memory), float(np.round(seconds * 1e-9 / threads, 6)))
