"""Directions of labelled rows: their scatter, the coordinates for it, and its eigenvectors.

Wide data are represented in a PCA basis; scatter matrices may be singular.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import singledispatch
from typing import NamedTuple, Protocol

import numpy as np
from scipy import sparse
from scipy.linalg import eigh

from vicinal._validation import scaled_weights
from vicinal.core.points import to_host
from vicinal.core.types import Array, ClassMoments

#: with more columns than this, no D x D matrix is formed
WIDE = 2000
#: a direction whose variance is below this share of the largest counts as constant
#: (float32 columns that are exact multiples of each other differ by 1e-14 of the variance)
RCOND = 1e-10
_OVERSAMPLES = 10
_POWER_ITERATIONS = 3
_BLOCK_ROWS = 4096


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
    deviations : ndarray of shape (C, D)
        ``M``, with ``S_B = M' M`` and ``S = S_W + S_B``.
    """

    total: Array
    within: Array
    means: Array
    counts: Array
    deviations: Array


def scatter_around(within: Array, means: Array, counts: Array) -> Scatter:
    """The scatter of classes with these means and weights.

    ``M_c = sqrt(N_c / N) (mu_c - mu)``.  [Oneata2011] eq. (3.16) weights every class by 1/C
    instead; the two agree for classes of equal size, but only with N_c/N do the scatters add up,
    and one row of a tiny class does not count as much as a whole large class.
    """
    share = counts / max(counts.sum(), np.finfo(float).tiny)
    M = means - share @ means
    M *= np.sqrt(share)[:, None]
    # Where the means are equal, rounding leaves 1e-17: enough for a start to divide by.
    weighted = means if counts.all() else means[counts > 0]
    M[:, (weighted == weighted[:1]).all(axis=0)] = 0.0
    return Scatter(within + M.T @ M, within, means, counts, M)  # [Oneata2011] eq. (3.15)


@singledispatch
def scatter(
    X: RowBlocks | ClassMoments, codes: Array, n_classes: int, sample_weight: Array | None = None
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
    assert not isinstance(X, ClassMoments)
    n, D = X.shape
    codes = np.asarray(codes)
    v = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    shifts = np.zeros((n_classes, D))
    seen = np.zeros(n_classes, dtype=bool)
    sums = np.zeros((n_classes, D))
    within = np.zeros((D, D))
    for rows, block in X.blocks():
        c, w = codes[rows], v[rows]
        if not w.all():
            c, w, block = c[w > 0], w[w > 0], block[w > 0]
        # Subtract the first row of each class: then distant classes cost S_W no digits, and
        # duplicates give exactly zero.
        found, at, place = np.unique(c, return_index=True, return_inverse=True)
        new = ~seen[found]
        shifts[found[new]] = block[at[new]]
        seen[found[new]] = True
        Y = block - shifts[c]
        each = w, place, np.arange(len(c) + 1)
        sums[found] += sparse.csc_array(each, shape=(len(found), len(c))) @ Y
        if sample_weight is not None:
            Y *= np.sqrt(w)[:, None]
        within += Y.T @ Y
    return _scatter_of(shifts, sums, within, np.bincount(codes, v, n_classes))


@scatter.register
def _scatter_elsewhere(
    X: ClassMoments, codes: Array, n_classes: int, sample_weight: Array | None = None
) -> Scatter:
    codes = np.asarray(codes)
    v = np.ones(len(codes)) if sample_weight is None else np.asarray(sample_weight, np.float64)
    parts = X.class_moments(codes, n_classes, v)
    return _scatter_of(*parts, np.bincount(codes, v, n_classes))


def _scatter_of(shifts: Array, sums: Array, within: Array, counts: Array) -> Scatter:
    """The scatter from the sums about a row of each class, in the memory of the first two.

    Classes may be nearly as many as rows, and new memory takes longer than the sums.
    """
    weight = max(counts.sum(), np.finfo(float).tiny)
    sums /= np.where(counts > 0, counts, 1.0)[:, None]
    means = np.add(shifts, sums, out=shifts)
    sums *= np.sqrt(counts / weight)[:, None]
    within = within / weight - sums.T @ sums  # [Oneata2011] eq. (3.17), about the means
    # A column that is constant within the classes may come out of the difference as -1e-17.
    flat = np.diag(within) <= 0
    within[flat] = within[:, flat] = 0.0
    return scatter_around(within, means, counts)


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
        deviations=moments.deviations if live.all() else moments.deviations[:, live],
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


def oas_shrinkage(S: Array, size: int, n_rows: float) -> float:
    r"""Weight of the identity in a shrunk scatter matrix, from its traces alone.

    .. math::
        \rho = \min\Bigl(1, \frac{(1 - 2/p)\,\mathrm{tr}(S^2) + \mathrm{tr}^2(S)}
               {(n + 1 - 2/p)\,(\mathrm{tr}(S^2) - \mathrm{tr}^2(S)/p)}\Bigr)

    [Chen2010] eq. (23); the shrunk matrix is ``(1 - rho) S + rho tr(S)/p I``.  Unlike
    Ledoit-Wolf's it needs no second look at the data.

    Parameters
    ----------
    S : ndarray of shape (k, k)
        Scatter matrix, in any basis of its range.
    size : int
        ``p``, the number of columns it was computed from.
    n_rows : float
        ``n``, the rows (degrees of freedom) behind it.

    Returns
    -------
    float
        In (0, 1].
    """
    trace, square = np.trace(S), (S**2).sum()
    spread = square - trace**2 / size
    if n_rows < 1 or spread <= RCOND * square:
        return 1.0
    top = (1 - 2 / size) * square + trace**2
    return float(min(1.0, top / ((n_rows + 1 - 2 / size) * spread)))


def orient(A: Array) -> Array:
    """Flip the sign of rows whose largest entry is negative.

    Among entries that are equally large up to rounding the first one decides, so that the sign
    does not depend on the last bit.
    """
    size = np.abs(A)
    first = np.argmax(size >= (1 - 1e-6) * size.max(axis=1, keepdims=True), axis=1)
    return np.where(A[np.arange(len(A)), first] < 0, -1.0, 1.0)[:, None] * A


def principal_rows(
    space: Space, n_components: int, *, whiten: bool, symmetric: bool, shrinkage: float | str | None
) -> Array:
    """Top eigenvectors of S, scaled to unit variance when ``whiten``.

    Parameters
    ----------
    space : Space
        Scatter matrices.
    n_components : int
        Number of eigenvectors d.
    whiten : bool
        ``lambda_k^(-1/2) v_k`` instead of ``v_k``, [Oneata2011] eq. (3.15).
    symmetric : bool
        Return the symmetric ``S^(-1/2) = sum_k lambda_k^(-1/2) v_k v_k'`` instead.
    shrinkage : float, "oas" or None
        Weight of the identity in S; None: zero unless S is singular; "oas": `oas_shrinkage`.

    Returns
    -------
    rows : ndarray of shape (<= d, D)
    """
    k = len(space.total)
    d = min(n_components, k)
    if d == 0:
        return np.zeros((0, len(space.keep)))
    variance, V = eigh(space.total, subset_by_index=[k - d, k - 1])
    variance, V = variance[::-1], V[:, ::-1]
    live = variance > RCOND * variance[0]
    short = live.sum() < min(n_components, space.size)
    rho = shrinkage if isinstance(shrinkage, float) else 0.0
    if whiten and (shrinkage == "oas" or (short and shrinkage is None)):
        # With fewer rows than columns, plain whitening makes all rows equidistant.
        rho = oas_shrinkage(space.total, space.size, space.n_rows - 1)
    rows = V[:, live].T
    if whiten:
        target = np.trace(space.total) / space.size
        rows = rows / np.sqrt((1 - rho) * variance[live] + rho * target)[:, None]
    # Lifted from both sides, the symmetric root is symmetric over the columns as well.
    return space.lift(space.lift(V[:, live] @ rows).T) if symmetric else orient(space.lift(rows))


def discriminant_rows(
    space: Space, n_components: int, *, between: bool, shrinkage: float | str | None
) -> tuple[Array, str]:
    """Generalised eigenvectors V of (S, S_W) or (S_B, S_W), with ``V' S_W V = I``.

    Since ``S = S_W + S_B`` both pencils have the same eigenvectors: first those that separate the
    class means (at most C - 1), then directions that all have eigenvalue 1 in (S, S_W).  That tie
    is broken by the norm of the row, the shortest first: for the same spread it amplifies the
    columns least.  A shrunk S_W no longer adds up with S_B to S, and the two pencils differ.

    Parameters
    ----------
    space : Space
        Scatter matrices.
    n_components : int
        Number of directions d.
    between : bool
        Take the top directions of (S_B, S_W) first, and then the top directions of (S, S_W);
        otherwise only the latter.
    shrinkage : float, "oas" or None
        Weight of the identity in S_W (columns at unit variance); None: zero unless singular;
        "oas": `oas_shrinkage`.

    Returns
    -------
    rows : ndarray of shape (<= d, D)
    complaint : str
        If S_W is singular and ``shrinkage`` is None, what was done about it; otherwise empty.
    """
    if not len(space.total):
        return np.zeros((0, len(space.keep))), ""
    scale = space.scale[:, None]
    spread, U = eigen(space.total * scale * space.scale)
    live = spread > RCOND * spread[-1]  # no weight where the rows do not differ at all
    spread, T = spread[live], scale * U[:, live] / np.sqrt(spread[live])  # T' S T = I
    W = T.T @ space.within @ T
    omega, E = eigen(W)
    # T loses digits if S is nearly singular, which limits the accuracy of omega.
    noise = RCOND + 4 * len(omega) * np.finfo(float).eps * spread[-1] / spread[0]
    rank = int((omega > noise).sum())
    rho = 0.0
    if shrinkage is not None or rank < len(omega):
        rho, W = _shrink_within(space, W, spread, shrinkage)
        omega, E = eigen(W)
    G = E / np.sqrt(omega)  # G' W G = I, largest eigenvalue 1/omega of (S, S_W) first
    if between or rho == 0.0:
        G = _means_first(space.deviations @ T, G, None if rho else T)
    V = T @ G[:, :n_components]
    rows = orient(space.lift(V.T))
    if rank == space.size or shrinkage is not None:
        return rows, ""
    return rows, (
        f"The scatter within classes is singular (rank {rank} of {space.size}): it was shrunk "
        "towards a multiple of the identity, and directions in which the rows do not differ get "
        "zero weight."
    )


def _shrink_within(
    space: Space, W: Array, spread: Array, shrinkage: float | str | None
) -> tuple[float, Array]:
    """Shrink S_W, given as ``W = T' S_W T``, towards the identity over scaled coordinates."""
    within = space.within * space.scale[:, None] * space.scale
    whole = (np.diag(space.total) * space.scale**2).sum()
    target = np.trace(within)
    if target <= RCOND * whole:
        # Every class is a single point: S_W is useless, and (S, I) is PCA.
        rho, target = 1.0, whole
    elif isinstance(shrinkage, float):
        rho = shrinkage
    else:
        rho = oas_shrinkage(within, space.size, space.n_rows - space.n_classes)
    identity = np.diag(1.0 / spread)  # T' diag(scale)^-2 T
    return rho, (1 - rho) * W + rho * target / space.size * identity


def _means_first(M: Array, G: Array, T: Array | None) -> Array:
    """Rotate G so that the directions of the class means M come first.

    The others follow by the norm of ``T G`` if T is given, otherwise by their share of S.
    """
    MG = M @ G
    beta, F = eigen(MG.T @ MG)
    n_means = int((beta > RCOND * max(beta[-1], 1.0)).sum())
    n_means = min(n_means, max(len(M) - 1, 0))
    top, rest = G @ F[:, ::-1][:, :n_means], G @ F[:, : len(beta) - n_means]
    if rest.shape[1] == 0:
        return top
    tie = -(rest.T @ rest) if T is None else (T @ rest).T @ (T @ rest)
    return np.hstack([top, rest @ eigen(tie)[1]])
