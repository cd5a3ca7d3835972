r"""The repulsion of kt-SNE by potentials on a grid, for many points in one or two dimensions.

With the Cauchy kernel w the sums over all sets of k follow from the power sums
:math:`S_m(i) = \sum_{j \ne i} w_{ij}^m` (Newton's identities), and the marginals are
:math:`q_{ij} = \sum_m c_{im} w_{ij}^m`.  As :math:`\nabla_i w^m = -2 m w^{m+1} (z_i - z_j)`, the
gradient of :math:`\sum_i f_i \log e_k(w_i)` is

.. math:: \sum_m \tfrac{1}{m} \left[ f_i c_{im} \nabla S_m(i) + \nabla \Phi_m(i) \right],
   \qquad \Phi_m(i) = \sum_j f_j c_{jm} w_{ij}^m .

So k potentials of the charge 1, and one potential of k charges that are added up after their
transforms: 2 (k + 1) transforms in all.  The potentials are interpolated; rows whose identities
would amplify the error too much, and the few points that are too far out for the grid, are left to
the exact engine.
"""

from __future__ import annotations

import numpy as np

from vicinal import _threads
from vicinal.core.types import Array
from vicinal.engines.cpu.grid_points import (
    FORCES,
    SUMS,
    Box,
    Points,
    choose_box,
    most_nodes,
)
from vicinal.engines.cpu.grid_transforms import (
    convolve_each,
    convolve_sum,
    is_small,
    make_kernels,
    precision,
)
from vicinal.engines.cpu.sets import TileSets
from vicinal.kernels.grid import far_pull, far_sums, gather_forces, gather_sums
from vicinal.kernels.newton import newton

#: rows whose estimated relative error of e_k is larger are left to the exact engine
DOUBT = 0.02
_FINER = 2  # how often the spacing may be divided by the root of 2 for rows in doubt


def pays(box: Box, n: int, k: int) -> bool:
    """Whether the grid costs less than all pairs."""
    return box.cost(n, k) < n * n


class GridSets:
    """Sums over all sets of k, by potentials on a grid: see `base.SetSums`.

    All rows of Z are queries and references; Z has one or two columns.

    Rows are left to the exact engine if the identities amplify the error of interpolation beyond
    ``DOUBT``, if they are far out, or, all of them, if the picture is so wide that the grid costs
    more than all pairs.  The facts are "chain_rows", the number of rows left to the exact engine,
    "share_of_pairs", that number over all rows, "far_rows", the points outside of the grid,
    "grid_nodes", and "sum_error", the root of the mean squared estimate of the relative error of
    e_k over the rows that are interpolated.
    """

    name = "grid"
    points: Points

    def __init__(self, Z: Array, k: int) -> None:
        self.Z, self.k = Z.astype(np.float64, copy=False), k
        self.transposed = np.ascontiguousarray(self.Z.T)
        self.on_grid = False
        self.exact: TileSets | None = None
        self.facts: dict[str, float] = {}

    def sums(self) -> Array:
        """The log of the total weight of all sets of k, for each row."""
        n, out = len(self.Z), np.empty(len(self.Z))
        rows, kept = np.arange(n), np.zeros(0)
        box = choose_box(self.transposed, self.k)
        n_nodes = n_far = 0
        self.on_grid = pays(box, n, self.k)
        if self.on_grid:
            box, log_total, doubt = self._interpolate(box)
            doubtful = ~(doubt <= DOUBT)
            self.coefficients[:, doubtful] = 0.0
            inner = self.points.rows
            out[inner] = log_total
            rows, kept = np.delete(rows, inner[~doubtful]), doubt[~doubtful]
            n_nodes, n_far = box.n_nodes, n - len(inner)
        if len(rows):
            self.exact = TileSets(self.Z, self.k, "cauchy", 0.0, rows, np.arange(n))
            self.exact_rows = rows
            out[rows] = self.exact.sums()
        self.facts = {
            "chain_rows": float(len(rows)),
            "share_of_pairs": len(rows) / n,
            "far_rows": float(n_far),
            "grid_nodes": float(n_nodes),
            "sum_error": float(np.sqrt(np.mean(kept**2))) if len(kept) else 0.0,
        }
        return out

    def _interpolate(self, box: Box) -> tuple[Box, Array, Array]:
        """The box that was used, log e_k of the points in it, and its estimated error.

        The grid is made finer, where that costs less than the rows that are in doubt.
        """
        n, k = len(self.Z), self.k
        for finer in range(1, _FINER + 2):
            self._potentials(box)
            log_total, doubt = self._newton()
            saved = np.count_nonzero(~(doubt <= DOUBT)) * n
            if not saved:
                break
            finer_box = choose_box(self.transposed, k, finer)
            if saved <= finer_box.cost(n, k) or finer_box.n_nodes > most_nodes(n):
                break
            if finer <= _FINER:
                box = finer_box
        return box, log_total, doubt

    def _potentials(self, box: Box) -> None:
        """The potentials of the charge 1."""
        self.points = points = Points(self.transposed, box)
        n = len(self.Z)
        self.far = np.delete(np.arange(n), points.rows) if len(points.rows) < n else None
        if self.far is not None:
            self.inner, self.outer = self.transposed[:, points.rows], self.transposed[:, self.far]
        self.kernels = make_kernels(self.k, box.axes, precision(box.axes))
        self.dtype = self.kernels.transforms.dtype
        self.fields = points.empty_fields(self.k + 1, self.dtype)
        grid = points.spread(np.ones((1, len(points.rows))), self.dtype)[0]
        self.rounding = convolve_each(grid, self.kernels, box.axes, self.fields[: self.k])

    def _newton(self) -> tuple[Array, Array]:
        """log e_k and its estimated error, in the order of the points; sets the coefficients."""
        points, k = self.points, self.k
        total = len(points.rows) - 1.0 if is_small(points.axes) else 0.0  # kernels less 1
        n = len(points.rows)
        sums, scratch = np.empty((k, n)), points.scratch(SUMS * k)
        self.coefficients = np.empty((k, n))
        log_total, doubt = np.empty(n), np.empty(n)

        def task(piece: tuple[int, int], thread: int) -> None:
            first, last = piece
            gather_sums(
                points.place, self.fields[:k], self.kernels.own, first, last, points.flat, sums,
                scratch[thread],
            )  # fmt: skip
            if total:
                sums[:, first:last] += total
            if self.far is not None:
                far_sums(self.inner, self.outer, first, last, sums)
            newton(
                sums, self.kernels.error, self.rounding, first, last, log_total,
                self.coefficients, doubt, np.empty(k + 1),
            )  # fmt: skip

        _threads.run(task, points.pieces(), len(scratch))
        return log_total, doubt

    def pull(self, factors: Array) -> Array:
        """The gradient by Z of the sum of ``factors`` times the sums."""
        dZ = np.zeros_like(self.Z)
        if self.on_grid:
            self._pull(factors, dZ)
        if self.exact is not None:
            dZ += self.exact.pull(factors[self.exact_rows])
        return dZ

    def _pull(self, factors: Array, dZ: Array) -> None:
        """Add the gradient of the rows that are interpolated."""
        points, k = self.points, self.k
        charges = self.coefficients * factors[points.rows]
        weights = charges / np.arange(1, k + 1)[:, None]
        convolve_sum(points.spread(weights, self.dtype), self.kernels, points.axes, self.fields[k])
        forces, pieces = np.empty((2, len(points.rows))), points.pieces()
        scratch = points.scratch(FORCES * (k + 1))
        d, spacing = self.Z.shape[1], points.axes[0].spacing
        outer = np.zeros((len(pieces), 0 if self.far is None else len(self.far), d))

        def task(number: int, thread: int) -> None:
            first, last = pieces[number]
            gather_forces(
                points.place, self.fields, weights, self.kernels.own, first, last, points.flat,
                forces, scratch[thread],
            )  # fmt: skip
            if self.far is not None:
                far_pull(
                    self.inner, self.outer, charges, first, last, spacing, forces, outer[number]
                )
            dZ[points.rows[first:last]] = forces[:d, first:last].T / spacing

        _threads.run(task, range(len(pieces)), len(scratch))
        if self.far is not None:
            dZ[self.far] += outer.sum(axis=0)  # in the order of the pieces
