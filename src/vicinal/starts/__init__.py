"""Starting points of the optimisation: first maps from the data, and their scale."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vicinal.starts.bins import (
    AutoBins,
    BinGroups,
    BinIdentity,
    BinStart,
    GivenBins,
    RandomBins,
)
from vicinal.starts.first import FirstMap, base_scale, repair_scale, scale_start
from vicinal.starts.scatter import Scatter, scatter
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


def _annealing() -> Any:
    from vicinal.starts.annealing import Annealing

    return Annealing()


_NAMES: dict[str, Callable[[], Any]] = {
    "auto": Auto,
    "identity": Identity,
    "lda": LDA,
    "pca": PCA,
    "random": Random,
    "rca": RCA,
    "whiten": Whiten,
    "annealing": _annealing,
}


_BIN_NAMES: dict[str, Callable[[], Any]] = {
    "auto": AutoBins,
    "groups": BinGroups,
    "identity": BinIdentity,
    "random": RandomBins,
}


def resolve(init: Any, owner: str = "NCA") -> Any:
    """Turn the value of an ``init`` parameter into a start.

    Parameters
    ----------
    init : str, Start or array-like of shape (d, D)
        A name, a start with its own parameters, or the map itself.
    owner : str, default="NCA"
        The estimator to name in an error.

    Returns
    -------
    Start
        Or an object with a method ``around(first)``, which wraps a `FirstMap`.
    """
    if hasattr(init, "around") and not isinstance(init, type):
        return init
    return _start_of(init, owner, _NAMES, Given, "RCA()")


def n_starts(start: Any) -> int:
    """How often a fit begins anew with a start, which may be any function."""
    return int(getattr(start, "n_init", 1))


def first_map(start: Any, *args: Any, **kwargs: Any) -> Any:
    """The function that makes the first parameters of a map from this start: see `FirstMap`."""
    first = FirstMap(start, *args, **kwargs)
    return start.around(first) if hasattr(start, "around") else first


def resolve_bins(init: Any, owner: str = "Chi2LMNN") -> BinStart:
    """Turn the value of an ``init`` parameter into a start for histograms.

    Parameters
    ----------
    init : str, BinStart or array-like of shape (r, D)
        A name, a start with its own parameters, or the map itself.
    owner : str, default="Chi2LMNN"
        The estimator to name in an error.

    Returns
    -------
    BinStart
    """
    return _start_of(init, owner, _BIN_NAMES, GivenBins, "BinGroups()")


def _start_of(
    init: Any,
    owner: str,
    names: dict[str, Callable[[], Any]],
    given: Callable[..., Any],
    example: str,
) -> Any:
    """The start for a name, a start or an array."""
    if isinstance(init, str) and init in names:
        return names[init]()
    if isinstance(init, (list, tuple)) or hasattr(init, "__array__"):
        return given(init, owner)
    if callable(init) and not isinstance(init, type):
        return init
    known = ", ".join(repr(name) for name in names)
    raise ValueError(
        f"The 'init' parameter of {owner} must be one of {known}, a start such as {example}, or an "
        f"array of shape (n_components, n_features). Got {init!r} instead."
    )
