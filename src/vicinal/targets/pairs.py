"""Pairs of rows that should be near each other, with weights."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from vicinal._validation import scaled_weights
from vicinal.core.types import Array, Target


class PairWeights(Target):
    """Pairs of rows that should be near each other, among n rows without classes.

    Parameters
    ----------
    n : int
        Number of rows.
    pairs : array-like of int, shape (m, 2)
        Positions of the two rows of each pair, in any order; a pair that occurs twice counts twice.
    weights : array-like of shape (m,), default=None
        Weight of each pair, not negative; None: ones.  Only the ratios matter: the attribute
        ``weights`` differs by a power of two, with which the largest is in [1, 2).
    """

    #: the targets of a row are other rows, which must then be present too
    refers_to_rows: ClassVar[bool] = True
    #: what the score of a prediction is called
    score_name: ClassVar[str] = "share of rows farther away than partners"
    #: the score of a map that knows nothing
    chance: ClassVar[float] = 0.5

    def __init__(self, n: int, pairs: Any, weights: Any = None) -> None:
        self.n = int(n)
        self.pairs = _check_pairs(pairs, self.n)
        self.weights = check_pair_weights(weights, len(self.pairs))

    def __len__(self) -> int:
        return self.n

    @property
    def contents(self) -> tuple[Array, Array]:
        """All that it tells, as arrays."""
        return self.pairs, self.weights

    def take(self, rows: Any) -> PairWeights:
        """Some rows, with those pairs whose two rows are among them."""
        if rows is None:
            return self
        chosen = np.arange(self.n)[rows]
        position = np.full(self.n, -1, np.intp)
        position[chosen] = np.arange(len(chosen))
        places = position[self.pairs]
        kept = (places >= 0).all(axis=1)
        part = object.__new__(type(self))
        part.n, part.pairs, part.weights = len(chosen), places[kept], self.weights[kept]
        return part

    @property
    def matrix(self) -> Any:
        """The weights as a symmetric sparse array of shape (n, n)."""
        a, b = self.pairs.T
        rows, columns = np.concatenate([a, b]), np.concatenate([b, a])
        return sp.csr_array((np.tile(self.weights, 2), (rows, columns)), (self.n, self.n))

    def between(self, queries: Any, references: Any) -> Any:
        """Weights of the pairs of some rows with others: a sparse array, one row a query."""
        return sp.csr_array(self.matrix[queries][:, references])

    def draw(self, rows: Array, size: int, rng: np.random.RandomState) -> Array:
        """About this many of the rows, sorted: the rows of pairs drawn at random."""
        allowed = np.zeros(self.n, np.bool_)
        allowed[rows] = True
        usable = allowed[self.pairs].all(axis=1) & (self.weights > 0)
        drawn = self.pairs[rng.permutation(np.flatnonzero(usable))].ravel()
        _, first = np.unique(drawn, return_index=True)
        return np.sort(drawn[np.sort(first)[:size]])

    def counted(self, queries: Array, references: Array) -> tuple[Array, Array]:
        """The pairs of a query and a reference, and their weights.

        A pair counts half for each of its two orders in which the first row is a query and the
        second a reference: whole if all rows are both.
        """
        query, reference = np.zeros((2, self.n), np.bool_)
        query[queries] = True
        reference[references] = True
        a, b = self.pairs.T
        orders = (query[a] & reference[b]).astype(np.float64) + (query[b] & reference[a])
        kept = orders > 0
        return self.pairs[kept], 0.5 * (self.weights * orders)[kept]


def _check_pairs(pairs: Any, n: int) -> Array:
    """Positions of the two rows of each pair."""
    positions = np.asarray(pairs)
    if positions.size == 0:
        positions = positions.reshape(-1, 2).astype(np.intp)
    if positions.ndim != 2 or positions.shape[1] != 2 or positions.dtype.kind not in "iu":
        raise ValueError(
            "The pairs must be ints of shape (n_pairs, 2), positions of rows. "
            f"Got {positions.dtype} of shape {positions.shape} instead."
        )
    outside = (positions < 0) | (positions >= n)
    if outside.any():
        raise ValueError(
            f"The pairs must hold positions of rows in [0, {n - 1}]. "
            f"Got {positions[outside][0]} instead."
        )
    alike = positions[:, 0] == positions[:, 1]
    if alike.any():
        raise ValueError(
            "The pairs must be of two different rows. "
            f"Got row {positions[alike][0, 0]} with itself instead."
        )
    return positions.astype(np.intp)


def check_pair_weights(weights: Any, m: int) -> Array:
    """The weight of each pair; a common factor is changed."""
    if weights is None:
        return np.ones(m)
    try:
        values = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"The weights of the pairs must be numbers. Got {weights!r} instead."
        ) from error
    if values.shape != (m,):
        raise ValueError(
            f"The weights of the pairs must have shape ({m},). Got {values.shape} instead."
        )
    if not np.isfinite(values).all() or (values < 0).any():
        raise ValueError("The weights of the pairs must be finite and not negative.")
    return scaled_weights(values)
