"""Affinities of rows, the target of kSNE: neighbours, weights by the perplexity, sets of k."""

from vicinal._public import listing as _listing
from vicinal.affinities.build import affinities
from vicinal.affinities.new_rows import NewAffinities, new_affinities

__all__ = ["NewAffinities", "affinities", "new_affinities"]
__dir__ = _listing(__name__)
