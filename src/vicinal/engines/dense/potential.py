r"""Sums over sets of k fixed points, seen from any place, in NumPy: for few points.

The polynomial :math:`\prod_j (1 + w_j t)` up to :math:`t^k` is multiplied up in pairs, as a
tree, with its derivative by the place next to it.  All terms are positive, so nothing cancels, and
each place is computed by itself: the bits do not depend on how many are asked for.
"""

from __future__ import annotations

import numpy as np

from vicinal.core.types import Array

_ROOM = 2**20  # numbers in the largest array: 8 MB
#: Largest logarithm of a weight over the k-th largest, times k.  A member beyond is in nearly every
#: set; with its logarithm taken out of the product, e_k neither over- nor underflows.
RANGE = 600.0


class DensePotential:
    """``log e_k`` of the weights of all points at a place, and its gradient by the place.

    Parameters
    ----------
    Z : float64 array of shape (n, d)
        The points.
    k : int
        Size of the sets, at most n.
    kernel : {"cauchy", "gaussian"}
    kappa : float
        Constant that is added to every weight.
    """

    def __init__(self, Z: Array, k: int, kernel: str, kappa: float) -> None:
        self.Z, self.k, self.kernel, self.kappa = Z, k, kernel, kappa

    def __call__(self, places: Array) -> tuple[Array, Array]:
        """The values (m,) and the gradients (m, d) at some places."""
        (n, d), k = self.Z.shape, self.k
        values, gradients = np.empty(len(places)), np.empty((len(places), d))
        size = max(1, _ROOM // (n * (min(k, 2) + 1) * (d + 1)))
        for first in range(0, len(places), size):
            rows = slice(first, first + size)
            values[rows], gradients[rows] = self._block(places[rows])
        return values, gradients

    def _block(self, places: Array) -> tuple[Array, Array]:
        away = places[:, None, :] - self.Z  # (m, n, d)
        delta, slope = weights_of(away, self.kernel, self.kappa)
        log_w, unit, excess = _relative_weights(delta, self.k)
        w = np.exp(log_w)
        # d log w by the place: of a member beyond the range it is in `excess`
        direction = -2.0 * slope[:, :, None] * away
        beyond = excess > 0
        inner = np.where(beyond[:, :, None], 0.0, direction)
        total, gradient = _top_coefficient(w, w[:, :, None] * inner, self.k)
        value = np.log(total) + self.k * unit + np.sum(excess, axis=1)
        outer = np.where(beyond[:, :, None], direction, 0.0)
        return value, gradient / total[:, None] + np.sum(outer, axis=1)


def weights_of(away: Array, kernel: str, kappa: float) -> tuple[Array, Array]:
    r""":math:`-\log w` of differences of places, and its derivative by the squared distance."""
    d2 = np.sum(away * away, axis=-1)
    if kernel == "gaussian":
        delta, slope = d2, np.ones_like(d2)
    else:
        delta, slope = np.log1p(d2), 1.0 / (1.0 + d2)
    if kappa > 0:
        log_w = np.logaddexp(-delta, np.log(kappa))
        return -log_w, slope * np.exp(-delta - log_w)  # Uni-SNE: w = exp(-delta) + kappa
    return delta, slope


def _relative_weights(delta: Array, k: int) -> tuple[Array, Array, Array]:
    """Log of the weights over a unit, limited; the log of the unit; and what the limit took off.

    The unit is the k-th largest weight times ``max(1, share)``, where share is the sum of all
    smaller weights over k times it: then e_k is about 1.
    """
    last = np.partition(delta, k - 1, axis=1)[:, k - 1 : k]
    relative = last - delta
    share = np.sum(np.exp(np.minimum(relative, 0.0)), axis=1, keepdims=True) / k
    unit = np.log(np.maximum(share, 1.0))
    excess = np.maximum(relative - RANGE / max(k, 10), 0.0)
    return relative - excess - unit, (unit - last)[:, 0], excess


def _top_coefficient(w: Array, dw: Array, k: int) -> tuple[Array, Array]:
    """Coefficient of t^k in the product of ``1 + w_j t``, and its derivative along ``dw``.

    Parameters
    ----------
    w : array of shape (m, n)
    dw : array of shape (m, n, d)

    Returns
    -------
    e : array of shape (m,)
    de : array of shape (m, d)
    """
    m, n, d = dw.shape
    # coefficients of t, t^2, ...; that of 1 is 1 and has no derivative
    e, de = w[:, :, None], dw[:, :, None, :]
    while e.shape[1] > 1:
        if e.shape[1] % 2:
            e = np.concatenate([e, np.zeros((m, 1, e.shape[2]))], axis=1)
            de = np.concatenate([de, np.zeros((m, 1, *de.shape[2:]))], axis=1)
        e, de = _product((e[:, ::2], de[:, ::2]), (e[:, 1::2], de[:, 1::2]), k)
    return e[:, 0, k - 1], de[:, 0, k - 1]


def _product(a: tuple[Array, Array], b: tuple[Array, Array], k: int) -> tuple[Array, Array]:
    """The product of polynomials up to degree k, and its derivative."""
    (ea, da), (eb, db) = a, b
    top = ea.shape[2]
    degree = min(2 * top, k)
    e = np.zeros((*ea.shape[:2], degree))
    de = np.zeros((*e.shape, da.shape[3]))
    keep = min(top, degree)
    e[:, :, :keep] = ea[:, :, :keep] + eb[:, :, :keep]
    de[:, :, :keep] = da[:, :, :keep] + db[:, :, :keep]
    for u in range(1, min(top, degree - 1) + 1):
        span = min(top, degree - u)  # coefficients of b that t^u of a meets
        here = slice(u, u + span)
        e[:, :, here] += ea[:, :, u - 1 : u] * eb[:, :, :span]
        de[:, :, here] += da[:, :, u - 1 : u] * eb[:, :, :span, None]
        de[:, :, here] += ea[:, :, u - 1 : u, None] * db[:, :, :span]
    return e, de
