r"""Places of new rows in a finished picture, one by one.

A new row i has the loss :math:`\sum_j p^k_{ij} \delta_{ij} + \log e_k(w_i)` over the points of the
picture, which stay where they are.  It is minimised from the better of two starts: the mean of its
neighbours' places, weighted by the marginals, and the place of the likeliest of them.

Each row is computed by itself, so that its place does not depend on the rows that come with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from vicinal.core.types import Array
from vicinal.engines.dense.potential import weights_of

_ROWS = 1024  # placed at a time
_STEPS = 100  # most steps of a row; ten to twenty are usual
_HALVINGS = 30
_ENOUGH = 1e-4  # share of the decrease that the slope predicts (Armijo)
_TOL = 1e-12  # predicted decrease of the loss at which a row has arrived


class Lists(NamedTuple):
    """Neighbourhoods of new rows among the points, in compressed sparse rows."""

    indptr: Array
    indices: Array
    marginals: Array


#: values and gradients of ``log e_k`` at some places
Potential = Callable[[Array], tuple[Array, Array]]


def place(Z: Array, lists: Lists, potential: Potential, kernel: str, kappa: float) -> Array:
    """Places of new rows: float64, (m, d).

    Parameters
    ----------
    Z : float64 array of shape (n, d)
        The picture.
    lists : Lists
        Whom each new row chooses; no list is empty.
    potential : callable
        ``values, gradients = potential(places)``, see `engines.base.Backend`.
    kernel, kappa : str, float
        As in `KSNELoss`.
    """
    indptr, indices, marginals = lists
    m = len(indptr) - 1
    placed = np.empty((m, Z.shape[1]))
    for first in range(0, m, _ROWS):
        rows = slice(first, min(first + _ROWS, m))
        counts = np.diff(indptr[first : rows.stop + 1])
        there = np.arange(counts.max()) < counts[:, None]
        part = slice(indptr[first], indptr[rows.stop])
        near, p = np.zeros(there.shape, np.int64), np.zeros(there.shape)
        near[there], p[there] = indices[part], marginals[part]
        placed[rows] = _Rows(Z[near], p, potential, kernel, kappa).places()
    return placed


class _Rows:
    """Some new rows: the places of their neighbours (m, L, d), and the marginals (m, L)."""

    def __init__(
        self, near: Array, p: Array, potential: Potential, kernel: str, kappa: float
    ) -> None:
        self.near, self.p, self.potential = near, p, potential
        self.kernel, self.kappa = kernel, kappa

    def loss(self, z: Array, rows: Array) -> tuple[Array, Array]:
        """The loss of some of the rows at places z, and its gradient."""
        away = z[:, None, :] - self.near[rows]
        delta, slope = weights_of(away, self.kernel, self.kappa)
        p = self.p[rows]
        value, gradient = self.potential(z)
        pull = 2.0 * np.sum((p * slope)[:, :, None] * away, axis=1)
        return value + np.sum(p * delta, axis=1), gradient + pull

    def places(self) -> Array:
        """Where the loss is least."""
        everyone = np.arange(len(self.p))
        weight = self.p / np.sum(self.p, axis=1, keepdims=True)
        mean = np.sum(weight[:, :, None] * self.near, axis=1)
        nearest = self.near[everyone, np.argmax(self.p, axis=1)]
        starts = [(z, *self.loss(z, everyone)) for z in (mean, nearest)]
        better = starts[1][1] < starts[0][1]
        z, f, g = (
            np.where(better.reshape(-1, *[1] * (a.ndim - 1)), b, a)
            for a, b in zip(*starts, strict=True)
        )
        away = z[:, None, :] - self.near
        _, slope = weights_of(away, self.kernel, self.kappa)
        # the curvature of the attraction, and how far the neighbours are spread
        unit = 1.0 / np.maximum(2.0 * np.sum(self.p * slope, axis=1), 1e-12)
        spread = 1.0 + np.sqrt(np.sum(weight * np.sum(away * away, axis=2), axis=1))
        return _minimised(self.loss, z, f, g, unit, spread)


def _minimised(loss: Any, z: Array, f: Array, g: Array, unit: Array, longest: Array) -> Array:
    """Minima of many functions of few variables each, by BFGS with backtracking.

    Parameters
    ----------
    loss : callable
        ``f, g = loss(z, rows)``, values and gradients of the functions with these numbers.
    z, f, g : arrays of shape (m, d), (m,), (m, d)
        The starts, with values and gradients.
    unit : array of shape (m,)
        First guess of the inverse curvature.
    longest : array of shape (m,)
        Longest step.
    """
    d = z.shape[1]
    first = unit[:, None, None] * np.eye(d)
    H = first.copy()
    left = np.arange(len(z))
    for _ in range(_STEPS):
        step = -np.sum(H[left] * g[left][:, None, :], axis=2)
        slope = np.sum(step * g[left], axis=1)
        upwards = ~(slope < 0)
        H[left[upwards]] = first[left[upwards]]
        step[upwards] = -unit[left[upwards], None] * g[left[upwards]]
        slope[upwards] = np.sum(step[upwards] * g[left[upwards]], axis=1)
        length = np.sqrt(np.sum(step * step, axis=1))
        factor = np.minimum(1.0, longest[left] / np.maximum(length, 1e-300))
        step, slope = step * factor[:, None], slope * factor
        going = slope < -_TOL
        left, step, slope = left[going], step[going], slope[going]
        if not len(left):
            break
        left = _line_search(loss, (z, f, g, H), left, step, slope)
    return z


def _line_search(loss: Any, at: Any, left: Array, step: Array, slope: Array) -> Array:
    """Take the step of each row, halved until the loss falls enough; the rows that moved."""
    z, f, g, H = at
    trying, t, moved = np.arange(len(left)), 1.0, np.zeros(len(left), dtype=bool)
    for _ in range(_HALVINGS):
        rows = left[trying]
        move = t * step[trying]
        new = z[rows] + move
        value, gradient = loss(new, rows)
        falls = value <= f[rows] + _ENOUGH * t * slope[trying]
        if falls.any():
            done, change = rows[falls], gradient[falls] - g[rows[falls]]
            H[done] = _updated(H[done], move[falls], change)
            z[done], f[done], g[done] = new[falls], value[falls], gradient[falls]
            moved[trying[falls]] = True
        trying = trying[~falls]
        if not len(trying):
            break
        t *= 0.5
    return left[moved]


def _updated(H: Array, s: Array, y: Array) -> Array:
    """The BFGS update of inverse Hessians; unchanged where the curvature is not positive."""
    sy = np.sum(s * y, axis=1)
    good = sy > 1e-12 * np.sqrt(np.sum(s * s, axis=1) * np.sum(y * y, axis=1))
    r = np.where(good, 1.0 / np.where(good, sy, 1.0), 0.0)[:, None, None]
    Hy = np.sum(H * y[:, None, :], axis=2)
    yHy = np.sum(y * Hy, axis=1)[:, None, None]
    cross = Hy[:, :, None] * s[:, None, :]
    outer = s[:, :, None] * s[:, None, :]
    return H - r * (cross + np.swapaxes(cross, 1, 2)) + r * (1.0 + r * yHy) * outer
