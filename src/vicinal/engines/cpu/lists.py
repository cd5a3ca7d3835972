"""Pairs from candidate lists: the engine of truncated objectives ([Oneata2011] section 4.4).

The cost is proportional to the number of listed pairs.
"""

from __future__ import annotations

import numpy as np

from vicinal._threads import n_threads, run
from vicinal.core.types import Array, Pairs
from vicinal.densities import Kernel
from vicinal.kernels import nca_lists as kernels
from vicinal.kernels.neighbours import visiting_order

_BLOCK = 256  # fewest queries per lane
# The gradient of the references is summed in lanes, each with an array of its own, and the lanes
# are added in order: the bits depend on the number of lanes, which follows from the problem and not
# from the threads.  (Transposed lists would need no lanes, but would need every distance and power
# twice, and as much memory as the lists.)
_LANES = 16
LANE_BYTES = 2**28  # limit for all lanes together, down to two lanes


def n_lanes(n: int, n_queries: int, d: int, itemsize: int) -> int:
    """Number of partial gradients, each as large as the points."""
    lane_bytes = max(1, n * d * itemsize)
    return min(_LANES, max(2, LANE_BYTES // lane_bytes), -(-n_queries // _BLOCK))


class Lists:
    """Sums over the pairs of candidate lists, and their gradient.

    A query is scored against the rows of its list that have a mass.  It is never its own
    reference.  If its list has no row of its own class, its sum over that class is empty.

    Parameters
    ----------
    Z : array of shape (n, d)
        All points.
    codes, mass : arrays of shape (n,)
        Class of each row, and its mass as a reference; 0 if it is not a reference.
    query_rows : int array
        Rows of Z that are scored.
    pairs : Pairs
        Lists over all rows of Z.
    kernel : Kernel
    centre : array of shape (d,)
    scale : float
        Factor of the coordinates, relative to ``centre``; see ``coordinate_scale``.

    Attributes
    ----------
    rows : int array
        The queries in the order of all results.
    share : float
        Share of all (query, reference) pairs that are listed.
    """

    def __init__(
        self,
        Z: Array,
        codes: Array,
        mass: Array,
        query_rows: Array,
        pairs: Pairs,
        kernel: Kernel,
        centre: Array,
        scale: float,
    ) -> None:
        n, self.d = Z.shape
        check_pairs(pairs, n)
        self.kernel = kernel
        self.indices = np.ascontiguousarray(pairs.indices)
        self.rows = query_rows[visiting_order(Z[query_rows])]
        self.first, self.last = pairs.indptr[self.rows], pairs.indptr[self.rows + 1]
        self.points = kernels.pack(Z, codes, mass, centre, scale)
        lanes = n_lanes(n, len(query_rows), self.d, Z.dtype.itemsize)
        self.lanes = [len(query_rows) * lane // lanes for lane in range(lanes + 1)]
        self.threads = min(n_threads(), lanes)
        self.share = float((self.last - self.first).sum() / (len(self.rows) * np.sum(mass > 0)))
        longest = int((self.last - self.first).max(initial=0))
        self.scratch = [kernels.scratch(longest, Z.dtype) for _ in range(self.threads)]

    def sums(self) -> tuple[Array, Array]:
        """log2 of ``sum_j mass_j 2**(m_i - e_ij)``, other classes [0] and own class [1].

        Here ``e_ij = -log2 kappa(d_ij)`` is the energy.  Also returns the minima m_i of the
        energies.  An empty sum gives -inf and inf.
        """
        shape, dtype = (2, len(self.rows)), self.points.dtype
        near, sums = np.empty(shape, dtype), np.empty(shape, dtype)
        inside = [True] * (len(self.lanes) - 1)

        def task(lane: int, thread: int) -> None:
            inside[lane] = kernels.nca_lists_sums(
                self.points, self.d, self.indices, self.first, self.last, self.rows, near, sums,
                self.lanes[lane], self.lanes[lane + 1], self.kernel.family, self.scratch[thread],
            )  # fmt: skip

        run(task, range(len(inside)), self.threads)
        if not all(inside):
            raise ValueError(
                f"The 'pairs' parameter of nca must list rows in [0, {len(self.points) - 1}]. "
                f"Got {self.indices.min()}..{self.indices.max()} instead."
            )
        with np.errstate(divide="ignore"):
            log_sums = np.log2(sums, dtype=np.float64)
        return log_sums, np.where(
            sums > 0, kernels.energies(near, self.d, self.kernel.family), np.inf
        )

    def pull(self, shift: Array, factor: Array, d: int) -> tuple[Array, Array]:
        """Sum of ``-factor_i mass_j 2**shift_i kappa'(d²_ij) (z_i - z_j)``, for both points.

        kappa' is the derivative by d².  Returns (d, n_queries) for the queries and (d, n) for the
        references; references in no list have 0.
        """
        dtype = self.points.dtype
        near = kernels.nearest(shift, self.d, self.kernel.family)
        factor = factor.astype(dtype)
        width = -(-d // 4) * 4
        Gq = np.zeros((len(self.rows), width), dtype)
        Gr = np.zeros((len(self.lanes) - 1, len(self.points), width), dtype)

        def task(lane: int, thread: int) -> None:
            kernels.nca_lists_grad(
                self.points, d, self.indices, self.first, self.last, self.rows,
                near, factor, Gq, Gr[lane], self.lanes[lane], self.lanes[lane + 1],
                self.kernel.family, self.scratch[thread],
            )  # fmt: skip

        run(task, range(len(Gr)), self.threads)
        for lane in Gr[1:]:
            Gr[0] += lane
        return Gq[:, :d].T, Gr[0, :, :d].T


def check_pairs(pairs: Pairs, n: int, owner: str = "nca") -> None:
    """Raise unless there are n lists of int32 rows; the kernels check the rows themselves."""
    indptr, indices = np.asarray(pairs.indptr), np.asarray(pairs.indices)
    if indptr.shape != (n + 1,) or indptr.dtype.kind != "i":
        raise ValueError(
            f"The 'pairs' parameter of {owner} must hold one list for each of the {n} rows. "
            f"Got an indptr of shape {indptr.shape} and dtype {indptr.dtype} instead."
        )
    if indices.ndim != 1 or indices.dtype != np.int32:
        raise ValueError(
            f"The 'pairs' parameter of {owner} must have a vector of int32 as its indices. "
            f"Got shape {indices.shape} and dtype {indices.dtype} instead."
        )
    if indptr[0] < 0 or indptr[-1] > len(indices) or (np.diff(indptr) < 0).any():
        raise ValueError(
            f"The 'pairs' parameter of {owner} must have an indptr that never decreases and ends "
            f"within its {len(indices)} indices."
        )
    if pairs.log2_rates is not None and np.shape(pairs.log2_rates) != (2, n):
        raise ValueError(
            f"The 'pairs' parameter of {owner} must have log2_rates of shape {(2, n)} or None. "
            f"Got shape {np.shape(pairs.log2_rates)} instead."
        )
