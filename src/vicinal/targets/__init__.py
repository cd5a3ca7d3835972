"""What an objective is told to reach: class labels with masses and priors, target neighbours."""

from vicinal.targets.labels import Labels
from vicinal.targets.neighbours import TargetNeighbours

__all__ = ["Labels", "TargetNeighbours"]
