"""Total, within-class and between-class scatter of labelled rows, in one pass."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
from scipy import sparse

from vicinal.core.types import Array


class RowBlocks(Protocol):
    """Rows that can be read one dense block at a time."""

    @property
    def shape(self) -> tuple[int, int]: ...

    def blocks(self) -> Iterator[tuple[slice, Array]]: ...


class ScaledRows(RowBlocks, Protocol):
    """The data as a start needs them: centred and scaled rows, never all dense at once."""

    def matmul(self, B: Array) -> Array: ...

    def rmatmul(self, V: Array) -> Array: ...


class Scatter(NamedTuple):
    """Second moments of labelled rows, each divided by the total weight.

    Attributes
    ----------
    total : ndarray of shape (D, D)
        ``S``, [Oneata2011] eq. (3.15).
    within : ndarray of shape (D, D)
        ``S_W``, [Oneata2011] eq. (3.17).
    means : ndarray of shape (C, D)
        Class means; a row of zeros for a class without weight.
    counts : ndarray of shape (C,)
        Weight of each class (its number of rows when there are no weights).
    """

    total: Array
    within: Array
    means: Array
    counts: Array

    @property
    def deviations(self) -> Array:
        """``M`` (C x D), with ``S_B = M' M`` and ``S = S_W + S_B``.

        ``M_c = sqrt(N_c / N) (mu_c - mu)``.  [Oneata2011] eq. (3.16) weights every class by 1/C
        instead; the two agree for classes of equal size, but only with N_c/N do the scatters add
        up, and one row of a tiny class does not count as much as a whole large class.
        """
        share = self.counts / max(self.counts.sum(), np.finfo(float).tiny)
        deviations = np.sqrt(share)[:, None] * (self.means - share @ self.means)
        # Where the means are equal, rounding leaves 1e-17: enough for a start to divide by.
        weighted = self.means[self.counts > 0]
        deviations[:, (weighted == weighted[:1]).all(axis=0)] = 0.0
        return deviations


def scatter(
    X: RowBlocks, codes: Array, n_classes: int, sample_weight: Array | None = None
) -> Scatter:
    r"""Compute the scatter matrices in one pass over the blocks of X.

    .. math::
        S_W = \tfrac1V \sum_i v_i (x_i - \mu_{c_i})(x_i - \mu_{c_i})^\top, \quad
        S = S_W + \sum_c \tfrac{V_c}{V} (\mu_c - \mu)(\mu_c - \mu)^\top

    Parameters
    ----------
    X : RowBlocks
        Centred and scaled data of shape (n, D).
    codes : ndarray of shape (n,)
        Class codes 0..C-1.
    n_classes : int
        C; a class without rows gets weight zero.
    sample_weight : ndarray of shape (n,), optional
        Importance ``v_i`` of each row; one each when None.

    Returns
    -------
    Scatter
        The matrices of [Oneata2011] eqs. (3.15) and (3.17), the class means and weights.
    """
    n, D = X.shape
    codes = np.asarray(codes)
    v = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    shifts = np.zeros((n_classes, D))
    seen = np.zeros(n_classes, dtype=bool)
    sums = np.zeros((n_classes, D))
    within = np.zeros((D, D))
    for rows, block in X.blocks():
        c, w = codes[rows], v[rows]
        # Subtract the first row of each class: then distant classes cost S_W no digits, and
        # duplicates give exactly zero.
        weighted = np.flatnonzero(w > 0)
        first, at = np.unique(c[weighted], return_index=True)
        new = ~seen[first]
        shifts[first[new]] = block[weighted[at[new]]]
        seen[first[new]] = True
        Y = block - shifts[c]
        sums += sparse.csr_array((w, (c, np.arange(len(c)))), shape=(n_classes, len(c))) @ Y
        if sample_weight is not None:
            Y *= np.sqrt(w)[:, None]
        within += Y.T @ Y
    counts = np.bincount(codes, weights=v, minlength=n_classes)
    weight = max(counts.sum(), np.finfo(float).tiny)
    offsets = sums / np.where(counts > 0, counts, 1.0)[:, None]
    lever = np.sqrt(counts / weight)[:, None] * offsets
    within = within / weight - lever.T @ lever  # [Oneata2011] eq. (3.17), about the means
    # A column that is constant within the classes may come out of the difference as -1e-17.
    flat = np.diag(within) <= 0
    within[flat] = within[:, flat] = 0.0
    partial = Scatter(within, within, shifts + offsets, counts)
    M = partial.deviations
    return partial._replace(total=within + M.T @ M)  # [Oneata2011] eq. (3.15)
