"""Targets of an objective: class labels with weights and priors, target neighbours, affinities."""

from vicinal._plugins import listing as _listing
from vicinal.targets.affinities import Affinities
from vicinal.targets.build import affinities
from vicinal.targets.labels import Labels
from vicinal.targets.neighbours import TargetNeighbours

__all__ = ["Affinities", "Labels", "TargetNeighbours", "affinities"]
__dir__ = _listing(__name__)
