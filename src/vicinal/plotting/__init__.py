"""Pictures of embedded rows: scatter plots, animations, and curves of how faithful they are.

Needs matplotlib, which is imported when a figure is made: ``pip install matplotlib``.
"""

from vicinal._plugins import listing as _listing
from vicinal.plotting._animation import animate
from vicinal.plotting._quality import embedding_quality
from vicinal.plotting._scatter import before_after, scatter

__all__ = ["animate", "before_after", "embedding_quality", "scatter"]
__dir__ = _listing(__name__)
