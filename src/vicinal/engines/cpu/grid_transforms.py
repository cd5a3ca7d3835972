r"""Potentials of kt-SNE on a regular grid: convolutions with the powers of the Cauchy kernel.

Charges at points become charges at the nodes of a grid by a window, and the potential at a point is
gathered from the nodes by the same window (:mod:`vicinal.kernels.grid`).  Between the two stands a
convolution over the nodes with a kernel :math:`G_m`, whose transform undoes both windows:
:math:`\hat G_m = \hat K_m \, \hat W^2 / (\sum_l \hat W_l^2)^2` where :math:`\hat K_m` is the
transform of :math:`(1 + u^2)^{-m}`, :math:`\hat W` that of the window, and l runs over its aliases.
This is, nearly, the kernel on the grid with the least mean squared error over all places where a
pair of points can lie.

Transforms in float32 are those of `vicinal.kernels.transforms`, a few rows or columns at a time.
"""

from __future__ import annotations

import functools
import math
import threading
from typing import Any, NamedTuple

import numpy as np
import scipy.fft

from vicinal import _threads
from vicinal.core.types import Array
from vicinal.kernels._vectors import lanes
from vicinal.kernels.grid import ORDER, SELF_TERMS
from vicinal.kernels.transforms import convolve_columns, transform_rows, transform_rows_back

#: widest distance of the nodes: with ORDER it sets the error (benchmarks/results/ksne_engines.md)
SPACING = 0.3
_LEAST_CELLS = (
    32  # cells along the longer side: a small picture needs a fine grid, not a coarse one
)
_SMALL = _LEAST_CELLS * SPACING
_FEWEST = 8  # nodes along an axis come in multiples of that many, so that few kernels are needed
_KEPT = 2**25  # bytes of an array up to which its memory is kept
_ROWS, _COLUMNS = 1.3, 3.2  # nanoseconds of transforms for a node, with AVX-512
_FINEST = 40  # the finest spacing is 2 ** -40 of the widest


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


class Plan(NamedTuple):
    """The passes of a transform of some length: see `vicinal.kernels.transforms`."""

    radices: Array
    twiddles: Array
    turns: Array


@functools.lru_cache(maxsize=16)
def make_plan(half: int, dtype: Any) -> Plan:
    """The passes for a period of ``2 * half``, which has no factors but 2, 3 and 5."""
    radices, left = [], half
    for radix in (5, 4, 3, 2):
        while left % radix == 0:
            radices.append(radix)
            left //= radix
    twiddles, left = [], half
    for radix in radices:
        turn = np.arange(left // radix)[:, None] * np.arange(1, radix) / left
        twiddles.append(np.exp(-2j * np.pi * turn).ravel())
        left //= radix
    turns = np.exp(-1j * np.pi * np.arange(half) / half)
    return Plan(
        np.array(radices, np.int64),
        *(np.ascontiguousarray(part).view(np.float64).astype(dtype)
          for part in (np.concatenate(twiddles), turns)),
    )  # fmt: skip


def _width(axis: Axis, dtype: Any) -> int:
    """How many frequencies of a row are stored: whole vectors of them."""
    many = lanes(dtype)
    return -(-(axis.half + 1) // many) * many


class Kernels(NamedTuple):
    """Transforms of the kernels of a grid, and the interaction of a point with itself.

    ``transforms`` is (k, half + 1, width), a quarter of the period, in float32 over the number of
    terms of a transform and back; ``own`` holds the
    coefficients of `vicinal.kernels.grid.gather_sums`; ``error`` (k,) is the root of the mean
    squared error of the potential of one point at its own place.
    """

    transforms: Array
    own: Array
    error: Array


def make_axes(extent: Array, finer: int = 0) -> tuple[Axis, Axis]:
    """The axes of a grid over a picture of that extent, along its one or two dimensions.

    ``finer`` is added to the fineness; a picture that is small or a line is never coarser.
    """
    longest, d = float(np.max(extent)), len(extent)
    if longest < 2 * _SMALL or np.min(extent) < _SMALL or d == 1:
        finer = max(finer, 0)
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
        half = _fast_length(3 * nodes // 2 if longest < _SMALL else nodes)
        axes[a] = Axis(nodes, half, fineness)
    return axes[0], axes[1]


def _fast_length(least: int) -> int:
    """The smallest length that has no factors but 2, 3 and 5."""
    return int(scipy.fft.next_fast_len(least, real=True))


def is_small(axes: tuple[Axis, Axis]) -> bool:
    """Whether the grid is that of a small picture, in which most weights are near 1."""
    return axes[0].half > 1.25 * axes[0].nodes


def precision(axes: tuple[Axis, Axis]) -> str:
    """The dtype of transforms whose rounding is far below the error of interpolation.

    In a small picture all weights are near 1, and float32 would not tell them apart.  The
    transforms of a line cost little.
    """
    return "float64" if is_small(axes) or axes[1].half == 0 else "float32"


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
    transforms = np.zeros((k, len(log_w), _width(axes[1], dtype)), dtype)
    # in float32 the kernels leave the sums of both ways as they are, and a row is half a number
    terms = 1.0 if dtype == "float64" else 8.0 * axes[0].half * axes[1].half
    own, error = np.empty((k, SELF_TERMS, SELF_TERMS)), np.empty(k)

    def task(m: int, thread: int) -> None:
        # not exp(x) - 1: in a small picture all digits are in the difference from 1
        power = np.expm1((m + 1) * log_w) if small else np.exp((m + 1) * log_w)
        transform = scipy.fft.dctn(power, type=1, axes=along, workers=1) * unwindow
        own[m], error[m] = _own_terms(_near(transform, axes), power[0, 0])
        transforms[m, :, : axes[1].half + 1] = transform / terms

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


def grid_shape(axes: tuple[Axis, Axis], dtype: Any) -> tuple[int, int]:
    """Rows and columns of an array for the nodes: whole vectors of both; of a line, one column."""
    many = lanes(dtype)
    rows, columns = (-(-axis.nodes // many) * many for axis in axes)
    return -(-rows // (2 * many)) * 2 * many, columns


def _scratch(half: int, dtype: Any, count: int, nanoseconds: float) -> list[Array]:
    """Work space of each thread: some lines of complex numbers, and a little more."""
    many = lanes(dtype)
    size = 4 * many * (half + 2 * many)
    threads = _threads.n_threads_for(nanoseconds)
    return [np.empty((count, size), dtype) for _ in range(threads)]


class _Rooms(threading.local):
    """Memory of a thread that one evaluation leaves for the next: new pages take their time."""

    def __init__(self) -> None:
        self.flat: dict[str, Array] = {}


_rooms = _Rooms()


def room(name: str, shape: tuple[int, ...], dtype: Any) -> Array:
    """An array for a moment: the next call with this name in this thread has the same memory."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size > _KEPT:
        return np.empty(shape, dtype)
    if name not in _rooms.flat or len(_rooms.flat[name]) < size:
        _rooms.flat[name] = np.empty(size, np.uint8)
    return _rooms.flat[name][:size].view(dtype).reshape(shape)


def _forward(grids: Array, axis: Axis, spectra: Array) -> None:
    """Transforms along the rows: (n_charges, rows, 2, width), real parts and imaginary parts."""
    dtype, (n_charges, rows, across) = grids.dtype, grids.shape
    width, many = spectra.shape[3], lanes(dtype)
    plan, scratch = make_plan(axis.half, dtype), _scratch(axis.half, dtype, 2, _ROWS * grids.size)
    flat = grids.ravel(), spectra.ravel()

    def task(share: int, thread: int) -> None:
        transform_rows(
            *flat, 2 * many * share, n_charges * rows, 2 * many * len(scratch), axis.nodes, across,
            axis.half, width, *plan, *scratch[thread], many,
        )  # fmt: skip

    _threads.run(task, range(len(scratch)), len(scratch))


def _backward(spectra: Array, axis: Axis, fields: Array) -> Array:
    """Transforms along the rows, into ``fields`` (n_fields, rows, columns); their largest sizes."""
    dtype, (n_fields, rows, across) = fields.dtype, fields.shape
    width, many = spectra.shape[3], lanes(dtype)
    plan, scratch = make_plan(axis.half, dtype), _scratch(axis.half, dtype, 2, _ROWS * fields.size)
    largest = np.zeros(n_fields * rows)
    flat = spectra.ravel(), fields.ravel()

    def task(share: int, thread: int) -> None:
        transform_rows_back(
            *flat, 2 * many * share, n_fields * rows, 2 * many * len(scratch), axis.nodes, across,
            axis.half, width, *plan, *scratch[thread], many, largest,
        )  # fmt: skip

    _threads.run(task, range(len(scratch)), len(scratch))
    return largest.reshape(n_fields, rows).max(axis=1)


def _convolve(grids: Array, kernels: Kernels, axes: tuple[Axis, Axis], fields: Array) -> Array:
    """One charge under each of the kernels, or the sum of several charges under theirs.

    The largest size of each field.
    """
    if grids.dtype == np.float64:
        return _convolve_doubles(grids, kernels, axes, fields)
    dtype, half, (n_charges, rows, _) = grids.dtype, axes[0].half, grids.shape
    width = _width(axes[1], dtype)
    spectra = room("spectra", (max(n_charges, len(fields)), rows, 2, width), dtype)
    _forward(grids, axes[1], spectra)
    cost = _COLUMNS / 2 * (n_charges + len(fields)) * grids[0].size
    plan, scratch = make_plan(half, dtype), _scratch(half, dtype, 3, cost)
    flat = spectra.ravel(), kernels.transforms.ravel()

    many = lanes(dtype)

    def task(share: int, thread: int) -> None:
        convolve_columns(
            *flat, n_charges, len(fields), axes[0].nodes, rows, width, many * share,
            many * len(scratch), half, *plan, *scratch[thread], many,
        )  # fmt: skip

    _threads.run(task, range(len(scratch)), len(scratch))
    return _backward(spectra[: len(fields)], axes[1], fields)


def _convolve_doubles(
    grids: Array, kernels: Kernels, axes: tuple[Axis, Axis], fields: Array
) -> Array:
    """The same with SciPy: for small pictures and lines, which take little time."""
    nodes, periods = [axis.nodes for axis in axes], [max(1, 2 * axis.half) for axis in axes]
    rows = np.minimum(np.arange(periods[0]), periods[0] - np.arange(periods[0]))
    spectra = scipy.fft.rfft2(grids[:, : nodes[0], : nodes[1]], s=periods, workers=1)
    columns, sizes = spectra.shape[2], np.empty(len(fields))

    def task(m: int, thread: int) -> None:
        total = sum(
            spectrum * transform[rows, :columns]
            for spectrum, transform in zip(spectra, kernels.transforms[m:], strict=False)
        )
        field = scipy.fft.irfft2(total, s=periods, workers=1)[: nodes[0], : nodes[1]]
        fields[m, : nodes[0], : nodes[1]] = field
        sizes[m] = np.abs(field).max()

    _threads.run(task, range(len(fields)), _threads.n_threads())
    return sizes


def convolve_each(grid: Array, kernels: Kernels, axes: tuple[Axis, Axis], fields: Array) -> Array:
    """The fields of one charge under each of the kernels: ``fields`` (k, rows, columns).

    Returns the rounding errors (k,): a few units in the last place of the largest value of each.
    """
    digits = 4.0 * float(np.finfo(kernels.transforms.dtype).eps)
    return digits * _convolve(grid[None], kernels, axes, fields)


def convolve_sum(grids: Array, kernels: Kernels, axes: tuple[Axis, Axis], field: Array) -> None:
    """The sum over m of the field of charge m under the kernel m: ``field`` (rows, columns)."""
    _convolve(grids, kernels, axes, field[None])
