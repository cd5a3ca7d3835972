"""Fitted maps: they embed rows in the original, unscaled features."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.extmath import safe_sparse_dot

from vicinal._features import Features, Limits, projected, unscaled
from vicinal._validation import warn
from vicinal.core import checks
from vicinal.core.types import Array, Map

_ROWS = 8192  # rows that a nonlinear map embeds at a time


class FittedMap:
    """Any map with its parameters, and the scaling of the columns that it was learnt with.

    Parameters
    ----------
    mapping : Map
    theta : array
        Its parameters.
    features : Features
        The training rows, on the host; their shift and scale apply to other rows too.
    dtype : dtype
        Precision of the training rows.  Rows are embedded in float32 if both these and the rows
        themselves are in float32, else in float64.
    """

    mapping: Map
    theta: Array
    features: Features
    dtype: np.dtype

    def __init__(self, mapping: Map, theta: Array, features: Features, dtype: Any) -> None:
        self.mapping, self.theta, self.dtype = mapping, np.array(theta), np.dtype(dtype)
        self.features = features.take(np.empty(0, dtype=int))

    def check_fields(self) -> None:
        """Refuse fields that do not fit together."""
        checks.double(self.theta, 1, "theta")
        mapping: Any = self.mapping
        n, D = len(self.theta), self.features.shape[1]
        if mapping.cost is None:  # linear, of bent columns
            size = D * (mapping.rank or 1)
        else:
            checks.count(mapping.n_components, "n_components", 1, n)
            size = mapping.cost(D, 8).n_parameters
        checks.need(size == n, f"theta must have {size} entries, not {n}")

    @property
    def n_features(self) -> int:
        """Columns of X."""
        return self.features.shape[1]

    @property
    def n_components(self) -> int:
        """Dimensions of the embedded rows."""
        if self.mapping.rank is not None:
            return int(self.mapping.rank)
        row = Features.scaled_as(self.features, np.zeros((1, self.features.shape[1])))
        return self.mapping.forward(self.theta, row, np.float64)[0].shape[1]

    def transform(self, X: Any) -> Array:
        """Embed rows."""
        return self._embed(X, self.features.without_limits())

    def embed(self, X: Any) -> Array:
        """Embed rows for a model: within the limits of columns with gross outliers."""
        return self._embed(X, self.features)

    def _embed(self, X: Any, features: Features) -> Array:
        dtype = np.result_type(X.dtype, self.dtype)
        Z = np.empty((X.shape[0], self.n_components), dtype)
        # in blocks, because a map may hold all its layers for all rows
        for first in range(0, len(Z), _ROWS):
            rows = slice(first, first + _ROWS)
            part = Features.scaled_as(features, X[rows])
            Z[rows] = self.mapping.forward(self.theta, part, dtype)[0]
        return Z

    def theta_for(self, mapping: Any, features: Features) -> Array | None:
        """The parameters, if another map of as many columns has the same; else None.

        They are not adapted to another scaling of the columns.
        """
        same = self.mapping == mapping and self.features.shape[1] == features.shape[1]
        return self.theta.copy() if same else None

    def arrays(self) -> dict[str, Array]:
        """The fitted arrays."""
        return {"theta": self.theta, "shift": self.features.shift, "scale": self.features.scale}


class FittedLinear:
    """A matrix: ``transform(X) = X @ components.T``.

    Parameters
    ----------
    components : array of shape (d, D)
        The matrix, including the scaling of the columns.
    shift, scale : arrays of shape (D,)
        Shift and scale of the columns during learning.
    limits : Limits or None
        Limits of columns with gross outliers, which hold for rows that a model is asked about.
    """

    components: Array
    shift: Array
    scale: Array
    limits: Limits | None

    def __init__(
        self, components: Array, shift: Array, scale: Array, limits: Limits | None = None
    ) -> None:
        self.components, self.shift, self.scale, self.limits = components, shift, scale, limits

    def check_fields(self) -> None:
        """Refuse fields that do not fit together."""
        checks.real(self.components, 2, "components")
        d, D = self.components.shape
        checks.need(d >= 1 and D >= 1, "components must not be empty")
        checks.columns(self, D)

    @classmethod
    def of_scaled(
        cls, A: Array, shift: Array, scale: Array, dtype: Any, limits: Limits | None = None
    ) -> FittedLinear:
        """A map of raw columns from that of scaled ones, in ``dtype`` if its numbers are in range.

        A column of tiny values has huge factors: float32 ends at 3.4e38.  Beyond that they are in
        float64, with a warning; what is beyond float64 is refused.
        """
        with np.errstate(over="ignore"):
            exact = A * scale
            components = exact.astype(dtype)
        if np.isinf(components).any():
            tops = np.abs(exact).max(axis=0)
            j, top = int(tops.argmax()), float(tops.max())
            if np.isinf(top):
                raise ValueError(
                    f"Column {j} of X varies too little for a linear map: its factors in "
                    f"'components_' must be at most {np.finfo(float).max:.2g}, the largest float64."
                    f" Got {top} instead. Use larger units, such as X[:, {j}] *= 2.0**500."
                )
            warn(
                f"'components_' is float64: column {j} of X varies so little that its factors are "
                f"up to {top:.2g}, and float32 ends at {np.finfo(np.float32).max:.2g}. Fit to "
                "X.astype(np.float64) to avoid this warning."
            )
            components = exact
        return cls(components, shift, scale, limits)

    @property
    def n_features(self) -> int:
        """Columns of X."""
        return self.components.shape[1]

    @property
    def n_components(self) -> int:
        """Dimensions of the embedded rows."""
        return len(self.components)

    def transform(self, X: Any) -> Array:
        """Embed rows; they are not centred."""
        return safe_sparse_dot(X, self.components.T, dense_output=True)

    def embed(self, X: Any) -> Array:
        """``(X - shift) @ components.T``: centred, since an offset costs digits; within limits."""
        Z = projected(X, self.components.astype(np.float64), self.shift, self.limits)
        return Z.astype(self.components.dtype, copy=False)

    def inverse(self, Z: Array) -> Array:
        """The rows nearest to the mean, in scaled columns, among those that are embedded at Z."""
        A = unscaled(self.components.astype(np.float64), self.scale)
        centred = Z - self.shift @ self.components.astype(np.float64).T
        X = self.shift + unscaled(centred @ np.linalg.pinv(A).T, self.scale)
        return X.astype(self.components.dtype, copy=False)

    def theta_for(self, mapping: Any, features: Features) -> Array | None:
        """The parameters of the same map in columns with another scaling; None if it has none."""
        if mapping.theta is None:
            return None
        D = features.shape[1]
        if self.components.shape != (mapping.rank or D, D):
            return None
        return mapping.theta(unscaled(self.components, features.scale))

    def arrays(self) -> dict[str, Array]:
        """The fitted arrays."""
        return {"components": self.components, "shift": self.shift, "scale": self.scale}


class FittedMaps:
    """Several maps whose points stand side by side, each times a factor of its own.

    Parameters
    ----------
    maps : list of FittedMap and FittedLinear
        Of the same columns.
    factors : array of shape (n_maps,)
    """

    maps: list
    factors: Array

    def __init__(self, maps: list, factors: Array) -> None:
        self.maps, self.factors = maps, factors

    def check_fields(self) -> None:
        """Refuse fields that do not fit together."""
        checks.double(self.factors, 1, "factors", (len(self.maps),))
        single = all(isinstance(part, FittedMap | FittedLinear) for part in self.maps)
        checks.need(single and len(self.maps) > 0, "maps must be maps")
        alike = len({part.n_features for part in self.maps}) == 1
        checks.need(alike, "maps must have the same columns")

    @property
    def mapping(self) -> str:
        """What this is, for a message that wants a single map."""
        return f"a vote of {len(self.maps)} maps"

    @property
    def n_features(self) -> int:
        """Columns of X."""
        return int(self.maps[0].n_features)

    @property
    def n_components(self) -> int:
        """Dimensions of the embedded rows: the sum over all maps."""
        return sum(part.n_components for part in self.maps)

    def transform(self, X: Any) -> Array:
        """Embed rows."""
        return self._side_by_side([part.transform(X) for part in self.maps])

    def embed(self, X: Any) -> Array:
        """Embed rows for a model: within the limits of columns with gross outliers."""
        return self._side_by_side([part.embed(X) for part in self.maps])

    def _side_by_side(self, points: list[Array]) -> Array:
        scaled = [Z * Z.dtype.type(factor) for Z, factor in zip(points, self.factors, strict=True)]
        return np.hstack(scaled)


def fitted_map(mapping: Any, theta: Array, features: Any, dtype: Any) -> Any:
    """The fitted map: a matrix if it is linear, otherwise the map with its parameters.

    A matrix of columns that the scaling bends is none of the columns of X.
    """
    if mapping.fitted is not None:
        return mapping.fitted(theta, features, dtype)
    if mapping.components is not None and features.scaling != "robust":
        return FittedLinear.of_scaled(
            mapping.components(theta), features.shift, features.scale, dtype, features.limits
        )
    return FittedMap(mapping, theta, features, dtype)
