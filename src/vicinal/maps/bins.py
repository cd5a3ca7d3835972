"""Columns as positions in their quantile bins, in front of a linear map."""

from __future__ import annotations

from collections.abc import Callable
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
)


@dataclass(frozen=True)
class Bins(Map):
    r"""Each column as its positions in quantile bins, then a linear map.

    .. math::
        e_{jt} = w_j\, \min\Bigl(1, \max\Bigl(0, \frac{x_j - q_{j,t-1}}{q_{jt} - q_{j,t-1}}\Bigr)
        \Bigr), \quad z = A [e_{11}, \dots, e_{DT}]

    with the quantiles :math:`q_{j0}, \dots, q_{jT}` of column j: the piecewise linear encoding of
    [Gorishniy2022].  The map is a sum of functions of single columns, each linear between the
    quantiles.  The factor :math:`w_j` gives each column the total variance one; a column of two
    values keeps them.  Only A is learnt.

    Parameters
    ----------
    n_bins : int, default=16
        Number of bins of each column; equal quantiles leave fewer.
    n_components : int or None, default=None
        Dimensions of the embedded rows; None: the ``n_components`` of the estimator.

    Notes
    -----
    The encoding is computed block by block.  Sparse rows are made dense in the same blocks.

    References
    ----------
    [Gorishniy2022] Y. Gorishniy et al., "On Embeddings for Numerical Features in Tabular Deep
    Learning", NeurIPS 2022.

    Examples
    --------
    >>> from vicinal.maps import Bins
    >>> Bins(8)
    Bins(n_bins=8, n_components=None)
    """

    n_bins: int = 16
    n_components: int | None = None

    def __post_init__(self) -> None:
        check_part(self, "n_bins", low=1, kind=int, closed=True)
        if self.n_components is not None:
            check_part(self, "n_components", low=1, kind=int, closed=True)

    def with_rank(self, n_components: int) -> Bins:
        """The same map with this many dimensions."""
        return replace(self, n_components=n_components)

    def forward(
        self, theta: Array, X: Any, dtype: Any = np.float64
    ) -> tuple[Array, Callable[[Array], Array]]:
        """Embed the rows; the pull-back turns ``dZ`` into the gradient of ``theta``."""
        D, d = X.shape[1], known_rank(self)
        layers = partial(_encode_then, make_network(D * self.n_bins, d))
        return forward_in_blocks(layers, self.shapes(D), theta, X, d, dtype, D * self.n_bins)

    def cost(self, n_features: int, itemsize: int) -> MapCost:
        """The cost of a row of this many columns."""
        wide = n_features * self.n_bins
        head = make_network(wide, known_rank(self))
        nanoseconds = head.nanoseconds(itemsize) + 1.5 * wide * itemsize / 4
        row_bytes = itemsize * (2 * wide + head.row_entries)
        return MapCost(nanoseconds, self._size(n_features), row_bytes, block_size(wide))

    def start_from(
        self, X: Any, rng: np.random.RandomState
    ) -> tuple[Any, Callable[[Array], Array]]:
        """The encoded rows, and the parameters for a matrix of their columns."""
        edges, weight = self._encoding(np.concatenate([block for _, block in X.blocks()]))
        encoded = LayerRows(
            X, lambda x: _encode(edges, weight, x, Workspace()), len(weight) * self.n_bins
        )
        return encoded, lambda A: np.concatenate([edges.ravel(), weight, A.ravel()])

    def penalty_weights(self, theta: Array) -> Array:
        """One for the entries of A, zero for the quantiles and factors, which stay as they are."""
        weights = np.zeros(len(theta))
        weights[self._constants(theta) :] = 1.0
        return weights

    def scaled(self, theta: Array, factor: float) -> Array:
        """The parameters whose Z is ``factor`` times as large: A is multiplied."""
        scaled = np.array(theta, dtype=np.float64)
        scaled[self._constants(theta) :] *= factor
        return scaled

    def _encoding(self, X: Array) -> tuple[Array, Array]:
        """The quantiles of each column, repeated where there are fewer, and its factor."""
        D, T = X.shape[1], self.n_bins
        edges, weight = np.empty((D, T + 1)), np.zeros(D)
        for j in range(D):
            found = np.unique(np.quantile(X[:, j], np.linspace(0.0, 1.0, T + 1)))
            two = np.unique(X[[X[:, j].argmin(), X[:, j].argmax()], j])
            if np.isin(X[:, j], two).all():
                found, weight[j] = two, np.ptp(two)
            edges[j] = np.pad(found, (0, T + 1 - len(found)), mode="edge")
        varies = edges[:, 0] < edges[:, -1]
        plain = varies & (weight == 0.0)
        variance = np.zeros(D)
        for first in range(0, D, 16):  # columns at a time, for the memory
            some = slice(first, first + 16)
            coded = _encode(edges[some], np.ones(len(edges[some])), X[:, some].T, Workspace())
            variance[some] = coded.var(axis=1).reshape(-1, T).sum(axis=1)
        weight[plain] = 1.0 / np.sqrt(variance[plain])
        return edges, weight

    def shapes(self, D: int) -> list[tuple[int, ...]]:
        """The shapes of the quantiles, of the factors and of A."""
        return [(D, self.n_bins + 1), (D,), (known_rank(self), D * self.n_bins)]

    def _size(self, D: int) -> int:
        return D * (self.n_bins + 2 + known_rank(self) * self.n_bins)

    def _constants(self, theta: Array) -> int:
        """How many of the parameters are no entries of A."""
        return n_features(self._size, len(theta), repr(self)) * (self.n_bins + 2)


def _encode(edges: Array, weight: Array, X: Array, work: Workspace) -> Array:
    """The positions of a block, (D, rows), in the bins of its columns: (D T, rows)."""
    (D, n), T = X.shape, edges.shape[1] - 1
    width = np.diff(edges, axis=1)
    used = width > 0
    rate = np.divide(1.0, width, out=np.zeros_like(width), where=used)
    out = work.empty("encoded", (D, T, n), X.dtype)
    np.subtract(X[:, None, :], edges[:, :-1, None], out=out)
    out *= rate[:, :, None]
    np.clip(out, 0.0, 1.0, out=out)
    out *= weight[:, None, None]
    return out.reshape(D * T, n)


def _encode_then(
    head: Network, parts: list[Array], X: Array, work: Workspace
) -> tuple[Array, Back]:
    """The whole map of a block, and the way back: the quantiles and factors get no gradient."""
    edges, weight, A = parts
    Z, back_head = head([A], _encode(edges, weight, X, work))

    def back(dZ: Array, inputs: bool = False) -> tuple[list[Array], Array | None]:
        return [np.zeros_like(edges), np.zeros_like(weight), *back_head(dZ)[0]], None

    return Z, back
