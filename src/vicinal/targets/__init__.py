"""Targets of an objective: class labels with weights and priors, target neighbours."""

from vicinal._plugins import listing as _listing
from vicinal.targets.labels import Labels
from vicinal.targets.neighbours import TargetNeighbours

__all__ = ["Labels", "TargetNeighbours"]
__dir__ = _listing(__name__)
