"""Normal distributions of the embedded classes, and their terms in the sums over classes.

With a background a class is ``p(z|c) = beta_c N(z|mu_c, Sigma_c) + (1 - beta_c) p_kappa(z|c)``
([Oneata2011] eq. (4.22)).  An engine computes the second term; this module computes the first, in
float64, with its gradient through the point, the mean and the covariance: docs/theory/nca.md,
section 10.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from vicinal._threads import n_threads, run, single_threaded_blas
from vicinal.core.types import Array
from vicinal.engines.base import Data
from vicinal.targets import Labels
from vicinal.targets.labels import background_mass

#: further rows for each dimension and one, whose covariance is that within all classes; measured by
#: the experiment "background" of benchmarks/reproduce
PRIOR_ROWS = 1.0
_RIDGE = 1e-6  # relative to the mean variance and to the kernel's squared width
_CHUNK = 1024  # queries at a time, each against all classes
_GROUPS = 8  # groups of queries; fixed, so that sums do not depend on the number of threads


def background_weights(counts: Array, beta: float | str = "count") -> Array:
    """The share of the background in each class, ``beta_c``.

    Parameters
    ----------
    counts : array of shape (n_classes,)
        Number of rows of each class.
    beta : float in (0, 1), "count", "em" or "gradient", default="count"
        One share for all; or ``1 / (N_c + 1)``, the same as each row of the class
        ([Oneata2011]_ section 4.6), which is also where "em" and "gradient" begin.

    Returns
    -------
    beta : array of shape (n_classes,)
    """
    counts = np.asarray(counts, dtype=np.float64)
    if isinstance(beta, str) and beta in ("count", "em", "gradient"):
        return 1.0 / (np.maximum(counts, 1.0) + 1.0)
    if isinstance(beta, Real) and 0 < beta < 1:
        return np.full(counts.shape, float(beta))
    raise ValueError(
        "The 'beta' parameter of background_weights must be a float in (0, 1), 'count', 'em' "
        f"or 'gradient'. Got {beta!r} instead."
    )


def check_background(background: Any, n_classes: int, owner: str = "nca") -> Array:
    """The shares as float64, one for each class; 0 means no background."""
    try:
        beta = np.asarray(background, dtype=np.float64)
    except (TypeError, ValueError):
        beta = np.empty(0)
    if beta.shape != (n_classes,) or not ((beta >= 0) & (beta < 1)).all():
        raise ValueError(
            f"The 'background' parameter of {owner} must be {n_classes} numbers in [0, 1), one for "
            f"each class. Got {background!r} instead."
        )
    return beta


class Normals:
    r"""The normal distribution of each class of embedded references.

    :math:`\mu_c = \sum_j v_j z_j / V_c` and, with S_c the covariance around it (over V_c) and
    :math:`S = \sum_c V_c S_c / V` that within all classes,

    .. math::
        \Sigma_c = (1 - \rho_c) S_c + \rho_c T + \varepsilon (\mathrm{tr}(S_c)/d + 1) I, \qquad
        T = (1 - \rho) S + \rho\, \mathrm{tr}(S)/d\, I

    A covariance is shrunk as by d + 1 further rows: :math:`\rho_c = (d + 1) / (N_c + d + 1)`, and
    :math:`\rho` is the same for :math:`\sum_c (N_c - 1)` rows.  Rows of uneven weights count as
    fewer: :math:`N_c = V_c^2 / \sum_j v_j^2`.  :math:`\varepsilon = 10^{-6}`, in units of the
    kernel's squared width, keeps classes of identical points from being singular.

    Parameters
    ----------
    Z : array of shape (n, d)
        References, sorted by class.
    codes : int array of shape (n,)
    weight : array of shape (n,)
        v, positive.
    n_classes : int
        Classes without a reference have density zero.
    """

    def __init__(self, Z: Array, codes: Array, weight: Array, n_classes: int) -> None:
        n, d = Z.shape
        self.Z, self.shape = Z, (n_classes, d)
        edges = np.searchsorted(codes, np.arange(n_classes + 1))
        self.members = [slice(*edge) for edge in itertools.pairwise(edges)]
        self.present = np.flatnonzero(np.diff(edges)).tolist()
        self.share = np.empty(n)  # v_j / V_c
        self.size = np.zeros(n_classes)  # N_c
        self.mean = np.zeros((n_classes, d))
        self.covariance = np.zeros((n_classes, d, d))  # S_c
        self.whitener = np.zeros((n_classes, d, d))  # W with W' W the inverse of Sigma
        self.log2_peak = np.full(n_classes, -np.inf)  # of the density at the mean
        mass = np.bincount(codes, weight, minlength=n_classes)
        self.part = mass / (mass.sum() or 1.0)  # V_c / V
        with single_threaded_blas():
            run(lambda c, _: self._moments(c, weight), self.present, n_threads())
            self.shrinkage = _amount(self.size, d)
            self.pooled_shrinkage = float(_amount(self.size.sum() - len(self.present), d))
            S = np.einsum("c,cij->ij", self.part, self.covariance)
            self.pooled = _towards_identity(S, self.pooled_shrinkage)  # T
            run(lambda c, _: self._whiten(c), self.present, n_threads())

    def _moments(self, c: int, weight: Array) -> None:
        rows = self.members[c]
        Z = self.Z[rows].astype(np.float64)
        share = weight[rows] / weight[rows].max()  # weights may be as small as 1e-300
        share /= share.sum()
        mean = np.sum(share[:, None] * Z, axis=0)
        Z -= mean
        self.share[rows], self.size[c], self.mean[c] = share, 1.0 / np.sum(share**2), mean
        self.covariance[c] = (share[:, None] * Z).T @ Z

    def _whiten(self, c: int) -> None:
        S, rho, d = self.covariance[c], self.shrinkage[c], self.shape[1]
        covariance = (1.0 - rho) * S + rho * self.pooled
        covariance.flat[:: d + 1] += _RIDGE * (np.trace(S) / d + 1.0)
        root = np.linalg.cholesky(covariance)
        self.whitener[c] = np.linalg.solve(root, np.eye(d))
        self.log2_peak[c] = -np.log2(np.diag(root)).sum() - 0.5 * d * math.log2(2.0 * math.pi)

    def whitened(self, Z: Array, c: int) -> tuple[Array, Array]:
        """``y = W (z - mu)``, whose squared length is the squared Mahalanobis distance; log2 N."""
        Y = (Z.astype(np.float64, copy=False) - self.mean[c]) @ self.whitener[c].T
        return Y, self.log2_peak[c] - (0.5 * math.log2(math.e)) * np.sum(Y * Y, axis=1)

    def log2_densities(self, Z: Array, classes: Array | None = None) -> Array:
        """log2 N(z|mu_c, Sigma_c), (n, n_classes) or the columns that ``classes`` names."""
        classes = np.arange(self.shape[0]) if classes is None else np.asarray(classes)
        out = np.full((len(Z), len(classes)), -np.inf)

        def task(rows: slice, _: int) -> None:
            for column, c in enumerate(classes):
                if c in self.present:
                    out[rows, column] = self.whitened(Z[rows], c)[1]

        with single_threaded_blas():
            run(task, _chunks(0, len(Z)), n_threads())
        return out

    def pull(self, total: Array, first: Array, second: Array) -> Array:
        """Gradient with respect to the references, through the means and the covariances.

        Takes the sums over the queries of ``w``, ``w y`` and ``w y y'`` for every class, with w the
        derivative by log N and y the whitened query.
        """
        d_sigma = np.zeros_like(self.covariance)
        dZ = np.zeros(self.Z.shape)

        def by_sigma(c: int, _: int) -> None:
            W = self.whitener[c]
            # dlog N / dSigma = (Sigma^-1 (z - mu)(z - mu)' Sigma^-1 - Sigma^-1) / 2
            d_sigma[c] = 0.5 * (W.T @ (second[c] - total[c] * np.eye(len(W))) @ W)

        def by_rows(c: int, _: int) -> None:
            W, rows, rho = self.whitener[c], self.members[c], self.shrinkage[c]
            d_covariance = (1.0 - rho) * d_sigma[c] + self.part[c] * d_pooled
            d_covariance.flat[:: len(W) + 1] += _RIDGE * np.trace(d_sigma[c]) / len(W)
            R = self.Z[rows] - self.mean[c]
            dZ[rows] = self.share[rows, None] * (first[c] @ W + 2.0 * (R @ d_covariance))

        with single_threaded_blas():
            run(by_sigma, self.present, n_threads())
            d_pooled = np.einsum("c,cij->ij", self.shrinkage, d_sigma)
            d_pooled = _towards_identity(d_pooled, self.pooled_shrinkage)
            run(by_rows, self.present, n_threads())
        return dZ


def _amount(size: Array | float, d: int) -> Array:
    """How far to shrink the covariance of this many rows: the weight of d + 1 further ones."""
    prior = PRIOR_ROWS * (d + 1.0)
    return prior / (np.maximum(size, 0.0) + prior)


def _towards_identity(S: Array, amount: float) -> Array:
    """Shrink towards the multiple of the identity with the same trace; this is its own adjoint."""
    d = len(S)
    return (1.0 - amount) * S + amount * np.trace(S) / d * np.eye(d)


class NormalTerms:
    """The normals of the classes as terms added to an engine's sums, for some queries.

    Parameters
    ----------
    normals : Normals
    Z : array of shape (n, d)
        Queries.
    codes : int array of shape (n,)
        Their classes.
    log2_other : array of shape (n_classes,)
        log2 of the factor of each class density, in the unit of the engine's sums.
    log2_own : array of shape (n,)
        The same for the query's own class.
    places : (array, array, int)
        Rows of the queries, rows of the references, and the number of all rows.
    """

    def __init__(
        self,
        normals: Normals,
        Z: Array,
        codes: Array,
        log2_other: Array,
        log2_own: Array,
        places: tuple[Array, Array, int],
    ) -> None:
        self.normals, self.Z, self.codes, self.places = normals, Z, codes, places
        self.log2_other = log2_other
        self.terms = self._log2_sums(log2_own)

    def _log2_sums(self, log2_own: Array) -> Array:
        """log2 of the sum over the other classes [0] and of the own class [1], (2, n)."""
        Z, normals = self.Z, self.normals
        sums = np.full((2, len(Z)), -np.inf)

        def task(rows: slice, _: int) -> None:
            terms = np.full((normals.shape[0], rows.stop - rows.start), -np.inf)
            for c in normals.present:
                terms[c] = normals.whitened(Z[rows], c)[1]
            own = self.codes[rows], np.arange(terms.shape[1])
            sums[1, rows] = terms[own] + log2_own[rows]
            terms += self.log2_other[:, None]
            terms[own] = -np.inf
            top = terms.max(axis=0)
            top[np.isneginf(top)] = 0.0
            with np.errstate(divide="ignore"):
                sums[0, rows] = top + np.log2(np.exp2(terms - top).sum(axis=0))

        with single_threaded_blas():
            run(task, _chunks(0, len(Z)), n_threads())
        return sums

    def join(self, rest: Array, base: Array) -> tuple[Array, Array]:
        """Add the terms to the engine's sums ``2**(rest + base)``, (2, n); same form returned."""
        rest, base, (self.kernel_share, self.share) = join(rest, base, self.terms)
        return rest, base

    def pull(self, slope: Array) -> Array:
        """Gradient by all points, through the queries and through the normals' references.

        ``slope`` (2, n) holds the derivatives by the natural logarithms of the joint sums.
        """
        Z, codes, normals, log2_other = self.Z, self.codes, self.normals, self.log2_other
        n_classes, d = normals.shape
        slope = slope * self.share
        # for each group of queries and each class: sums over the queries of w, w y and w y y'
        total = np.zeros((_GROUPS, n_classes))
        first = np.zeros((_GROUPS, n_classes, d))
        second = np.zeros((_GROUPS, n_classes, d, d))
        dZ = np.zeros((len(Z), d))
        top = np.where(np.isneginf(self.terms[0]), 0.0, self.terms[0])

        def task(group: int, _: int) -> None:
            edges = (len(Z) * group // _GROUPS, len(Z) * (group + 1) // _GROUPS)
            for rows, c in itertools.product(_chunks(*edges), normals.present):
                Y, log2_density = normals.whitened(Z[rows], c)
                # the share of class c in its sum: 1 for the query's own class
                weight = np.exp2(np.minimum(log2_density + log2_other[c] - top[rows], 0.0))
                weight = np.where(codes[rows] == c, slope[1, rows], slope[0, rows] * weight)
                WY = weight[:, None] * Y
                dZ[rows] -= WY @ normals.whitener[c]  # dlog N / dz = -Sigma^-1 (z - mu)
                total[group, c] += weight.sum()
                first[group, c] += WY.sum(axis=0)
                second[group, c] += WY.T @ Y

        with single_threaded_blas():
            run(task, range(_GROUPS), n_threads())
        sums = total.sum(axis=0), first.sum(axis=0), second.sum(axis=0)
        query_rows, reference_rows, n = self.places
        out = np.zeros((n, d))
        out[query_rows] = dZ
        out[reference_rows] += normals.pull(*sums)
        return out


@dataclass(frozen=True, eq=False)
class NormalBackground:
    """A normal distribution for each class, mixed with the kernel density, for `NCALoss`.

    Parameters
    ----------
    beta : array of shape (n_classes,)
        Its share in each class, in [0, 1).
    """

    beta: Any

    def shares(self, n_classes: int, owner: str = "nca") -> Array:
        """The shares as float64, one for each class."""
        return check_background(self.beta, n_classes, owner)

    def mixture(
        self,
        data: Data,
        labels: Labels,
        weight: Array,
        class_mass: Array,
        others: Array,
        unit: float,
    ) -> NormalTerms:
        """The normal densities at the queries, as terms added to the sums of an engine."""
        Z, codes, _, query_rows, reference_rows = data
        beta = self.shares(len(labels.classes))
        rows = reference_rows[np.argsort(codes[reference_rows], kind="stable")]
        normals = Normals(Z[rows], codes[rows], weight[rows], len(beta))
        codes_q = codes[query_rows]
        log2_mass = background_mass(labels, beta, class_mass, codes_q, others, unit)
        return NormalTerms(
            normals, Z[query_rows], codes_q, *log2_mass, places=(query_rows, rows, len(Z))
        )


def _chunks(start: int, stop: int) -> list[slice]:
    return [slice(a, min(a + _CHUNK, stop)) for a in range(start, stop, _CHUNK)]


def join(rest: Array, base: Array, terms: Array) -> tuple[Array, Array, Array]:
    """log2 of sums plus terms, and the shares of both.

    Sums and result have the form ``2**(rest + base)``: far out ``base`` is huge, and adding it
    would lose the digits of ``rest``.  The shares of the sums [0] and of the terms [1] are
    (2, ...).
    """
    empty = np.isneginf(rest)
    sums = np.where(empty, -np.inf, rest + np.where(empty, 0.0, base))
    with np.errstate(invalid="ignore", over="ignore"):
        ahead = sums - terms
        ahead[np.isnan(ahead)] = 0.0  # both are empty
        shares = np.stack([1.0 / (1.0 + np.exp2(-ahead)), 1.0 / (1.0 + np.exp2(ahead))])
        gain = np.logaddexp2(0.0, -np.abs(ahead))
    larger = ahead > 0
    joint = np.where(larger, rest, terms) + gain
    return joint, np.where(larger, base, 0.0), shares


def with_background(
    log_sums: Array, minima: Array, Z: Array, data: Data, weight: Array, log2_mass: Array
) -> tuple[Array, Array]:
    """Add the normal densities to the kernel sums over each class, (n, n_classes).

    Parameters
    ----------
    log_sums, minima : arrays of shape (n, n_classes)
        ``log2`` of the sums, shifted by the minima of their energies.
    Z : array of shape (n, d)
        The points of the sums.
    data : Data
        The references.
    weight : array
        Weights of all rows.
    log2_mass : array of shape (n_classes,)
        log2 of the factor of each normal density.
    """
    rows = data.reference_rows
    rows = rows[np.argsort(data.codes[rows], kind="stable")]
    normals = Normals(data.Z[rows], data.codes[rows], weight[rows], log_sums.shape[1])
    log_sums, base, _ = join(log_sums, -minima, normals.log2_densities(Z) + log2_mass)
    return log_sums, np.where(np.isneginf(log_sums), np.inf, -base)
