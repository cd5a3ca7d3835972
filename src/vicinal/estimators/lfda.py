"""Local Fisher discriminant analysis: a closed-form method for classes of several modes."""

from __future__ import annotations

from typing import Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator
from sklearn.utils import Tags

from vicinal._features import check_varies, make_rows
from vicinal._threads import block_edges, n_threads, run, single_threaded_blas
from vicinal._validation import (
    check_classes,
    check_label_types,
    check_number,
    check_option,
    check_rows,
    warn,
)
from vicinal.core.types import Array, MatrixLike, Rows, Scaling
from vicinal.estimators._metric import LearntMetricMixin
from vicinal.fit.resume import unchanged_on_error
from vicinal.maps.fitted import FittedLinear
from vicinal.starts.spectral import RCOND, eigen, oas_shrinkage, orient
from vicinal.starts.starts import checked_shrinkage

_EMBEDDINGS = ("weighted", "orthonormalized", "plain")
_PAIRS = 2**22  # pairs of rows whose distances are kept: 32 MB
_BLOCK = 256  # rows that a thread compares at a time
# Inner products lose the digits of distances that are this share of the squared norms.
_CLOSE, _FEW = 1e-6, 0.1


class LFDA(LearntMetricMixin, BaseEstimator):
    r"""Local Fisher discriminant analysis (LFDA): a class may have several clusters.

    Fisher's discriminant analysis brings all rows of a class together, also rows of different
    clusters.  Here pairs within a class count by their affinity
    :math:`a_{ij} = e^{-\|x_i - x_j\|^2 / \sigma_i \sigma_j}`, with :math:`\sigma_i` the distance of
    row i to its k-th neighbour in the class [Sugiyama2007]_:

    .. math:: S_w = \tfrac12 \sum_{y_i = y_j} \frac{a_{ij}}{N_c} (x_i - x_j)(x_i - x_j)^\top, \quad
              S_b = \tfrac12 \sum_{y_i = y_j} a_{ij}\Bigl(\frac1N - \frac1{N_c}\Bigr)
              (x_i - x_j)(x_i - x_j)^\top
              + \tfrac12 \sum_{y_i \ne y_j} \frac1N (x_i - x_j)(x_i - x_j)^\top .

    The rows of the map are the top generalised eigenvectors v of :math:`S_b v = \lambda S_w v`.
    Unlike in LDA there may be more of them than classes.

    Time is O(sum of :math:`N_c^2 D` over the classes, plus D³); memory beyond the rows of the
    largest class is O(D²) and 64 MB, because affinities are computed in blocks.

    Parameters
    ----------
    n_components : int, default=None
        Rank of the map; None: the number of features.
    k : int, default=7
        The neighbour whose distance is :math:`\sigma_i`; for classes of k rows or fewer, their
        farthest row.  If it is a duplicate of the row, the nearest row that is none is taken.
    embedding : {"weighted", "orthonormalized", "plain"}, default="weighted"
        Lengths of the rows of the map.  "plain": :math:`v^\top S_w v = 1`.  "weighted": these times
        :math:`\sqrt\lambda`, so that directions count by how well they separate; 0 where
        :math:`\lambda` is negative.  "orthonormalized": an orthonormal basis of their span, in the
        scaled columns.
    shrinkage : None, "oas" or float in (0, 1], default=None
        Shrink :math:`S_w` towards a multiple of the identity.  None: only if it is singular, with a
        warning.
    scaling : {"standard", "global", None}, default="standard"
        Scaling of the columns beforehand, folded into ``components_``.  It decides which rows are
        near each other.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The map; ``transform(X) = X @ components_.T``.  Its last rows are zero if the data have
        fewer directions.
    eigenvalues_ : ndarray of shape (n_components,)
        :math:`\lambda` of each row of the map; 0 for rows of zeros.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X had string names.

    References
    ----------
    .. [Sugiyama2007] M. Sugiyama, "Dimensionality reduction of multimodal labeled data by local
       Fisher discriminant analysis", JMLR 8, 2007.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from vicinal import LFDA
    >>> X, y = load_wine(return_X_y=True)
    >>> LFDA(n_components=2).fit(X, y).transform(X).shape
    (178, 2)
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        k: int = 7,
        embedding: Literal["weighted", "orthonormalized", "plain"] = "weighted",
        shrinkage: float | Literal["oas"] | None = None,
        scaling: Scaling = "standard",
    ) -> None:
        self.n_components = n_components
        self.k = k
        self.embedding = embedding
        self.shrinkage = shrinkage
        self.scaling = scaling

    @unchanged_on_error
    def fit(self, X: MatrixLike, y: ArrayLike) -> Self:
        """Compute the map.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Class labels, of at least two classes.

        Returns
        -------
        self : LFDA
        """
        check_option(self, "scaling", ("standard", "global", None))
        check_option(self, "embedding", _EMBEDDINGS)
        check_number(self, "k", 1, integer=True)
        shrinkage = checked_shrinkage(self.shrinkage, "LFDA")
        check_label_types(y)
        X, labels = check_rows(self, X, y, ensure_min_samples=2)
        _, codes = check_classes(labels, "LFDA")
        check_number(self, "n_components", 1, X.shape[1], integer=True, or_else=(None,))
        d = self.n_components or X.shape[1]
        with single_threaded_blas():
            features = make_rows(X, self.scaling, limit_outliers=False)
            check_varies(features)
            scatters = _local_scatters(features, codes, int(self.k))
            values, rows, complaint = _directions(scatters, d, shrinkage)
            rows = _embedded(rows, values, self.embedding)
        if complaint:
            warn(f"{complaint} Set the 'shrinkage' parameter of LFDA to choose the amount.")
        self.eigenvalues_ = np.zeros(d)
        self.eigenvalues_[: len(values)] = values
        A = np.zeros((d, X.shape[1]))
        A[: len(rows)] = rows
        self._map = FittedLinear.of_scaled(A, features.shift, features.scale, X.dtype)
        self.components_ = self._map.components
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


class _Scatters(NamedTuple):
    """The local scatters in some coordinates, and the directions of these in the columns.

    ``mixture`` is S_b + S_w, which unlike S_b is never indefinite.  ``basis`` is (D, m), None for
    the columns themselves.
    """

    within: Array
    mixture: Array
    basis: Array | None
    n_rows: int
    n_classes: int


def _local_scatters(X: Rows, codes: Array, k: int) -> _Scatters:
    """S_w and S_b + S_w, class by class."""
    n, D = X.shape
    basis = None
    if n < D:  # all differences of rows are in their span
        basis = np.linalg.qr(_dense(X).T)[0]
    counts = np.bincount(codes)
    m = D if basis is None else basis.shape[1]
    within, mixture, means = np.zeros((m, m)), np.zeros((m, m)), np.zeros((len(counts), m))
    for c, count in enumerate(counts):
        rows = _dense(X.take(np.flatnonzero(codes == c)))
        rows = rows if basis is None else rows @ basis
        means[c] = rows.mean(axis=0)
        rows -= means[c]
        G = _local_scatter(rows, k)
        within += G / count
        # Pairs of different classes: all pairs, less those within the classes.
        mixture += G / n + (1.0 - count / n) * (rows.T @ rows)
    apart = np.sqrt(counts)[:, None] * (means - counts @ means / n)
    return _Scatters(within, mixture + apart.T @ apart, basis, n, len(counts))


def _dense(X: Rows) -> Array:
    return X.columns_times(np.ones(X.shape[1]))


def _local_scatter(rows: Array, k: int) -> Array:
    """Half the sum over all pairs of one class of ``a_ij (x_i - x_j)(x_i - x_j)'``.

    The rows, which have mean zero, are cut into blocks for the threads.
    """
    n = len(rows)
    edges = block_edges(n, max(1, min(_BLOCK, _PAIRS // n)))
    norms = np.einsum("ij,ij->i", rows, rows)
    kept: dict[int, Array] = {}  # distances of the blocks, if all find room
    inverse, weighted = np.empty(n), np.empty_like(rows)

    def scale(b: int, thread: int) -> None:
        part = slice(edges[b], edges[b + 1])
        d2 = _squared_distances(rows, norms, part)
        if n * n <= _PAIRS:
            kept[b] = d2
        sigma = _scales(d2, k)
        # A class of equal rows has no scale, and no differences either.
        inverse[part] = np.divide(1.0, sigma, out=np.zeros(len(sigma)), where=sigma > 0)

    def weigh(b: int, thread: int) -> None:
        part = slice(edges[b], edges[b + 1])
        A = kept.pop(b) if b in kept else _squared_distances(rows, norms, part)
        A *= -inverse[part, None]
        A *= inverse
        np.exp(A, out=A)
        A[np.arange(len(A)), np.arange(part.start, part.stop)] = 0.0
        weighted[part] = A.sum(axis=1)[:, None] * rows[part] - A @ rows

    for task in (scale, weigh):
        run(task, range(len(edges) - 1), n_threads())
    G = rows.T @ weighted
    return (G + G.T) / 2


def _squared_distances(rows: Array, norms: Array, part: slice) -> Array:
    """Squared distances of some rows to all, by inner products; of close rows by differences."""
    d2 = rows[part] @ (-2.0 * rows.T)
    d2 += norms[part, None]
    d2 += norms
    close = d2 <= _CLOSE * (norms[part].max() + norms.max())
    if np.count_nonzero(close) > _FEW * close.size:
        return cdist(rows[part], rows, "sqeuclidean")
    i, j = np.divmod(np.flatnonzero(close), len(rows))
    gaps = rows[part][i] - rows[j]
    d2[i, j] = np.einsum("ij,ij->i", gaps, gaps)
    return d2


def _scales(d2: Array, k: int) -> Array:
    """The distance of each row to its k-th neighbour, or to the nearest that is no duplicate."""
    k = min(k, d2.shape[1] - 1)
    squares = np.partition(d2, k, axis=1)[:, k]  # the nearest of all is the row itself
    flat = squares == 0.0
    nearest = np.where(d2[flat] > 0, d2[flat], np.inf).min(axis=1, initial=np.inf)
    squares[flat] = np.where(np.isfinite(nearest), nearest, 0.0)
    return np.sqrt(squares)


def _directions(
    scatters: _Scatters, n_components: int, shrinkage: float | Literal["oas"] | None
) -> tuple[Array, Array, str]:
    """Eigenvalues and rows of the map, the best first, and what was done about a singular S_w."""
    within, mixture, basis, n_rows, n_classes = scatters
    live = np.diag(mixture) > 0
    within, mixture = within[np.ix_(live, live)], mixture[np.ix_(live, live)]
    # Columns at comparable size; directions of a basis are comparable as they are.
    scale = 1.0 / np.sqrt(np.diag(mixture)) if basis is None else np.ones(live.sum())
    within, mixture = (scale[:, None] * S * scale for S in (within, mixture))
    spread, U = eigen(mixture)
    kept = spread > RCOND * spread[-1]  # no weight where the rows do not differ at all
    spread, T = spread[kept], U[:, kept] / np.sqrt(spread[kept])  # T' (S_b + S_w) T = I
    W = T.T @ within @ T
    between = np.eye(len(W)) - W
    rank, size = int((eigen(W)[0] > RCOND).sum()), int(live.sum())
    if shrinkage is not None or rank < len(W):
        target, rho = np.trace(within), shrinkage
        if target <= RCOND * np.trace(mixture):  # every class is a single point
            target, rho = np.trace(mixture), 1.0
        elif not isinstance(rho, float):
            rho = oas_shrinkage(within, size, n_rows - n_classes)
        W = (1.0 - rho) * W + rho * target / size * (T.T @ T)
    values, V = eigh(between, (W + W.T) / 2)
    top = slice(None, -n_components - 1, -1)
    rows = np.zeros((len(values[top]), len(live)))
    rows[:, live] = ((T @ V[:, top]) * scale[:, None]).T
    rows = orient(rows if basis is None else rows @ basis.T)
    complaint = ""
    if rank < len(W) and shrinkage is None:
        complaint = (
            f"The scatter within classes is singular (rank {rank} of {size}): it was shrunk "
            "towards a multiple of the identity, and directions in which the rows do not differ "
            "get zero weight."
        )
    return values[top], rows, complaint


def _embedded(rows: Array, values: Array, embedding: str) -> Array:
    """The rows of the map at the lengths that were asked for."""
    if embedding == "weighted":
        return rows * np.sqrt(np.maximum(values, 0.0))[:, None]
    if embedding == "orthonormalized":
        return orient(np.linalg.qr(rows.T)[0].T)
    return rows
