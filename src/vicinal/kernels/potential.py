"""Sums over sets of k fixed points, seen from any place, and their gradient by the place."""

from __future__ import annotations

import numpy as np

from vicinal.kernels._jit import helper, kernel
from vicinal.kernels.knca_lists import FAR, insert


def potential_scratch(n, d, k):
    """Scratch for one thread: distances, weights, the k nearest, polynomial and its derivative."""
    return np.empty(n), np.empty(n), np.empty(k), np.empty(k + 1), np.empty((k + 1, d))


@helper
def _ratio(d2, nearest, gaussian, kappa):
    """A weight over the k-th largest one, which is at squared distance ``nearest``."""
    if kappa > 0.0:
        if gaussian:
            return (np.exp(-d2) + kappa) / (np.exp(-nearest) + kappa)
        return (1.0 / (1.0 + d2) + kappa) / (1.0 / (1.0 + nearest) + kappa)
    if gaussian:
        return np.exp(min(nearest - d2, 700.0))
    return (1.0 + nearest) / (1.0 + d2)


@helper
def _slope(d2, gaussian, kappa):
    """Minus the derivative of the log of a weight by the squared distance."""
    if gaussian:
        return 1.0 if kappa == 0.0 else 1.0 / (1.0 + kappa * np.exp(min(d2, 700.0)))
    smooth = 1.0 / (1.0 + d2)
    return smooth if kappa == 0.0 else smooth * smooth / (smooth + kappa)


@helper
def _log_weight(d2, gaussian, kappa):
    if gaussian:
        return -d2 if kappa == 0.0 else np.log(np.exp(-d2) + kappa)
    return -np.log1p(d2) if kappa == 0.0 else np.log(1.0 / (1.0 + d2) + kappa)


@kernel
def set_potential(
    Z, places, k, gaussian, kappa, most, values, gradients, q0, q1, d2, w, near, e, de
):
    """``log e_k`` of the weights of all points at each place, and its gradient.

    As in `engines.dense.potential`, point after point: e_u += w e_(u-1), with the derivative by the
    place beside it; all terms of e_u are positive.  Weights are relative to the k-th largest and
    divided by ``share``, so that e_k is about 1.  A weight of more than ``most`` is limited: such
    a point is in nearly every set, and its logarithm is added apart.
    """
    n, d = Z.shape
    for q in range(q0, q1):
        near[:] = FAR
        for j in range(n):
            distance = 0.0
            for c in range(d):
                difference = places[q, c] - Z[j, c]
                distance += difference * difference
            d2[j] = distance
            if distance < near[k - 1]:
                insert(near, distance)
        last = near[k - 1]
        share = 0.0
        for j in range(n):
            w[j] = _ratio(d2[j], last, gaussian, kappa)
            share += min(w[j], 1.0)
        share = max(share / k, 1.0)
        value = 0.0
        e[:] = 0.0
        e[0] = 1.0
        de[:] = 0.0
        gradients[q] = 0.0
        log_last = _log_weight(last, gaussian, kappa)
        for j in range(n):
            slope = -2.0 * _slope(d2[j], gaussian, kappa)
            weight = w[j] / share
            if w[j] > most:
                value += _log_weight(d2[j], gaussian, kappa) - log_last - np.log(most)
                for c in range(d):
                    gradients[q, c] += slope * (places[q, c] - Z[j, c])
                slope = 0.0
                weight = most / share
            for u in range(min(j + 1, k), 0, -1):
                for c in range(d):
                    along = slope * (places[q, c] - Z[j, c])
                    de[u, c] += weight * (de[u - 1, c] + along * e[u - 1])
                e[u] += weight * e[u - 1]
        values[q] = value + np.log(e[k]) + k * (log_last + np.log(share))
        for c in range(d):
            gradients[q, c] += de[k, c] / e[k]
