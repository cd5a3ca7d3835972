"""Principal and discriminant directions from scatter matrices that may be singular."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from vicinal.core.types import Array
from vicinal.starts.spaces import RCOND, Space, eigen


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
        Take the top directions of (S_B, S_W) first, and after them those of (S, S_W); otherwise
        those of (S, S_W) throughout.
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
