"""Starts for the optimisation: first maps from the data, and their scale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vicinal._public import listing as _listing
from vicinal.starts.bins import (
    AutoBins,
    BinGroups,
    BinIdentity,
    BinStart,
    GivenBins,
    RandomBins,
    resolve_bins,
)
from vicinal.starts.first import (
    FirstMap,
    base_scale,
    first_map,
    n_starts,
    repair_scale,
    scale_start,
)
from vicinal.starts.spectral import Scatter, scatter
from vicinal.starts.starts import (
    LDA,
    PCA,
    RCA,
    Auto,
    Given,
    Identity,
    Random,
    Start,
    Whiten,
    resolve,
)

if TYPE_CHECKING:
    from vicinal.starts.annealing import Annealing

__all__ = [
    "LDA",
    "PCA",
    "RCA",
    "Annealing",
    "Auto",
    "AutoBins",
    "BinGroups",
    "BinIdentity",
    "BinStart",
    "FirstMap",
    "Given",
    "GivenBins",
    "Identity",
    "Random",
    "RandomBins",
    "Scatter",
    "Start",
    "Whiten",
    "base_scale",
    "first_map",
    "n_starts",
    "repair_scale",
    "resolve",
    "resolve_bins",
    "scale_start",
    "scatter",
]
__dir__ = _listing(__name__)


def __getattr__(name: str) -> Any:
    """Annealing, which is imported on first use."""
    if name != "Annealing":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from vicinal.starts import annealing

    return annealing.Annealing
