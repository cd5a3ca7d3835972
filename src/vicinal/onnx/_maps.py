"""Fitted maps as graphs: from rows in the original columns to embedded points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vicinal._features import Bend
from vicinal.core.types import Array
from vicinal.maps import MLP, Bins, Diagonal, Linear, Periodic
from vicinal.maps._layers import Network, unpack
from vicinal.maps.fitted import FittedLinear, FittedMap, FittedMaps
from vicinal.onnx._writer import Writer

_BENT_LIMIT = 1e15  # of scaled values: their squares do not overflow
_ACTIVATIONS = {"relu": "Relu", "tanh": "Tanh", "logistic": "Sigmoid"}


class Embedding:
    """The name of the embedded rows, and what must be added to the stored training rows.

    In float32 the shift of the columns is rounded, and the stored rows move along with it, so that
    distances keep their digits where the data are far from the origin.
    """

    def __init__(self, name: str, moved: Any = 0.0) -> None:
        self.name, self.moved = name, moved


def check_map(fitted: Any, owner: str) -> None:
    """Refuse maps that have no graph."""
    if isinstance(fitted, FittedLinear):
        return
    if isinstance(fitted, FittedMaps):
        for part in fitted.maps:
            check_map(part, owner)
        return
    known = MLP | Periodic | Bins | Linear | Diagonal
    if isinstance(fitted, FittedMap) and isinstance(fitted.mapping, known):
        return
    if fitted is None:
        raise ValueError(
            f"to_onnx cannot convert this {owner}: it places new rows by minimising a loss, which "
            "is no graph. Fit it with mapping='linear'."
        )
    mapping = getattr(fitted, "mapping", fitted)
    advice = "Linear, diagonal and simplex maps, MLP, Periodic and Bins can be converted."
    if type(mapping).__name__ == "TorchMap":
        advice = (
            "Export the module with torch.onnx. It expects rows that are centred and scaled: see "
            "shift and scale of the fitted map."
        )
    raise ValueError(f"to_onnx cannot convert the map {mapping!r} of {owner}. {advice}")


def transform(w: Writer, X: str, fitted: Any) -> str:
    """The graph of ``fitted.transform``: outliers stay where they are."""
    if isinstance(fitted, FittedMaps):
        parts = [transform(w, X, part) for part in fitted.maps]
        return _side_by_side(w, parts, fitted)
    if not isinstance(fitted, FittedLinear):
        return _network(w, _scaled(w, X, fitted.features), fitted)
    shift, A = fitted.shift, fitted.components.astype(np.float64)
    rounded = shift.astype(w.dtype).astype(np.float64)
    # centred first, since in float32 an offset would cost the digits that distances need
    Z = w.times_matrix(w.op("Sub", X, w.constant(rounded)), A.T)
    return w.op("Add", Z, w.constant(rounded @ A.T))


def embed(w: Writer, X: str, fitted: Any) -> Embedding:
    """The graph of ``fitted.embed``: for a model, within the limits of columns with outliers."""
    if isinstance(fitted, FittedMaps):
        each = [embed(w, X, part) for part in fitted.maps]
        moved = [
            np.broadcast_to(factor * one.moved, part.n_components)
            for one, part, factor in zip(each, fitted.maps, fitted.factors, strict=True)
        ]
        name = _side_by_side(w, [one.name for one in each], fitted)
        return Embedding(name, np.concatenate(moved))
    if not isinstance(fitted, FittedLinear):
        X = _limited(w, X, fitted.features.limits)
        return Embedding(_network(w, _scaled(w, X, fitted.features), fitted))
    X = _limited(w, X, fitted.limits)
    shift, A = fitted.shift, fitted.components.astype(np.float64)
    rounded = shift.astype(w.dtype).astype(np.float64)
    Z = w.times_matrix(w.op("Sub", X, w.constant(rounded)), A.T)
    return Embedding(Z, (shift - rounded) @ A.T)


def _side_by_side(w: Writer, parts: list[str], fitted: FittedMaps) -> str:
    # one factor for each column: onnxruntime would round a single one to float32
    factors = [
        w.constant(np.full(part.n_components, factor))
        for part, factor in zip(fitted.maps, fitted.factors, strict=True)
    ]
    scaled = [w.op("Mul", Z, factor) for Z, factor in zip(parts, factors, strict=True)]
    return w.op("Concat", *scaled, axis=1)


def histograms(w: Writer, X: str) -> str:
    """Rows divided by their sums; a row of zeros becomes uniform."""
    one = w.constant(1.0)
    top = w.reduce("Max", X, 1)
    empty = w.op("LessOrEqual", top, w.constant(0.0))
    X = w.op("Div", w.op("Where", empty, one, X), w.op("Where", empty, one, top))
    return w.op("Div", X, w.reduce("Sum", X, 1))


def _limited(w: Writer, X: str, limits: Any) -> str:
    if limits is None:
        return X
    low, high = (w.constant(limit) for limit in limits)
    return w.op("Min", w.op("Max", X, low), high)


def _scaled(w: Writer, X: str, features: Any) -> str:
    """Centred and scaled rows; what float32 rounds off the shift is subtracted afterwards."""
    rounded = features.shift.astype(w.dtype).astype(np.float64)
    X = w.op("Mul", w.op("Sub", X, w.constant(rounded)), w.constant(features.scale))
    rest = (features.shift - rounded) * features.scale
    X = w.op("Sub", X, w.constant(rest)) if rest.any() else X
    return X if features.bend is None else _bent(w, X, features.bend)


def _bent(w: Writer, X: str, bend: Bend) -> str:
    """Columns bent as `Bend` does it."""
    X = w.op("Clip", X, w.constant(-_BENT_LIMIT), w.constant(_BENT_LIMIT))
    squares = w.op("Mul", w.op("Mul", X, X), w.constant(bend.curvature))
    root = w.op("Sqrt", w.op("Add", squares, w.constant(1.0)))
    return w.op("Mul", X, w.op("Div", w.constant(bend.spread), root))


def _network(w: Writer, X: str, fitted: FittedMap) -> str:
    mapping: Any = fitted.mapping
    D = fitted.features.shape[1]
    if isinstance(mapping, MLP):
        network = mapping.network(D)
        return _layers(w, X, network, unpack(fitted.theta, network.shapes))
    if isinstance(mapping, Bins):
        return _binned(w, X, mapping, fitted.theta, D)
    if mapping.components is not None:
        return w.times_matrix(X, mapping.components(fitted.theta).T)
    head = mapping.head(D)
    parts = unpack(fitted.theta, [*mapping._shapes(D), *head.shapes])
    return _layers(w, _with_waves(w, X, *parts[:3]), head, parts[3:])


def _binned(w: Writer, X: str, mapping: Bins, theta: Array, D: int) -> str:
    """The positions in the bins of each column, then a matrix: see `Bins`."""
    edges, weight, A = unpack(theta, mapping.shapes(D))
    width = np.diff(edges, axis=1)
    rate = np.divide(1.0, width, out=np.zeros_like(width), where=width > 0)
    away = w.op("Sub", w.op("Unsqueeze", X, w.constant([2])), w.constant(edges[:, :-1]))
    share = w.op("Clip", w.op("Mul", away, w.constant(rate)), w.constant(0.0), w.constant(1.0))
    coded = w.op("Mul", share, w.constant(weight[:, None]))
    return w.times_matrix(w.reshape(coded, (0, D * mapping.n_bins)), A.T)


def _with_waves(w: Writer, X: str, F: Array, W: Array, b: Array) -> str:
    """The columns and their periodic features: see `Periodic`."""
    half = w.op("Mul", w.op("Unsqueeze", X, w.constant([2])), w.constant(np.pi * F))
    sin, sin_half = w.op("Sin", w.op("Add", half, half)), w.op("Sin", half)
    # onnxruntime 1.18 has no cosine in float64: cos = 1 - 2 sin² of half the angle
    square = w.op("Mul", sin_half, sin_half)
    cos = w.op("Sub", w.constant(1.0), w.op("Add", square, square))
    waves = w.op("Concat", cos, sin, axis=2)
    features = w.op("Relu", w.op("Add", w.times_matrix(waves, W.T), w.constant(b)))
    return w.op("Concat", X, w.reshape(features, (0, len(F) * len(b))), axis=1)


def _layers(w: Writer, X: str, network: Network, parts: Sequence[Array]) -> str:
    """Dense layers, and the linear map that may be added to their result: see `Network`."""
    H, activation = X, _ACTIVATIONS[network.activation]
    for layer in range(len(network.hidden)):
        U = w.op("Add", w.times_matrix(H, parts[2 * layer].T), w.constant(parts[2 * layer + 1]))
        H = w.op(activation, U)
    last = parts[2 * len(network.hidden) :]
    Z = w.times_matrix(H, last[0].T)
    if network.hidden and network.residual:
        Z = w.op("Add", Z, w.times_matrix(X, last[1].T))
    return Z
