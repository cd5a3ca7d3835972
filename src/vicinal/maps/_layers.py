"""Layers of nonlinear maps, and the loop over blocks of rows that all of these maps share.

A layer sees one block of rows, transposed: one row of its array for each column of the data, so
that every operation runs along the rows of the data, which lie next to each other in memory.  It
returns its outputs and ``back``, which turns the derivative by its outputs into the gradients of
its parameters and, on request, the derivative by its inputs.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import expit

from vicinal._threads import n_threads, run, single_threaded_blas
from vicinal.core.types import Array

_BLOCK = 1024  # rows of a block at most
_ENTRIES = 2**18  # entries of the largest array of a block: it stays in the cache of a core
_SMALL = 0.1  # spread of the first random components, relative to the components of a matrix
_GROUPS = 16  # partial sums of a gradient: as many for any number of threads

#: ``back(d_outputs, inputs=False)``: gradients of the parameters, and the derivative by the inputs
Back = Callable[..., tuple[list[Array], Array | None]]


class Workspace:
    """Arrays that the blocks of one thread use in turn: new large ones cost page faults."""

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}

    def empty(self, name: str, shape: tuple[int, ...], dtype: Any) -> Array:
        """An array with any content; the one that had this name before is overwritten."""
        size = int(np.prod(shape))
        if name not in self._arrays or len(self._arrays[name]) < size:
            self._arrays[name] = np.empty(size, dtype)
        return self._arrays[name][:size].reshape(shape)


def _relu(U: Array) -> Array:
    return np.maximum(U, 0.0, out=U)


def _tanh(U: Array) -> Array:
    return np.tanh(U, out=U)


def _logistic(U: Array) -> Array:
    return expit(U, out=U)


#: each activation, computed in place, and its derivative as a function of its result
ACTIVATIONS: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    "relu": (_relu, lambda H: H > 0.0),
    "tanh": (_tanh, lambda H: 1.0 - H * H),
    "logistic": (_logistic, lambda H: H * (1.0 - H)),
}


@dataclass(frozen=True)
class Network:
    """Dense layers, and the linear map of the inputs that may be added to their result.

    ``h_0 = x``, ``h_l = act(W_l h_{l-1} + b_l)`` and ``z = V h_L + A x``: the parameters are
    ``W_1, b_1, ..., V, A``.  Without hidden layers there is no V, and with ``residual=False`` there
    is no A.
    """

    n_inputs: int
    n_components: int
    hidden: tuple[int, ...] = ()
    activation: str = "relu"
    residual: bool = True

    @cached_property
    def inner_shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of W_1, b_1, ... of the hidden layers."""
        pairs = pairwise((self.n_inputs, *self.hidden))
        return tuple(
            shape for fan_in, fan_out in pairs for shape in ((fan_out, fan_in), (fan_out,))
        )

    @cached_property
    def last_shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of V and A, whichever there are."""
        d = self.n_components
        V = [self.hidden[-1]] if self.hidden else []
        A = [self.n_inputs] if self.residual else []
        return tuple((d, size) for size in (*V, *A))

    @cached_property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of all parameters, in their order."""
        return (*self.inner_shapes, *self.last_shapes)

    @cached_property
    def penalty_weights(self) -> Array:
        """One for each entry of a matrix, zero for biases."""
        sizes = [size_of([shape]) for shape in self.shapes]
        found = np.repeat([float(len(shape) == 2) for shape in self.shapes], sizes)
        found.flags.writeable = False  # all maps of these sizes share it
        return found

    @cached_property
    def size(self) -> int:
        """The number of all parameters."""
        return size_of(self.shapes)

    @property
    def widest(self) -> int:
        """The number of columns of the widest layer."""
        return max((self.n_inputs, *self.hidden))

    def nanoseconds(self, itemsize: int) -> float:
        """Time of one thread for a row, forwards and back."""
        return (0.15 * self.size + 6.0 * sum(self.hidden)) * itemsize / 4

    @property
    def row_entries(self) -> int:
        """Entries of all layers for a row, with their derivatives."""
        return self.n_inputs + 3 * sum(self.hidden) + 2 * self.n_components

    def scaled(self, theta: Array, factor: float) -> Array:
        """The parameters whose Z is ``factor`` times as large; theta ends with V and A."""
        scaled = np.array(theta, dtype=np.float64)
        scaled[-size_of(self.last_shapes) :] *= factor
        return scaled

    def start(self, rng: np.random.RandomState) -> list[Array]:
        """Random W_1, b_1, ...: He's variance for relu, Glorot's for the others; b = 0."""
        parts = []
        for shape in self.inner_shapes:
            if len(shape) == 1:
                parts.append(np.zeros(shape))
                continue
            variance = 2.0 / (shape[1] if self.activation == "relu" else sum(shape))
            parts.append(rng.normal(scale=np.sqrt(variance), size=shape))
        return parts

    def hidden_outputs(self, parts: Sequence[Array], X: Array) -> list[Array]:
        """``[h_0, ..., h_L]``; ``parts`` begin with W_1, b_1, ..."""
        act = ACTIVATIONS[self.activation][0]
        outputs = [X]
        for layer in range(len(self.hidden)):
            U = parts[2 * layer] @ outputs[-1]
            U += parts[2 * layer + 1][:, None]
            outputs.append(act(U))
        return outputs

    def __call__(
        self, parts: Sequence[Array], X: Array, work: Workspace | None = None
    ) -> tuple[Array, Back]:
        """The outputs for a block, and the way back."""
        outputs = self.hidden_outputs(parts, X)
        last = parts[2 * len(self.hidden) :]
        Z = last[0] @ outputs[-1]
        if self.hidden and self.residual:
            Z += last[1] @ X

        def back(dZ: Array, inputs: bool = False) -> tuple[list[Array], Array | None]:
            gradients = [dZ @ H.T for H in self._multiplied(outputs)]
            dH = last[0].T @ dZ if self.hidden or inputs else None
            for layer in reversed(range(len(self.hidden))):
                dH *= ACTIVATIONS[self.activation][1](outputs[layer + 1])  # now by U
                gradients = [dH @ outputs[layer].T, dH.sum(axis=1), *gradients]
                dH = parts[2 * layer].T @ dH if layer or inputs else None
            if inputs and self.hidden and self.residual:
                dH += last[1].T @ dZ
            return gradients, dH

        return Z, back

    def _multiplied(self, outputs: list[Array]) -> list[Array]:
        """What the last matrices multiply: h_L, x or both."""
        return [outputs[-1], outputs[0]] if self.hidden and self.residual else [outputs[-1]]


#: the same objects, with what they have worked out, at every step of a fit
make_network = lru_cache(maxsize=64)(Network)


def known_rank(mapping: Any) -> int:
    """The number of dimensions of a map, which it may not have yet."""
    if mapping.n_components is None:
        raise ValueError(
            f"The 'n_components' parameter of {type(mapping).__name__} must be an int in [1, inf) "
            "when the map is used: see its method with_rank. Got None instead."
        )
    return int(mapping.n_components)


def size_of(shapes: Sequence[tuple[int, ...]]) -> int:
    """Number of entries of arrays with these shapes."""
    return sum(math.prod(shape) for shape in shapes)


def unpack(theta: Array, shapes: Sequence[tuple[int, ...]]) -> list[Array]:
    """The arrays of flat parameters."""
    parts, first = [], 0
    for shape in shapes:
        last = first + math.prod(shape)
        parts.append(theta[first:last].reshape(shape))
        first = last
    return parts


def n_features(size: Callable[[int], int], length: int, owner: str) -> int:
    """The number of columns D with ``size(D) == length``; the size is affine in D."""
    fixed = size(0)
    D, rest = divmod(length - fixed, size(1) - fixed)
    if rest or D < 1:
        raise ValueError(f"No number of columns gives a map {owner} {length} parameters.")
    return D


def forward_in_blocks(
    network: Callable[[list[Array], Array, Workspace], tuple[Array, Back]],
    shapes: Sequence[tuple[int, ...]],
    theta: Array,
    X: Any,
    n_components: int,
    dtype: Any,
    widest: int,
) -> tuple[Array, Callable[[Array], Array]]:
    """Embed rows block by block, and the pull-back.

    Layers of several blocks are computed once more on the way back, because all together would
    take too much memory.

    Parameters
    ----------
    network : callable
        ``Z, back = network(parts, block, workspace)`` for one block, transposed.
    shapes : list of tuples
        Shapes of the parameters.
    theta : array
        All parameters, flat.
    X : Features
        The rows.
    n_components : int
        Dimensions of Z.
    dtype : dtype
        Precision of the layers; gradients are added up in float64.
    widest : int
        Entries of the largest array of a block, for each row: it sets the size of the blocks.
    """
    dtype = np.dtype(dtype)
    parts = unpack(theta.astype(dtype), shapes)
    slices = block_slices(len(X), widest)
    Z = np.empty((len(X), n_components), dtype)
    works: defaultdict[int, Workspace] = defaultdict(Workspace)
    only: list[Back] = []  # the way back of a single block, as batches are

    def embed(rows: slice, thread: int) -> None:
        with np.errstate(all="ignore"):  # a step may be too long: the solver undoes it
            outputs, back = network(parts, X.dense(rows, dtype).T, works[thread])
        Z[rows] = outputs.T
        if len(slices) == 1:
            only.append(back)

    with single_threaded_blas():
        run(embed, slices, n_threads())

    def pull(dZ: Array) -> Array:
        size = -(-len(slices) // _GROUPS)
        groups = [slices[g : g + size] for g in range(0, len(slices), size)]
        totals = np.zeros((len(groups), len(theta)))

        def add(g: int, thread: int) -> None:
            for rows in groups[g]:
                back = only[0] if only else network(parts, X.dense(rows, dtype).T, works[thread])[1]
                gradients, _ = back(dZ[rows].T.astype(dtype, copy=False))
                totals[g] += np.concatenate([gradient.ravel() for gradient in gradients])

        with single_threaded_blas():
            run(add, range(len(groups)), n_threads())
        return totals.sum(axis=0)

    return Z, pull


def block_size(widest: int) -> int:
    """Rows of a block whose arrays have ``widest`` entries for each row at most."""
    return max(16, min(_BLOCK, _ENTRIES // widest))


def block_slices(n: int, widest: int) -> list[slice]:
    """Fixed blocks of rows, whose arrays have ``widest`` entries for each row at most."""
    size = block_size(widest)
    return [slice(i, min(i + size, n)) for i in range(0, n, size)]


class LayerRows:
    """The rows that a layer makes of other rows, as a start needs them: block by block, float64.

    Parameters
    ----------
    X : Features or LayerRows
        The rows that the layer sees.
    layer : callable
        ``outputs = layer(inputs)``, both transposed.
    n_columns : int
        Number of outputs.
    """

    def __init__(self, X: Any, layer: Callable[[Array], Array], n_columns: int) -> None:
        self.X, self.layer = X, layer
        self.shape = (X.shape[0], n_columns)

    def __len__(self) -> int:
        return self.shape[0]

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """The rows in fixed blocks."""
        for first in range(0, len(self), _BLOCK):
            rows = slice(first, min(first + _BLOCK, len(self)))
            yield rows, self.dense(rows, np.float64)

    def dense(self, rows: slice, dtype: Any) -> Array:
        """Some of the rows."""
        return self.layer(self.X.dense(rows, dtype).T).T

    def matmul(self, B: Array, dtype: Any = np.float64) -> Array:
        """The product with B of shape (columns, m)."""
        out = np.empty((len(self), B.shape[1]), dtype)
        for rows, block in self.blocks():
            out[rows] = block @ B
        return out

    def rmatmul(self, V: Array) -> Array:
        """The transposed product with V of shape (n, m), added up in the order of the blocks."""
        total = np.zeros((self.shape[1], V.shape[1]))
        for rows, block in self.blocks():
            total += block.T @ V[rows]
        return total


def weights_beside(A: Array, X: Any, outputs: LayerRows, rng: np.random.RandomState) -> Array:
    """The first weights of the outputs of a layer, next to a matrix A of its inputs.

    They are zero, but random for components that A leaves at zero, as a start does if more
    components are requested than there are columns.  Such a component would have no gradient.
    """
    weights, zero = np.zeros((len(A), outputs.shape[1])), ~A.any(axis=1)
    if zero.any() and not zero.all():
        some = slice(0, min(len(outputs), _BLOCK))
        H = outputs.dense(some, np.float64)
        spread = np.std(X.dense(some, np.float64) @ A[~zero].T) / max(float(np.std(H)), 1e-12)
        size = _SMALL * spread / np.sqrt(H.shape[1])
        weights[zero] = rng.normal(scale=size, size=(int(zero.sum()), H.shape[1]))
    return weights
