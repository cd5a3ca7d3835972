"""Learnt periodic features of single columns, in front of a linear map or a network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from vicinal._validation import check_part
from vicinal.core.types import Array, Map, MapCost
from vicinal.maps._layers import (
    Back,
    LayerRows,
    Network,
    Workspace,
    block_size,
    forward_in_blocks,
    known_rank,
    make_network,
    n_features,
    size_of,
    weights_beside,
)
from vicinal.maps.mlp import MLP


@dataclass(frozen=True)
class Periodic(Map):
    r"""Learnt periodic features of each column, then a linear map or a network.

    .. math::
        e_j = \mathrm{relu}(W [\cos 2\pi f_j x_j, \sin 2\pi f_j x_j] + b), \quad
        z = A [x_1, \dots, x_D, e_1, \dots, e_D]

    Each column has frequencies :math:`f_j` of its own, as in [Gorishniy2022]; W and b are shared by
    all columns.  [Ye2024] puts such features in front of NCA.  The map can bend and fold single
    columns, which a matrix cannot.

    Parameters
    ----------
    n_frequencies : int, default=16
        Number of frequencies of each column.
    width : int, default=8
        Number of features that each column gets besides itself.
    sigma : float, default=0.1
        Standard deviation of the first frequencies, in cycles per unit of a scaled column.
    then : MLP or None, default=None
        A network for the D (1 + width) expanded columns; None: a linear map.
    n_components : int or None, default=None
        Dimensions of the embedded rows; None: the ``n_components`` of the estimator.

    Notes
    -----
    The features are computed block by block, and once more in the pull-back: memory is that of Z
    and of a few blocks.  Sparse rows are made dense in the same blocks.

    References
    ----------
    [Gorishniy2022] Y. Gorishniy, I. Rubachev, A. Babenko, "On Embeddings for Numerical Features in
    Tabular Deep Learning", 2022.

    [Ye2024] H.-J. Ye et al., "Revisiting Nearest Neighbor for Tabular Data", 2024.

    Examples
    --------
    >>> from vicinal.maps import MLP, Periodic
    >>> Periodic(n_frequencies=32, then=MLP(hidden=128)).width
    8
    """

    n_frequencies: int = 16
    width: int = 8
    sigma: float = 0.1
    then: MLP | None = None
    n_components: int | None = None

    def __post_init__(self) -> None:
        check_part(self, "n_frequencies", low=1, kind=int, closed=True)
        check_part(self, "width", low=1, kind=int, closed=True)
        check_part(self, "sigma")
        known = isinstance(self.then, MLP) and self.then.n_components is None
        if not (self.then is None or known):
            raise ValueError(
                "The 'then' parameter of Periodic must be None or an MLP without 'n_components', "
                f"which is a parameter of Periodic. Got {self.then!r} instead."
            )
        if self.n_components is not None:
            check_part(self, "n_components", low=1, kind=int, closed=True)

    def with_rank(self, n_components: int) -> Periodic:
        """The same map with this many dimensions."""
        return replace(self, n_components=n_components)

    def forward(
        self, theta: Array, X: Any, dtype: Any = np.float64
    ) -> tuple[Array, Callable[[Array], Array]]:
        """Embed the rows; the pull-back turns ``dZ`` into the gradient of ``theta``."""
        D, d = X.shape[1], known_rank(self)
        network = partial(_expand_then, self.head(D))
        shapes = [*self._shapes(D), *self.head(D).shapes]
        return forward_in_blocks(network, shapes, theta, X, d, dtype, self._widest(D))

    def cost(self, n_features: int, itemsize: int) -> MapCost:
        """The cost of a row of this many columns; cosine and sine take most of its time."""
        head, waves = self.head(n_features), n_features * self.n_frequencies
        nanoseconds = head.nanoseconds(itemsize) + (20.0 if itemsize == 4 else 60.0) * waves
        size = size_of(self._shapes(n_features)) + head.size
        row_bytes = itemsize * (6 * waves + 2 * head.n_inputs + head.row_entries)
        return MapCost(nanoseconds, size, row_bytes, block_size(self._widest(n_features)))

    def _widest(self, D: int) -> int:
        """Entries of the cosines and sines of a row."""
        return 2 * self.n_frequencies * D

    def head(self, n_features: int) -> Network:
        """The layers behind the features."""
        columns, d = n_features * (1 + self.width), known_rank(self)
        if self.then is None:
            return make_network(columns, d)
        return self.then.with_rank(d).network(columns)

    def start_from(
        self, X: Any, rng: np.random.RandomState
    ) -> tuple[Any, Callable[[Array], Array]]:
        """The rows that a start is made for, and the parameters for a matrix of their columns.

        These are the original columns, so that the features get weight zero and the first map is
        the linear one.  A start of all expanded columns fits the training rows far better than
        others, because many features are nearly the same.  It is used only where the last matrix
        has no original columns.
        """
        D, head = X.shape[1], self.head(X.shape[1])
        K, width = self.n_frequencies, self.width
        first = [
            rng.normal(scale=self.sigma, size=(D, K)),
            rng.uniform(-1.0, 1.0, size=(width, 2 * K)) / np.sqrt(2 * K),
            rng.uniform(-1.0, 1.0, size=width) / np.sqrt(2 * K),
        ]
        rows: Any
        theta_of: Callable[[Array], Array]
        expanded = LayerRows(X, lambda x: expand(first, x, Workspace())[0], D * (1 + width))
        if self.then is None:
            rows, theta_of = expanded, lambda A: A.ravel()
        else:
            rows, theta_of = self.then.with_rank(known_rank(self)).start_from(expanded, rng)
        features = LayerRows(X, lambda x: expand(first, x, Workspace())[0][D:], D * width)
        if rows is expanded:
            rows = X

        def theta(A: Array) -> Array:
            if head.residual and A.shape[1] == D:
                A = np.hstack([A, weights_beside(A, X, features, rng)])
            return np.concatenate([part.ravel() for part in (*first, theta_of(A))])

        return rows, theta

    def penalty_weights(self, theta: Array) -> Array:
        """One for the entries of matrices, zero for frequencies and biases."""
        D = self._n_features(theta)
        head = self.head(D)
        sizes = [size_of([shape]) for shape in self._shapes(D)]
        return np.concatenate([np.repeat([0.0, 1.0, 0.0], sizes), head.penalty_weights])

    def scaled(self, theta: Array, factor: float) -> Array:
        """The parameters whose Z is ``factor`` times as large: the last matrices are multiplied."""
        return self.head(self._n_features(theta)).scaled(theta, factor)

    def _shapes(self, D: int) -> list[tuple[int, ...]]:
        """The shapes of the frequencies, of W and of b."""
        return [(D, self.n_frequencies), (self.width, 2 * self.n_frequencies), (self.width,)]

    def _n_features(self, theta: Array) -> int:
        def size(D: int) -> int:
            return size_of(self._shapes(D)) + self.head(D).size

        return n_features(size, len(theta), repr(self))


def make_waves(F: Array, X: Array, work: Workspace) -> Array:
    """Cosines and sines of the angles ``2 pi F[j, k] X[j, i]``, and ones: (D, 2 K + 1, rows).

    NumPy has vector code for both functions in float32.  In float64 they follow from the tangent t
    of half the angle, ``cos = 2 / (1 + t²) - 1`` and ``sin = 2 t / (1 + t²)``: one call instead of
    two, and there is vector code for it.
    """
    (D, K), n = F.shape, X.shape[1]
    waves = work.empty("waves", (D, 2 * K + 1, n), X.dtype)
    cos, sin = waves[:, :K], waves[:, K : 2 * K]
    waves[:, 2 * K] = 1.0
    single = X.dtype == np.float32
    turn = F * F.dtype.type(2.0 * np.pi if single else np.pi)
    angle = np.multiply(turn[:, :, None], X[:, None, :], out=sin)
    if single:
        np.cos(angle, out=cos)
        np.sin(angle, out=sin)
    else:
        t = np.tan(angle, out=sin)
        np.multiply(t, t, out=cos)
        cos += 1.0
        np.divide(2.0, cos, out=cos)
        sin *= cos
        cos -= 1.0
    return waves


def expand(parts: Sequence[Array], X: Array, work: Workspace) -> tuple[Array, Back]:
    """The columns of a block and their features, (D (1 + width), rows), and the way back.

    The bias is one more column of W, which multiplies ones.  Back, with G_j (width, rows) the
    derivative by what relu sees in column j: ``dW = sum_j G_j waves_j^T``.  The derivative by the
    angles is never formed, because ``Q_j = (G_j * x_j) waves_j^T``, which has only width (2 K + 1)
    entries, gives ``dF_jk = 2 pi sum_m (W_sin,mk Q_cos,jmk - W_cos,mk Q_sin,jmk)``.
    """
    F, W, b = parts
    (D, K), (width, _), n = F.shape, W.shape, X.shape[1]
    out = work.empty("expanded", (D * (1 + width), n), X.dtype)
    out[:D] = X
    x = out[:D]  # the rows of a column lie next to each other here
    waves = make_waves(F, x, work)
    features = out[D:].reshape(D, width, n)
    np.matmul(np.hstack([W, b[:, None]]), waves, out=features)
    np.maximum(features, 0.0, out=features)

    def back(d_out: Array, inputs: bool = False) -> tuple[list[Array], Array | None]:
        G = work.empty("G", (D, 2 * width, n), X.dtype)
        np.multiply(d_out[D:].reshape(D, width, n), features > 0.0, out=G[:, :width])
        np.multiply(G[:, :width], x[:, None, :], out=G[:, width:])
        products = np.matmul(G, waves.transpose(0, 2, 1))
        dW, Q = products[:, :width].sum(axis=0), products[:, width:]
        dF = np.sum(Q[:, :, :K] * W[:, K:] - Q[:, :, K : 2 * K] * W[:, :K], axis=1)
        dF *= F.dtype.type(2.0 * np.pi)
        return [dF, dW[:, : 2 * K], dW[:, 2 * K]], None

    return out, back


def _expand_then(
    head: Network, parts: Sequence[Array], X: Array, work: Workspace
) -> tuple[Array, Back]:
    """The whole map of a block, and the way back."""
    expanded, back_features = expand(parts[:3], X, work)
    Z, back_head = head(parts[3:], expanded)

    def back(dZ: Array, inputs: bool = False) -> tuple[list[Array], Array | None]:
        gradients, d_expanded = back_head(dZ, inputs=True)
        assert d_expanded is not None
        return [*back_features(d_expanded)[0], *gradients], None

    return Z, back
