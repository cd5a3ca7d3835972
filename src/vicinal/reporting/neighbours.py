"""The nearest training rows of each point, before and after learning, with their p_ij."""

from __future__ import annotations

from typing import Any

import numpy as np

from vicinal._threads import single_threaded_blas
from vicinal.core.types import Array
from vicinal.densities import Gaussian
from vicinal.engines import choose
from vicinal.engines.base import Data
from vicinal.models.picks import StochasticPicks
from vicinal.models.regression import RegressionModel
from vicinal.reporting.contents import Neighbours
from vicinal.reporting.spaces import Space
from vicinal.starts.first import base_scale, scale_start

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
    n, d = Z.shape
    Z = np.ascontiguousarray(Z - Z[train].mean(axis=0))
    data = Data(Z, np.zeros(n, np.int64), np.ones(n), np.arange(n), train)
    engine = choose.class_sums(data, kernel)
    with single_threaded_blas():
        sums = engine.sums()
    log_total = np.empty(n)
    # kept apart until the end: far from all training points both are huge
    log_total[sums.rows] = np.log(2.0) * (sums.log2[1] - sums.shift[1])
    P = np.exp(-kernel.energy(d2, d)[0] - log_total[:, None])
    return np.where(np.isfinite(d2), np.minimum(P, 1.0), np.nan).astype(np.float32)


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
