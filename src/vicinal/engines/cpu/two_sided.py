"""Class sums between two disjoint sets of rows, each pair computed once for both of its rows.

Several machines share the pairs of all rows as pairs of blocks.  The pairs within a block are those
of `backend.class_sums`, and the pairs between two blocks are these; the sums of a row are merged
over all blocks (`base.merge`), and the pulls add up.
"""

from __future__ import annotations

import numpy as np

from vicinal.core.types import Array
from vicinal.densities import Kernel
from vicinal.engines.base import Data, RowSums, columns_of
from vicinal.engines.cpu.class_sums import prepare, pull_factors
from vicinal.engines.cpu.tiles import Tiles


class TwoSidedSums:
    """Sums of the queries over the references, and of the references over the queries.

    As within one block, tiles too far apart to change the last bit of any of these sums are left
    out.

    Parameters
    ----------
    data : Data
        No row is both a query and a reference; ``mass`` is the mass of either.
    kernel : Kernel

    Attributes
    ----------
    share : float
        The share of the pairs that the last call of `sums` computed.
    """

    name = "two-sided"

    def __init__(self, data: Data, kernel: Kernel) -> None:
        Q, R, places, *rows = prepare(data, kernel)
        if (places >= 0).any():
            raise ValueError(
                "The queries and references of TwoSidedSums must be different rows. Got the row "
                f"{rows[0][places >= 0][0]} among both."
            )
        self.Z, self.rows = data.Z, rows
        self.scale = 2.0 / kernel.coordinate_scale
        self.tiles = Tiles(Q, R, places, kernel, two_sided=True)

    @property
    def share(self) -> float:
        return self.tiles.share

    def sums(self) -> tuple[RowSums, RowSums]:
        """The sums of each query over the references, and of each reference over the queries."""
        of_queries, of_references = (
            RowSums(log2, shift.astype(np.float64), rows)
            for (log2, shift), rows in zip(self.tiles.both_sums(), self.rows, strict=True)
        )
        return of_queries, of_references

    def look(self) -> None:
        """What `pull` needs besides the sums, where another process has computed these."""
        self.tiles.look()

    def pull(self, sums: tuple[RowSums, RowSums], slopes: tuple[Array, Array]) -> Array:
        """Derivative of ``sum(slopes * ln(sums))`` by the points, (n, d), over both kinds of sums.

        As `base.ClassSums.pull`: ``sums`` may be merged with those over other rows.
        """
        Z, shifts, factors = self.Z, [], []
        for rows, own, slope in zip(self.rows, sums, slopes, strict=True):
            columns = columns_of(own.rows, rows)
            shift, factor = pull_factors(
                own.log2[:, columns], own.shift[:, columns], slope[:, columns], Z.dtype
            )
            shifts.append(shift)
            factors.append(factor)
        largest = max(np.abs(factor).max(initial=0.0) for factor in factors) or 1.0
        gradients = self.tiles.both_pulls(
            (shifts[0], shifts[1]), (factors[0] / largest, factors[1] / largest), Z.shape[1]
        )
        dZ = np.zeros_like(Z)
        for rows, G in zip(self.rows, gradients, strict=True):
            dZ[rows] = G.T * Z.dtype.type(self.scale * largest)
        return dZ
