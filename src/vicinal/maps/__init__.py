"""Maps from rows to embedded points, each with its pull-back.

``Z, pull = mapping.forward(theta, X)`` and ``dtheta = pull(dZ)``, with ``theta`` flat and X a
:class:`vicinal._features.Features`.
"""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np

from vicinal._public import listing as _listing
from vicinal._validation import check_number, warn
from vicinal.core.types import Map, is_auto
from vicinal.maps.bins import Bins
from vicinal.maps.linear import Diagonal, Linear, Points, Positions, Simplex, project_columns
from vicinal.maps.mlp import MLP
from vicinal.maps.periodic import Periodic

if TYPE_CHECKING:
    from vicinal.torch.maps import TorchMap

__all__ = [
    "MLP",
    "Bins",
    "Diagonal",
    "Linear",
    "Periodic",
    "Points",
    "Positions",
    "Simplex",
    "TorchMap",
    "bends",
    "check_start",
    "given_rank",
    "project_columns",
    "resolve",
    "resolve_rank",
]
__dir__ = _listing(__name__)

_DEFAULT_COMPONENTS = 32


def __getattr__(name: str) -> Any:
    """`TorchMap`, which is imported on first use."""
    if name != "TorchMap":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from vicinal.torch import maps

    return maps.TorchMap


def resolve(
    mapping: Any, n_components: int, owner: str = "NCA", others: tuple[str, ...] = ()
) -> Map:
    """The map with a name ("linear", "diagonal", "periodic", "bins"), or the map itself.

    A map that has no ``n_components`` yet gets them elsewhere, by its ``with_rank``.

    ``others`` are further names that the owner accepts, for the error message.
    """
    if isinstance(mapping, str) and mapping == "linear":
        return Linear(n_components)
    if isinstance(mapping, str) and mapping == "diagonal":
        return Diagonal()
    if isinstance(mapping, str) and mapping == "periodic":
        return Periodic(n_components=n_components)
    if isinstance(mapping, str) and mapping == "bins":
        return Bins(n_components=n_components)
    # A class has the attributes of its instances, but is not a map.
    if isinstance(mapping, Map) and not isinstance(mapping, type):
        return mapping
    names = ", ".join(map(repr, (*others, "linear", "diagonal", "periodic", "bins")))
    near = hasattr(mapping, "forward") and not isinstance(mapping, type)
    inherits = " that inherits vicinal.core.types.Map" if near else ""
    raise ValueError(
        f"The 'mapping' parameter of {owner} must be {names} or a map{inherits}. "
        f"Got {mapping!r} instead."
    )


def bends(mapping: Any) -> bool:
    """Whether a map is not linear."""
    return mapping.components is None


def given_rank(start: Any, most: float) -> int | None:
    """The rank of a start that is an array; None for other starts, and for what is no map."""
    shape = np.shape(getattr(start, "array", ()))
    return int(shape[0]) if len(shape) == 2 and 1 <= shape[0] <= most else None


def check_start(estimator: Any, mapping: Any) -> None:
    """Refuse a start for a map that has its own: no matrix could give its parameters."""
    if mapping.theta is not None or mapping.start_from is not None:
        return
    default = signature(type(estimator)).parameters["init"].default
    if not (isinstance(estimator.init, str) and estimator.init == default):
        raise ValueError(
            f"The 'init' parameter of {type(estimator).__name__} must be {default!r}, its default, "
            f"if 'mapping' is {mapping!r}, which has its own start. Got {estimator.init!r} instead."
        )


def resolve_rank(estimator: Any, n_features: int, start: Any) -> tuple[Map, int]:
    """The map of an estimator and its rank (for "auto": the largest candidate)."""
    name, asked = type(estimator).__name__, estimator.n_components
    mapping: Any = resolve(estimator.mapping, n_features, name)
    check_start(estimator, mapping)
    if mapping.weights_columns:
        if hasattr(start, "around"):
            raise ValueError(
                f"The 'init' parameter of {name} must be another start if 'mapping' is "
                f"{estimator.mapping!r}, which has no rows to remove. Got {estimator.init!r} "
                "instead."
            )
        check_number(estimator, "n_components", 1, integer=True, or_else=(None,))
        if asked not in (None, n_features):
            warn(
                f"n_components={asked} has no effect on a diagonal map: it has "
                f"one component for each of the {n_features} features."
            )
        return mapping, n_features
    fixed = None if isinstance(estimator.mapping, str) else mapping.rank
    growing = mapping.with_rank is not None and fixed is None
    most = np.inf if bends(mapping) else n_features
    others = (None, "auto") if growing else (None,)
    check_number(estimator, "n_components", 1, most, integer=True, or_else=others)
    if is_auto(asked) and hasattr(start, "array"):
        raise ValueError(
            f"The 'n_components' parameter of {name} must be an int if 'init' is an array. "
            "Got 'auto' instead."
        )
    if growing:
        d = min(n_features, _DEFAULT_COMPONENTS)
        if asked is not None and not is_auto(asked):
            d = int(asked)
        else:
            d = given_rank(start, most) or d
        return mapping.with_rank(d), d
    d = asked or n_features if fixed is None else fixed
    if d > most or asked not in (None, d):
        raise ValueError(
            f"The 'mapping' parameter of {name} must have n_components="
            f"{asked or f'1..{n_features}'}. Got {mapping!r} instead."
        )
    return mapping, d
