"""The maps that do not bend: a matrix, weights of columns, columns on a simplex; free points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from vicinal._validation import check_option, check_part
from vicinal.core.points import to_host
from vicinal.core.types import Array, Map
from vicinal.engines import choose

_ON_IT = 1e-13  # a column whose sum differs from one by no more is on the simplex


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


@dataclass(frozen=True)
class Simplex(Map):
    """``Z = X L^T`` with L of shape (r, D), each column on the probability simplex.

    Histograms of D bins become histograms of r: L >= 0 and every column of L sums to one.

    Parameters
    ----------
    n_components : int
        r, the number of bins of the result.
    constraint : {"projection", "softmax"}, default="projection"
        "projection": theta is L itself, ``dL = dZ^T X``, and a solver that uses `project` keeps
        it on the simplex ([OlsenPetersen] section 2.3.2).  "softmax": theta is an unconstrained
        matrix A, and ``L = softmax(A)`` column by column, eq. (9).
    """

    n_components: int
    constraint: str = "projection"

    #: smallest entry at the start of the softmax, as a share of the largest in its column
    floor: ClassVar[float] = float(np.exp(-10.0))

    def __post_init__(self) -> None:
        check_part(self, "n_components", low=1, kind=int, closed=True)
        check_option(self, "constraint", ("projection", "softmax"))

    @property
    def constrained(self) -> bool:
        """Whether theta is constrained: then the solver must project."""
        return self.constraint == "projection"

    @property
    def gradient_floor(self) -> float:
        """How far gradients may shrink: the gradient of A is that of L times L."""
        return self.floor if self.constraint == "softmax" else 1.0

    def forward(
        self, theta: Array, X: Any, dtype: Any = np.float64
    ) -> tuple[Array, Callable[[Array], Array]]:
        """Embed the rows; the pull-back turns ``dZ`` into the gradient of ``theta``."""
        L = self.components(theta)

        def pull(dZ: Array) -> Array:
            dL = X.rmatmul(dZ).T
            if self.constraint == "softmax":
                dL = L * (dL - np.sum(L * dL, axis=0))  # [OlsenPetersen] eq. (12)
            return dL.ravel()

        return X.matmul(L.T, dtype), pull

    def theta(self, components: Array) -> Array:
        """The flat parameters of a matrix with columns on the simplex.

        For the softmax these are the logarithms, minus their mean over the column.  Entries below
        exp(-10) of the largest in their column are raised to it, since the gradient of A is that
        of L times L: an entry of zero would stay zero.  With this floor the identity becomes the
        start of [OlsenPetersen] section 3, ``softmax(10 I)``.
        """
        L = np.array(components, dtype=np.float64)
        if self.constraint == "softmax":
            L = np.log(np.maximum(L, self.floor * L.max(axis=0)))
            L -= L.mean(axis=0)
        return L.ravel()

    def components(self, theta: Array) -> Array:
        """L, (r, D): theta reshaped, or its softmax."""
        L = theta.reshape(self.n_components, -1)
        if self.constraint == "softmax":
            L = np.exp(L - L.max(axis=0))
            L /= L.sum(axis=0)
        return L

    def project(self, theta: Array) -> Array:
        """The nearest allowed theta; the softmax allows all."""
        if not self.constrained:
            return theta
        return project_columns(theta.reshape(self.n_components, -1)).ravel()


def project_columns(L: Array) -> Array:
    """The nearest matrix whose columns are on the probability simplex.

    Each column y becomes ``x = max(y - tau, 0)`` with the tau for which x sums to one
    ([OlsenPetersen] eq. (15)), exactly and in O(r log r); its sum is one to 1e-12.

    Parameters
    ----------
    L : array of shape (r, D)

    Returns
    -------
    ndarray of shape (r, D), float64
        A column that is already on the simplex is returned unchanged, bit by bit; one that is not
        finite becomes NaN, which tells a solver that its step was too long.
    """
    L = np.ascontiguousarray(L, dtype=np.float64)
    finite = np.isfinite(L).all(axis=0)
    whole = bool(finite.all())
    L = L if whole else np.where(finite, L, 0.0)
    out = choose.backend(L, choose.rows_with(L.size)).simplex_columns(L, _ON_IT)
    if not whole:
        out[:, ~finite] = np.nan
    return out


class Positions(NamedTuple):
    """The rows of a `Points` map: nothing but their numbers.

    ``place`` takes their points to where losses are computed, if that is not on the host.
    """

    rows: Array
    place: Callable[[Array], Any] | None = None

    def take(self, rows: Any) -> Positions:
        """Some of the rows."""
        return self if rows is None else Positions(self.rows[rows], self.place)

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class Points(Map):
    """``Z = theta``: each of n rows is placed freely in ``n_components`` dimensions."""

    n: int
    n_components: int = 2

    def forward(
        self, theta: Array, X: Positions, dtype: Any = np.float64
    ) -> tuple[Any, Callable[[Any], Array]]:
        """The points of some rows, and their pull-back."""
        everything = len(X) == self.n

        def pull(dZ: Any) -> Array:
            dZ = to_host(dZ)
            if everything:
                return dZ.astype(np.float64, copy=False).ravel()
            full = np.zeros((self.n, self.n_components))
            full[X.rows] = dZ
            return full.ravel()

        Z = theta.reshape(self.n, self.n_components)
        Z = (Z if everything else Z[X.rows]).astype(dtype, copy=False)
        return (Z if X.place is None else X.place(Z)), pull
