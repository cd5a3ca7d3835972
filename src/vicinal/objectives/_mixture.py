"""How NCA mixes the kernel density of each class with another distribution (a background)."""

from __future__ import annotations

from typing import Any, Protocol

from vicinal.core.types import Array
from vicinal.engines.base import Data
from vicinal.targets import Labels


class Mixture(Protocol):
    """Terms added to an engine's sums over the other classes [0] and over the own class [1]."""

    #: set by `join`: the kernels' share of each sum, (2, n_queries)
    kernel_share: Array

    def join(self, rest: Array, base: Array) -> tuple[Array, Array]:
        """Add the terms to the sums ``2**(rest + base)``, (2, n_queries); same form returned."""
        ...

    def pull(self, slopes: Array) -> Array:
        """Gradient (n, d) through the terms, from the derivatives by the log of the joint sums."""
        ...


class Background(Protocol):
    """A distribution for each class, mixed with the kernel density of its rows."""

    def shares(self, n_classes: int, owner: str) -> Array:
        """Its mixing weight in each class, in [0, 1); the kernels have the rest."""
        ...

    def mixture(
        self,
        data: Data,
        labels: Labels,
        weight: Array,
        class_mass: Array,
        others: Array,
        unit: float,
    ) -> Mixture:
        """Its terms at the queries of ``data``.

        ``class_mass`` is the weight of the references of each class, ``others`` the weight of each
        query's own class without the query; terms must be multiplied by ``2**unit``.
        """
        ...


def as_background(background: Any) -> Background | None:
    """Return an object that has ``mixture`` unchanged; take an array as shares of normals."""
    if background is None or hasattr(background, "mixture"):
        return background
    from vicinal.objectives.background import NormalBackground

    return NormalBackground(background)
