"""Engines for points on a GPU: Triton's kernels where they are, otherwise blocks of torch.

The functions are those of `base.Backend`.  What is missing here is refused by `__getattr__`, by
name: nothing is computed on the CPU instead.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch

from vicinal.core.types import Array, Pairs
from vicinal.densities import Gaussian, Kernel
from vicinal.engines.base import ChargedSums, ClassSums, Data, MatchSums, SetSums, Votes
from vicinal.engines.cuda import SETS_UP_TO, blocked
from vicinal.engines.cuda.arrays import DeviceArray
from vicinal.engines.cuda.layout import padded_rows
from vicinal.targets import Affinities

_PADDED = 16384  # rows of padding that cost little
#: largest coordinate for kernels, in which padding lies beyond
LARGEST = 1e12

_MISSING = {
    "margins": "margins (LMNN)",
    "set_potential": "the placing of new rows (KSNE)",
    "entropies": "effective numbers of neighbours",
}


def __getattr__(name: str) -> Any:
    if name in _MISSING:
        raise NotImplementedError(
            f"There is no engine for {_MISSING[name]} on a GPU. Use device=None, or X.cpu() for a "
            "tensor."
        )
    raise AttributeError(name)


def uses_triton(device: torch.device) -> bool:
    """Whether kernels run there; on the CPU only in Triton's interpreter, for tests."""
    if find_spec("triton") is None:
        return False
    return device.type == "cuda" or os.environ.get("TRITON_INTERPRET") == "1"


def engine_name(device: torch.device) -> str:
    """What computes there, for a plan."""
    return "Triton kernels" if uses_triton(device) else "blocks of torch, without Triton"


def _check(pairs: Any, kernel: Kernel) -> None:
    if pairs is not None:
        raise NotImplementedError(
            "There are no lists of pairs or trees on a GPU, which compares all pairs. Use "
            "neighborhood='all', or device=None."
        )
    if not kernel.reaches_everywhere:
        raise NotImplementedError(
            f"There is no engine for the compact kernel on a GPU. Got {kernel!r}. Use "
            "kernel='gaussian', or device=None."
        )


def class_sums(data: Data, kernel: Kernel, pairs: Pairs | None = None) -> ClassSums:
    """See `base.Backend`."""
    _check(pairs, kernel)
    Z: Any = data.Z
    if uses_triton(Z.tensor.device) and len(data.query_rows) and _suits(data):
        from vicinal.engines.cuda import class_sums as direct
        from vicinal.engines.cuda import dots

        d = Z.shape[1]
        if direct.DIRECT_UP_TO < d <= dots.DOTS_UP_TO and Z.dtype == np.float32:
            engine = dots.DotSums(data, kernel)
            if engine.suits:
                return engine
        if d <= direct.DIFFERENCES_UP_TO:
            return direct.TritonSums(data, kernel)
    return blocked.BlockedSums(data, kernel, blocked.class_matches(data, Z))


def _suits(data: Data) -> bool:
    """Whether points are far from padding, and tiles of one class would not be mostly padding."""
    rows, where = data.reference_rows, data.Z
    if not where.extent <= LARGEST:
        return False
    found = where.remembered("padded", (data.codes, rows), lambda: padded_rows(data.codes[rows]))
    return found <= 2 * len(rows) + _PADDED


def joint_sums(data: Data, kernel: Kernel) -> ClassSums:
    """As one class."""
    return class_sums(data._replace(codes=np.zeros_like(data.codes)), kernel)


def match_sums(data: Data, target: Any, kernel: Kernel, pairs: Pairs | None = None) -> MatchSums:
    """See `base.Backend`; in blocks of torch."""
    _check(pairs, kernel)
    Z: Any = data.Z
    return blocked.BlockedSums(data, kernel, blocked.soft_matches(data, target, Z))


def charged_sums(
    data: Data, charges: Array, kernel: Kernel, pairs: Pairs | None = None
) -> ChargedSums:
    """See `base.Backend`."""
    _check(pairs, kernel)
    Z: Any = data.Z
    if uses_triton(Z.tensor.device) and len(data.query_rows) and Z.extent <= LARGEST:
        from vicinal.engines.cuda import charged

        few = charges.shape[1] <= charged.CHARGES_UP_TO
        if few and data.Z.shape[1] <= charged.DIFFERENCES_UP_TO:
            return charged.TritonMeans(data, charges, kernel)
    return blocked.BlockedMeans(data, charges, kernel)


def votes(data: Data, k: int, unanimous: bool, pairs: Pairs | None = None) -> Votes:
    """See `base.Backend`."""
    _check(pairs, Gaussian())
    _check_sets(data.Z, k)
    from vicinal.engines.cuda.votes import TritonVotes

    return TritonVotes(data, k, unanimous)


def _check_sets(Z: Any, k: int) -> None:
    """Refuse sets for which there is no kernel."""

    def refuse(what: str, remedy: str) -> None:
        raise NotImplementedError(
            f"There is no engine for sets of {what} on a GPU. Use {remedy}, or device=None."
        )

    if not uses_triton(Z.tensor.device):
        refuse("k neighbours without Triton", "pip install triton")
    from vicinal.engines.cuda.votes import DIMENSIONS_UP_TO

    if k > SETS_UP_TO:
        refuse(f"k={k} neighbours", f"k={SETS_UP_TO} or less")
    if Z.shape[1] > DIMENSIONS_UP_TO:
        refuse(f"neighbours in {Z.shape[1]} dimensions", f"n_components={DIMENSIONS_UP_TO} or less")
    if not Z.extent <= LARGEST:
        refuse(f"points as far apart as {Z.extent:g}", "a smaller scale")


def attraction(
    Z: DeviceArray,
    target: Affinities,
    kernel: str,
    kappa: float,
    rows: tuple[Array, Array] | None = None,
    gradient: bool = True,
) -> tuple[float, DeviceArray | None]:
    """See `base.Backend`."""
    if kappa:
        raise NotImplementedError(
            f"There is no engine for kappa={kappa:g} of kSNE on a GPU. Use kappa=0, or device=None."
        )
    if rows is not None:
        raise NotImplementedError(
            "There is no engine for some queries or references of kSNE on a GPU. Use all rows, or "
            "device=None."
        )
    _check_sets(Z, target.k)
    from vicinal.engines.cuda import sets

    value, dZ = sets.attraction(Z, target, kernel)
    return value, dZ if gradient else None


def set_sums(
    Z: DeviceArray,
    k: int,
    kernel: str,
    kappa: float,
    query_rows: Array,
    reference_rows: Array,
    method: str = "auto",
) -> SetSums:
    """See `base.Backend`; by all pairs, "exact" in float64 and "auto" mostly in float32."""
    if method == "fft":
        raise NotImplementedError(
            "There is no engine for method='fft' on a GPU, which compares all pairs. Use "
            "method='auto', or device=None."
        )
    from vicinal.engines.cuda.sets import TritonSets

    return TritonSets(Z, k, kernel, query_rows, reference_rows, method == "exact")


def make_index(*_: Any) -> None:
    """No index: a few queries visit all references."""


def sums_by_class(
    Z: DeviceArray, data: Data, kernel: Kernel, n_classes: int, places: Array | None = None
) -> tuple[Array, Array]:
    """See `base.Backend`."""
    _check(None, kernel)
    if places is None and uses_triton(Z.tensor.device) and _suits(data):
        from vicinal.engines.cuda import posterior

        if posterior.suits(Z, n_classes):
            with torch.cuda.device_of(Z.tensor):
                return posterior.sums_by_class(Z, data, kernel, n_classes)
    return blocked.sums_by_class(Z, data, kernel, n_classes, places)


def leading_sums_by_class(
    Z: DeviceArray, data: Data, kernel: Kernel, n_classes: int
) -> tuple[Array, Array]:
    """With all digits of the points."""
    return sums_by_class(Z, data, kernel, n_classes)


def win_shares(
    Z: DeviceArray, Z_reference: DeviceArray, codes: Array, n_classes: int, k: int, unanimous: bool
) -> Array:
    """See `base.Backend`."""
    for points in (Z, Z_reference):
        _check_sets(points, k)
    from vicinal.engines.cuda import votes

    return votes.win_shares(Z, Z_reference, codes, n_classes, k, unanimous)


def kernel_means(
    Z: DeviceArray, Z_reference: DeviceArray, charges: Array, mass: Array | None, kernel: Kernel
) -> Array:
    """See `base.Backend`."""
    _check(None, kernel)
    n, m = len(Z_reference), len(Z)
    both = DeviceArray(torch.cat([Z_reference.tensor, Z.tensor.to(Z_reference.tensor.dtype)]))
    weight = np.ones(n + m)
    weight[:n] = 1.0 if mass is None else mass
    rows = np.arange(n + m)
    data = Data(both, np.zeros(n + m, int), weight, rows[n:], rows[:n])
    padded = np.concatenate([charges, np.zeros((m, charges.shape[1]))])
    return blocked.BlockedMeans(data, padded, kernel).sums().means
