"""Whole arrays of pairs in NumPy: the backend for small data, which compiles nothing.

The functions are those of `base.Backend`.  Candidate lists and interpolation on a grid have no
whole arrays, so they are left to the compiled loops.
"""

from __future__ import annotations

from typing import Any

from vicinal.core.types import Array, Pairs
from vicinal.densities import Kernel
from vicinal.engines.base import (
    ChargedSums,
    ClassSums,
    Data,
    Margins,
    MatchSums,
    SetPotential,
    SetSums,
    Triples,
    Votes,
)
from vicinal.engines.cpu import backend as cpu
from vicinal.engines.dense import margins as _margins
from vicinal.engines.dense.class_sums import DenseSums, entropies
from vicinal.engines.dense.class_sums import class_sums as sums_by_class
from vicinal.engines.dense.margins import simplex_columns
from vicinal.engines.dense.matches import DenseChargedSums, DenseMatchSums, kernel_means
from vicinal.engines.dense.potential import DensePotential
from vicinal.engines.dense.sets import DenseSets, attraction
from vicinal.engines.dense.votes import DenseVotes, win_shares

__all__ = [
    "attraction", "charged_sums", "chi2_rows", "class_sums", "entropies", "joint_sums",
    "kernel_means", "leading_sums_by_class", "make_index", "margins", "match_sums",
    "nearest_histograms", "set_potential", "set_sums", "simplex_columns", "sums_by_class",
    "votes", "win_shares",
]  # fmt: skip


def class_sums(data: Data, kernel: Kernel, pairs: Pairs | None = None) -> ClassSums:
    """See `base.Backend`."""
    return DenseSums(data, kernel) if pairs is None else cpu.class_sums(data, kernel, pairs)


def joint_sums(data: Data, kernel: Kernel) -> ClassSums:
    """In two parts, which is faster than one whole array."""
    return DenseSums(data, kernel)


def match_sums(data: Data, target: Any, kernel: Kernel, pairs: Pairs | None = None) -> MatchSums:
    """See `base.Backend`."""
    if pairs is not None:
        return cpu.match_sums(data, target, kernel, pairs)
    return DenseMatchSums(data, target, kernel)


def charged_sums(
    data: Data, charges: Array, kernel: Kernel, pairs: Pairs | None = None
) -> ChargedSums:
    """See `base.Backend`."""
    if pairs is not None:
        return cpu.charged_sums(data, charges, kernel, pairs)
    return DenseChargedSums(data, charges, kernel)


def votes(data: Data, k: int, unanimous: bool, pairs: Pairs | None = None) -> Votes:
    """See `base.Backend`."""
    return DenseVotes(data, k, unanimous) if pairs is None else cpu.votes(data, k, unanimous, pairs)


def margins(triples: Triples, candidates: Any = None) -> Margins:
    """Without ``candidates``: all pairs take less time than lists of them."""
    return _margins.DenseMargins(triples)


def make_index(Z: Array, codes: Array, rows: Array, kernel: Kernel, n_queries: int) -> None:
    """No index saves time on few rows."""


def set_sums(
    Z: Array, k: int, kernel: str, kappa: float, query_rows: Array, reference_rows: Array,
    method: str = "auto",
) -> SetSums:  # fmt: skip
    """See `base.Backend`."""
    if method == "fft":
        return cpu.set_sums(Z, k, kernel, kappa, query_rows, reference_rows, method)
    return DenseSets(Z, k, kernel, kappa, query_rows, reference_rows)


def set_potential(Z: Array, k: int, kernel: str, kappa: float) -> SetPotential:
    """See `base.Backend`."""
    return DensePotential(Z, k, kernel, kappa)


def leading_sums_by_class(
    Z: Array, data: Data, kernel: Kernel, n_classes: int
) -> tuple[Array, Array]:
    """All digits: on few references there is nothing to leave out."""
    return sums_by_class(Z, data, kernel, n_classes)


def chi2_rows(X: Array, Y: Array, same: bool) -> Array:
    """See `base.Backend`."""
    return _margins.chi2_rows(X, Y).astype(X.dtype, copy=False)


def nearest_histograms(X: Array, Y: Array, k: int, same: bool) -> tuple[Array, Array]:
    """See `base.Backend`."""
    distances, near = _margins.nearest_histograms(X, Y, k, same)
    return distances.astype(X.dtype, copy=False), near
