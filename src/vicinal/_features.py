"""The data as maps see them: centred and scaled columns, without a copy of large data.

``Features`` represents ``(X - shift) * scale``.  Small dense tables are standardised once; large
or sparse tables stay as they are, and the scaling is applied within each product.  Products run
over fixed blocks of rows with BLAS on one thread each, so their bits do not depend on the number
of threads.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Iterator
from functools import singledispatch
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp
from sklearn import get_config
from sklearn.utils import gen_batches

from vicinal._threads import n_threads, run, single_threaded_blas
from vicinal.core import checks
from vicinal.core.points import to_host
from vicinal.core.types import Array, Rows

SCALINGS = ("standard", "global", None)
#: for estimators whose maps may bend: "robust" bends columns, so that no map is a matrix of X
BENDING_SCALINGS = ("standard", "robust", "global", None)
_BLOCK = 1024  # rows per product
_EXTREME = 60  # exponent of two beyond which squares, and float32, may over- or underflow
_SMALLEST = 1e-305  # a column that varies by less counts as constant: one over that may be infinite
_COPY_BELOW = 2**25  # bytes up to which a standardised copy is cheaper than scaling every product
SHARE = 0.05  # largest share of rows that can be outliers of a column
INFLATED = 25.0  # least factor by which they raise the sum of squares: 5 in the deviation
_REACH = 6.0  # rows farther from the median than this many deviations of the others are outliers
# columns of lower kurtosis need not be looked at: 5 % of the rows with 24/25 of the sum of squares
# have one of 18 or more
_KURTOSIS = 15.0
_ENTRIES = 2**22  # entries of a sparse table that are made dense at a time
_CHECKED_BYTES = 2**24  # of rows that are copied at a time into C order
_NORMAL_IQR = 1.349  # distance of the quartiles of a normal distribution, in deviations
_BEND = 1 / 9  # "robust" bends values from about three deviations on: none is beyond them
_FARTHEST = 1e15  # deviations from the median: squares beyond overflow in float32


class Features:
    """Rows of X, centred and scaled, with the two products that maps need.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, D), float32 or float64
    scaling : {"standard", "robust", "global", None}
        Divide each column by its standard deviation, all by one root-mean-square deviation, or
        not at all.  "robust" divides by the distance of the quartiles and bends what is far from
        the median: see `Bend`.  Columns that do not vary get weight zero.
    sample_weight : array of shape (n,), default=None
        Weights of the rows in the means and deviations.
    limit_outliers : bool, default=True
        Unless ``scaling`` is None: leave gross outliers out of the moments of a column, and move
        them to its ``limits`` (see `without_outliers`).

    Attributes
    ----------
    shift, scale : arrays of shape (D,)
        Subtracted from the columns; factors that they are then multiplied by.
    total_variance : float
        Sum of the variances of the scaled columns.
    limits : Limits or None
        Of the columns with gross outliers; None if there are none.
    bend : Bend or None
        What is done to scaled columns under "robust".
    """

    X: Any
    shift: Array
    scale: Array
    limits: Limits | None
    bend: Bend | None = None
    scaling: str | None
    total_variance: float
    _ready: bool  # whether X is already centred and scaled
    _offset: bool
    _fold: bool
    _exact: bool

    def __init__(
        self,
        X: Any,
        scaling: str | None,
        sample_weight: Array | None = None,
        limit_outliers: bool = True,
    ) -> None:
        weight = shares(X.shape[0], sample_weight)
        with single_threaded_blas():
            self._set_scaling(_InMemory(X, weight), scaling, limit_outliers)
        self.X = X = limited(X, self.limits)
        self._ready = False
        if not sp.issparse(X) and X.size * 8 <= copy_limit():
            self.X = X.astype(np.float64)
            self.X -= self.shift  # in place: the copy is the largest array of a fit
            self.X *= self.scale
            if self.bend is not None:
                self.X = self.bend(self.X)
            self._ready = True
        self._fold = not self._ready and self._folds(X)
        # A sparse table is not made dense for that: its products are computed in float64.
        self._exact = self._fold and self._offset

    def _set_scaling(self, parts: Parts, scaling: str | None, limit_outliers: bool) -> None:
        """Set what depends on all rows: shift, scale, limits, and how products are made."""
        moments = _moments(parts)
        self.limits = None
        if limit_outliers and scaling not in (None, "robust"):
            moments, self.limits = _inner_moments(parts, moments)
        self.scaling = scaling
        self.shift, self.scale, deviation, offset = _scales(moments, scaling)
        if scaling == "robust":
            self.shift, self.scale, self.bend = _robust(parts, self.scale > 0)
            deviation = np.divide(1.0, self.scale, out=deviation, where=self.scale > 0)
        with np.errstate(over="ignore"):  # of columns as they are: see `check_varies`
            self.total_variance = float(np.sum((deviation * self.scale) ** 2))
        # Scale and shift can be moved out of a product, unless an offset of many deviations would
        # then cost the digits that distances need.
        self._offset = not offset < 30.0

    @classmethod
    def scaled_by(
        cls, parts: Parts, scaling: str | None, limit_outliers: bool, no_rows: Any
    ) -> Features:
        """No rows, with the shift and scale of rows that are not in memory: for `scaled_as`."""
        rows = object.__new__(cls)
        rows._set_scaling(parts, scaling, limit_outliers)
        return cls.scaled_as(rows, no_rows)

    def check_fields(self) -> None:
        """Refuse fields that do not fit together."""
        checks.table(self.X)
        checks.columns(self, self.X.shape[1])
        checks.need(self.scaling in BENDING_SCALINGS, "unknown scaling")
        checks.need((self.bend is None) == (self.scaling != "robust"), "a bend for robust scaling")

    @classmethod
    def as_they_are(cls, X: Any) -> Features:
        """Rows without shift or scale, for histograms."""
        rows = object.__new__(cls)
        rows.shift, rows.scale = np.zeros(X.shape[1]), np.ones(X.shape[1])
        rows.scaling, rows.total_variance, rows.limits = None, np.nan, None
        rows._ready = not sp.issparse(X) and X.size * 8 <= copy_limit()
        rows.X = X.astype(np.float64) if rows._ready else X
        rows._offset = rows._exact = False
        rows._fold = not rows._ready
        return rows

    @classmethod
    def scaled_as(cls, other: Features, X: Any) -> Features:
        """Other rows with the shift and scale of ``other``; never copied."""
        rows = object.__new__(cls)
        rows.__dict__.update(other.__dict__)
        rows.X, rows._ready = limited(X, other.limits), False
        rows._fold = rows._folds(X)
        rows._exact = rows._fold and other._offset
        return rows

    def _folds(self, X: Any) -> bool:
        """Whether products with X leave shift and scale to the other factor."""
        return self.bend is None and (sp.issparse(X) or not self._offset)

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape

    def __len__(self) -> int:
        return self.X.shape[0]

    def take(self, rows: Array | None) -> Features:
        """Some of the rows, with the shift and scale of all rows."""
        if rows is None:
            return self
        part = object.__new__(Features)
        part.__dict__.update(self.__dict__)
        part.X = self.X[rows]
        return part

    def without_limits(self) -> Features:
        """The same shift and scale, for rows whose outliers stay where they are."""
        rows = object.__new__(Features)
        rows.__dict__.update(self.__dict__)
        rows.limits = None
        return rows

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """The rows in fixed blocks: dense, float64, centred and scaled."""
        for rows in self._slices():
            yield rows, self.dense(rows, np.float64)

    def dense(self, rows: slice, dtype: Any) -> Array:
        """Some of the rows: dense, centred and scaled, in ``dtype``; not to be written to."""
        part = self.X[rows]
        if not self._ready:
            part = part.toarray() if sp.issparse(part) else part
            part = (part - self.shift) * self.scale
            if self.bend is not None:
                part = self.bend(part)
        return part.astype(dtype, copy=False)

    def matmul(self, B: Array, dtype: Any = np.float64) -> Array:
        """``X_scaled @ B`` for B of shape (D, m); the result is (n, m) in ``dtype``."""
        out = np.empty((len(self), B.shape[1]), dtype)
        if self._fold:
            inner = np.float64 if self._exact else dtype
            folded = np.ascontiguousarray(B * self.scale[:, None], dtype=inner)
            offset = np.sum((self.shift * self.scale)[:, None] * B, axis=0).astype(inner)
        B = np.ascontiguousarray(B, dtype=dtype)

        def product(rows: slice, thread: int) -> None:
            if self._fold:
                part = self.X[rows]
                part = part if sp.issparse(part) else part.astype(dtype, copy=False)
                out[rows] = part @ folded - offset
            else:
                np.matmul(self.dense(rows, dtype), B, out=out[rows])

        with single_threaded_blas():
            run(product, self._slices(), n_threads())
        return out

    def rmatmul(self, V: Array) -> Array:
        """``X_scaled.T @ V`` for V of shape (n, m), summed over blocks in a fixed order: (D, m)."""
        slices = self._slices()
        # Partial sums over groups of blocks: few enough to store, and as many for any thread count.
        n_groups = max(1, min(16, 2**24 // max(1, self.shape[1] * V.shape[1])))
        size = -(-len(slices) // n_groups)
        groups = [slices[g : g + size] for g in range(0, len(slices), size)]
        parts: list[Any] = [None] * len(groups)

        def product(g: int, thread: int) -> None:
            total = np.zeros((self.shape[1], V.shape[1]))
            for rows in groups[g]:
                v = V[rows].astype(np.float64) if self._exact else V[rows]
                if self._fold:
                    total += self.X[rows].T @ v
                else:
                    total += self.dense(rows, v.dtype).T @ v
            parts[g] = total

        with single_threaded_blas():
            run(product, range(len(groups)), n_threads())
        total = np.sum(parts, axis=0)
        if self._fold:
            total -= np.outer(self.shift, V.sum(axis=0, dtype=np.float64))
            total *= self.scale[:, None]
        return total

    def columns_times(self, a: Array, dtype: Any = np.float64) -> Array:
        """``X_scaled * a`` for a of length D: (n, D), dense, in ``dtype``."""
        out = np.empty(self.shape, dtype)

        def product(rows: slice, thread: int) -> None:
            np.multiply(self.dense(rows, dtype), a.astype(dtype), out=out[rows])

        with single_threaded_blas():
            run(product, self._slices(), n_threads())
        return out

    def column_dots(self, V: Array) -> Array:
        """``sum_i X_scaled_i * V_i`` for V of shape (n, D): length D."""
        total = np.zeros(self.shape[1])
        for rows in self._slices():
            total += np.einsum("ij,ij->j", self.dense(rows, V.dtype), V[rows])
        return total

    def _slices(self) -> list[slice]:
        return [slice(i, min(i + _BLOCK, len(self))) for i in range(0, len(self), _BLOCK)]


@singledispatch
def make_rows(
    X: Any, scaling: str | None, sample_weight: Array | None = None, limit_outliers: bool = True
) -> Rows:
    """The rows of X, centred and scaled, by the type of X, with the parameters of `Features`.

    Rows that lie elsewhere bring their own: ``make_rows.register(Table, function)``, with
    `core.points.to_host` for the same type.  Estimators need of such a table its ``shape``, a
    ``dtype`` of NumPy, and ``X[rows]`` for a slice or positions.
    """
    return Features(X, scaling, sample_weight, limit_outliers)


@singledispatch
def of_each_row(X: Any, function: Callable[[Any], Array]) -> Array:
    """``function(X)``, which treats each row of X by itself; a table elsewhere stays there."""
    return function(X)


@singledispatch
def table_checksum(X: Any) -> int:
    """A checksum of a table, whatever the order of its entries in memory."""
    found = 0
    for part in (X.data, X.indices, X.indptr) if sp.issparse(X) else (to_host(X),):
        found = checksum(part, found)
    return found


def checksum(array: Array, found: int) -> int:
    """The checksum ``found`` of what came before, continued by an array."""
    step = max(1, _CHECKED_BYTES * len(array) // max(1, array.nbytes))
    for first in range(0, len(array), step):
        block = np.ascontiguousarray(array[first : first + step])
        found = zlib.crc32(block.view(np.uint8).data, found)
    return found


def copy_limit() -> int:
    """Bytes up to which a standardised copy is made, at most scikit-learn's ``working_memory``."""
    return min(_COPY_BELOW, int(get_config()["working_memory"] * 2**20))


def check_varies(features: Rows, dtype: Any = np.float64) -> None:
    """Refuse rows without a column that varies, or too small or large for a fit in ``dtype``."""
    if not features.scale.any():
        raise ValueError(f"X has no column that varies: all {features.shape[1]} are constant.")
    deviation, limits = features.total_variance**0.5, np.finfo(dtype)
    # below, a map of such rows is near the end of the range, or beyond
    least = 0.0 if dtype == np.float64 else float(limits.tiny / limits.eps)
    # written so that NaN, for rows as they are, passes
    if deviation <= least or deviation > limits.max:
        size = "large" if deviation > least else "small"
        raise ValueError(
            f"The columns of X are too {size} for squared distances in {np.dtype(dtype)}: the root "
            f"of their total variance is {deviation:.2g} and must be in ({least:.2g}, "
            f"{limits.max:.2g}]. Use scaling='standard' or 'global'. Got scaling=None instead."
        )


def unscaled(components: Array, scale: Array) -> Array:
    """A map of the raw columns as a map of the scaled columns; zero where the scale is zero."""
    return np.divide(components, scale, out=np.zeros(np.shape(components)), where=scale > 0)


@singledispatch
def projected(X: Any, A: Array, shift: Array, limits: Limits | None) -> Any:
    """``(X - shift) @ A.T`` in float64, with values moved to the limits of their columns."""
    if sp.issparse(X):
        return limited(X, limits) @ A.T - shift @ A.T
    Z = np.empty((X.shape[0], len(A)))
    for rows in gen_batches(len(Z), _BLOCK):
        Z[rows] = (limited(to_host(X[rows]), limits) - shift) @ A.T
    return Z


class Parts(Protocol):
    """Rows for which moments are computed, in one block or in several."""

    weight: Array
    dtype: np.dtype

    def each(self, function: Callable[..., Any], *arrays: Array) -> list[Any]:
        """``function(X, weight, *arrays)`` of each block, with the shares of its rows."""

    def columns(self, numbers: Array) -> Iterator[Any]:
        """Some of the columns of all rows, one by one: dense or CSC, (n, 1)."""

    def suspects(self, numbers: Array) -> Array:
        """Those of some columns that may have outliers (`without_outliers`)."""


class _InMemory:
    """One block."""

    def __init__(self, X: Any, weight: Array) -> None:
        self.X, self.weight, self.dtype = X, weight, X.dtype

    def each(self, function: Callable[..., Any], *arrays: Array) -> list[Any]:
        return [function(self.X, self.weight, *arrays)]

    def columns(self, numbers: Array) -> Iterator[Any]:
        X = self.X.tocsc() if sp.issparse(self.X) else self.X
        return (X[:, j : j + 1] for j in numbers)

    def suspects(self, numbers: Array) -> Array:
        return numbers


class _Moments(NamedTuple):
    """Mean and variance of the columns in their units, kurtosis, and the units: powers of two."""

    mean: Array
    variance: Array
    kurtosis: Array
    unit: Array


def shares(n: int, sample_weight: Array | None) -> Array:
    """The weights of the rows, adding up to one."""
    weight = np.ones(n) if sample_weight is None else sample_weight
    weight = weight / weight.max()
    weight /= weight.sum()
    return weight


def _moments(parts: Parts) -> _Moments:
    """The moments of the columns, in float64, in two passes over blocks.

    Columns of extreme size are divided by a power of two, which changes no digit, because their
    squares would over- or underflow.
    """
    unit = power_of_two(functools.reduce(np.maximum, parts.each(tops)))
    mean = _added(parts.each(first_moments, unit))[0]
    rest, variance, fourth, stored, share = _added(parts.each(central_moments, unit, mean))
    # Weight of the zeros that are not stored: exactly zero for a full column, despite rounding.
    share = np.where(stored < len(parts.weight), np.maximum(1.0 - share, 0.0), 0.0)
    rest -= share * mean
    variance += share * mean**2
    fourth += share * mean**4
    mean += rest  # corrects rounding; without this a constant column would seem to vary
    variance = np.maximum(variance - rest**2, 0.0)
    # columns that vary in their last digits only
    constant = np.sqrt(variance) <= 4 * np.finfo(parts.dtype).eps * np.abs(mean)
    variance[constant] = 0.0
    kurtosis = np.divide(fourth, variance, out=np.zeros(len(mean)), where=variance > 0)
    np.divide(kurtosis, variance, out=kurtosis, where=variance > 0)
    return _Moments(mean, variance, kurtosis, unit)


def _added(parts: list[tuple[Array, ...]]) -> list[Array]:
    """The sums over the blocks, in their order."""
    return [functools.reduce(np.add, each) for each in zip(*parts, strict=True)]


@singledispatch
def first_moments(X: Any, weight: Array, unit: Array) -> tuple[Array]:
    if sp.issparse(X):
        return (np.asarray(weight @ X, dtype=np.float64).ravel() / unit,)
    mean = np.zeros(X.shape[1])
    for rows in _steps(X):
        mean += weight[rows] @ (X[rows] / unit)
    return (mean,)


@singledispatch
def central_moments(X: Any, weight: Array, unit: Array, mean: Array) -> tuple[Array, ...]:
    """Sums of the first, second and fourth powers about the mean, and what they count.

    The last two are the number and the weight of the entries that are stored.
    """
    n, D = X.shape
    rest, variance, fourth = np.zeros(D), np.zeros(D), np.zeros(D)
    stored, share = np.full(D, 0 if sp.issparse(X) else n), np.zeros(D)
    for rows in _steps(X):
        if sp.issparse(X):
            part = X[rows]
            w = np.repeat(weight[rows], np.diff(part.indptr))
            centred = part.data / unit[part.indices] - mean[part.indices]
            rest += np.bincount(part.indices, w * centred, D)
            variance += np.bincount(part.indices, w * centred**2, D)
            fourth += np.bincount(part.indices, w * centred**4, D)
            stored += np.bincount(part.indices, minlength=D)
            share += np.bincount(part.indices, w, D)
            continue
        centred = X[rows] / unit - mean
        squares = centred**2
        rest += weight[rows] @ centred
        variance += weight[rows] @ squares
        fourth += weight[rows] @ squares**2
    return rest, variance, fourth, stored, share


def _steps(X: Any) -> list[slice]:
    n = X.shape[0]
    return [slice(i, min(i + _BLOCK, n)) for i in range(0, n, _BLOCK)]


def _inner_moments(parts: Parts, moments: _Moments) -> tuple[_Moments, Limits | None]:
    """The moments without gross outliers, and the limits of columns that have such."""
    suspects = parts.suspects(np.flatnonzero(moments.kurtosis > _KURTOSIS))
    if not len(suspects):
        return moments, None
    mean, variance, unit = moments.mean.copy(), moments.variance.copy(), moments.unit.copy()
    low, high = np.full(len(mean), -np.inf), np.full(len(mean), np.inf)
    for j, column in zip(suspects, parts.columns(suspects), strict=True):
        inner = without_outliers(column, 0, parts.weight)
        if inner is not None:
            unit[j] = power_of_two(np.array(max(abs(inner.mean), inner.deviation)))
            mean[j], variance[j] = inner.mean / unit[j], (inner.deviation / unit[j]) ** 2
            low[j], high[j] = inner.low, inner.high
    if not np.isfinite(high).any():
        return moments, None
    return _Moments(mean, variance, moments.kurtosis, unit), Limits(low, high)


def _scales(moments: _Moments, scaling: str | None) -> tuple[Array, Array, Array, float]:
    """Column means, scales, deviations, and the largest ratio of a mean to its deviation.

    The ratio is infinite if a column is of extreme size: float32 cannot hold it before it is
    scaled.
    """
    mean, variance, _, unit = moments
    deviation = np.sqrt(variance)
    varies = deviation * unit > _SMALLEST
    scale = np.zeros(len(mean))
    if scaling in ("standard", "robust"):
        scale[varies] = 1.0 / deviation[varies] / unit[varies]
    elif scaling == "global" and varies.any():
        largest = unit[varies].max()
        share = unit[varies] / largest  # all in the unit of the largest
        scale[varies] = 1.0 / np.sqrt(np.mean(variance[varies] * share**2)) / largest
    elif scaling is None:
        scale[varies] = 1.0
    offset = np.abs(mean[varies] / deviation[varies]).max(initial=0.0)
    if (unit[varies] != 1.0).any():
        offset = np.inf
    return mean * unit, scale, deviation * unit, float(offset)


@singledispatch
def tops(X: Any, weight: Array) -> Array:
    """The largest absolute entry of each column."""
    top = np.zeros(X.shape[1])
    if sp.issparse(X):
        np.maximum.at(top, X.indices, np.abs(X.data))
        return top
    for rows in _steps(X):
        np.maximum(top, np.abs(X[rows]).max(axis=0), out=top)
    return top


def power_of_two(top: Array) -> Array:
    """A power of two near a number if that is extreme, otherwise 1."""
    exponent = np.frexp(top)[1]
    return np.ldexp(1.0, np.where(np.abs(exponent) > _EXTREME, exponent - 1, 0))


class Limits(NamedTuple):
    """Smallest and largest value of each column; infinite for columns without outliers."""

    low: Array
    high: Array

    def check_fields(self) -> None:
        """Refuse limits that do not fit together."""
        for array in self:
            checks.double(array, 1, "limits", (len(self.low),), finite=False)
            checks.need(not np.isnan(array).any(), "limits must not be NaN")


class Bend(NamedTuple):
    r"""What "robust" does to columns that are centred at the median and scaled.

    .. math:: x \mapsto s\, z / \sqrt{1 + c z^2}

    with c = 1/9, so that no value is more than three units from the median, and s such that the
    column has the deviation one.  Columns of two values, as zeros and ones, stay as they are:
    c = 0 and s = 1.
    """

    curvature: Array
    spread: Array

    def check_fields(self) -> None:
        """Refuse factors that do not fit together."""
        for array in self:
            checks.double(array, 1, "bend", (len(self.spread),))
            checks.need(bool((array >= 0).all()), "a bend must not be negative")

    def __call__(self, part: Array) -> Array:
        """Rows that are centred and scaled, bent."""
        z = np.clip(part, -_FARTHEST, _FARTHEST)
        return z * (self.spread / np.sqrt(1.0 + self.curvature * z**2))


def _robust(parts: Parts, varies: Array) -> tuple[Array, Array, Bend]:
    """Medians, one over the distances of the quartiles in deviations of a normal, and the bend."""
    D, weight, some = len(varies), parts.weight, np.flatnonzero(varies)
    shift, scale = np.zeros(D), np.zeros(D)
    bend = Bend(np.zeros(D), np.ones(D))
    for j, column in zip(some, parts.columns(some), strict=True):
        if sp.issparse(column):
            raise ValueError(
                "The 'scaling' parameter must be 'standard', 'global' or None for sparse rows: "
                "'robust' bends every column. Got 'robust' instead."
            )
        x = np.asarray(column[:, 0], dtype=np.float64)
        order = np.argsort(x, kind="stable")
        values = np.unique(x[order[[0, -1]]])
        if np.isin(x, values).all():  # two values
            scale[j] = 1.0 if values.tolist() == [0.0, 1.0] else 1.0 / float(np.ptp(values))
            continue
        share = np.cumsum(weight[order]) - 0.5 * weight[order]
        low, shift[j], high = np.interp([0.25, 0.5, 0.75], share, x[order])
        with np.errstate(over="ignore"):
            z = x - shift[j]
            unit = float(high - low) / _NORMAL_IQR
            if not unit > _SMALLEST:  # more than half of the values are the same
                unit = float(np.sqrt(np.sum(weight * (z / np.abs(z).max()) ** 2)) * np.abs(z).max())
            scale[j] = 1.0 / unit
        bend.curvature[j] = _BEND
        bent = Bend(np.full(1, _BEND), np.ones(1))(z * scale[j])
        mean = np.sum(weight * bent)
        bend.spread[j] = 1.0 / np.sqrt(np.sum(weight * (bent - mean) ** 2))
    return shift, scale, bend


class _Inner(NamedTuple):
    """Mean and deviation of a column without its outliers, and the limits of its values."""

    mean: float
    deviation: float
    low: float
    high: float


def limited(X: Any, limits: Limits | None) -> Any:
    """Rows with the values of each column moved to its limits; X itself if that changes nothing."""
    if limits is None:
        return X
    columns = np.flatnonzero(np.isfinite(limits.high))
    step = max(1, _ENTRIES // max(1, X.shape[0]))
    for first in range(0, len(columns), step):
        some = columns[first : first + step]
        part = X[:, some].toarray() if sp.issparse(X) else X[:, some]
        low, high = (limit[some].astype(X.dtype) for limit in limits)
        rows, places = np.nonzero((part < low) | (part > high))
        if len(rows):
            old, new = part[rows, places], np.clip(part, low, high)[rows, places]
            X = _replaced(X, (rows, some[places]), old, new)
    return X


def _replaced(X: Any, where: tuple[Array, Array], old: Array, new: Array) -> Any:
    """A copy of X with other values in some places."""
    if sp.issparse(X):
        old, new = (sp.csr_array((values, where), shape=X.shape) for values in (old, new))
        return type(X)((X - old) + new)  # x - x is zero, so the new values are exact
    X = X.copy()
    X[where] = new
    return X


def without_outliers(X: Any, column: int, weight: Array) -> _Inner | None:
    r"""The moments of a column without its outliers; None if it has none.

    A column has gross outliers if a few rows, at most 5 % of those that differ from its median m,
    have nearly all of its squared deviations,

    .. math:: \sum_i a_i^2 > 25 \sum_i \min(a_i, t)^2, \qquad a_i = |x_i - m|,

    with t the largest deviation of the other rows.  Ordinary columns, heavy tails and rare ones
    among zeros are far from that, and keep their mean and standard deviation to the last bit.

    X is dense or CSC; both give the same bits, and the order of the rows changes but the last ones.
    """
    x, w = _entries(X, column, weight)
    n_zeros, zero_weight = len(weight) - len(x), max(0.0, float(weight.sum() - w.sum()))
    m = 0.0
    if 2 * n_zeros <= len(weight):
        x, w = (
            np.append(x, np.zeros(n_zeros)),
            np.append(w, np.full(n_zeros, zero_weight / max(1, n_zeros))),
        )
        zero_weight, m = 0.0, float(np.median(x))
    a = np.abs(x - m)
    differ = int(np.count_nonzero(a))
    k = int(SHARE * differ)
    if k == 0:
        return None
    t = float(np.partition(a, len(a) - 1 - k)[len(a) - 1 - k])
    unit = 2.0 ** np.frexp(t)[1]  # so that no square over- or underflows where it matters
    with np.errstate(over="ignore"):
        whole = float(np.sum(w * (a / unit) ** 2))
    most = np.minimum(a, t) / unit
    inner = float(np.sum(w * most**2))
    if not whole > INFLATED * inner:
        return None
    reach = _REACH * unit * np.sqrt(inner / np.sum(w[a > 0]))
    kept = a <= reach
    x, w = (x[kept] - m) / unit, w[kept]
    total = float(w.sum()) + zero_weight
    mean = float(np.sum(w * x)) / total
    variance = (float(np.sum(w * (x - mean) ** 2)) + zero_weight * mean**2) / total
    return _Inner(m + unit * mean, unit * float(np.sqrt(variance)), m - reach, m + reach)


def _entries(X: Any, column: int, weight: Array) -> tuple[Array, Array]:
    """The entries of a column that are not zero, in float64, and the weights of their rows."""
    if sp.issparse(X):
        part = slice(X.indptr[column], X.indptr[column + 1])
        values, rows = X.data[part], X.indices[part]
        values, rows = values[values != 0], rows[values != 0]
    else:
        rows = np.flatnonzero(X[:, column])
        values = X[rows, column]
    return values.astype(np.float64), weight[rows]
