"""Tensors on a GPU: rows, points and engines for them, in torch and in Triton.

Importing this package imports no torch.  `on_device` and `of_tensor` do, where a device was asked
for or a tensor of one was given; what they return, `arrays.DeviceArray`, brings its rows
(`_features.make_rows`), its operations (`core.points`) and its engines (`engines.choose.backend`).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

import scipy.sparse as sp

from vicinal.core.points import lies_elsewhere

#: programs that fill a device: 48 for each of 132 multiprocessors.  In how many parts columns are
#: summed follows from it and the number of rows alone, so that the order of sums is the same on
#: every device
PROGRAMS = 132 * 48
#: most neighbours of a set, whose energies and sums of powers stay in registers
SETS_UP_TO = 15
#: the device that stands for a GPU in tests on a machine without one
STAND_IN: str | None = None


def check_device(owner: Any, name: str = "device") -> None:
    """Refuse anything but None, "cpu", "cuda" and "cuda:N"."""
    value = getattr(owner, name)
    if value in (None, "cpu") or (isinstance(value, str) and re.fullmatch(r"cuda(:\d+)?", value)):
        return
    raise ValueError(
        f"The {name!r} parameter of {type(owner).__name__} must be None, 'cpu', 'cuda' or 'cuda:N'."
        f" Got {value!r} instead."
    )


def is_tensor_of_device(X: Any) -> bool:
    """Whether X is a tensor on a GPU; imports nothing."""
    if type(X).__module__.partition(".")[0] != "torch" or "torch" not in sys.modules:
        return False
    device = getattr(X, "device", None)
    return getattr(device, "type", "cpu") == "cuda" or STAND_IN is not None


def of_tensor(X: Any, owner: Any) -> Any:
    """A tensor on a GPU as a table that lies there; anything else as it is."""
    if not is_tensor_of_device(X) or "device" not in owner.get_params(deep=False):
        return X  # without an engine there, it is refused where rows are checked
    from vicinal.engines.cuda.arrays import checked_table

    return checked_table(X, type(owner).__name__)


def is_table(X: Any) -> bool:
    """Whether X is a table on a GPU, as `of_tensor` and `on_device` make it."""
    return "vicinal.engines.cuda.arrays" in sys.modules and isinstance(X, _table())


def _table() -> type:
    from vicinal.engines.cuda.arrays import DeviceArray

    return DeviceArray


def engine_of(X: Any, d: int, more: float = 0.0) -> str:
    """Where the rows of a table lie on a GPU, what computes there, and its memory; "" elsewhere.

    ``more`` are bytes of an evaluation besides those of `fit_bytes`.
    """
    if not is_table(X):
        return ""
    from vicinal.engines.cuda.backend import engine_name

    where = X.tensor.device
    mebibytes = (fit_bytes(X.shape[0], X.shape[1], X.itemsize, d) + more) / 2**20
    return f"on {where} by {engine_name(where)}, with about {mebibytes:.1f} MiB there"


def fit_bytes(n: int, n_features: int, itemsize: int, d: int) -> int:
    """Bytes of a fit on a GPU: the table twice, and what an evaluation in float64 takes."""
    parts = 1 + round(PROGRAMS * 128 / n)
    return n * (2 * n_features * itemsize + 8 * (d + 4) * parts + 160)


def placer(owner: Any) -> Callable[[Any], Any] | None:
    """What puts free points on the device that the estimator asks for; None for the host."""
    if owner.device in (None, "cpu"):
        return None
    from vicinal.engines.cuda.arrays import Placer, device_of

    return Placer(device_of(owner.device, type(owner).__name__))


#: numbers in float64 for the votes that are counted at a time
VOTE_ROOM = 2**26


def vote_bytes(n: int, n_classes: int, k: int, itemsize: int) -> int:
    """Bytes of votes of k: summaries and slopes of all queries and classes, and room for a part."""
    numbers = n * n_classes * (k * (5 * itemsize + 8) + itemsize)
    return numbers + 8 * min(VOTE_ROOM, n * vote_rows(n_classes, k))


def vote_rows(n_classes: int, k: int) -> int:
    """Numbers in float64 of a query whose votes are counted."""
    from vicinal.kernels.votes import Places

    return Places(n_classes, k).n_rows + (k + 1) * (k + 2)


def labels_of(y: Any) -> Any:
    """A tensor on a GPU as an array of the host; anything else as it is."""
    return y.detach().cpu().numpy() if is_tensor_of_device(y) else y


def on_device(X: Any, owner: Any) -> Any:
    """A checked table on the device that the estimator asks for, or where it lies already."""
    device = owner.get_params(deep=False).get("device")
    if device in (None, "cpu"):
        return X
    if lies_elsewhere(X) and not is_table(X):
        raise ValueError(
            f"The 'device' parameter of {type(owner).__name__} must be None for rows of the type "
            f"{type(X).__name__}. Got {device!r} instead."
        )
    if sp.issparse(X):
        raise ValueError(
            f"The rows of {type(owner).__name__} must be dense for device={device!r}. Got a sparse "
            "matrix instead. Use X.toarray() if it fits, or device=None."
        )
    from vicinal.engines.cuda.arrays import uploaded

    return uploaded(X, device, type(owner).__name__)
