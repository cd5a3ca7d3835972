"""Affinities of rows, the target of kSNE: neighbours, weights by the perplexity, sets of k."""

from vicinal._public import listing as _listing
from vicinal.affinities.build import NewAffinities, affinities, new_affinities

__all__ = ["NewAffinities", "affinities", "new_affinities"]
__dir__ = _listing(__name__)
