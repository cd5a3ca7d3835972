"""Nonlinear maps, row by row and column by column."""

from __future__ import annotations

from typing import Any

import numpy as np

from formulas._common import Array

__all__ = ["mlp", "periodic_features"]

_ACTIVATIONS: dict[str, Any] = {
    "relu": lambda u: np.where(u > 0, u, 0.0),
    "tanh": lambda u: (np.exp(u) - np.exp(-u)) / (np.exp(u) + np.exp(-u)),
    "logistic": lambda u: 1 / (1 + np.exp(-u)),
}


def mlp(
    X: Array, layers: list[tuple[Array, Array]], V: Array, A: Array | None, activation: str
) -> Array:
    """``h_l = act(W_l h_{l-1} + b_l)`` with ``h_0 = x``, and ``z = V h_L + A x``; A may be None."""
    Z = []
    for x in X:
        h = x
        for W, b in layers:
            h = _ACTIVATIONS[activation](W @ h + b)
        Z.append(V @ h if A is None else V @ h + A @ x)
    return np.array(Z)


def periodic_features(X: Array, F: Array, W: Array, b: Array) -> Array:
    """All columns x_j, then ``relu(W [cos 2 pi f_j x_j, sin 2 pi f_j x_j] + b)`` for each of them.

    F has one row of frequencies for each column ([Gorishniy2022], [Ye2024]).
    """
    rows = []
    for x in X:
        features = []
        for f, x_j in zip(F, x, strict=True):
            u = W @ np.concatenate([np.cos(2 * np.pi * f * x_j), np.sin(2 * np.pi * f * x_j)]) + b
            features.append(np.maximum(u, 0.0))
        rows.append(np.concatenate([x, *features]))
    return np.array(rows)
