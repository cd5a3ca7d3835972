"""Maps from rows to embedded points; each returns its own pull-back.

``Z, pull = mapping.forward(theta, X)`` and ``dtheta = pull(dZ)``, with ``theta`` flat and X a
:class:`vicinal._features.Features`.
"""

from __future__ import annotations

from typing import Any

from vicinal.core.types import Map
from vicinal.maps.linear import Diagonal, Linear
from vicinal.maps.simplex import Simplex, project_columns

__all__ = ["Diagonal", "Linear", "Simplex", "project_columns", "resolve"]


def resolve(mapping: Any, n_components: int, owner: str = "NCA") -> Map:
    """The map of a name ("linear", "diagonal"), or the map itself."""
    if isinstance(mapping, str) and mapping == "linear":
        return Linear(n_components)
    if isinstance(mapping, str) and mapping == "diagonal":
        return Diagonal()
    # A class has the attributes of its instances, but is no map: call it.
    if isinstance(mapping, Map) and not isinstance(mapping, type):
        return mapping
    raise ValueError(
        f"The 'mapping' parameter of {owner} must be 'linear', 'diagonal' or a map. "
        f"Got {mapping!r} instead."
    )
