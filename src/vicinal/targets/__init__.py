"""Targets of an objective: class labels with weights and priors, target neighbours, affinities."""

from vicinal._plugins import listing as _listing
from vicinal.targets.affinities import Affinities
from vicinal.targets.build import affinities
from vicinal.targets.labels import Labels
from vicinal.targets.neighbours import TargetNeighbours
from vicinal.targets.new_rows import NewAffinities, new_affinities

__all__ = [
    "Affinities", "Labels", "NewAffinities", "TargetNeighbours", "affinities", "new_affinities",
]  # fmt: skip
__dir__ = _listing(__name__)
