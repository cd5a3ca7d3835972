"""A table or embedded points on a device, and what is done to points outside the engines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import numpy as np
import torch

from vicinal.core import points
from vicinal.core.types import Array
from vicinal.engines import choose, cuda

_DTYPES: dict[Any, np.dtype] = {
    torch.float32: np.dtype(np.float32),
    torch.float64: np.dtype(np.float64),
}
TORCH = {kind: dtype for dtype, kind in _DTYPES.items()}


class DeviceArray:
    """A tensor of shape (n, d) on a device, with the dtype of NumPy.

    Parameters
    ----------
    tensor : tensor of float32 or float64
    known : dict, default=None
        What engines have made from the arrays of the host that belong to these rows, and need not
        make again for the same arrays: see `remembered`.
    """

    ndim = 2

    def __init__(self, tensor: torch.Tensor, known: dict[str, Any] | None = None) -> None:
        self.tensor, self.known = tensor, {} if known is None else known
        self.shape: tuple[int, int] = tuple(tensor.shape)
        self.dtype = _DTYPES[tensor.dtype]
        self._extent: float | None = None

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> DeviceArray:
        if isinstance(rows, slice):
            return DeviceArray(self.tensor[rows])
        return DeviceArray(self.tensor[index(rows, self.tensor.device)])

    def __matmul__(self, B: Array) -> DeviceArray:
        dtype = np.result_type(self.dtype, B.dtype)
        with exact_products():
            return DeviceArray(in_dtype(self.tensor, dtype) @ sent(B, self, dtype))

    def __add__(self, other: DeviceArray) -> DeviceArray:
        return DeviceArray(self.tensor + other.tensor)

    def __rmul__(self, factor: float) -> DeviceArray:
        return DeviceArray(float(factor) * self.tensor)

    def astype(self, dtype: Any, copy: bool = True) -> DeviceArray:
        """The same numbers in another precision; never a copy in the same."""
        if self.dtype == dtype:
            return self
        return DeviceArray(in_dtype(self.tensor, dtype), self.known)

    @property
    def itemsize(self) -> int:
        """Bytes of a number."""
        return self.dtype.itemsize

    @property
    def extent(self) -> float:
        """The largest absolute number, NaN if one is NaN."""
        if self._extent is None:
            least, most = torch.aminmax(self.tensor) if self.tensor.numel() else (0.0, 0.0)
            self._extent = float(torch.maximum(-least, most)) if self.tensor.numel() else 0.0
        return self._extent

    def remembered(self, name: str, given: tuple[Any, ...], make: Any) -> Any:
        """``make()``, or what it gave last for equal arrays of the host."""
        last = self.known.get(name)
        if last is None or not all(map(_same, last[0], given)):
            self.known[name] = last = given, make()
        return last[1]


def _same(a: Any, b: Any) -> bool:
    return a is b or (isinstance(a, np.ndarray) and np.array_equal(a, b))


def in_dtype(tensor: torch.Tensor, dtype: Any) -> torch.Tensor:
    """The tensor in a precision that NumPy names."""
    return tensor.to(TORCH[np.dtype(dtype)])


def sent(array: Any, where: DeviceArray, dtype: Any = None) -> torch.Tensor:
    """An array of the host on the device of another."""
    array = np.ascontiguousarray(array, dtype)
    return torch.from_numpy(array).to(where.tensor.device, non_blocking=True)


def index(rows: Any, device: Any) -> torch.Tensor:
    """Positions or a mask as a tensor of positions."""
    rows = np.asarray(rows)
    rows = np.flatnonzero(rows) if rows.dtype == bool else rows.astype(np.int64, copy=False)
    return torch.from_numpy(np.ascontiguousarray(rows)).to(device)


def on_its_device(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of an engine, for points ``Z`` that need not lie on the current device."""

    @wraps(method)
    def there(self: Any, *args: Any) -> Any:
        with torch.cuda.device_of(self.Z.tensor):
            return method(self, *args)

    return there


@contextmanager
def exact_products() -> Iterator[None]:
    """Products of matrices with all digits of their precision, whatever the process has set."""
    setting = torch.backends.cuda.matmul
    before, setting.fp32_precision = setting.fp32_precision, "ieee"
    try:
        yield
    finally:
        setting.fp32_precision = before


def memory_error(Z: DeviceArray, needed: int) -> MemoryError:
    """The error for an evaluation that does not fit, with the bytes that it needs."""
    free = torch.cuda.mem_get_info(Z.tensor.device)[0] if Z.tensor.is_cuda else 0
    n, d = Z.shape
    return MemoryError(
        f"An evaluation of {n:,} rows in {d} dimensions needs about {needed:,} bytes of the GPU, "
        f"of which {free:,} are free. Free some, use sampling='stochastic' or device=None; a fit "
        "with a Checkpoint can be resumed."
    )


def device_of(name: str, owner: str) -> torch.device:
    """The device with a name, if there is such."""
    if cuda.STAND_IN is not None:
        return torch.device(cuda.STAND_IN)
    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    number = int(name.partition(":")[2] or 0)
    if number >= found:
        raise ValueError(
            f"The 'device' parameter of {owner} must name a device of this machine, on which torch "
            f"finds {found} GPUs. Got {name!r} instead. Use device=None for the CPU."
        )
    return torch.device(name if ":" in name else f"cuda:{torch.cuda.current_device()}")


def uploaded(X: Any, device: str, owner: str) -> DeviceArray:
    """A table on a device; one that lies on a device stays there."""
    if isinstance(X, DeviceArray):
        return X
    where, X = device_of(device, owner), np.ascontiguousarray(X)
    if X.dtype not in TORCH:
        X = X.astype(np.float64)
    return DeviceArray(torch.from_numpy(X).to(where))


class Placer:
    """Puts free points on a device, where what engines remember of them is kept."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.known = device, dict[str, Any]()

    def __call__(self, Z: Array) -> DeviceArray:
        return DeviceArray(torch.from_numpy(np.ascontiguousarray(Z)).to(self.device), self.known)


def checked_table(X: torch.Tensor, owner: str) -> DeviceArray:
    """A tensor that an estimator was given, if it is a table of finite numbers."""
    X = X.detach()
    if X.ndim != 2 or X.shape[0] == 0 or X.shape[1] == 0:
        raise ValueError(
            f"The X of {owner} must have shape (n_samples, n_features), both positive. "
            f"Got {tuple(X.shape)} instead."
        )
    if X.is_sparse or X.layout != torch.strided:
        raise ValueError(f"The X of {owner} must be dense. Got a tensor of layout {X.layout}.")
    if X.dtype not in _DTYPES:
        X = X.to(torch.float32 if X.dtype in (torch.float16, torch.bfloat16) else torch.float64)
    table = DeviceArray(X)
    if not np.isfinite(table.extent):
        raise ValueError(f"Input X of {owner} contains NaN or infinity.")
    return table


@points.check_points.register
def _check_points(Z: DeviceArray, name: str = "Z") -> DeviceArray:
    if not Z.extent <= points.LARGEST:
        raise ValueError(f"{name} must lie within ±{points.LARGEST:g}. Got {Z.extent:g}.")
    return Z


@points.extent.register
def _extent(Z: DeviceArray) -> float:
    return Z.extent


@points.double.register
def _double(Z: DeviceArray) -> DeviceArray:
    return Z.astype(np.float64)


@points.cast.register
def _cast(Z: DeviceArray, values: Any) -> DeviceArray:
    if isinstance(values, DeviceArray):
        return values.astype(Z.dtype)
    return DeviceArray(sent(values, Z, Z.dtype))


@points.zeros_like.register
def _zeros_like(Z: DeviceArray) -> DeviceArray:
    return DeviceArray(torch.zeros_like(Z.tensor))


@points.moved.register
def _moved(Z: DeviceArray, centre: Any) -> float:
    return float((Z.tensor.double() - sent(centre, Z, np.float64)).square().sum())


@points.to_host.register
def _to_host(Z: DeviceArray) -> Array:
    return Z.tensor.cpu().numpy()


@points.kept.register
def _kept(Z: DeviceArray, given: tuple[Any, ...], make: Callable[[], Any]) -> Any:
    return Z.remembered("kept", given, make)


@points.like.register
def _like(given: torch.Tensor, values: Any) -> Any:
    if not cuda.is_tensor_of_device(given):
        return points.to_host(values)
    if isinstance(values, DeviceArray):
        return values.tensor
    return torch.from_numpy(np.ascontiguousarray(values)).to(given.device)


def _backend(Z: DeviceArray, n: int) -> Any:
    from vicinal.engines.cuda import backend

    return backend


choose.backend.register(DeviceArray, _backend)
from vicinal.engines.cuda import rows as _rows  # noqa: E402, F401  (registers them)
