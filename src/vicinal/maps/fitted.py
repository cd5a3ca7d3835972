"""What is left of a map after a fit: it embeds rows as they come, unscaled."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import gen_batches
from sklearn.utils.extmath import safe_sparse_dot

from vicinal._features import Features, unscaled
from vicinal.core.types import Array, Map

__all__ = ["FittedLinear", "FittedMap", "fitted_map"]

_BLOCK = 1024  # rows projected at a time


class FittedMap:
    """Any map with its parameters, and the scaling of the columns it was learnt in.

    Parameters
    ----------
    mapping : Map
    theta : array
        Its parameters.
    features : Features
        The rows learnt from, whose shift and scale other rows get.
    dtype : dtype
        Of the embedded rows.
    """

    def __init__(self, mapping: Map, theta: Array, features: Features, dtype: Any) -> None:
        self.mapping, self.theta, self.dtype = mapping, np.array(theta), np.dtype(dtype)
        self.features = features.take(np.empty(0, dtype=int))

    @property
    def n_components(self) -> int:
        """Dimensions of the embedded rows."""
        D = self.features.shape[1]
        return self.transform(np.zeros((1, D))).shape[1]

    def transform(self, X: Any) -> Array:
        """Embed rows."""
        rows = Features.scaled_as(self.features, X)
        return self.mapping.forward(self.theta, rows, np.float64)[0].astype(self.dtype)

    def embed(self, X: Any) -> Array:
        """Rows as a model sees them."""
        return self.transform(X)

    def arrays(self) -> dict[str, Array]:
        """All that is learnt."""
        return {"theta": self.theta, "shift": self.features.shift, "scale": self.features.scale}


class FittedLinear:
    """A matrix: ``transform(X) = X @ components.T``.

    Parameters
    ----------
    components : array of shape (d, D)
        The scaling of the columns is folded in.
    shift, scale : arrays of shape (D,)
        What the columns were centred by and multiplied with while the map was learnt.
    """

    def __init__(self, components: Array, shift: Array, scale: Array) -> None:
        self.components, self.shift, self.scale = components, shift, scale

    @property
    def n_components(self) -> int:
        """Dimensions of the embedded rows."""
        return len(self.components)

    def transform(self, X: Any) -> Array:
        """Embed rows; they are not centred."""
        return safe_sparse_dot(X, self.components.T, dense_output=True)

    def embed(self, X: Any) -> Array:
        """``(X - shift) @ components.T``: around the origin, since an offset costs digits."""
        A = self.components.astype(np.float64)
        if sp.issparse(X):
            Z = X @ A.T - self.shift @ A.T
        else:
            Z = np.empty((X.shape[0], len(A)))
            for rows in gen_batches(len(Z), _BLOCK):
                Z[rows] = (X[rows] - self.shift) @ A.T
        return Z.astype(self.components.dtype, copy=False)

    def theta_for(self, mapping: Any, features: Features) -> Array:
        """The parameters by which a map in other scaled columns is this one."""
        return mapping.theta(unscaled(self.components, features.scale))

    def arrays(self) -> dict[str, Array]:
        """All that is learnt."""
        return {"components": self.components, "shift": self.shift, "scale": self.scale}


def fitted_map(mapping: Any, theta: Array, features: Features, dtype: Any) -> Any:
    """What is left of a map: a matrix where it is linear, else the map with its parameters."""
    if hasattr(mapping, "fitted"):
        return mapping.fitted(theta, features, dtype)
    if hasattr(mapping, "components"):
        components = (mapping.components(theta) * features.scale).astype(dtype)
        return FittedLinear(components, features.shift, features.scale)
    return FittedMap(mapping, theta, features, dtype)
