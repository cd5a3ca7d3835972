"""Starting points of the optimisation: first maps from the data, and their scale."""

from __future__ import annotations

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

__all__ = [
    "LDA",
    "PCA",
    "RCA",
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
