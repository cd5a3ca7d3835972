"""The coordinates in which a start is computed: the columns, or a PCA basis for wide data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from vicinal._validation import scaled_weights
from vicinal.core.points import to_host
from vicinal.core.types import Array
from vicinal.starts.scatter import RowBlocks, ScaledRows, scatter

#: with more columns than this, no D x D matrix is formed
WIDE = 2000
#: a direction whose variance is below this share of the largest counts as constant
#: (float32 columns that are exact multiples of each other differ by 1e-14 of the variance)
RCOND = 1e-10

_OVERSAMPLES = 10
_POWER_ITERATIONS = 3
_BLOCK_ROWS = 4096


@dataclass(frozen=True)
class Space:
    """Scatter matrices in k coordinates, and the mapping back to the D columns.

    Attributes
    ----------
    total, within : ndarray of shape (k, k)
        ``S`` and ``S_W``.
    deviations : ndarray of shape (C, k)
        ``M`` with ``S_B = M' M``.
    scale : ndarray of shape (k,)
        Factors that bring the coordinates to comparable size.
    basis : ndarray of shape (D, k) or None
        Orthonormal directions of the coordinates; None if they are columns of X.
    keep : ndarray of shape (D,)
        Columns that are not identically zero.
    size : int
        Their number, or k if the basis leaves out directions that vary.
    n_rows, n_classes : float, int
        Effective number of rows ``(sum v)^2 / sum v^2`` and number of classes with weight.
    """

    total: Array
    within: Array
    deviations: Array
    scale: Array
    basis: Array | None
    keep: Array
    size: int
    n_rows: float
    n_classes: int

    def lift(self, rows: Array) -> Array:
        """Turn rows over the k coordinates into rows over the D columns of X."""
        if self.basis is not None:
            return rows @ self.basis.T
        lifted = np.zeros((len(rows), len(self.keep)))
        lifted[:, self.keep] = rows
        return lifted


class _Dense:
    """Blocks of an array in memory."""

    def __init__(self, Z: Array) -> None:
        self.Z = Z
        self.shape: tuple[int, int] = Z.shape

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        for start in range(0, len(self.Z), _BLOCK_ROWS):
            rows = slice(start, min(start + _BLOCK_ROWS, len(self.Z)))
            yield rows, self.Z[rows]


def eigen(S: Array) -> tuple[Array, Array]:
    """Eigenvalues in ascending order and eigenvectors of a symmetric matrix."""
    # SciPy 1.12 allocates too little work space for "evd" of a 1 x 1 matrix.
    return eigh(S, driver="evd" if len(S) > 1 else "ev")


def basis_size(n: int, D: int, n_components: int) -> int:
    """Number of principal directions that represent the columns of wide data."""
    return max(1, min(n - 1, D, max(4 * n_components, 256)))


def active_columns(X: ScaledRows, rng: np.random.RandomState) -> Array:
    """Which columns are not identically zero, in one pass.

    A random combination of the rows is exactly zero in columns of zeros, and only there.
    """
    return X.rmatmul(rng.normal(size=(X.shape[0], 1)))[:, 0] != 0


def make_space(
    X: ScaledRows,
    codes: Array | None,
    n_components: int,
    rng: np.random.RandomState,
    sample_weight: Array | None = None,
) -> Space:
    """Compute the scatter matrices in the columns of X, or in a PCA basis above ``WIDE`` columns.

    [Belhumeur1997] uses the leading principal directions in the same way for LDA of images
    ("Fisherfaces"); with all n - 1 directions nothing is lost.

    Parameters
    ----------
    X : ScaledRows
        Centred and scaled data of shape (n, D).
    codes : ndarray of shape (n,) or None
        Class codes; None puts every row into one class.
    n_components : int
        Number of directions that will be needed.
    rng : RandomState
        For the randomised basis of wide data.
    sample_weight : ndarray of shape (n,), optional
        Importance of each row.

    Returns
    -------
    Space
    """
    n, D = X.shape
    if sample_weight is not None:
        sample_weight = scaled_weights(np.asarray(sample_weight, dtype=np.float64))
    codes = np.zeros(n, dtype=np.intp) if codes is None else np.asarray(codes)
    basis = None
    rows: RowBlocks = X
    if D > WIDE:
        keep = active_columns(X, rng)
        q = basis_size(n, D, n_components)
        basis = _principal_basis(X, q, keep, rng)
        rows = _Dense(to_host(X.matmul(basis)))
    moments = scatter(rows, codes, int(codes.max()) + 1, sample_weight)
    diagonal = np.diag(moments.total)
    live = diagonal > np.finfo(float).tiny
    if basis is None:
        keep = live
    # A truncated basis is a space of its own; a complete one represents all columns.
    cut = basis is not None and basis.shape[1] == q < min(n - 1, keep.sum())
    v = np.ones(n) if sample_weight is None else sample_weight
    return Space(
        total=moments.total[np.ix_(live, live)],
        within=moments.within[np.ix_(live, live)],
        deviations=moments.deviations[:, live],
        # Principal directions need no scaling: their spread is their importance.
        scale=1.0 / np.sqrt(diagonal[live]) if basis is None else np.ones(live.sum()),
        basis=None if basis is None else basis[:, live],
        keep=keep,
        size=int(live.sum() if cut else keep.sum()),
        n_rows=v.sum() ** 2 / max((v**2).sum(), np.finfo(float).tiny),
        n_classes=int((moments.counts > 0).sum()),
    )


def _principal_basis(X: ScaledRows, q: int, active: Array, rng: np.random.RandomState) -> Array:
    """Leading q principal directions (D x q) by subspace iteration, [Halko2011] alg. 4.4.

    Only products with X are used.  ``sklearn.utils.extmath.randomized_svd`` does the same but
    does not accept an operator, and ``scipy.sparse.linalg.svds`` multiplies one vector at a time.
    """
    D = X.shape[1]
    if not active.any():
        return np.zeros((D, 0))
    Q = rng.normal(size=(D, min(q + _OVERSAMPLES, D)))
    for _ in range(_POWER_ITERATIONS):
        Q = _orthonormal(X.rmatmul(_orthonormal(to_host(X.matmul(Q)))))
    Z = to_host(X.matmul(Q))
    variance, U = eigen(Z.T @ Z)  # Rayleigh-Ritz
    top = slice(None, -q - 1, -1)
    variance, basis = variance[top], Q @ U[:, top]
    basis[~active] = 0.0  # exactly
    return basis[:, variance > RCOND * variance[0]]


def _orthonormal(Y: Array) -> Array:
    """Orthonormal basis of the column space, without directions below ``RCOND``.

    Two rounds through the Gram matrix need matrix products only, ten times faster than QR on tall
    arrays; the second round restores the digits that squaring cost the first.
    """
    for _ in range(2):
        size, U = eigen(Y.T @ Y)
        keep = size > RCOND * size[-1]
        Y = Y @ (U[:, keep] / np.sqrt(size[keep]))
    return Y
