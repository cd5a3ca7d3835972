"""The rows of a table on a device, centred and scaled there once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from vicinal._features import (
    INFLATED,
    SHARE,
    Features,
    central_moments,
    first_moments,
    make_rows,
    projected,
    shares,
    tops,
)
from vicinal._search import nearest_elsewhere
from vicinal.core.types import Array, ClassMoments
from vicinal.engines.cuda.arrays import DeviceArray, exact_products, in_dtype, index, sent

_BLOCK = 2**25  # numbers of a block that is copied
_GROUPS = 64  # most partial sums over rows, which are added in float64


class TorchRows(ClassMoments):
    """Rows on a device (`core.types.Rows`): products are computed there.

    Parameters
    ----------
    X : tensor of shape (n, D)
        The rows, centred and scaled.
    scaling : Features
        No rows, with the shift and scale of all.
    """

    def __init__(self, X: torch.Tensor, scaling: Features) -> None:
        self.X, self.features, self.shape = X, scaling, tuple(X.shape)
        self.shift, self.scale, self.limits = scaling.shift, scaling.scale, scaling.limits
        self.scaling, self.total_variance = scaling.scaling, scaling.total_variance
        self._known: dict[str, Any] = {}

    def __len__(self) -> int:
        return self.shape[0]

    def take(self, rows: Array | None) -> TorchRows:
        """Some of the rows, where they lie; None: all of them."""
        if rows is None:
            return self
        if isinstance(rows, slice):
            return TorchRows(self.X[rows], self.features)
        return TorchRows(self.X[index(rows, self.X.device)], self.features)

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """The rows in blocks: on the host, in float64."""
        for rows in _blocks(self.X):
            yield rows, self.X[rows].double().cpu().numpy()

    def matmul(self, B: Array, dtype: Any = np.float64) -> DeviceArray:
        """``X_scaled @ B``."""
        with exact_products():
            Z = in_dtype(self.X, dtype) @ sent(B, DeviceArray(self.X[:1]), dtype)
        return DeviceArray(Z, self._known)

    def rmatmul(self, V: Any) -> Array:
        """``X_scaled.T @ V``, on the host: sums over groups of rows, added in float64."""
        V = V.tensor if isinstance(V, DeviceArray) else sent(V, DeviceArray(self.X[:1]))
        X, n = self.X.to(V.dtype), len(self)
        size = max(4096, -(-n // _GROUPS))
        whole = n // size * size
        with exact_products():
            parts = torch.bmm(
                X[:whole].view(-1, size, X.shape[1]).transpose(1, 2),
                V[:whole].reshape(-1, size, V.shape[1]),
            )
            total = parts.double().sum(0) + (X[whole:].T @ V[whole:]).double()
        return total.cpu().numpy()

    def columns_times(self, a: Array, dtype: Any = np.float64) -> DeviceArray:
        """``X_scaled * a``."""
        a = sent(a, DeviceArray(self.X[:1]), dtype)
        return DeviceArray(in_dtype(self.X, dtype) * a, self._known)

    def column_dots(self, V: Any) -> Array:
        """``sum_i X_scaled_i * V_i``, on the host."""
        V = V.tensor if isinstance(V, DeviceArray) else sent(V, DeviceArray(self.X[:1]))
        total = sum((self.X[rows].double() * V[rows]).sum(0) for rows in _blocks(self.X))
        return total.cpu().numpy()

    def class_moments(
        self, codes: Array, n_classes: int, weight: Array
    ) -> tuple[Array, Array, Array]:
        """See `core.types.ClassMoments`."""
        here = DeviceArray(self.X[:1])
        c, w = sent(codes, here, np.int64), sent(weight, here, np.float64)
        first = np.full(n_classes, -1)
        weighted = np.flatnonzero(weight > 0)[::-1]
        first[codes[weighted]] = weighted
        shifts = self.X[index(np.maximum(first, 0), self.X.device)].double()
        shifts *= sent(first >= 0, here, np.float64)[:, None]
        D = self.shape[1]
        sums, within = self.X.new_zeros(n_classes, D).double(), self.X.new_zeros(D, D).double()
        one_hot = torch.arange(n_classes, device=self.X.device)[:, None]
        for rows in _blocks(self.X):
            Y = self.X[rows].double() - shifts[c[rows]]
            # a product, because adding to rows of an array has no fixed order on a device
            sums += ((c[rows] == one_hot) * w[rows]) @ Y
            within += Y.T @ (Y * w[rows][:, None])
        return tuple(part.cpu().numpy() for part in (shifts, sums, within))


def _blocks(X: torch.Tensor) -> list[slice]:
    step = max(1, _BLOCK // X.shape[1])
    return [slice(i, min(i + step, len(X))) for i in range(0, len(X), step)]


class _OnDevice:
    """The rows as `_features.Parts`: one block."""

    def __init__(self, X: DeviceArray, weight: Array) -> None:
        self.X, self.weight, self.dtype = X, weight, X.dtype

    def each(self, function: Any, *arrays: Array) -> list[Any]:
        return [function(self.X, self.weight, *arrays)]

    def columns(self, numbers: Array) -> Iterator[Array]:
        table = self.X.tensor[:, index(numbers, self.X.tensor.device)].cpu().numpy()
        return (table[:, j : j + 1] for j in range(len(numbers)))

    def suspects(self, numbers: Array) -> Array:
        """Without the columns that are clearly ordinary: the others are looked at on the host."""
        n, w, found = len(self.X), sent(self.weight, self.X), []
        step = max(1, _BLOCK // n)
        for some in (numbers[first : first + step] for first in range(0, len(numbers), step)):
            x = self.X.tensor[:, index(some, self.X.tensor.device)].double()
            middle = torch.where(2 * (x == 0).sum(0) <= n, x.median(0).values, 0.0)
            a = (x - middle).abs()
            most = ((a > 0).sum(0) * SHARE).long()
            ordered = a.sort(dim=0).values
            t = ordered.gather(0, (n - 1 - most)[None])
            whole, inner = w @ a.square(), w @ torch.minimum(a, t).square()
            found.append((whole > 0.9 * INFLATED * inner) & (most > 0))
        return numbers[torch.cat(found).cpu().numpy()] if found else numbers


@make_rows.register
def _make_rows(
    X: DeviceArray, scaling: str | None, sample_weight: Array | None = None,
    limit_outliers: bool = True,
) -> TorchRows:  # fmt: skip
    parts = _OnDevice(X, shares(len(X), sample_weight))
    nothing = np.empty((0, X.shape[1]), X.dtype)
    features = Features.scaled_by(parts, scaling, limit_outliers, nothing)
    out = torch.empty_like(X.tensor)
    limits = None if features.limits is None else [sent(part, X) for part in features.limits]
    shift, scale = sent(features.shift, X), sent(features.scale, X)
    for rows in _blocks(X.tensor):
        part = X.tensor[rows]
        if limits is not None:
            part = part.clamp(*(limit.to(part.dtype) for limit in limits))
        out[rows] = ((part.double() - shift) * scale).to(out.dtype)
    return TorchRows(out, features)


@tops.register
def _tops(X: DeviceArray, weight: Array) -> Array:
    parts = [X.tensor[rows].abs().amax(0) for rows in _blocks(X.tensor)]
    return torch.stack(parts).amax(0).double().cpu().numpy()


@first_moments.register
def _first_moments(X: DeviceArray, weight: Array, unit: Array) -> tuple[Array]:
    w, u = sent(weight, X), sent(unit, X)
    total = sum(w[rows] @ (X.tensor[rows].double() / u) for rows in _blocks(X.tensor))
    return (total.cpu().numpy(),)


@central_moments.register
def _central_moments(X: DeviceArray, weight: Array, unit: Array, mean: Array) -> tuple[Array, ...]:
    w, u, m = sent(weight, X), sent(unit, X), sent(mean, X)
    found = []
    for rows in _blocks(X.tensor):
        centred = X.tensor[rows].double() / u - m
        squares = centred**2
        found.append(torch.stack([w[rows] @ part for part in (centred, squares, squares**2)]))
    rest, variance, fourth = torch.stack(found).sum(0).cpu().numpy()
    return rest, variance, fourth, np.full(X.shape[1], len(X)), np.zeros(X.shape[1])


@projected.register
def _projected(X: DeviceArray, A: Array, shift: Array, limits: Any) -> DeviceArray:
    A_T, centre = sent(A.T, X), sent(shift, X)
    ends = None if limits is None else [sent(part, X).to(X.tensor.dtype) for part in limits]
    Z = torch.empty(len(X), len(A), dtype=torch.float64, device=X.tensor.device)
    for rows in _blocks(X.tensor):
        part = X.tensor[rows] if ends is None else X.tensor[rows].clamp(*ends)
        Z[rows] = (part.double() - centre) @ A_T
    return DeviceArray(Z)


@nearest_elsewhere.register
def _nearest(points: DeviceArray, queries: Any, k: int, itself: bool) -> tuple[Array, Array]:
    Z, Q = points.tensor, queries.tensor.to(points.tensor.dtype)
    distances, near = [], []
    step = max(1, _BLOCK // len(Z))
    for first in range(0, len(Q), step):
        part = Q[first : first + step]
        squared = part.new_zeros(len(part), len(Z))
        # by differences: products would lose the digits of near pairs
        for a, b in zip(part.T, Z.T, strict=True):
            squared.add_((a[:, None] - b).square_())
        if itself:
            squared.diagonal(first).fill_(torch.inf)
        found, at = squared.topk(k, largest=False)
        at, order = at.sort(dim=1)  # of equal distances, the first row first
        found, again = found.gather(1, order).sort(dim=1, stable=True)
        distances.append(found.sqrt())
        near.append(at.gather(1, again))
    return torch.cat(distances).cpu().numpy(), torch.cat(near).cpu().numpy()
