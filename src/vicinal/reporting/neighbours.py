"""The nearest training rows of each point, before and after learning, with their p_ij."""

from __future__ import annotations

from typing import Any

import numpy as np

from vicinal._threads import n_threads, run, single_threaded_blas
from vicinal.core.types import Array
from vicinal.densities import Gaussian
from vicinal.models.picks import StochasticPicks
from vicinal.models.regression import RegressionModel
from vicinal.reporting.contents import Neighbours
from vicinal.reporting.spaces import Space
from vicinal.starts.first import base_scale, scale_start

__all__ = ["find_neighbours", "pick_probabilities"]

_BLOCK = 2**21  # pairs that are compared at a time
_SAMPLE = 500  # rows by which the scale of the old metric is chosen


def find_neighbours(
    learner: Any, before: Space, after: Space, train: Array, y: Array | None, k: int
) -> Neighbours:
    """Search among the training points, for all points.

    Parameters
    ----------
    learner : estimator
        Fitted; its model says whether points pick their neighbours at random.
    before, after : Space
        All points of the page.
    train : int array
        The points that were learnt from.
    y : array of shape (n,) or None
        Class codes or numbers of all points.
    k : int
        Number of neighbours.
    """
    everyone = np.arange(after.points.shape[0])
    quick, note = before.quick(len(everyone), len(train))
    old, old_d2 = quick.nearest(everyone, train, k)
    new, new_d2 = after.nearest(everyone, train, k)
    none = np.full(new_d2.shape, np.nan, np.float32)
    kernel = _kernel_of(learner)
    if kernel is None or y is None or after.chi2:
        return Neighbours(old, new, none, none, note)
    after_p = pick_probabilities(after.points, train, new_d2, kernel)
    scale = _best_scale(quick.points[train], y[train])
    before_p = pick_probabilities(quick.points * np.float32(scale), train, old_d2 * scale**2)
    told = (
        "A point picks a training row j with probability p_ij. For the old metric distances are "
        "multiplied by the number that makes right picks most likely."
    )
    return Neighbours(old, new, before_p, after_p, f"{told} {note}".strip())


def pick_probabilities(Z: Array, train: Array, d2: Array, kernel: Any = None) -> Array:
    r"""The p_ij of the nearest training points, given their squared distances ``d2``.

    .. math:: p_{ij} = \kappa(d_{ij}) / \sum_{k \ne i} \kappa(d_{ik})

    where the sum is over all training points.
    """
    kernel = Gaussian() if kernel is None else kernel
    d = Z.shape[1]
    Z = np.asarray(Z, np.float32)
    Z = Z - Z[train].mean(axis=0)
    points = Z[train]
    norms = np.einsum("ij,ij->i", points, points)
    position = np.full(len(Z), -1)
    position[train] = np.arange(len(train))
    nearest = kernel.energy(d2[:, :1], d)[0]  # the shift that keeps the sum from underflowing
    total = np.empty(len(Z))
    step = max(1, _BLOCK // len(points))

    def task(first: int, thread: int) -> None:
        rows = np.arange(first, min(first + step, len(Z)))
        block = Z[rows]
        apart = np.einsum("ij,ij->i", block, block)[:, None] + norms - 2.0 * (block @ points.T)
        energy = kernel.energy(np.maximum(apart, 0.0), d)[0] - nearest[rows].astype(np.float32)
        weight = np.exp(-np.maximum(energy, 0.0))  # rounding aside, none is nearer
        own = position[rows] >= 0
        weight[np.flatnonzero(own), position[rows][own]] = 0.0
        total[rows] = weight.sum(axis=1)

    with single_threaded_blas():
        run(task, range(0, len(Z), step), n_threads())
    shown = np.exp(nearest - kernel.energy(d2, d)[0])
    shown[~np.isfinite(d2)] = 0.0
    # in float32 the sum may miss a little of what is shown
    total = np.maximum(total, shown.sum(axis=1))[:, None]
    return np.where(np.isfinite(d2), shown / total, np.nan).astype(np.float32)


def _kernel_of(learner: Any) -> Any:
    """The kernel by which rows pick a neighbour; None if the method has no such picks."""
    model = getattr(learner, "_model", None)
    if not isinstance(model, StochasticPicks | RegressionModel):
        return None
    return model.kernel if model.kernel.reaches_everywhere else None


def _best_scale(points: Any, y: Array) -> float:
    """The factor of the old distances at which picks are right most often, on a sample."""
    rng = np.random.RandomState(0)
    rows = rng.permutation(len(y))[:_SAMPLE]
    Z = np.asarray(points[rows], np.float64)
    y = y[rows]
    norms = np.sum(Z**2, axis=1)
    d2 = np.maximum(norms[:, None] + norms - 2.0 * Z @ Z.T, 0.0)
    np.fill_diagonal(d2, np.inf)

    def loss(scale: float) -> float:
        energy = scale**2 * d2
        weight = np.exp(energy.min(axis=1, keepdims=True) - energy)
        P = weight / weight.sum(axis=1, keepdims=True)
        if y.dtype.kind == "f":
            return float(np.mean((P @ y - y) ** 2))
        right = np.sum(P, axis=1, where=y[:, None] == y)
        return float(-np.mean(np.log(np.maximum(right, 1e-12))))

    return scale_start(1.0, loss, base_scale(Z, rng))
