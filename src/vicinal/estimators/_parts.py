"""What the parameters of an estimator stand for, once the number of features is known."""

from __future__ import annotations

from typing import Any, NamedTuple

from vicinal import maps, starts
from vicinal._validation import check_number, warn
from vicinal.core.cost import Size
from vicinal.core.types import Map
from vicinal.estimators._plan import Plan, make_plan

__all__ = ["SINGLE_FROM", "Parts", "leaves_open", "resolve_parts"]

_DEFAULT_COMPONENTS = 32
SINGLE_FROM = 1000  # rows from which travelling in float32 pays for compiling it


class Parts(NamedTuple):
    """The map and its rank, where to start, and the way down."""

    mapping: Map
    d: int
    start: Any
    plan: Plan


def leaves_open(owner: Any, name: str) -> bool:
    """Whether a parameter is "auto", to be settled by a search."""
    value = getattr(owner, name)
    return isinstance(value, str) and value == "auto"


def resolve_parts(owner: Any, n: int, n_features: int, sparse: bool) -> Parts:
    """What the parameters of an estimator stand for, on data of this size."""
    name = type(owner).__name__
    start = starts.resolve(owner.init, name)
    mapping, d = _mapping(owner, n_features, start)
    widest = d
    if isinstance(start, starts.Annealing):
        widest = max(d, start.n_rows(1 if leaves_open(owner, "n_components") else d, n_features))
    itemsize = 4 if n >= SINGLE_FROM else 8
    size = Size(n, n_features, widest, itemsize, not sparse, owner._work())
    return Parts(mapping, d, start, make_plan(owner, owner._kernel(), size))


def _mapping(owner: Any, n_features: int, start: Any) -> tuple[Map, int]:
    """The map and its rank (the largest to be tried, where that is "auto")."""
    name = type(owner).__name__
    mapping = maps.resolve(owner.mapping, n_features, name)
    if isinstance(mapping, maps.Diagonal):
        check_number(owner, "n_components", 1, integer=True, or_else=(None,))
        if owner.n_components not in (None, n_features):
            warn(
                f"n_components={owner.n_components} has no effect on a diagonal map: it has "
                f"one component for each of the {n_features} features."
            )
        return mapping, n_features
    by_name = isinstance(owner.mapping, str)
    others = (None, "auto") if by_name else (None,)
    check_number(owner, "n_components", 1, n_features, integer=True, or_else=others)
    if leaves_open(owner, "n_components") and isinstance(start, starts.Given):
        raise ValueError(
            f"The 'n_components' parameter of {name} must be an int where 'init' is an array. "
            "Got 'auto' instead."
        )
    if by_name:
        d = min(n_features, _DEFAULT_COMPONENTS)
        if owner.n_components is not None and not leaves_open(owner, "n_components"):
            d = int(owner.n_components)
        return maps.resolve(owner.mapping, d, name), d
    d = getattr(mapping, "n_components", owner.n_components or n_features)
    if d > n_features or owner.n_components not in (None, d):
        raise ValueError(
            f"The 'mapping' parameter of {name} must have n_components="
            f"{owner.n_components or f'1..{n_features}'}. Got {mapping!r} instead."
        )
    return mapping, d
