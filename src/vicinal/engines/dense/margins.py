"""Hinges of LMNN, χ² distances and maps on the simplex in plain NumPy, for small data."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from vicinal._threads import single_threaded_blas
from vicinal.core.points import centre_of
from vicinal.core.types import Array
from vicinal.engines.base import Hinges, Triples
from vicinal.engines.dense.class_sums import MANY_DIMENSIONS

_BLOCK = 2**18  # entries at a time: 2 MB
_ROUNDING = 1e-9  # relative, far above the rounding error of the lower bounds


class DenseMargins:
    """All triples of small data; see `base.Margins`."""

    name, share = "dense", 1.0

    def __init__(self, triples: Triples) -> None:
        self.triples = triples
        self.Z = np.ascontiguousarray(triples.Z, dtype=np.float64)

    def sums(self, gradient: bool) -> Hinges:
        """The sums over all queries."""
        t = self.triples
        i, place = np.nonzero(t.neighbors >= 0)
        j = t.neighbors[i, place]
        D: Array = np.zeros(t.neighbors.shape)
        D[i, place] = self._distances(i, j)
        # a row without a target neighbour has no impostors
        reach = np.where(t.neighbors >= 0, D + t.margin, -1.0)
        p, q, to_impostor = self._impostors(reach.max(axis=1, initial=-1.0))
        inside = reach[p] - to_impostor[:, None]
        near = inside > 0
        self.targets, self.impostors = (i, j, place), (p, q)
        weight = t.weight[q].astype(np.float64)
        self.per_pair = weight * near.sum(axis=1)
        self.active = np.zeros(D.shape)
        for column in range(D.shape[1]):
            counted = np.where(near[:, column], weight, 0.0)
            self.active[:, column] = np.bincount(p, counted, minlength=len(D))
        hinges = np.where(near, inside * weight[:, None], 0.0).sum()
        return Hinges(float(D.sum()), float(hinges), round(self.per_pair.sum()))

    def _distances(self, i: Array, j: Array) -> Array:
        """Distances of some pairs."""
        out = np.empty(len(i))
        step = max(1, _BLOCK // self.Z.shape[1])
        for start in range(0, len(i), step):
            part = slice(start, start + step)
            u, v = self.Z[i[part]], self.Z[j[part]]
            if self.triples.chi2:
                out[part] = _chi2(u, v)
            else:
                out[part] = np.sum((u - v) ** 2, axis=1)
        return out

    def _impostors(self, furthest: Array) -> tuple[Array, Array, Array]:
        """Pairs of a query and a nearer reference of another class, and their distances."""
        t, codes = self.triples, self.triples.targets.codes
        rows = np.flatnonzero(t.is_query & (furthest > 0))
        columns = np.flatnonzero(t.is_reference)
        if t.chi2 or self.Z.shape[1] >= MANY_DIMENSIONS:
            D, slack = self._bounds_from_below(rows, columns)
        else:
            D, slack = cdist(self.Z[rows], self.Z[columns], "sqeuclidean"), None
        bound = furthest[rows] if slack is None else furthest[rows] * (1.0 + _ROUNDING) + slack
        a, b = np.nonzero((D < bound[:, None]) & (codes[rows][:, None] != codes[columns]))
        p, q = rows[a], columns[b]
        if slack is None:
            return p, q, D[a, b]
        exact = self._distances(p, q)
        inside = exact < furthest[p]
        return p[inside], q[inside], exact[inside]

    def _bounds_from_below(self, rows: Array, columns: Array) -> tuple[Array, float]:
        """Lower bounds of distances, from inner products, and their rounding error.

        χ²(u, v) >= 1/2 |√u - √v|²; for squared distances the bound is the distance itself.
        """
        points = np.sqrt(0.5 * self.Z) if self.triples.chi2 else self.Z - centre_of(self.Z)
        norms = np.einsum("ij,ij->i", points, points)
        with single_threaded_blas():
            D = points[rows] @ points[columns].T
        slack = _ROUNDING * float(norms.max(initial=0.0))
        return norms[rows][:, None] + norms[columns] - 2.0 * D, slack

    def pull(self, weight: float) -> Array:
        """Gradient of the weight times ``distances + mu * hinges``, (n, d)."""
        t, (i, j, place), (p, q) = self.triples, self.targets, self.impostors
        # the hinge (i, j, l) has the derivative [active] (dD_ij - dD_il)
        pull = weight * (1.0 + t.mu * self.active[i, place])
        push = -weight * t.mu * self.per_pair
        rows, columns = np.concatenate([i, p]), np.concatenate([j, q])
        w = np.concatenate([pull, push])
        n = len(self.Z)
        if t.chi2:
            return self._pull_chi2(rows, columns, w)
        W = sp.coo_array((w, (rows, columns)), shape=(n, n)).toarray()
        W = W + W.T
        with single_threaded_blas():
            Z = self.Z - centre_of(self.Z)  # robust: a mean would follow outliers and lose digits
            return 2.0 * (W.sum(axis=1)[:, None] * Z - W @ Z)

    def _pull_chi2(self, rows: Array, columns: Array, w: Array) -> Array:
        """With t = (u - v) / (u + v): t - t²/2 by u and -t - t²/2 by v ([OlsenPetersen] (14))."""
        n, d = self.Z.shape
        dZ = np.zeros((n, d))
        step = max(1, _BLOCK // d)
        for start in range(0, len(w), step):
            part = slice(start, start + step)
            i, j = rows[part], columns[part]
            u, v = self.Z[i], self.Z[j]
            total = u + v
            t = (u - v) / np.where(total > 0, total, 1.0)
            pairs = np.arange(len(i))
            to_i = sp.coo_array((w[part], (i, pairs)), shape=(n, len(i))).tocsr()
            to_j = sp.coo_array((w[part], (j, pairs)), shape=(n, len(j))).tocsr()
            half = 0.5 * t * t
            dZ += to_i @ (t - half) - to_j @ (t + half)
        return dZ


def _chi2(u: Array, v: Array) -> Array:
    """Chi-squared distances along the last axis; 0 / 0 is 0."""
    total = u + v
    r = u - v
    # the quotient first: the square of a small r would underflow
    return 0.5 * np.sum(r * (r / np.where(total > 0, total, 1.0)), axis=-1)


def chi2_rows(X: Array, Y: Array) -> Array:
    """Chi-squared distances between all rows of X and Y, float64, pair by pair."""
    X, Y = X.astype(np.float64), Y.astype(np.float64)
    out = np.empty((len(X), len(Y)))
    step = max(1, _BLOCK // max(1, Y.size))
    for start in range(0, len(X), step):
        out[start : start + step] = _chi2(X[start : start + step, None], Y)
    return out


def nearest_histograms(X: Array, Y: Array, k: int, same: bool) -> tuple[Array, Array]:
    """The k rows of Y nearest to each row of X, nearest first, ties by position.

    ``same``: X is Y, and no row is its own neighbour.
    """
    near, distances = np.zeros((len(X), k), np.int64), np.zeros((len(X), k))
    step = max(1, _BLOCK // max(1, len(Y)))
    for start in range(0, len(X), step):
        D = chi2_rows(X[start : start + step], Y)
        rows = np.arange(len(D))
        if same:
            D[rows, start + rows] = np.inf
        order = np.argsort(D, axis=1, kind="stable")[:, :k]
        near[start : start + step] = order
        distances[start : start + step] = np.take_along_axis(D, order, axis=1)
    return distances, near


def simplex_columns(L: Array, slack: float) -> Array:
    """Project the columns onto the probability simplex; columns on it keep their exact bits.

    With the entries of a column in decreasing order, u_1 >= u_2 >= ..., the threshold is tau_m for
    the last m for which u_m is above ``tau_m = (u_1 + ... + u_m - 1) / m`` ([Wang2013]).
    """
    r = len(L)
    on_it = (L.min(axis=0) >= 0) & (np.abs(np.minimum(L, 2.0).sum(axis=0) - 1.0) <= slack)
    # shift the largest entry to 0, so that tau, in [-1, 0), keeps its digits
    shifted = np.maximum(L - L.max(axis=0), -1.0)
    falling = -np.sort(-shifted, axis=0)
    tau = (np.cumsum(falling, axis=0) - 1.0) / np.arange(1, r + 1)[:, None]
    last = r - 1 - np.argmax((falling > tau)[::-1], axis=0)
    out = np.maximum(shifted - tau[last, np.arange(L.shape[1])], 0.0)
    return np.where(on_it, L, out / out.sum(axis=0))  # removes rounding errors
