"""How another distribution of each class plugs into NCA, beside the kernels of its rows."""

from __future__ import annotations

from typing import Any, Protocol

from vicinal._plugins import load
from vicinal.core.types import Array
from vicinal.engines.base import Data
from vicinal.targets import Labels

__all__ = ["Background", "Mixture", "as_background"]


class Mixture(Protocol):
    """Terms beside an engine's sums over the other classes [0] and the own class [1]."""

    #: after `join`: share of the kernels in each sum, (2, n_queries)
    kernel_share: Array

    def join(self, rest: Array, base: Array) -> tuple[Array, Array]:
        """log2 of the sums ``2**(rest + base)``, (2, n_queries), with the terms added: alike."""
        ...

    def pull(self, slopes: Array) -> Array:
        """Gradient (n, d) through the terms, of slopes by the logarithms of the joint sums."""
        ...


class Background(Protocol):
    """A distribution of each class beside the kernels of its rows."""

    def shares(self, n_classes: int, owner: str) -> Array:
        """Its share in each class, in [0, 1); the kernels have the rest."""
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
        """Its terms at the queries of some points.

        ``class_mass`` is the weight of the references of each class, ``others`` that of each
        query's own class without the query; terms are to be multiplied by ``2**unit``.
        """
        ...


def as_background(background: Any) -> Background | None:
    """An object with a mixture as it is; shares are those of normal distributions."""
    if background is None or hasattr(background, "mixture"):
        return background
    return load("vicinal.extras.background:NormalBackground")(background)
