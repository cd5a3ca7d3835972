"""Large margins, [OlsenPetersen] section 2, as plain loops over pairs and triples."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from formulas._common import Array

__all__ = ["chi2", "lmnn", "simplex_projection"]


def chi2(u: ArrayLike, v: ArrayLike) -> tuple[float, Array, Array]:
    """Chi-squared distance of two histograms, and its derivatives by both.

    With ``t = (u - v) / (u + v)``, and t = 0 where both are 0::

        chi2(u, v) = 1/2 sum_f (u_f - v_f)^2 / (u_f + v_f)
        dchi2 / du = t - t^2 / 2,   dchi2 / dv = -t - t^2 / 2

    Parameters
    ----------
    u, v : arrays of shape (d,), none negative

    Returns
    -------
    value : float
    du, dv : ndarrays of shape (d,)

    References
    ----------
    [OlsenPetersen] eq. (14), in terms of the points; its x_jp stands for x_jq.
    """
    a: Array = np.asarray(u, dtype=np.float64)
    b: Array = np.asarray(v, dtype=np.float64)
    t = np.divide(a - b, a + b, np.zeros_like(a), where=a + b > 0)
    return float(0.5 * np.sum(t * (a - b))), t - t**2 / 2, -t - t**2 / 2


def _squared(u: Array, v: Array) -> tuple[float, Array, Array]:
    return float((u - v) @ (u - v)), 2 * (u - v), 2 * (v - u)


def lmnn(
    Z: ArrayLike,
    labels: ArrayLike,
    neighbours: ArrayLike,
    mu: float = 1.0,
    margin: float = 1.0,
    distance: str = "squared",
    queries: ArrayLike | None = None,
    references: ArrayLike | None = None,
) -> tuple[float, Array]:
    """Target neighbours pull, impostors push: mean loss and its gradient.

    With j over the target neighbours of i and l over the rows of other classes::

        loss_i = sum_j D(i, j) + mu sum_j sum_l [margin + D(i, j) - D(i, l)]_+

    The gradient of a bracket is that of its content if this is positive, otherwise 0
    (in [OlsenPetersen] eqs (10) and (13) the brackets stand around the gradients).

    Parameters
    ----------
    Z : array of shape (n, d)
        Embedded points.
    labels : array of shape (n,)
    neighbours : int array of shape (n, k)
        Positions of the target neighbours; negative for none.
    mu : float, default=1.0
        Weight of the push.
    margin : float, default=1.0
    distance : {"squared", "chi2"}, default="squared"
        D: squared Euclidean, or chi-squared.
    queries, references : int arrays, default=None
        Positions in `Z`; None stands for all rows.  Target neighbours and impostors that are not
        among the references do not count.

    Returns
    -------
    value : float
        Mean over the queries with a target neighbour; 0.0 if there are none.
    dZ : ndarray of shape (n, d)

    References
    ----------
    [OlsenPetersen] eqs (8), (10), (13)
    """
    if distance not in ("squared", "chi2"):
        raise ValueError(f"distance must be 'squared' or 'chi2'. Got {distance!r} instead.")
    D = _squared if distance == "squared" else chi2
    Z = np.asarray(Z, dtype=np.float64)
    y = np.asarray(labels)
    J = np.asarray(neighbours)
    q = range(len(Z)) if queries is None else np.asarray(queries)
    r = range(len(Z)) if references is None else np.asarray(references)
    value, dZ, count = 0.0, np.zeros_like(Z), 0
    for i in q:
        near = [j for j in J[i] if j >= 0 and j != i and j in r]
        count += len(near) > 0
        for j in near:
            d_ij, du_ij, dv_ij = D(Z[i], Z[j])
            value += d_ij
            dZ[i] += du_ij
            dZ[j] += dv_ij
            for l in r:
                d_il, du_il, dv_il = D(Z[i], Z[l])
                if y[l] != y[i] and margin + d_ij - d_il > 0:
                    value += mu * (margin + d_ij - d_il)
                    dZ[i] += mu * (du_ij - du_il)
                    dZ[j] += mu * dv_ij
                    dZ[l] -= mu * dv_il
    return value / max(count, 1), dZ / max(count, 1)


def simplex_projection(y: ArrayLike) -> Array:
    """The point of the simplex nearest to y, by dropping entries that become negative.

    ``x = max(y - tau, 0)`` with sum 1: tau is computed from the entries that stay, and entries that
    it makes negative are dropped [Michelot1986].

    Parameters
    ----------
    y : array of shape (r,)

    Returns
    -------
    x : ndarray of shape (r,)
    """
    moved: Array = np.asarray(y, dtype=np.float64) - np.max(y)  # this changes tau only
    stays = np.full(len(moved), True)
    while True:
        tau = (moved[stays].sum() - 1) / stays.sum()
        if (moved[stays] > tau).all():
            return np.where(stays, moved - tau, 0.0)
        stays = stays & (moved > tau)
