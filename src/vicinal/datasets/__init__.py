"""Data to learn from: named sets, from a folder, scikit-learn or OpenML, and synthetic ones.

``load`` and ``available`` find the named sets; each ``make_*`` draws rows on which one thing that
metric learning can do, or cannot, is plain to see.
"""

from vicinal.datasets._load import available, load
from vicinal.datasets._synthetic import make_histograms, make_rings, make_stripes

__all__ = ["available", "load", "make_histograms", "make_rings", "make_stripes"]
