"""Data sets: named ones from a folder, scikit-learn or OpenML, and synthetic ones.

``load`` and ``available`` find the named sets.  Each ``make_*`` draws rows that show clearly one
thing that metric learning can or cannot do.
"""

from vicinal._public import listing as _listing
from vicinal.datasets._load import available, load
from vicinal.datasets._synthetic import make_histograms, make_rings, make_stripes

__all__ = ["available", "load", "make_histograms", "make_rings", "make_stripes"]
__dir__ = _listing(__name__)
