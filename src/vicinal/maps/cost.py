"""What a nonlinear map costs for each row, as far as it is known before a fit."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["MapCost"]

_GRADIENTS = 16  # partial sums of a gradient
_COPIES = 30  # of the parameters, in the memory of a solver


class MapCost(NamedTuple):
    """The cost of a map; rough figures, as those of pairs.

    A nonlinear map may have a method ``cost(n_features, itemsize)`` that returns it, for rows of
    float32 or float64.

    Parameters
    ----------
    nanoseconds : float
        Of one thread, for a row: forwards and back.
    n_parameters : int
    row_bytes : float, default=0.0
        Memory of all layers for a row.
    block : int, default=1
        Number of rows for which each thread holds them at a time.
    """

    nanoseconds: float
    n_parameters: int
    row_bytes: float = 0.0
    block: int = 1

    def memory_bytes(self, rows: int, threads: int) -> float:
        """Memory of an evaluation and of the solver, besides the rows and the embedded points."""
        busy = min(threads, -(-rows // self.block))  # a thread takes a whole block
        layers = busy * min(rows, self.block) * self.row_bytes
        return layers + 8.0 * (_GRADIENTS + _COPIES) * self.n_parameters
