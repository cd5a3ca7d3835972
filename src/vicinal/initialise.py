"""Starts for the optimisation: first maps from the data, and their scale."""

from vicinal._public import listing as _listing
from vicinal.starts import *  # noqa: F403
from vicinal.starts import __all__ as _starts
from vicinal.starts.annealing import Annealing

__all__ = ["Annealing", *_starts]
__dir__ = _listing(__name__)
