"""Which pairs an objective sums over: from embedded points to candidate lists.

A neighbourhood is a small frozen dataclass with ``pairs(Z, codes, references, random_state)`` and
``refresh``, the number of iterations for which its result is used (None: always).  Neighbours
change as a map is learnt, so lists are refreshed from time to time; :func:`mass_left_out` measures
what they miss.

>>> import numpy as np
>>> from vicinal.neighborhoods import Nearest
>>> Nearest(m=1).pairs(np.array([[0.0], [1.0], [3.0]]), np.array([0, 0, 0])).indices
array([1, 0, 1], dtype=int32)
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, runtime_checkable

from vicinal._public import listing as _listing
from vicinal._validation import part_of
from vicinal.core.types import Array
from vicinal.neighborhoods.left_out import LeftOut, mass_left_out, sets_left_out
from vicinal.neighborhoods.parts import Nearest, RandomPairs, Tree
from vicinal.neighborhoods.targets import target_neighbors

__all__ = [
    "LeftOut",
    "Nearest",
    "Neighborhood",
    "RandomPairs",
    "Tree",
    "mass_left_out",
    "resolve",
    "sets_left_out",
    "target_neighbors",
]
__dir__ = _listing(__name__)


@runtime_checkable
class Neighborhood(Protocol):
    """Makes the ``pairs`` of an objective from embedded points.

    ``makes_lists`` means that these are lists of candidates, refreshed every ``refresh``
    iterations; ``draws`` means that the lists are random samples; ``exact`` means that the sums are
    those over all pairs, wherever they are computed.  What it holds is part of the fitted
    estimator, so it must be settings alone: no device, no client and no thread.
    """

    makes_lists: ClassVar[bool]
    draws: ClassVar[bool]
    exact: ClassVar[bool]

    @property
    def refresh(self) -> int | None: ...

    def pairs(
        self,
        Z: Array,
        codes: Array | None,
        references: Array | None = None,
        random_state: Any = None,
    ) -> Any: ...


_BY_NAME: dict[str, type[Any]] = {"nearest": Nearest, "random": RandomPairs, "tree": Tree}


def resolve(
    neighborhood: str | Neighborhood, owner: str = "NCA", trees: bool = True
) -> Neighborhood | None:
    """Turn a name into the neighbourhood with its default parameters; return others as they are.

    Parameters
    ----------
    neighborhood : str or Neighborhood
        "all", "nearest", "random", "tree", or a neighbourhood such as ``Nearest(m=50)``.
    owner : str
        The estimator named in the error message.
    trees : bool, default=True
        False refuses "tree" and :class:`Tree`.

    Returns
    -------
    Neighborhood or None
        None for "all".

    Raises
    ------
    ValueError
        If ``neighborhood`` is an unknown name, or a tree although ``trees`` is False.
    TypeError
        If ``neighborhood`` is neither a name nor a neighbourhood (call a class to make one).
    """
    names: dict[str, Any] = {"all": lambda: None, **_BY_NAME}
    if not trees and (neighborhood == "tree" or isinstance(neighborhood, Tree)):
        raise ValueError(
            f"The 'neighborhood' parameter of {owner} must be 'auto', 'all', 'nearest' or 'random' "
            "or a neighbourhood that makes lists: trees need an objective that sums a function of "
            f"the distance. Got {neighborhood!r} instead."
        )
    if not trees:
        del names["tree"]
    example = "neighbourhood such as Nearest(m=50)"
    return part_of(neighborhood, names, Neighborhood, "neighborhood", owner, example)
