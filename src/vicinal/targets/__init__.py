"""Targets of objectives: labels, distributions, numbers, matches, neighbours, affinities, pairs."""

from vicinal._public import listing as _listing
from vicinal.targets.affinities import Affinities
from vicinal.targets.constraints import pairs_from_labels, quadruplets_from_labels
from vicinal.targets.distributions import LabelDistributions
from vicinal.targets.labels import Labels
from vicinal.targets.matches import Matches
from vicinal.targets.near_numbers import NearNumbers
from vicinal.targets.neighbours import TargetNeighbors
from vicinal.targets.numbers import Numbers
from vicinal.targets.pairs import PairWeights

__all__ = [
    "Affinities", "LabelDistributions", "Labels", "Matches", "NearNumbers",
    "Numbers", "PairWeights", "TargetNeighbors",
    "pairs_from_labels", "quadruplets_from_labels",
]  # fmt: skip
__dir__ = _listing(__name__)
