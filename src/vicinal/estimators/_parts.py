"""What the parameters of an estimator stand for, once the number of features is known."""

from __future__ import annotations

from typing import Any, NamedTuple

from vicinal import initialise, maps, solvers
from vicinal._types import Map, Solver
from vicinal._validation import check_number, warn

__all__ = ["Parts", "leaves_open", "resolve_parts"]

_DEFAULT_COMPONENTS = 32


class Parts(NamedTuple):
    """The map and its rank, where to start, and how to descend."""

    mapping: Map
    d: int
    start: Any
    solver: Solver


def leaves_open(owner: Any, name: str) -> bool:
    """Whether a parameter is "auto", to be settled by a search."""
    value = getattr(owner, name)
    return isinstance(value, str) and value == "auto"


def resolve_parts(owner: Any, n_features: int) -> Parts:
    """What the parameters of an estimator stand for, on this many features."""
    name = type(owner).__name__
    mapping = maps.resolve(owner.mapping, n_features, name)
    start, solver = initialise.resolve(owner.init, name), solvers.resolve(owner.solver, name)
    if isinstance(mapping, maps.Diagonal):
        check_number(owner, "n_components", 1, integer=True, or_else=(None,))
        if owner.n_components not in (None, n_features):
            warn(
                f"n_components={owner.n_components} has no effect on a diagonal map: it has "
                f"one component for each of the {n_features} features."
            )
        return Parts(mapping, n_features, start, solver)
    by_name = isinstance(owner.mapping, str)
    others = (None, "auto") if by_name else (None,)
    check_number(owner, "n_components", 1, n_features, integer=True, or_else=others)
    if leaves_open(owner, "n_components") and isinstance(start, initialise.Given):
        raise ValueError(
            f"The 'n_components' parameter of {name} must be an int where 'init' is an array. "
            "Got 'auto' instead."
        )
    if by_name:
        d = min(n_features, _DEFAULT_COMPONENTS)
        if owner.n_components is not None and not leaves_open(owner, "n_components"):
            d = int(owner.n_components)
        return Parts(maps.resolve(owner.mapping, d, name), d, start, solver)
    d = getattr(mapping, "n_components", owner.n_components or n_features)
    if d > n_features or owner.n_components not in (None, d):
        raise ValueError(
            f"The 'mapping' parameter of {name} must have n_components="
            f"{owner.n_components or f'1..{n_features}'}. Got {mapping!r} instead."
        )
    return Parts(mapping, d, start, solver)
