"""The overall scale of a start: NCA's kernel has a width, so a start needs a size as well."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.spatial.distance import cdist

from vicinal.core.types import Array

__all__ = ["base_scale", "repair_scale", "scale_start"]

_SAMPLE = 500
#: rows closer than this share of the largest coordinate are duplicates up to rounding
_DUPLICATE = 1e-13


def base_scale(Z: Array, rng: np.random.RandomState) -> float:
    r"""Scale at which the nearest of some hundred rows is at distance about one.

    .. math:: s = \bigl(\mathrm{median}_{i}\ \min_{j \ne i} \|z_i - z_j\|^2\bigr)^{-1/2}

    over a sample of at most 500 rows.  A median of nearest distances ignores far outliers;
    duplicates are skipped, since their distance says nothing about scale.

    Parameters
    ----------
    Z : ndarray of shape (n, d)
        Embedded rows.
    rng : RandomState
        Draws the sample.

    Returns
    -------
    float
        Positive and finite; 1.0 when all rows are the same.
    """
    Z = np.asarray(Z, dtype=np.float64)
    if len(Z) > _SAMPLE:
        Z = Z[np.sort(rng.permutation(len(Z))[:_SAMPLE])]
    Z = Z - np.median(Z, axis=0)
    largest = np.abs(Z).max(initial=0.0)
    if not (np.isfinite(largest) and largest > np.finfo(float).tiny):
        return 1.0
    # Divided by the largest coordinate the squares can neither overflow nor all vanish; cdist
    # subtracts before it squares, which dot products would not, beside a far outlier.
    Z = Z / largest
    d2 = cdist(Z, Z, "sqeuclidean")
    d2[d2 <= _DUPLICATE**2] = np.inf
    nearest = d2.min(axis=1)
    return float(1.0 / (np.sqrt(np.median(nearest[np.isfinite(nearest)])) * largest))


def scale_start(
    A: Array,
    loss: Callable[[Array], float],
    base: float = 1.0,
    *,
    ratio: float = 2.0,
    n_steps: int = 3,
) -> float:
    """Choose s so that ``loss(s A)`` is least on a geometric grid.

    ``s = base * ratio^k`` for k = -n_steps, ..., n_steps.  The grid is bounded on purpose: the
    accuracy objective may go on improving towards a hard nearest neighbour, where its gradient
    is gone.  A loss that is not finite never wins, and of equal losses the one nearest to
    ``base`` does.

    Parameters
    ----------
    A : ndarray of shape (d, D)
        A start of any scale.
    loss : callable
        ``loss(A)``, the objective at a map.
    base : float, default=1.0
        Middle of the grid, from `base_scale` of the rows embedded by A.
    ratio : float, default=2.0
        Factor between neighbours on the grid.
    n_steps : int, default=3
        Steps on either side; the loss is evaluated ``2 n_steps + 1`` times.

    Returns
    -------
    float
        The best s, to be multiplied with A.
    """
    steps = sorted(range(-n_steps, n_steps + 1), key=lambda k: (abs(k), k))
    best, least = base, np.inf
    for k in steps:
        s = base * ratio**k
        value = float(loss(s * A))
        if value < least:  # False for nan
            best, least = s, value
    return best


def repair_scale(loss: Callable[[float], float], *, most: float = 4.0, tol: float = 0.01) -> float:
    """The factor, within ``most`` of 1 either way, that a finished map is best multiplied by.

    For a map learnt from few of the rows, among which distances are larger than among all of them
    ([Oneata2011] section 4.1).  By Brent's method over the logarithm of the factor.

    Parameters
    ----------
    loss : callable
        ``loss(s)`` of the map times s, on all rows or on some queries against all rows.
    most : float, default=4.0
        The largest factor; its inverse is the least.
    tol : float, default=0.01
        Relative precision of the factor.

    Returns
    -------
    float
        1.0 where nothing is better than the map as it is.
    """
    bounds = (-np.log(most), np.log(most))
    found = minimize_scalar(
        lambda x: loss(float(np.exp(x))), bounds=bounds, method="bounded", options={"xatol": tol}
    )
    return float(np.exp(found.x)) if found.fun < loss(1.0) else 1.0
