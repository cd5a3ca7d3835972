r"""Potentials of kt-SNE on a regular grid: convolutions with the powers of the Cauchy kernel.

Charges at points become charges at the nodes of a grid by a window, and the potential at a point is
gathered from the nodes by the same window (:mod:`vicinal.kernels.grid`).  Between the two stands a
convolution over the nodes with a kernel :math:`G_m`, whose transform undoes both windows:
:math:`\hat G_m = \hat K_m \, \hat W^2 / (\sum_l \hat W_l^2)^2` where :math:`\hat K_m` is the
transform of :math:`(1 + u^2)^{-m}`, :math:`\hat W` that of the window, and l runs over its aliases.
This is, nearly, the kernel on the grid with the least mean squared error over all places where a
pair of points can lie.

Transforms are computed in fixed pieces by the threads of the library; scipy.fft's own are not used.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.fft

from vicinal import _threads
from vicinal.core.types import Array
from vicinal.kernels.grid import ORDER, SELF_TERMS

#: widest distance of the nodes: with ORDER it sets the error (benchmarks/results/ksne_engines.md)
SPACING = 0.3
_LEAST_CELLS = (
    32  # cells along the longer side: a small picture needs a fine grid, not a coarse one
)
_SMALL = _LEAST_CELLS * SPACING
_FEWEST = 8  # nodes along an axis come in multiples of that many, so that few kernels are needed
_FINEST = 40  # the finest spacing is 2 ** -40 of the widest
_ROWS = 32  # rows or columns that a thread transforms at a time


class Axis(NamedTuple):
    """``nodes`` of a grid at distance ``spacing``, transformed with the period ``2 * half``.

    ``spacing`` is ``SPACING * 2 ** (-fineness / 2)``.  A single node stands for an axis along which
    all points are the same.
    """

    nodes: int
    half: int
    fineness: int

    @property
    def spacing(self) -> float:
        """Distance of two nodes."""
        return SPACING * 2.0 ** (-self.fineness / 2)


class Kernels(NamedTuple):
    """Transforms of the kernels of a grid, and the interaction of a point with itself.

    ``transforms`` is (k, half + 1, half + 1), a quarter of the period; ``own`` holds the
    coefficients of `vicinal.kernels.grid.gather_sums`; ``error`` (k,) is the root of the mean
    squared error of the potential of one point at its own place.
    """

    transforms: Array
    own: Array
    error: Array


def make_axes(extent: Array, finer: int = 0) -> tuple[Axis, Axis]:
    """The axes of a grid over a picture of that extent, along its one or two dimensions.

    ``finer`` is added to the fineness.
    """
    longest, d = float(np.max(extent)), len(extent)
    fineness = finer + 2 * (
        2 - d
    )  # half the spacing costs little on a line, and errors average out less
    if longest < _SMALL:
        wanted = _SMALL / max(longest, _SMALL * 2.0**-_FINEST)
        fineness += int(np.ceil(2 * np.log2(wanted)))
    axes = [Axis(1, 0, fineness)] * 2
    for a in range(d):
        nodes = int(extent[a] / axes[a].spacing) + ORDER + 1
        step = max(_FEWEST, 2 ** (nodes.bit_length() - 5))  # at most a sixteenth too many
        nodes = -(-nodes // step) * step
        # A small picture sees a kernel that has not decayed at the edge: room for a smooth end.
        half = scipy.fft.next_fast_len(3 * nodes // 2 if longest < _SMALL else nodes)
        axes[a] = Axis(nodes, half, fineness)
    return axes[0], axes[1]


def is_small(axes: tuple[Axis, Axis]) -> bool:
    """Whether the grid is that of a small picture, in which most weights are near 1."""
    return axes[0].half > 1.25 * axes[0].nodes


def precision(axes: tuple[Axis, Axis]) -> str:
    """The dtype of transforms whose rounding is far below the error of interpolation.

    In a small picture all weights are near 1, and float32 would not tell them apart.
    """
    return "float64" if is_small(axes) else "float32"


def _distances(axis: Axis) -> Array:
    """Squared distances along an axis for half a period, exact up to ``nodes - 1`` nodes.

    Beyond, the distance flattens to a constant, so that it is a smooth periodic function.
    """
    if axis.half == 0:
        return np.zeros(1)
    steps = np.arange(axis.half + 1, dtype=np.float64)
    last = axis.nodes - 1
    beyond = steps > last
    v = (steps[beyond] - last) / (axis.half - last)
    # the integral of 1 - v⁴ (35 - 84 v + 70 v² - 20 v³), whose derivatives vanish at both ends
    steps[beyond] = last + (axis.half - last) * (
        v - v**5 * (7.0 - 14.0 * v + 10.0 * v**2 - 2.5 * v**3)
    )
    return (axis.spacing * steps) ** 2


def _unwindow(axis: Axis) -> Array:
    """W² / (sum of W² over the aliases)² for half a period."""
    if axis.half == 0:
        return np.ones(1)
    frequency = np.arange(axis.half + 1) / (2 * axis.half)
    aliases = sum(np.sinc(frequency + shift) ** (2 * ORDER) for shift in range(-4, 5))
    return np.sinc(frequency) ** (2 * ORDER) / aliases**2


def _splines(t: Array) -> Array:
    """The window of points at t within a cell: (len(t), ORDER), see `vicinal.kernels.grid`."""
    w = np.zeros((len(t), ORDER))
    w[:, 0] = 1.0
    for q in range(2, ORDER + 1):
        x = t[:, None] + np.arange(q - 1, -1, -1)
        before = np.hstack([np.zeros((len(t), 1)), w[:, : q - 1]])
        w[:, :q] = (x * before + (q - x) * w[:, :q]) / (q - 1)
    return w


def _own_terms(near: Array, exact: float) -> tuple[Array, float]:
    """Coefficients of the interaction of a point with itself, and its error.

    ``near`` holds the kernel at the nodes around a node: (ORDER, ORDER or 1).
    """
    t = (np.arange(8) + 0.5) / 16  # up to 1/2, where the cell is symmetric
    w = _splines(t)
    lag = np.abs(np.arange(ORDER)[:, None] - np.arange(ORDER))
    inverse = np.linalg.pinv(np.vander(t * (1 - t), SELF_TERMS, increasing=True))
    terms = np.zeros((SELF_TERMS, SELF_TERMS))
    if near.shape[1] == 1:
        table = np.einsum("ax,au,xu->a", w, w, near[:, 0][lag])
        terms[:, 0] = inverse @ table
    else:
        pairs = np.einsum("ax,au,xuq->aq", w, w, near[lag])  # q: lag along the second axis
        table = np.einsum("by,bv,ayv->ab", w, w, pairs[:, lag])
        terms[:] = inverse @ table @ inverse.T
    return terms, float(np.sqrt(np.mean((table - exact) ** 2)))


@functools.lru_cache(maxsize=2)
def make_kernels(k: int, axes: tuple[Axis, Axis], dtype: str) -> Kernels:
    """The kernels K_1, ..., K_k on a grid, each of them less 1 if `is_small`.

    ``dtype`` is that of the transforms.  The kernels are kept for the next iterations: spacings and
    sizes come in steps for that.
    """
    log_w = -np.log1p(_distances(axes[0])[:, None] + _distances(axes[1]))
    unwindow = _unwindow(axes[0])[:, None] * _unwindow(axes[1])
    small, along = is_small(axes), [axis for axis in range(2) if axes[axis].half]
    transforms = np.empty((k, *log_w.shape), dtype)
    own, error = np.empty((k, SELF_TERMS, SELF_TERMS)), np.empty(k)

    def task(m: int, thread: int) -> None:
        # not exp(x) - 1: in a small picture all digits are in the difference from 1
        power = np.expm1((m + 1) * log_w) if small else np.exp((m + 1) * log_w)
        transform = scipy.fft.dctn(power, type=1, axes=along, workers=1) * unwindow
        own[m], error[m] = _own_terms(_near(transform, axes), power[0, 0])
        transforms[m] = transform

    _threads.run(task, range(k), _threads.n_threads())
    return Kernels(transforms, own, error)


def _near(transform: Array, axes: tuple[Axis, Axis]) -> Array:
    """The kernel at the nodes around a node: (ORDER, ORDER or 1)."""
    waves = []
    for axis in axes:
        if axis.half == 0:
            waves.append(np.ones((1, 1)))
            continue
        lags = np.arange(ORDER)[:, None] * np.arange(axis.half + 1)
        wave = np.cos(np.pi / axis.half * lags) / axis.half
        wave[:, [0, -1]] *= 0.5  # these frequencies stand once in the period
        waves.append(wave)
    return np.einsum("bj,aj->ab", waves[1], np.einsum("ai,ij->aj", waves[0], transform))


def _pieces(count: int) -> list[tuple[int, int]]:
    return [(c, min(c + _ROWS, count)) for c in range(0, count, _ROWS)]


def _forward(grids: Array, axes: tuple[Axis, Axis], real: np.dtype) -> Array:
    """Transforms along the rows: (n_charges, rows, half + 1)."""
    n_charges, rows, _ = grids.shape
    period = max(1, 2 * axes[1].half)
    out = np.empty((n_charges, rows, axes[1].half + 1), dtype=np.result_type(real, np.complex64))

    def task(piece: tuple[int, int, int], thread: int) -> None:
        m, first, last = piece
        part = grids[m, first:last, : axes[1].nodes].astype(real, copy=False)
        out[m, first:last] = scipy.fft.rfft(part, n=period, axis=1, workers=1)

    pieces = [(m, *piece) for m in range(n_charges) for piece in _pieces(rows)]
    _threads.run(task, pieces, _threads.n_threads())
    return out


def _backward(spectra: Array, axes: tuple[Axis, Axis], fields: Array) -> Array:
    """Transforms along the rows, into ``fields`` (n_fields, rows, columns); their largest sizes."""
    period = max(1, 2 * axes[1].half)
    largest = np.zeros(fields.shape[:2])

    def task(piece: tuple[int, int, int], thread: int) -> None:
        m, first, last = piece
        whole = scipy.fft.irfft(spectra[m, first:last], n=period, axis=1, workers=1)
        part = whole[:, : axes[1].nodes]
        fields[m, first:last, : axes[1].nodes] = part
        largest[m, first] = max(part.max(), -part.min())

    pieces = [(m, *piece) for m in range(len(fields)) for piece in _pieces(fields.shape[1])]
    _threads.run(task, pieces, _threads.n_threads())
    return largest.max(axis=1)


def _scale(spectrum: Array, transform: Array, out: Array) -> Array:
    """The spectrum of a whole period times the transform; a quarter of it is given."""
    half = len(transform) - 1
    np.multiply(spectrum[: half + 1], transform, out=out[: half + 1])
    np.multiply(spectrum[half + 1 :], transform[half - 1 : 0 : -1], out=out[half + 1 :])
    return out


def _by_columns(task: Callable[[tuple[int, int], int], None], columns: int) -> None:
    _threads.run(task, _pieces(columns), _threads.n_threads())


def convolve_each(grid: Array, kernels: Kernels, axes: tuple[Axis, Axis], fields: Array) -> Array:
    """The fields of one charge under each of the kernels: ``fields`` (k, rows, columns).

    Returns the rounding errors (k,): a few units in the last place of the largest value of each.
    """
    spectrum = _forward(grid[None], axes, kernels.transforms.dtype)[0]
    rows, columns = spectrum.shape
    out = np.empty((len(fields), rows, columns), dtype=spectrum.dtype)

    def task(piece: tuple[int, int], thread: int) -> None:
        part = slice(*piece)
        whole = scipy.fft.fft(spectrum[:, part], n=2 * axes[0].half, axis=0, workers=1)
        for m in range(len(fields)):
            scaled = _scale(whole, kernels.transforms[m, :, part], np.empty_like(whole))
            out[m, :, part] = scipy.fft.ifft(scaled, axis=0, workers=1, overwrite_x=True)[:rows]

    _by_columns(task, columns)
    digits = 4.0 * float(np.finfo(kernels.transforms.dtype).eps)
    return digits * _backward(out, axes, fields)


def convolve_sum(grids: Array, kernels: Kernels, axes: tuple[Axis, Axis], field: Array) -> None:
    """The sum over m of the field of charge m under the kernel m: ``field`` (rows, columns)."""
    spectra = _forward(grids, axes, kernels.transforms.dtype)
    rows, columns = spectra.shape[1:]
    out = np.empty((1, rows, columns), dtype=spectra.dtype)

    def task(piece: tuple[int, int], thread: int) -> None:
        part = slice(*piece)
        total = np.zeros((2 * axes[0].half, piece[1] - piece[0]), dtype=spectra.dtype)
        for m in range(len(grids)):
            whole = scipy.fft.fft(spectra[m, :, part], n=2 * axes[0].half, axis=0, workers=1)
            total += _scale(whole, kernels.transforms[m, :, part], whole)
        out[0, :, part] = scipy.fft.ifft(total, axis=0, workers=1, overwrite_x=True)[:rows]

    _by_columns(task, columns)
    _backward(out, axes, field[None])
