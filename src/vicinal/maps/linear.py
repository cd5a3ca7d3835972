"""Linear maps: a matrix of any rank, or one weight per column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from vicinal.core.types import Array, Map


@dataclass(frozen=True)
class Linear(Map):
    """``Z = X A^T`` with A of shape (d, D), any rank; ``dA = dZ^T X``."""

    n_components: int

    def forward(
        self, theta: Array, X: Any, dtype: Any = np.float64
    ) -> tuple[Array, Callable[[Array], Array]]:
        """Embed the rows; the pull-back turns ``dZ`` into the gradient of ``theta``."""
        A = theta.reshape(self.n_components, X.shape[1])
        return X.matmul(A.T, dtype), lambda dZ: X.rmatmul(dZ).T.ravel()

    def theta(self, components: Array) -> Array:
        """The flat parameters of a matrix."""
        return np.array(components, dtype=np.float64).ravel()

    def components(self, theta: Array) -> Array:
        """The matrix of flat parameters, (d, D)."""
        return theta.reshape(self.n_components, -1)

    def with_rank(self, d: int) -> Linear:
        """A map with d components."""
        return Linear(d)


@dataclass(frozen=True)
class Diagonal(Map):
    """``Z = X * a``: one weight per column ([Goldberger2005] section 4); ``da = sum_i dZ_i * x_i``.

    The parameters a are free; the metric is ``diag(a²)``, so their signs do not matter.
    """

    weights_columns: ClassVar[bool] = True

    def forward(
        self, theta: Array, X: Any, dtype: Any = np.float64
    ) -> tuple[Array, Callable[[Array], Array]]:
        """Weight the columns; the pull-back turns ``dZ`` into the gradient of ``theta``."""
        return X.columns_times(theta, dtype), lambda dZ: X.column_dots(dZ)

    def theta(self, components: Array) -> Array:
        """The column weights: the diagonal of a square matrix, or the norms of its columns."""
        components = np.asarray(components, dtype=np.float64)
        square = components.shape[0] == components.shape[1]
        if square and not np.any(components - np.diag(np.diag(components))):
            return np.diag(components).copy()
        return np.sqrt(np.sum(components**2, axis=0))

    def components(self, theta: Array) -> Array:
        """``diag(a)``, (D, D)."""
        return np.diag(theta)
