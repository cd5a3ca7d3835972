"""Pictures: displays of fitted estimators, scatter plots, animations, curves.

Needs matplotlib, which is imported when a figure is made: ``pip install matplotlib``.
"""

from vicinal._public import listing as _listing
from vicinal.plotting._accuracy import AccuracyDisplay
from vicinal.plotting._animation import animate
from vicinal.plotting._convergence import ConvergenceDisplay
from vicinal.plotting._embedding import EmbeddingDisplay, before_after, scatter
from vicinal.plotting._metric import MetricDisplay
from vicinal.plotting._neighbours import NeighborsDisplay
from vicinal.plotting._quality import EmbeddingQualityDisplay, embedding_quality
from vicinal.plotting._regions import DecisionRegionsDisplay

__all__ = [
    "AccuracyDisplay",
    "ConvergenceDisplay",
    "DecisionRegionsDisplay",
    "EmbeddingDisplay",
    "EmbeddingQualityDisplay",
    "MetricDisplay",
    "NeighborsDisplay",
    "animate",
    "before_after",
    "embedding_quality",
    "scatter",
]
__dir__ = _listing(__name__)
