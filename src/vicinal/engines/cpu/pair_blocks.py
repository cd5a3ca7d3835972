"""Blocks of queries and references, each pair of rows visited on its own, on all threads.

For sums whose pairs have a weight of their own in each direction: soft matches and charges.  What
is added to a row is added in a fixed order, so that the bits do not depend on the threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from vicinal._threads import block_edges, n_threads, rectangle, run
from vicinal.core.points import centre_of
from vicinal.core.types import Array
from vicinal.densities import Kernel
from vicinal.engines.base import Data
from vicinal.engines.cpu.tiles import KernelPoints, Products, kernel_points, power_of
from vicinal.kernels._blocks import Points


class Block(NamedTuple):
    """Some queries, i0 to i1, and some references, j0 to j1."""

    i0: int
    i1: int
    j0: int
    j1: int


class PairBlocks:
    """Queries and references in kernel layout, in the order in which they are given.

    Parameters
    ----------
    data : Data
        Its classes are ignored.
    kernel : Kernel
    scratch : callable
        ``scratch(dtype)``: what the kernels need for one thread.

    Attributes
    ----------
    power : number or None
        Which kernel it is: None for the Gaussian, 0 for Laplace's, else that of Student's.
    """

    def __init__(self, data: Data, kernel: Kernel, scratch: Callable[[Any], Array]) -> None:
        Z, d = data.Z, data.Z.shape[1]
        self.query_rows, self.reference_rows = data.query_rows, data.reference_rows
        centre = centre_of(Z[self.reference_rows])
        self.references = self._points(data, self.reference_rows, centre, kernel)
        same = np.array_equal(self.query_rows, self.reference_rows)
        self.queries = (
            self.references if same else self._points(data, self.query_rows, centre, kernel)
        )
        place = np.full(len(Z), -1)
        place[self.reference_rows] = np.arange(len(self.reference_rows))
        self.self_pos = place[self.query_rows]
        self.power = power_of(kernel, d, Z.dtype)
        self.rows, self.columns = block_edges(self.queries.n), block_edges(self.references.n)
        self.threads = min(n_threads(), len(self.rows) - 1)
        self.work = [scratch(Z.dtype) for _ in range(self.threads)]
        self.products = Products(
            self.queries, self.references, self.rows, self.columns, self.threads, kernel.smooth
        )

    def _points(self, data: Data, rows: Array, centre: Array, kernel: Kernel) -> KernelPoints:
        nothing = np.zeros(len(rows), dtype=np.intp)  # one class: the rows keep their order
        scale = kernel.coordinate_scale
        return kernel_points(data.Z[rows], nothing, data.mass[rows], centre, scale)[0]

    def _block(self, p: int, q: int, thread: int) -> tuple[Points, Block]:
        block = Block(self.rows[p], self.rows[p + 1], self.columns[q], self.columns[q + 1])
        D = self.products.distances(thread, slice(*block[:2]), slice(*block[2:]))
        Q, R = self.queries, self.references
        return Points(Q.Z, R.Z, D, Q.mass, R.mass, self.self_pos), block

    def sum_up(
        self, task: Callable[[Points, Block, Array], None], wanted: Array | None = None
    ) -> None:
        """Call ``task(points, block, work)`` for all blocks, the references of a query in order.

        Only for blocks with ``wanted`` queries, a mask; None: for all.
        """

        places = [
            p
            for p in range(len(self.rows) - 1)
            if wanted is None or wanted[self.rows[p] : self.rows[p + 1]].any()
        ]

        def rows(p: int, thread: int) -> None:
            for q in range(len(self.columns) - 1):
                task(*self._block(p, q, thread), self.work[thread])

        with self.products.blas():
            run(rows, places, self.threads)

    def pull(
        self, task: Callable[[Points, Array, Array, Block, Array], None], d: int
    ) -> tuple[Array, Array]:
        """The gradients of queries and references, (d, n) each, in kernel coordinates.

        ``task(points, Gq, Gr, block, work)`` adds those of a block, or puts the weights of its
        pairs in place of ``points.D``.
        """
        dtype = self.queries.Z.dtype
        Gq, Gr = np.zeros((d, self.queries.n), dtype), np.zeros((d, self.references.n), dtype)

        def pair(places: tuple[int, int], thread: int) -> None:
            points, block = self._block(*places, thread)
            task(points, Gq, Gr, block, self.work[thread])
            self.products.pull(points.D, Gq, Gr, slice(*block[:2]), slice(*block[2:]), columns=True)

        with self.products.blas():
            for places in rectangle(len(self.rows) - 1, len(self.columns) - 1):
                run(pair, places, self.threads)
        return Gq, Gr
